//! SCTP: the state of an association, and whether a packet belongs to it (RFC 9260).
//!
//! The states are those that Linux shows (Linux: `nf_conntrack_proto_sctp.c`). A packet must carry
//! its association's verification tag (section 8.5): each side says in its INIT or INIT ACK which
//! tag the other side's packets must carry. Tags count only once a COOKIE ECHO carries them, so
//! that a forged INIT cannot break an association. Open vSwitch 3.1 has no state machine for SCTP
//! and does not check ports, tags or chunks.

use crate::counters::{Counters, Event};
use crate::protocols::tcp::Update;
use crate::timeout::Timeout;
use std::fmt;
use wire::Sctp;
use wire::sctp::chunk;

/// The state of an association.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum SctpState {
    /// An INIT was seen.
    InitSent,
    /// The INIT ACK was seen.
    CookieWait,
    /// The COOKIE ECHO was seen.
    CookieEchoed,
    /// The COOKIE ACK was seen, or packets of both sides.
    Established,
    /// The side that began sent SHUTDOWN.
    ShutdownSent,
    /// The other side sent SHUTDOWN.
    ShutdownReceived,
    /// The SHUTDOWN ACK was seen.
    ShutdownAckSent,
    /// The association was picked up without its handshake, and only one side was seen.
    PickedUp,
    /// It ended.
    Closed,
}

impl fmt::Display for SctpState {
    /// As [`SctpState::name`].
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl SctpState {
    /// All states, in order.
    pub const ALL: [SctpState; 9] = [
        SctpState::InitSent,
        SctpState::CookieWait,
        SctpState::CookieEchoed,
        SctpState::Established,
        SctpState::ShutdownSent,
        SctpState::ShutdownReceived,
        SctpState::ShutdownAckSent,
        SctpState::PickedUp,
        SctpState::Closed,
    ];

    /// The name in dumps (ovs: `lib/ct-dpif.h`).
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            SctpState::InitSent | SctpState::Closed => "CLOSED",
            SctpState::CookieWait => "COOKIE_WAIT",
            SctpState::CookieEchoed => "COOKIE_ECHOED",
            SctpState::Established => "ESTABLISHED",
            SctpState::ShutdownSent => "SHUTDOWN_SENT",
            SctpState::ShutdownReceived => "SHUTDOWN_RECD",
            SctpState::ShutdownAckSent => "SHUTDOWN_ACK_SENT",
            SctpState::PickedUp => "HEARTBEAT_SENT",
        }
    }

    fn timeout(self) -> Timeout {
        match self {
            SctpState::InitSent | SctpState::Closed => Timeout::SctpClosed,
            SctpState::CookieWait => Timeout::SctpCookieWait,
            SctpState::CookieEchoed => Timeout::SctpCookieEchoed,
            SctpState::Established => Timeout::SctpEstablished,
            SctpState::ShutdownSent => Timeout::SctpShutdownSent,
            SctpState::ShutdownReceived => Timeout::SctpShutdownRecd,
            SctpState::ShutdownAckSent => Timeout::SctpShutdownAckSent,
            SctpState::PickedUp => Timeout::SctpHeartbeatSent,
        }
    }
}

/// An association's state and tags. Tags are by the direction whose packets carry them, the
/// original one first; 0 is unknown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Association {
    pub tags: [u32; 2],
    /// Tags of a handshake before its COOKIE ECHO.
    pub pending: [u32; 2],
    pub state: SctpState,
}

/// The chunks of a packet that matter to the association.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Chunks {
    tag: u32,
    /// The initiate tag of an INIT or INIT ACK.
    initiate_tag: u32,
    /// A bit for each type of chunk in the packet.
    kinds: u16,
    /// The tag is the one of the opposite direction (the T bit of ABORT and SHUTDOWN COMPLETE).
    reflected: bool,
}

const fn bit(kind: u8) -> u16 {
    1 << kind
}

/// Chunks that must be alone in their packet (RFC 9260 section 6.10).
const ALONE: [u8; 3] = [chunk::INIT, chunk::INIT_ACK, chunk::SHUTDOWN_COMPLETE];
/// Chunks by which an association may be picked up without its handshake.
const PICK_UP: u16 =
    bit(chunk::DATA) | bit(chunk::SACK) | bit(chunk::HEARTBEAT) | bit(chunk::HEARTBEAT_ACK);

impl Chunks {
    /// Parses a packet whose CRC was verified.
    ///
    /// # Errors
    /// [`Event::SctpChunks`]: no chunk, a wrong length, or a combination that is not allowed.
    pub fn read(l4: &[u8]) -> Result<Chunks, Event> {
        let bad = Event::SctpChunks;
        let sctp = Sctp::new_checked(l4).map_err(|_| Event::Truncated)?;
        let tag = sctp.verification_tag();
        let mut chunks = Chunks { tag, initiate_tag: 0, kinds: 0, reflected: false };
        let mut count = 0;
        for chunk in sctp.chunks() {
            let chunk = chunk.ok_or(bad)?;
            count += 1;
            // Types of later RFCs do not change the state.
            if chunk.kind < 16 {
                chunks.kinds |= bit(chunk.kind);
            }
            if matches!(chunk.kind, chunk::INIT | chunk::INIT_ACK) {
                let initiate = chunk.value.first_chunk().filter(|_| chunk.value.len() >= 16);
                chunks.initiate_tag = u32::from_be_bytes(*initiate.ok_or(bad)?);
            }
            if matches!(chunk.kind, chunk::ABORT | chunk::SHUTDOWN_COMPLETE) {
                chunks.reflected = chunk.flags & chunk::FLAG_REFLECTED != 0;
            }
        }
        let is_init = chunks.has(chunk::INIT);
        let has_initiate = is_init || chunks.has(chunk::INIT_ACK);
        let crowded = count > 1 && ALONE.iter().any(|&kind| chunks.has(kind));
        // Only INIT has the tag 0, since its receiver has not chosen one yet (section 8.5.1).
        if count == 0 || crowded || is_init != (tag == 0) {
            return Err(bad);
        }
        if has_initiate && chunks.initiate_tag == 0 { Err(bad) } else { Ok(chunks) }
    }

    /// Whether an association may begin with this packet: an INIT, or a packet that can pick one
    /// up.
    pub fn begins(&self) -> Result<(), Event> {
        let picks_up = self.kinds & PICK_UP != 0 && self.kinds & !PICK_UP == 0;
        if self.has(chunk::INIT) || picks_up { Ok(()) } else { Err(Event::SctpNew) }
    }

    fn has(&self, kind: u8) -> bool {
        self.kinds & bit(kind) != 0
    }
}

impl Association {
    /// The state in eight bits, the tags, and the tags of a handshake, as a record stores them.
    pub fn words(self) -> [u64; 3] {
        let pair = |[a, b]: [u32; 2]| u64::from(a) << 32 | u64::from(b);
        [self.state as u64, pair(self.tags), pair(self.pending)]
    }

    /// The reverse of [`Self::words`]. Bits above the state are ignored.
    pub fn from_words([state, tags, pending]: [u64; 3]) -> Association {
        let pair = |word: u64| [(word >> 32) as u32, word as u32];
        let state = SctpState::ALL.get((state & 0xff) as usize);
        let state = state.copied().unwrap_or(SctpState::Closed);
        Association { tags: pair(tags), pending: pair(pending), state }
    }

    /// The association that a packet begins.
    pub fn new(chunks: &Chunks) -> (Association, Timeout) {
        let association = match chunks.has(chunk::INIT) {
            true => Association {
                tags: [0; 2],
                pending: [0, chunks.initiate_tag],
                state: SctpState::InitSent,
            },
            false => {
                Association { tags: [chunks.tag, 0], pending: [0; 2], state: SctpState::PickedUp }
            }
        };
        (association, association.state.timeout())
    }

    /// The known tags of both directions, in the order of dumps.
    pub fn tags(&self) -> [u32; 2] {
        let known = |at: usize| if self.tags[at] != 0 { self.tags[at] } else { self.pending[at] };
        [known(0), known(1)]
    }

    /// Updates the association for a packet. Returns a timeout if its deadline is to be renewed.
    pub fn update(
        &mut self,
        chunks: &Chunks,
        is_reply: bool,
        counters: &mut Counters,
    ) -> (Update, Option<Timeout>) {
        let (from, to) = (usize::from(is_reply), usize::from(!is_reply));
        if chunks.has(chunk::INIT) {
            return self.init(chunks, is_reply);
        }
        if !self.accepts(chunks, from, to) {
            counters.count(Event::SctpTag);
            return (Update::Invalid, None);
        }
        let before = self.state;
        if chunks.has(chunk::INIT_ACK) {
            self.pending[to] = chunks.initiate_tag;
            if self.state == SctpState::InitSent {
                self.state = SctpState::CookieWait;
            }
        }
        if chunks.has(chunk::COOKIE_ECHO) && chunks.tag == self.pending[from] {
            (self.tags, self.pending) = (self.pending, [0; 2]);
            if self.state != SctpState::Established {
                self.state = SctpState::CookieEchoed;
            }
        }
        self.advance(chunks, is_reply);
        let was_closed = before == SctpState::Closed;
        (Update::Valid, (!was_closed).then(|| self.state.timeout()))
    }

    /// An INIT begins a handshake, or a new association after the end of one. During an association
    /// it may be a restart or forged, so the deadline is not renewed.
    fn init(&mut self, chunks: &Chunks, is_reply: bool) -> (Update, Option<Timeout>) {
        if self.state == SctpState::Closed {
            return (Update::Reopens, None);
        }
        self.pending[usize::from(!is_reply)] = chunks.initiate_tag;
        match (self.state, is_reply) {
            (SctpState::InitSent, false) => (Update::ValidNew, Some(self.state.timeout())),
            _ => (Update::Valid, None),
        }
    }

    /// Whether a packet carries the right tag (section 8.5.1).
    fn accepts(&mut self, chunks: &Chunks, from: usize, to: usize) -> bool {
        let tag = chunks.tag;
        let is = |tags: &Association, at: usize| tag == tags.tags[at];
        let may_be_pending =
            bit(chunk::INIT_ACK) | bit(chunk::COOKIE_ECHO) | bit(chunk::ABORT) | bit(chunk::ERROR);
        let pending = chunks.kinds & may_be_pending != 0;
        if chunks.reflected {
            return is(self, to) || (pending && tag == self.pending[to]);
        }
        // The first packet of the other side of a picked-up association shows its tag.
        if self.state == SctpState::PickedUp && self.tags[from] == 0 {
            self.tags[from] = tag;
        }
        is(self, from) || (pending && tag == self.pending[from])
    }

    fn advance(&mut self, chunks: &Chunks, is_reply: bool) {
        use SctpState as S;
        if chunks.has(chunk::ABORT) {
            self.state = S::Closed;
            return;
        }
        if self.state == S::PickedUp && is_reply {
            self.state = S::Established;
        }
        if chunks.has(chunk::COOKIE_ACK) && self.state == S::CookieEchoed {
            self.state = S::Established;
        }
        if chunks.has(chunk::SHUTDOWN) && self.state == S::Established {
            self.state = if is_reply { S::ShutdownReceived } else { S::ShutdownSent };
        }
        let asked = matches!(self.state, S::ShutdownSent | S::ShutdownReceived);
        if chunks.has(chunk::SHUTDOWN_ACK) && asked {
            self.state = S::ShutdownAckSent;
        }
        if chunks.has(chunk::SHUTDOWN_COMPLETE) && self.state == S::ShutdownAckSent {
            self.state = S::Closed;
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
