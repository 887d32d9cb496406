//! Filters of dumps.

use crate::error::Error;
use crate::key::{Address, Family};
use crate::management::text::{masked, number};
use crate::protocols::sctp::SctpState;
use crate::protocols::tcp::TcpState;
use crate::record::{Kind, Record};
use base::Zone;
use flow::Masked;
use std::net::IpAddr;

/// The properties that a shown connection must have; `None` matches any.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Filter {
    /// Its zone.
    pub zone: Option<Zone>,
    /// A network, by address and prefix length, that has one of its addresses.
    pub network: Option<(IpAddr, u8)>,
    /// A network that has the source address of the original direction.
    pub source: Option<(IpAddr, u8)>,
    /// A network that has the destination address of the original direction, before NAT.
    pub destination: Option<(IpAddr, u8)>,
    /// One of its ports, before or after NAT.
    pub port: Option<u16>,
    /// Its IP protocol.
    pub protocol: Option<u8>,
    /// Bits of its mark.
    pub mark: Option<Masked<u32>>,
    /// Bits of its label.
    pub label: Option<Masked<u128>>,
    /// The state that dumps show; only TCP and SCTP have one.
    pub state: Option<StateName>,
}

/// The name of a state of TCP or SCTP connections, as dumps show it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StateName(&'static str);

impl StateName {
    /// Returns the state of this name, in upper or lower case.
    #[must_use]
    pub fn parse(text: &str) -> Option<StateName> {
        let tcp = TcpState::ALL.into_iter().map(TcpState::name);
        let mut names = tcp.chain(SctpState::ALL.into_iter().map(SctpState::name));
        names.find(|name| name.eq_ignore_ascii_case(text)).map(StateName)
    }

    /// The state of a connection, if its protocol has states.
    fn of(record: &Record<'_>) -> Option<StateName> {
        match record.state().kind() {
            Kind::Tcp => Some(StateName(record.tcp().shown().name())),
            Kind::Sctp => Some(StateName(record.sctp().state.name())),
            Kind::Icmp | Kind::Other => None,
        }
    }
}

impl Filter {
    /// Selects all connections of a zone.
    pub fn zone(zone: Zone) -> Filter {
        Filter { zone: Some(zone), ..Filter::default() }
    }

    /// Adds a condition such as `network=10.0.0.0/8` or `mark=0x1/0xff`.
    ///
    /// # Errors
    /// [`Error::UnknownFilter`], [`Error::BadValue`].
    pub fn add(&mut self, text: &str) -> Result<(), Error> {
        let (key, value) = text.split_once('=').unwrap_or((text, ""));
        let bad = || Error::BadValue { key: key.to_owned() };
        match key {
            "zone" => self.zone = Some(Zone(number(value).ok_or_else(bad)?)),
            "network" => self.network = Some(network(value).ok_or_else(bad)?),
            "source" => self.source = Some(network(value).ok_or_else(bad)?),
            "destination" => self.destination = Some(network(value).ok_or_else(bad)?),
            "port" => self.port = Some(number(value).ok_or_else(bad)?),
            "protocol" => self.protocol = Some(protocol(value).ok_or_else(bad)?),
            "mark" => {
                let Masked { value, mask } = masked(value).ok_or_else(bad)?;
                let low = |bits| u32::try_from(bits).map_err(|_| bad());
                let mask = if mask == u128::MAX { u32::MAX } else { low(mask)? };
                self.mark = Some(Masked { value: low(value)?, mask });
            }
            "label" => self.label = Some(masked(value).ok_or_else(bad)?),
            "state" => self.state = Some(StateName::parse(value).ok_or_else(bad)?),
            _ => return Err(Error::UnknownFilter { key: key.to_owned() }),
        }
        Ok(())
    }

    /// Whether the filter selects the connection.
    pub(crate) fn shows(&self, record: &Record<'_>) -> bool {
        let state = record.state();
        let [high, low] = record.label();
        let label = u128::from(high) << 64 | u128::from(low);
        let original = record.original();
        self.zone.is_none_or(|zone| zone.0 == original.zone)
            && self.protocol.is_none_or(|it| it == original.protocol)
            && self.mark.is_none_or(|it| (state.mark() ^ it.value) & it.mask == 0)
            && self.label.is_none_or(|it| (label ^ it.value) & it.mask == 0)
            && self.state.is_none_or(|it| StateName::of(record) == Some(it))
            && self.source.is_none_or(|net| lies_in(original.src, original.family, net))
            && self.destination.is_none_or(|net| lies_in(original.dst, original.family, net))
            && self.port.is_none_or(|port| {
                !original.is_icmp()
                    && [original.l4, record.reply().l4].as_flattened().contains(&port)
            })
            && self.network.is_none_or(|network| {
                let reply = record.reply();
                let ends = [original.src, original.dst, reply.src, reply.dst];
                ends.iter().any(|end| lies_in(*end, original.family, network))
            })
    }
}

fn lies_in(address: Address, family: Family, (network, prefix): (IpAddr, u8)) -> bool {
    let bits = if family == Family::V4 { 32 } else { 128 };
    let is_family = network.is_ipv4() == (family == Family::V4);
    let rest = u32::from(bits - prefix.min(bits));
    let differs = address.bits() ^ Address::from(network).bits();
    is_family && differs.checked_shr(rest).unwrap_or(0) == 0
}

/// `10.0.0.0/8`, or an address alone.
fn network(text: &str) -> Option<(IpAddr, u8)> {
    let (address, prefix) = text.split_once('/').map_or((text, None), |(a, b)| (a, Some(b)));
    let address: IpAddr = address.parse().ok()?;
    let longest = if address.is_ipv4() { 32 } else { 128 };
    let prefix = prefix.map_or(Some(longest), |prefix| prefix.parse().ok())?;
    (prefix <= longest).then_some((address, prefix))
}

fn protocol(text: &str) -> Option<u8> {
    let names = [("icmp", 1), ("tcp", 6), ("udp", 17), ("icmpv6", 58), ("sctp", 132)];
    let named = names.iter().find(|(name, _)| *name == text).map(|(_, number)| *number);
    named.or_else(|| number(text))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn texts_say_what_is_shown_or_what_is_wrong() {
        let cases = [
            ("zone=5", "zone: Some(Zone(5))"),
            ("network=10.0.0.0/8", "network: Some((10.0.0.0, 8))"),
            ("network=fd00::1", "network: Some((fd00::1, 128))"),
            ("network=10.0.0.0/33", "failed to parse field network"),
            ("port=0x50", "port: Some(80)"),
            ("protocol=tcp", "protocol: Some(6)"),
            ("protocol=47", "protocol: Some(47)"),
            ("mark=0x1/0xff", "mark: Some(Masked { value: 1, mask: 255 })"),
            ("mark=7", "mark: Some(Masked { value: 7, mask: 4294967295 })"),
            ("mark=0x100000000", "failed to parse field mark"),
            ("label=0x1/0x3", "label: Some(Masked { value: 1, mask: 3 })"),
            ("source=10.0.0.0/8", "source: Some((10.0.0.0, 8))"),
            ("destination=fd00::/16", "destination: Some((fd00::, 16))"),
            ("destination=10.0.0.0/x", "failed to parse field destination"),
            ("state=established", "state: Some(StateName(\"ESTABLISHED\"))"),
            ("state=COOKIE_WAIT", "state: Some(StateName(\"COOKIE_WAIT\"))"),
            ("zone=65536", "failed to parse field zone"),
            ("zone", "failed to parse field zone"),
            ("state=open", "failed to parse field state"),
            ("colour=red", "colour is nothing to choose connections by"),
        ];
        for (text, expect) in cases {
            let mut filter = Filter::default();
            let found = match filter.add(text) {
                Ok(()) => format!("{filter:?}"),
                Err(error) => error.to_string(),
            };
            assert!(found.contains(expect), "{text}: {found}");
        }
    }

    #[test]
    fn networks_hold_their_addresses_and_no_others() {
        let cases = [
            ("10.1.2.3", "10.0.0.0/8", true),
            ("11.1.2.3", "10.0.0.0/8", false),
            ("11.1.2.3", "0.0.0.0/0", true),
            ("10.1.2.3", "10.1.2.3", true),
            ("10.1.2.3", "::/0", false),
            ("fd00::1", "fd00::/16", true),
            ("fd01::1", "fd00::/16", false),
            ("fd01::1", "::/0", true),
        ];
        for (address, text, expect) in cases {
            let ip: IpAddr = address.parse().unwrap();
            let family = if ip.is_ipv4() { Family::V4 } else { Family::V6 };
            let found = lies_in(ip.into(), family, network(text).unwrap());
            assert_eq!(found, expect, "{address} in {text}");
        }
    }
}
