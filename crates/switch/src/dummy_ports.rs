//! The dummy ports of a running switch.

use super::Switch;
use super::datapaths::Datapath;
use super::devices::Devices;
use super::worker_messages::WorkerCommand;
use base::MacAddr;
use control::{Desired, InterfaceKind};
use port::PortError;
use port_dummy::DummyPort;
use std::sync::mpsc;
use std::time::Duration;

/// How long workers may take to process the passing of time.
const TURN_TIME: Duration = Duration::from_secs(1);

impl Switch {
    /// Starts polling workers if there are dummy ports that need them, and stops them if there are none any
    /// more.
    pub(super) fn poll_dummies(&mut self, desired: &Desired) {
        let ports = desired.bridges.values().flat_map(|bridge| bridge.ports.values());
        let mut interfaces = ports.flat_map(|port| &port.interfaces);
        let polls = interfaces.any(|interface| interface.kind == InterfaceKind::DummyPmd);
        if self.settings.dummy.is_enabled() && polls != self.polls_dummies {
            self.polls_dummies = polls;
            self.set_workers(&desired.options);
        }
    }

    /// Makes every worker process the current time, and answers its upcalls.
    pub(super) fn let_workers_turn(&mut self) {
        let (done, all) = mpsc::channel();
        for worker in self.workers() {
            worker.send(WorkerCommand::Iterate(done.clone()));
        }
        drop(done);
        // No message is sent: the channel closes when the last worker is done.
        let _ = all.recv_timeout(TURN_TIME);
        self.datapaths.values_mut().for_each(Datapath::collect);
        while self.answer_upcalls(clock::now()) {}
    }
}

impl Devices {
    /// Sets a device's address.
    pub fn set_mac(&mut self, name: &str, mac: MacAddr) -> Result<(), PortError> {
        match self.dummy(name) {
            Some(dummy) => {
                dummy.set_mac(mac);
                Ok(())
            }
            None => {
                self.expect_named(name)?;
                self.links.set_mac(name, mac)
            }
        }
    }

    /// Sets a device's MTU.
    pub fn set_mtu(&mut self, name: &str, mtu: u32) -> Result<(), PortError> {
        match self.dummy(name) {
            Some(dummy) => {
                dummy.set_mtu(mtu);
                Ok(())
            }
            None => {
                self.expect_named(name)?;
                self.links.set_mtu(name, mtu)
            }
        }
    }

    /// Starts recordings of dummy ports again whose files were removed.
    pub(super) fn record_again(&self) {
        for port in self.iter().filter_map(|(_, device)| device.dummy()) {
            if let Err(error) = port.record_again() {
                log::warn!(target: "netdev_dummy", "{error}");
            }
        }
    }

    /// Returns the dummy port with this name, if it is one.
    pub fn dummy(&self, name: &str) -> Option<&DummyPort> {
        self.iter().find_map(|(_, device)| device.dummy().filter(|_| device.name == name))
    }
}
