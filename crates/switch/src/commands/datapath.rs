//! `dpif/*` and `dpctl/*` commands about ports and flows of the datapath
//! (ovs: `lib/dpctl.c`, `ofproto/ofproto-dpif.c`).

use super::{Answer, Arguments, add, is_datapath};
use crate::Switch;
use crate::capabilities;
use crate::device_kind::DeviceKind;
use crate::devices::{Devices, OpenDevice};
use base::PortNo;
use daemon::unixctl::Commands;
use ofproto::PortDevice;
use port_linux::LinkStatistics;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fmt::Write;

/// Adds these commands.
pub fn add_all(commands: &mut Commands<Switch>) {
    add(commands, "dpif/show", "", 0..=0, |switch, _| show_bridges(switch));
    commands.add_document("dpif/show", |switch, _| Ok(bridges_document(switch)));
    add(commands, "dpif/dump-dps", "", 0..=0, |switch, _| list_bridges(switch));
    add(commands, "dpctl/dump-dps", "", 0..=0, |switch, _| list(switch));
    add(commands, "dpctl/show", "[-s] [dp...]", 0..=usize::MAX, show_ports);
    add(commands, "dpif/show-dp-features", "bridge", 1..=1, |switch, words| {
        let known = switch.ofproto().bridges().named(&words[0]).is_some();
        known.then(capabilities::describe).ok_or_else(|| "no such bridge".to_owned())
    });
    add(commands, "memory/show", "", 0..=0, |switch, _| Ok(switch.describe_memory()));
    add(commands, "coverage/show", "", 0..=0, |switch, _| Ok(switch.describe_coverage()));
    add(commands, "coverage/read-counter", "counter", 1..=1, |switch, words| {
        switch.read_counter(&words[0])
    });
}

/// Returns the bridges; each counts as one here.
fn list_bridges(switch: &mut Switch) -> Answer {
    let kind = switch.settings.dummy.datapath_name().split('@').next().unwrap_or_default();
    let bridges = switch.ofproto().bridges().iter();
    let mut lines: Vec<String> =
        bridges.map(|bridge| format!("{kind}@{}\n", bridge.config.name)).collect();
    lines.sort();
    Ok(lines.concat())
}

/// Returns all datapaths; the switch's own exists as soon as there is a bridge.
fn list(switch: &mut Switch) -> Answer {
    Ok(names(switch).iter().map(|name| format!("{name}\n")).collect())
}

fn names(switch: &Switch) -> BTreeSet<String> {
    let others = switch.datapaths().keys().cloned();
    let has_bridges = switch.ofproto().bridges().iter().next().is_some();
    let own = has_bridges.then(|| switch.settings.dummy.datapath_name().to_owned());
    others.chain(own).collect()
}

/// Returns every bridge with its ports, by OpenFlow and datapath numbers.
/// A port as `dpif/show` describes it.
struct ShownPort {
    name: String,
    ofport: u16,
    /// The datapath's number, or `none`.
    number: String,
    /// Its type, and its configuration behind a colon.
    description: String,
}

/// Returns the bridges and their ports in the order of their names.
fn shown_bridges(switch: &Switch) -> Vec<(String, Vec<ShownPort>)> {
    let bridges = switch.ofproto().bridges().iter().map(|bridge| {
        let ports = bridge.ports().map(|port| {
            let (number, description) = match &port.spec.device {
                PortDevice::Datapath(number) => {
                    let label = switch.devices().get(*number).and_then(OpenDevice::label);
                    (number.to_string(), label.unwrap_or_else(|| "system".to_owned()))
                }
                PortDevice::Tunnel { device, config } => {
                    let (kind, options) = (config.kind.name(), config.describe_options());
                    (device.to_string(), format!("{kind}: {options}"))
                }
                PortDevice::Patch { peer } => ("none".to_owned(), format!("patch: peer={peer}")),
            };
            let name = port.spec.name.clone();
            ShownPort { name, ofport: port.number.0, number, description }
        });
        let mut ports: Vec<ShownPort> = ports.collect();
        ports.sort_by(|a, b| a.name.cmp(&b.name));
        (bridge.config.name.clone(), ports)
    });
    let mut bridges: Vec<_> = bridges.collect();
    bridges.sort_by(|a, b| a.0.cmp(&b.0));
    bridges
}

fn show_bridges(switch: &mut Switch) -> Answer {
    if switch.ofproto().bridges().iter().next().is_none() {
        return Ok(String::new());
    }
    let totals = switch.totals();
    let datapath = switch.settings.dummy.datapath_name();
    let mut text = format!("{datapath}: hit:{} missed:{}\n", totals.hits(), totals.misses());
    for (bridge, ports) in shown_bridges(switch) {
        let _ = writeln!(text, "  {bridge}:");
        for ShownPort { name, ofport, number, description } in ports {
            let _ = writeln!(text, "    {name} {ofport}/{number}: ({description})");
        }
    }
    Ok(text)
}

/// The document of `dpif/show` (ovs: `ofproto/ofproto-dpif.c`, `dpif_show_backer_json`).
fn bridges_document(switch: &mut Switch) -> Value {
    let bridges = shown_bridges(switch);
    if bridges.is_empty() {
        return json!({});
    }
    let totals = switch.totals();
    let of_port = |port: ShownPort| {
        let (kind, config) = port.description.split_once(": ").unwrap_or((&port.description, ""));
        let config = config.split(", ").filter_map(|option| option.split_once('='));
        let config: serde_json::Map<String, Value> =
            config.map(|(name, value)| (name.to_owned(), json!(value))).collect();
        let mut document =
            json!({ "ofport": port.ofport.to_string(), "port_no": port.number, "type": kind });
        if !config.is_empty() {
            document["config"] = Value::Object(config);
        }
        (port.name, document)
    };
    let bridges: serde_json::Map<String, Value> = bridges
        .into_iter()
        .map(|(name, ports)| (name, Value::Object(ports.into_iter().map(of_port).collect())))
        .collect();
    let stats = json!({ "hit": totals.hits().to_string(), "missed": totals.misses().to_string() });
    let mut all = serde_json::Map::new();
    let datapath = switch.settings.dummy.datapath_name();
    all.insert(datapath.to_string(), json!({ "stats": stats, "bridges": bridges }));
    Value::Object(all)
}

/// Returns the ports of the named datapaths or of all, with their counters for `-s`.
fn show_ports(switch: &mut Switch, words: &[String]) -> Answer {
    let (flags, mut wanted): (Vec<String>, Vec<String>) =
        words.iter().cloned().partition(|word| word.starts_with('-'));
    for name in &wanted {
        // Without a type the name refers to the kernel's datapaths, of which there are none.
        let (kind, device) = name.split_once('@').unwrap_or(("system", name));
        if !is_datapath(kind, device) && !switch.datapaths().contains_key(name) {
            let why = match kind {
                "netdev" => "No such device",
                _ => "No such file or directory",
            };
            return Err(format!("opening datapath {name} failed ({why})"));
        }
    }
    let mut arguments = Arguments::read(&flags)?;
    let with_statistics = arguments.flag("-s");
    arguments.end()?;
    if wanted.is_empty() {
        wanted.extend(names(switch));
    }
    let has_bridges = switch.ofproto().bridges().iter().next().is_some();
    let mut text = String::new();
    for name in &wanted {
        if let Some(other) = switch.datapaths_mut().get_mut(name) {
            other.iterate();
            text += &heading(name, other.lookups(), other.flows().count());
            text += &describe_ports(other.devices_mut(), with_statistics);
        } else if has_bridges {
            let (totals, name) = (switch.totals(), switch.settings.dummy.datapath_name());
            let lookups = [totals.hits(), totals.misses(), totals.lost];
            text += &heading(name, lookups, switch.ofproto().megaflow_counters().current);
            text += &own_port(name, with_statistics);
            text += &describe_ports(switch.devices_mut(), with_statistics);
        }
    }
    // Open vSwitch returns an empty error if there is none.
    if text.is_empty() { Err(text) } else { Ok(text) }
}

fn heading(name: &str, [hit, missed, lost]: [u64; 3], flows: usize) -> String {
    format!("{name}:\n  lookups: hit:{hit} missed:{missed} lost:{lost}\n  flows: {flows}\n")
}

/// The port of the datapath's own name, which Open vSwitch makes with it and no bridge has.
fn own_port(datapath: &str, with_statistics: bool) -> String {
    let (kind, name) = datapath.split_once('@').unwrap_or(("", datapath));
    let label = if kind == "dummy" { "dummy-internal" } else { "tap" };
    let mut text = format!("  port 0: {name} ({label})\n");
    if with_statistics {
        text += &describe_counters(&LinkStatistics::default(), true);
    }
    text
}

fn describe_ports(devices: &mut Devices, with_statistics: bool) -> String {
    let mut text = String::new();
    let is_tunnel = |device: &OpenDevice| matches!(device.kind, DeviceKind::Tunnel(_));
    let ports: Vec<(PortNo, String, Option<String>, bool)> =
        devices.iter().map(|(n, d)| (n, d.name.clone(), d.label(), is_tunnel(d))).collect();
    for (number, name, label, is_tunnel) in ports {
        let label = label.map(|label| format!(" ({label})")).unwrap_or_default();
        let _ = writeln!(text, "  port {number}: {name}{label}");
        if with_statistics && let Ok(link) = devices.link(&name) {
            text += &describe_counters(&link.statistics, !is_tunnel);
        }
    }
    text
}

/// A tunnel counts packets and bytes only.
fn describe_counters(s: &LinkStatistics, has_errors: bool) -> String {
    let or_unknown = |count: u64| if has_errors { count.to_string() } else { "?".to_owned() };
    format!(
        "    RX packets:{} errors:{} dropped:{} overruns:{} frame:{}\n\
         \x20   TX packets:{} errors:{} dropped:{} aborted:{zero} carrier:{zero}\n\
         \x20   collisions:{}\n    RX bytes:{}  TX bytes:{}\n    UPCALL packets:? errors:?\n",
        s.rx_packets,
        or_unknown(s.rx_errors),
        or_unknown(s.rx_dropped),
        or_unknown(s.rx_over_err),
        or_unknown(s.rx_frame_err),
        s.tx_packets,
        or_unknown(s.tx_errors),
        or_unknown(s.tx_dropped),
        or_unknown(s.collisions),
        bytes(s.rx_bytes),
        bytes(s.tx_bytes),
        zero = or_unknown(0),
    )
}

/// Formats `1536 (1.5 KiB)`; small counts without the second part.
fn bytes(count: u64) -> String {
    const UNITS: [(&str, u32); 4] = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];
    match UNITS.iter().find(|(_, shift)| count >> shift > 0) {
        Some((unit, shift)) => {
            format!("{count} ({:.1} {unit})", count as f64 / (1u64 << shift) as f64)
        }
        None => count.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_told_in_the_largest_unit() {
        for (count, text) in [
            (0, "0"),
            (1023, "1023"),
            (1536, "1536 (1.5 KiB)"),
            (15_252_942, "15252942 (14.5 MiB)"),
            (1 << 40, "1099511627776 (1.0 TiB)"),
        ] {
            assert_eq!(bytes(count), text);
        }
    }
}
