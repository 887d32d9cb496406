//! The outer headers of a packet of a known tunnel, parsed with few instructions.

use crate::encapsulate::pseudo;
use flow::TunnelKind;
use wire::checksum::{combine, sum};
use wire::{ethertype, gre, protocol};

/// The number of bytes before the IP header.
const NETWORK: usize = wire::ethernet::HEADER_LEN;
/// The length of the UDP header and the first eight bytes of the tunnel header.
const UDP_AND_WORD: usize = 16;
/// The ones' complement sum of bytes that include their correct checksum (RFC 1071 section 1).
const TO_ALL: u16 = 0xffff;

/// The outer headers before an inner frame. [`read`](Self::read) does not validate them all. A packet belongs
/// to the tunnel if its IP and UDP headers, [`word`](Self::word) and [`options`](Self::options) equal those
/// of a packet that [`decapsulate`](crate::decapsulate()) accepted, and [`is_right`](Self::is_right) returns
/// true.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Envelope<'a> {
    /// The first eight bytes of the tunnel header. For GRE: flags, protocol, and the key or zero.
    pub word: u64,
    /// The options of Geneve.
    pub options: &'a [u8],
    /// Whether UDP has a checksum.
    pub has_checksum: bool,
    /// The number of bytes before the inner frame.
    pub len: usize,
    /// The offset of the end of the inner frame. Padding may follow.
    pub end: usize,
    /// The offset of the transport header.
    transport: usize,
}

impl Envelope<'_> {
    /// Returns the bits of [`word`](Self::word) that are compared if `key` is the mask of the tunnel key: all
    /// bits except those of the key that are wildcarded.
    pub const fn word_mask(kind: TunnelKind, key: u64) -> u64 {
        match kind {
            TunnelKind::Gre | TunnelKind::Ip6Gre => !0xffff_ffff | key & 0xffff_ffff,
            _ => !0xffff_ff00 | (key & 0xff_ffff) << 8,
        }
    }

    /// Parses a frame to a tunnel of this kind, over IPv4 without options or IPv6 without extension headers.
    /// Returns `None` if a length is wrong, and for rare kinds and header forms, which
    /// [`decapsulate`](crate::decapsulate()) handles.
    #[inline]
    pub fn read(kind: TunnelKind, frame: &[u8]) -> Option<Envelope<'_>> {
        let start: &[u8; NETWORK + 20] = frame.first_chunk()?;
        let (transport, end) = if start[12..14] == ethertype::IPV6.to_be_bytes() {
            (NETWORK + 40, NETWORK + 40 + u16_in(start, NETWORK + 4))
        } else {
            (NETWORK + 20, NETWORK + u16_in(start, NETWORK + 2))
        };
        let carried = frame.get(transport..end)?;
        match kind {
            TunnelKind::Vxlan | TunnelKind::Geneve => {
                let head: &[u8; UDP_AND_WORD] = carried.first_chunk()?;
                let [.., a, b, c, d, e, f, g, h] = *head;
                let words = if kind == TunnelKind::Geneve { usize::from(a & 0x3f) } else { 0 };
                let options = UDP_AND_WORD..UDP_AND_WORD + words * 4;
                let (length, len) = (u16_in(head, 4), transport + options.end);
                if length < options.end {
                    return None;
                }
                Some(Envelope {
                    word: u64::from_be_bytes([a, b, c, d, e, f, g, h]),
                    options: carried.get(..length)?.get(options)?,
                    has_checksum: u16_in(head, 6) != 0,
                    len,
                    end: transport + length,
                    transport,
                })
            }
            TunnelKind::Gre | TunnelKind::Ip6Gre => {
                let head: &[u8; 4] = carried.first_chunk()?;
                let flags = u16_in(head, 0) as u16;
                let header_len = gre::header_len(flags);
                if flags & !(gre::FLAG_KEY | gre::FLAG_SEQUENCE) != 0 || carried.len() < header_len
                {
                    return None;
                }
                let has_key = flags & gre::FLAG_KEY != 0;
                let key = carried.get(4..8).filter(|_| has_key).and_then(|it| it.try_into().ok());
                let key = key.map_or(0, u32::from_be_bytes);
                Some(Envelope {
                    word: u64::from(u32::from_be_bytes(*head)) << 32 | u64::from(key),
                    options: &[],
                    has_checksum: false,
                    len: transport + header_len,
                    end,
                    transport,
                })
            }
            _ => None,
        }
    }

    /// Returns whether the checksums of the frame that was parsed are correct. With `trusted`, only the
    /// checksum of the IPv4 header is verified.
    #[inline(always)]
    pub fn is_right(&self, frame: &[u8], trusted: bool) -> bool {
        let is_ipv4 = self.transport == NETWORK + 20;
        if is_ipv4 && frame.get(NETWORK..NETWORK + 20).is_none_or(|it| sum(it) != TO_ALL) {
            return false;
        }
        if trusted || !self.has_checksum {
            return true;
        }
        let Some(datagram) = frame.get(self.transport..self.end) else { return false };
        let pseudo = pseudo(frame, protocol::UDP, datagram.len());
        pseudo.is_some_and(|pseudo| combine(pseudo, sum(datagram)) == TO_ALL)
    }
}

/// The caller ensures that the array is long enough.
#[inline]
fn u16_in<const N: usize>(bytes: &[u8; N], at: usize) -> usize {
    usize::from(u16::from_be_bytes([bytes[at], bytes[at + 1]]))
}
