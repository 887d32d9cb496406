//! Flow tables as a function of a packet's key and the rules' number, which decide both the matched fields
//! and the actions. The matched fields depend only on fields that are always matched, so flows never overlap.

use super::tunnels;
use base::{PortNo, RecircId, Zone};
use flow::{
    Action, ControllerAction, CtAction, DropReason, Field, FlowKey, Mask, Masked, Match, Nat,
    NatKind, NatRange, PortSelection, SetField,
};
use std::sync::Arc;

/// Fields that are always matched, and decide which others are.
const ALWAYS: [Field; 5] =
    [Field::InPort, Field::RecircId, Field::EthType, Field::NwProto, Field::NwFrag];
/// Fields, with masks, that some flows match.
const SOMETIMES: [(Field, u128); 10] = [
    (Field::NwTtl, 0xff),
    (Field::NwTos, 0x3),
    (Field::TcpFlags, 0x008),
    (Field::TpDst, 0x1),
    (Field::TpSrc, 0xffff),
    (Field::Ipv4Dst, 0xffff_fffe),
    (Field::Ipv6Src, 0x1),
    (Field::VlanTci, 0xffff),
    (Field::EthSrc, 0x1),
    (Field::VlanTpid, 0xffff),
];
/// Further fields that flows after connection tracking match.
const TRACKED: [(Field, u128); 4] =
    [(Field::CtState, 0xff), (Field::CtMark, 0x3), (Field::CtZone, 0xffff), (Field::CtLabel, 1)];

/// The rules: one number per class of packets, so that classes can change one by one.
#[derive(Clone, Debug)]
pub struct Policy {
    pub seed: u64,
    pub classes: [u32; 16],
    /// Whether there are tunnels.
    pub has_tunnels: bool,
}

fn mix(words: impl IntoIterator<Item = u128>) -> u64 {
    words.into_iter().fold(0x9e37_79b9_7f4a_7c15, |hash: u64, word| {
        let word = (word ^ (word >> 64)) as u64;
        (hash ^ word).wrapping_mul(0xff51_afd7_ed55_8ccd).rotate_left(31) ^ hash >> 17
    })
}

impl Policy {
    pub fn new(seed: u64) -> Policy {
        Policy { seed, classes: [0; 16], has_tunnels: false }
    }

    /// Returns the flow for a packet.
    pub fn translate(&self, key: &FlowKey) -> (Match, Arc<[Action]>) {
        let class = mix(ALWAYS.map(|field| key.get(field)));
        let number = self.classes[(class % 16) as usize];
        let class = mix([self.seed.into(), class.into(), number.into()]);
        let mut mask = Mask::new();
        ALWAYS.iter().for_each(|&field| mask.add(field));
        for (i, (field, bits)) in SOMETIMES.into_iter().enumerate() {
            if class >> (4 * i) & 7 == 0 {
                mask.add_bits(field, bits);
            }
        }
        let is_again = key.recirc_id() != RecircId(0);
        for (i, (field, bits)) in TRACKED.into_iter().enumerate() {
            if is_again && (i == 0 || class >> (40 + i) & 1 == 0) {
                mask.add_bits(field, bits);
            }
        }
        if self.has_tunnels {
            tunnels::look(key, class, &mut mask);
        }
        let matching = Match::new(key, &mask);
        // Hash only fields that are set, so that a new field changes no choice.
        let values = Field::BASIC.iter().map(|&field| matching.key().get(field));
        let words = values.filter(|&value| value != 0);
        let choice = mix(words.chain([class.into()]));
        if !self.has_tunnels {
            return (matching, self.actions(key, choice, is_again).into());
        }
        let actions = tunnels::opening(key, choice).unwrap_or_else(|| {
            tunnels::with_tunnels(self.actions(key, choice, is_again), key, choice)
        });
        (matching, actions.into())
    }

    fn actions(&self, key: &FlowKey, choice: u64, is_again: bool) -> Vec<Action> {
        let ip = matches!(key.eth_type(), 0x800 | 0x86dd);
        let port = key.in_port().0;
        let out = |shift: u32| Action::Output(PortNo(1 + ((choice >> shift) % 4) as u32));
        let across = Action::Output(PortNo(port ^ 1));
        let kind = choice >> 20 & 31;
        if !is_again && ip && kind < 22 {
            let again = Action::Recirc(RecircId(1 + (choice >> 30 & 1) as u32));
            let look = ct(choice, false);
            return match kind {
                0 if choice >> 31 & 1 == 0 => vec![look],
                0 => vec![look, across],
                1 => vec![ct(choice, true), across],
                2 => vec![Action::CtClear, look, again],
                3 => vec![look, Action::CtClear, again],
                4 => vec![look, ct(choice >> 7, false), again],
                5 => vec![set(Field::NwTos, 0x3, choice), look, again],
                6 => vec![look, again, across],
                7 => vec![again],
                8 => vec![across, look, again],
                9 => vec![Action::PushVlan { tpid: 0x8100, tci: 0x1005 }, again],
                _ => vec![look, again],
            };
        }
        let state = key.ct_state();
        let is_new = state.contains(flow::CtState::NEW);
        match kind {
            _ if is_again && is_new && kind < 24 => vec![ct(choice, true), across],
            22 if is_again && ip && choice >> 34 & 1 == 0 => {
                vec![Action::CtClear, ct(choice, false), Action::Recirc(RecircId(3))]
            }
            22 if is_again && ip => vec![Action::CtClear, Action::Recirc(RecircId(2))],
            23 | 24 if is_again && ip => vec![ct(choice, false), Action::Recirc(RecircId(3))],
            25 => vec![],
            26 => vec![Action::Drop(DropReason::NoBridge)],
            27 => vec![out(1), Action::Clone(Arc::new([set(Field::NwTtl, 9, 0), out(3)])), across],
            28 => vec![set(Field::NwTtl, choice.into(), 0), out(5)],
            29 => vec![Action::PushVlan { tpid: 0x8100, tci: 0x1007 }, out(7)],
            30 => vec![Action::PopVlan, set(Field::EthDst, choice.into(), 0), out(9)],
            31 if choice >> 33 & 1 == 0 => vec![controller(choice), out(11)],
            31 => vec![set(Field::TpDst, 90, 0), out(11)],
            _ => vec![across],
        }
    }
}

fn set(field: Field, value: u128, more: u64) -> Action {
    let mask = if field == Field::NwTos { 0x3 } else { field.all_ones() };
    Action::Set(SetField { field, value: (value + u128::from(more)) & mask, mask })
}

fn controller(choice: u64) -> Action {
    Action::Controller(ControllerAction {
        reason: 1,
        recirc_id: RecircId(0),
        rule_cookie: choice,
        controller_id: 0,
        max_len: 128,
        pauses: false,
    })
}

/// There are few zones, so that packets with different paths meet in one.
fn ct(choice: u64, commit: bool) -> Action {
    let address = |last: u8| std::net::IpAddr::from([20, 0, 0, last]);
    let zone = Zone(1 + (choice >> 12 & 1) as u16);
    // One zone uses NAT and the other does not, as in usual rule sets.
    let nat = match (zone.0, commit, choice >> 13 & 1) {
        (1, _, _) => None,
        (_, false, _) => Some(Nat::Restore),
        (_, true, 0) => Some(Nat::Rewrite(NatRange {
            kind: NatKind::Src,
            addresses: Some((address(1), address(3))),
            ports: None,
            selection: PortSelection::Default,
            persistent: false,
        })),
        (_, true, _) => Some(Nat::Rewrite(NatRange {
            kind: NatKind::Dst,
            addresses: Some((address(9), address(9))),
            ports: Some((7000, 7003)),
            selection: PortSelection::Hash,
            persistent: false,
        })),
    };
    let marks = commit || choice >> 50 & 7 == 0;
    Action::Ct(Box::new(CtAction {
        commit,
        force: commit && choice >> 16 & 7 == 0,
        zone,
        mark: (marks && choice >> 14 & 1 == 0)
            .then_some(Masked { value: (choice >> 53 & 3) as u32, mask: 3 }),
        label: (marks && choice >> 15 & 3 == 0).then_some(Masked { value: 1, mask: 1 }),
        nat,
        helper: None,
        timeout_policy: None,
    }))
}
