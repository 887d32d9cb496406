//! Threads that track, flush and expire concurrently: invariants that must hold afterwards.

mod support;

use base::{Instant, Zone};
use conntrack::{Config, Conntrack, CtFlush, Event, Tracker};
use flow::{CtAction, CtState, Frame, Masked, Nat, TupleL4, TupleMatch};
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

const ZONES: u16 = 3;

/// A packet of one of few connections, so that threads compete; in either direction.
fn text(random: &mut fastrand::Rng) -> String {
    let (client, port) = (random.u8(1..8), random.u16(5000..5006));
    let v6 = random.u8(..4) == 0;
    let (a, b) = match v6 {
        false => (format!("10.0.0.{client}"), "20.0.0.1".to_owned()),
        true => (format!("[fd01::{client}]"), "[fd02::1]".to_owned()),
    };
    match random.u8(..6) {
        0 => format!("{a}:{port}>{b}:80 S seq=100 win=1000"),
        1 => format!("{b}:80>{a}:{port} SA seq=900 ack=101 win=1000"),
        2 => format!("{a}:{port}>{b}:80 R seq=101"),
        3 => format!("{b}:80>{a}:{port} udp len=4"),
        4 => format!("{a}>{b} icmp-echo id={port} seq=1 len=8"),
        _ => format!("{a}:{port}>{b}:80 udp len=4"),
    }
}

fn action(random: &mut fastrand::Rng) -> CtAction {
    let nat = match random.u8(..8) {
        0 => Some(support::nat("src=30.0.0.1:7000-7040")),
        1 => Some(support::nat("src=[fd30::1]:7000-7040")),
        2 => Some(Nat::Restore),
        _ => None,
    };
    CtAction {
        zone: Zone(random.u16(..ZONES)),
        commit: random.u8(..3) > 0,
        force: random.u8(..20) == 0,
        nat,
        mark: (random.u8(..4) == 0).then(|| Masked { value: random.u32(..), mask: 0xff }),
        ..CtAction::default()
    }
}

/// Tracks packets, some by cached references, while time passes.
fn track(conntrack: &Arc<Conntrack>, clock_ms: &AtomicU64, seed: u64, iterations: usize) {
    let mut tracker = conntrack.tracker().expect("a tracker");
    let mut random = fastrand::Rng::with_seed(seed);
    let mut known: Vec<Frame> = Vec::new();
    for _ in 0..iterations {
        let now = Instant::from_millis(clock_ms.fetch_add(1, Ordering::Relaxed));
        let mut frames: Vec<Frame> =
            (0..random.usize(1..9)).map(|_| support::frame(&text(&mut random))).collect();
        tracker.execute(now, &action(&mut random), &mut frames);
        for frame in &frames {
            let state = frame.key.ct_state();
            assert!(state.contains(CtState::TRK), "{state}");
            assert!(!state.contains(CtState::NEW | CtState::EST), "{state}");
        }
        for frame in &known {
            let _ = tracker.follow_known(now, frame.connection.expect("a known one"), frame);
        }
        // Half of them advance their own wheel.
        if seed.is_multiple_of(2) {
            tracker.expire(now, 8);
        }
        known = frames.into_iter().filter(|frame| frame.connection.is_some()).collect();
    }
}

/// The concurrent work of the control thread.
fn tidy(conntrack: &Conntrack, clock_ms: &AtomicU64, seed: u64, iterations: usize) {
    let mut random = fastrand::Rng::with_seed(seed);
    for _ in 0..iterations {
        let now = Instant::from_millis(clock_ms.load(Ordering::Relaxed));
        match random.u8(..6) {
            0 => _ = conntrack.flush(now, &CtFlush::zone(Zone(random.u16(..ZONES)))),
            1 => {
                let src = Some([10, 0, 0, random.u8(1..8)].into());
                let original = TupleMatch { src, ..TupleMatch::default() };
                // A flush of bounded cost in each zone, or a walk through all connections.
                let whole = TupleMatch {
                    dst: Some([20, 0, 0, 1].into()),
                    src_port: Some(random.u16(5000..5006)),
                    dst_port: Some(80),
                    ..original
                };
                let flush = CtFlush { original, ..CtFlush::default() };
                let protocol = Some(6 + 11 * random.u8(..2));
                let mark = Some(Masked { value: 0, mask: 1 });
                _ = conntrack.flush(now, &flush);
                _ = conntrack.flush(now, &CtFlush { original: whole, protocol, mark, ..flush });
            }
            2 => {
                // More than a minute passes: most connections expire.
                clock_ms.fetch_add(40_000, Ordering::Relaxed);
            }
            3 => _ = conntrack.flush(now, &CtFlush::default()),
            _ => _ = conntrack.tick(now),
        }
        for entry in all(conntrack, now) {
            assert!(entry.zone.0 < ZONES, "{entry}");
        }
        thread::yield_now();
    }
}

fn all(conntrack: &Conntrack, now: Instant) -> Vec<conntrack::Entry> {
    support::dump(conntrack, now, None)
}

#[test]
fn threads_leave_a_table_in_order() {
    for (seed, early_drop) in [(1, true), (2, false), (3, true)] {
        let config = Config { connections_max: 200, early_drop, ..Config::default() };
        let conntrack = Arc::new(Conntrack::new(seed, config));
        let clock_ms = AtomicU64::new(1000);
        thread::scope(|scope| {
            for thread in 0..4 {
                let (conntrack, clock_ms) = (&conntrack, &clock_ms);
                scope.spawn(move || track(conntrack, clock_ms, seed * 100 + thread, 4000));
            }
            // Two threads that dump and expire concurrently, as the control thread and a long flush do.
            scope.spawn(|| tidy(&conntrack, &clock_ms, seed + 10, 200));
            tidy(&conntrack, &clock_ms, seed, 400);
        });
        let now = Instant::from_millis(clock_ms.load(Ordering::Relaxed));
        while conntrack.drain() || conntrack.tick(now) > 0 {}
        let entries = all(&conntrack, now);
        let mut seen = HashSet::new();
        for entry in &entries {
            assert!(seen.insert((entry.zone, entry.original)), "{entry} is not alone");
            if entry.reply != entry.original {
                assert!(seen.insert((entry.zone, entry.reply)), "{entry} is not alone");
            }
        }
        // Connections that expired within the last tick of the wheel may still exist.
        let much_later = Instant::from_millis(now.as_millis() + 300);
        while conntrack.tick(much_later) > 0 {}
        assert!(conntrack.connections() as usize <= entries.len());
        conntrack.flush(now, &CtFlush::default()).expect("not a whole tuple");
        assert_eq!(conntrack.connections(), 0);
        while conntrack.drain() {}
        let counters = conntrack.counters();
        assert!(counters.get(Event::Created) > 1000, "{counters:?}");
        // No record was lost: the maximum number of connections fits again, and not one more.
        let mut tracker = conntrack.tracker().expect("a tracker");
        conntrack.set_early_drop(false);
        for port in 0..300 {
            let mut frame = support::frame(&format!("1.1.1.1:{}>2.2.2.2:80 udp len=4", 1 + port));
            tracker.execute(now, &support::commit(1), std::slice::from_mut(&mut frame));
        }
        assert_eq!(conntrack.connections(), 200);
    }
}

/// A SYN flood on a full table drops no established connection, and other new connections still succeed.
#[test]
fn a_flood_pushes_out_only_itself() {
    let config = Config { connections_max: 2000, ..Config::default() };
    let conntrack = Arc::new(Conntrack::new(5, config));
    let mut tracker = conntrack.tracker().expect("a tracker");
    let now = Instant::from_millis(1000);
    let mut send = |text: &str, zone: u16| {
        let mut frame = support::frame(text);
        tracker.execute(now, &support::commit(zone), std::slice::from_mut(&mut frame));
        frame.key.ct_state()
    };
    let establish = |send: &mut dyn FnMut(&str, u16) -> CtState, n: u32, zone: u16| {
        let client = format!("10.1.{}.{}:4000", n / 250, 1 + n % 250);
        send(&format!("{client}>20.0.0.1:80 S seq=100 win=1000"), zone);
        send(&format!("20.0.0.1:80>{client} SA seq=900 ack=101 win=1000"), zone);
        send(&format!("{client}>20.0.0.1:80 A seq=101 ack=901 win=1000"), zone)
    };
    for n in 0..1000 {
        assert!(establish(&mut send, n, 1).contains(CtState::EST), "{n}");
    }
    for n in 0..20_000u32 {
        let [_, a, b, c] = n.to_be_bytes();
        let state = send(&format!("66.{a}.{b}.{c}:6666>20.0.0.1:80 S seq=1 win=1"), 1);
        assert!(state.contains(CtState::NEW));
        if n % 100 == 0 {
            // A client in another zone, and one in the flooded zone.
            let n = 2000 + n / 100;
            assert!(establish(&mut send, n, 2).contains(CtState::EST), "{n}");
            assert!(establish(&mut send, n, 1).contains(CtState::EST), "{n}");
        }
    }
    for n in (0..1000).chain(2000..2200) {
        let client = format!("10.1.{}.{}:4000", n / 250, 1 + n % 250);
        let state = send(&format!("{client}>20.0.0.1:80 A seq=101 ack=901 win=1000"), 1);
        assert!(state.contains(CtState::EST), "{n}: {state}");
    }
    let counters = conntrack.counters();
    assert!(conntrack.connections() <= 2000);
    assert!(counters.get(Event::EvictedUnanswered) > 15_000, "{counters:?}");
    assert_eq!(counters.get(Event::Full), 0);
}

#[test]
fn what_is_known_is_followed_until_something_changes() {
    check_what_is_known("10.0.0.1:1000>20.0.0.1:80", "20.0.0.1:80>10.0.0.1:1000", 54);
    check_what_is_known("[fd00::1]:1000>[fd00::2]:80", "[fd00::2]:80>[fd00::1]:1000", 74);
}

/// Checks the cached connection of packets in these directions, with this many bytes of headers.
fn check_what_is_known(there: &str, back: &str, header_bytes: u64) {
    let tracked = support::tracker();
    let now = Instant::from_millis(1);
    let track = |text: &str, action: &CtAction| {
        let mut frame = support::frame(text);
        tracked.execute(now, action, std::slice::from_mut(&mut frame));
        frame
    };
    let commit = support::commit(4);
    let syn = track(&format!("{there} S seq=100 win=1000"), &commit);
    assert_eq!(syn.connection, None, "a SYN's way is not another packet's");
    assert_eq!(track(&format!("{back} SA seq=900 ack=101 win=1000"), &commit).connection, None);
    let ack = format!("{there} A seq=101 ack=901 win=1000");
    let frame = track(&ack, &commit);
    let known = frame.connection.expect("an established connection");
    let follows = |text: &str, known| tracked.follow_known(now, known, &support::frame(text));
    assert!(follows(&ack, known) && follows(&ack, known));
    assert!(follows(&format!("{there} PA seq=101 ack=901 win=1000 len=10"), known));
    let cases = [
        ("another tuple", format!("{back} A seq=901 ack=111 win=1000")),
        ("a FIN", format!("{there} FA seq=111 ack=901 win=1000")),
        ("a RST", format!("{there} R seq=111 win=0")),
        ("outside the window", format!("{there} A seq=9999999 ack=901 win=1000 len=5")),
        ("a fragment", "10.0.0.1>20.0.0.1 ip proto=6 len=30 frag=0+".to_owned()),
    ];
    for (what, text) in cases {
        if wire::text::parse(&text).is_ok() {
            assert!(!follows(&text, known), "{what}");
        }
    }
    assert_eq!(tracked.dump_traffic(), [(5, 5 * header_bytes + 10), (1, header_bytes)]);
    // Setting the same mark again changes nothing; another mark does.
    let marked = |value| CtAction { mark: Some(Masked { value, mask: 3 }), ..commit.clone() };
    track(&ack, &marked(0));
    assert!(follows(&ack, known));
    let known = track(&ack, &marked(1)).connection.expect("it lives");
    assert!(follows(&ack, known));
    track(&ack, &marked(2));
    assert!(!follows(&ack, known));
    let known = track(&ack, &commit).connection.expect("it lives");
    tracked.flush(now, &CtFlush::zone(Zone(5))).expect("a zone");
    assert!(follows(&ack, known));
    tracked.flush(now, &CtFlush::zone(Zone(4))).expect("a zone");
    assert!(!follows(&ack, known), "its zone was flushed");
}

/// A control connection that announces one data connection after another. Two threads concurrently track the
/// first packets of each data connection.
struct Announcer {
    conntrack: Arc<Conntrack>,
    tracker: Tracker,
    seq: u32,
    server_seq: u32,
}

impl Announcer {
    fn new() -> Announcer {
        let conntrack = Arc::new(Conntrack::new(3, Config::default()));
        let tracker = conntrack.tracker().expect("a tracker");
        let mut announcer = Announcer { conntrack, tracker, seq: 101, server_seq: 501 };
        let helped = CtAction { helper: Some("ftp"), ..support::commit(0) };
        announcer.send("10.0.0.1:1000>10.0.0.2:21 S seq=100 win=60000", &helped);
        let look = support::look(0);
        announcer.send("10.0.0.2:21>10.0.0.1:1000 SA seq=500 ack=101 win=60000", &look);
        // The first line seen might be the rest of a line.
        let user = "PA seq=101 ack=501 win=60000 data=USER%20joe%0d%0a";
        announcer.send(&format!("10.0.0.1:1000>10.0.0.2:21 {user}"), &look);
        announcer.seq = 111;
        announcer.reply("220 x");
        announcer
    }

    fn send(&mut self, text: &str, action: &CtAction) {
        let mut frame = support::frame(text);
        self.tracker.execute(NOW, action, std::slice::from_mut(&mut frame));
        assert!(!frame.key.ct_state().contains(CtState::INV), "{text}");
    }

    /// The client announces its port, and the server accepts it.
    fn announce(&mut self, port: u16) {
        let [high, low] = port.to_be_bytes();
        let line = format!("PORT%2010,0,0,1,{high},{low}%0d%0a");
        let seq = self.seq;
        let text = format!(
            "10.0.0.1:1000>10.0.0.2:21 PA seq={seq} ack={} win=60000 data={line}",
            self.server_seq
        );
        self.send(&text, &support::look(0));
        self.seq += (format!("PORT 10,0,0,1,{high},{low}").len() + 2) as u32;
        self.reply("200 x");
    }

    fn reply(&mut self, line: &str) {
        let (seq, ack, line) = (self.server_seq, self.seq, line.replace(' ', "%20"));
        let numbers = format!("seq={seq} ack={ack} win=60000");
        let text = format!("10.0.0.2:21>10.0.0.1:1000 PA {numbers} data={line}%0d%0a");
        self.send(&text, &support::look(0));
        self.server_seq += 7;
    }
}

const NOW: Instant = Instant::from_millis(1000);

/// The first packets of connections from two ports, tracked concurrently by two threads. Returns their
/// states.
fn at_once(conntrack: &Arc<Conntrack>, from: [u16; 2], to: u16) -> [CtState; 2] {
    let arrived = AtomicU64::new(0);
    thread::scope(|scope| {
        let first = |port: u16| {
            let (conntrack, arrived) = (conntrack, &arrived);
            move || {
                let mut tracker = conntrack.tracker().expect("a tracker");
                let mut frame =
                    support::frame(&format!("10.0.0.2:{port}>10.0.0.1:{to} S seq=900 win=9000"));
                arrived.fetch_add(1, Ordering::SeqCst);
                for iteration in 0u32.. {
                    if arrived.load(Ordering::SeqCst) == 2 {
                        break;
                    }
                    if iteration % 1000 == 999 {
                        thread::yield_now();
                    }
                }
                tracker.execute(NOW, &support::commit(0), std::slice::from_mut(&mut frame));
                frame.key.ct_state()
            }
        };
        from.map(|port| scope.spawn(first(port))).map(|thread| thread.join().expect("no panic"))
    })
}

#[test]
fn two_threads_begin_one_announced_connection() {
    let mut announcer = Announcer::new();
    for (round, to) in (40_000..40_400).enumerate() {
        announcer.announce(to);
        let is_same = round % 2 == 0;
        let from = if is_same { [20, 20] } else { [20, 21] };
        let states = at_once(&announcer.conntrack, from, to);
        let related = states.iter().filter(|state| state.contains(CtState::REL)).count();
        assert_eq!(related, if is_same { 2 } else { 1 }, "to port {to}: {states:?}");
        let mut data = support::dump(&announcer.conntrack, NOW, Some(0));
        data.retain(|entry| matches!(entry.original.l4, TupleL4::Ports { dst, .. } if dst == to));
        assert_eq!(data.len(), if is_same { 1 } else { 2 });
        assert_eq!(data.iter().filter(|entry| entry.parent.is_some()).count(), 1, "{data:?}");
        // The expectation is used up.
        let mut late = support::frame(&format!("10.0.0.2:22>10.0.0.1:{to} S seq=900 win=9000"));
        announcer.tracker.execute(NOW, &support::look(0), std::slice::from_mut(&mut late));
        assert_eq!(late.key.ct_state(), CtState::NEW | CtState::TRK);
        for entry in data {
            let original = TupleMatch {
                src: Some(entry.original.src),
                dst_port: Some(to),
                ..TupleMatch::default()
            };
            let flush = CtFlush { protocol: Some(6), original, ..CtFlush::default() };
            announcer.conntrack.flush(NOW, &flush).expect("not a whole tuple");
        }
    }
}

/// A connection whose beginning was not seen is new with its first segment and established with the next.
#[test]
fn a_segment_that_begins_a_connection_is_not_like_the_next() {
    for (there, back) in [
        ("10.0.0.1:1000>20.0.0.1:80", "20.0.0.1:80>10.0.0.1:1000"),
        ("[fd00::1]:1000>[fd00::2]:80", "[fd00::2]:80>[fd00::1]:1000"),
    ] {
        let tracked = support::tracker();
        let ack = format!("{there} A seq=101 ack=901 win=1000");
        let track = |text: &str| {
            let mut frame = support::frame(text);
            tracked.execute(NOW, &support::commit(4), std::slice::from_mut(&mut frame));
            (frame.key.ct_state(), frame.connection)
        };
        assert_eq!(track(&ack), (CtState::TRK | CtState::NEW, None));
        let (state, connection) = track(&ack);
        assert_eq!((state, connection.is_some()), (CtState::TRK | CtState::EST, true));
        assert!(tracked.follow_known(NOW, connection.expect("it is known"), &support::frame(&ack)));
        let (state, connection) = track(&format!("{back} A seq=901 ack=101 win=1000"));
        assert!(state.contains(CtState::RPL) && connection.is_some());
    }
}
