//! Ports without a device, as `--enable-dummy` allows them: which interfaces are such ports, and how they
//! look (ovs: `lib/netdev-dummy.c`, `lib/dpif-netdev.c`).

pub mod wire;

use super::Switch;
use super::datapaths::Datapath;
use super::devices::Devices;
use super::worker_thread::WorkerCommand;
use base::{MacAddr, PortNo};
use control::{Desired, InterfaceKind};
use port::PortError;
use port_dummy::DummyPort;
use port_linux::{LinkInfo, LinkStatistics};
use std::sync::mpsc;
use std::time::Duration;

/// How long workers are given to see that time went by.
const TURN_TIME: Duration = Duration::from_secs(1);

/// What `--enable-dummy` says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dummy {
    /// There are none.
    #[default]
    Off,
    /// Interfaces of type `dummy` are.
    On,
    /// Those of the system are, too (`--enable-dummy=system`).
    System,
    /// All are but patches (`--enable-dummy=override`).
    All,
}

impl Dummy {
    /// Reads the option's argument; any other is the same as none, as with Open vSwitch.
    pub fn from_argument(argument: Option<&str>) -> Dummy {
        match argument {
            Some("override") => Dummy::All,
            Some("system") => Dummy::System,
            _ => Dummy::On,
        }
    }

    /// Whether there are any.
    pub fn is_enabled(self) -> bool {
        self != Dummy::Off
    }

    /// Whether an interface of the system is one.
    pub fn replaces_system(self) -> bool {
        matches!(self, Dummy::System | Dummy::All)
    }

    /// Whether every interface is one.
    pub fn replaces_all(self) -> bool {
        self == Dummy::All
    }

    /// The name of the one datapath.
    pub fn datapath_name(self) -> &'static str {
        if self.is_enabled() { "dummy@ovs-dummy" } else { "netdev@ovs-netdev" }
    }
}

/// Why an interface of type `dummy` is not opened.
pub fn refusal(name: &str) -> String {
    format!(
        "could not open network device {name} (interface type \"dummy\" is for tests; start the switch \
         with --enable-dummy)"
    )
}

/// The number that a port asks for by its name: that in it, and 100 more for bridges.
pub fn wanted_number(name: &str) -> Option<PortNo> {
    let digits = name.trim_start_matches(|c: char| !c.is_ascii_digit());
    let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    let number: u32 = digits[..end].parse().ok()?;
    Some(PortNo(number.checked_add(if name.starts_with("br") { 100 } else { 0 })?))
}

/// What is told of a port's queues, which only those of type `dummy-pmd` have several of.
pub fn describe_queues(port: &DummyPort) -> String {
    let (rx, tx) = (port.options().rx_queues, port.options().tx_queues);
    format!(
        "configured_rx_queues={rx}, configured_tx_queues={tx}, requested_rx_queues={rx}, \
         requested_tx_queues={tx}"
    )
}

/// What it shows in place of a device.
pub fn link_info(name: &str, port: &DummyPort) -> LinkInfo {
    let counts = port.counts();
    LinkInfo {
        name: name.to_owned(),
        is_ethernet: true,
        mac: port.mac(),
        mtu: port.mtu(),
        admin_up: port.is_up(),
        carrier: true,
        statistics: LinkStatistics {
            rx_packets: counts.rx_packets,
            rx_bytes: counts.rx_bytes,
            tx_packets: counts.tx_packets,
            tx_bytes: counts.tx_bytes,
            ..LinkStatistics::default()
        },
        ..LinkInfo::default()
    }
}

impl Switch {
    /// Starts workers that poll where there are ports for tests that want them, and ends them where
    /// there are none any more.
    pub(super) fn poll_dummies(&mut self, desired: &Desired) {
        let ports = desired.bridges.values().flat_map(|bridge| bridge.ports.values());
        let mut interfaces = ports.flat_map(|port| &port.interfaces);
        let polls = interfaces.any(|interface| interface.kind == InterfaceKind::DummyPmd);
        if self.settings.dummy.is_enabled() && polls != self.polls_dummies {
            self.polls_dummies = polls;
            self.set_workers(&desired.options);
        }
    }

    /// Lets every worker see what the time is now, and answers what it asks.
    pub(super) fn let_workers_turn(&mut self) {
        let (done, all) = mpsc::channel();
        for worker in self.workers() {
            worker.send(WorkerCommand::Turn(done.clone()));
        }
        drop(done);
        // Nothing is ever sent: the channel ends when the last worker is through.
        let _ = all.recv_timeout(TURN_TIME);
        self.datapaths.values_mut().for_each(Datapath::collect);
        while self.answer_upcalls(clock::now()) {}
    }
}

impl Devices {
    /// Gives a device an address.
    pub fn set_mac(&mut self, name: &str, mac: MacAddr) -> Result<(), PortError> {
        match self.dummy(name) {
            Some(dummy) => {
                dummy.set_mac(mac);
                Ok(())
            }
            None => self.links.set_mac(name, mac),
        }
    }

    /// Sets a device's MTU.
    pub fn set_mtu(&mut self, name: &str, mtu: u32) -> Result<(), PortError> {
        match self.dummy(name) {
            Some(dummy) => {
                dummy.set_mtu(mtu);
                Ok(())
            }
            None => self.links.set_mtu(name, mtu),
        }
    }

    /// Has ports for tests begin recordings anew whose files were removed.
    pub(super) fn record_again(&self) {
        for port in self.iter().filter_map(|(_, device)| device.dummy()) {
            if let Err(error) = port.record_again() {
                log::warn!(target: "netdev_dummy", "{error}");
            }
        }
    }

    /// The port for tests of that name, if it is one.
    pub fn dummy(&self, name: &str) -> Option<&DummyPort> {
        self.iter().find_map(|(_, device)| device.dummy().filter(|_| device.name == name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_ask_for_numbers() {
        let names = ["p1", "br0", "br2", "eth10x3", "veth", "p99999999999"];
        let wanted = names.map(|name| wanted_number(name).map(|it| it.0));
        assert_eq!(wanted, [Some(1), Some(100), Some(102), Some(10), None, None]);
    }

    #[test]
    fn the_argument_says_what_is_replaced() {
        let all = [None, Some("system"), Some("override")].map(Dummy::from_argument);
        assert_eq!(all.map(Dummy::replaces_system), [false, true, true]);
        assert_eq!(all.map(Dummy::replaces_all), [false, false, true]);
        assert!(!Dummy::default().is_enabled());
    }
}
