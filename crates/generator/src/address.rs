//! IP addresses and ports, and the ranges of them that profiles name.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

const MAPPED: [u8; 12] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff];

/// An IPv6 address, or an IPv4 address in its mapped form (RFC 4291 section 2.5.5.2).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct Address(pub [u8; 16]);

impl Address {
    /// The IPv4 address of these four bytes, in its mapped form.
    pub const fn v4([a, b, c, d]: [u8; 4]) -> Address {
        Address([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, a, b, c, d])
    }

    /// Returns the IPv4 address, or `None` for an IPv6 address.
    #[inline]
    pub fn as_v4(&self) -> Option<[u8; 4]> {
        let (prefix, v4) = self.0.split_first_chunk::<12>()?;
        if *prefix == MAPPED { v4.try_into().ok() } else { None }
    }

    #[inline]
    fn number(self) -> u128 {
        u128::from_be_bytes(self.0)
    }
}

impl From<IpAddr> for Address {
    fn from(ip: IpAddr) -> Self {
        match ip {
            IpAddr::V4(v4) => Address::v4(v4.octets()),
            IpAddr::V6(v6) => Address(v6.octets()),
        }
    }
}

/// Consecutive addresses, written `16.0.0.1-16.0.0.250`, or a single one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct AddressRange {
    first: Address,
    last: Address,
}

impl AddressRange {
    /// One IPv4 address.
    pub(crate) fn single(address: [u8; 4]) -> AddressRange {
        AddressRange::between(address, address)
    }

    /// The IPv4 addresses from one to the other, both included.
    pub(crate) fn between(one: [u8; 4], other: [u8; 4]) -> AddressRange {
        AddressRange { first: Address::v4(one.min(other)), last: Address::v4(one.max(other)) }
    }

    /// `count` consecutive addresses (at least 1) that begin with `first`.
    pub(crate) fn starting(first: Address, count: u16) -> AddressRange {
        let last = first.number().saturating_add(u128::from(count.max(1) - 1));
        AddressRange { first, last: Address(last.to_be_bytes()) }
    }

    /// Returns the number of addresses, at least 1.
    pub fn count(&self) -> u64 {
        u64::try_from(self.last.number() - self.first.number())
            .unwrap_or(u64::MAX)
            .saturating_add(1)
    }

    /// Returns whether these are IPv4 addresses.
    pub fn is_v4(&self) -> bool {
        self.first.as_v4().is_some()
    }

    /// Returns the address at `index` (from 0), modulo the number of addresses.
    pub(crate) fn get(&self, index: u64) -> Address {
        let offset = u128::from(index % self.count());
        Address((self.first.number() + offset).to_be_bytes())
    }

    /// Returns the addresses at the indexes from `first` up to but not including `end`.
    pub(crate) fn part(&self, first: u64, end: u64) -> AddressRange {
        AddressRange { first: self.get(first), last: self.get(end.max(first + 1) - 1) }
    }

    /// Returns the index of the address, or `None` where the range does not contain it.
    pub(crate) fn offset(&self, address: Address) -> Option<u64> {
        let offset = address.number().checked_sub(self.first.number())?;
        if self.contains(address) { u64::try_from(offset).ok() } else { None }
    }

    /// Returns whether the range contains the address.
    #[inline]
    pub(crate) fn contains(&self, address: Address) -> bool {
        (self.first.number()..=self.last.number()).contains(&address.number())
    }
}

impl FromStr for AddressRange {
    type Err = RangeError;

    fn from_str(text: &str) -> Result<Self, RangeError> {
        let bad = |why| RangeError { text: text.to_owned(), why };
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let parse = |part: &str| {
            part.trim().parse::<IpAddr>().map_err(|_| bad("is not `address` or `first-last`"))
        };
        let (first, last) = (parse(first)?, parse(last)?);
        if first.is_ipv4() != last.is_ipv4() {
            return Err(bad("mixes IPv4 and IPv6"));
        }
        let range = AddressRange { first: first.into(), last: last.into() };
        if range.first.0 > range.last.0 {
            return Err(bad("ends before it starts"));
        }
        if range.last.number() - range.first.number() > u128::from(u32::MAX) {
            return Err(bad("has more than 4,294,967,296 addresses; name fewer"));
        }
        Ok(range)
    }
}

impl fmt::Display for AddressRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let show = |address: Address| match address.as_v4() {
            Some(v4) => IpAddr::V4(Ipv4Addr::from(v4)),
            None => IpAddr::V6(Ipv6Addr::from(address.0)),
        };
        write!(f, "{}", show(self.first))?;
        if self.last == self.first { Ok(()) } else { write!(f, "-{}", show(self.last)) }
    }
}

impl TryFrom<String> for AddressRange {
    type Error = RangeError;

    fn try_from(text: String) -> Result<Self, RangeError> {
        text.parse()
    }
}

impl From<AddressRange> for String {
    fn from(range: AddressRange) -> String {
        range.to_string()
    }
}

/// Consecutive ports, written `1024-65535`, or a single one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PortRange {
    first: u16,
    last: u16,
}

impl PortRange {
    /// The ports between `first` and `last`, both included, in either order.
    pub(crate) fn new(first: u16, last: u16) -> PortRange {
        PortRange { first: first.min(last), last: first.max(last) }
    }

    /// Returns the number of ports, at least 1.
    pub fn count(&self) -> u64 {
        u64::from(self.last - self.first) + 1
    }

    /// Returns the port at `index` (from 0), modulo the number of ports.
    pub(crate) fn get(&self, index: u64) -> u16 {
        self.first + (index % self.count()) as u16
    }

    /// Returns whether the range contains the port.
    pub(crate) fn contains(&self, port: u16) -> bool {
        (self.first..=self.last).contains(&port)
    }
}

impl FromStr for PortRange {
    type Err = RangeError;

    fn from_str(text: &str) -> Result<Self, RangeError> {
        let bad = |why| RangeError { text: text.to_owned(), why };
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let parse = |part: &str| {
            let port = part.trim().parse::<u16>();
            port.ok().filter(|&p| p > 0).ok_or(bad("is not `port` or `first-last`, 1 to 65535"))
        };
        let (first, last) = (parse(first)?, parse(last)?);
        if first > last {
            return Err(bad("ends before it starts"));
        }
        Ok(PortRange { first, last })
    }
}

impl fmt::Display for PortRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.first)?;
        if self.last == self.first { Ok(()) } else { write!(f, "-{}", self.last) }
    }
}

impl TryFrom<String> for PortRange {
    type Error = RangeError;

    fn try_from(text: String) -> Result<Self, RangeError> {
        text.parse()
    }
}

impl From<PortRange> for String {
    fn from(range: PortRange) -> String {
        range.to_string()
    }
}

/// An invalid range of addresses or ports.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("'{text}' {why}")]
pub struct RangeError {
    text: String,
    why: &'static str,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_count_wrap_and_refuse() {
        let cases = [
            ("10.0.0.1", 1),
            ("10.0.0.1-10.0.1.0", 256),
            ("fd00::1-fd00::ff", 255),
            ("0.0.0.0-255.255.255.255", 1 << 32),
        ];
        for (text, count) in cases {
            let range: AddressRange = text.parse().unwrap();
            assert_eq!((range.count(), range.to_string().as_str()), (count, text));
            assert_eq!(range.get(count), range.get(0));
            assert!(range.contains(range.get(count - 1)));
        }
        for bad in ["", "1.2.3", "10.0.0.2-10.0.0.1", "10.0.0.1-fd00::1", "fd00::-fe00::"] {
            assert!(bad.parse::<AddressRange>().is_err(), "{bad}");
        }
        let ports: PortRange = "1024-65535".parse().unwrap();
        assert_eq!((ports.count(), ports.get(64_511), ports.get(64_512)), (64_512, 65_535, 1024));
        for bad in ["0", "2-1", "65536", "x"] {
            assert!(bad.parse::<PortRange>().is_err(), "{bad}");
        }
    }
}
