//! Offload: connections that a device forwards by itself (`other_config:hw-offload`).
//!
//! Workers offer what enters their unified flow caches; the control thread installs it, asks the device
//! what it forwarded, and credits flows and connections. Whatever an offer hangs on takes the rule with
//! it before it changes: a flow, a port, the connection.

mod changes;
mod table;

use super::Switch;
use super::device_handle::Handle;
use super::flow_log;
use super::interfaces::RunningInterface;
use super::worker_thread::WorkerCommand;
use crate::Shared;
use base::{Instant, PortNo, WorkerId};
use changes::Changes;
use flow::{FlowCommand, FlowOffload, OffloadOffer};
use offload_xdp::XdpOffload;
use port_linux::LinkInfo;
use std::time::Duration;
pub use table::{Credit, FlowOffloads, Table};

/// Connections that may be offloaded at a time.
const CONNECTIONS_MAX: u32 = 65_536;
/// How often the device is asked, and rules that it is asked about each time.
const INTERVAL: Duration = Duration::from_millis(50);
const SWEPT_AT_ONCE: usize = 8192;
/// Offers that are tried each time.
const INSTALLED_AT_ONCE: usize = 1024;

/// What is offloaded, and to what.
#[derive(Default)]
pub struct Offload {
    /// Where it is asked for and possible.
    device: Option<XdpOffload>,
    /// Why it is not possible.
    failure: Option<String>,
    table: Table,
    changes: Changes,
}

impl Offload {
    /// Whether connections are offloaded.
    pub fn is_on(&self) -> bool {
        self.device.is_some()
    }

    /// Why they are not, though it is asked for.
    pub fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    /// What is offloaded.
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// How many packets the device passed up, by reason.
    pub fn passed(&self) -> Vec<(&'static str, u64)> {
        self.device.as_ref().map_or_else(Vec::new, |device| device.passed())
    }

    /// Whether a port's packets may be offloaded.
    pub fn receives_from(&self, port: PortNo) -> bool {
        self.device.as_ref().is_some_and(|device| device.receives_from(port))
    }
}

/// Asks the device as long as the switch runs.
pub async fn run(shared: Shared) {
    let mut interval = tokio::time::interval(INTERVAL);
    interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        interval.tick().await;
        shared.borrow_mut().turn_offload(clock::now());
    }
}

impl Switch {
    /// What is offloaded.
    pub fn offload(&self) -> &Offload {
        &self.offload
    }

    /// Begins or ends to offload connections, as the configuration says.
    pub(super) fn set_offload(&mut self, wanted: bool) {
        if !wanted {
            self.offload.failure = None;
            self.end_offload();
            return;
        }
        if self.offload.is_on() || self.offload.failure.is_some() {
            return;
        }
        match XdpOffload::new(CONNECTIONS_MAX) {
            Ok(device) => {
                log::info!(target: "netdev_offload", "connections are offloaded to XDP");
                self.offload.device = Some(device);
                self.offload_ports();
            }
            Err(error) => {
                log::warn!(target: "netdev_offload", "hw-offload has no effect: {error}");
                self.offload.failure = Some(error.to_string());
            }
        }
    }

    fn end_offload(&mut self) {
        let now = clock::now();
        if let Some(device) = &mut self.offload.device {
            self.offload.table.clear(device, &self.conntrack, now);
            log::info!(target: "netdev_offload", "connections are offloaded no more");
        }
        self.offload.device = None;
        self.send_credits();
        self.offload.table = Table::default();
    }

    /// Tells the device of all ports.
    fn offload_ports(&mut self) {
        let running = std::mem::take(&mut self.configured.interfaces);
        for interface in running.values() {
            let link = self.devices.link(&interface.interface.name);
            self.offload_port(interface, link.ok().as_ref());
        }
        self.configured.interfaces = running;
    }

    /// Tells the device of a port that was opened or changed.
    pub(super) fn offload_port(&mut self, running: &RunningInterface, link: Option<&LinkInfo>) {
        let (Some(number), Some(link)) = (running.device, link) else { return };
        let Some(device) = &mut self.offload.device else { return };
        let handle = self.devices.get(number).map(|device| &device.handle);
        let asks = running.interface.options.get("xdp-offload").is_some_and(|it| it == "true");
        // Another program's XDP is on a device of AF_XDP, and packets to a TAP device come to the switch.
        let receives = match handle {
            Some(Handle::Packet(_)) => asks,
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
        let known = device.receives_from(number);
        let place = (link.name.as_str(), link.ifindex, link.mtu);
        match device.add_port(number, place, receives) {
            Ok(true) => {}
            Ok(false) => return,
            Err(error) => log::warn!(target: "netdev_offload", "{error}"),
        }
        // It is not what it was when its rules were installed.
        self.offload.table.remove_port(device, number, &self.conntrack, clock::now());
        self.send_credits();
        // What is known of its connections was offered before.
        if receives && !known {
            self.workers.iter().for_each(|worker| worker.send(WorkerCommand::OfferAgain));
        }
    }

    /// A port is to be closed.
    pub(super) fn offload_port_closes(&mut self, number: PortNo) {
        let Some(device) = &mut self.offload.device else { return };
        self.offload.table.remove_port(device, number, &self.conntrack, clock::now());
        device.remove_port(number);
        self.send_credits();
    }

    /// The workers are other ones, without flows.
    pub(super) fn offload_anew(&mut self) {
        if let Some(device) = &mut self.offload.device {
            self.offload.table.clear(device, &self.conntrack, clock::now());
        }
        self.offload.table.forget_flows();
        self.offload.changes = Changes::new(self.slow.others() > 0);
    }

    /// A worker offers connections; it had got so many commands before.
    pub(super) fn offered(&mut self, seen: u64, offers: Vec<OffloadOffer>) {
        if self.offload.is_on() {
            self.offload.table.wait(clock::now(), seen, offers);
        }
    }

    /// Sends workers what they are to do with flows.
    pub(super) fn send_commands(&mut self) {
        let commands = std::mem::take(&mut self.outbox.commands);
        flow_log::commands(self.settings.dummy.datapath_name(), &commands, Some(&self.ofproto));
        for (worker, command) in commands {
            self.before_command(worker, &command);
            if let Some(worker) = self.workers.get(usize::from(worker.0)) {
                worker.send(WorkerCommand::Flow(command));
            }
        }
    }

    /// Notes a command that a worker is about to get: what hangs on the flow that it changes goes first.
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

    /// Asks the device about some of its rules, and installs what waits.
    fn turn_offload(&mut self, now: Instant) {
        let Offload { device: Some(device), table, changes, .. } = &mut self.offload else {
            return;
        };
        table.sweep(device, &self.conntrack, now, SWEPT_AT_ONCE);
        table.install(device, &self.conntrack, now, changes, INSTALLED_AT_ONCE);
        self.send_credits();
    }

    /// Asks the device about all of its rules, so that statistics are fresh.
    pub(super) fn sweep_offload(&mut self) {
        if let Offload { device: Some(device), table, .. } = &mut self.offload {
            table.sweep(device, &self.conntrack, clock::now(), usize::MAX);
            self.send_credits();
        }
    }

    /// Has workers credit their flows with what the device forwarded.
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
