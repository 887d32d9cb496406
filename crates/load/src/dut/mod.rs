//! The device under test between the generator's two ports: how it is brought up and taken down, and what can
//! be read from it.

mod cores;
mod daemon;
mod huge_pages;
mod memory;
mod none;
mod outside;
mod patch;
pub mod profile;
mod veth;
mod vhost;

use crate::error::LoadError;
use crate::link::Link;
use clap::ValueEnum;
use serde_json::{Value, json};
use std::path::Path;
use std::time::Duration;

pub use veth::Inside;
pub use vhost::RING;

/// The published rule set of the connection-tracking measurements. Hosts know each other's MAC addresses, so
/// no rule for ARP is needed.
pub const RULES: &str = "\
priority=1 ip ct_state=-trk actions=ct(table=0)
priority=1 ip ct_state=+trk+new in_port=p0 actions=ct(commit),normal
priority=1 ip ct_state=+trk+est actions=normal
priority=0 actions=drop
";

/// Rules without connection tracking.
pub const RULES_PLAIN: &str = "actions=normal\n";

/// The timeouts that were published with the rules, in seconds.
pub const TIMEOUTS: [(&str, u32); 9] = [
    ("udp_first", 1),
    ("udp_single", 1),
    ("udp_multiple", 30),
    ("tcp_syn_sent", 1),
    ("tcp_syn_recv", 1),
    ("tcp_fin_wait", 1),
    ("tcp_time_wait", 1),
    ("tcp_close", 1),
    ("tcp_established", 30),
];

/// The published `ct-set-maxconns`.
pub const MAXCONNS: u32 = 5_000_000;

/// The device under test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DutKind {
    /// This program's switch, with the published rules and timeouts
    Tidegate,
    /// Open vSwitch's own daemon and userspace datapath, set up alike
    Ovs,
    /// Nothing: client and server joined directly, which measures the generator
    None,
    /// Any device between --client and --server
    External,
}

/// How the generator reaches the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PortsKind {
    /// In memory, in one process: one core for the switch, one for the generator
    Memory,
    /// veth pairs in namespaces of their own, through AF_PACKET
    Veth,
    /// vhost-user, connected to virtio devices of the generator: separate processes and cores, with DPDK
    Vhost,
}

impl PortsKind {
    /// Returns its name.
    pub fn word(self) -> &'static str {
        match self {
            PortsKind::Memory => "memory",
            PortsKind::Veth => "veth",
            PortsKind::Vhost => "vhost",
        }
    }

    /// Returns whether the device is a process of its own, in namespaces.
    pub fn is_apart(self) -> bool {
        self != PortsKind::Memory
    }
}

/// The configuration of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Kind of device.
    pub kind: DutKind,
    /// Kind of ports.
    pub ports: PortsKind,
    /// Whether connection tracking is off.
    pub plain: bool,
    /// Most connections in its table.
    pub maxconns: u32,
    /// One timeout, in seconds, that replaces all the published ones.
    pub timeout_s: Option<u32>,
    /// Its workers, one core each.
    pub workers: usize,
    /// Queues of each of its ports.
    pub queues: usize,
    /// The generator's workers, one core each.
    pub generators: usize,
    /// Entries of each ring of a vhost-user port.
    pub ring: u16,
}

impl Wanted {
    /// Returns the number of huge pages that it needs.
    pub fn huge_pages(&self) -> usize {
        if self.ports == PortsKind::Vhost { vhost::huge_pages(self) } else { 0 }
    }

    /// Returns the timeouts by name, in seconds.
    fn timeouts(&self) -> impl Iterator<Item = (&'static str, u32)> + use<> {
        let instead = self.timeout_s;
        TIMEOUTS.into_iter().map(move |(name, seconds)| (name, instead.unwrap_or(seconds)))
    }
}

/// A device under test. It is taken down when dropped.
pub trait Device {
    /// Describes the device and its configuration for results.
    fn describe(&self) -> Value;

    /// Returns the number of connections in its table; `None` where it cannot be read.
    fn table(&mut self) -> Result<Option<u64>, LoadError>;

    /// Returns the connections that it has refused because its table was full.
    fn refused(&mut self) -> u64 {
        0
    }

    /// Removes all connections, where the device has a command for it.
    fn flush(&mut self) -> Result<(), LoadError> {
        Ok(())
    }

    /// Returns how long closed connections may stay in its table, by its timeouts.
    fn linger(&self) -> Duration {
        Duration::ZERO
    }

    /// Returns an error if it no longer runs.
    fn check(&mut self) -> Result<(), LoadError> {
        Ok(())
    }

    /// Returns its workers for profiling; `None` where they cannot be profiled.
    fn watch(&mut self) -> Option<profile::Watch> {
        None
    }
}

/// A device with its two ports, the client's first.
pub struct Place {
    /// The device.
    pub device: Box<dyn Device>,
    /// The client's port.
    pub client: Option<Link>,
    /// The server's port.
    pub server: Option<Link>,
    /// Both ports of each further worker of the generator.
    pub more: Vec<(Link, Link)>,
    /// The processors of the generator and the device.
    pub cores: Cores,
    /// Packets that the queues in front of the generator hold; `None` where unknown.
    pub queue_packets: Option<u64>,
}

impl Place {
    /// A device between these ports, for a generator of one worker.
    pub fn of(device: Box<dyn Device>, client: Option<Link>, server: Option<Link>) -> Place {
        Place { device, client, server, more: Vec::new(), cores: Cores::any(), queue_packets: None }
    }
}

/// Brings a device up. All kinds except `memory` must run inside namespaces already.
pub fn bring_up(wanted: &Wanted) -> Result<Place, LoadError> {
    match (wanted.kind, wanted.ports) {
        (DutKind::None, PortsKind::Vhost) => vhost::cable(wanted, "none-"),
        (DutKind::Tidegate | DutKind::Ovs, PortsKind::Vhost) => vhost::bring_up(wanted),
        (DutKind::None, PortsKind::Memory) => Ok(none::memory(wanted.generators)),
        (DutKind::Tidegate, PortsKind::Memory) => memory::bring_up(wanted),
        (DutKind::Ovs, PortsKind::Memory) => Err(LoadError::Options(
            "--dut ovs is a process of its own and has no ports in this one's memory; \
             use --ports vhost or veth"
                .to_owned(),
        )),
        (DutKind::None, PortsKind::Veth) => veth::cable("c0", "s0"),
        (DutKind::Tidegate | DutKind::Ovs, PortsKind::Veth) => veth::bring_up(wanted),
        (DutKind::External, _) => Err(LoadError::Options(
            "--dut external is what stands between two ports; name them with --client and --server"
                .to_owned(),
        )),
    }
}

/// Returns whether both switches can be measured through vhost-user: this program was built with DPDK, and an
/// Open vSwitch with DPDK is installed.
pub fn has_vhost() -> bool {
    vhost::check().is_ok() && Path::new(vhost::OVS).exists()
}

/// Two ports of this kind joined by a cable, which measures the generator.
pub fn calibration_cable(wanted: &Wanted) -> Result<Place, LoadError> {
    match wanted.ports {
        PortsKind::Memory => Ok(none::memory(wanted.generators)),
        PortsKind::Veth => veth::cable("cal0", "cal1"),
        PortsKind::Vhost => vhost::cable(wanted, "cal-"),
    }
}

pub use cores::Cores;
pub use none::link;
pub use none::memory as memory_cable;
pub use outside::{DPDK_EXTRA, outside};

/// The published configuration, for results.
fn setup(wanted: &Wanted) -> Value {
    let timeouts: serde_json::Map<String, Value> =
        wanted.timeouts().map(|(name, seconds)| (name.to_owned(), json!(seconds))).collect();
    json!({
        "rules": rules(wanted).lines().collect::<Vec<_>>(),
        "timeouts_s": timeouts,
        "ct_set_maxconns": wanted.maxconns,
    })
}

fn rules(wanted: &Wanted) -> &'static str {
    if wanted.plain { RULES_PLAIN } else { RULES }
}
