//! Datapath flows and actions as text, as `ovs-appctl dpctl/dump-flows` prints them and
//! `ofproto/trace` reads them (ovs: `lib/odp-util.c`).

mod actions;
mod field;
mod key;
mod matching;
mod megaflow;
mod mpls;
mod nsh;
mod parentheses;
mod parse;
mod parse_actions;
mod parse_options;
mod parse_tunnel;
mod tunnel;

pub use actions::format_actions;
pub use key::{format_flow, format_packet};
pub use matching::{format_key, format_match};
pub use megaflow::{DumpOptions, format_megaflow, format_stats, format_ufid, parse_ufid};
pub use parse::{ParseError, parse_flow, parse_megaflow, parse_packet};
pub use parse_actions::parse_actions;

use base::{OfPort, PortNo};
use flow::OptionMapping;

/// Names to print instead of numbers, and the names of tunnel options.
#[derive(Clone, Copy, Default)]
pub struct PortNames<'a> {
    /// Names of datapath ports.
    pub device: Option<&'a dyn Fn(PortNo) -> Option<String>>,
    /// Names of a bridge's ports.
    pub bridge: Option<&'a dyn Fn(OfPort) -> Option<String>>,
    /// The bridge's TLV table, for keys in OpenFlow's syntax.
    pub options: &'a [OptionMapping],
}

impl PortNames<'_> {
    /// The name of a datapath port, or its number.
    pub fn device(&self, port: PortNo) -> String {
        self.device.and_then(|name| name(port)).unwrap_or_else(|| port.to_string())
    }

    /// The name of a bridge's port, or its number.
    pub fn bridge(&self, port: OfPort) -> String {
        self.bridge.and_then(|name| name(port)).unwrap_or_else(|| port.to_string())
    }
}

impl std::fmt::Debug for PortNames<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (device, bridge) = (self.device.is_some(), self.bridge.is_some());
        write!(f, "PortNames {{ device: {device}, bridge: {bridge} }}")
    }
}
