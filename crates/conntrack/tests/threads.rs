//! Threads that track, flush and expire all at once: what must be true afterwards.

mod support;

use base::{Instant, Zone};
use conntrack::{Config, Conntrack, Event, Flush};
use flow::{CtAction, CtState, Frame, Masked, Nat, TupleMatch};
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

const ZONES: u16 = 3;

/// A packet of one of few connections, so that threads meet; in either direction.
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

/// Tracks packets, remembered ones among them, while time goes by.
fn track(conntrack: &Arc<Conntrack>, clock_ms: &AtomicU64, seed: u64, turns: usize) {
    let mut tracker = conntrack.tracker().expect("a tracker");
    let mut random = fastrand::Rng::with_seed(seed);
    let mut known: Vec<Frame> = Vec::new();
    for _ in 0..turns {
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
        known = frames.into_iter().filter(|frame| frame.connection.is_some()).collect();
    }
}

/// What the control side does meanwhile.
fn tidy(conntrack: &Conntrack, clock_ms: &AtomicU64, seed: u64, turns: usize) {
    let mut random = fastrand::Rng::with_seed(seed);
    for _ in 0..turns {
        let now = Instant::from_millis(clock_ms.load(Ordering::Relaxed));
        match random.u8(..6) {
            0 => _ = conntrack.flush(now, &Flush::zone(Zone(random.u16(..ZONES)))),
            1 => {
                let src = Some([10, 0, 0, random.u8(1..8)].into());
                let original = TupleMatch { src, ..TupleMatch::default() };
                _ = conntrack.flush(now, &Flush { original, ..Flush::default() });
            }
            2 => {
                // A minute and more goes by: most go.
                clock_ms.fetch_add(40_000, Ordering::Relaxed);
            }
            3 => _ = conntrack.flush(now, &Flush::default()),
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
    for (seed, makes_room) in [(1, true), (2, false), (3, true)] {
        let config = Config { connections_max: 200, makes_room, ..Config::default() };
        let conntrack = Arc::new(Conntrack::new(seed, config));
        let clock_ms = AtomicU64::new(1000);
        thread::scope(|scope| {
            for thread in 0..4 {
                let (conntrack, clock_ms) = (&conntrack, &clock_ms);
                scope.spawn(move || track(conntrack, clock_ms, seed * 100 + thread, 4000));
            }
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
        // A tick of the wheel may still have to look at some whose time just ran out.
        let much_later = Instant::from_millis(now.as_millis() + 300);
        while conntrack.tick(much_later) > 0 {}
        assert!(conntrack.connections() as usize <= entries.len());
        conntrack.flush(now, &Flush::default()).expect("not a whole tuple");
        assert_eq!(conntrack.connections(), 0);
        while conntrack.drain() {}
        let counters = conntrack.counters();
        assert!(counters.get(Event::Created) > 1000, "{counters:?}");
        // All places came back: the maximum fits in again, and not one more.
        let mut tracker = conntrack.tracker().expect("a tracker");
        conntrack.set_makes_room(false);
        for port in 0..300 {
            let mut frame = support::frame(&format!("1.1.1.1:{}>2.2.2.2:80 udp len=4", 1 + port));
            tracker.execute(now, &support::commit(1), std::slice::from_mut(&mut frame));
        }
        assert_eq!(conntrack.connections(), 200);
    }
}

/// A SYN flood at a full table pushes out nobody who was established, and new connections of others
/// still come about.
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
            // Another zone's customer, and one of the flooded zone.
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

/// Of a connection with these directions, and headers of so many bytes.
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
    // Setting what is set already changes nothing; another mark does.
    let marked = |value| CtAction { mark: Some(Masked { value, mask: 3 }), ..commit.clone() };
    track(&ack, &marked(0));
    assert!(follows(&ack, known));
    let known = track(&ack, &marked(1)).connection.expect("it lives");
    assert!(follows(&ack, known));
    track(&ack, &marked(2));
    assert!(!follows(&ack, known));
    let known = track(&ack, &commit).connection.expect("it lives");
    tracked.flush(now, &Flush::zone(Zone(5))).expect("a zone");
    assert!(follows(&ack, known));
    tracked.flush(now, &Flush::zone(Zone(4))).expect("a zone");
    assert!(!follows(&ack, known), "its zone was flushed");
}
