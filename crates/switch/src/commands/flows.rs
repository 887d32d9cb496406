//! Commands about the datapath's flows: dumps, traces, revalidation
//! (ovs: `lib/dpctl.c`, `ofproto/ofproto-dpif.c`, `ofproto/ofproto-dpif-trace.c`).

use super::{Answer, Arguments, NO_DATAPATH, add, named, trace_request};
use crate::Switch;
use crate::datapaths::View;
use crate::devices::Devices;
use crate::worker_messages::WorkerMode;
use crate::worker_thread::WorkerThread;
use base::{OfPort, PortNo};
use daemon::unixctl::{Commands, Reply};
use flow::{FlowId, FlowStats, Match};
use ofproto::text::{
    DumpOptions, PortNames, format_megaflow, format_stats, format_ufid, parse_flow,
};
use ofproto::{BridgeId, DatapathFlow};
use openflow::Action;
use std::fmt::Write;

/// Adds these commands.
pub fn add_all(commands: &mut Commands<Switch>) {
    let usage = "[-m] [--names] [dp] [filter=..] [type=..] [pmd=..]";
    add_fresh(commands, "dpctl/dump-flows", usage, 0..=6, dump);
    let usage = "[-m] [--names | --no-names] bridge";
    add_fresh(commands, "dpif/dump-flows", usage, 1..=4, dump_bridge);
    add_fresh(commands, "dpctl/get-flow", "[-m] [--names] [dp] ufid", 1..=4, get);
    add_fresh(commands, "dpctl/del-flow", "[-s] [dp] flow", 1..=3, delete);
    add_fresh(commands, "bridge/dump-flows", "[--offload-stats] bridge", 1..=2, dump_rules);
    let usage = "{[dp_name] odp_flow | bridge br_flow} [OPTIONS...] [-generate|packet]";
    add(commands, "ofproto/trace", usage, 1..=usize::MAX, |switch, words| {
        trace(switch, words, None)
    });
    let usage = "[-consistent] {[dp_name] odp_flow | bridge br_flow} [OPTIONS...] [-generate|packet] actions";
    add(commands, "ofproto/trace-packet-out", usage, 2..=usize::MAX, |switch, words| {
        let (actions, words) = words.split_last().ok_or("Must specify actions")?;
        trace(switch, words, Some(actions))
    });
}

/// Adds a command that answers when statistics are fresh.
pub(super) fn add_fresh(
    commands: &mut Commands<Switch>,
    name: &'static str,
    usage: &'static str,
    arguments: std::ops::RangeInclusive<usize>,
    answer: fn(&mut Switch, &[String]) -> Answer,
) {
    commands.add(name, usage, *arguments.start(), *arguments.end(), move |switch, words| {
        let (reply, place) = Reply::later();
        let words = words.to_vec();
        switch.collect_named(&words);
        switch.when_fresh(move |switch| {
            let answer = answer(switch, &words);
            switch.settle();
            place.give(named(name, answer));
        });
        switch.settle();
        reply
    });
}

/// Returns all megaflows, by thread.
fn dump(switch: &mut Switch, words: &[String]) -> Answer {
    let mut arguments = Arguments::read_of(switch, words)?;
    let view = switch.view(arguments.other.as_deref());
    let verbose = arguments.flag("-m") | arguments.flag("--more");
    let names = arguments.flag("--names") || (verbose && !arguments.flag("--no-names"));
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
    let mut text = String::new();
    let is_meant = |worker: &&WorkerThread| core.is_none_or(|core| core_number(worker) == core);
    for worker in view.workers().iter().filter(is_meant) {
        let wanted = |flow: &ofproto::DatapathFlow| {
            let is_offloaded = view.is_offloaded(flow.id);
            flow.worker == worker.id && filter.matches(&flow.key) && types.have(is_offloaded)
        };
        let options = DumpOptions { verbose, ..DumpOptions::default() };
        let flows = dump_of(&view, options, names, wanted);
        // A dump of one worker's flows needs no heading.
        if !flows.is_empty() && core.is_none() {
            text += &match worker.mode {
                WorkerMode::Sleeping => "flow-dump from the main thread:\n".to_owned(),
                WorkerMode::Polling { cpu, .. } => {
                    format!("flow-dump from pmd on cpu core: {cpu}\n")
                }
            };
        }
        text += &flows;
    }
    arguments.end()?;
    Ok(text)
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

/// Returns a worker's core as in `pmd=`; -1 for the main thread (ovs: `lib/dpctl.man`).
fn core_number(worker: &WorkerThread) -> i32 {
    match worker.mode {
        WorkerMode::Sleeping => -1,
        WorkerMode::Polling { cpu, .. } => i32::try_from(cpu).unwrap_or(i32::MAX),
    }
}

/// Parses a filter such as `in_port=p0,tcp`, with datapath port numbers. Tunnel options have fields in bridges alone.
pub(super) fn flow_filter(devices: &Devices, text: &str) -> Result<Match, String> {
    let ports = |name: &str| {
        let number = devices.number_of(name)?;
        u16::try_from(number.0).ok().map(OfPort)
    };
    let mut filter = openflow::text::parse_match(text, &ports)
        .map_err(|error| format!("Failed to parse filter ({error})"))?;
    let unknown = |index| format!("Failed to parse filter (tun_metadata{index} is not mapped)");
    filter.place_options(&[]).map_err(unknown)?;
    Ok(filter)
}

/// Finds flows by identifier, `ufid:...`, or by the complete key of their packets; each worker may have one.
pub(super) fn find(view: &View<'_>, text: &str) -> Result<Vec<DatapathFlow>, String> {
    let mut flows = view.flows();
    if let Some(ufid) = text.strip_prefix("ufid:") {
        let ufid = ufid.split(',').next().unwrap_or_default();
        if ufid.len() != format_ufid(FlowId(0)).len() {
            return Err("parsing flow ufid (Invalid argument)".to_owned());
        }
        flows.retain(|flow| format_ufid(flow.id) == ufid);
        return Ok(flows);
    }
    let device = |name: &str| view.port_number(name);
    let (key, _) =
        parse_flow(text, &device).map_err(|error| format!("{error} (Invalid argument)"))?;
    flows.retain(|flow| flow.key == key);
    Ok(flows)
}

/// Returns one flow, formatted as in a dump.
fn get(switch: &mut Switch, words: &[String]) -> Answer {
    let mut arguments = Arguments::read_of(switch, words)?;
    let view = switch.view(arguments.other.as_deref());
    let verbose = arguments.flag("-m") | arguments.flag("--more");
    let names = arguments.flag("--names") || (verbose && !arguments.flag("--no-names"));
    arguments.end_before(1)?;
    let text = arguments.next().unwrap_or_default();
    arguments.end()?;
    if !text.starts_with("ufid:") {
        return Err("parsing flow ufid (Invalid argument)".to_owned());
    }
    let flows = find(&view, &text)?;
    let flow = flows.first().ok_or("getting flow (No such file or directory)")?;
    let (id, worker) = (flow.id, flow.worker);
    Ok(dump_of(&view, DumpOptions { verbose, ..DumpOptions::default() }, names, |flow| {
        (flow.id, flow.worker) == (id, worker)
    }))
}

/// Deletes a flow in all workers; `-s` returns its statistics.
fn delete(switch: &mut Switch, words: &[String]) -> Answer {
    let mut arguments = Arguments::read_of(switch, words)?;
    let statistics = arguments.flag("-s") | arguments.flag("--statistics");
    arguments.end_before(1)?;
    let text = arguments.next().unwrap_or_default();
    let other = arguments.other.clone();
    arguments.end()?;
    let flows = find(&switch.view(other.as_deref()), &text)?;
    delete_found(switch, other.as_deref(), &flows)?;
    let mut carried = FlowStats::default();
    flows.iter().for_each(|flow| carried.add(&flow.stats));
    Ok(if statistics { format_stats(&carried, clock::now()) + "\n" } else { String::new() })
}

/// Deletes these flows of a datapath; there must be at least one.
pub(super) fn delete_found(
    switch: &mut Switch,
    other: Option<&str>,
    flows: &[DatapathFlow],
) -> Result<(), String> {
    if flows.is_empty() {
        let missing =
            "deleting flow (No such file or directory)\nPerhaps you need to specify a UFID?";
        return Err(missing.to_owned());
    }
    flows.iter().for_each(|flow| switch.delete_flow(other, flow.id));
    Ok(())
}

/// Returns the megaflows whose packets were received on a bridge's ports.
fn dump_bridge(switch: &mut Switch, words: &[String]) -> Answer {
    let (flags, names): (Vec<&String>, Vec<&String>) =
        words.iter().partition(|word| word.starts_with('-'));
    let has = |name: &str| flags.iter().any(|flag| *flag == name);
    let [name] = names.as_slice() else { return Err("no such bridge".to_owned()) };
    let bridge = switch.ofproto().bridges().named(name).ok_or("no such bridge")?.id;
    let verbose = has("-m");
    let names = has("--names") || (verbose && !has("--no-names"));
    let of_bridge = |flow: &ofproto::DatapathFlow| {
        let found = switch.ofproto().bridges().of_packet(&flow.key);
        found.is_some_and(|(id, _)| id == bridge)
    };
    let options = DumpOptions { verbose, of_bridge: true, ..DumpOptions::default() };
    Ok(dump_of(&switch.view(None), options, names, of_bridge))
}

fn dump_of(
    view: &View<'_>,
    options: DumpOptions<'_>,
    names: bool,
    wanted: impl Fn(&ofproto::DatapathFlow) -> bool,
) -> String {
    let name = |port: PortNo| view.devices().get(port).map(|device| device.name.clone());
    let device: Option<&dyn Fn(PortNo) -> Option<String>> = if names { Some(&name) } else { None };
    let names = PortNames { device, ..PortNames::default() };
    let options = DumpOptions { names, ..options };
    let now = clock::now();
    let flows = view.flows().into_iter().filter(|flow| wanted(flow));
    let format = |flow: DatapathFlow| {
        let is_offloaded = view.is_offloaded(flow.id);
        format_megaflow(&flow, now, DumpOptions { is_offloaded, ..options }) + "\n"
    };
    flows.map(format).collect()
}

/// Returns the bridge's OpenFlow flows, including hidden ones.
fn dump_rules(switch: &mut Switch, words: &[String]) -> Answer {
    let name = words.iter().find(|word| !word.starts_with('-')).ok_or("no such bridge")?;
    let bridge = switch.ofproto().bridges().named(name).ok_or("no such bridge")?.id;
    let offload = match words.iter().any(|word| word == "--offload-stats") {
        true => "n_offload_packets=0, n_offload_bytes=0, ",
        false => "",
    };
    let mut text = String::new();
    if let Some((age, packets, bytes)) = switch.ofproto().fail_open_flow(bridge, clock::now()) {
        let _ = writeln!(
            text,
            "duration={}s, n_packets={packets}, n_bytes={bytes}, {offload}priority={},actions=NORMAL",
            age.as_secs(),
            ofproto::FAIL_OPEN_PRIORITY,
        );
    }
    for flow in switch.ofproto().flows_and_hidden(bridge, clock::now()) {
        let table = match flow.table.0 {
            0 => String::new(),
            table => format!("table_id={table}, "),
        };
        let _ = writeln!(
            text,
            "{table}duration={}s, n_packets={}, n_bytes={}, {offload}{},actions={}",
            flow.duration_ns / 1_000_000_000,
            flow.packets,
            flow.bytes,
            openflow::text::format_match(&flow.matching, Some(flow.priority)),
            openflow::text::format_actions(&flow.actions, &flow.matching),
        );
    }
    Ok(text)
}

/// `ofproto/trace` follows a packet through the tables, as text; `ofproto/trace-packet-out` follows one that
/// a controller sends with these actions.
fn trace(switch: &mut Switch, words: &[String], actions: Option<&str>) -> Answer {
    let mut request = trace_request::read(switch, words)?;
    request.actions = actions.map(|text| sent_actions(switch, request.bridge, text)).transpose()?;
    Ok(switch.trace_packet(&request))
}

/// Parses the actions of a packet-out, which has no instructions.
fn sent_actions(switch: &Switch, bridge: BridgeId, text: &str) -> Result<Vec<Action>, String> {
    let ports = |name: &str| switch.ofproto().port_number(bridge, name);
    let actions = openflow::text::parse_actions(text, &ports).map_err(|error| error.to_string())?;
    let instruction = actions.iter().find_map(|action| match action {
        Action::GotoTable(_) => Some("goto_table"),
        Action::WriteActions(_) => Some("write_actions"),
        Action::ClearActions => Some("clear_actions"),
        Action::WriteMetadata { .. } => Some("write_metadata"),
        _ => None,
    });
    match instruction {
        Some(name) => Err(format!("{name} instruction not allowed here")),
        None => Ok(actions),
    }
}
