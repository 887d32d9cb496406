//! Commands about offloaded connections (ovs: `lib/dpctl.c`, `lib/dpif-netdev.c`).

use super::flows::{add_fresh, find};
use super::{Answer, Arguments, add};
use crate::Switch;
use crate::device_kind::DeviceKind;
use crate::offload::FlowOffloads;
use base::PortNo;
use daemon::unixctl::Commands;
use flow::{Action, Refusal};
use ofproto::DatapathFlow;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write;

/// Adds these commands.
pub fn add_all(commands: &mut Commands<Switch>) {
    add_fresh(commands, "dpctl/offload-stats-show", "[dp]", 0..=1, statistics);
    add(commands, "dpif/offload/show", "", 0..=0, |switch, _| Ok(show(switch)));
    commands.add_document("dpif/offload/show", |switch, _| Ok(document(switch)));
    let usage = "[text|json] [dp] flow";
    add_fresh(commands, "tidegate/why-not-offloaded", usage, 1..=3, why_not);
}

/// The devices that offload flows of the datapath, each with its ports by name.
fn providers(switch: &Switch) -> BTreeMap<&'static str, BTreeMap<String, PortNo>> {
    let mut providers = BTreeMap::<_, BTreeMap<String, PortNo>>::new();
    let offload = switch.offload();
    let devices = switch.devices().iter();
    for (number, device) in devices.filter(|&(number, _)| offload.receives_from(number)) {
        let provider = if device.kind == DeviceKind::Dpdk { "dpdk" } else { "xdp" };
        providers.entry(provider).or_default().insert(device.name.clone(), number);
    }
    providers
}

fn has_datapath(switch: &Switch) -> bool {
    switch.ofproto().bridges().iter().next().is_some()
}

/// Returns the providers of offload (ovs: `ofproto/ofproto-dpif.c`, `dpif_offload_show_backer_text`).
fn show(switch: &Switch) -> String {
    let mut text = format!("Globally enabled: {}\nDatapaths:\n", switch.offload().is_on());
    if !has_datapath(switch) {
        return text;
    }
    let _ = writeln!(text, "{}:", switch.settings.dummy.datapath_name());
    for (provider, ports) in providers(switch) {
        let _ = writeln!(text, "  {provider}");
        for (name, number) in ports {
            let _ = writeln!(text, "  - {name}: port_no: {number}");
        }
    }
    text
}

fn document(switch: &Switch) -> Value {
    let mut all = json!({ "enabled": switch.offload().is_on() });
    if has_datapath(switch) {
        let providers = providers(switch);
        let priority: Vec<&str> = providers.keys().copied().collect();
        let ports = |ports: BTreeMap<String, PortNo>| {
            let ports = ports.into_iter().map(|(name, port)| (name, json!({ "port_no": port.0 })));
            json!({ "ports": ports.collect::<serde_json::Map<_, _>>() })
        };
        let providers = providers.into_iter().map(|(name, of)| (name.to_owned(), ports(of)));
        let providers = providers.collect::<serde_json::Map<_, _>>();
        let datapath = switch.settings.dummy.datapath_name();
        all[datapath] = json!({ "priority": priority, "providers": providers });
    }
    all
}

/// Returns the numbers of offloaded connections and of offers. The first lines are Open vSwitch's.
fn statistics(switch: &mut Switch, words: &[String]) -> Answer {
    Arguments::read(words)?.end()?;
    let offload = switch.offload();
    if !offload.is_on() {
        return Err("retrieving offload statistics (Invalid argument)".to_owned());
    }
    let (table, totals) = (offload.table(), offload.table().totals());
    let mut text = "HW Offload stats:\n".to_owned();
    let mut line = |name: &str, value: u64| {
        let _ = writeln!(text, "     Total {name:>33}: {value:>6}");
    };
    let (one_way, both_ways) = table.connections();
    line("Enqueued offloads", table.waiting() as u64);
    line("Inserted offloads", totals.installed - totals.removed);
    line("CT uni-dir Connections", one_way as u64);
    line("CT bi-dir Connections", both_ways as u64);
    if table.checked() > 0 {
        line("CT window-checked Connections", table.checked() as u64);
    }
    line("Installed so far", totals.installed);
    line("Forwarded packets", totals.traffic.packets);
    line("Forwarded bytes", totals.traffic.bytes);
    for (refusal, count) in &totals.refused {
        line(&format!("Refused: {}", refusal.name()), *count);
    }
    for (reason, count) in offload.passed().into_iter().filter(|(_, count)| *count > 0) {
        line(&format!("Passed up: {reason}"), count);
    }
    Ok(text)
}

/// Returns why packets of a flow are forwarded by the switch and not by the device.
fn why_not(switch: &mut Switch, words: &[String]) -> Answer {
    let mut arguments = Arguments::read(words)?;
    let mut flow = arguments.next().unwrap_or_default();
    let is_json = flow == "json";
    if is_json || flow == "text" {
        flow = arguments.next().ok_or("name a flow, as dpctl/dump-flows -m prints it")?;
    }
    arguments.end()?;
    let flow = find(&switch.view(None), &flow)?.into_iter().next().ok_or(
        "there is no such flow (No such file or directory); name one as dpctl/dump-flows -m prints \
         it, or its ufid",
    )?;
    let known = switch.offload().table().flow(flow.id);
    let rules = known.map_or(0, |known| known.rules.len());
    let traffic = known.map(|known| known.traffic).unwrap_or_default();
    let reasons = reasons(switch, &flow, known);
    if is_json {
        let reasons: Vec<_> = reasons
            .iter()
            .map(|(name, words, count)| json!({"reason": name, "text": words, "count": count}))
            .collect();
        let (packets, bytes) = (traffic.packets, traffic.bytes);
        let answer =
            json!({"rules": rules, "packets": packets, "bytes": bytes, "not_offloaded": reasons});
        return Ok(format!("{answer}\n"));
    }
    let mut text = format!(
        "{rules} rules offloaded, {} packets and {} bytes forwarded by the device\n",
        traffic.packets, traffic.bytes
    );
    for (name, words, count) in reasons {
        let _ = match count {
            0 => writeln!(text, "{name}: {words}"),
            _ => writeln!(text, "{name}: {words} ({count} offers)"),
        };
    }
    Ok(text)
}

/// Says why packets of a port are not offloaded; `failure` is why XDP is not possible.
fn not_receiving(port: &str, failure: Option<&str>) -> String {
    let takes = "a system device with options:xdp-offload=true, or a port of DPDK";
    let failure = failure.map(|failure| format!("; for system devices, {failure}"));
    format!("packets of {port} are not offloaded; it takes {takes}{}", failure.unwrap_or_default())
}

/// Returns each reason's name, its description, and the number of refused offers; 0 if the reason prevents
/// offers.
fn reasons(
    switch: &Switch,
    flow: &DatapathFlow,
    known: Option<&FlowOffloads>,
) -> Vec<(&'static str, String, u64)> {
    let offload = switch.offload();
    if !offload.is_on() {
        let words = offload.failure().map_or_else(
            || "other_config:hw-offload is not true".to_owned(),
            |failure| format!("other_config:hw-offload is true, but {failure}"),
        );
        return vec![("off", words, 0)];
    }
    let mut reasons = Vec::new();
    let in_port = flow.key.in_port();
    // For packets from a tunnel, the device belongs to the flow that decapsulates, so it is not checked here.
    if !offload.receives_from(in_port) && !flow.key.has_tunnel() {
        let name = switch.devices().get(in_port).map_or("its port", |device| &device.name);
        let words = if offload.has_tags_beside(in_port) {
            format!("packets of {name} are not offloaded, since VLAN tags stand beside them")
        } else {
            not_receiving(name, offload.failure())
        };
        reasons.push((Refusal::InPort.name(), words, 0));
    }
    // After decapsulation, packets may be tracked.
    let is_tracking = |it: &Action| matches!(it, Action::Ct(_) | Action::TunnelPop { .. });
    let tracks = flow.actions.iter().any(is_tracking);
    if !tracks && flow.key.ct_state().is_empty() {
        reasons.push((Refusal::Untracked.name(), Refusal::Untracked.to_string(), 0));
    }
    let refused = known.into_iter().flat_map(|known| &known.refused);
    reasons.extend(refused.map(|(refusal, refused)| {
        let words = refused.words.as_ref().map(|words| format!(": {words}"));
        (refusal.name(), format!("{refusal}{}", words.unwrap_or_default()), refused.count)
    }));
    if reasons.is_empty() && known.is_none_or(|known| known.rules.is_empty()) {
        let words = "no established TCP or UDP connection of it had packets since it was installed, \
                     or its actions do more than rewrite headers and send to one port or drop";
        reasons.push(("not-offered", words.to_owned(), 0));
    }
    reasons
}

#[cfg(test)]
mod tests {
    use super::not_receiving;

    #[test]
    fn a_failure_of_xdp_is_told_beside_what_offload_takes() {
        let text = not_receiving("p0", None);
        assert!(text.ends_with("options:xdp-offload=true, or a port of DPDK"), "{text}");
        let text = not_receiving("p0", Some("this build has no XDP program"));
        assert!(text.ends_with("; for system devices, this build has no XDP program"), "{text}");
    }
}
