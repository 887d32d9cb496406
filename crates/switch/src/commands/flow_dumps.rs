//! Dumps of flows: as the client reads them, another thread reads a snapshot and writes a part of the text, so that
//! neither the control thread nor the workers wait for a dump of many flows.

use super::flows::{core_number, flow_filter};
use super::{Arguments, NO_DATAPATH, named};
use crate::Switch;
use crate::datapaths::View;
use crate::worker_messages::WorkerMode;
use base::{Instant, PortNo, WorkerId};
use daemon::unixctl::{Commands, Reply};
use flow::{FlowId, Match};
use ofproto::text::{DumpOptions, PortNames, format_megaflow};
use ofproto::{Bridges, DatapathFlow};
use openflow::message::FlowStatsEntry;
use std::collections::{HashMap, HashSet};
use std::fmt::Write;
use std::ops::RangeInclusive;

/// Adds these commands.
pub fn add_all(commands: &mut Commands<Switch>) {
    let usage = "[-m] [--names] [dp] [filter=..] [type=..] [pmd=..]";
    add_fresh_dump(commands, "dpctl/dump-flows", usage, 0..=6, dump);
    let usage = "[-m] [--names | --no-names] bridge";
    add_fresh_dump(commands, "dpif/dump-flows", usage, 1..=4, dump_bridge);
    add_fresh_dump(commands, "bridge/dump-flows", "[--offload-stats] bridge", 1..=2, dump_rules);
}

type Dumped = Result<Reply, String>;

/// Adds a command that begins to answer when statistics are fresh.
fn add_fresh_dump(
    commands: &mut Commands<Switch>,
    name: &'static str,
    usage: &'static str,
    arguments: RangeInclusive<usize>,
    answer: fn(&mut Switch, &[String]) -> Dumped,
) {
    commands.add(name, usage, *arguments.start(), *arguments.end(), move |switch, words| {
        let (reply, place) = Reply::later();
        let words = words.to_vec();
        switch.collect_named(&words);
        switch.when_fresh(move |switch| {
            let answer = answer(switch, &words);
            switch.settle();
            place.give(answer.unwrap_or_else(|text| Reply::from(named(name, Err(text)))));
        });
        switch.settle();
        reply
    });
}

/// How megaflows are written.
struct Format {
    verbose: bool,
    of_bridge: bool,
    /// The names of ports, if they are wanted.
    names: Option<HashMap<PortNo, String>>,
    offloaded: HashSet<FlowId>,
    now: Instant,
}

impl Format {
    fn new(view: &View<'_>, verbose: bool, of_bridge: bool, names: bool) -> Format {
        let all = || view.devices().iter().map(|(port, device)| (port, device.name.clone()));
        let (names, now) = (names.then(|| all().collect()), clock::now());
        Format { verbose, of_bridge, names, offloaded: view.offloaded(), now }
    }

    fn line(&self, flow: &DatapathFlow) -> String {
        let name = |port: PortNo| self.names.as_ref()?.get(&port).cloned();
        let names = PortNames {
            device: if self.names.is_some() { Some(&name) } else { None },
            ..PortNames::default()
        };
        let is_offloaded = self.offloaded.contains(&flow.id);
        let (verbose, of_bridge) = (self.verbose, self.of_bridge);
        let options = DumpOptions { verbose, of_bridge, is_offloaded, names };
        format_megaflow(flow, self.now, options) + "\n"
    }
}

/// The megaflows of some workers, with their headings.
struct Dump<P> {
    format: Format,
    filter: Match,
    types: FlowTypes,
    /// The workers that are left, the current one last, each with its heading.
    workers: Vec<(WorkerId, String)>,
    all: P,
    pages: P,
}

impl<P: Iterator<Item = Vec<DatapathFlow>> + Clone> Iterator for Dump<P> {
    type Item = String;

    fn next(&mut self) -> Option<String> {
        let (worker, heading) = self.workers.last_mut()?;
        let Some(page) = self.pages.next() else {
            self.workers.pop();
            self.pages = self.all.clone();
            return Some(String::new());
        };
        let mut text = String::new();
        for flow in page.iter().filter(|flow| flow.worker == *worker) {
            let is_offloaded = self.format.offloaded.contains(&flow.id);
            if self.filter.matches(&flow.key) && self.types.have(is_offloaded) {
                text += &std::mem::take(heading);
                text += &self.format.line(flow);
            }
        }
        Some(text)
    }
}

/// Returns all megaflows, by thread.
fn dump(switch: &mut Switch, words: &[String]) -> Dumped {
    let mut arguments = Arguments::read_of(switch, words)?;
    let view = switch.view(arguments.other.as_deref());
    let (verbose, names) = arguments.detail();
    let mut filter = Match::any();
    let mut core = None;
    let mut types = FlowTypes::ALL;
    while let Some(word) = arguments.next() {
        match word.split_once('=') {
            Some(("filter", text)) => filter = flow_filter(view.devices(), text)?,
            Some(("type", list)) => types = FlowTypes::read(list)?,
            Some(("pmd", number)) => {
                let wrong = || format!("invalid argument {word} (Invalid argument)");
                core = Some(number.parse::<i32>().map_err(|_| wrong())?);
            }
            _ => return Err(NO_DATAPATH.to_owned()),
        }
    }
    let mut workers = Vec::new();
    for worker in view.workers() {
        let heading = match worker.mode {
            // A dump of one worker's flows needs no heading.
            _ if core.is_some() => String::new(),
            WorkerMode::Sleeping => "flow-dump from the main thread:\n".to_owned(),
            WorkerMode::Polling { cpu, .. } => format!("flow-dump from pmd on cpu core: {cpu}\n"),
        };
        if core.is_none_or(|core| core_number(worker) == core) {
            workers.push((worker.id, heading));
        }
    }
    workers.reverse();
    let format = Format::new(&view, verbose, false, names);
    let is_other = arguments.other.is_some();
    let flows = if is_other { view.flows() } else { Vec::new() };
    arguments.end()?;
    Ok(if is_other {
        let all = std::iter::once(flows);
        Reply::parts(Dump { format, filter, types, workers, pages: all.clone(), all })
    } else {
        let all = switch.ofproto().megaflow_pages();
        Reply::parts(Dump { format, filter, types, workers, pages: all.clone(), all })
    })
}

/// The types of flows in a dump (ovs: `lib/dpctl.man`). All flows are the datapath's own; of offloaded ones
/// the device forwards some of the packets.
#[derive(Clone, Copy)]
struct FlowTypes {
    offloaded: bool,
    others: bool,
}

impl FlowTypes {
    const ALL: FlowTypes = FlowTypes { offloaded: true, others: true };

    fn read(list: &str) -> Result<FlowTypes, String> {
        let mut types = FlowTypes { offloaded: false, others: false };
        for word in list.split(',') {
            match word {
                "all" | "ovs" => types = FlowTypes::ALL,
                "offloaded" | "partially-offloaded" => types.offloaded = true,
                "non-offloaded" => types.others = true,
                "tc" | "dpdk" => {}
                _ => return Err(format!("Failed to parse type ({word}) (Invalid argument)")),
            }
        }
        Ok(types)
    }

    fn have(self, is_offloaded: bool) -> bool {
        if is_offloaded { self.offloaded } else { self.others }
    }
}

/// Returns the megaflows whose packets were received on a bridge's ports.
fn dump_bridge(switch: &mut Switch, words: &[String]) -> Dumped {
    let (flags, names): (Vec<&String>, Vec<&String>) =
        words.iter().partition(|word| word.starts_with('-'));
    let has = |name: &str| flags.iter().any(|flag| *flag == name);
    let [name] = names.as_slice() else { return Err("no such bridge".to_owned()) };
    let bridges: Bridges = switch.ofproto().bridges().clone();
    let bridge = bridges.named(name).ok_or("no such bridge")?.id;
    let verbose = has("-m");
    let names = has("--names") || (verbose && !has("--no-names"));
    let format = Format::new(&switch.view(None), verbose, true, names);
    let is_of_bridge = move |flow: &&DatapathFlow| {
        bridges.of_packet(&flow.key).is_some_and(|(id, _)| id == bridge)
    };
    let pages = switch.ofproto().megaflow_pages();
    Ok(Reply::parts(pages.map(move |page| {
        page.iter().filter(&is_of_bridge).map(|flow| format.line(flow)).collect()
    })))
}

/// Returns the bridge's OpenFlow flows, including hidden ones.
fn dump_rules(switch: &mut Switch, words: &[String]) -> Dumped {
    let name = words.iter().find(|word| !word.starts_with('-')).ok_or("no such bridge")?;
    let bridge = switch.ofproto().bridges().named(name).ok_or("no such bridge")?.id;
    let offload = match words.iter().any(|word| word == "--offload-stats") {
        true => "n_offload_packets=0, n_offload_bytes=0, ",
        false => "",
    };
    let mut first = String::new();
    if let Some((age, packets, bytes)) = switch.ofproto().fail_open_flow(bridge, clock::now()) {
        let _ = writeln!(
            first,
            "duration={}s, n_packets={packets}, n_bytes={bytes}, {offload}priority={},actions=NORMAL",
            age.as_secs(),
            ofproto::FAIL_OPEN_PRIORITY,
        );
    }
    let line = move |flow: &FlowStatsEntry| {
        let table = match flow.table.0 {
            0 => String::new(),
            table => format!("table_id={table}, "),
        };
        format!(
            "{table}duration={}s, n_packets={}, n_bytes={}, {offload}{},actions={}\n",
            flow.duration_ns / 1_000_000_000,
            flow.packets,
            flow.bytes,
            openflow::text::format_match(&flow.matching, Some(flow.priority)),
            openflow::text::format_actions(&flow.actions, &flow.matching),
        )
    };
    let pages = switch.ofproto().flow_pages(bridge, clock::now());
    let lines = pages.map(move |page| page.iter().map(line).collect());
    Ok(Reply::parts(std::iter::once(first).chain(lines)))
}
