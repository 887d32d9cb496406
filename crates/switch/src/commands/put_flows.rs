//! `dpctl/add-flow`, `mod-flow`, `add-flows`, `mod-flows` and `del-flows`: adding, changing and deleting
//! flows of a datapath by command (ovs: `lib/dpctl.c`, `dpctl.man`).

use super::flows::{add_fresh, delete_found, find};
use super::{Answer, Arguments};
use crate::Switch;
use daemon::bounded;
use daemon::unixctl::Commands;
use flow::{Action, Field};
use ofproto::text::{format_stats, parse_actions, parse_megaflow};
use std::path::Path;
use std::sync::Arc;

/// Adds these commands.
pub fn add_all(commands: &mut Commands<Switch>) {
    add_fresh(commands, "dpctl/add-flow", "[-s] [dp] flow actions", 2..=4, |switch, words| {
        one(switch, words, Step::Add)
    });
    let usage = "[-s] [--may-create] [--clear] [dp] flow actions";
    add_fresh(commands, "dpctl/mod-flow", usage, 2..=6, |switch, words| {
        one(switch, words, Step::Modify)
    });
    add_fresh(commands, "dpctl/add-flows", "[dp] file", 1..=2, |switch, words| {
        file(switch, words, Step::Add)
    });
    add_fresh(commands, "dpctl/mod-flows", "[dp] file", 1..=2, |switch, words| {
        file(switch, words, Step::Modify)
    });
    add_fresh(commands, "dpctl/del-flows", "[dp] [file]", 0..=2, |switch, words| {
        let arguments = Arguments::read_of(switch, words)?;
        if arguments.is_empty() {
            let other = arguments.other.clone();
            arguments.end()?;
            switch.delete_flows(other.as_deref());
            return Ok(String::new());
        }
        file(switch, words, Step::Delete)
    });
}

/// The operation on a flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    Add,
    Modify,
    Delete,
}

/// The options of adding or changing a flow.
#[derive(Clone, Copy, Default, Debug)]
struct Put {
    /// Whether a missing flow is added.
    creates: bool,
    /// Whether an existing flow is changed.
    modifies: bool,
    /// Whether its statistics are reset.
    clears: bool,
    /// Whether its statistics are printed.
    tells: bool,
}

impl Step {
    fn put(self) -> Put {
        Put { creates: self == Step::Add, modifies: self == Step::Modify, ..Put::default() }
    }
}

fn one(switch: &mut Switch, words: &[String], step: Step) -> Answer {
    let mut arguments = Arguments::read_of(switch, words)?;
    let mut how = step.put();
    how.tells = arguments.flag("-s") | arguments.flag("--statistics");
    if step == Step::Modify {
        how.creates = arguments.flag("--may-create");
        how.clears = arguments.flag("--clear");
    }
    arguments.end_before(2)?;
    let [flow, actions] = [(); 2].map(|()| arguments.next().unwrap_or_default());
    let other = arguments.other.clone();
    arguments.end()?;
    put(switch, other.as_deref(), (&flow, &actions), how)
}

/// Adds a flow, or changes the one that the flow's own packet would hit.
fn put(
    switch: &mut Switch,
    other: Option<&str>,
    (flow, actions): (&str, &str),
    how: Put,
) -> Answer {
    let view = switch.view(other);
    let device = |name: &str| view.port_number(name);
    let (key, mask) = parse_megaflow(flow, &device)
        .map_err(|error| format!("parsing flow key ({error}) (Invalid argument)"))?;
    let actions: Arc<[Action]> = parse_actions(actions, &device)
        .map_err(|error| format!("parsing actions ({error}) (Invalid argument)"))?
        .into();
    if !mask.is_exact(Field::InPort) {
        vlog::limited!(
            (60, 5), clock::now(), target: "dpif_netdev", log::Level::Error,
            "flow: in_port is not an exact match"
        );
        return Err("updating flow table (Invalid argument)".to_owned());
    }
    let mut found = view.flows();
    found.retain(|flow| flow.matching.matches(&key));
    match found.as_slice() {
        [] if !how.creates => {
            return Err("updating flow table (No such file or directory)".to_owned());
        }
        [] => switch.put_flow(other, (&key, &mask), &actions),
        [..] if !how.modifies => return Err("updating flow table (File exists)".to_owned()),
        [first, ..] if how.clears => {
            let (key, mask) = (first.key.clone(), first.matching.mask().clone());
            found.iter().for_each(|flow| switch.delete_flow(other, flow.id));
            switch.put_flow(other, (&key, &mask), &actions);
        }
        found => found.iter().for_each(|flow| switch.change_flow(other, flow.id, &actions)),
    }
    let mut stats = flow::FlowStats::default();
    found.iter().for_each(|flow| stats.add(&flow.stats));
    Ok(if how.tells { format_stats(&stats, clock::now()) + "\n" } else { String::new() })
}

/// Executes each line of a file. An error in a line is reported, and the following lines are executed.
fn file(switch: &mut Switch, words: &[String], step: Step) -> Answer {
    let mut arguments = Arguments::read_of(switch, words)?;
    let name = arguments.next().unwrap_or_default();
    let other = arguments.other.clone();
    arguments.end()?;
    let text = bounded::read_text(Path::new(&name))
        .map_err(|error| format!("Opening file \"{name}\" failed ({error})"))?;
    let mut failed = String::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.split('#').next().unwrap_or_default().trim();
        if line.is_empty() {
            continue;
        }
        let done = match read_line(line, step) {
            Some((Step::Delete, flow, "")) => delete_line(switch, other.as_deref(), flow),
            Some((step @ (Step::Add | Step::Modify), flow, actions)) if !actions.is_empty() => {
                put(switch, other.as_deref(), (flow, actions), step.put()).map(drop)
            }
            _ => Err(format!("Failed parsing line number {number}, skipped!")),
        };
        if let Err(why) = done {
            failed += &format!("{}: {why}\n", daemon::PROGRAM);
        }
    }
    Ok(failed)
}

fn delete_line(switch: &mut Switch, other: Option<&str>, flow: &str) -> Result<(), String> {
    let flows = find(&switch.view(other), flow)?;
    delete_found(switch, other, &flows)
}

/// `[add|modify|delete] flow [actions]`
fn read_line(line: &str, step: Step) -> Option<(Step, &str, &str)> {
    let (first, rest) = line.split_once([' ', '\t']).unwrap_or((line, ""));
    let said = match first {
        "add" => Some(Step::Add),
        "modify" => Some(Step::Modify),
        "delete" => Some(Step::Delete),
        _ => None,
    };
    let (step, line) = said.map_or((step, line), |said| (said, rest.trim_start()));
    let (flow, actions) = line.split_once([' ', '\t']).unwrap_or((line, ""));
    (!flow.is_empty()).then(|| (step, flow, actions.trim_start()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_say_what_is_done_or_leave_it_to_the_command() {
        use Step::{Add, Delete, Modify};
        let cases = [
            ("in_port(1) 2", Add, Some((Add, "in_port(1)", "2"))),
            ("in_port(1)  2, 3", Modify, Some((Modify, "in_port(1)", "2, 3"))),
            ("add in_port(1) 2", Delete, Some((Add, "in_port(1)", "2"))),
            ("modify\tin_port(1)\t2", Add, Some((Modify, "in_port(1)", "2"))),
            ("delete in_port(1)", Add, Some((Delete, "in_port(1)", ""))),
            ("delete", Add, None),
        ];
        for (line, step, expect) in cases {
            assert_eq!(read_line(line, step), expect, "{line}");
        }
    }
}
