//! `ofproto/*`, `fdb/*` and `bridge/*` commands (ovs: `ofproto/ofproto-dpif.c`).

use super::{Answer, add};
use crate::Switch;
use base::{MacAddr, OfPort};
use daemon::unixctl::Commands;
use ofproto::{Bridge, BridgeId, MacEntry, MacTable};
use serde_json::{Value, json};
use std::fmt::Write;

/// Adds these commands.
pub fn add_all(commands: &mut Commands<Switch>) {
    add(commands, "ofproto/list", "", 0..=0, |switch, _| Ok(list(switch)));
    add(commands, "fdb/show", "bridge", 1..=1, show_macs);
    commands.add_document("fdb/show", macs_document);
    add(commands, "fdb/flush", "[bridge]", 0..=1, flush_macs);
    add(commands, "fdb/add", "bridge port vlan mac", 4..=4, add_mac);
    add(commands, "fdb/del", "bridge vlan mac", 3..=3, delete_mac);
    add(commands, "fdb/stats-show", "bridge", 1..=1, show_mac_counters);
    add(commands, "fdb/stats-clear", "[bridge]", 0..=1, clear_mac_counters);
    add(commands, "bridge/reconnect", "[bridge]", 0..=1, reconnect);
}

fn list(switch: &Switch) -> String {
    let mut names: Vec<&str> =
        switch.ofproto().bridges().iter().map(|bridge| bridge.config.name.as_str()).collect();
    names.sort_unstable();
    names.iter().map(|name| format!("{name}\n")).collect()
}

fn bridge<'a>(switch: &'a Switch, name: &str) -> Result<&'a Bridge, String> {
    switch.ofproto().bridges().named(name).ok_or_else(|| "no such bridge".to_owned())
}

/// Returns the learned addresses, oldest first.
/// The document of `fdb/show` (ovs: `ofproto/ofproto-dpif.c`, `ofproto_unixctl_fdb_show_json`).
fn macs_document(switch: &mut Switch, words: &[String]) -> Result<Value, String> {
    let now = clock::now();
    let id = bridge(switch, &words[0])?.id;
    let macs = switch.ofproto().macs(id).into_iter().flat_map(MacTable::iter);
    let documents = macs.map(|entry| {
        let mut document =
            json!({ "port": entry.port.0, "vlan": entry.vlan, "mac": entry.mac.to_string() });
        match entry.is_static {
            true => document["static"] = json!(true),
            false => document["age"] = json!((now - entry.seen).as_secs()),
        }
        document
    });
    Ok(documents.collect())
}

fn show_macs(switch: &mut Switch, words: &[String]) -> Answer {
    let now = clock::now();
    let id = bridge(switch, &words[0])?.id;
    let macs = switch.ofproto().macs(id).into_iter().flat_map(MacTable::iter);
    let mut text = " port  VLAN  MAC                Age\n".to_owned();
    for entry in macs {
        let port = port_text(entry.port);
        let age = match entry.is_static {
            true => "static".to_owned(),
            false => format!("{:>3}", (now - entry.seen).as_secs()),
        };
        let _ = writeln!(text, "{port:>5}  {:>4}  {}  {age}", entry.vlan, entry.mac);
    }
    Ok(text)
}

fn port_text(port: OfPort) -> String {
    match port {
        OfPort::LOCAL => "LOCAL".to_owned(),
        port => port.0.to_string(),
    }
}

/// Returns the named bridge, or all if none is named.
fn one_or_all(switch: &Switch, words: &[String]) -> Result<Vec<BridgeId>, String> {
    match words.first() {
        Some(name) => Ok(vec![bridge(switch, name)?.id]),
        None => Ok(switch.ofproto().bridges().iter().map(|bridge| bridge.id).collect()),
    }
}

/// Removes the learned addresses of one bridge or of all.
fn flush_macs(switch: &mut Switch, words: &[String]) -> Answer {
    for id in one_or_all(switch, words)? {
        switch.ofproto_mut().flush_macs(id);
    }
    Ok("table successfully flushed".to_owned())
}

/// Parses `vlan mac`. As in Open vSwitch, an invalid number becomes VLAN 0.
fn vlan_and_mac(vlan: &str, mac: &str) -> Result<(u16, MacAddr), String> {
    let vlan = vlan.parse().ok().filter(|vlan| *vlan < 4096);
    let vlan = vlan.ok_or("bad VLAN, which is a number up to 4095")?;
    Ok((vlan, mac.parse().map_err(|_| "bad MAC address")?))
}

/// Adds a static address to a port (ovs: `ofproto_unixctl_fdb_add`).
fn add_mac(switch: &mut Switch, words: &[String]) -> Answer {
    let bridge = bridge(switch, &words[0])?;
    let (id, port) = (bridge.id, bridge.port_named(&words[1]).map(|port| port.number));
    let port = port.ok_or_else(|| format!("{}: no such port of this bridge", words[1]))?;
    let (vlan, mac) = vlan_and_mac(&words[2], &words[3])?;
    let before = switch.ofproto_mut().set_static_mac(id, (vlan, mac), port, clock::now());
    let is_told = |before: &MacEntry| before.port != port || !before.is_static;
    Ok(before.filter(is_told).map_or_else(String::new, |before| {
        let kind = if before.is_static { "static" } else { "dynamic" };
        format!("Overriding already existing {kind} entry on {}\n", port_text(before.port))
    }))
}

fn delete_mac(switch: &mut Switch, words: &[String]) -> Answer {
    let id = bridge(switch, &words[0])?.id;
    let (vlan, mac) = vlan_and_mac(&words[1], &words[2])?;
    match switch.ofproto_mut().remove_static_mac(id, vlan, mac) {
        true => Ok(String::new()),
        false => Err("could not find static mac entry".to_owned()),
    }
}

fn clear_mac_counters(switch: &mut Switch, words: &[String]) -> Answer {
    for id in one_or_all(switch, words)? {
        switch.ofproto_mut().clear_mac_counters(id);
    }
    Ok("statistics successfully cleared".to_owned())
}

/// Closes the OpenFlow connections of one bridge or of all; outgoing ones are reconnected.
fn reconnect(switch: &mut Switch, words: &[String]) -> Answer {
    for id in one_or_all(switch, words).map_err(|_| "Unknown bridge")? {
        switch.hang_up(id);
    }
    Ok(String::new())
}

fn show_mac_counters(switch: &mut Switch, words: &[String]) -> Answer {
    let bridge = bridge(switch, &words[0])?;
    let macs = switch.ofproto().macs(bridge.id).ok_or("no such bridge")?;
    let (name, counters) = (&bridge.config.name, macs.counters());
    Ok(format!(
        "Statistics for bridge \"{name}\":\n  Current/maximum MAC entries in the table: {}/{}\n\
         \x20 Current static MAC entries in the table : {}\n\
         \x20 Total number of learned MAC entries     : {}\n\
         \x20 Total number of expired MAC entries     : {}\n\
         \x20 Total number of evicted MAC entries     : {}\n\
         \x20 Total number of port moved MAC entries  : {}\n",
        macs.len(),
        macs.size(),
        macs.static_len(),
        counters.learned,
        counters.expired,
        counters.evicted,
        counters.moved,
    ))
}
