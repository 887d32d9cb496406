//! What becomes of each setting of Open vSwitch's database: every column of the 3.1 schema and every
//! key that ovs-vswitchd.conf.db(5) documents. `docs/compatibility.md` is this table, for people; a
//! test holds one to the other, and both to the schema.

mod bridges;
mod ports;
mod switch;

use ovsdb::Row;

/// What the switch does with a setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// It has the effect that it has in Open vSwitch, but for what the note says.
    Done,
    /// The switch writes it, as Open vSwitch does.
    Written,
    /// Open vSwitch writes it; this switch does not.
    NotWritten,
    /// It has no effect; that is logged where it is set.
    Ignored,
    /// As `Ignored`, but this value is what the switch does.
    IgnoredUnless(&'static str),
    /// An interface that needs it is not opened; its column `error` says why.
    Refused,
    /// It matters only to another setting that is ignored.
    Unread,
    /// It is for other programs; Open vSwitch's daemon does not read it either.
    Others,
}

/// Settings that are treated alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Columns, or keys as "column:key", with spaces between.
    pub names: &'static str,
    /// What is done with them.
    pub state: State,
    /// Why, or what is different.
    pub note: &'static str,
}

/// The tables in the order of their names, with their settings.
pub static TABLES: &[(&str, &[Settings])] = &[
    ("AutoAttach", bridges::AUTO_ATTACH),
    ("Bridge", bridges::BRIDGE),
    ("CT_Timeout_Policy", switch::CT_TIMEOUT_POLICY),
    ("CT_Zone", switch::CT_ZONE),
    ("Controller", bridges::CONTROLLER),
    ("Datapath", switch::DATAPATH),
    ("Flow_Sample_Collector_Set", bridges::FLOW_SAMPLE_COLLECTOR_SET),
    ("Flow_Table", bridges::FLOW_TABLE),
    ("IPFIX", bridges::IPFIX),
    ("Interface", ports::INTERFACE),
    ("Manager", switch::MANAGER),
    ("Mirror", bridges::MIRROR),
    ("NetFlow", bridges::NETFLOW),
    ("Open_vSwitch", switch::OPEN_VSWITCH),
    ("Port", ports::PORT),
    ("QoS", ports::QOS),
    ("Queue", ports::QUEUE),
    ("SSL", switch::SSL),
    ("sFlow", bridges::SFLOW),
];

/// A row of [`TABLES`].
const fn settings(state: State, names: &'static str, note: &'static str) -> Settings {
    Settings { names, state, note }
}

impl State {
    /// As the documentation calls it.
    pub fn name(self) -> &'static str {
        match self {
            State::Done => "done",
            State::Written => "written",
            State::NotWritten => "not written",
            State::Ignored | State::IgnoredUnless(_) => "ignored, logged",
            State::Refused => "refused",
            State::Unread => "not read",
            State::Others => "for others",
        }
    }

    fn is_ignored(self) -> bool {
        matches!(self, State::Ignored | State::IgnoredUnless(_))
    }
}

/// The settings of a table.
pub fn settings_of(table: &str) -> &'static [Settings] {
    TABLES.iter().find(|(name, _)| *name == table).map_or(&[], |(_, settings)| settings)
}

/// The columns of a table that hold settings without an effect.
pub(crate) fn ignored_columns(table: &str) -> impl Iterator<Item = &'static str> {
    let ignored = settings_of(table).iter().filter(|settings| settings.state.is_ignored());
    let names = ignored.flat_map(|settings| settings.names.split_whitespace());
    names.map(|name| name.split(':').next().unwrap_or(name))
}

/// The settings of a row that are set and have no effect, with the reasons.
pub(crate) fn ignored_in(table: &str, row: &Row) -> Vec<(&'static str, &'static str)> {
    let mut found = Vec::new();
    for settings in settings_of(table).iter().filter(|settings| settings.state.is_ignored()) {
        for name in settings.names.split_whitespace() {
            let is_neutral = |value: &str| match settings.state {
                State::IgnoredUnless(neutral) => value.is_empty() || value == neutral,
                _ => matches!(value, "" | "false" | "off" | "0" | "none"),
            };
            let is_set = match name.split_once(':') {
                Some((column, key)) => row.map_str(column, key).is_some_and(|it| !is_neutral(it)),
                None => is_column_set(row, name, is_neutral),
            };
            if is_set {
                found.push((name, settings.note));
            }
        }
    }
    found
}

/// Whether a column says something: an element, true, or a number that is not 0.
fn is_column_set(row: &Row, column: &str, is_neutral: impl Fn(&str) -> bool) -> bool {
    let Some(datum) = row.get(column) else { return false };
    if let Some(flag) = datum.as_opt_bool() {
        return flag;
    }
    if let Some(number) = row.opt_i64(column) {
        return number != 0;
    }
    match row.str(column) {
        Some(text) => !is_neutral(text),
        None => !datum.is_empty(),
    }
}

/// The table as `docs/compatibility.md` has it.
pub fn document() -> String {
    let mut text = String::from(HEAD);
    for (table, settings) in TABLES {
        text += &format!("\n## {table}\n\n| setting | state | note |\n|---|---|---|\n");
        for Settings { names, state, note } in *settings {
            let names: Vec<String> =
                names.split_whitespace().map(|name| format!("`{name}`")).collect();
            text += &format!("| {} | {} | {note} |\n", names.join(", "), state.name());
        }
    }
    text
}

const HEAD: &str = "# Settings of Open vSwitch's database

What the switch does with each column of Open vSwitch 3.1's schema, and with each key that
ovs-vswitchd.conf.db(5) documents. A key stands behind its column and a colon.

| state | meaning |
|---|---|
| done | has the effect that it has in Open vSwitch, but for what the note says |
| written | written by the switch, as Open vSwitch does |
| not written | Open vSwitch writes it, this switch does not |
| ignored, logged | has no effect; where it is set, a warning names it and the reason |
| refused | an interface that needs it is not opened; its column `error` says why |
| not read | matters only to another setting that is ignored |
| for others | for other programs; Open vSwitch's daemon does not read it either |

This page is written from `crates/control/src/compatibility/`; `cargo test -p control` compares them.
";

#[cfg(test)]
mod tests;
