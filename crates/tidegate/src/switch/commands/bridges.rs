//! `ofproto/*`, `fdb/*` and `bridge/*` commands (ovs: `ofproto/ofproto-dpif.c`).

use super::{Answer, add};
use crate::clock;
use crate::switch::Switch;
use crate::unixctl::Commands;
use ofproto::{Bridge, BridgeId};
use std::fmt::Write;

/// Adds these commands.
pub fn add_all(commands: &mut Commands<Switch>) {
    add(commands, "ofproto/list", "", 0..=0, |switch, _| Ok(list(switch)));
    add(commands, "fdb/show", "bridge", 1..=1, show_macs);
    add(commands, "fdb/flush", "[bridge]", 0..=1, flush_macs);
    add(commands, "fdb/stats-show", "bridge", 1..=1, show_mac_counters);
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

/// Learned addresses, the longest known first.
fn show_macs(switch: &mut Switch, words: &[String]) -> Answer {
    let now = clock::now();
    let bridge = bridge(switch, &words[0])?;
    let mut text = " port  VLAN  MAC                Age\n".to_owned();
    for entry in bridge.macs.iter() {
        let port = match entry.port {
            base::OfPort::LOCAL => "LOCAL".to_owned(),
            port => port.0.to_string(),
        };
        let age = (now - entry.seen).as_secs();
        let _ = writeln!(text, "{port:>5}  {:>4}  {}  {age:>3}", entry.vlan, entry.mac);
    }
    Ok(text)
}

/// Forgets the addresses of one bridge or of all.
fn flush_macs(switch: &mut Switch, words: &[String]) -> Answer {
    let ids: Vec<BridgeId> = match words.first() {
        Some(name) => vec![bridge(switch, name)?.id],
        None => switch.ofproto().bridges().iter().map(|bridge| bridge.id).collect(),
    };
    for id in ids {
        switch.ofproto_mut().flush_macs(id);
    }
    Ok("table successfully flushed".to_owned())
}

fn show_mac_counters(switch: &mut Switch, words: &[String]) -> Answer {
    let bridge = bridge(switch, &words[0])?;
    let (name, counters) = (&bridge.config.name, bridge.macs.counters());
    Ok(format!(
        "Statistics for bridge \"{name}\":\n  Current/maximum MAC entries in the table: {}/{}\n\
         \x20 Current static MAC entries in the table : 0\n\
         \x20 Total number of learned MAC entries     : {}\n\
         \x20 Total number of expired MAC entries     : {}\n\
         \x20 Total number of evicted MAC entries     : {}\n\
         \x20 Total number of port moved MAC entries  : {}\n",
        bridge.macs.len(),
        bridge.macs.size(),
        counters.learned,
        counters.expired,
        counters.evicted,
        counters.moved,
    ))
}
