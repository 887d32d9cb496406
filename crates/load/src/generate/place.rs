//! The ports, the device and the hosts of a run: the options of all verbs that make connections.

use super::ceiling::{self, Ceiling};
use super::numbers::whole;
use crate::dut::{self, DutKind, Inside, Place, PortsKind, Wanted};
use crate::error::LoadError;
use base::MacAddr;
use clap::Args;
use generator::Profile;
use std::time::Duration;
use testbed::Screen;

/// The ports and the device of a run.
#[derive(Args, Clone, Debug)]
pub struct PlaceOptions {
    /// The clients' port
    #[arg(long, value_name = "PORT")]
    pub client: Option<String>,
    /// The servers' port
    #[arg(long, value_name = "PORT")]
    pub server: Option<String>,
    /// The device under test [default: tidegate; external where ports are named]
    #[arg(long, value_enum)]
    pub dut: Option<DutKind>,
    /// How the device is reached [default: memory; veth for ovs]
    #[arg(long, value_enum, conflicts_with_all = ["client", "server"])]
    pub ports: Option<PortsKind>,
    /// Forward without connection tracking
    #[arg(long)]
    pub no_ct: bool,
    /// Most connections in the device's table (ct-set-maxconns)
    #[arg(long, value_name = "N", default_value_t = dut::MAXCONNS, value_parser = whole::<u32>(..))]
    pub maxconns: u32,
    /// The device's workers, one core each (memory, vhost)
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = whole::<u16>(1..=64))]
    pub workers: u16,
    /// Queues of each of its ports [default: as many as workers]
    #[arg(long, value_name = "N", value_parser = whole::<u16>(1..=64))]
    pub queues: Option<u16>,
    /// The generator's workers, one core each [default: as many as the device's]
    #[arg(long, value_name = "N", value_parser = whole::<u16>(1..=64))]
    pub generator_workers: Option<u16>,
    /// Entries of each ring between the device and the generator, a power of two (vhost)
    #[arg(long, value_name = "N", default_value_t = dut::RING, value_parser = ring)]
    pub ring: u16,
    /// Further words of DPDK's command line, for ports named dpdk:
    #[arg(long, value_name = "WORDS", default_value = dut::DPDK_EXTRA, allow_hyphen_values = true)]
    pub dpdk_extra: String,
}

/// The configuration of hosts besides their profile.
#[derive(Args, Clone, Debug)]
pub struct HostOptions {
    /// Decides addresses, ports and sequence numbers: the same seed, the same run
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = whole::<u64>(..))]
    pub seed: u64,
    /// The VLAN that both sides are in
    #[arg(long, value_name = "ID", value_parser = whole::<u16>(1..=4094))]
    pub vlan: Option<u16>,
    /// The Ethernet address that clients send to [default: resolved by ARP and ND]
    #[arg(long, value_name = "MAC")]
    pub gateway: Option<MacAddr>,
}

impl PlaceOptions {
    /// Returns the device to start; `None` for named ports.
    pub fn wanted(&self) -> Result<Option<Wanted>, LoadError> {
        let named = self.client.is_some() || self.server.is_some();
        let kind = match (self.dut, named) {
            (None | Some(DutKind::External), true) => return Ok(None),
            (Some(_), true) => {
                return Err(LoadError::Options(
                    "--client and --server are ports of a device that is there already; leave \
                     --dut out or say --dut external"
                        .to_owned(),
                ));
            }
            (kind, false) => kind.unwrap_or(DutKind::Tidegate),
        };
        let by_itself = if kind == DutKind::Ovs { PortsKind::Veth } else { PortsKind::Memory };
        let ports = self.ports.unwrap_or(by_itself);
        let (plain, maxconns) = (self.no_ct, self.maxconns);
        let workers = usize::from(self.workers);
        let queues = self.queues.map_or(workers, usize::from);
        let generators = self.generator_workers.map_or(workers.max(queues), usize::from);
        if generators < queues {
            return Err(LoadError::Options(format!(
                "--generator-workers {generators} are fewer than --queues {queues}; each queue \
                 needs one that looks after it"
            )));
        }
        if ports == PortsKind::Veth && (workers, queues, generators) != (1, 1, 1) {
            return Err(LoadError::Options(
                "veth ports have one queue each; use --ports memory or vhost for several workers"
                    .to_owned(),
            ));
        }
        let timeout_s = None;
        Ok(Some(Wanted {
            kind,
            ports,
            plain,
            maxconns,
            timeout_s,
            workers,
            queues,
            generators,
            ring: self.ring,
        }))
    }

    /// Enters the namespaces if devices must be created.
    pub fn enter(&self, screen: &Screen) -> Result<Inside, LoadError> {
        match self.wanted()? {
            Some(wanted) if wanted.ports.is_apart() => Inside::enter(screen, wanted.huge_pages()),
            _ => Ok(Inside::Here),
        }
    }

    /// Opens ports and brings up the device. An interrupt ends the wait for a port.
    pub fn open(&self, interrupted: &dyn Fn() -> bool) -> Result<Place, LoadError> {
        match self.wanted()? {
            Some(wanted) => dut::bring_up(&wanted),
            None => self.outside(interrupted),
        }
    }

    fn outside(&self, interrupted: &dyn Fn() -> bool) -> Result<Place, LoadError> {
        let (client, server) = (self.client.as_deref(), self.server.as_deref());
        dut::outside(client, server, &self.dpdk_extra, interrupted)
    }

    /// As [`PlaceOptions::open`], with one timeout, in seconds, that replaces all the published ones.
    pub fn open_with_timeouts(
        &self,
        timeout_s: u32,
        interrupted: &dyn Fn() -> bool,
    ) -> Result<Place, LoadError> {
        match self.wanted()? {
            Some(wanted) => dut::bring_up(&Wanted { timeout_s: Some(timeout_s), ..wanted }),
            None => self.outside(interrupted),
        }
    }

    /// Measures the ceiling with ports of the same kind, if a cable of this kind exists.
    pub fn ceiling(&self, profile: &Profile, hosts: &HostOptions) -> Result<Ceiling, LoadError> {
        let (place, ports) = match self.wanted()? {
            Some(wanted) => (dut::calibration_cable(&wanted)?, wanted.ports.word()),
            None => (dut::memory_cable(1), "memory"),
        };
        ceiling::measure(profile, hosts, place, ports, Duration::from_secs(1))
    }

    /// Returns whether hosts must know each other's MAC addresses: devices started here have no rule for ARP.
    pub fn knows_neighbours(&self) -> bool {
        self.client.is_none() && self.server.is_none()
    }
}

/// Parses a ring size: VIRTIO's limits (VIRTIO 1.1 section 2.6), and enough for a burst.
fn ring(text: &str) -> Result<u16, String> {
    let number = whole::<u16>(64..=32_768)(text)?;
    if number.is_power_of_two() {
        Ok(number)
    } else {
        Err("a power of two from 64 to 32768".to_owned())
    }
}
