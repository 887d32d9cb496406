//! What a packet says of itself, read once for all connections that it may be of.
//!
//! Most packets need no more than a short look. What is over IPv4 and none of TCP nor an echo, and
//! whatever a short look leaves alone, gets the whole reading, which knows what is wrong with each.

use crate::extract::Reading;
use crate::fast_parse::SegmentOrEcho;
use crate::fast_parse_v6::FastParseV6;
use crate::key::Key;
use crate::record::Record;
use crate::sctp::Chunks;
use crate::tcp::Segment;
use flow::Frame;

/// What of a key's last word a packet says itself: its ports and its protocol, not the zone.
pub(crate) const OF_PACKET: u64 = 0xffff_ffff_0000_ff00;

/// What a packet says of itself.
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

/// What is done with a packet that was read.
pub(crate) trait Listen {
    /// `None` did nothing.
    fn hear(self, said: &impl Parsed) -> Option<()>;
}

/// Reads a packet of a connection over IPv4, or over IPv6. `None` also where something is wrong with it,
/// and where it only quotes its connection.
#[inline(always)]
pub(crate) fn read(frame: &Frame, is_v4: bool, listener: impl Listen) -> Option<()> {
    if is_v4 {
        if let Some(said) = SegmentOrEcho::of(frame) {
            return listener.hear(&said);
        }
    } else if let Some(said) = FastParseV6::of(frame) {
        return listener.hear(&said);
    }
    listener.hear(&read_whole(frame)?)
}

#[inline(never)]
fn read_whole(frame: &Frame) -> Option<Reading> {
    Reading::of(frame, 0).ok().filter(|it| !it.related)
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

impl Parsed for Reading {
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
