//! TCP: the states of both sides, and whether a segment fits the windows.
//!
//! The states and what is accepted are Open vSwitch's (ovs: `lib/conntrack-tcp.c`, which has them
//! from OpenBSD's pf): each side has a state of its own, and both are guessed from what passes in
//! the middle, so they are not RFC 9293's (section 3.3.2) though they bear its names. Segments
//! are checked against the windows after Guido van Rooij's "Real Stateful TCP Packet Filtering in
//! IP Filter" (2001); windows and their scaling are RFC 9293's section 3.8.6 and RFC 7323's
//! section 2.

mod scale;
mod segment;
mod state;
mod windows;
mod words;

use scale::SCALE_MAX;
pub(crate) use scale::Scale;
pub(crate) use segment::Segment;
pub use state::TcpState;

use crate::counters::{Counters, Event};
use crate::timeout::Timeout;
use wire::TcpFlags;

/// The tolerance of acknowledgements and of the loose checks: the largest window without scaling
/// plus one Ethernet packet.
pub(crate) const ACK_SLACK: u32 = 0xffff + 1500;

/// One side of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Peer {
    /// The highest sequence number that it sent, plus one.
    pub sent_end: u32,
    /// The highest sequence number that it may send, plus one: the other side's acknowledgement
    /// plus that side's window.
    allowed_end: u32,
    /// The largest window that it announced, before scaling.
    pub max_window: u16,
    pub scale: Scale,
    pub state: TcpState,
}

/// Both sides.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct TcpPeers {
    pub original: Peer,
    pub reply: Peer,
}

/// Both sides as sender and receiver of a segment. Sorting them once is cheaper than deciding for
/// each number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Ends {
    sender: Peer,
    receiver: Peer,
}

/// The effect of a packet on its connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Update {
    /// The packet is valid, and the connection established.
    Valid,
    /// The packet is valid, and the connection not answered yet.
    ValidNew,
    /// The packet begins a new connection with the same tuple.
    Reopens,
    /// The packet is invalid.
    Invalid,
}

impl TcpPeers {
    /// The connection's state in dumps.
    pub fn shown(&self) -> TcpState {
        TcpState::of_connection(self.original.state, self.reply.state)
    }

    /// The connection that a segment begins.
    pub fn new(segment: &Segment) -> (TcpPeers, Timeout) {
        let syn = segment.has(TcpFlags::SYN);
        let scale = if syn { segment.scale } else { Scale::UNKNOWN };
        let original = Peer {
            sent_end: segment.seq,
            // One more than the segment takes, as in pf.
            allowed_end: segment.end().wrapping_add(1),
            max_window: unscaled(segment.window.max(1), scale),
            scale,
            state: TcpState::SynSent,
        };
        let reply = Peer {
            sent_end: 0,
            allowed_end: 1,
            max_window: 1,
            scale: if syn { Scale::NONE } else { Scale::UNKNOWN },
            state: TcpState::Closed,
        };
        (TcpPeers { original, reply }, Timeout::TcpSynSent)
    }

    /// [`Ends::update`].
    #[cfg(all(test, not(loom)))]
    pub fn update(
        &mut self,
        segment: &Segment,
        is_reply: bool,
        check_windows: bool,
        counters: &mut Counters,
    ) -> (Update, Option<Timeout>) {
        let mut ends = Ends::from_words(self.words(), is_reply);
        let answer = ends.update(segment, || check_windows, counters);
        *self = TcpPeers::from_words(ends.words(is_reply));
        answer
    }
}

impl Ends {
    /// Updates both sides for a segment. Returns a timeout if the deadline is to be renewed.
    /// `check_windows` is asked only about a segment outside the windows, which is rare.
    #[inline(always)]
    pub fn update(
        &mut self,
        segment: &Segment,
        check_windows: impl Fn() -> bool,
        counters: &mut Counters,
    ) -> (Update, Option<Timeout>) {
        let Ends { sender, receiver } = self;
        if segment.has_odd_flags() {
            counters.count(Event::TcpFlags);
            return (Update::Invalid, None);
        }
        if segment.has(TcpFlags::SYN) && !segment.has(TcpFlags::ACK) {
            if sender.state.min(receiver.state) >= TcpState::FinWait2 {
                return (Update::Reopens, None);
            }
            if sender.state <= TcpState::SynSent {
                sender.state = TcpState::SynSent;
                return (Update::ValidNew, Some(Timeout::TcpSynSent));
            }
        }
        let fit = Fit::new(segment, sender, receiver);
        let bypassed = |counters: &mut Counters| {
            let is_bypassed = !check_windows();
            if is_bypassed {
                counters.count(Event::TcpWindowBypassed);
            }
            is_bypassed
        };
        if fit.within_windows(segment, sender, receiver) || bypassed(counters) {
            fit.slide(sender, receiver);
            advance_states(segment, sender, receiver);
            return (Update::Valid, Some(timeout(sender.state, receiver.state)));
        }
        if fit.within_loose_bounds(sender, receiver) {
            // A flood of segments that fit only loosely must not keep the connection alive or
            // establish it: the deadline stays, and acknowledgements do not count.
            fit.slide(sender, receiver);
            if segment.has(TcpFlags::FIN) {
                sender.state = sender.state.max(TcpState::Closing);
            }
            if segment.has(TcpFlags::RST) {
                (sender.state, receiver.state) = (TcpState::TimeWait, TcpState::TimeWait);
            }
            return (Update::Valid, None);
        }
        counters.count(Event::TcpWindow);
        (Update::Invalid, None)
    }
}

/// A segment's numbers, prepared for the comparison with both sides.
struct Fit {
    seq: u32,
    end: u32,
    ack: u32,
    window: u16,
    check_ack: bool,
    sender_shift: u8,
    receiver_shift: u8,
}

impl Fit {
    /// Reads a segment's numbers; the first segment of a side initializes the side.
    #[inline(always)]
    fn new(segment: &Segment, sender: &mut Peer, receiver: &mut Peer) -> Fit {
        let (sender_shift, receiver_shift) = shifts(segment, sender, receiver);
        let mut fit = Fit {
            seq: segment.seq,
            end: segment.end(),
            ack: segment.ack,
            window: segment.window,
            check_ack: true,
            sender_shift,
            receiver_shift,
        };
        if sender.state < TcpState::SynSent {
            fit.initialize_sender(segment, sender, receiver);
        }
        if !segment.acknowledges() {
            fit.ack = receiver.sent_end;
        }
        // A segment without payload may have any sequence number.
        if fit.seq == fit.end {
            (fit.seq, fit.end) = (sender.sent_end, sender.sent_end);
        }
        fit
    }

    /// Initializes a side from its first segment.
    #[inline(always)]
    fn initialize_sender(&mut self, segment: &Segment, sender: &mut Peer, receiver: &mut Peer) {
        if segment.has(TcpFlags::SYN) && receiver.scale.is_known() {
            sender.scale = segment.scale;
            if sender.scale.is_known() {
                // The window of a SYN itself is never scaled (RFC 7323 section 2.2).
                self.window = unscaled(self.window, sender.scale);
                self.sender_shift = sender.scale.shift();
                self.receiver_shift = receiver.scale.shift();
            } else {
                // The window is in the sender's units only if both sides scale.
                let scaled = u32::from(receiver.max_window) << receiver.scale.shift();
                receiver.max_window = u16::try_from(scaled).unwrap_or(u16::MAX);
                receiver.scale = Scale::NONE;
            }
        }
        sender.sent_end = self.seq;
        sender.state = TcpState::SynSent;
        let offered = (u32::from(receiver.max_window) << self.receiver_shift).max(1);
        let allowed = self.end.wrapping_add(offered);
        if sender.allowed_end == 1 || at_or_after(allowed, sender.allowed_end) {
            // This side had no bound yet, so its acknowledgement cannot be checked either.
            sender.allowed_end = allowed;
            self.check_ack = false;
        }
        sender.max_window = sender.max_window.max(self.window);
    }

    #[inline(always)]
    fn within_windows(&self, segment: &Segment, sender: &Peer, receiver: &Peer) -> bool {
        let receiver_window = u32::from(receiver.max_window) << self.receiver_shift;
        let ack_behind =
            if self.check_ack { receiver.sent_end.wrapping_sub(self.ack) as i32 } else { 0 };
        let slack = ACK_SLACK as i32;
        let exact_reset = || {
            let from_expected = segment.seq.wrapping_sub(sender.sent_end);
            !segment.has(TcpFlags::RST) || matches!(from_expected, 0 | 1 | u32::MAX)
        };
        at_or_after(sender.allowed_end, self.end)
            && at_or_after(self.seq, sender.sent_end.wrapping_sub(receiver_window))
            && ack_behind >= -slack
            && ack_behind <= slack << self.sender_shift
            && exact_reset()
    }

    /// The loose check, for segments before a side is known and around the end of a connection.
    #[inline(always)]
    fn within_loose_bounds(&self, sender: &Peer, receiver: &Peer) -> bool {
        let straying = receiver.state < TcpState::SynSent
            || receiver.state >= TcpState::FinWait2
            || sender.state >= TcpState::FinWait2;
        straying
            && at_or_after(sender.allowed_end.wrapping_add(ACK_SLACK), self.end)
            && at_or_after(self.seq, sender.sent_end.wrapping_sub(ACK_SLACK))
    }

    #[inline(always)]
    fn slide(&self, sender: &mut Peer, receiver: &mut Peer) {
        sender.max_window = sender.max_window.max(self.window);
        if self.end != sender.sent_end && at_or_after(self.end, sender.sent_end) {
            sender.sent_end = self.end;
        }
        let window = u32::from(self.window) << self.sender_shift;
        if at_or_after(self.ack.wrapping_add(window), receiver.allowed_end) {
            receiver.allowed_end = self.ack.wrapping_add(window.max(1));
        }
    }
}

/// The window scales of sender and receiver for this segment.
#[inline(always)]
fn shifts(segment: &Segment, sender: &Peer, receiver: &Peer) -> (u8, u8) {
    if segment.has(TcpFlags::SYN) {
        (0, 0)
    } else if sender.scale.is_known() && receiver.scale.is_known() {
        (sender.scale.shift(), receiver.scale.shift())
    } else if sender.scale == Scale::UNKNOWN && receiver.scale == Scale::UNKNOWN {
        (SCALE_MAX, SCALE_MAX)
    } else {
        (0, 0)
    }
}

#[inline(always)]
fn advance_states(segment: &Segment, sender: &mut Peer, receiver: &mut Peer) {
    if segment.has(TcpFlags::FIN) {
        sender.state = sender.state.max(TcpState::Closing);
    }
    if segment.has(TcpFlags::ACK) {
        receiver.state = match receiver.state {
            TcpState::SynSent => TcpState::Established,
            TcpState::Closing => TcpState::FinWait2,
            state => state,
        };
    }
    if segment.has(TcpFlags::RST) {
        (sender.state, receiver.state) = (TcpState::TimeWait, TcpState::TimeWait);
    }
}

/// The timeout of a connection with sides in these states.
#[inline(always)]
fn timeout(a: TcpState, b: TcpState) -> Timeout {
    let (nearer, further) = (a.min(b), a.max(b));
    if nearer >= TcpState::FinWait2 {
        Timeout::TcpClose
    } else if nearer >= TcpState::Closing {
        Timeout::TcpTimeWait
    } else if nearer < TcpState::Established {
        Timeout::TcpSynRecv
    } else if further >= TcpState::Closing {
        Timeout::TcpFinWait
    } else {
        Timeout::TcpEstablished
    }
}

/// Converts the window of a SYN to the units of the scaled windows.
fn unscaled(window: u16, scale: Scale) -> u16 {
    u32::from(window).div_ceil(1 << scale.shift()) as u16
}

/// Whether `a` is `b` or at most half the number space after it (RFC 9293 section 3.4).
pub(crate) fn at_or_after(a: u32, b: u32) -> bool {
    a.wrapping_sub(b) as i32 >= 0
}

#[cfg(all(test, not(loom)))]
mod tests;
