//! TCP between two hosts as a host in the middle sees it: the checks of Guido van Rooij's "Real
//! Stateful TCP Packet Filtering in IP Filter" (2001), with the allowances that Open vSwitch makes
//! (ovs: `lib/conntrack-tcp.c`). Numbers are compared as the distance between them.

use super::reading::Segment;
use super::{Followed, Verdict};
use conntrack::{Event, TcpEntry, TcpSide, TcpState, Timeout};

/// The largest unscaled window, plus a packet.
pub const SLACK: i64 = 65535 + 1500;

#[derive(Clone, Copy, PartialEq, Debug)]
enum Scale {
    No,
    By(u32),
    /// The connection was picked up in the middle, so there may be scaling.
    Unknown,
}

#[derive(Clone, Copy, Debug)]
pub struct Side {
    pub state: TcpState,
    /// The sequence number after the last byte that it sent.
    end: u32,
    /// The sequence number after the last byte that it may send; 1 if unknown.
    limit: u32,
    /// The largest window that it offered, unscaled.
    window: u32,
    scale: Scale,
}

/// Returns how far `a` is after `b`; negative if before.
fn distance(a: u32, b: u32) -> i64 {
    i64::from(a.wrapping_sub(b) as i32)
}

fn are_odd(it: &Segment) -> bool {
    let odd_syn = it.is_syn && (it.is_rst || it.is_fin);
    let begins_nothing = !it.is_syn && !it.is_ack && !it.is_rst;
    odd_syn || begins_nothing || (!it.is_ack && (it.is_fin || it.is_push_or_urgent))
}

/// Whether a connection may begin with this segment.
pub fn may_begin(it: &Segment) -> Result<(), Event> {
    match it {
        _ if are_odd(it) => Err(Event::TcpFlags),
        _ if it.is_syn && it.is_ack => Err(Event::TcpNewSynAck),
        _ => Ok(()),
    }
}

pub fn begin(it: &Segment) -> [Side; 2] {
    let scale = match it.scale {
        _ if !it.is_syn => Scale::Unknown,
        Some(shift) => Scale::By(shift),
        None => Scale::No,
    };
    let window = match scale {
        // A SYN's window is never scaled; it counts as if it were.
        Scale::By(shift) => it.window.max(1).div_ceil(1 << shift),
        _ => it.window.max(1),
    };
    let beyond = it.len + 1 + u32::from(it.is_syn) + u32::from(it.is_fin);
    let client = Side {
        state: TcpState::SynSent,
        end: it.seq,
        limit: it.seq.wrapping_add(beyond),
        window,
        scale,
    };
    let scale = if it.is_syn { Scale::No } else { Scale::Unknown };
    [client, Side { state: TcpState::Closed, end: 0, limit: 1, window: 1, scale }]
}

pub fn is_over(sides: &[Side; 2]) -> bool {
    sides.iter().all(|side| side.state >= TcpState::FinWait2)
}

/// Updates the connection for a segment of the side `from`.
pub fn follow(sides: &mut [Side; 2], from: usize, it: &Segment, checks: bool) -> Followed {
    if are_odd(it) {
        return Followed::invalid(Event::TcpFlags);
    }
    let to = 1 - from;
    if it.is_syn && !it.is_ack {
        if is_over(sides) {
            return Followed::of(Verdict::Reopens);
        }
        if sides[from].state <= TcpState::SynSent {
            sides[from].state = TcpState::SynSent;
            return Followed::renewing(Verdict::New, Timeout::TcpSynSent);
        }
    }
    let (mut shifts, mut window) = ([0, 0], it.window);
    match (sides[from].scale, sides[to].scale) {
        (Scale::By(own), Scale::By(other)) if !it.is_syn => shifts = [own, other],
        (Scale::Unknown, Scale::Unknown) if !it.is_syn => shifts = [14, 14],
        _ => {}
    }
    let end = it.seq.wrapping_add(it.len + u32::from(it.is_syn) + u32::from(it.is_fin));
    let mut any_ack = false;
    if sides[from].state == TcpState::Closed {
        if it.is_syn {
            agree_on_scaling(sides, from, it, &mut shifts, &mut window);
        }
        let room = (sides[to].window << shifts[1]).max(1);
        let side = &mut sides[from];
        (side.end, side.state) = (it.seq, TcpState::SynSent);
        let limit = end.wrapping_add(room);
        if side.limit == 1 || distance(limit, side.limit) >= 0 {
            side.limit = limit;
            any_ack = true;
        }
        side.window = side.window.max(window);
    }
    let has_ack = it.is_ack && !(it.ack == 0 && it.is_rst);
    let ack = if has_ack { it.ack } else { sides[to].end };
    let ack_behind = if any_ack { 0 } else { distance(sides[to].end, ack) };
    let (seq, end) = if it.seq == end { (sides[from].end, sides[from].end) } else { (it.seq, end) };

    let side = &sides[from];
    let reach = sides[to].window << shifts[1];
    let fits = distance(side.limit, end) >= 0
        && distance(seq, side.end.wrapping_sub(reach)) >= 0
        && (-SLACK..=SLACK << shifts[0]).contains(&ack_behind)
        && (!it.is_rst || distance(it.seq, side.end).abs() <= 1);
    let is_awkward = sides[to].state == TcpState::Closed
        || sides.iter().any(|side| side.state >= TcpState::FinWait2);
    let nearly_fits = is_awkward
        && distance(side.limit.wrapping_add(SLACK as u32), end) >= 0
        && distance(seq, side.end.wrapping_sub(SLACK as u32)) >= 0;
    if checks && !fits && !nearly_fits {
        return Followed::invalid(Event::TcpWindow);
    }
    let is_full = fits || !checks;
    take(sides, from, it, is_full, (window, shifts[0], ack, end));
    let timeout = is_full.then(|| timeout(sides));
    let event = (!fits && !checks).then_some(Event::TcpWindowBypassed);
    Followed { verdict: Verdict::Established, timeout, event }
}

/// Both sides scale, or none (RFC 7323 section 2.2).
fn agree_on_scaling(
    sides: &mut [Side; 2],
    from: usize,
    it: &Segment,
    shifts: &mut [u32; 2],
    window: &mut u32,
) {
    let to = 1 - from;
    let Scale::By(other) = sides[to].scale else { return };
    match it.scale {
        Some(own) => {
            sides[from].scale = Scale::By(own);
            *window = window.div_ceil(1 << own);
            *shifts = [own, other];
        }
        None => {
            sides[from].scale = Scale::No;
            sides[to].scale = Scale::No;
            sides[to].window = (sides[to].window << other).min(65535);
        }
    }
}

fn take(
    sides: &mut [Side; 2],
    from: usize,
    it: &Segment,
    is_full: bool,
    (window, shift, ack, end): (u32, u32, u32, u32),
) {
    let to = 1 - from;
    sides[from].window = sides[from].window.max(window);
    if distance(end, sides[from].end) > 0 {
        sides[from].end = end;
    }
    let offered = window << shift;
    if distance(ack.wrapping_add(offered), sides[to].limit) >= 0 {
        sides[to].limit = ack.wrapping_add(offered.max(1));
    }
    if it.is_fin && sides[from].state < TcpState::Closing {
        sides[from].state = TcpState::Closing;
    }
    if it.is_ack && is_full {
        sides[to].state = match sides[to].state {
            TcpState::SynSent => TcpState::Established,
            TcpState::Closing => TcpState::FinWait2,
            state => state,
        };
    }
    if it.is_rst {
        sides.iter_mut().for_each(|side| side.state = TcpState::TimeWait);
    }
}

fn timeout(sides: &[Side; 2]) -> Timeout {
    let least = sides[0].state.min(sides[1].state);
    let most = sides[0].state.max(sides[1].state);
    match least {
        _ if least >= TcpState::FinWait2 => Timeout::TcpClose,
        _ if least >= TcpState::Closing => Timeout::TcpTimeWait,
        _ if least < TcpState::Established => Timeout::TcpSynRecv,
        _ if most >= TcpState::Closing => Timeout::TcpFinWait,
        _ => Timeout::TcpEstablished,
    }
}

/// Whether the side may have sent a packet with this number recently (RFC 5927 section 4.1): a helper may
/// have moved it by a few bytes.
pub fn may_have_sent(sides: &[Side; 2], from: usize, seq: u32) -> bool {
    let (side, other) = (&sides[from], &sides[1 - from]);
    if side.scale == Scale::Unknown || side.state == TcpState::Closed {
        return side.scale == Scale::Unknown;
    }
    let shift = if let Scale::By(shift) = other.scale { shift } else { 0 };
    let reach = (other.window << shift) + SLACK as u32;
    distance(side.end.wrapping_add(64), seq) >= 0
        && distance(seq, side.end.wrapping_sub(reach)) >= 0
}

pub fn shown(sides: &[Side; 2]) -> TcpEntry {
    let [original, reply] = sides.map(|side| TcpSide {
        state: side.state,
        window_scale: if let Scale::By(shift) = side.scale { shift as u8 } else { 0 },
        scaling_known: matches!(side.scale, Scale::By(_)),
        is_liberal: side.scale == Scale::Unknown,
    });
    TcpEntry { original, reply }
}
