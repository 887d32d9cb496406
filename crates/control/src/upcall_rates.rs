//! The configured limits of upcalls (`tidegate-upcall-rates`).

use flow::QueueClass;
use std::collections::BTreeMap;

/// The maximum number of upcalls per second of a class, for every port separately or for one port by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UpcallRateList(BTreeMap<(Option<String>, QueueClass), u32>);

impl UpcallRateList {
    /// The description of the syntax in error messages.
    pub const EXPECTED: &str = "a list of [PORT/]CLASS=UPCALLS_PER_SECOND with commas between, where the classes \
                                are control, neighbor, tcp-syn, ip, multicast, other and controller";

    /// Parses `neighbor=1000,eth1/multicast=100`. Returns `None` if an item has another form, is a duplicate,
    /// or has the limit zero.
    pub fn parse(text: &str) -> Option<Self> {
        let mut rates = BTreeMap::new();
        for item in text.split(',').map(str::trim).filter(|item| !item.is_empty()) {
            let (what, rate) = item.split_once('=')?;
            let (port, class) = match what.rsplit_once('/') {
                Some((port, class)) => (Some(port.to_owned()), class),
                None => (None, what),
            };
            let class = QueueClass::ALL.into_iter().find(|it| it.name() == class)?;
            let rate: u32 = rate.parse().ok().filter(|rate| *rate > 0)?;
            if port.as_deref() == Some("") || rates.insert((port, class), rate).is_some() {
                return None;
            }
        }
        Some(UpcallRateList(rates))
    }

    /// Returns the limits with their ports. `None` stands for every port separately.
    pub fn iter(&self) -> impl Iterator<Item = (Option<&str>, QueueClass, u32)> {
        self.0.iter().map(|((port, class), rate)| (port.as_deref(), *class, *rate))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read() {
        let check = |text: &str, expect: Option<&[(Option<&str>, QueueClass, u32)]>| {
            let list = UpcallRateList::parse(text);
            let found: Option<Vec<_>> = list.as_ref().map(|list| list.iter().collect());
            assert_eq!(found.as_deref(), expect, "{text:?}");
        };
        let neighbour = (None, QueueClass::Neighbour, 1000);
        check("", Some(&[]));
        check("neighbor=1000", Some(&[neighbour]));
        check(
            "p1/tcp-syn=7, neighbor=1000",
            Some(&[neighbour, (Some("p1"), QueueClass::TcpSyn, 7)]),
        );
        for wrong in ["arp=1", "ip", "ip=0", "ip=-1", "ip=x", "/ip=1", "ip=1,ip=2", "=1", "p1/=1"] {
            check(wrong, None);
        }
    }
}
