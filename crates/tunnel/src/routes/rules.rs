//! Policy rules: select the tables of a lookup, and their order, by the packet's source address (ip-rule(8)).

use super::table::masked;
use super::{TABLE_DEFAULT, TABLE_LOCAL, TABLE_MAIN};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The priorities of the standard rules (Linux: `net/ipv4/fib_rules.c`, `fib_default_rules_init`).
const PRIORITY_MAIN: u32 = 0x7ffe;
const PRIORITY_DEFAULT: u32 = 0x7fff;

/// A rule. Its family is that of its prefix.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rule {
    /// Rules apply in ascending order.
    pub priority: u32,
    /// Whether a command added it.
    pub is_user: bool,
    /// Whether it applies to sources outside the prefix (`ip rule add not`).
    pub is_inverted: bool,
    /// The prefix of source addresses.
    pub prefix: IpAddr,
    /// The length of the prefix in bits. With 0 the rule applies to all packets.
    pub len: u8,
    /// The table to search. If it has no route, the next rule applies.
    pub table: u32,
}

impl Rule {
    /// Returns whether the rule applies to packets with this source. Without one, the unspecified address is
    /// assumed.
    pub(super) fn is_for(&self, destination: IpAddr, source: Option<IpAddr>) -> bool {
        let unspecified = match destination {
            IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        };
        let source = source.unwrap_or(unspecified);
        let is_family =
            [destination, source].iter().all(|it| it.is_ipv4() == self.prefix.is_ipv4());
        let is_from = self.len == 0 || masked(source, self.len) == masked(self.prefix, self.len);
        is_family && is_from != self.is_inverted
    }
}

/// All rules, in the order in which they apply.
#[derive(Clone, Debug)]
pub(super) struct Rules(Vec<Rule>);

/// The standard rules.
impl Default for Rules {
    fn default() -> Self {
        let mut rules = Rules(Vec::new());
        rules.set_system(&[]);
        rules
    }
}

impl Rules {
    /// Replaces the system's rules. A family without rules gets the standard ones.
    pub fn set_system(&mut self, system: &[Rule]) {
        self.0.retain(|rule| rule.is_user);
        let families = [IpAddr::V4(Ipv4Addr::UNSPECIFIED), IpAddr::V6(Ipv6Addr::UNSPECIFIED)];
        for family in families {
            let told = system.iter().filter(|rule| rule.prefix.is_ipv4() == family.is_ipv4());
            let mut told: Vec<Rule> = told.cloned().collect();
            if told.is_empty() {
                told = standard(family);
            }
            self.0.extend(told);
        }
        self.0.sort_by_key(|rule| rule.priority);
    }

    pub fn iter(&self) -> impl Iterator<Item = &Rule> {
        self.0.iter()
    }

    pub fn add(&mut self, mut rule: Rule) {
        if rule.priority == 0 {
            rule.priority = self.free_priority();
        }
        let at = self.0.partition_point(|other| other.priority <= rule.priority);
        self.0.insert(at, rule);
    }

    pub fn remove(&mut self, rule: &Rule) -> bool {
        let is_it = |other: &Rule| {
            let priority = if rule.priority == 0 { other.priority } else { rule.priority };
            *other == Rule { priority, is_user: true, ..rule.clone() }
        };
        let found = self.0.iter().position(is_it);
        found.map(|at| self.0.remove(at)).is_some()
    }

    /// Returns the priority directly before the last rule that has a free one before it (ovs:
    /// `ovs_router_rule_add_cmd`).
    fn free_priority(&self) -> u32 {
        let (mut free, mut before) = (0, 0);
        for Rule { priority, .. } in &self.0 {
            if *priority > 0 && (free == 0 || priority - before > 1) {
                free = priority - 1;
            }
            before = *priority;
        }
        free
    }
}

/// Returns the standard rules of a family. IPv6 has no rule for the default table.
fn standard(family: IpAddr) -> Vec<Rule> {
    let mut tables = vec![(0, TABLE_LOCAL), (PRIORITY_MAIN, TABLE_MAIN)];
    if family.is_ipv4() {
        tables.push((PRIORITY_DEFAULT, TABLE_DEFAULT));
    }
    let rule = |(priority, table)| Rule {
        priority,
        is_user: false,
        is_inverted: false,
        prefix: family,
        len: 0,
        table,
    };
    tables.into_iter().map(rule).collect()
}
