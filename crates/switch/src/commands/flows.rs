//! Commands about the datapath's flows: dumps, traces, revalidation
//! (ovs: `lib/dpctl.c`, `ofproto/ofproto-dpif.c`, `ofproto/ofproto-dpif-trace.c`).

use super::{Answer, Arguments, add, named, trace_request};
use crate::Switch;
use crate::datapaths::View;
use crate::devices::Devices;
use crate::worker_messages::WorkerMode;
use crate::worker_thread::WorkerThread;
use base::{OfPort, PortNo};
use daemon::unixctl::{Commands, Reply};
use flow::{FlowId, FlowStats, Match};
use ofproto::text::{
    DumpOptions, PortNames, format_megaflow, format_stats, format_ufid, parse_flow, parse_ufid,
};
use ofproto::{BridgeId, DatapathFlow};
use openflow::Action;

/// Adds these commands.
pub fn add_all(commands: &mut Commands<Switch>) {
    add_fresh(commands, "dpctl/get-flow", "[-m] [--names] [dp] ufid", 1..=4, get);
    add_fresh(commands, "dpctl/del-flow", "[-s] [dp] flow", 1..=3, delete);
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

/// Returns a worker's core as in `pmd=`; -1 for the main thread (ovs: `lib/dpctl.man`).
pub(super) fn core_number(worker: &WorkerThread) -> i32 {
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
    if let Some(ufid) = text.strip_prefix("ufid:") {
        let ufid = ufid.split(',').next().unwrap_or_default();
        if ufid.len() != format_ufid(FlowId(0)).len() {
            return Err("parsing flow ufid (Invalid argument)".to_owned());
        }
        let flow = parse_ufid(ufid).and_then(|id| view.flow(id));
        return Ok(flow.into_iter().collect());
    }
    let mut flows = view.flows();
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
    let (verbose, names) = arguments.detail();
    arguments.end_before(1)?;
    let text = arguments.next().unwrap_or_default();
    arguments.end()?;
    if !text.starts_with("ufid:") {
        return Err("parsing flow ufid (Invalid argument)".to_owned());
    }
    let flows = find(&view, &text)?;
    let flow = flows.first().ok_or("getting flow (No such file or directory)")?;
    let name = |port: PortNo| view.devices().get(port).map(|device| device.name.clone());
    let device: Option<&dyn Fn(PortNo) -> Option<String>> = if names { Some(&name) } else { None };
    let names = PortNames { device, ..PortNames::default() };
    let is_offloaded = view.is_offloaded(flow.id);
    let options = DumpOptions { verbose, is_offloaded, names, ..DumpOptions::default() };
    Ok(format_megaflow(flow, clock::now(), options) + "\n")
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
