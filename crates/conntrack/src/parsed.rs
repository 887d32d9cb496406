//! The fields of a packet that connection tracking needs, parsed once.
//!
//! Most packets need no more than a fast parse. Others over IPv4 than TCP and echoes, and whatever the
//! fast parse leaves alone, get the full parse, which knows what is wrong with each.

use crate::extract::Extracted;
use crate::fast_parse::SegmentOrEcho;
use crate::fast_parse_v6::FastParseV6;
use crate::key::Key;
use crate::record::Record;
use crate::sctp::Chunks;
use crate::tcp::Segment;
use flow::Frame;

/// The bits of [`Key::rest`] that a packet determines: ports and protocol, not the zone.
pub(crate) const OF_PACKET: u64 = 0xffff_ffff_0000_ff00;

/// The parsed fields of a packet.
pub(crate) trait Parsed {
    /// Whether the packet is of a connection, in this direction.
    fn is_of(&self, record: &Record<'_>, is_reply: bool) -> bool;

    /// The TCP segment in it.
    fn segment(&self) -> Option<Segment>;

    /// What matters of its SCTP chunks.
    fn chunks(&self) -> Option<Chunks> {
        None
    }
}

/// Receives the parsed packet, in the form that fits it.
pub(crate) trait ParsedVisitor {
    /// `None` did nothing.
    fn visit(self, parsed: &impl Parsed) -> Option<()>;
}

/// Reads a packet of a connection over IPv4, or over IPv6. `None` also where something is wrong with it,
/// and where it only quotes its connection.
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
