//! The tracker against an oracle: a list of connections and the plainest code that could be right.
//! UDP, ICMP and a protocol without ports; zones, commits, force, marks, translation, limits,
//! flushes and time. TCP's windows have tests of their own.

mod support;

use base::{Instant, Zone};
use conntrack::{Config, Flush};
use flow::{CtAction, Frame, Masked, Tuple, TupleL4};
use std::net::Ipv4Addr;
use support::Tracked;

#[derive(Clone, Debug)]
struct Known {
    zone: u16,
    original: Tuple,
    reply: Tuple,
    replied: bool,
    deadline_ms: u64,
    mark: u32,
    /// `'s'` or `'d'`, which side is translated.
    nat: Option<char>,
}

#[derive(Default)]
struct Oracle {
    known: Vec<Known>,
    max: usize,
    limit_of_zone_1: Option<u32>,
}

#[derive(Clone, Copy, Debug)]
struct Packet {
    tuple: Tuple,
}

#[derive(Clone, Debug)]
struct Order {
    zone: u16,
    commit: bool,
    force: bool,
    mark: Option<(u32, u32)>,
    nat: Option<&'static str>,
}

/// What became of a packet: its state's text, its mark, its tuple afterwards.
#[derive(PartialEq, Debug)]
struct Outcome {
    state: String,
    mark: u32,
    tuple: Tuple,
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

impl Oracle {
    fn track(&mut self, now_ms: u64, packet: Packet, order: &Order) -> Outcome {
        let Packet { tuple } = packet;
        self.known.retain(|known| known.deadline_ms > now_ms);
        let is_this = |known: &Known| {
            known.zone == order.zone && (known.original == tuple || known.reply == tuple)
        };
        let mut at = self.known.iter().position(is_this);
        if let Some(index) = at
            && order.force
            && self.known[index].original != tuple
            && self.known[index].nat.is_none()
        {
            self.known.remove(index);
            at = None;
        }
        let Some(index) = at else { return self.begin(now_ms, packet, order) };
        let known = &mut self.known[index];
        let is_reply = known.original != tuple;
        known.replied |= is_reply;
        let timeout = if known.replied { 30 } else { 60 };
        known.deadline_ms = now_ms + timeout * 1000;
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
            let source_changes = (side == 's') != is_reply;
            state += if source_changes { "|snat" } else { "|dnat" };
            after = reverse(if is_reply { known.original } else { known.reply });
        }
        Outcome { state, mark: known.mark, tuple: after }
    }

    fn begin(&mut self, now_ms: u64, packet: Packet, order: &Order) -> Outcome {
        let Packet { tuple } = packet;
        let as_is = |state: &str| Outcome { state: state.to_owned(), mark: 0, tuple };
        if let TupleL4::Icmp { icmp_type: 0, .. } = tuple.l4 {
            return as_is("inv|trk");
        }
        let in_zone_1 = self.known.iter().filter(|known| known.zone == 1).count() as u32;
        let zone_full = order.zone == 1 && self.limit_of_zone_1.is_some_and(|it| in_zone_1 >= it);
        if !(order.commit || order.force) || zone_full || self.known.len() >= self.max {
            return as_is("new|trk");
        }
        let (nat, reply) = match order.nat {
            None | Some("restore") => (None, Some(reverse(tuple))),
            Some("src=30.0.0.1") => {
                let moved = Tuple { dst: [30, 0, 0, 1].into(), ..reverse(tuple) };
                (Some('s'), self.first_free(order.zone, moved))
            }
            Some("dst=10.0.0.3") => {
                let moved = Tuple { src: [10, 0, 0, 3].into(), ..reverse(tuple) };
                (Some('d'), self.first_free(order.zone, moved))
            }
            Some(other) => panic!("{other}"),
        };
        let Some(reply) = reply.filter(|&reply| !self.is_taken(order.zone, reply)) else {
            return as_is("new|trk");
        };
        let (value, mask) = order.mark.unwrap_or((0, 0));
        let known = Known {
            zone: order.zone,
            original: tuple,
            reply,
            replied: false,
            deadline_ms: now_ms + 60_000,
            mark: value & mask,
            nat,
        };
        self.known.push(known);
        let bit = match nat {
            Some('s') => "|snat",
            Some(_) => "|dnat",
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
                TupleL4::Ports { dst, .. } if reply.protocol == 17 => *dst += 1,
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

fn text(tuple: Tuple) -> String {
    let Tuple { src, dst, protocol, l4 } = tuple;
    match l4 {
        TupleL4::Ports { src: source, dst: destination } if protocol == 17 => {
            format!("{src}:{source}>{dst}:{destination} udp len=9")
        }
        TupleL4::Icmp { id, icmp_type, .. } => {
            let kind = if icmp_type == 8 { "icmp-echo" } else { "icmp-reply" };
            format!("{src}>{dst} {kind} id={id} seq=1 len=8")
        }
        _ => format!("{src}>{dst} ip proto={protocol} len=12"),
    }
}

fn tuple_of(frame: &Frame) -> Tuple {
    let key = &frame.key;
    let l4 = match key.nw_proto() {
        17 => TupleL4::Ports { src: key.tp_src(), dst: key.tp_dst() },
        1 => {
            let l4 = frame.l4().unwrap();
            let id = u16::from_be_bytes([l4[4], l4[5]]);
            TupleL4::Icmp { id, icmp_type: l4[0], code: l4[1] }
        }
        _ => TupleL4::Ports { src: 0, dst: 0 },
    };
    let (src, dst) = (key.ipv4_src().into(), key.ipv4_dst().into());
    Tuple { src, dst, protocol: key.nw_proto(), l4 }
}

fn random_tuple(random: &mut fastrand::Rng) -> Tuple {
    let hosts = [
        Ipv4Addr::new(10, 0, 0, 1),
        Ipv4Addr::new(10, 0, 0, 2),
        Ipv4Addr::new(10, 0, 0, 3),
        Ipv4Addr::new(30, 0, 0, 1),
    ];
    let ports = [5000, 5001, 5002];
    let mut port = || ports[random.usize(..3)];
    let (a, b) = (port(), port());
    let (protocol, l4) = match random.u8(..4) {
        0 | 1 => (17, TupleL4::Ports { src: a, dst: b }),
        2 => (1, TupleL4::Icmp { id: a, icmp_type: random.u8(..2) * 8, code: 0 }),
        _ => (47, TupleL4::Ports { src: 0, dst: 0 }),
    };
    let mut host = || hosts[random.usize(..4)].into();
    Tuple { src: host(), dst: host(), protocol, l4 }
}

fn random_order(random: &mut fastrand::Rng) -> Order {
    let nats =
        [None, None, Some("restore"), Some("restore"), Some("src=30.0.0.1"), Some("dst=10.0.0.3")];
    Order {
        zone: random.u16(..3),
        commit: random.bool(),
        force: random.u8(..8) == 0,
        mark: (random.u8(..4) == 0).then(|| (random.u32(..), random.u32(..))),
        nat: nats[random.usize(..nats.len())],
    }
}

fn assert_same_connections(tracker: &Tracked, oracle: &Oracle, now_ms: u64, at: &str) {
    let mut expected: Vec<_> = oracle
        .known
        .iter()
        .filter(|known| known.deadline_ms > now_ms)
        .map(|it| {
            let left = (it.deadline_ms - now_ms) / 1000;
            (it.zone, it.original, it.reply, it.mark, left as u32)
        })
        .collect();
    let mut found: Vec<_> = support::dump(tracker, Instant::from_millis(now_ms), None)
        .into_iter()
        .map(|it| (it.zone.0, it.original, it.reply, it.mark, it.timeout_s))
        .collect();
    expected.sort_unstable();
    found.sort_unstable();
    assert_eq!(found, expected, "{at}");
}

fn run(seed: u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    let max = random.usize(5..60);
    let config = Config { connections_max: max as u32, makes_room: false, ..Config::default() };
    let tracker = Tracked::new(seed, config);
    let mut oracle = Oracle { max, ..Oracle::default() };
    if random.bool() {
        oracle.limit_of_zone_1 = Some(random.u32(1..9));
        tracker.set_zone_limit(Some(Zone(1)), oracle.limit_of_zone_1.unwrap());
    }
    let mut now_ms = random.u64(..1_000_000);
    for step in 0..600 {
        let at = format!("seed {seed}, step {step}");
        now_ms += [0, 1, 500, 5_000, 40_000][random.usize(..5)] * u64::from(random.u8(..3) == 0);
        let now = Instant::from_millis(now_ms);
        match random.u8(..40) {
            0 => {
                let zone = random.u16(..3);
                oracle.known.retain(|known| known.deadline_ms > now_ms);
                tracker.flush(now, &Flush::zone(Zone(zone))).unwrap();
                oracle.known.retain(|known| known.zone != zone);
            }
            1..5 => drop(tracker.tick(now)),
            _ => {}
        }
        // Limits count what the tracker has not yet swept, so sweep before them.
        while tracker.tick(now) > 0 {}
        let packet = Packet { tuple: random_tuple(&mut random) };
        let order = random_order(&mut random);
        let action = CtAction {
            zone: Zone(order.zone),
            commit: order.commit,
            force: order.force,
            mark: order.mark.map(|(value, mask)| Masked { value, mask }),
            nat: order.nat.map(support::nat),
            ..CtAction::default()
        };
        // What is due within a tick may still be there; then limits can't be compared.
        let unswept = tracker.connections() as usize
            > oracle.known.iter().filter(|known| known.deadline_ms > now_ms).count();
        if unswept {
            continue;
        }
        let mut frame = support::frame(&text(packet.tuple));
        tracker.execute(now, &action, std::slice::from_mut(&mut frame));
        let expected = oracle.track(now_ms, packet, &order);
        let found = Outcome {
            state: frame.key.ct_state().to_string(),
            mark: frame.key.ct_mark(),
            tuple: tuple_of(&frame),
        };
        assert_eq!(found, expected, "{at}: {packet:?} {order:?}");
        support::check_frame(&frame);
        if step % 16 == 0 {
            assert_same_connections(&tracker, &oracle, now_ms, &at);
        }
    }
    assert_same_connections(&tracker, &oracle, now_ms, "at the end");
}

#[test]
fn the_tracker_does_as_the_oracle_does() {
    for seed in 0..300 {
        run(seed);
    }
}
