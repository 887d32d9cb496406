//! Dummy ports (`--enable-dummy`): which interfaces become dummies, and their state (ovs:
//! `lib/netdev-dummy.c`, `lib/dpif-netdev.c`).

pub mod wire;

use base::PortNo;
use port_dummy::DummyPort;
use port_linux::{LinkInfo, LinkStatistics};

/// The argument of `--enable-dummy`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dummy {
    /// No dummy ports.
    #[default]
    Off,
    /// Interfaces of type `dummy` are dummy ports.
    On,
    /// Interfaces of the system are too (`--enable-dummy=system`).
    System,
    /// All interfaces are, except patches (`--enable-dummy=override`).
    All,
}

impl Dummy {
    /// Parses the option's argument; as in Open vSwitch, an unknown one is ignored.
    pub fn from_argument(argument: Option<&str>) -> Dummy {
        match argument {
            Some("override") => Dummy::All,
            Some("system") => Dummy::System,
            _ => Dummy::On,
        }
    }

    /// Returns whether dummy ports are enabled.
    pub fn is_enabled(self) -> bool {
        self != Dummy::Off
    }

    /// Returns whether an interface of the system becomes a dummy port.
    pub fn replaces_system(self) -> bool {
        matches!(self, Dummy::System | Dummy::All)
    }

    /// Returns whether every interface becomes a dummy port.
    pub fn replaces_all(self) -> bool {
        self == Dummy::All
    }

    /// Returns the name of the switch's own datapath.
    pub fn datapath_name(self) -> &'static str {
        if self.is_enabled() { "dummy@ovs-dummy" } else { "netdev@ovs-netdev" }
    }
}

/// Returns the error of an interface of type `dummy` if they are disabled.
pub fn refusal(name: &str) -> String {
    format!(
        "could not open network device {name} (interface type \"dummy\" is for tests; start the switch \
         with --enable-dummy)"
    )
}

/// Returns the number that a dummy port's name requests: the digits in it, plus 100 for bridges.
pub fn wanted_number(name: &str) -> Option<PortNo> {
    let digits = name.trim_start_matches(|c: char| !c.is_ascii_digit());
    let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    let number: u32 = digits[..end].parse().ok()?;
    Some(PortNo(number.checked_add(if name.starts_with("br") { 100 } else { 0 })?))
}

/// Returns the text about a port's queues; only ports of type `dummy-pmd` have several.
pub fn describe_queues(port: &DummyPort) -> String {
    let (rx, tx) = (port.options().rx_queues, port.options().tx_queues);
    format!(
        "configured_rx_queues={rx}, configured_tx_queues={tx}, requested_rx_queues={rx}, \
         requested_tx_queues={tx}"
    )
}

/// Returns the link information that it reports.
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
