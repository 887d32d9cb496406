//! VLAN tags (IEEE 802.1Q and 802.1ad).

use crate::error::{Header, Malformed};
use crate::octets::{range, u16_at};

mod field {
    pub const TCI: usize = 0;
    pub const TYPE: usize = 2;
}

/// Bytes of a tag after its type field: the TCI and the next type.
pub const HEADER_LEN: usize = 4;

/// The control information of a tag: priority, drop-eligible bit, VLAN id.
///
/// The drop-eligible bit (CFI) has its meaning of the standard here. In flow keys, the same bit is set if
/// there is a tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, PartialOrd, Ord)]
pub struct Tci(pub u16);

impl Tci {
    /// The bits of the VLAN id.
    pub const VID_MASK: u16 = 0x0fff;
    /// The bits of the priority.
    pub const PCP_MASK: u16 = 0xe000;
    /// The shift of the priority.
    pub const PCP_SHIFT: u32 = 13;

    /// VLAN `vid` (low 12 bits) with priority `pcp` (low 3 bits).
    pub const fn new(vid: u16, pcp: u8) -> Self {
        Tci((vid & Self::VID_MASK) | ((pcp as u16) << Self::PCP_SHIFT))
    }

    /// The VLAN id, 0 to 4095.
    pub const fn vid(self) -> u16 {
        self.0 & Self::VID_MASK
    }

    /// The priority, 0 to 7.
    pub const fn pcp(self) -> u8 {
        (self.0 >> Self::PCP_SHIFT) as u8
    }
}

/// Bytes that start with the TCI of a tag: the payload of a frame of type 0x8100 or 0x88a8.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Vlan<T: AsRef<[u8]>> {
    bytes: T,
}

impl<T: AsRef<[u8]>> Vlan<T> {
    /// A view of `bytes`.
    ///
    /// # Errors
    /// Fewer than 4 bytes.
    #[inline]
    pub fn new_checked(bytes: T) -> Result<Self, Malformed> {
        Malformed::unless_holds(Header::Vlan, HEADER_LEN, bytes.as_ref().len())?;
        Ok(Vlan { bytes })
    }

    /// The bytes that the view was made of.
    pub fn into_inner(self) -> T {
        self.bytes
    }

    /// The control information.
    pub fn tci(&self) -> Tci {
        Tci(u16_at(self.bytes.as_ref(), field::TCI))
    }

    /// The Ethernet type after the tag.
    pub fn ethertype(&self) -> u16 {
        u16_at(self.bytes.as_ref(), field::TYPE)
    }

    /// The bytes after the tag.
    pub fn payload(&self) -> &[u8] {
        let bytes = self.bytes.as_ref();
        range(bytes, HEADER_LEN, bytes.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tci_parts() {
        let tci = Tci::new(0x123, 5);
        assert_eq!((tci.vid(), tci.pcp(), tci.0), (0x123, 5, 0xa123));
    }
}
