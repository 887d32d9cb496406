use super::*;
use crate::Desired;
use crate::fixture::{replica, uuid, value_of};
use serde_json::json;
use std::collections::BTreeSet;

/// Settings that Open vSwitch 3.1 does not document: newer ones, and Tidegate's own.
const NEWER: [&str; 11] = [
    "CT_Zone limit",
    "Datapath ct_zone_default_limit",
    "Mirror filter",
    "Interface options:xdp-offload",
    "Interface status:peer_ifindex",
    "Open_vSwitch other_config:neigh-notifier-enable",
    "Open_vSwitch other_config:pmd-sleep-max",
    "Open_vSwitch other_config:unified-cache-entries",
    "Open_vSwitch other_config:tidegate-stats-interval",
    "Open_vSwitch other_config:tidegate-flow-expiry",
    "Open_vSwitch other_config:tidegate-upcall-rates",
];

#[test]
fn every_setting_of_open_vswitch_is_in_the_table_once() {
    let mut table = "";
    let mut documented: BTreeSet<String> = NEWER.into_iter().map(str::to_owned).collect();
    let list = include_str!("../../../../testdata/ovsdb/settings-3.1");
    for line in list.lines().filter(|line| !line.starts_with('#')) {
        match line.strip_prefix("  ") {
            None => table = line,
            Some(name) => drop(documented.insert(format!("{table} {name}"))),
        }
    }
    let mut here = BTreeSet::new();
    for (table, settings) in TABLES {
        for name in settings.iter().flat_map(|settings| settings.names.split_whitespace()) {
            assert!(here.insert(format!("{table} {name}")), "{table} {name} is there twice");
        }
    }
    let missing: Vec<_> = documented.difference(&here).collect();
    let unknown: Vec<_> = here.difference(&documented).collect();
    assert!(missing.is_empty() && unknown.is_empty(), "missing: {missing:?}; unknown: {unknown:?}");
}

#[test]
fn the_list_of_settings_has_every_column_of_the_schema() {
    const SCHEMA: &str = "/usr/share/openvswitch/vswitch.ovsschema";
    let Ok(text) = std::fs::read_to_string(SCHEMA) else {
        println!("SKIPPED: the_list_of_settings_has_every_column_of_the_schema: no {SCHEMA}");
        return;
    };
    let schema: serde_json::Value = serde_json::from_str(&text).unwrap();
    for (table, definition) in schema["tables"].as_object().unwrap() {
        let settings = settings_of(table);
        for column in definition["columns"].as_object().unwrap().keys() {
            let is_here = settings.iter().any(|s| s.names.split_whitespace().any(|n| n == column));
            assert!(is_here, "{table}.{column}");
        }
    }
}

#[test]
fn the_documentation_is_this_table() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/compatibility.md");
    let page = std::fs::read_to_string(path).unwrap_or_default();
    // The crate `switch` generates the page's second half.
    let second = page.find("\n# OpenFlow").map_or("", |at| &page[at..]);
    let page = page.strip_suffix(second).unwrap_or_default();
    let (page, table) = (lines(page), lines(&document()));
    let only_there: Vec<_> = page.iter().filter(|line| !table.contains(*line)).collect();
    let only_here: Vec<_> = table.iter().filter(|line| !page.contains(*line)).collect();
    if std::env::var_os("WRITE_DOCUMENTATION").is_some() {
        std::fs::write(path, document() + second).unwrap();
    } else {
        assert_eq!(only_there, [""; 0], "docs/compatibility.md says more than the code");
        assert_eq!(only_here, [""; 0], "docs/compatibility.md lacks what the code says");
        assert_eq!(page, table, "in another order; WRITE_DOCUMENTATION=1 writes the page");
    }
}

fn lines(text: &str) -> Vec<String> {
    text.lines().map(str::to_owned).collect()
}

#[test]
fn whatever_is_ignored_says_why() {
    for (table, settings) in TABLES {
        for settings in settings.iter().filter(|settings| settings.state.is_ignored()) {
            assert!(!settings.note.is_empty(), "{table}: {}", settings.names);
        }
    }
}

/// Each setting without an effect, when set in its row of the database, causes a warning with the reason.
#[test]
fn whatever_is_ignored_is_warned_of_where_it_is_set() {
    let mut checked = 0;
    for (table, settings) in TABLES {
        for settings in settings.iter().filter(|settings| settings.state.is_ignored()) {
            for name in settings.names.split_whitespace() {
                let (column, value) = value_of(table, name);
                let mut rows = [
                    ("Open_vSwitch", 1, json!({"bridges": uuid(2)})),
                    ("Bridge", 2, json!({"name": "x", "ports": uuid(3), "controller": uuid(5)})),
                    ("Port", 3, json!({"name": "x", "interfaces": uuid(4)})),
                    ("Interface", 4, json!({"name": "x"})),
                    ("Controller", 5, json!({"target": "x"})),
                ];
                let row = rows.iter_mut().find(|(it, ..)| it == table).expect("a row of the table");
                row.2[column] = value;
                let (_, warnings) = Desired::from_rows(&replica(&rows));
                let text: Vec<String> = warnings.iter().map(ToString::to_string).collect();
                let place = if *table == "Open_vSwitch" { "" } else { " x" };
                assert_eq!(text, [format!("{table}{place}: {name}: {}; ignored", settings.note)]);
                checked += 1;
            }
        }
    }
    assert!(checked > 30, "{checked}");
}
