//! ALG state of connections in the table: how it is used, and that none is left behind.

use super::SharedAlgs;
use crate::{Config, Conntrack, CtFlush, Event, Tracker};
use base::{Instant, PortNo, Zone};
use flow::{CtAction, CtState, Frame};
use packet::Packet;
use std::sync::Arc;
use std::thread;

const CONTROL: &str = "10.0.0.1:1000>20.0.0.1:21";
const ANSWERS: &str = "20.0.0.1:21>10.0.0.1:1000";

struct Bench {
    conntrack: Arc<Conntrack>,
    tracker: Tracker,
    now: Instant,
}

/// The number of sessions, parents and expected connections.
fn held(algs: &SharedAlgs) -> [usize; 3] {
    algs.with(|all| [all.sessions.len(), all.parents.len(), all.expectations.len()])
}

fn frame(text: &str) -> Frame {
    let bytes = wire::text::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    Frame::parse(Packet::from_bytes(&bytes), PortNo(1)).expect("Ethernet")
}

fn ftp() -> CtAction {
    CtAction { zone: Zone(3), commit: true, helper: Some("ftp"), ..CtAction::default() }
}

fn plain() -> CtAction {
    CtAction { helper: None, ..ftp() }
}

impl Bench {
    fn new() -> Bench {
        let conntrack = Arc::new(Conntrack::new(7, Config::default()));
        let tracker = conntrack.tracker().expect("a tracker");
        Bench { conntrack, tracker, now: Instant::from_millis(1000) }
    }

    fn send(&mut self, action: &CtAction, text: &str) -> Frame {
        let mut frame = frame(text);
        self.tracker.execute(self.now, action, std::slice::from_mut(&mut frame));
        frame
    }

    /// A control connection that announced a data connection.
    fn announce(&mut self) {
        for (text, number) in [(CONTROL, "S seq=99"), (ANSWERS, "SA seq=499 ack=100")] {
            self.send(&ftp(), &format!("{text} {number} win=9000"));
        }
        let accepts = |seq: u32, ack: u32, line: &str| {
            format!("{ANSWERS} PA seq={seq} ack={ack} win=9000 data={line}%0d%0a")
        };
        self.send(&ftp(), &accepts(500, 100, "220%20hello"));
        for (seq, line) in [(100, "USER%20joe%0d%0a"), (110, "PORT%2010,0,0,1,195,80%0d%0a")] {
            let text = format!("{CONTROL} PA seq={seq} ack=500 win=9000 data={line}");
            let frame = self.send(&ftp(), &text);
            assert_eq!(frame.key.ct_state(), CtState::EST | CtState::TRK);
            assert_eq!(frame.connection, None, "a helper reads every packet");
        }
        assert_eq!(held(&self.conntrack.connections.algs)[2], 1);
        self.send(&ftp(), &accepts(511, 132, "200%20ok"));
    }

    /// The data connection, established.
    fn data(&mut self) -> Frame {
        let there = "20.0.0.1:20>10.0.0.1:50000";
        let syn = self.send(&plain(), &format!("{there} S seq=10 win=9000"));
        assert_eq!(syn.key.ct_state(), CtState::NEW | CtState::REL | CtState::TRK);
        self.send(&plain(), "10.0.0.1:50000>20.0.0.1:20 SA seq=70 ack=11 win=9000");
        let frame = self.send(&plain(), &format!("{there} A seq=11 ack=71 win=9000"));
        assert_eq!(frame.key.ct_state(), CtState::EST | CtState::REL | CtState::TRK);
        assert_eq!(frame.key.ct_tp_dst(), 21, "it is named by the one that announced it");
        frame
    }
}

/// An announcement without a data connection made new connections of every zone take the lock as long as its
/// control connection existed.
#[test]
fn an_announcement_that_expired_is_forgotten_while_its_connection_lives() {
    let mut bench = Bench::new();
    bench.announce();
    let conntrack = Arc::clone(&bench.conntrack);
    let algs = &conntrack.connections.algs;
    assert_eq!([3, 4].map(|zone| algs.expect_in(zone)), [true, false]);
    conntrack.tick(Instant::from_millis(300_999));
    assert!(algs.expect_any());
    conntrack.tick(Instant::from_millis(301_000));
    assert!(!algs.expect_any());
    assert_eq!((held(algs), conntrack.connections()), ([1, 0, 0], 1));
}

#[test]
fn whatever_ends_connections_leaves_nothing_with_the_algs() {
    let exact = |text: &str| {
        let mut flush = CtFlush::zone(Zone(3));
        crate::conntrack::flush::add_tuple(&mut flush, crate::Direction::Original, text)
            .expect("a tuple");
        flush
    };
    let control = "ct_nw_src=10.0.0.1,ct_nw_dst=20.0.0.1,ct_nw_proto=6,ct_tp_src=1000,ct_tp_dst=21";
    let data = "ct_nw_src=20.0.0.1,ct_nw_dst=10.0.0.1,ct_nw_proto=6,ct_tp_src=20,ct_tp_dst=50000";
    let cases: [(&str, Vec<CtFlush>); 5] = [
        ("a zone", vec![CtFlush::zone(Zone(3))]),
        ("all zones", vec![CtFlush::default()]),
        ("whole tuples", vec![exact(control), exact(data)]),
        ("a part of tuples", vec![exact("ct_nw_proto=6")]),
        ("their time", vec![]),
    ];
    for has_data in [false, true] {
        for (what, flushes) in &cases {
            let mut bench = Bench::new();
            bench.announce();
            if has_data {
                bench.data();
            }
            for flush in flushes {
                let _ = bench.conntrack.flush(bench.now, flush);
            }
            bench.now =
                Instant::from_millis(if flushes.is_empty() { 10_000_000_000 } else { 1000 });
            while bench.conntrack.tick(bench.now) > 0 || bench.conntrack.drain() {}
            assert_eq!(bench.conntrack.connections(), 0, "{what}");
            let held = held(&bench.conntrack.connections.algs);
            assert_eq!(held, [0; 3], "{what}, data connection: {has_data}");
        }
    }
}

#[test]
fn a_new_connection_of_the_same_tuple_keeps_what_it_has_when_the_old_one_is_handed_back() {
    let mut bench = Bench::new();
    bench.announce();
    bench.conntrack.flush(bench.now, &CtFlush::zone(Zone(3))).expect("a zone");
    let syn = bench.send(&plain(), "20.0.0.1:20>10.0.0.1:50000 S seq=10 win=9000");
    assert_eq!(syn.key.ct_state(), CtState::NEW | CtState::TRK, "nothing is expected any more");
    bench.announce();
    while bench.conntrack.drain() {}
    assert_eq!(held(&bench.conntrack.connections.algs), [1, 0, 1]);
    let dump = bench.conntrack.counters();
    assert_eq!((dump.get(Event::Created), dump.get(Event::Flushed)), (3, 1));
}

#[test]
fn a_data_connection_is_followed_from_memory_and_its_control_connection_is_not() {
    let mut bench = Bench::new();
    bench.announce();
    let frame_of_data = bench.data();
    let known = frame_of_data.connection.expect("an established connection");
    let next = frame("20.0.0.1:20>10.0.0.1:50000 A seq=11 ack=71 win=9000 len=100");
    assert!(bench.tracker.follow_known(bench.now, known, &next));
    let sctp = "10.0.0.1:5000>20.0.0.1:6000 sctp";
    if wire::text::parse(sctp).is_ok() {
        let frame = bench.send(&plain(), sctp);
        assert_eq!(frame.connection, None);
    }
}

/// Threads make control and data connections, while others flush and expire them.
#[test]
fn threads_leave_nothing_behind() {
    let conntrack = Arc::new(Conntrack::new(9, Config::default()));
    thread::scope(|scope| {
        for seed in 0..3 {
            let conntrack = &conntrack;
            scope.spawn(move || {
                let mut tracker = conntrack.tracker().expect("a tracker");
                let mut random = fastrand::Rng::with_seed(seed);
                for iteration in 0..600u64 {
                    let now = Instant::from_millis(1000 + iteration);
                    let text = match random.u8(..6) {
                        0 => format!("{CONTROL} S seq=99 win=9000"),
                        1 => format!("{ANSWERS} SA seq=499 ack=100 win=9000"),
                        2 => format!("{CONTROL} PA seq=100 ack=500 win=9000 data=USER%20joe%0d%0a"),
                        3 => "20.0.0.1:20>10.0.0.1:50000 S seq=10 win=9000".to_owned(),
                        _ => format!(
                            "{CONTROL} PA seq=110 ack=500 win=9000 data=PORT%2010,0,0,1,195,80%0d%0a"
                        ),
                    };
                    let mut frame = frame(&text);
                    let action = if text.contains(":21") { ftp() } else { plain() };
                    tracker.execute(now, &action, std::slice::from_mut(&mut frame));
                    match random.u8(..30) {
                        0 => _ = conntrack.flush(now, &CtFlush::zone(Zone(3))),
                        1 => _ = conntrack.drain(),
                        2 => _ = conntrack.tick(Instant::from_millis(9_000_000)),
                        _ => {}
                    }
                }
            });
        }
    });
    conntrack.flush(Instant::from_millis(9_000_000), &CtFlush::default()).expect("all");
    while conntrack.drain() {}
    assert_eq!(conntrack.connections(), 0);
    assert_eq!(held(&conntrack.connections.algs), [0; 3]);
}
