//! Ethernet addresses.

use std::fmt;
use std::str::FromStr;

/// A 48-bit Ethernet address, in network byte order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct MacAddr(pub [u8; 6]);

impl MacAddr {
    /// ff:ff:ff:ff:ff:ff
    pub const BROADCAST: MacAddr = MacAddr([0xff; 6]);
    /// 00:00:00:00:00:00
    pub const ZERO: MacAddr = MacAddr([0; 6]);

    /// Returns the address in the low 48 bits of `raw`. The high bits are ignored.
    pub const fn from_u64(raw: u64) -> Self {
        let b = raw.to_be_bytes();
        MacAddr([b[2], b[3], b[4], b[5], b[6], b[7]])
    }

    /// Returns a number with the address in its low 48 bits.
    pub const fn to_u64(self) -> u64 {
        let b = self.0;
        u64::from_be_bytes([0, 0, b[0], b[1], b[2], b[3], b[4], b[5]])
    }

    /// Returns whether the group bit is set (multicast and broadcast).
    pub const fn is_multicast(self) -> bool {
        self.0[0] & 1 != 0
    }

    /// Returns whether this is one of 01:80:c2:00:00:00 to 01:80:c2:00:00:0f, which bridges do not forward
    /// (IEEE 802.1D, table 7-10).
    pub const fn is_reserved(self) -> bool {
        self.to_u64() & 0xffff_ffff_fff0 == 0x0180_c200_0000
    }
}

impl fmt::Display for MacAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let b = self.0;
        write!(f, "{:02x}:{:02x}:{:02x}:{:02x}:{:02x}:{:02x}", b[0], b[1], b[2], b[3], b[4], b[5])
    }
}

impl fmt::Debug for MacAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A text that does not consist of six hexadecimal octets, separated by colons.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MacParseError(pub String);

impl fmt::Display for MacParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "'{}' is not an Ethernet address like 02:00:00:00:00:01", self.0)
    }
}

impl std::error::Error for MacParseError {}

impl FromStr for MacAddr {
    type Err = MacParseError;

    fn from_str(s: &str) -> Result<Self, Self::Err> {
        let bad = || MacParseError(s.to_owned());
        let mut octets = [0u8; 6];
        let mut parts = s.split(':');
        for octet in &mut octets {
            let part = parts.next().ok_or_else(bad)?;
            if part.is_empty() || part.len() > 2 || part.starts_with('+') {
                return Err(bad());
            }
            *octet = u8::from_str_radix(part, 16).map_err(|_| bad())?;
        }
        if parts.next().is_some() { Err(bad()) } else { Ok(MacAddr(octets)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_number_agree() {
        let mac: MacAddr = "02:0a:ff:00:1:9".parse().unwrap();
        assert_eq!(mac.to_string(), "02:0a:ff:00:01:09");
        assert_eq!(MacAddr::from_u64(mac.to_u64()), mac);
        for bad in
            ["", "1:2:3:4:5", "1:2:3:4:5:6:7", "1:2:3:4:5:g", "1:2:3:4:5:+6", "001:2:3:4:5:6"]
        {
            assert!(bad.parse::<MacAddr>().is_err(), "{bad:?}");
        }
        assert!("01:80:c2:00:00:0e".parse::<MacAddr>().unwrap().is_reserved());
    }
}
