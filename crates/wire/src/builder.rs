//! Builds packets for tests, replies and ICMP errors. Lengths and checksums are computed.
//!
//! Each layer has its own type, so that a TCP flag on a UDP packet does not compile:
//!
//! ```
//! use wire::{PacketBuilder, TcpFlags};
//! # let (a, b) = (base::MacAddr::ZERO, base::MacAddr::BROADCAST);
//! let syn = PacketBuilder::eth(a, b)
//!     .ipv4([10, 0, 0, 1].into(), [10, 0, 0, 2].into())
//!     .ttl(64)
//!     .tcp(1000, 80)
//!     .flags(TcpFlags::SYN)
//!     .mss(1460)
//!     .build();
//! assert_eq!(syn.len(), 14 + 20 + 24);
//! ```

mod ip;
#[cfg(test)]
mod tests;
mod transport;

pub use ip::{Checksum, IpBuilder};
pub use transport::{TcpBuilder, TransportBuilder};

use std::net::{Ipv4Addr, Ipv6Addr};

use base::MacAddr;

use crate::numbers::ethertype;
use crate::upper::{Addresses, UpperLayer};
use crate::vlan::Tci;
use crate::{arp, checksum};

/// The start of a packet: an Ethernet header with VLAN tags, or nothing to build only the IP packet.
#[derive(Debug, Clone, Default)]
#[must_use]
pub struct PacketBuilder {
    link: Option<(MacAddr, MacAddr)>,
    tags: Vec<(u16, Tci)>,
}

impl PacketBuilder {
    /// A frame from `src` to `dst`.
    pub fn eth(src: MacAddr, dst: MacAddr) -> Self {
        PacketBuilder { link: Some((src, dst)), tags: Vec::new() }
    }

    /// A packet without an Ethernet header, in the form that ICMP errors quote.
    pub fn bare() -> Self {
        PacketBuilder::default()
    }

    /// Adds an 802.1Q tag inside the previous ones.
    pub fn vlan(self, tci: Tci) -> Self {
        self.tag(ethertype::VLAN, tci)
    }

    /// Adds a tag of type `tpid` inside the previous ones.
    pub fn tag(mut self, tpid: u16, tci: Tci) -> Self {
        self.tags.push((tpid, tci));
        self
    }

    /// An IPv4 packet.
    pub fn ipv4(self, source: Ipv4Addr, destination: Ipv4Addr) -> IpBuilder {
        IpBuilder::new(self, Addresses::V4 { source, destination })
    }

    /// An IPv6 packet.
    pub fn ipv6(self, source: Ipv6Addr, destination: Ipv6Addr) -> IpBuilder {
        IpBuilder::new(self, Addresses::V6 { source, destination })
    }

    /// An ARP request for `target_ip` from the frame's source address.
    pub fn arp_request(self, sender_ip: Ipv4Addr, target_ip: Ipv4Addr) -> Vec<u8> {
        let sender = self.link.unwrap_or_default().0;
        self.arp(arp::REQUEST, (sender, sender_ip), (MacAddr::ZERO, target_ip))
    }

    /// An ARP reply from the frame's source address to its destination address.
    pub fn arp_reply(self, sender_ip: Ipv4Addr, target_ip: Ipv4Addr) -> Vec<u8> {
        let (sender, target) = self.link.unwrap_or_default();
        self.arp(arp::REPLY, (sender, sender_ip), (target, target_ip))
    }

    /// An ARP packet of any operation.
    pub fn arp(
        self,
        operation: u16,
        sender: (MacAddr, Ipv4Addr),
        target: (MacAddr, Ipv4Addr),
    ) -> Vec<u8> {
        let mut body = Vec::with_capacity(arp::HEADER_LEN);
        body.extend(arp::HARDWARE_ETHERNET.to_be_bytes());
        body.extend(ethertype::IPV4.to_be_bytes());
        body.extend([6, 4]);
        body.extend(operation.to_be_bytes());
        for (mac, ip) in [sender, target] {
            body.extend(mac.0);
            body.extend(ip.octets());
        }
        self.raw(ethertype::ARP, &body)
    }

    /// A frame of any type with `body` after the type field.
    pub fn raw(self, ethertype: u16, body: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(14 + self.tags.len() * 4 + body.len());
        if let Some((src, dst)) = self.link {
            bytes.extend(dst.0);
            bytes.extend(src.0);
            for (tpid, tci) in self.tags {
                bytes.extend(tpid.to_be_bytes());
                bytes.extend(tci.0.to_be_bytes());
            }
            bytes.extend(ethertype.to_be_bytes());
        }
        bytes.extend(body);
        bytes
    }
}

/// Computes the checksums of an IP packet (IPv4 header and transport) after its bytes were changed. Returns
/// whether `packet` has both headers.
pub fn fill_checksums(packet: &mut [u8]) -> bool {
    let Ok(upper) = UpperLayer::find(packet) else { return false };
    if let Ok(mut ip) = crate::Ipv4::new_checked(&mut *packet) {
        ip.set_checksum(0);
        let sum = checksum::checksum(ip.header());
        ip.set_checksum(sum);
    }
    upper.fill_checksum(packet)
}
