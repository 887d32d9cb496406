//! SCTP: an association as a host in the middle sees it (RFC 9260; the states' names are Linux's).

use super::reading::Chunks;
use super::{Followed, Verdict};
use conntrack::{Event, SctpEntry, SctpState, Timeout};

const DATA: u8 = 0;
const INIT: u8 = 1;
const INIT_ACK: u8 = 2;
const SACK: u8 = 3;
const HEARTBEAT: u8 = 4;
const HEARTBEAT_ACK: u8 = 5;
const ABORT: u8 = 6;
const SHUTDOWN: u8 = 7;
const SHUTDOWN_ACK: u8 = 8;
const ERROR: u8 = 9;
const COOKIE_ECHO: u8 = 10;
const COOKIE_ACK: u8 = 11;
const SHUTDOWN_COMPLETE: u8 = 14;

#[derive(Clone, Copy, Debug)]
pub struct Association {
    state: SctpState,
    /// The verification tags that packets of each direction must have, as far as known.
    tags: [Option<u32>; 2],
    /// The tags of a handshake whose cookie was not echoed yet. It is unknown whether such a handshake is
    /// genuine.
    asked: [Option<u32>; 2],
}

pub fn may_begin(it: &Chunks) -> Result<(), Event> {
    let runs = [DATA, SACK, HEARTBEAT, HEARTBEAT_ACK];
    // Types of later RFCs do not affect the state.
    let mut known = it.kinds.iter().filter(|kind| **kind < 16).peekable();
    let is_running = known.peek().is_some() && known.all(|kind| runs.contains(kind));
    if it.kinds.contains(&INIT) || is_running { Ok(()) } else { Err(Event::SctpNew) }
}

pub fn begin(it: &Chunks) -> Association {
    if it.kinds.contains(&INIT) {
        let asked = [None, Some(it.initiate_tag)];
        Association { state: SctpState::InitSent, tags: [None; 2], asked }
    } else {
        let tags = [Some(it.tag), None];
        Association { state: SctpState::PickedUp, tags, asked: [None; 2] }
    }
}

impl Association {
    /// The handshake is complete, and the association has not ended.
    pub fn is_established(&self) -> bool {
        let handshake = [
            SctpState::InitSent,
            SctpState::CookieWait,
            SctpState::CookieEchoed,
            SctpState::PickedUp,
        ];
        self.state != SctpState::Closed && !handshake.contains(&self.state)
    }

    pub fn is_over(&self) -> bool {
        self.state == SctpState::Closed
    }

    pub fn timeout(&self) -> Timeout {
        match self.state {
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

    pub fn shown(&self) -> SctpEntry {
        let tag = |at: usize| self.tags[at].or(self.asked[at]).unwrap_or(0);
        SctpEntry { state: self.state, tag_original: tag(0), tag_reply: tag(1) }
    }

    /// Whether the side may have sent a packet with this tag (RFC 9260 appendix on ICMP): 0 is an
    /// INIT's.
    pub fn may_have_sent(&self, from: usize, tag: u32) -> bool {
        if tag == 0 {
            return self.tags.contains(&None);
        }
        [self.tags[from], self.asked[from]].contains(&Some(tag))
    }

    pub fn follow(&mut self, from: usize, it: &Chunks) -> Followed {
        let has = |kind: u8| it.kinds.contains(&kind);
        let to = 1 - from;
        if has(INIT) {
            if self.state == SctpState::Closed {
                return Followed::of(Verdict::Reopens);
            }
            self.asked[to] = Some(it.initiate_tag);
            if self.state == SctpState::InitSent && from == 0 {
                return Followed::renewing(Verdict::New, self.timeout());
            }
            // A restarted host, or a forgery: neither changes the timeout.
            return Followed::of(Verdict::Established);
        }
        // A host without the association reflects the tag of the packet.
        let whose = if it.is_reflected { to } else { from };
        if !it.is_reflected && self.state == SctpState::PickedUp && self.tags[from].is_none() {
            self.tags[from] = Some(it.tag);
        }
        let in_handshake = has(INIT_ACK) || has(COOKIE_ECHO) || has(ABORT) || has(ERROR);
        let is_asked = in_handshake && self.asked[whose] == Some(it.tag);
        if self.tags[whose] != Some(it.tag) && !is_asked {
            return Followed::invalid(Event::SctpTag);
        }
        let was_over = self.is_over();
        if has(INIT_ACK) {
            self.asked[to] = Some(it.initiate_tag);
        }
        if has(COOKIE_ECHO) && self.asked[from] == Some(it.tag) {
            self.tags = self.asked;
            self.asked = [None; 2];
            if self.state != SctpState::Established {
                self.state = SctpState::CookieEchoed;
            }
        }
        if self.state == SctpState::PickedUp && from == 1 {
            self.state = SctpState::Established;
        }
        for &kind in &it.kinds {
            self.state = after(self.state, kind, from);
        }
        if has(ABORT) {
            self.state = SctpState::Closed;
        }
        let timeout = (!was_over).then(|| self.timeout());
        Followed { verdict: Verdict::Established, timeout, event: None }
    }
}

fn after(state: SctpState, kind: u8, from: usize) -> SctpState {
    match (state, kind, from) {
        (SctpState::InitSent, INIT_ACK, _) => SctpState::CookieWait,
        (SctpState::CookieEchoed, COOKIE_ACK, _) => SctpState::Established,
        (SctpState::Established, SHUTDOWN, 0) => SctpState::ShutdownSent,
        (SctpState::Established, SHUTDOWN, 1) => SctpState::ShutdownReceived,
        (SctpState::ShutdownSent | SctpState::ShutdownReceived, SHUTDOWN_ACK, _) => {
            SctpState::ShutdownAckSent
        }
        (SctpState::ShutdownAckSent, SHUTDOWN_COMPLETE, _) => SctpState::Closed,
        _ => state,
    }
}
