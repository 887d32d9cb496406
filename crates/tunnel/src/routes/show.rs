//! Routes and rules as `ovs-appctl` prints them (ovs: `lib/ovs-router.c`, `ovs_router_show_text`,
//! `ovs_router_rules_show_text`).

use super::table::Table;
use super::{Route, Routes, Rule, TABLE_DEFAULT, TABLE_LOCAL, TABLE_MAIN};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// The tables that are shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Which {
    /// Those for the system's own addresses, for ordinary routes, and the default one.
    Standard,
    /// All.
    All,
    /// This one.
    One(u32),
}

const STANDARD_TABLES: [u32; 3] = [TABLE_LOCAL, TABLE_MAIN, TABLE_DEFAULT];

impl Routes {
    /// Returns tables as `ovs/route/show` prints them.
    pub fn show(&self, which: Which) -> String {
        let title = match which {
            Which::All => String::new(),
            Which::One(table) if name_of(table).is_none() => format!("Route Table #{table}:\n"),
            Which::Standard | Which::One(_) => "Route Table:\n".to_owned(),
        };
        Self::text(title, &self.listed(which), which == Which::All)
    }

    fn text(mut text: String, routes: &[(u32, &Route)], names_table: bool) -> String {
        for &(table, route) in routes {
            let cached = if route.is_user { "User" } else { "Cached" };
            // Writing to a string does not fail.
            let _ = write!(text, "{cached}: {}/{}", route.prefix, route.len);
            if route.mark != 0 {
                let _ = write!(text, " MARK {}", route.mark);
            }
            let _ = write!(text, " dev {}", route.device);
            if let Some(gateway) = route.gateway {
                let _ = write!(text, " GW {gateway}");
            }
            let _ = write!(text, " SRC {}", route.source);
            if table == TABLE_LOCAL && !route.is_user {
                text += " local";
            }
            if names_table && name_of(table).is_none() {
                let _ = write!(text, " table {table}");
            }
            text += "\n";
        }
        text
    }

    /// Returns the routes of the tables that `which` names, with their tables: one table after the other, and in each
    /// the longest prefixes first.
    pub fn listed(&self, which: Which) -> Vec<(u32, &Route)> {
        match which {
            Which::Standard => self.of_tables(&STANDARD_TABLES),
            Which::All => self.of_tables(&self.numbers()),
            Which::One(table) => self.of_tables(&[table]),
        }
    }

    fn numbers(&self) -> Vec<u32> {
        let numbers: BTreeSet<u32> = self.tables().flat_map(BTreeMap::keys).copied().collect();
        Vec::from_iter(numbers)
    }

    fn of_tables(&self, tables: &[u32]) -> Vec<(u32, &Route)> {
        let of_table = |number: u32| {
            let tables = self.tables().filter_map(move |tables| tables.get(&number));
            let mut routes: Vec<&Route> = tables.flat_map(Table::iter).collect();
            routes.sort_by_key(|it| {
                (it.prefix.is_ipv6(), Reverse(it.len), it.is_user, it.prefix, Reverse(it.mark))
            });
            routes.into_iter().map(move |route| (number, route))
        };
        tables.iter().copied().flat_map(of_table).collect()
    }

    /// Returns the rules of IPv4 or IPv6 as `ovs/route/rule/show` prints them.
    pub fn show_rules(&self, is_ipv4: bool) -> String {
        self.listed_rules(is_ipv4).map(line).collect()
    }

    /// Returns the rules of IPv4 or IPv6, in their order.
    pub fn listed_rules(&self, is_ipv4: bool) -> impl Iterator<Item = &Rule> {
        self.rules.iter().filter(move |rule| rule.prefix.is_ipv4() == is_ipv4)
    }
}

fn line(rule: &Rule) -> String {
    let mut text = if rule.is_user { "User: " } else { "Cached: " }.to_owned();
    let not = if rule.is_inverted { "not " } else { "" };
    // Writing to a string does not fail.
    let _ = write!(text, "{}: {not}from ", rule.priority);
    let whole = if rule.prefix.is_ipv4() { 32 } else { 128 };
    let _ = match rule.len {
        0 => write!(text, "all"),
        len if len == whole => write!(text, "{}", rule.prefix),
        // Open vSwitch also prints a trailing space.
        len => write!(text, "{}/{len} ", rule.prefix),
    };
    let _ = match name_of(rule.table) {
        Some(name) => writeln!(text, " lookup {name}"),
        None => writeln!(text, " lookup {}", rule.table),
    };
    text
}

/// Returns the name of a standard table.
fn name_of(table: u32) -> Option<&'static str> {
    match table {
        TABLE_DEFAULT => Some("default"),
        TABLE_MAIN => Some("main"),
        TABLE_LOCAL => Some("local"),
        _ => None,
    }
}
