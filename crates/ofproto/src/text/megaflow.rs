//! Lines of a dump of the datapath's flows.

use super::field::TCP_FLAGS;
use super::{PortNames, format_actions, format_flow};
use crate::installed::DatapathFlow;
use base::Instant;
use flow::{FlowId, FlowStats};
use std::fmt::Write;

/// The format of a dump.
#[derive(Clone, Copy, Default, Debug)]
pub struct DumpOptions<'a> {
    /// All fields, with masks (`-m`).
    pub verbose: bool,
    /// Only what Open vSwitch's `dpif/dump-flows` prints, without a datapath's additions.
    pub of_bridge: bool,
    /// A device forwards some of the flow's packets.
    pub is_offloaded: bool,
    /// Port names.
    pub names: PortNames<'a>,
}

/// A megaflow with its statistics, as `dpctl/dump-flows` prints it:
/// `recirc_id(0),in_port(1),..., packets:1, bytes:42, used:0.060s, actions:2`.
pub fn format_megaflow(flow: &DatapathFlow, now: Instant, options: DumpOptions<'_>) -> String {
    let mut out = String::new();
    if options.verbose {
        let comma = if options.of_bridge { "" } else { "," };
        let _ = write!(out, "ufid:{}{comma} ", format_ufid(flow.id));
    }
    // A partly masked field is printed as it was in the packet that the flow was made for; with -m, so are
    // fields without mask bits.
    let matching = format_flow(&flow.key, flow.matching.mask(), options.verbose, options.names);
    // A translation depends on the packet type; the match of a command does not name it.
    out += &match flow.is_by_hand() && !options.verbose {
        true => matching.replacen("packet_type(ns=0,id=0),", "", 1),
        false => matching,
    };
    let _ = write!(out, ", {}", format_stats(&flow.stats, now));
    if options.verbose && !options.of_bridge {
        out += if options.is_offloaded { ", offloaded:partial, dp:ovs" } else { ", dp:ovs" };
    }
    let actions = format_actions(&flow.actions, &flow.key, options.names);
    let _ = write!(out, ", actions:{actions}");
    if options.verbose && !options.of_bridge {
        // The package `ovs` knows no other content of `dp-extra-info`: how many of the first 64 words, and of the
        // others, a lookup compares (ovs: `python/ovs/flow/odp.py`). All words of a key are among the first.
        let words = flow.matching.mask().count_words();
        let _ = write!(out, ", dp-extra-info:miniflow_bits({words},0)");
    }
    out
}

/// Statistics as in a dump: `packets:2, bytes:84, used:1.809s, flags:S`.
pub fn format_stats(stats: &FlowStats, now: Instant) -> String {
    let mut out = format!("packets:{}, bytes:{}, used:", stats.packets, stats.bytes);
    match stats.used {
        Some(used) => {
            let _ = write!(out, "{:.3}s", (now - used).as_millis() as f64 / 1000.0);
        }
        None => out += "never",
    }
    if stats.tcp_flags != 0 {
        let _ = write!(out, ", flags:{}", short_flags(stats.tcp_flags));
    }
    out
}

/// `SFP.`: one letter per flag (ovs: `lib/packets.c`, `packet_format_tcp_flags`).
fn short_flags(flags: u16) -> String {
    let letters = "FSRP.UECN";
    let mut out = String::new();
    // The order in which Open vSwitch writes them.
    for letter in "SFPRU.ECN".chars() {
        let place = letters.chars().position(|other| other == letter);
        if place.is_some_and(|place| flags & (1 << place) != 0) {
            out.push(letter);
        }
    }
    for (bit, name) in TCP_FLAGS.iter().filter(|(bit, _)| *bit >= 0x200) {
        if u128::from(flags) & bit != 0 {
            out += name;
        }
    }
    out
}

/// A flow's number in the form of the 128-bit identifiers that Open vSwitch's tools expect.
pub fn format_ufid(id: FlowId) -> String {
    // Spread, so that consecutive numbers do not look alike.
    let high = id.0.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let text = format!("{high:016x}{:016x}", id.0);
    let parts = [&text[..8], &text[8..12], &text[12..16], &text[16..20], &text[20..]];
    parts.join("-")
}

/// Reads what [`format_ufid`] writes. None if it is no flow's.
pub fn parse_ufid(text: &str) -> Option<FlowId> {
    let digits = text.replace('-', "");
    let id = FlowId(u64::from_str_radix(digits.get(16..)?, 16).ok()?);
    (format_ufid(id) == text).then_some(id)
}
