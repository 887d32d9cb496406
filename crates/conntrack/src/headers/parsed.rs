//! The fields of a packet that connection tracking needs, parsed once.
//!
//! The fast parse suffices for TCP, UDP and echoes. Other packets, and those that it rejects, get
//! the full parse, which finds what is wrong with a malformed one.

use crate::headers::extract::Extracted;
use crate::headers::fast_parse::SegmentOrEcho;
use crate::headers::fast_parse_v6::FastParseV6;
use crate::key::Key;
use crate::protocols::sctp::Chunks;
use crate::protocols::tcp::Segment;
use crate::record::Record;
use flow::Frame;

/// The bits of [`Key::rest`] that the packet determines: ports and protocol, not the zone.
pub(crate) const OF_PACKET: u64 = 0xffff_ffff_0000_ff00;

/// The parsed fields of a packet.
pub(crate) trait Parsed {
    /// Whether the packet is of this connection in this direction.
    fn is_of(&self, record: &Record<'_>, is_reply: bool) -> bool;

    /// The TCP segment, if the packet is TCP.
    fn segment(&self) -> Option<Segment>;

    /// The SCTP chunks that change an association, if the packet is SCTP.
    fn chunks(&self) -> Option<Chunks> {
        None
    }
}

/// Receives the parsed packet in the form that the parser used.
pub(crate) trait ParsedVisitor {
    /// Returns `None` if nothing was done.
    fn visit(self, parsed: &impl Parsed) -> Option<()>;
}

/// Parses a packet over IPv4 or IPv6. Returns `None` as well if the packet is invalid or an ICMP
/// error.
#[inline(always)]
pub(crate) fn read(frame: &Frame, is_v4: bool, visitor: impl ParsedVisitor) -> Option<()> {
    if is_v4 {
        if let Some(parsed) = SegmentOrEcho::of(frame) {
            return visitor.visit(&parsed);
        }
    } else if let Some(parsed) = FastParseV6::of(frame) {
        return visitor.visit(&parsed);
    }
    visitor.visit(&read_whole(frame)?)
}

#[inline(never)]
fn read_whole(frame: &Frame) -> Option<Extracted> {
    Extracted::of(frame, 0).ok().filter(|it| !it.related)
}

impl Parsed for SegmentOrEcho {
    #[inline(always)]
    fn is_of(&self, record: &Record<'_>, is_reply: bool) -> bool {
        let (addresses, rest) = record.key_v4(is_reply);
        (addresses ^ self.addresses) | (rest ^ self.rest) & OF_PACKET == 0
    }

    #[inline(always)]
    fn segment(&self) -> Option<Segment> {
        self.segment
    }
}

impl Parsed for FastParseV6 {
    #[inline(always)]
    fn is_of(&self, record: &Record<'_>, is_reply: bool) -> bool {
        self.direction(record, record.zone()) == Some(is_reply)
    }

    #[inline(always)]
    fn segment(&self) -> Option<Segment> {
        self.tcp_segment()
    }
}

impl Parsed for Extracted {
    fn is_of(&self, record: &Record<'_>, is_reply: bool) -> bool {
        let key = Key { zone: record.zone(), ..self.key };
        record.direction(&key) == Some(is_reply)
    }

    fn segment(&self) -> Option<Segment> {
        self.segment
    }

    fn chunks(&self) -> Option<Chunks> {
        self.chunks
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::record::WORDS_V4;
    use table::atomic::{AtomicU64, Ordering};

    #[test]
    fn a_packet_is_of_the_connection_whose_addresses_ports_and_protocol_are_its_own() {
        let (addresses, rest) = (0x0a00_0001_0a00_0002, 0x03e8_0050_0005_0600);
        let words: [AtomicU64; WORDS_V4] = std::array::from_fn(|_| AtomicU64::new(0));
        words[0].store(addresses, Ordering::Relaxed);
        words[1].store(rest, Ordering::Relaxed);
        let record = Record::v4(&words);
        for (other_addresses, other_rest, expect) in [
            (0, 0, true),
            // The zone is not the packet's.
            (0, 7 << 16, true),
            (1 << 40, 0, false),
            (0, 1 << 40, false),
            // Differences that are alike do not cancel out.
            (1 << 40, 1 << 40, false),
        ] {
            let (addresses, rest) = (addresses ^ other_addresses, rest ^ other_rest);
            let packet = SegmentOrEcho { addresses, rest, segment: None };
            assert_eq!(packet.is_of(&record, false), expect, "{addresses:x} {rest:x}");
        }
    }
}
