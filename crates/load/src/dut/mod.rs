//! The device under test: what stands between the generator's two ports, brought up and taken
//! down again, and what can be asked of it.

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

use crate::generate::endpoints::Link;
use crate::generate::error::LoadError;
use clap::ValueEnum;
use serde_json::{Value, json};
use std::path::Path;
use std::time::Duration;

pub use veth::Inside;
pub use vhost::RING;

/// The published rule set of the connection-tracking measurements; hosts know each other's
/// Ethernet addresses, so that no rule for ARP is needed.
pub const RULES: &str = "\
priority=1 ip ct_state=-trk actions=ct(table=0)
priority=1 ip ct_state=+trk+new in_port=p0 actions=ct(commit),normal
priority=1 ip ct_state=+trk+est actions=normal
priority=0 actions=drop
";

/// The same without connection tracking.
pub const RULES_PLAIN: &str = "actions=normal\n";

/// The timeouts published with the rules, in seconds.
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

/// `ct-set-maxconns` as published.
pub const MAXCONNS: u32 = 5_000_000;

/// Which device is under test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DutKind {
    /// This program's switch, with the published rules and timeouts
    Tidegate,
    /// Open vSwitch's own daemon and userspace datapath, set up alike
    Ovs,
    /// Nothing: client and server joined directly, which measures the generator
    None,
    /// Whatever stands between --client and --server
    External,
}

/// How the generator reaches the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PortsKind {
    /// In memory, in one process: one core for the switch, one for the generator
    Memory,
    /// veth pairs in namespaces of their own, through AF_PACKET
    Veth,
    /// vhost-user, joined to virtio devices of the generator: a process and cores each, with DPDK
    Vhost,
}

impl PortsKind {
    /// Its name.
    pub fn word(self) -> &'static str {
        match self {
            PortsKind::Memory => "memory",
            PortsKind::Veth => "veth",
            PortsKind::Vhost => "vhost",
        }
    }

    /// Whether the device is a process of its own, in namespaces of our own.
    pub fn is_apart(self) -> bool {
        self != PortsKind::Memory
    }
}

/// What a device is made from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Which.
    pub kind: DutKind,
    /// Reached how.
    pub ports: PortsKind,
    /// Without connection tracking.
    pub plain: bool,
    /// Most connections in its table.
    pub maxconns: u32,
    /// One timeout, in seconds, in place of all the published ones.
    pub timeout_s: Option<u32>,
    /// Its workers, a core each.
    pub workers: usize,
    /// Queues of each of its ports.
    pub queues: usize,
    /// The generator's workers, a core each.
    pub generators: usize,
    /// Entries of each ring of a vhost-user port.
    pub ring: u16,
}

impl Wanted {
    /// Huge pages that are wanted.
    pub fn huge_pages(&self) -> usize {
        if self.ports == PortsKind::Vhost { vhost::huge_pages(self) } else { 0 }
    }

    /// The timeouts by name, in seconds.
    fn timeouts(&self) -> impl Iterator<Item = (&'static str, u32)> + use<> {
        let instead = self.timeout_s;
        TIMEOUTS.into_iter().map(move |(name, seconds)| (name, instead.unwrap_or(seconds)))
    }
}

/// A device under test. It is taken down when dropped.
pub trait Device {
    /// What it is and how it is set up, for results.
    fn describe(&self) -> Value;

    /// Connections in its table; none: it cannot be seen.
    fn table(&mut self) -> Result<Option<u64>, LoadError>;

    /// Connections that it refused since its table was full, since it started.
    fn refused(&mut self) -> u64 {
        0
    }

    /// Forgets all connections, where it can be told to.
    fn flush(&mut self) -> Result<(), LoadError> {
        Ok(())
    }

    /// How long closed connections may stay in its table, by its timeouts.
    fn linger(&self) -> Duration {
        Duration::ZERO
    }

    /// Whether it still runs.
    fn check(&mut self) -> Result<(), LoadError> {
        Ok(())
    }

    /// Its workers, to be looked at while it is busy; none: they cannot be seen.
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
    /// The same for each further worker of the generator.
    pub more: Vec<(Link, Link)>,
    /// The processors of the generator and the device.
    pub cores: Cores,
    /// Packets that the queues hold in which they wait for the generator; none: not known.
    pub queue_packets: Option<u64>,
}

impl Place {
    /// A device between these ports, for one worker of the generator.
    pub fn of(device: Box<dyn Device>, client: Option<Link>, server: Option<Link>) -> Place {
        Place { device, client, server, more: Vec::new(), cores: Cores::any(), queue_packets: None }
    }
}

/// Brings a device up. All but `memory` want to be inside namespaces of our own already.
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

/// Whether both switches can be measured through vhost-user: this program has DPDK, and so has an
/// Open vSwitch that is installed.
pub fn has_vhost() -> bool {
    vhost::check().is_ok() && Path::new(vhost::OVS).exists()
}

/// Two ports of this kind and a cable, to measure the generator with.
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

/// The published set-up, as results show it.
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
