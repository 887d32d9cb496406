//! An oracle: connections in a plain list that is searched from the beginning to the end, in the simplest
//! code that could be correct, written from the RFCs and from the behaviour of Open vSwitch's tracker (ovs:
//! `lib/conntrack.c` and related files, `lib/dpctl.man`). It shares no code with the tracker but the types of
//! requests and results.
//!
//! Where a choice is free (an address of a range, a random port) it takes the first.

#![allow(dead_code)]

mod alg;
mod asking;
mod early_drop;
mod fragments;
mod nat;
mod reading;
mod sctp;
mod tcp;
mod writing;

use alg::{Expected, News, Session};
use base::{Instant, Zone};
use conntrack::{Config, Entry, Event, Timeout, TimeoutPolicy, Traffic};
use early_drop::{ANSWERED, CLOSED};
use flow::{
    ConnectionRef, CtAction, CtState, Frame, Nat, NatKind, NatRange, PortSelection, Tuple, TupleL4,
};
use fragments::{Fragments, Taken};
use reading::{Seen, What};
use std::collections::BTreeMap;
use writing::{Naming, rewrite_nat, write};

const NATTED: CtState = CtState::SNAT.union(CtState::DNAT);

/// A connection.
#[derive(Clone, Debug)]
pub struct Known {
    pub id: u32,
    pub zone: u16,
    pub original: Tuple,
    pub reply: Tuple,
    pub deadline_ms: u64,
    pub mark: u32,
    pub label: u128,
    /// The address that NAT rewrites in the original direction.
    pub nat: Option<NatKind>,
    pub progress: Progress,
    pub helper: Option<&'static str>,
    parent: Option<Tuple>,
    session: Session,
    /// Packets and bytes in each direction; invalid packets and related ICMP errors do not count.
    traffic: [Traffic; 2],
    born_ms: u64,
}

/// The state of a connection.
#[derive(Clone, Debug)]
pub enum Progress {
    Tcp([tcp::Side; 2]),
    Sctp(sctp::Association),
    Echo {
        answered: bool,
    },
    /// UDP and all others.
    Other {
        answered: bool,
        again: bool,
    },
}

/// The relation of a packet to its connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    New,
    Established,
    Invalid,
    /// It starts another connection.
    Reopens,
}

/// The result of an update: the new timeout, if it is restarted.
#[derive(Clone, Copy, Debug)]
pub struct Followed {
    verdict: Verdict,
    timeout: Option<Timeout>,
    event: Option<Event>,
}

impl Followed {
    fn of(verdict: Verdict) -> Followed {
        Followed { verdict, timeout: None, event: None }
    }

    fn renewing(verdict: Verdict, timeout: Timeout) -> Followed {
        Followed { timeout: Some(timeout), ..Followed::of(verdict) }
    }

    fn invalid(event: Event) -> Followed {
        Followed { event: Some(event), ..Followed::of(Verdict::Invalid) }
    }
}

pub struct Oracle {
    pub known: Vec<Known>,
    pub max: u32,
    pub early_drop: bool,
    pub checks_windows: bool,
    pub limits: BTreeMap<u16, u32>,
    pub limit_default: u32,
    pub timeouts: TimeoutPolicy,
    pub zone_timeouts: BTreeMap<u16, TimeoutPolicy>,
    counts: BTreeMap<Event, u64>,
    pub fragments: Fragments,
    expected: Vec<Expected>,
    last_id: u32,
    /// Connections that the tracker dropped for the current packet.
    pub dropped: Vec<(u16, Tuple)>,
}

pub fn reverse(tuple: Tuple) -> Tuple {
    let l4 = match tuple.l4 {
        TupleL4::Ports { src, dst } => TupleL4::Ports { src: dst, dst: src },
        TupleL4::Icmp { id, icmp_type, code } => {
            // Each query has its reply type (RFC 792, RFC 4443 section 4).
            let pairs = [(8, 0), (13, 14), (15, 16), (128, 129)];
            let other = pairs.iter().find_map(|&(ask, answer)| match icmp_type {
                it if it == ask => Some(answer),
                it if it == answer => Some(ask),
                _ => None,
            });
            TupleL4::Icmp { id, icmp_type: other.unwrap_or(icmp_type), code }
        }
        TupleL4::None => TupleL4::None,
    };
    Tuple { src: tuple.dst, dst: tuple.src, l4, ..tuple }
}

impl Known {
    fn count(&mut self, is_reply: bool, frame: &Frame) {
        let traffic = &mut self.traffic[usize::from(is_reply)];
        traffic.packets += 1;
        traffic.bytes += frame.packet.len() as u64;
    }

    /// Returns the tuple of its packets in a direction after NAT.
    fn after_nat(&self, is_reply: bool) -> Tuple {
        reverse(if is_reply { self.original } else { self.reply })
    }

    fn follow(&mut self, is_reply: bool, seen: &Seen, checks: bool) -> Followed {
        let from = usize::from(is_reply);
        match (&mut self.progress, &seen.what) {
            (Progress::Tcp(sides), What::Tcp(segment)) => {
                let ack = self.session.back(1 - from, segment);
                tcp::follow(sides, from, &reading::Segment { ack, ..*segment }, checks)
            }
            (Progress::Sctp(association), What::Sctp(chunks)) => association.follow(from, chunks),
            (Progress::Echo { answered }, _) => {
                *answered |= is_reply;
                match *answered {
                    true => Followed::renewing(Verdict::Established, Timeout::IcmpReply),
                    false => Followed::renewing(Verdict::New, Timeout::IcmpFirst),
                }
            }
            (Progress::Other { answered, again }, _) => {
                (*answered, *again) = (*answered || is_reply, true);
                match *answered {
                    true => Followed::renewing(Verdict::Established, Timeout::UdpMultiple),
                    false => Followed::renewing(Verdict::New, Timeout::UdpSingle),
                }
            }
            (progress, _) => panic!("not a packet of {progress:?}"),
        }
    }

    /// Returns whether the receiver of an ICMP error may have sent the quoted packet.
    fn may_have_sent(&self, error_is_reply: bool, number: u32) -> bool {
        let from = usize::from(!error_is_reply);
        match &self.progress {
            Progress::Tcp(sides) => tcp::may_have_sent(sides, from, number),
            Progress::Sctp(association) => association.may_have_sent(from, number),
            _ => true,
        }
    }

    fn entry(&self, now_ms: u64) -> Entry {
        Entry {
            original: self.original,
            reply: self.reply,
            zone: Zone(self.zone),
            mark: self.mark,
            label: self.label,
            timeout_s: ((self.deadline_ms - now_ms) / 1000) as u32,
            tcp: if let Progress::Tcp(sides) = &self.progress {
                Some(tcp::shown(sides))
            } else {
                None
            },
            sctp: if let Progress::Sctp(it) = &self.progress { Some(it.shown()) } else { None },
            helper: self.helper,
            parent: self.parent,
            original_traffic: self.traffic[0],
            reply_traffic: self.traffic[1],
            age_s: (now_ms - self.born_ms) / 1000,
        }
    }
}

impl Oracle {
    pub fn new(config: &Config) -> Oracle {
        Oracle {
            known: Vec::new(),
            max: config.connections_max,
            early_drop: config.early_drop,
            checks_windows: config.check_tcp_windows,
            limits: BTreeMap::new(),
            limit_default: 0,
            timeouts: config.timeouts,
            zone_timeouts: BTreeMap::new(),
            counts: BTreeMap::new(),
            fragments: Fragments::new(),
            expected: Vec::new(),
            last_id: 0,
            dropped: Vec::new(),
        }
    }

    fn count(&mut self, event: Event) {
        *self.counts.entry(event).or_default() += 1;
    }

    pub fn counted(&self, event: Event) -> u64 {
        self.counts.get(&event).copied().unwrap_or(0)
    }

    /// Removes expired connections, and counts them.
    fn remove(&mut self, event: Event, goes: impl Fn(&Known) -> bool) -> u32 {
        let gone: Vec<u32> = self.known.iter().filter(|it| goes(it)).map(|it| it.id).collect();
        self.known.retain(|it| !gone.contains(&it.id));
        self.expected.retain(|it| !gone.contains(&it.parent_id));
        gone.iter().for_each(|_| self.count(event));
        gone.len() as u32
    }

    pub fn expire(&mut self, now: Instant) {
        self.remove(Event::Expired, |known| known.deadline_ms <= now.as_millis());
    }

    /// Tracks a packet, and writes the result into its key. If a fragment is held, the packet becomes empty;
    /// returns the fragments of a datagram that is now complete.
    pub fn track(&mut self, now: Instant, action: &CtAction, frame: &mut Frame) -> Vec<Frame> {
        self.expire(now);
        match self.fragments.take(now.as_millis(), action.zone.0, frame) {
            Taken::NoFragment => {
                self.track_whole(now.as_millis(), action, frame);
                Vec::new()
            }
            Taken::Refused => {
                self.count(Event::Fragment);
                write(frame, action.zone, CtState::INV, Naming::Nothing);
                Vec::new()
            }
            Taken::Held => {
                *frame = Frame::empty();
                Vec::new()
            }
            Taken::Whole(mut whole) => {
                *frame = Frame::empty();
                self.track_whole(now.as_millis(), action, &mut whole.frame);
                whole.apart()
            }
        }
    }

    fn track_whole(&mut self, now_ms: u64, action: &CtAction, frame: &mut Frame) {
        let is_back = frame.key.ct_zone() == action.zone && !frame.key.ct_state().is_empty();
        let before = if is_back { frame.key.ct_state() } else { CtState::empty() };
        // A packet that was tracked in this zone is not tracked again, unless NAT or a forced commit is due.
        let reference = frame.connection.filter(|_| is_back && !action.force);
        if let Some(ConnectionRef { id, is_reply, .. }) = reference
            && let Some(at) = self.known.iter().position(|it| it.id == id)
        {
            self.mark(at, action);
            self.pass(action, frame, at, is_reply, before);
            return;
        }
        frame.connection = None;
        let seen = match reading::read(frame) {
            Ok(seen) => seen,
            Err(event) => {
                self.count(event);
                return write(frame, action.zone, CtState::INV, Naming::Nothing);
            }
        };
        let found = self.find(action.zone.0, seen.tuple).or_else(|| {
            // NAT was already applied, so search for the reply direction.
            let found = self.find(action.zone.0, reverse(seen.tuple));
            let found = found.filter(|_| before.intersects(NATTED));
            found.map(|(at, is_reply)| (at, !is_reply))
        });
        if found.is_none() && before.intersects(NATTED) {
            self.count(Event::NattedMiss);
        }
        let Some((at, is_reply)) = found else { return self.begin(now_ms, action, frame, &seen) };
        if action.force && is_reply {
            let id = self.known[at].id;
            self.remove(Event::Replaced, |known| known.id == id);
            return self.begin(now_ms, action, frame, &seen);
        }
        let state = if let What::Error { number } = seen.what {
            // Without window checks, ICMP errors are not checked either.
            match !self.checks_windows || self.known[at].may_have_sent(is_reply, number) {
                true => CtState::REL | if is_reply { CtState::RPL } else { CtState::empty() },
                false => {
                    self.count(Event::IcmpForged);
                    CtState::INV
                }
            }
        } else {
            let followed = self.known[at].follow(is_reply, &seen, self.checks_windows);
            followed.event.into_iter().for_each(|event| self.count(event));
            if let Some(timeout) = followed.timeout {
                self.renew(at, timeout, now_ms);
            }
            if matches!(followed.verdict, Verdict::New | Verdict::Established) {
                self.known[at].count(is_reply, frame);
            }
            let related = match self.known[at].parent {
                Some(_) => CtState::REL,
                None => CtState::empty(),
            };
            match followed.verdict {
                Verdict::Reopens => {
                    let id = self.known[at].id;
                    self.remove(Event::Replaced, |known| known.id == id);
                    return self.begin(now_ms, action, frame, &seen);
                }
                Verdict::Invalid => CtState::INV,
                Verdict::New => CtState::NEW | related,
                Verdict::Established if is_reply => CtState::EST | CtState::RPL | related,
                Verdict::Established => CtState::EST | related,
            }
        };
        let helped = self.help(at, is_reply, now_ms, &seen, frame, state);
        let state = state | helped | (before & NATTED);
        self.mark(at, action);
        self.pass(action, frame, at, is_reply, state);
    }

    fn find(&self, zone: u16, tuple: Tuple) -> Option<(usize, bool)> {
        let in_zone = || self.known.iter().enumerate().filter(|(_, it)| it.zone == zone);
        let original = in_zone().find(|(_, it)| it.original == tuple).map(|(at, _)| (at, false));
        original.or_else(|| in_zone().find(|(_, it)| it.reply == tuple).map(|(at, _)| (at, true)))
    }

    fn renew(&mut self, at: usize, timeout: Timeout, now_ms: u64) {
        let known = &mut self.known[at];
        let policy = self.zone_timeouts.get(&known.zone).unwrap_or(&self.timeouts);
        known.deadline_ms = now_ms + u64::from(policy.get(timeout)) * 1000;
    }

    /// Sets the mark and label of the connection as the action says.
    fn mark(&mut self, at: usize, action: &CtAction) {
        let known = &mut self.known[at];
        if let Some(mark) = action.mark {
            known.mark = (mark.value & mark.mask) | (known.mark & !mark.mask);
        }
        if let Some(label) = action.label {
            known.label = (label.value & label.mask) | (known.label & !label.mask);
        }
        // An expected connection inherits the mark and label of its parent at the time of the announcement.
        let (id, mark, label) = (known.id, known.mark, known.label);
        for expected in self.expected.iter_mut().filter(|it| it.parent_id == id && it.is_fresh) {
            (expected.mark, expected.label, expected.is_fresh) = (mark, label, false);
        }
    }

    /// Applies the helper of the connection to a packet; it is invalid if it announces something that is not
    /// allowed.
    fn help(
        &mut self,
        at: usize,
        is_reply: bool,
        now_ms: u64,
        seen: &Seen,
        frame: &Frame,
        state: CtState,
    ) -> CtState {
        let known = &mut self.known[at];
        let is_error = matches!(seen.what, What::Error { .. });
        let Some(helper) = known.helper.filter(|_| !state.contains(CtState::INV) && !is_error)
        else {
            return CtState::empty();
        };
        let bytes = frame.packet.data();
        let place = reading::place(bytes, reading::network(bytes).1, false).expect("it was read");
        let l4 = &bytes[place.l4..place.end];
        let from = usize::from(is_reply);
        let is_other = |it: &&Expected| it.parent_id != known.id && it.lives(now_ms);
        let others: Vec<Expected> = self.expected.iter().filter(is_other).cloned().collect();
        let announced = match (helper, &seen.what) {
            ("ftp", What::Tcp(segment)) if segment.len > 0 => {
                let payload = &l4[l4.len() - segment.len as usize..];
                alg::ftp(known, from, now_ms, segment.seq, payload, &others)
            }
            ("tftp", What::Other) => {
                Ok(alg::tftp(known, from, now_ms, &l4[8..]).map_or(News::Nothing, News::Expects))
            }
            _ => Ok(News::Nothing),
        };
        match announced {
            Ok(News::Nothing) => CtState::empty(),
            Ok(News::Judges(accepts)) => {
                let id = known.id;
                self.expected.retain(|it| it.parent_id != id || it.is_agreed || accepts);
                let own = self.expected.iter_mut().find(|it| it.parent_id == id);
                own.into_iter().for_each(|it| it.is_agreed = true);
                CtState::empty()
            }
            Ok(News::Expects(expected)) => {
                let id = expected.parent_id;
                self.expected.retain(|it| it.parent_id != id && !it.is_same_place(&expected));
                self.expected.push(expected);
                CtState::empty()
            }
            Err(event) => {
                if event == Event::HelperOff {
                    let id = known.id;
                    self.expected.retain(|it| it.parent_id != id);
                }
                self.count(event);
                if event == Event::HelperRefused { CtState::INV } else { CtState::empty() }
            }
        }
    }

    /// Applies NAT to a packet of a connection, and writes its connection fields.
    fn pass(
        &mut self,
        action: &CtAction,
        frame: &mut Frame,
        at: usize,
        is_reply: bool,
        mut state: CtState,
    ) {
        let known = &self.known[at];
        let reference = ConnectionRef { id: known.id, generation: 0, is_reply };
        frame.connection = Some(reference);
        if let (Some(side), true, false) =
            (known.nat, action.nat.is_some(), state.intersects(NATTED))
        {
            let source = (side == NatKind::Src) != is_reply;
            state |= if source { CtState::SNAT } else { CtState::DNAT };
            rewrite_nat(frame, known, is_reply, source);
        }
        write(frame, action.zone, state, Naming::Known(known));
    }

    fn begin(&mut self, now_ms: u64, action: &CtAction, frame: &mut Frame, seen: &Seen) {
        let progress = match &seen.what {
            What::Error { .. } => Err(Event::RelatedUnknown),
            What::Tcp(it) => tcp::may_begin(it).map(|()| Progress::Tcp(tcp::begin(it))),
            What::Sctp(it) => sctp::may_begin(it).map(|()| Progress::Sctp(sctp::begin(it))),
            What::Query { is_answer: true } => Err(Event::IcmpNewReply),
            What::Query { .. } => Ok(Progress::Echo { answered: false }),
            What::Other => Ok(Progress::Other { answered: false, again: false }),
        };
        let (zone, tuple) = (action.zone, seen.tuple);
        let progress = match progress {
            Ok(progress) => progress,
            Err(event) => {
                self.count(event);
                return write(frame, zone, CtState::INV, Naming::Tuple(tuple));
            }
        };
        let expected = self.expected.iter().find(|it| it.is(now_ms, zone.0, &tuple)).cloned();
        let related = if expected.is_some() { CtState::REL } else { CtState::empty() };
        let state = CtState::NEW | related;
        let made = (action.commit || action.force)
            .then(|| self.make(now_ms, action, tuple, progress, expected.as_ref()));
        let Some(at) = made.flatten() else {
            let naming = expected.as_ref().map_or(Naming::Tuple(tuple), Naming::Expected);
            return write(frame, zone, state, naming);
        };
        self.known[at].count(false, frame);
        let helped = self.help(at, false, now_ms, seen, frame, state);
        self.mark(at, action);
        self.pass(action, frame, at, false, state | helped);
    }

    fn make(
        &mut self,
        now_ms: u64,
        action: &CtAction,
        tuple: Tuple,
        progress: Progress,
        expected: Option<&Expected>,
    ) -> Option<usize> {
        let zone = action.zone.0;
        let of_expected = |it: &Expected| NatRange {
            kind: it.kind,
            addresses: Some((it.address, it.address)),
            ports: (it.kind == NatKind::Dst).then_some((it.real_port, it.real_port)),
            selection: PortSelection::Default,
            persistent: false,
        };
        let range = match (&action.nat, expected) {
            (None, _) | (Some(Nat::Restore), None) => None,
            (Some(_), Some(expected)) => Some(of_expected(expected)),
            (Some(Nat::Rewrite(range)), None) => Some(range.clone()),
        };
        if !self.has_room(zone) {
            return None;
        }
        let is_free = |moved: Tuple| !self.is_taken(zone, reverse(moved));
        let reply = match &range {
            None if is_free(tuple) => reverse(tuple),
            None => {
                self.count(Event::TupleTaken);
                return None;
            }
            Some(range) => match nat::choose(tuple, range, is_free) {
                Some(moved) => reverse(moved),
                None => {
                    self.count(Event::NatExhausted);
                    return None;
                }
            },
        };
        self.count(Event::Created);
        self.last_id += 1;
        let timeout = match &progress {
            Progress::Tcp(_) => Timeout::TcpSynSent,
            Progress::Sctp(association) => association.timeout(),
            Progress::Echo { .. } => Timeout::IcmpFirst,
            Progress::Other { .. } => Timeout::UdpFirst,
        };
        self.known.push(Known {
            id: self.last_id,
            zone,
            original: tuple,
            reply,
            deadline_ms: 0,
            mark: expected.map_or(0, |it| it.mark),
            label: expected.map_or(0, |it| it.label),
            nat: range.map(|range| range.kind),
            progress,
            helper: action.helper,
            parent: expected.map(|it| it.parent),
            session: Session::default(),
            traffic: [Traffic::default(); 2],
            born_ms: now_ms,
        });
        if let Some(expected) = expected {
            self.expected.retain(|it| it.parent_id != expected.parent_id);
        }
        let at = self.known.len() - 1;
        self.renew(at, timeout, now_ms);
        Some(at)
    }

    pub fn is_taken(&self, zone: u16, tuple: Tuple) -> bool {
        self.find(zone, tuple).is_some()
    }

    /// Returns whether there is room for one more connection, in the zone and in total, after early drop.
    fn has_room(&mut self, zone: u16) -> bool {
        let limit = self.limits.get(&zone).copied().unwrap_or(self.limit_default);
        let is_full = |it: &Oracle| limit > 0 && it.size(zone) >= limit as usize;
        // If the limit was lowered, dropping one connection may not suffice.
        if is_full(self) && (!self.drop_early(&[zone], CLOSED) || is_full(self)) {
            self.count(Event::ZoneFull);
            return false;
        }
        let reserve = self.max as usize / 32;
        let left = (self.max as usize).saturating_sub(self.known.len());
        if self.early_drop && reserve > 0 && left <= reserve && self.size(zone) >= left {
            let large: Vec<u16> = self.zones().filter(|&zone| self.size(zone) >= left).collect();
            if !self.drop_early(&large, ANSWERED) {
                self.count(Event::Full);
                return false;
            }
        }
        let zones: Vec<u16> = self.zones().collect();
        let is_full = |it: &Oracle| it.known.len() >= it.max as usize;
        if is_full(self) && (!self.drop_early(&zones, ANSWERED) || is_full(self)) {
            self.count(Event::Full);
            return false;
        }
        true
    }
}
