//! The VLAN tag that the kernel removes from a received frame and passes in auxiliary data.

use packet::Packet;
use wire::ethertype;

const STATUS_VLAN_VALID: u32 = libc::TP_STATUS_VLAN_VALID;
const STATUS_VLAN_TPID_VALID: u32 = libc::TP_STATUS_VLAN_TPID_VALID;
/// Offset of the tag in a frame, after the two addresses.
const TAG_OFFSET: usize = 12;
pub(super) const TAG_BYTES: usize = 4;
const TPID_CUSTOMER: u16 = ethertype::VLAN;

/// A VLAN tag: its type, and its priority, drop and id bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Tag {
    tpid: u16,
    tci: u16,
}

impl Tag {
    /// Returns the tag in the control messages of one received frame, if the frame had one.
    pub(super) fn in_control(mut control: &[u8]) -> Option<Tag> {
        let header_bytes = align(size_of::<libc::cmsghdr>());
        while control.len() >= header_bytes {
            // struct cmsghdr: length (all of it), level, type.
            let (length, rest) = control.split_first_chunk::<{ size_of::<usize>() }>()?;
            let length = usize::from_ne_bytes(*length);
            let level = i32::from_ne_bytes(*rest.first_chunk()?);
            let kind = i32::from_ne_bytes(*rest.get(4..)?.first_chunk()?);
            let data = control.get(header_bytes..length)?;
            if level == libc::SOL_PACKET && kind == libc::PACKET_AUXDATA {
                return Tag::in_auxdata(data);
            }
            control = control.get(align(length)..)?;
        }
        None
    }

    /// struct tpacket_auxdata: status, length, captured length (32 bits each), MAC offset,
    /// network offset, TCI, TPID (16 bits each).
    fn in_auxdata(data: &[u8]) -> Option<Tag> {
        let status = u32::from_ne_bytes(*data.first_chunk()?);
        let tci = u16::from_ne_bytes(*data.get(16..)?.first_chunk()?);
        let tpid = u16::from_ne_bytes(*data.get(18..)?.first_chunk()?);
        if status & STATUS_VLAN_VALID == 0 {
            return None;
        }
        let known = status & STATUS_VLAN_TPID_VALID != 0;
        Some(Tag { tpid: if known { tpid } else { TPID_CUSTOMER }, tci })
    }

    /// Restores the tag in the frame from which it was removed. Returns false if the frame is too short to have
    /// had a tag.
    #[must_use]
    pub(super) fn put_back(self, packet: &mut Packet) -> bool {
        if !packet.insert(TAG_OFFSET, TAG_BYTES) {
            return false;
        }
        let tag = &mut packet.data_mut()[TAG_OFFSET..TAG_OFFSET + TAG_BYTES];
        tag[..2].copy_from_slice(&self.tpid.to_be_bytes());
        tag[2..].copy_from_slice(&self.tci.to_be_bytes());
        true
    }

    /// Returns whether another tag stands behind the first one of a frame.
    pub(super) fn is_followed(packet: &Packet) -> bool {
        let next = packet.data().get(TAG_OFFSET + TAG_BYTES..).and_then(|rest| rest.first_chunk());
        next.is_some_and(|next| {
            matches!(u16::from_be_bytes(*next), ethertype::VLAN | ethertype::SERVICE_VLAN)
        })
    }
}

/// Aligns a length to a machine word, as control messages are (Linux: `CMSG_ALIGN`).
fn align(length: usize) -> usize {
    length.saturating_add(size_of::<usize>() - 1) & !(size_of::<usize>() - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(level: i32, kind: i32, data: &[u8]) -> Vec<u8> {
        let header = align(size_of::<libc::cmsghdr>());
        let mut out = (header + data.len()).to_ne_bytes().to_vec();
        out.extend([level.to_ne_bytes(), kind.to_ne_bytes()].concat());
        out.resize(header, 0);
        out.extend(data);
        out.resize(align(out.len()), 0);
        out
    }

    fn auxdata(status: u32, tci: u16, tpid: u16) -> Vec<u8> {
        let mut out = status.to_ne_bytes().to_vec();
        out.resize(16, 0);
        out.extend([tci.to_ne_bytes(), tpid.to_ne_bytes()].concat());
        out
    }

    #[test]
    fn the_tag_is_found_among_control_messages() {
        let both = STATUS_VLAN_VALID | STATUS_VLAN_TPID_VALID;
        let aux = |data: Vec<u8>| message(libc::SOL_PACKET, libc::PACKET_AUXDATA, &data);
        let other = message(libc::SOL_SOCKET, 29, &[1; 13]);
        let service = Some(Tag { tpid: 0x88a8, tci: 0x2005 });
        let cases: [(Vec<u8>, Option<Tag>); 7] = [
            (vec![], None),
            (aux(auxdata(both, 0x2005, 0x88a8)), service),
            ([other.clone(), aux(auxdata(both, 0x2005, 0x88a8))].concat(), service),
            // Old kernels do not report the type.
            (aux(auxdata(STATUS_VLAN_VALID, 7, 0)), Some(Tag { tpid: 0x8100, tci: 7 })),
            // Priority-tagged: VLAN 0 also has a tag.
            (aux(auxdata(both, 0, 0x8100)), Some(Tag { tpid: 0x8100, tci: 0 })),
            (aux(auxdata(1, 0x2005, 0x88a8)), None),
            (other, None),
        ];
        for (control, expect) in cases {
            assert_eq!(Tag::in_control(&control), expect, "{control:?}");
            for len in 0..control.len() {
                let _ = Tag::in_control(&control[..len]);
            }
        }
        assert_eq!(Tag::in_control(&[0; 64]), None, "a length of zero must not loop");
        assert_eq!(Tag::in_control(&[0xff; 64]), None);
    }

    #[test]
    fn a_second_tag_is_found_behind_the_first() {
        for (ethertype, expect) in [(0x8100u16, true), (0x88a8, true), (0x0800, false)] {
            let mut bytes = [0; 60];
            bytes[12..14].copy_from_slice(&ethertype.to_be_bytes());
            let mut packet = Packet::from_bytes(&bytes);
            assert!(Tag { tpid: 0x8100, tci: 5 }.put_back(&mut packet));
            assert_eq!(Tag::is_followed(&packet), expect, "{ethertype:x}");
            for len in 0..18 {
                assert!(!Tag::is_followed(&Packet::from_bytes(&packet.data()[..len])));
            }
        }
    }

    #[test]
    fn it_is_put_back_where_it_was() {
        let mut packet = Packet::from_bytes(&(0..60).collect::<Vec<u8>>());
        assert!(Tag { tpid: 0x8100, tci: 0x2005 }.put_back(&mut packet));
        assert_eq!(packet.data()[10..18], [10, 11, 0x81, 0, 0x20, 5, 12, 13]);
        assert!(!Tag { tpid: 0x8100, tci: 1 }.put_back(&mut Packet::from_bytes(&[0; 11])));
    }
}
