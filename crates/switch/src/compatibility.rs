//! The treatment of each OpenFlow message, action and field, each command of `ovs-appctl` and each option of
//! Open vSwitch 3.1. Only the reasons are written by hand: messages are sent to a bridge, flows are added to
//! one, and commands and options are looked up in the program. The second half of `docs/compatibility.md` is
//! generated from the results, and a test compares them.

mod commands;
mod counters;
mod differences;
mod flows;
mod messages;

use std::fmt::Write;

/// The heading of this half of the page.
const HEADING: &str = "# OpenFlow, commands and options\n";
const HEAD: &str = "
The support of each OpenFlow message, action and match field, each command of `ovs-appctl` and each option of
Open vSwitch 3.1.

| state | meaning |
|---|---|
| supported | as in Open vSwitch, except for what the note says |
| error | answered with an error, for the reason in the note |
| sent | sent by the switch, never by a controller |
| own | this switch's own, or of later versions of Open vSwitch |
| none | never counted, for the reason in the note |

This half is written by `WRITE_DOCUMENTATION=1 cargo test -p switch compatibility`, which tries each row.
";

const DIFFERENCES_HEAD: &str = "
## Deliberate differences

`tests/pipelines/run` compares both switches; these differences are no faults.

| of | Open vSwitch | this switch | why |
|---|---|---|---|
";

/// A row of a table: its subject, the state, and a note.
struct Row {
    names: String,
    state: &'static str,
    note: &'static str,
}

/// Returns this half of the page.
fn document() -> String {
    let mut text = format!("{HEADING}{HEAD}");
    for (title, what, rows) in [
        ("Messages", "message", messages::messages()),
        ("Actions and instructions", "action", flows::actions()),
        ("Match fields", "field", flows::fields()),
        ("Commands of ovs-appctl", "command", commands::commands()),
        ("Options of ovs-vswitchd", "option", commands::options()),
        ("Counters of coverage/show, as of Open vSwitch 3.7.1", "counter", counters::counters()),
    ] {
        let _ = write!(text, "\n## {title}\n\n| {what} | state | note |\n|---|---|---|\n");
        // Rows with the same state and note are merged at the place of the first.
        let mut done: Vec<(&str, &str)> = Vec::new();
        for row in &rows {
            if done.contains(&(row.state, row.note)) {
                continue;
            }
            done.push((row.state, row.note));
            let same = rows.iter().filter(|it| (it.state, it.note) == (row.state, row.note));
            let names: Vec<String> = same.map(|it| format!("`{}`", it.names)).collect();
            let _ = writeln!(text, "| {} | {} | {} |", names.join(", "), row.state, row.note);
        }
    }
    text.push_str(DIFFERENCES_HEAD);
    for row in differences::DIFFERENCES {
        let _ = writeln!(text, "| {} |", row.join(" | "));
    }
    text
}

/// Returns the first of these notes with a matching name, which may end in `*`.
fn note_of(notes: &[(&str, &'static str)], name: &str) -> &'static str {
    let is_it = |pattern: &str| match pattern.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => name == pattern,
    };
    let found = notes.iter().find(|(names, _)| names.split_whitespace().any(is_it));
    found.map_or("", |(_, note)| note)
}

#[test]
fn the_documentation_says_what_the_program_does() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/compatibility.md");
    let page = std::fs::read_to_string(path).unwrap();
    let (first, second) = page.split_once(HEADING).map_or((page.as_str(), ""), |it| it);
    let document = document();
    if std::env::var_os("WRITE_DOCUMENTATION").is_some() {
        std::fs::write(path, format!("{}\n\n{document}", first.trim_end())).unwrap();
        return;
    }
    let second = format!("{HEADING}{second}");
    let (mut page, mut tried) = (second.lines(), document.lines());
    loop {
        match (page.next(), tried.next()) {
            (None, None) => break,
            (page, tried) => assert_eq!(
                page, tried,
                "docs/compatibility.md is not what was tried; WRITE_DOCUMENTATION=1 writes it"
            ),
        }
    }
}

/// Everything that is not supported has a reason on the page.
#[test]
fn every_error_has_a_reason() {
    let rows = [messages::messages(), flows::actions(), flows::fields()];
    let others = [commands::commands(), commands::options(), counters::counters()];
    let refused = |row: &&Row| matches!(row.state, "error" | "none");
    for row in rows.iter().chain(&others).flatten().filter(refused) {
        assert!(!row.note.is_empty(), "{} is not there, and no note says why", row.names);
    }
}
