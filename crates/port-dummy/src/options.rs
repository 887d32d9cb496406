//! The `options` of an interface of type `dummy`, `dummy-internal` or `dummy-pmd`.

use std::collections::BTreeMap;
use std::path::PathBuf;

/// Most queues that a port has (ovs: `lib/netdev-dummy.c`, `DUMMY_MAX_QUEUES_PER_PORT`).
const QUEUES_MAX: u16 = 1024;

/// What connects a port with others, perhaps of other processes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Wire {
    /// Nothing.
    #[default]
    None,
    /// Others connect to this (`options:pstream`).
    Listens(String),
    /// It connects to this (`options:stream`).
    Connects(String),
    /// Both were asked for, which cannot be.
    Both,
}

/// What a port records, and how many queues it has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DummyOptions {
    /// Records what is received (`rxq_pcap`, or `pcap`).
    pub received: Option<PathBuf>,
    /// Records what is sent (`tx_pcap`, or `pcap`).
    pub sent: Option<PathBuf>,
    /// Receive queues of a `dummy-pmd` port (`n_rxq`).
    pub rx_queues: u16,
    /// Transmit queues that a `dummy-pmd` port claims (`n_txq`).
    pub tx_queues: u16,
    /// The node of memory that it claims (`numa_id`).
    pub numa: u16,
    /// The interface index that it claims (`ifindex`).
    pub ifindex: Option<u32>,
    /// Where frames come from and go to besides (`pstream`, `stream`).
    pub wire: Wire,
    /// Keys that mean nothing here, for the log.
    pub unknown: Vec<String>,
}

impl DummyOptions {
    /// Reads an interface's `options`. Numbers that are none count as not given, as with Open vSwitch.
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
