//! ARP for IPv4 over Ethernet (RFC 826).

use std::net::Ipv4Addr;

use base::MacAddr;

use crate::error::{Header, Malformed};
use crate::numbers::ethertype;
use crate::octets::{array_at, put, put_u16, u8_at, u16_at};

mod field {
    pub const HARDWARE_TYPE: usize = 0;
    pub const PROTOCOL_TYPE: usize = 2;
    pub const HARDWARE_LEN: usize = 4;
    pub const PROTOCOL_LEN: usize = 5;
    pub const OPERATION: usize = 6;
    pub const SENDER_MAC: usize = 8;
    pub const SENDER_IP: usize = 14;
    pub const TARGET_MAC: usize = 18;
    pub const TARGET_IP: usize = 24;
}

/// Bytes of an ARP packet for IPv4 over Ethernet.
pub const HEADER_LEN: usize = 28;
/// The operation of a request.
pub const REQUEST: u16 = 1;
/// The operation of a reply.
pub const REPLY: u16 = 2;
/// Ethernet, as a hardware type.
pub(crate) const HARDWARE_ETHERNET: u16 = 1;

/// Bytes that start with an ARP packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arp<T: AsRef<[u8]>> {
    bytes: T,
}

impl<T: AsRef<[u8]>> Arp<T> {
    /// A view of `bytes`.
    ///
    /// # Errors
    /// Fewer than 28 bytes, or hardware and protocol other than Ethernet and IPv4.
    #[inline]
    pub fn new_checked(bytes: T) -> Result<Self, Malformed> {
        let raw = bytes.as_ref();
        Malformed::unless_holds(Header::Arp, HEADER_LEN, raw.len())?;
        let kind = |at, expected| Malformed::unless_kind(Header::Arp, u16_at(raw, at), expected);
        kind(field::HARDWARE_TYPE, HARDWARE_ETHERNET)?;
        kind(field::PROTOCOL_TYPE, ethertype::IPV4)?;
        let length = |at, is| Malformed::unless_within(Header::Arp, u8_at(raw, at).into(), is, is);
        length(field::HARDWARE_LEN, 6)?;
        length(field::PROTOCOL_LEN, 4)?;
        Ok(Arp { bytes })
    }

    /// The bytes that the view was made of.
    pub fn into_inner(self) -> T {
        self.bytes
    }

    /// [`REQUEST`], [`REPLY`] or another operation.
    pub fn operation(&self) -> u16 {
        u16_at(self.bytes.as_ref(), field::OPERATION)
    }

    /// The sender's Ethernet address (`arp_sha`).
    #[cfg(test)]
    pub(crate) fn sender_mac(&self) -> MacAddr {
        MacAddr(array_at(self.bytes.as_ref(), field::SENDER_MAC))
    }

    /// The sender's IP address (`arp_spa`).
    pub fn sender_ip(&self) -> Ipv4Addr {
        array_at::<4>(self.bytes.as_ref(), field::SENDER_IP).into()
    }

    /// The target's Ethernet address (`arp_tha`), zero in a request.
    #[cfg(test)]
    pub(crate) fn target_mac(&self) -> MacAddr {
        MacAddr(array_at(self.bytes.as_ref(), field::TARGET_MAC))
    }

    /// The target's IP address (`arp_tpa`).
    pub fn target_ip(&self) -> Ipv4Addr {
        array_at::<4>(self.bytes.as_ref(), field::TARGET_IP).into()
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Arp<T> {
    /// Sets the operation.
    pub fn set_operation(&mut self, operation: u16) {
        put_u16(self.bytes.as_mut(), field::OPERATION, operation);
    }

    /// Sets the sender's Ethernet address.
    pub fn set_sender_mac(&mut self, mac: MacAddr) {
        put(self.bytes.as_mut(), field::SENDER_MAC, mac.0);
    }

    /// Sets the sender's IP address.
    pub fn set_sender_ip(&mut self, ip: Ipv4Addr) {
        put(self.bytes.as_mut(), field::SENDER_IP, ip.octets());
    }

    /// Sets the target's Ethernet address.
    pub fn set_target_mac(&mut self, mac: MacAddr) {
        put(self.bytes.as_mut(), field::TARGET_MAC, mac.0);
    }

    /// Sets the target's IP address.
    pub fn set_target_ip(&mut self, ip: Ipv4Addr) {
        put(self.bytes.as_mut(), field::TARGET_IP, ip.octets());
    }
}
