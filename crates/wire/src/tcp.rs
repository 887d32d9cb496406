//! TCP headers and options (RFC 9293, RFC 7323, RFC 2018).

use std::fmt;
use std::ops::{BitOr, BitOrAssign};

use crate::error::{Header, Malformed};
use crate::octets::{put_u32, range, u8_at, u16_at, u32_at};
use crate::view::transport_view;

pub(crate) mod field {
    pub use crate::view::port_field::*;

    pub const SEQ: usize = 4;
    pub const ACK: usize = 8;
    pub const OFFSET_FLAGS: usize = 12;
    pub const WINDOW: usize = 14;
    pub const CHECKSUM: usize = 16;
}

/// Bytes of a header without options.
pub const HEADER_LEN: usize = 20;

/// The control bits: twelve bits as in flow keys, of which three are reserved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct TcpFlags(pub u16);

impl TcpFlags {
    /// No bit.
    pub const NONE: TcpFlags = TcpFlags(0);
    /// No more data from the sender.
    pub const FIN: TcpFlags = TcpFlags(0x001);
    /// Synchronise sequence numbers.
    pub const SYN: TcpFlags = TcpFlags(0x002);
    /// Reset the connection.
    pub const RST: TcpFlags = TcpFlags(0x004);
    /// Push.
    pub const PSH: TcpFlags = TcpFlags(0x008);
    /// The acknowledgement number is valid.
    pub const ACK: TcpFlags = TcpFlags(0x010);
    /// The urgent pointer is valid.
    pub const URG: TcpFlags = TcpFlags(0x020);
    /// Congestion was experienced.
    pub const ECE: TcpFlags = TcpFlags(0x040);
    /// The congestion window was reduced.
    pub const CWR: TcpFlags = TcpFlags(0x080);
    /// All twelve bits.
    pub const MASK: u16 = 0x0fff;

    /// Each named bit with its letter in the text form.
    pub(crate) const LETTERS: [(TcpFlags, char); 8] = [
        (Self::SYN, 'S'),
        (Self::FIN, 'F'),
        (Self::RST, 'R'),
        (Self::PSH, 'P'),
        (Self::URG, 'U'),
        (Self::ECE, 'E'),
        (Self::CWR, 'W'),
        (Self::ACK, 'A'),
    ];

    /// Whether all bits of `other` are set.
    pub const fn contains(self, other: TcpFlags) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether any bit of `other` is set.
    pub const fn intersects(self, other: TcpFlags) -> bool {
        self.0 & other.0 != 0
    }
}

impl BitOr for TcpFlags {
    type Output = TcpFlags;

    fn bitor(self, other: TcpFlags) -> TcpFlags {
        TcpFlags(self.0 | other.0)
    }
}

impl BitOrAssign for TcpFlags {
    fn bitor_assign(&mut self, other: TcpFlags) {
        self.0 |= other.0;
    }
}

/// Prints the letters of the text form, such as `SA`, or `-` for none. Reserved bits are not printed.
impl fmt::Display for TcpFlags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text: String =
            Self::LETTERS.iter().filter(|(flag, _)| self.contains(*flag)).map(|l| l.1).collect();
        f.write_str(if text.is_empty() { "-" } else { &text })
    }
}

/// Bytes that start with a TCP header and end with the segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tcp<T: AsRef<[u8]>> {
    bytes: T,
}

transport_view!(Tcp);

impl<T: AsRef<[u8]>> Tcp<T> {
    /// A view of `bytes`.
    ///
    /// # Errors
    /// Too short, or a data offset that is below five words or exceeds the bytes.
    #[inline]
    pub fn new_checked(bytes: T) -> Result<Self, Malformed> {
        let raw = bytes.as_ref();
        Malformed::unless_holds(Header::Tcp, HEADER_LEN, raw.len())?;
        Malformed::unless_within(Header::Tcp, header_len(raw), HEADER_LEN, raw.len())?;
        Ok(Tcp { bytes })
    }

    /// The sequence number of the first byte of the payload.
    pub fn seq(&self) -> u32 {
        u32_at(self.bytes.as_ref(), field::SEQ)
    }

    /// The next sequence number expected from the peer.
    pub fn ack(&self) -> u32 {
        u32_at(self.bytes.as_ref(), field::ACK)
    }

    /// Bytes of the header with its options, 20 to 60.
    pub fn header_len(&self) -> usize {
        header_len(self.bytes.as_ref())
    }

    /// The control bits.
    pub fn flags(&self) -> TcpFlags {
        TcpFlags(u16_at(self.bytes.as_ref(), field::OFFSET_FLAGS) & TcpFlags::MASK)
    }

    /// The window, unscaled.
    pub fn window(&self) -> u16 {
        u16_at(self.bytes.as_ref(), field::WINDOW)
    }

    /// The checksum in the packet.
    pub fn checksum(&self) -> u16 {
        u16_at(self.bytes.as_ref(), field::CHECKSUM)
    }

    /// Returns the options, up to the first malformed one.
    pub fn options(&self) -> TcpOptions<'_> {
        TcpOptions { rest: range(self.bytes.as_ref(), HEADER_LEN, self.header_len()) }
    }

    /// The shift of the window scale option, as in the packet (RFC 7323 section 2.3 limits it to 14).
    pub fn window_scale(&self) -> Option<u8> {
        self.options().find_map(|option| match option {
            TcpOption::WindowScale(shift) => Some(shift),
            _ => None,
        })
    }

    /// What follows the header.
    pub fn payload(&self) -> &[u8] {
        let bytes = self.bytes.as_ref();
        range(bytes, self.header_len(), bytes.len())
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Tcp<T> {
    /// Sets the sequence number.
    pub fn set_seq(&mut self, seq: u32) {
        put_u32(self.bytes.as_mut(), field::SEQ, seq);
    }

    /// Sets the acknowledgement number.
    pub fn set_ack(&mut self, ack: u32) {
        put_u32(self.bytes.as_mut(), field::ACK, ack);
    }
}

fn header_len(raw: &[u8]) -> usize {
    usize::from(u8_at(raw, field::OFFSET_FLAGS) >> 4) * 4
}

/// A TCP option; padding is skipped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TcpOption<'a> {
    /// The largest segment that the sender accepts, in bytes.
    MaxSegmentSize(u16),
    /// The shift of the sender's windows.
    WindowScale(u8),
    /// The sender supports selective acknowledgements.
    SackPermitted,
    /// Selective acknowledgements: pairs of 32-bit edges.
    Sack(&'a [u8]),
    /// Timestamps.
    Timestamps {
        /// The sender's clock.
        value: u32,
        /// The peer's clock, echoed.
        echo: u32,
    },
    /// Any other option, or a known one with an unexpected length.
    Other {
        /// The kind.
        kind: u8,
        /// The bytes after kind and length.
        data: &'a [u8],
    },
}

/// Iterates over TCP options; see [`Tcp::options`].
#[derive(Debug, Clone)]
pub struct TcpOptions<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for TcpOptions<'a> {
    type Item = TcpOption<'a>;

    fn next(&mut self) -> Option<TcpOption<'a>> {
        const END: u8 = 0;
        const NO_OPERATION: u8 = 1;
        loop {
            let (&kind, after) = self.rest.split_first()?;
            match kind {
                END => break,
                NO_OPERATION => self.rest = after,
                _ => {
                    let len = usize::from(u8_at(after, 0));
                    let Some(data) = self.rest.get(2..len) else { break };
                    self.rest = range(self.rest, len, self.rest.len());
                    return Some(option(kind, data));
                }
            }
        }
        self.rest = &[];
        None
    }
}

fn option(kind: u8, data: &[u8]) -> TcpOption<'_> {
    match (kind, data.len()) {
        (2, 2) => TcpOption::MaxSegmentSize(u16_at(data, 0)),
        (3, 1) => TcpOption::WindowScale(u8_at(data, 0)),
        (4, 0) => TcpOption::SackPermitted,
        (5, _) => TcpOption::Sack(data),
        (8, 8) => TcpOption::Timestamps { value: u32_at(data, 0), echo: u32_at(data, 4) },
        _ => TcpOption::Other { kind, data },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options() {
        use TcpOption::{MaxSegmentSize, Other, SackPermitted, Timestamps, WindowScale};
        let cases: &[(&[u8], &[TcpOption<'_>])] = &[
            (&[], &[]),
            (&[1, 1, 0, 3], &[]),
            (
                &[2, 4, 5, 0xb4, 1, 3, 3, 7, 4, 2],
                &[MaxSegmentSize(1460), WindowScale(7), SackPermitted],
            ),
            (&[8, 10, 0, 0, 0, 1, 0, 0, 0, 2], &[Timestamps { value: 1, echo: 2 }]),
            (&[3, 4, 1, 2], &[Other { kind: 3, data: &[1, 2] }]),
            // A length of zero or one, or one that exceeds the bytes, ends the iteration.
            (&[4, 2, 2, 0, 4, 2], &[SackPermitted]),
            (&[2, 1], &[]),
            (&[2, 4, 5], &[]),
            (&[2], &[]),
        ];
        for (bytes, expect) in cases {
            assert_eq!(TcpOptions { rest: bytes }.collect::<Vec<_>>(), *expect, "{bytes:?}");
        }
    }

    #[test]
    fn data_offset_is_checked() {
        for (offset, good) in [(0, false), (4, false), (5, true), (6, true), (7, false)] {
            let mut bytes = [0u8; 24];
            bytes[12] = offset << 4;
            assert_eq!(Tcp::new_checked(bytes).is_ok(), good, "{offset}");
        }
        assert!(Tcp::new_checked([0x50u8; 19]).is_err());
    }
}
