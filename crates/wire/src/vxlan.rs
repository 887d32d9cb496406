//! VXLAN headers (RFC 7348), with the generic protocol extension (draft-ietf-nvo3-vxlan-gpe) and the
//! group policy (draft-smith-vxlan-group-policy).

use crate::error::{Header, Malformed};
use crate::octets::{range, u8_at, u16_at, u32_at};

/// Bytes of the header.
pub const HEADER_LEN: usize = 8;
/// The UDP port assigned by IANA.
pub const PORT: u16 = 4789;
/// The flag that is set if the VNI is valid.
pub const FLAG_VNI: u32 = 0x0800_0000;
/// The eight bytes of a header with only [`FLAG_VNI`] and a VNI of zero (RFC 7348 section 5).
pub const VNI_ALONE: u64 = (FLAG_VNI as u64) << 32;
/// The bits of the VNI in the eight bytes of a header.
pub const VNI_MASK: u64 = 0xffff_ff00;
/// The flag of the group policy extension.
pub const FLAG_GROUP_POLICY: u32 = 0x8000_0000;
/// The flag of the generic protocol extension.
pub const FLAG_GPE: u32 = 0x0400_0000;
/// The flag of OAM packets in the generic protocol extension.
pub const FLAG_OAM: u32 = 0x0100_0000;
/// The bits that the generic protocol extension adds: version, P, B and O, and the next protocol
/// (ovs: `lib/packets.h`, `VXLAN_GPE_USED_BITS`).
const GPE_BITS: u32 = 0x3000_0000 | FLAG_GPE | 0x0300_0000 | 0xff;
/// The bits that the group policy extension adds: G, D, A and the group.
const GROUP_POLICY_BITS: u32 = FLAG_GROUP_POLICY | 0x0048_0000 | 0xffff;

/// Bytes that start with a VXLAN header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Vxlan<T: AsRef<[u8]>> {
    bytes: T,
}

impl<T: AsRef<[u8]>> Vxlan<T> {
    /// A view of `bytes`.
    ///
    /// # Errors
    /// Fewer than 8 bytes, no VNI flag, or a flag or reserved byte that no extension defines.
    #[inline]
    pub fn new_checked(bytes: T) -> Result<Self, Malformed> {
        let raw = bytes.as_ref();
        Malformed::unless_holds(Header::Vxlan, HEADER_LEN, raw.len())?;
        let view = Vxlan { bytes };
        let extension = match view.flags() {
            flags if flags & FLAG_GPE != 0 => GPE_BITS,
            flags if flags & FLAG_GROUP_POLICY != 0 => GROUP_POLICY_BITS,
            _ => 0,
        };
        let left = view.flags() & !extension;
        let expected = (FLAG_VNI >> 16) as u16;
        Malformed::unless_kind(Header::Vxlan, (left >> 16) as u16, expected)?;
        Malformed::unless_kind(Header::Vxlan, left as u16, 0)?;
        Malformed::unless_kind(Header::Vxlan, u8_at(view.bytes.as_ref(), 7).into(), 0)?;
        Ok(view)
    }

    /// The first word: flags and the fields of extensions.
    pub fn flags(&self) -> u32 {
        u32_at(self.bytes.as_ref(), 0)
    }

    /// The virtual network identifier, 24 bits.
    pub fn vni(&self) -> u32 {
        u32_at(self.bytes.as_ref(), 4) >> 8
    }

    /// The next protocol, if the packet has the generic protocol extension: 1 IPv4, 2 IPv6, 3 Ethernet, 4
    /// NSH.
    pub fn next_protocol(&self) -> Option<u8> {
        (self.flags() & FLAG_GPE != 0).then(|| u8_at(self.bytes.as_ref(), 3))
    }

    /// The flags (D 0x40, A 0x08) and the group of the group policy, if the packet has one.
    pub fn group_policy(&self) -> Option<(u8, u16)> {
        let is_there = self.flags() & FLAG_GROUP_POLICY != 0 && self.next_protocol().is_none();
        let raw = self.bytes.as_ref();
        is_there.then(|| (u8_at(raw, 1) & 0x48, u16_at(raw, 2)))
    }

    /// The bytes after the header: the encapsulated packet.
    pub fn payload(&self) -> &[u8] {
        let bytes = self.bytes.as_ref();
        range(bytes, HEADER_LEN, bytes.len())
    }
}

/// Returns a header with this flags word and VNI.
pub const fn header(flags: u32, vni: u32) -> [u8; HEADER_LEN] {
    let (f, v) = (flags.to_be_bytes(), (vni << 8).to_be_bytes());
    [f[0], f[1], f[2], f[3], v[0], v[1], v[2], v[3]]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The next protocol, and the group policy.
    type Extension = (Option<u8>, Option<(u8, u16)>);

    fn check(flags: u32, last: u8, expect: Option<Extension>) {
        let mut bytes = header(flags, 0x12_3456);
        bytes[7] = last;
        let view = Vxlan::new_checked(bytes).ok();
        if let Some(view) = &view {
            assert_eq!(view.vni(), 0x12_3456);
        }
        let found = view.map(|view| (view.next_protocol(), view.group_policy()));
        assert_eq!(found, expect, "{flags:#x} {last}");
    }

    #[test]
    fn flags_say_which_extension_there_is() {
        check(FLAG_VNI, 0, Some((None, None)));
        check(FLAG_VNI, 1, None);
        check(0, 0, None);
        check(FLAG_VNI | 1, 0, None);
        check(FLAG_VNI | FLAG_GPE | 3, 0, Some((Some(3), None)));
        check(FLAG_VNI | FLAG_GROUP_POLICY | 0x0048_0101, 0, Some((None, Some((0x48, 0x101)))));
        check(FLAG_VNI | FLAG_GROUP_POLICY | 0x0010_0000, 0, None);
        check(FLAG_VNI | FLAG_GPE | FLAG_GROUP_POLICY, 0, None);
        assert!(Vxlan::new_checked([8, 0, 0, 0, 0, 0, 0]).is_err());
    }
}
