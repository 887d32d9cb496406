//! The commands of `ovs-appctl`, one file per topic.

mod bfd;
mod bridges;
mod connections;
mod conntrack;
mod datapath;
mod datapaths;
mod dummy;
mod features;
mod flow_dumps;
mod flows;
mod fragments;
mod latency;
mod offload;
mod performance;
mod put_flows;
mod queues;
mod routes;
mod slow_path;
mod trace;
mod trace_request;
mod traced;
mod tunnels;
mod unconfigured;
mod workers;

use super::Switch;
use ::conntrack::Conntrack;
use base::Zone;
use daemon::unixctl::{Commands, Reply};
use std::sync::Arc;

pub use dummy::add_all as add_dummy;
pub use features::begin as begin_ofproto;
pub use trace::Traces;

/// The answer to a command, or an error's text.
pub type Answer = Result<String, String>;

/// Adds a command. Its changes are carried out before the client receives the answer.
fn add(
    commands: &mut Commands<Switch>,
    name: &'static str,
    usage: &'static str,
    arguments: std::ops::RangeInclusive<usize>,
    answer: impl Fn(&mut Switch, &[String]) -> Answer + 'static,
) {
    commands.add(name, usage, *arguments.start(), *arguments.end(), move |switch, words| {
        let answer = answer(switch, words);
        switch.settle();
        match named(name, answer) {
            Ok(text) => Reply::Text(text),
            Err(text) => Reply::Error(text),
        }
    });
}

/// Work on the connections, which runs on another thread.
type Work = Box<dyn FnOnce(&Conntrack) -> Answer + Send>;

/// Adds a command that may go through all connections. `plan` parses its words; the returned work runs on a
/// separate thread, while the control thread continues.
fn add_beside(
    commands: &mut Commands<Switch>,
    name: &'static str,
    usage: &'static str,
    arguments: std::ops::RangeInclusive<usize>,
    plan: fn(&[String]) -> Result<Work, String>,
) {
    commands.add(name, usage, *arguments.start(), *arguments.end(), move |switch, words| {
        let work = match plan(words) {
            Ok(work) => work,
            Err(text) => return Reply::from(named(name, Err(text))),
        };
        let (reply, place) = Reply::later();
        let conntrack = Arc::clone(switch.conntrack());
        tokio::task::spawn_blocking(move || place.give(named(name, work(&conntrack))));
        reply
    });
}

/// Adds the program's name to an error, as Open vSwitch's dpctl does.
fn named(command: &str, answer: Answer) -> Answer {
    answer.map_err(|text| match command.starts_with("dpctl/") {
        true => format!("{}: {text}", daemon::PROGRAM),
        false => text,
    })
}

/// Adds all the switch's commands.
pub fn add_all(commands: &mut Commands<Switch>) {
    add_conntrack(commands);
    fragments::add_all(commands);
    latency::add_all(commands);
    datapath::add_all(commands);
    datapaths::add_all(commands);
    features::add_all(commands);
    flow_dumps::add_all(commands);
    flows::add_all(commands);
    put_flows::add_all(commands);
    offload::add_all(commands);
    workers::add_all(commands);
    queues::add_all(commands);
    slow_path::add_all(commands);
    performance::add_all(commands);
    bfd::add_all(commands);
    bridges::add_all(commands);
    routes::add_all(commands);
    tunnels::add_all(commands);
    unconfigured::add_all(commands);
}

fn add_conntrack(commands: &mut Commands<Switch>) {
    let usage = "[-m] [-s] [dp] [zone=N]";
    commands.add("dpctl/dump-conntrack", usage, 0, 4, conntrack::dump);
    commands.add("dpctl/dump-conntrack-exp", "[dp] [zone=N]", 0, 2, conntrack::dump_expected);
    let usage = "[-m] [dp] [zone=N] [verbose]";
    add_beside(commands, "dpctl/ct-stats-show", usage, 0..=4, conntrack::stats);
    let usage = "[dp] [zone=N] [mark=X[/M]] [labels=Y[/N]] [ct-orig-tuple [ct-reply-tuple]]";
    add_beside(commands, "dpctl/flush-conntrack", usage, 0..=6, conntrack::flush);
    add_beside(commands, "dpctl/ct-bkts", "[dp] [gt=N]", 0..=2, conntrack::buckets);
    add(commands, "dpctl/ct-get-nconns", "[dp]", 0..=1, conntrack::connections);
    add(commands, "dpctl/ct-get-maxconns", "[dp]", 0..=1, conntrack::get_maximum);
    add(commands, "dpctl/ct-set-maxconns", "[dp] maxconns", 1..=2, conntrack::set_maximum);
    let usage = "[dp] [default=L] [zone=N,limit=L]...";
    add(commands, "dpctl/ct-set-limits", usage, 1..=usize::MAX, conntrack::set_limits);
    add(commands, "dpctl/ct-del-limits", "[dp] zone=N1[,N2]...", 1..=2, conntrack::delete_limits);
    add(commands, "dpctl/ct-get-limits", "[dp] [zone=N1[,N2]...]", 0..=2, conntrack::get_limits);
    add(commands, "dpctl/ct-enable-tcp-seq-chk", "[dp]", 0..=1, |switch, words| {
        conntrack::set_sequence_check(switch, words, true)
    });
    add(commands, "dpctl/ct-disable-tcp-seq-chk", "[dp]", 0..=1, |switch, words| {
        conntrack::set_sequence_check(switch, words, false)
    });
    add(commands, "dpctl/ct-get-tcp-seq-chk", "[dp]", 0..=1, conntrack::get_sequence_check);
    let usage = "text|json cursor [filter]...";
    add_beside(commands, "tidegate/conntrack", usage, 2..=16, connections::list);
    add(commands, "tidegate/conntrack-counters", "[on|off]", 0..=1, connections::counters);
    add(commands, "tidegate/conntrack-early-drop", "[on|off]", 0..=1, connections::early_drop);
    add(commands, "tidegate/conntrack-events", "text|json", 1..=1, connections::events);
    let usage = "start text|json count sample [filter] | next number | stop number | show";
    add(commands, "tidegate/trace", usage, 1..=5, trace::trace);
}

const NO_DATAPATH: &str = "datapath not found (Invalid argument)";

/// Returns whether this is the switch's own datapath, which is accepted under either type.
fn is_datapath(kind: &str, name: &str) -> bool {
    matches!(
        (kind, name),
        ("netdev", "ovs-netdev") | ("system", "ovs-system") | ("dummy", "ovs-dummy")
    )
}

/// The arguments of a `dpctl` command: options, an optional datapath name, and the rest in order.
pub struct Arguments {
    /// The named datapath, if it is not the switch's own.
    pub other: Option<String>,
    flags: Vec<String>,
    rest: std::collections::VecDeque<String>,
}

impl Arguments {
    /// Parses the arguments of a command for the switch's own datapath only.
    ///
    /// # Errors
    /// Another datapath is named.
    pub fn read(words: &[String]) -> Result<Self, String> {
        Self::read_with(words, |_| false)
    }

    /// Parses the arguments of a command for any datapath.
    ///
    /// # Errors
    /// The named datapath does not exist.
    pub fn read_of(switch: &Switch, words: &[String]) -> Result<Self, String> {
        Self::read_with(words, |name| switch.datapaths().contains_key(name))
    }

    fn read_with(words: &[String], is_other: impl Fn(&str) -> bool) -> Result<Self, String> {
        let (flags, rest): (Vec<_>, Vec<_>) =
            words.iter().cloned().partition(|word| word.starts_with('-'));
        let mut rest: std::collections::VecDeque<String> = rest.into();
        let mut other = None;
        if let Some(first) = rest.front()
            && let Some((kind, name)) = first.split_once('@')
        {
            let named = first.clone();
            match (is_datapath(kind, name), is_other(first)) {
                (true, _) => {}
                (false, true) => other = Some(named),
                (false, false) => return Err(NO_DATAPATH.to_owned()),
            }
            rest.pop_front();
        }
        Ok(Arguments { other, flags, rest })
    }

    /// Returns whether no arguments remain.
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Removes an option, and returns whether it was given.
    pub fn flag(&mut self, name: &str) -> bool {
        let before = self.flags.len();
        self.flags.retain(|flag| flag != name);
        self.flags.len() < before
    }

    /// Removes the options of dumps of flows. Returns whether all fields are printed, and whether ports by their names.
    pub fn detail(&mut self) -> (bool, bool) {
        let verbose = self.flag("-m") | self.flag("--more");
        (verbose, self.flag("--names") || (verbose && !self.flag("--no-names")))
    }

    /// Returns the next argument.
    pub fn next(&mut self) -> Option<String> {
        self.rest.pop_front()
    }

    /// Returns the value of `name=`, if that is the next argument.
    pub fn named(&mut self, name: &str) -> Option<String> {
        let (key, text) = self.rest.front()?.split_once('=')?;
        let text = (key == name).then(|| text.to_owned())?;
        self.rest.pop_front();
        Some(text)
    }

    /// Returns `N` of `zone=N`, if that is the next argument.
    pub fn zone(&mut self) -> Result<Option<Zone>, String> {
        let Some(text) = self.named("zone") else { return Ok(None) };
        let zone = text.parse().map_err(|_| "failed to parse zone (Invalid argument)")?;
        Ok(Some(Zone(zone)))
    }

    /// Checks that no arguments remain.
    ///
    /// # Errors
    /// There are some. One that could be a datapath's name is reported as that.
    pub fn end(self) -> Result<(), String> {
        self.end_before(0)?;
        match self.flags.first().or(self.rest.front()) {
            Some(word) => Err(format!("invalid argument {word} (Invalid argument)")),
            None => Ok(()),
        }
    }

    /// Checks that at most `words` arguments remain.
    ///
    /// # Errors
    /// There are more, and the first may be meant as a datapath's name (ovs: `lib/dpctl.c`, `opt_dpif_open`).
    pub fn end_before(&self, words: usize) -> Result<(), String> {
        match self.rest.front() {
            Some(word) if self.rest.len() > words && !word.contains('=') => {
                Err(NO_DATAPATH.to_owned())
            }
            _ => Ok(()),
        }
    }
}
