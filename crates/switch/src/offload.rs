//! Offload of connections to a device that forwards packets itself (`other_config:hw-offload`).
//!
//! Workers offer connections that enter their unified caches; the control thread installs them, reads
//! the device's counters, and credits flows and connections. Before anything on which an offer depends
//! changes (a flow, a port, the connection), its rule is removed.

mod changes;
mod devices;
mod table;
mod tags;

use super::Switch;
use super::device_handle::Handle;
use super::flow_log;
use super::interfaces::RunningInterface;
use super::worker_messages::Credit;
use super::worker_messages::WorkerCommand;
use crate::Shared;
use base::{Instant, PortNo, WorkerId};
use changes::Changes;
use devices::Devices;
use flow::{FlowCommand, FlowOffload, OffloadOffer};
use port_linux::LinkInfo;
use std::time::Duration;
pub use table::{FlowOffloads, Table};
use tags::Tags;

/// Maximum number of connections offloaded to XDP.
const CONNECTIONS_MAX: u32 = 65_536;
/// Interval of reading the device's counters, and rules read each time.
const INTERVAL: Duration = Duration::from_millis(50);
const SWEPT_AT_ONCE: usize = 8192;
/// Offers tried each time.
const INSTALLED_AT_ONCE: usize = 1024;

/// The offloaded connections and their device.
#[derive(Default)]
pub struct Offload {
    /// The devices, if offload is enabled and possible.
    device: Option<Devices>,
    /// Why XDP is not possible.
    failure: Option<String>,
    table: Table,
    changes: Changes,
    tags: Tags,
}

impl Offload {
    /// Returns whether connections are offloaded.
    pub fn is_on(&self) -> bool {
        self.device.is_some()
    }

    /// Returns why those of system devices are not, although offload is enabled.
    pub fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    /// Returns the table of offloaded connections.
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// Returns the number of packets that the device passed to the switch, by reason.
    pub fn passed(&self) -> Vec<(&'static str, u64)> {
        self.device.as_ref().map_or_else(Vec::new, |device| device.passed())
    }

    /// Returns whether a port's packets are not offloaded because VLAN tags stand beside them.
    pub fn has_tags_beside(&self, port: PortNo) -> bool {
        self.tags.are_beside(port)
    }

    /// Returns whether a port's packets may be offloaded.
    pub fn receives_from(&self, port: PortNo) -> bool {
        self.device.as_ref().is_some_and(|device| device.receives_from(port))
    }
}

/// Polls the device as long as the switch runs.
pub async fn run(shared: Shared) {
    let mut interval = tokio::time::interval(INTERVAL);
    interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        interval.tick().await;
        shared.borrow_mut().turn_offload(clock::now());
    }
}

impl Switch {
    /// Returns the offload state.
    pub fn offload(&self) -> &Offload {
        &self.offload
    }

    /// Starts or stops offload, according to the configuration.
    pub(super) fn set_offload(&mut self, wanted: bool) {
        if !wanted {
            self.offload.failure = None;
            self.end_offload();
            return;
        }
        if self.offload.is_on() || self.offload.failure.is_some() {
            return;
        }
        let (devices, xdp) = Devices::new(CONNECTIONS_MAX);
        let has_dpdk = port_dpdk::version().is_some();
        match xdp {
            Ok(()) => {
                log::info!(target: "netdev_offload", "connections are offloaded to XDP, in generic mode")
            }
            Err(error) => {
                let whose = if has_dpdk { " on devices of the system" } else { "" };
                log::warn!(target: "netdev_offload", "hw-offload has no effect{whose}: {error}");
                self.offload.failure = Some(error.to_string());
            }
        }
        if self.offload.failure.is_none() || has_dpdk {
            self.offload.device = Some(devices);
            self.offload_ports();
        }
    }

    fn end_offload(&mut self) {
        let now = clock::now();
        if let Some(device) = &mut self.offload.device {
            self.offload.table.clear(device, &self.conntrack, now);
            log::info!(target: "netdev_offload", "connections are offloaded no more");
        }
        self.offload.device = None;
        self.offload.tags = Tags::default();
        self.send_credits();
        self.offload.table = Table::default();
    }

    /// Registers all ports with the device.
    fn offload_ports(&mut self) {
        let running = std::mem::take(&mut self.configured.interfaces);
        for interface in running.values() {
            let link = self.devices.link(&interface.interface.name);
            self.offload_port(interface, link.ok().as_ref());
        }
        self.configured.interfaces = running;
    }

    /// Registers a port that was opened or changed with the device.
    pub(super) fn offload_port(&mut self, running: &RunningInterface, link: Option<&LinkInfo>) {
        let (Some(number), Some(device)) = (running.device, &mut self.offload.device) else {
            return;
        };
        let handle = self.devices.get(number).map(|device| &device.handle);
        let known = device.receives_from(number);
        if let Some(Handle::Dpdk(port)) = handle
            && let Ok(facts) = port.facts()
        {
            if device.add_dpdk_port(number, facts.port, facts.mtu.into()) {
                self.offload_port_changed(number, !known);
            }
            return;
        }
        let Some(link) = link else { return };
        let asks = running.interface.options.get("xdp-offload").is_some_and(|it| it == "true");
        // A device of AF_XDP has another XDP program, and packets to a TAP device reach the switch anyhow.
        let receives = match handle {
            Some(Handle::Packet(_)) => {
                if !asks {
                    self.offload.tags.forget(number);
                }
                asks && !self.offload.tags.are_beside(number)
            }
            Some(Handle::Xdp(_)) if !asks => false,
            _ if asks => {
                let name = &link.name;
                log::warn!(
                    target: "netdev_offload",
                    "{name}: options:xdp-offload has no effect; it is for ports of type system"
                );
                return;
            }
            _ => return,
        };
        let place = (link.name.as_str(), link.ifindex, link.mtu);
        match device.add_port(number, place, receives) {
            Ok(true) if receives => self.offload.tags.begin(clock::now(), number),
            Ok(true) => {}
            Ok(false) => return,
            Err(error) => log::warn!(target: "netdev_offload", "{error}"),
        }
        self.offload_port_changed(number, receives && !known);
    }

    /// Removes the rules of a port that has changed since they were installed. With `offers_again`, workers offer its
    /// connections again: those of a new port were offered before it was known.
    fn offload_port_changed(&mut self, number: PortNo, offers_again: bool) {
        let Some(device) = &mut self.offload.device else { return };
        self.offload.table.remove_port(device, number, &self.conntrack, clock::now());
        self.send_credits();
        if offers_again {
            self.workers.iter().for_each(|worker| worker.send(WorkerCommand::OfferAgain));
        }
    }

    /// Removes a port that is about to be closed.
    pub(super) fn offload_port_closes(&mut self, number: PortNo) {
        self.offload.tags.forget(number);
        let Some(device) = &mut self.offload.device else { return };
        self.offload.table.remove_port(device, number, &self.conntrack, clock::now());
        device.remove_port(number);
        self.send_credits();
    }

    /// The workers were replaced, and their flows removed.
    pub(super) fn offload_anew(&mut self) {
        if let Some(device) = &mut self.offload.device {
            self.offload.table.clear(device, &self.conntrack, clock::now());
        }
        self.offload.table.forget_flows();
        self.offload.changes = Changes::new(self.slow.others() > 0);
    }

    /// Queues a worker's offers, which it made after `seen` commands.
    pub(super) fn offered(&mut self, seen: u64, offers: Vec<OffloadOffer>) {
        if self.offload.is_on() {
            self.offload.table.wait(clock::now(), seen, offers, &self.offload.changes);
        }
    }

    /// Sends flow commands to workers. Statistics include what devices forwarded.
    pub(super) fn send_commands(&mut self) {
        let commands = std::mem::take(&mut self.outbox.commands);
        let collects = commands.iter().any(|(_, command)| matches!(command, FlowCommand::Collect));
        let is_asked = std::mem::take(&mut self.outbox.reads_devices);
        // Of many rules, regular statistics are those of the regular sweeps.
        if collects && (is_asked || self.offload.table.rules() <= SWEPT_AT_ONCE) {
            self.sweep_offload();
        }
        flow_log::commands(self.settings.dummy.datapath_name(), &commands, Some(&self.ofproto));
        for (worker, command) in commands {
            self.before_command(worker, &command);
            if let Some(worker) = self.workers.get(usize::from(worker.0)) {
                worker.send(WorkerCommand::Flow(command));
            }
        }
    }

    /// Records a command before it is sent: rules that depend on the flow that it changes are removed first.
    fn before_command(&mut self, worker: WorkerId, command: &FlowCommand) {
        let offload = &mut self.offload;
        let Some(changed) = offload.changes.note(worker, command) else { return };
        if let Some(device) = &mut offload.device
            && offload.table.remove_flow(device, changed, &self.conntrack, clock::now())
        {
            self.send_credits();
        }
        if matches!(command, FlowCommand::Delete(_)) {
            self.offload.table.forget_flow(changed);
        }
    }

    /// Takes ports whose tags stand beside their frames out of offload.
    fn watch_tags(&mut self, now: Instant) {
        let running = std::mem::take(&mut self.configured.interfaces);
        for interface in running.values() {
            let Offload { device: Some(device), tags, .. } = &mut self.offload else { break };
            let Some(number) = interface.device else { continue };
            let handle = self.devices.get(number).map(|device| &device.handle);
            let Some(Handle::Packet(port)) = handle else { continue };
            // Read first: the program counts a frame before the socket gets it.
            let received = port.tags();
            let seen = device.tags(number);
            if seen.is_some_and(|seen| tags.look(now, number, received, seen)) {
                let name = &interface.interface.name;
                log::warn!(
                    target: "netdev_offload",
                    "{name}: its packets are not offloaded, since VLAN tags stand beside them; turn that \
                     off where they come from (ethtool -K DEVICE txvlan off) or on the device (rxvlan \
                     off), and set options:xdp-offload anew"
                );
                let link = self.devices.link(name);
                self.offload_port(interface, link.ok().as_ref());
            }
        }
        self.configured.interfaces = running;
    }

    /// Reads the counters of some rules, and installs waiting offers.
    fn turn_offload(&mut self, now: Instant) {
        self.watch_tags(now);
        let Offload { device: Some(device), table, changes, .. } = &mut self.offload else {
            return;
        };
        table.sweep(device, &self.conntrack, now, SWEPT_AT_ONCE);
        table.install(device, &self.conntrack, now, changes, INSTALLED_AT_ONCE);
        self.send_credits();
    }

    /// Reads the counters of all rules, so that statistics are fresh.
    pub(super) fn sweep_offload(&mut self) {
        if let Offload { device: Some(device), table, .. } = &mut self.offload {
            table.sweep_all(device, &self.conntrack, clock::now());
            self.send_credits();
        }
    }

    /// Makes workers credit their flows with what the device forwarded.
    fn send_credits(&mut self) {
        let credits = self.offload.table.take_credits();
        for worker in &self.workers {
            let own: Vec<Credit> =
                credits.iter().filter(|it| it.worker == worker.id).copied().collect();
            if !own.is_empty() {
                worker.send(WorkerCommand::Credit(own));
            }
        }
    }
}
