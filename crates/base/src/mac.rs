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

    /// Returns whether this is an address of a protocol between neighbours, which bridges do not forward: IEEE 802.1D,
    /// table 7-10, and the protocols of Cisco and Extreme (ovs: `lib/packets.c`, `eth_addr_is_reserved`).
    pub const fn is_reserved(self) -> bool {
        match self.to_u64() {
            // STP, pause frames, LACP, 802.1X, LLDP.
            0x0180_c200_0000..=0x0180_c200_000f => true,
            // Extreme's EDP and EAPS.
            0x00e0_2b00_0000 | 0x00e0_2b00_0004 | 0x00e0_2b00_0006 => true,
            // Cisco's ISL; CDP, VTP, DTP, PAgP and UDLD; PVST+; STP's uplink fast; CFM.
            0x0100_0c00_0000 | 0x0100_0ccc_cccc | 0x0100_0ccc_cccd | 0x0100_0ccd_cdcd => true,
            0x0100_0ccc_ccc0..=0x0100_0ccc_ccc7 => true,
            _ => false,
        }
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
    }

    #[test]
    fn addresses_of_protocols_between_neighbours_are_reserved() {
        let ranges = [
            // The first address and the number of addresses that follow.
            ("01:80:c2:00:00:00", 15),
            ("00:e0:2b:00:00:00", 0),
            ("00:e0:2b:00:00:04", 0),
            ("00:e0:2b:00:00:06", 0),
            ("01:00:0c:00:00:00", 0),
            ("01:00:0c:cc:cc:c0", 7),
            ("01:00:0c:cc:cc:cc", 1),
            ("01:00:0c:cd:cd:cd", 0),
        ];
        let ranges = ranges.map(|(first, more)| {
            let first = first.parse::<MacAddr>().unwrap().to_u64();
            first..=first + more
        });
        for near in ranges.iter().flat_map(|range| range.start() - 9..range.end() + 9) {
            let expect = ranges.iter().any(|range| range.contains(&near));
            assert_eq!(MacAddr::from_u64(near).is_reserved(), expect, "{near:#x}");
        }
    }
}
