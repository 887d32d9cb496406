//! The `options` of an interface of type `dummy`, `dummy-internal` or `dummy-pmd`.

use std::collections::BTreeMap;
use std::path::PathBuf;

/// Maximum number of queues of a port (ovs: `lib/netdev-dummy.c`, `DUMMY_MAX_QUEUES_PER_PORT`).
const QUEUES_MAX: u16 = 1024;

/// The connection of a port to other dummy ports, perhaps of other processes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Wire {
    /// None.
    #[default]
    None,
    /// Other ports connect to this address (`options:pstream`).
    Listens(String),
    /// The port connects to this address (`options:stream`).
    Connects(String),
    /// Both were requested, which is an error.
    Both,
}

/// The configuration of a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DummyOptions {
    /// File that records received frames (`rxq_pcap`, or `pcap`).
    pub received: Option<PathBuf>,
    /// File that records sent frames (`tx_pcap`, or `pcap`).
    pub sent: Option<PathBuf>,
    /// Receive queues of a `dummy-pmd` port (`n_rxq`).
    pub rx_queues: u16,
    /// Number of transmit queues that a `dummy-pmd` port reports (`n_txq`).
    pub tx_queues: u16,
    /// NUMA node that it reports (`numa_id`).
    pub numa: u16,
    /// Interface index that it reports (`ifindex`).
    pub ifindex: Option<u32>,
    /// Its connection to other ports (`pstream`, `stream`).
    pub wire: Wire,
    /// Unknown keys, for the log.
    pub unknown: Vec<String>,
}

impl DummyOptions {
    /// Parses an interface's `options`. As in Open vSwitch, invalid numbers are ignored.
    #[must_use]
    pub fn parse(options: &BTreeMap<String, String>, has_queues: bool) -> Self {
        let file = |name| options.get(name).or(options.get("pcap")).map(PathBuf::from);
        let number = |name| options.get(name).and_then(|text| text.parse::<u32>().ok());
        let queues = |name| {
            let asked = number(name).filter(|_| has_queues).unwrap_or(1);
            asked.clamp(1, QUEUES_MAX.into()) as u16
        };
        const KNOWN: [&str; 9] = [
            "pcap", "rxq_pcap", "tx_pcap", "n_rxq", "n_txq", "numa_id", "ifindex", "pstream",
            "stream",
        ];
        let wire = match (options.get("pstream"), options.get("stream")) {
            (None, None) => Wire::None,
            (Some(target), None) => Wire::Listens(target.clone()),
            (None, Some(target)) => Wire::Connects(target.clone()),
            (Some(_), Some(_)) => Wire::Both,
        };
        let unknown =
            options.keys().filter(|key| !KNOWN.contains(&key.as_str())).cloned().collect();
        DummyOptions {
            received: file("rxq_pcap"),
            sent: file("tx_pcap"),
            rx_queues: queues("n_rxq"),
            tx_queues: queues("n_txq"),
            numa: number("numa_id").filter(|_| has_queues).unwrap_or(0) as u16,
            ifindex: number("ifindex"),
            wire,
            unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_and_unknown_ones_named() {
        let text = [
            ("pcap", "a"),
            ("tx_pcap", "b"),
            ("n_rxq", "9999"),
            ("stream", "unix:x"),
            ("flow", "1"),
        ];
        let options = text.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let read = DummyOptions::parse(&options, true);
        assert_eq!((read.received, read.sent), (Some("a".into()), Some("b".into())));
        assert_eq!((read.rx_queues, read.tx_queues), (QUEUES_MAX, 1));
        assert_eq!(read.wire, Wire::Connects("unix:x".to_owned()));
        assert_eq!(read.unknown, ["flow"]);
        assert_eq!(DummyOptions::parse(&options, false).rx_queues, 1);
    }
}
