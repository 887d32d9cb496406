//! Errors in headers.

use std::fmt;

/// The error of `new_checked`. It is small and `Copy`, since malformed packets may be frequent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// The header is truncated.
    #[error("{header} header needs {need} bytes, only {have} are there")]
    Truncated {
        /// The header that was read.
        header: Header,
        /// The number of bytes that it needs.
        need: u32,
        /// The number of bytes available.
        have: u32,
    },
    /// A length field has an impossible value.
    #[error("{header} length field says {says} bytes, it may say {min} to {max}")]
    Length {
        /// The header with the field.
        header: Header,
        /// The value of the field, in bytes.
        says: u32,
        /// The minimum: the length of the header itself.
        min: u32,
        /// The maximum: the number of bytes available.
        max: u32,
    },
    /// The version or hardware type is not that of this header.
    #[error("{header} header says version or type {found}, expected {expected}")]
    Kind {
        /// The header that was read.
        header: Header,
        /// The value in the packet.
        found: u16,
        /// The expected value.
        expected: u16,
    },
}

impl Malformed {
    /// Fails unless `have` is at least `need`.
    pub(crate) fn unless_holds(header: Header, need: usize, have: usize) -> Result<(), Malformed> {
        if have >= need {
            return Ok(());
        }
        Err(Malformed::Truncated { header, need: clip(need), have: clip(have) })
    }

    /// Fails unless the length field's value `says` lies in `min..=max`.
    pub(crate) fn unless_within(
        header: Header,
        says: usize,
        min: usize,
        max: usize,
    ) -> Result<(), Malformed> {
        if (min..=max).contains(&says) {
            return Ok(());
        }
        Err(Malformed::Length { header, says: clip(says), min: clip(min), max: clip(max) })
    }

    /// Fails unless `found` is `expected`.
    pub(crate) fn unless_kind(header: Header, found: u16, expected: u16) -> Result<(), Malformed> {
        if found == expected {
            return Ok(());
        }
        Err(Malformed::Kind { header, found, expected })
    }

    /// Returns the header with the error.
    pub const fn header(self) -> Header {
        match self {
            Malformed::Truncated { header, .. }
            | Malformed::Length { header, .. }
            | Malformed::Kind { header, .. } => header,
        }
    }
}

/// The headers that this crate parses, for [`Malformed`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Header {
    /// Ethernet II or 802.3.
    Ethernet,
    /// An 802.1Q or 802.1ad tag.
    Vlan,
    /// ARP for IPv4 over Ethernet.
    Arp,
    /// IPv4.
    Ipv4,
    /// IPv6 without its extension headers.
    Ipv6,
    /// An IPv6 extension header.
    Ipv6Extension,
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
    /// The common header of SCTP.
    Sctp,
    /// ICMP for IPv4.
    Icmp,
    /// ICMPv6.
    Icmpv6,
    /// A network header that is neither IPv4 nor IPv6.
    Network,
    /// VXLAN, also with the generic protocol extension or a group policy.
    Vxlan,
    /// Geneve's fixed header and its options.
    Geneve,
    /// GRE with its optional words.
    Gre,
    /// ERSPAN, type II or III.
    Erspan,
    /// GTP-U.
    Gtpu,
    /// NSH.
    Nsh,
}

impl fmt::Display for Header {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Header::Ethernet => "Ethernet",
            Header::Vlan => "VLAN",
            Header::Arp => "ARP",
            Header::Ipv4 => "IPv4",
            Header::Ipv6 => "IPv6",
            Header::Ipv6Extension => "IPv6 extension",
            Header::Tcp => "TCP",
            Header::Udp => "UDP",
            Header::Sctp => "SCTP",
            Header::Icmp => "ICMP",
            Header::Icmpv6 => "ICMPv6",
            Header::Network => "network",
            Header::Vxlan => "VXLAN",
            Header::Geneve => "Geneve",
            Header::Gre => "GRE",
            Header::Erspan => "ERSPAN",
            Header::Gtpu => "GTP-U",
            Header::Nsh => "NSH",
        })
    }
}

fn clip(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}
