//! Routes and rules as `ovs-appctl` prints them (ovs: `lib/ovs-router.c`, `ovs_router_show_text`,
//! `ovs_router_rules_show_text`).

use super::table::Table;
use super::{Route, Routes, Rule, TABLE_DEFAULT, TABLE_LOCAL, TABLE_MAIN};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

const STANDARD_TABLES: [u32; 3] = [TABLE_LOCAL, TABLE_MAIN, TABLE_DEFAULT];

impl Routes {
    /// Returns the standard tables as `ovs/route/show` prints them.
    pub fn show(&self) -> String {
        self.text("Route Table:\n".to_owned(), &STANDARD_TABLES, false)
    }

    /// Returns all tables as `ovs/route/show table=all` prints them.
    pub fn show_all(&self) -> String {
        let tables: BTreeSet<u32> = self.tables().flat_map(BTreeMap::keys).copied().collect();
        self.text(String::new(), &Vec::from_iter(tables), true)
    }

    /// Returns one table as `ovs/route/show table=ID` prints it.
    pub fn show_table(&self, table: u32) -> String {
        let title = match name_of(table) {
            Some(_) => "Route Table:\n".to_owned(),
            None => format!("Route Table #{table}:\n"),
        };
        self.text(title, &[table], false)
    }

    fn text(&self, mut text: String, tables: &[u32], names_table: bool) -> String {
        let of_table = |number: u32| {
            let tables = self.tables().filter_map(move |tables| tables.get(&number));
            let routes = tables.flat_map(Table::iter);
            routes.map(move |route| (number, route))
        };
        let mut routes: Vec<(u32, &Route)> = tables.iter().copied().flat_map(of_table).collect();
        routes.sort_by_key(|(table, it)| (it.prefix, it.len, Reverse(it.mark), it.is_user, *table));
        for (table, route) in routes {
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

    /// Returns the rules of IPv4 or IPv6 as `ovs/route/rule/show` prints them.
    pub fn show_rules(&self, is_ipv4: bool) -> String {
        let rules = self.rules.iter().filter(|rule| rule.prefix.is_ipv4() == is_ipv4);
        rules.map(line).collect()
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
