//! An oracle: a list of connections and the plainest code that could be right, and operations on it
//! and on the tracker, which must agree.
//!
//! UDP, ICMP, a protocol without ports, and TCP between hosts that keep its rules; zones, commits,
//! force, marks, translation, the maximum and limits as they change, flushes and time. TCP's windows
//! have tests of their own.

#![allow(dead_code)]

use base::{Instant, PortNo, Zone};
use conntrack::{Config, Conntrack, Filter, Flush, Tracker};
use flow::{
    CtAction, Frame, Masked, Nat, NatKind, NatRange, PortSelection, Tuple, TupleL4, TupleMatch,
};
use packet::Packet;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

/// An operation, as bytes: which, and its choices. Any bytes are one.
pub type Operation = [u8; 8];

const ZONES: u16 = 3;
const HOSTS: [[u8; 4]; 4] = [[10, 0, 0, 1], [10, 0, 0, 2], [10, 0, 0, 3], [30, 0, 0, 1]];

/// How far one side of a TCP connection is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Side {
    Nothing,
    Sent,
    Acknowledged,
    Finished,
    FinishAcknowledged,
}

#[derive(Clone, Debug)]
struct Known {
    zone: u16,
    original: Tuple,
    reply: Tuple,
    replied: bool,
    deadline_ms: u64,
    mark: u32,
    /// Which side is translated.
    nat: Option<NatKind>,
    /// Who began it, and the other.
    sides: [Side; 2],
    /// What each side sends next.
    seqs: [u32; 2],
}

/// What a packet is tracked with.
#[derive(Clone, Debug)]
struct Order {
    zone: u16,
    commit: bool,
    force: bool,
    mark: Option<(u32, u32)>,
    nat: Option<Translation>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Translation {
    Restore,
    /// The source becomes 30.0.0.1.
    Source,
    /// The destination becomes 10.0.0.3.
    Destination,
}

/// What became of a packet: its state's text, its mark, its tuple afterwards.
#[derive(PartialEq, Debug)]
struct Outcome {
    state: String,
    mark: u32,
    tuple: Tuple,
}

/// TCP's flags that matter here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Flags {
    syn: bool,
    ack: bool,
    fin: bool,
    rst: bool,
}

const SYN: Flags = Flags { syn: true, ack: false, fin: false, rst: false };

#[derive(Default)]
struct Oracle {
    known: Vec<Known>,
    max: usize,
    limits: BTreeMap<u16, usize>,
    limit_default: Option<usize>,
}

fn reverse(tuple: Tuple) -> Tuple {
    let l4 = match tuple.l4 {
        TupleL4::Ports { src, dst } => TupleL4::Ports { src: dst, dst: src },
        TupleL4::Icmp { id, icmp_type, code } => {
            TupleL4::Icmp { id, icmp_type: 8 - icmp_type, code }
        }
        TupleL4::None => TupleL4::None,
    };
    Tuple { src: tuple.dst, dst: tuple.src, l4, ..tuple }
}

impl Known {
    fn timeout_s(&self) -> u64 {
        if self.original.protocol != 6 {
            return if self.replied { 30 } else { 60 };
        }
        let [least, most] = [self.sides[0].min(self.sides[1]), self.sides[0].max(self.sides[1])];
        match least {
            Side::FinishAcknowledged => 30,
            Side::Finished => 45,
            _ if most >= Side::Finished => 900,
            Side::Acknowledged => 86_400,
            _ => 30,
        }
    }

    /// What a segment of the side `from` does, of hosts that keep TCP's rules.
    fn follow(&mut self, from: usize, flags: Flags) {
        let to = 1 - from;
        if self.sides[from] == Side::Nothing {
            self.sides[from] = Side::Sent;
        }
        if flags.fin {
            self.sides[from] = Side::Finished;
        }
        if flags.ack {
            self.sides[to] = match self.sides[to] {
                Side::Sent => Side::Acknowledged,
                Side::Finished => Side::FinishAcknowledged,
                side => side,
            };
        }
        if flags.rst {
            self.sides = [Side::FinishAcknowledged; 2];
        }
        self.seqs[from] += u32::from(flags.syn) + u32::from(flags.fin);
    }

    fn is_over(&self) -> bool {
        self.sides == [Side::FinishAcknowledged; 2]
    }
}

impl Oracle {
    fn track(&mut self, now_ms: u64, tuple: Tuple, flags: Option<Flags>, order: &Order) -> Outcome {
        let is_this = |known: &Known| {
            known.zone == order.zone && (known.original == tuple || known.reply == tuple)
        };
        let mut at = self.known.iter().position(is_this);
        if let Some(index) = at {
            let known = &self.known[index];
            let is_turned = order.force && known.original != tuple && known.nat.is_none();
            if is_turned || (flags == Some(SYN) && known.is_over()) {
                self.known.remove(index);
                at = None;
            }
        }
        let Some(index) = at else { return self.begin(now_ms, tuple, order) };
        let known = &mut self.known[index];
        let is_reply = known.original != tuple;
        known.replied |= is_reply;
        if let Some(flags) = flags {
            known.follow(usize::from(is_reply), flags);
        }
        known.deadline_ms = now_ms + known.timeout_s() * 1000;
        let mut state = match (known.replied, is_reply) {
            (false, _) => "new|trk".to_owned(),
            (true, false) => "est|trk".to_owned(),
            (true, true) => "est|rpl|trk".to_owned(),
        };
        if let Some((value, mask)) = order.mark {
            known.mark = (value & mask) | (known.mark & !mask);
        }
        let mut after = tuple;
        if let (Some(side), Some(_)) = (known.nat, order.nat) {
            let source_changes = (side == NatKind::Src) != is_reply;
            state += if source_changes { "|snat" } else { "|dnat" };
            after = reverse(if is_reply { known.original } else { known.reply });
        }
        Outcome { state, mark: known.mark, tuple: after }
    }

    fn begin(&mut self, now_ms: u64, tuple: Tuple, order: &Order) -> Outcome {
        let as_is = |state: &str| Outcome { state: state.to_owned(), mark: 0, tuple };
        if let TupleL4::Icmp { icmp_type: 0, .. } = tuple.l4 {
            return as_is("inv|trk");
        }
        let in_zone = self.known.iter().filter(|known| known.zone == order.zone).count();
        let limit = self.limits.get(&order.zone).copied().or(self.limit_default);
        let is_full = limit.is_some_and(|it| in_zone >= it) || self.known.len() >= self.max;
        if !(order.commit || order.force) || is_full {
            return as_is("new|trk");
        }
        let plain = reverse(tuple);
        let (nat, reply) = match order.nat {
            None | Some(Translation::Restore) => (None, Some(plain)),
            Some(Translation::Source) => {
                let moved = Tuple { dst: IpAddr::from([30, 0, 0, 1]), ..plain };
                (Some(NatKind::Src), self.first_free(order.zone, moved))
            }
            Some(Translation::Destination) => {
                let moved = Tuple { src: IpAddr::from([10, 0, 0, 3]), ..plain };
                (Some(NatKind::Dst), self.first_free(order.zone, moved))
            }
        };
        let Some(reply) = reply.filter(|&reply| !self.is_taken(order.zone, reply)) else {
            return as_is("new|trk");
        };
        let (value, mask) = order.mark.unwrap_or((0, 0));
        let mut known = Known {
            zone: order.zone,
            original: tuple,
            reply,
            replied: false,
            deadline_ms: 0,
            mark: value & mask,
            nat,
            sides: [Side::Sent, Side::Nothing],
            seqs: [101, 500],
        };
        known.deadline_ms = now_ms + known.timeout_s() * 1000;
        self.known.push(known);
        let bit = match nat {
            Some(NatKind::Src) => "|snat",
            Some(NatKind::Dst) => "|dnat",
            None => "",
        };
        Outcome { state: format!("new|trk{bit}"), mark: value & mask, tuple: reverse(reply) }
    }

    /// The reply's destination port is the translated packet's source port: counted up from what
    /// it was until nobody has the tuple. So are identifiers.
    fn first_free(&self, zone: u16, mut reply: Tuple) -> Option<Tuple> {
        for _ in 0..100 {
            if !self.is_taken(zone, reply) {
                return Some(reply);
            }
            match &mut reply.l4 {
                TupleL4::Ports { dst, .. } if matches!(reply.protocol, 6 | 17) => *dst += 1,
                TupleL4::Icmp { id, .. } => *id += 1,
                _ => return None,
            }
        }
        panic!("no more than a few are taken");
    }

    fn is_taken(&self, zone: u16, tuple: Tuple) -> bool {
        let has = |known: &Known| known.original == tuple || known.reply == tuple;
        self.known.iter().any(|known| known.zone == zone && has(known))
    }
}

/// The tracker and the oracle, side by side.
struct World {
    conntrack: Arc<Conntrack>,
    tracker: Tracker,
    oracle: Oracle,
    now_ms: u64,
}

/// Carries out operations on both, and panics where they differ.
pub fn run(seed: u64, operations: &[Operation]) {
    let max = 20;
    let config = Config { connections_max: max as u32, makes_room: false, ..Config::default() };
    let conntrack = Arc::new(Conntrack::new(seed, config));
    let tracker = conntrack.tracker().expect("the first tracker");
    let oracle = Oracle { max, ..Oracle::default() };
    let mut world = World { conntrack, tracker, oracle, now_ms: 1000 };
    for (step, operation) in operations.iter().enumerate() {
        world.carry_out(*operation, &format!("step {step}, {operation:?}"));
    }
    world.compare("at the end");
}

impl World {
    fn carry_out(&mut self, operation: Operation, at: &str) {
        let [which, a, b, c, d, ..] = operation;
        let (zone, now) = (u16::from(a) % ZONES, Instant::from_millis(self.now_ms));
        match which % 32 {
            0..8 => self.send(tuple_of_bytes([a, b, c]), None, &order(operation), at),
            8..13 => {
                let TupleL4::Ports { src, dst } = ports(b, c) else { return };
                let (src_ip, dst_ip) = (host(a), host(a >> 4));
                let l4 = TupleL4::Ports { src, dst };
                let tuple = Tuple { src: src_ip, dst: dst_ip, protocol: 6, l4 };
                let order = Order { force: false, ..order(operation) };
                // Hosts do not begin what they have begun.
                let is_there = self.oracle.known.iter().any(|known| {
                    let is_it = known.original == tuple || known.reply == tuple;
                    known.zone == order.zone && is_it && !known.is_over()
                });
                if !is_there && src_ip != dst_ip {
                    self.send(tuple, Some(SYN), &order, at);
                }
            }
            13..22 => self.answer(a, b, &order(operation), at),
            22 => {
                self.conntrack.flush(now, &Flush::zone(Zone(zone))).expect("a zone may be empty");
                self.oracle.known.retain(|known| known.zone != zone);
            }
            23 => self.flush_one(a, at),
            24 => {
                let src = host(b);
                let original = TupleMatch { src: Some(src), ..TupleMatch::default() };
                let flush = Flush { zone: Some(Zone(zone)), original, ..Flush::default() };
                self.conntrack.flush(now, &flush).expect("not a whole tuple");
                self.oracle.known.retain(|it| it.zone != zone || it.original.src != src);
            }
            25 if a % 8 == 0 => {
                self.conntrack.flush(now, &Flush::default()).expect("not a whole tuple");
                self.oracle.known.clear();
            }
            26 => {
                self.oracle.max = usize::from(b % 32);
                self.conntrack.set_connections_max(u32::from(b % 32));
            }
            27 => {
                let limit = 1 + b % 8;
                let is_default = c % 4 == 0;
                self.conntrack.set_zone_limit((!is_default).then_some(Zone(zone)), limit.into());
                match is_default {
                    true => self.oracle.limit_default = Some(limit.into()),
                    false => _ = self.oracle.limits.insert(zone, limit.into()),
                }
            }
            28 => {
                self.conntrack.clear_zone_limit(Zone(zone));
                self.oracle.limits.remove(&zone);
            }
            _ => {
                let steps_ms = [1, 500, 5_000, 31_000, 40_000, 61_000, 901_000, 86_401_000];
                self.now_ms += steps_ms[usize::from(d % 8)];
            }
        }
        if which % 8 == 0 {
            self.compare(at);
        }
    }

    /// The next segment of a TCP connection that is there, or its end.
    fn answer(&mut self, which: u8, how: u8, order: &Order, at: &str) {
        self.oracle.known.retain(|known| known.deadline_ms > self.now_ms);
        let open: Vec<&Known> =
            self.oracle.known.iter().filter(|known| known.original.protocol == 6).collect();
        let Some(known) = open.get(usize::from(which) % open.len().max(1)) else { return };
        let from = match known.sides {
            // The SYN is to be answered first, and then the answer.
            [_, Side::Nothing] => 1,
            [_, Side::Sent] => 0,
            _ => usize::from(how & 1),
        };
        let flags = Flags {
            syn: known.sides[1] == Side::Nothing,
            ack: true,
            fin: how & 6 == 2 && known.sides[from] == Side::Acknowledged,
            rst: how & 0x38 == 8 && known.sides[1] >= Side::Acknowledged,
        };
        let flags = Flags { fin: flags.fin && !flags.rst, ..flags };
        let tuple = if from == 0 { known.original } else { known.reply };
        let nat = known.nat.map(|_| Translation::Restore);
        let order = Order { zone: known.zone, force: false, nat, ..order.clone() };
        self.send(tuple, Some(flags), &order, at);
    }

    fn send(&mut self, tuple: Tuple, flags: Option<Flags>, order: &Order, at: &str) {
        let now = Instant::from_millis(self.now_ms);
        self.oracle.known.retain(|known| known.deadline_ms > self.now_ms);
        while self.conntrack.tick(now) > 0 || self.conntrack.drain() {}
        // What is due within a tick of the wheel may still be there, and count.
        if self.conntrack.connections() as usize > self.oracle.known.len() {
            return;
        }
        let text = self.text(tuple, flags, order.zone);
        let bytes = wire::text::parse(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
        let mut frame = Frame::parse(Packet::from_bytes(&bytes), PortNo(1)).expect("whole headers");
        self.tracker.execute(now, &action(order), std::slice::from_mut(&mut frame));
        let expected = self.oracle.track(self.now_ms, tuple, flags, order);
        let found = Outcome {
            state: frame.key.ct_state().to_string(),
            mark: frame.key.ct_mark(),
            tuple: tuple_of_frame(&frame),
        };
        assert_eq!(found, expected, "{at}: {text} {order:?}");
    }

    /// The packet in words.
    fn text(&self, tuple: Tuple, flags: Option<Flags>, zone: u16) -> String {
        let Tuple { src, dst, protocol, l4 } = tuple;
        match (l4, flags) {
            (TupleL4::Ports { src: source, dst: destination }, Some(flags)) => {
                let ends = format!("{src}:{source}>{dst}:{destination}");
                let of = |known: &&Known| {
                    known.zone == zone && (known.original == tuple || known.reply == tuple)
                };
                let known = self.oracle.known.iter().find(of).filter(|_| flags != SYN);
                let Some(known) = known else { return format!("{ends} S seq=100 win=60000") };
                let from = usize::from(known.original != tuple);
                let (seq, ack) = (known.seqs[from], known.seqs[1 - from]);
                let letters =
                    [(flags.syn, 'S'), (flags.ack, 'A'), (flags.fin, 'F'), (flags.rst, 'R')];
                let letters: String = letters
                    .iter()
                    .filter(|(is_set, _)| *is_set)
                    .map(|(_, letter)| letter)
                    .collect();
                format!("{ends} {letters} seq={seq} ack={ack} win=60000")
            }
            (TupleL4::Ports { src: source, dst: destination }, None) if protocol == 17 => {
                format!("{src}:{source}>{dst}:{destination} udp len=9")
            }
            (TupleL4::Icmp { id, icmp_type, .. }, _) => {
                let kind = if icmp_type == 8 { "icmp-echo" } else { "icmp-reply" };
                format!("{src}>{dst} {kind} id={id} seq=1 len=8")
            }
            _ => format!("{src}>{dst} ip proto={protocol} len=12"),
        }
    }

    /// Flushes one connection by its whole tuple.
    fn flush_one(&mut self, which: u8, at: &str) {
        self.oracle.known.retain(|known| known.deadline_ms > self.now_ms);
        let Some(index) = usize::from(which).checked_rem(self.oracle.known.len()) else { return };
        let Tuple { src, dst, protocol, l4 } = self.oracle.known[index].original;
        let mut original = TupleMatch { src: Some(src), dst: Some(dst), ..TupleMatch::default() };
        match l4 {
            TupleL4::Ports { src, dst } => {
                (original.src_port, original.dst_port) = (Some(src), Some(dst));
            }
            TupleL4::Icmp { id, icmp_type, code } => {
                (original.icmp_id, original.icmp_type) = (Some(id), Some(icmp_type));
                original.icmp_code = Some(code);
            }
            TupleL4::None => return,
        }
        let zone = Some(Zone(self.oracle.known.remove(index).zone));
        let flush = Flush { zone, protocol: Some(protocol), original, ..Flush::default() };
        let flushed = self.conntrack.flush(Instant::from_millis(self.now_ms), &flush);
        assert_eq!(flushed.ok(), Some(1), "{at}");
    }

    fn compare(&self, at: &str) {
        let now = Instant::from_millis(self.now_ms);
        let alive = self.oracle.known.iter().filter(|known| known.deadline_ms > self.now_ms);
        let mut expected: Vec<_> = alive
            .map(|it| {
                let left_s = (it.deadline_ms - self.now_ms) / 1000;
                (it.zone, it.original, it.reply, it.mark, left_s as u32)
            })
            .collect();
        let zones = (0..ZONES).map(|zone| Filter::zone(Zone(zone)));
        let entries = zones.flat_map(|it| self.conntrack.entries(now, &it).collect::<Vec<_>>());
        let mut found: Vec<_> =
            entries.map(|it| (it.zone.0, it.original, it.reply, it.mark, it.timeout_s)).collect();
        expected.sort_unstable();
        found.sort_unstable();
        assert_eq!(found, expected, "{at}");
    }
}

fn host(n: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::from(HOSTS[usize::from(n % 4)]))
}

fn ports(a: u8, b: u8) -> TupleL4 {
    TupleL4::Ports { src: 5000 + u16::from(a % 3), dst: 5000 + u16::from(b % 3) }
}

fn tuple_of_bytes([a, b, c]: [u8; 3]) -> Tuple {
    let (protocol, l4) = match a >> 4 & 3 {
        0 | 1 => (17, ports(b, c)),
        2 => {
            let (id, icmp_type) = (5000 + u16::from(b % 3), c % 2 * 8);
            (1, TupleL4::Icmp { id, icmp_type, code: 0 })
        }
        _ => (47, TupleL4::Ports { src: 0, dst: 0 }),
    };
    Tuple { src: host(a), dst: host(a >> 2), protocol, l4 }
}

fn tuple_of_frame(frame: &Frame) -> Tuple {
    let key = &frame.key;
    let l4 = match key.nw_proto() {
        6 | 17 => TupleL4::Ports { src: key.tp_src(), dst: key.tp_dst() },
        1 => {
            let l4 = frame.l4().expect("an ICMP header");
            let id = u16::from_be_bytes([l4[4], l4[5]]);
            TupleL4::Icmp { id, icmp_type: l4[0], code: l4[1] }
        }
        _ => TupleL4::Ports { src: 0, dst: 0 },
    };
    let (src, dst) = (key.ipv4_src().into(), key.ipv4_dst().into());
    Tuple { src, dst, protocol: key.nw_proto(), l4 }
}

fn order([_, _, _, _, d, e, f, g]: Operation) -> Order {
    let nats = [
        None,
        None,
        Some(Translation::Restore),
        Some(Translation::Restore),
        Some(Translation::Source),
        Some(Translation::Destination),
    ];
    Order {
        zone: u16::from(d) % ZONES,
        commit: e & 1 != 0,
        force: e & 0x0e == 2,
        mark: (e & 0x30 == 0x10).then(|| (u32::from(f), u32::from(g))),
        nat: nats[usize::from(f) % nats.len()],
    }
}

fn action(order: &Order) -> CtAction {
    let translate = |kind, last| {
        let address = IpAddr::from(last);
        Nat::Translate(NatRange {
            kind,
            addresses: Some((address, address)),
            ports: None,
            selection: PortSelection::Default,
            persistent: false,
        })
    };
    CtAction {
        zone: Zone(order.zone),
        commit: order.commit || order.force,
        force: order.force,
        mark: order.mark.map(|(value, mask)| Masked { value, mask }),
        nat: order.nat.map(|nat| match nat {
            Translation::Restore => Nat::Restore,
            Translation::Source => translate(NatKind::Src, [30, 0, 0, 1]),
            Translation::Destination => translate(NatKind::Dst, [10, 0, 0, 3]),
        }),
        ..CtAction::default()
    }
}
