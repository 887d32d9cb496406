//! The optional parts of a rule, by which a device leaves packets to the switch.

use port_dpdk::flow_rule::{FlowRule, Item, L3_OK, L4_OK, RuleAction};
use std::time::Duration;

/// The maximum time of `AGE`.
const AGE_MAX_S: u32 = (1 << 24) - 1;

/// The optional parts of a rule.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Strictness {
    /// `INTEGRITY`: packets with wrong checksums or lengths are left to the switch.
    integrity: bool,
    /// `AGE`: the device reports idle rules.
    age: bool,
    /// The flags of `VXLAN` are compared: packets with extensions are left to the switch.
    vxlan_flags: bool,
}

impl Strictness {
    /// Returns all combinations, the strictest first.
    pub fn all(is_tunnelled: bool) -> impl Iterator<Item = Strictness> {
        const CHOICE: [bool; 2] = [true, false];
        let flags = if is_tunnelled { &CHOICE[..] } else { &CHOICE[..1] };
        CHOICE.into_iter().flat_map(move |integrity| {
            CHOICE.into_iter().flat_map(move |age| {
                flags.iter().map(move |&vxlan_flags| Strictness { integrity, age, vxlan_flags })
            })
        })
    }

    /// Returns those for rules whose packets a connection object checks, whose timeout the switch keeps.
    pub fn without_age() -> impl Iterator<Item = Strictness> {
        [true, false].into_iter().map(|integrity| Strictness {
            integrity,
            age: false,
            vxlan_flags: true,
        })
    }

    /// Adds these parts to a rule.
    pub fn apply(self, rule: &FlowRule, idle: Duration) -> FlowRule {
        let mut rule = rule.clone();
        for item in &mut rule.items {
            if let Item::Vxlan { compares_flags, .. } = item {
                *compares_flags = self.vxlan_flags;
            }
        }
        if self.integrity {
            let is_ip = |item: &&Item| matches!(item, Item::Ipv4(_) | Item::Ipv6(_));
            let levels = rule.items.iter().filter(is_ip).count() as u32;
            let bits = L3_OK | L4_OK;
            rule.items.extend((1..=levels).map(|level| Item::Integrity { level, bits }));
        }
        let timeout_s = idle.as_secs().saturating_add(u64::from(idle.subsec_nanos() > 0));
        if self.age
            && let Ok(timeout_s @ ..=AGE_MAX_S) = u32::try_from(timeout_s)
        {
            rule.actions.insert(1, RuleAction::Age { timeout_s });
        }
        rule
    }
}
