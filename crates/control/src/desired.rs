//! The desired configuration: bridges, ports, connection tracking zones, settings.

use crate::{Port, SwitchOptions};
use base::{DatapathId, MacAddr, Zone, limits};
use ofproto::{FailMode, MirrorConfig, TableConfig};
use openflow::Version;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// The whole configuration of a switch. If two are equal, nothing has to be changed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Desired {
    /// Bridges by name.
    pub bridges: BTreeMap<String, Bridge>,
    /// Connection tracking zones that have a policy.
    pub zones: BTreeMap<Zone, ZonePolicy>,
    /// Connection limit of zones without a limit of their own; `None` is unlimited.
    pub default_zone_limit: Option<u32>,
    /// Settings of the whole switch.
    pub options: SwitchOptions,
    /// Key and certificates for TLS connections to controllers.
    pub tls: Option<TlsFiles>,
}

/// A bridge.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Bridge {
    /// All settings except its ports.
    pub settings: BridgeSettings,
    /// Its ports by name. The port with the bridge's name, LOCAL, always exists.
    pub ports: BTreeMap<String, Port>,
}

/// The settings of a bridge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BridgeSettings {
    /// Settings that have no effect, and without which traffic may stop, with the reasons.
    pub missing: Option<String>,
    /// Behaviour without a controller.
    pub fail_mode: FailMode,
    /// The OpenFlow datapath id; `None` derives it from the bridge's Ethernet address.
    pub datapath_id: Option<DatapathId>,
    /// The Ethernet address of the bridge; `None` selects one.
    pub hwaddr: Option<MacAddr>,
    /// Controllers, sorted by target.
    pub controllers: Vec<Controller>,
    /// The OpenFlow versions that are accepted.
    pub versions: BTreeSet<Version>,
    /// Idle time after which a learned address is removed, in seconds.
    pub mac_aging_s: u32,
    /// Maximum number of learned addresses.
    pub mac_table_size: u32,
    /// VLANs without MAC learning, in which packets are flooded.
    pub flood_vlans: BTreeSet<u16>,
    /// Its mirrors, sorted by name.
    pub mirrors: Vec<MirrorConfig>,
    /// Settings of flow tables, by table number.
    pub tables: BTreeMap<u8, TableConfig>,
    /// Whether frames to 01:80:c2:00:00:00 to 01:80:c2:00:00:0f are forwarded.
    pub forward_bpdu: bool,
    /// Number of packet-ins queued for a controller that reads too slowly.
    pub controller_queue_size: u32,
    /// The datapath description that OpenFlow reports; `None` is the default.
    pub description: Option<String>,
    /// The serial number that OpenFlow reports; `None` is the default.
    pub serial_number: Option<String>,
    /// Files of flows in the syntax of `ovs-ofctl`, added with the bridge; only a configuration file can name
    /// them.
    pub flow_files: Vec<PathBuf>,
}

/// An OpenFlow controller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Controller {
    /// Its address, such as "tcp:10.0.0.1:6653", or the address on which it may connect, such as "ptcp:6653".
    pub target: String,
    /// Whether it controls the bridge.
    pub kind: ControllerKind,
    /// Idle time after which the connection is probed, in milliseconds; 0 disables probes.
    pub probe_ms: u32,
    /// Longest wait between connection attempts, in milliseconds.
    pub max_backoff_ms: u32,
    /// Packet-ins per second; `None` is unlimited.
    pub rate_limit_pps: Option<u32>,
    /// Number of packet-ins that may exceed the rate in a burst.
    pub burst_limit: Option<u32>,
    /// Number of queued packet-ins; `None` is the bridge's number.
    pub queue_size: Option<u32>,
    /// Whether asynchronous messages such as packet-ins are sent.
    pub async_messages: bool,
}

/// Whether a controller controls the bridge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ControllerKind {
    /// It does: the fail mode applies while it is disconnected.
    Primary,
    /// It only makes requests (a service controller).
    Service,
}

/// Timeouts and limit of a connection tracking zone.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ZonePolicy {
    /// Timeouts in seconds by name, such as "tcp_established"; others have their defaults.
    pub timeouts_s: BTreeMap<String, u32>,
    /// Maximum number of connections; `None` is the default limit.
    pub limit: Option<u32>,
}

/// Key and certificates for TLS (table `SSL`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// The private key, in PEM.
    pub private_key: PathBuf,
    /// The certificate of that key.
    pub certificate: PathBuf,
    /// The CA certificates that must have signed a peer's certificate.
    pub ca_cert: PathBuf,
    /// Whether a missing CA certificate file is created from the first peer's chain.
    pub bootstrap_ca_cert: bool,
}

/// The names of timeouts (ovs: `vswitchd/vswitch.ovsschema`, table CT_Timeout_Policy).
pub(crate) const TIMEOUT_NAMES: [&str; 16] = [
    "tcp_syn_sent",
    "tcp_syn_recv",
    "tcp_established",
    "tcp_fin_wait",
    "tcp_close_wait",
    "tcp_last_ack",
    "tcp_time_wait",
    "tcp_close",
    "tcp_syn_sent2",
    "tcp_retransmit",
    "tcp_unack",
    "udp_first",
    "udp_single",
    "udp_multiple",
    "icmp_first",
    "icmp_reply",
];

impl Default for BridgeSettings {
    fn default() -> Self {
        BridgeSettings {
            missing: None,
            fail_mode: FailMode::default(),
            datapath_id: None,
            hwaddr: None,
            controllers: Vec::new(),
            versions: all_versions(),
            mac_aging_s: limits::MAC_AGING_S as u32,
            mac_table_size: limits::MAC_TABLE_SIZE as u32,
            flood_vlans: BTreeSet::new(),
            mirrors: Vec::new(),
            tables: BTreeMap::new(),
            forward_bpdu: false,
            controller_queue_size: DEFAULT_CONTROLLER_QUEUE,
            description: None,
            serial_number: None,
            flow_files: Vec::new(),
        }
    }
}

/// The default of [`BridgeSettings::controller_queue_size`] (ovs: `vswitchd/vswitch.xml`).
pub(crate) const DEFAULT_CONTROLLER_QUEUE: u32 = 100;

/// Returns all versions, the default of a bridge.
pub(crate) fn all_versions() -> BTreeSet<Version> {
    BTreeSet::from(Version::ALL)
}

/// Returns the version with this name in `Bridge.protocols`; `None` if it is not supported.
pub(crate) fn version_from_name(name: &str) -> Option<Version> {
    Some(match name {
        "OpenFlow10" => Version::V10,
        "OpenFlow11" => Version::V11,
        "OpenFlow12" => Version::V12,
        "OpenFlow13" => Version::V13,
        "OpenFlow14" => Version::V14,
        "OpenFlow15" => Version::V15,
        _ => return None,
    })
}

/// Parses a datapath id: 16 hexadecimal digits, or "0x" and up to 16; not zero (ovs: `lib/packets.c`,
/// `dpid_from_string`).
pub(crate) fn datapath_id_from_text(text: &str) -> Option<DatapathId> {
    let prefixed = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
    let digits = prefixed.unwrap_or(text);
    let has_length = if prefixed.is_some() { digits.len() <= 16 } else { digits.len() == 16 };
    if !has_length || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    u64::from_str_radix(digits, 16).ok().filter(|id| *id != 0).map(DatapathId)
}

/// Returns whether the name is valid for a bridge. Names of sockets contain it, so it must not lead out of
/// the run directory (ovs: `vswitchd/bridge.c`, `add_del_bridges`).
pub(crate) fn is_bridge_name(name: &str) -> bool {
    !name.is_empty() && !name.starts_with('.') && !name.contains(['/', '\\'])
}

impl Controller {
    /// The default of [`Controller::probe_ms`].
    pub const PROBE_MS: u32 = 5000;
    /// The default of [`Controller::max_backoff_ms`].
    pub const MAX_BACKOFF_MS: u32 = 8000;

    /// A controller with the defaults of `target`: one that connects to the switch is a service controller
    /// (ovs: `vswitchd/bridge.c`, `get_controller_ofconn_type`).
    pub fn new(target: &str) -> Self {
        let passive = ["ptcp:", "pssl:", "punix:"].iter().any(|kind| target.starts_with(kind));
        Controller {
            target: target.to_owned(),
            kind: if passive { ControllerKind::Service } else { ControllerKind::Primary },
            probe_ms: Self::PROBE_MS,
            max_backoff_ms: Self::MAX_BACKOFF_MS,
            rate_limit_pps: None,
            burst_limit: None,
            queue_size: None,
            async_messages: true,
        }
    }
}

#[cfg(test)]
mod tests;
