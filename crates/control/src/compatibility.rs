//! How the switch treats each setting of Open vSwitch's database: every column of the 3.1 schema and every
//! key that ovs-vswitchd.conf.db(5) documents. `docs/compatibility.md` is generated from this table; a test
//! compares the two, and both with the schema.

mod bridges;
mod ports;
mod switch;

use ovsdb::Row;

/// How the switch treats a setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// It has the same effect as in Open vSwitch, except for what the note says.
    Done,
    /// The switch writes it, as Open vSwitch does.
    Written,
    /// Open vSwitch writes it; this switch does not.
    NotWritten,
    /// It has no effect; a warning is logged where it is set.
    Ignored,
    /// As `Ignored`, except for this value, which the switch implements.
    IgnoredUnless(&'static str),
    /// As `Ignored`; as traffic may stop without it, the database has the reason, too.
    IgnoredWithError,
    /// An interface that needs it is not opened; its column `error` contains the reason.
    Refused,
    /// It only modifies another setting, which is ignored.
    Unread,
    /// It is for other programs; Open vSwitch's daemon does not read it either.
    Others,
}

/// Settings with the same treatment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Columns, or keys as "column:key", separated by spaces.
    pub names: &'static str,
    /// Their treatment.
    pub state: State,
    /// The reason, or the difference to Open vSwitch.
    pub note: &'static str,
}

/// The tables in alphabetical order, with their settings.
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

/// An entry of [`TABLES`].
const fn settings(state: State, names: &'static str, note: &'static str) -> Settings {
    Settings { names, state, note }
}

impl State {
    /// Returns the state's name in the documentation.
    pub fn name(self) -> &'static str {
        match self {
            State::Done => "done",
            State::Written => "written",
            State::NotWritten => "not written",
            State::Ignored | State::IgnoredUnless(_) => "ignored, logged",
            State::IgnoredWithError => "ignored, error",
            State::Refused => "refused",
            State::Unread => "not read",
            State::Others => "for others",
        }
    }

    fn is_ignored(self) -> bool {
        matches!(self, State::Ignored | State::IgnoredUnless(_) | State::IgnoredWithError)
    }
}

/// Returns the settings of a table.
pub fn settings_of(table: &str) -> &'static [Settings] {
    TABLES.iter().find(|(name, _)| *name == table).map_or(&[], |(_, settings)| settings)
}

/// Returns the columns of a table with settings that have no effect.
pub(crate) fn ignored_columns(table: &str) -> impl Iterator<Item = &'static str> {
    let ignored = settings_of(table).iter().filter(|settings| settings.state.is_ignored());
    let names = ignored.flat_map(|settings| settings.names.split_whitespace());
    names.map(|name| name.split(':').next().unwrap_or(name))
}

/// Returns the settings of a row that are set but have no effect, with their states and the reasons.
pub(crate) fn ignored_in(table: &str, row: &Row) -> Vec<(&'static str, State, &'static str)> {
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
                found.push((name, settings.state, settings.note));
            }
        }
    }
    found
}

/// Returns whether a column has a value other than its neutral one: empty, false, 0, or a text that
/// `is_neutral` accepts.
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

/// Returns the table as text for `docs/compatibility.md`.
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

The support of each column of Open vSwitch 3.1's schema, and of each key that ovs-vswitchd.conf.db(5)
documents. A key is written after its column and a colon.

| state | meaning |
|---|---|
| done | as in Open vSwitch, except for what the note says |
| written | written by the switch, as Open vSwitch does |
| not written | Open vSwitch writes it, this switch does not |
| ignored, logged | has no effect; a warning with the reason is logged if it is set |
| ignored, error | as `ignored, logged`; since traffic may stop without it, the reason is also in `Bridge.status:error`, or in `error` of the port's interfaces |
| refused | an interface that needs it is not opened; its column `error` has the reason |
| not read | matters only to another setting that is ignored |
| for others | for other programs; Open vSwitch's daemon does not read it either |

This page is written from `crates/control/src/compatibility/`; `cargo test -p control` compares them.
";

#[cfg(test)]
mod tests;
