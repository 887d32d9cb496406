//! Ethernet II and 802.3 headers.

use base::MacAddr;

use crate::error::{Header, Malformed};
use crate::numbers::ethertype;
use crate::octets::{array_at, put, range, u16_at};

mod field {
    pub const DESTINATION: usize = 0;
    pub const SOURCE: usize = 6;
    pub const TYPE: usize = 12;
}

/// Bytes of the header.
pub const HEADER_LEN: usize = 14;
/// Bytes of an LLC and SNAP header together.
const LLC_SNAP_LEN: usize = 8;

/// A frame that starts with an Ethernet header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ethernet<T: AsRef<[u8]>> {
    bytes: T,
}

impl<T: AsRef<[u8]>> Ethernet<T> {
    /// A view of `bytes`.
    ///
    /// # Errors
    /// Fewer than 14 bytes.
    #[inline]
    pub fn new_checked(bytes: T) -> Result<Self, Malformed> {
        Malformed::unless_holds(Header::Ethernet, HEADER_LEN, bytes.as_ref().len())?;
        Ok(Ethernet { bytes })
    }

    /// The bytes that the view was made of.
    pub fn into_inner(self) -> T {
        self.bytes
    }

    /// The destination address.
    pub fn destination(&self) -> MacAddr {
        MacAddr(array_at(self.bytes.as_ref(), field::DESTINATION))
    }

    /// The source address.
    pub fn source(&self) -> MacAddr {
        MacAddr(array_at(self.bytes.as_ref(), field::SOURCE))
    }

    /// The type field. A value below [`ethertype::MIN`] is a length.
    pub fn ethertype(&self) -> u16 {
        u16_at(self.bytes.as_ref(), field::TYPE)
    }

    /// What follows the type field.
    pub fn payload(&self) -> &[u8] {
        let bytes = self.bytes.as_ref();
        range(bytes, HEADER_LEN, bytes.len())
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Ethernet<T> {
    /// Sets the destination address.
    pub fn set_destination(&mut self, mac: MacAddr) {
        put(self.bytes.as_mut(), field::DESTINATION, mac.0);
    }

    /// Sets the source address.
    pub fn set_source(&mut self, mac: MacAddr) {
        put(self.bytes.as_mut(), field::SOURCE, mac.0);
    }
}

/// Returns the Ethernet type of a frame, and the number of bytes of `rest` (the bytes after the type field)
/// before its payload.
///
/// For an 802.3 length it is the type of the SNAP header that follows, or [`ethertype::NONE`] if there is
/// none (ovs: `lib/flow.c`, `parse_ethertype`).
pub fn resolve_type(type_field: u16, rest: &[u8]) -> (u16, usize) {
    if type_field >= ethertype::MIN {
        return (type_field, 0);
    }
    // LLC 'aa aa 03' means that a SNAP header follows; with OUI 0 it contains an Ethernet type.
    let snap = rest.starts_with(&[0xaa, 0xaa, 0x03, 0, 0, 0]) && rest.len() >= LLC_SNAP_LEN;
    if !snap {
        return (ethertype::NONE, 0);
    }
    match u16_at(rest, 6) {
        found if found >= ethertype::MIN => (found, LLC_SNAP_LEN),
        _ => (ethertype::NONE, LLC_SNAP_LEN),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_resolve_to_snap_types() {
        let snap = [0xaa, 0xaa, 0x03, 0, 0, 0, 0x08, 0x06];
        assert_eq!(resolve_type(0x0800, &[]), (0x0800, 0));
        assert_eq!(resolve_type(60, &snap), (ethertype::ARP, 8));
        assert_eq!(resolve_type(60, &snap[..7]), (ethertype::NONE, 0));
        assert_eq!(resolve_type(60, &[0x42, 0x42, 3]), (ethertype::NONE, 0));
    }
}
