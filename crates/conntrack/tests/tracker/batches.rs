//! Packets of a batch are tracked as if they came one by one, in their order: runs of one connection, packets
//! between them, connections that start within a batch, marks, zones.

use crate::support;
use base::Instant;
use conntrack::{Config, Conntrack, Entry, Filter, Tracker};
use flow::{CtAction, Frame};
use proptest::prelude::*;
use std::sync::Arc;

/// Packets of few connections, for many runs and both directions.
const PACKETS: [&str; 24] = [
    "10.0.0.1:1000>10.0.0.2:53 udp len=4",
    "10.0.0.1:1000>10.0.0.2:53 udp len=40",
    "10.0.0.1:1000>10.0.0.2:53 udp len=400",
    "10.0.0.2:53>10.0.0.1:1000 udp len=9",
    "10.0.0.2:53>10.0.0.1:1000 udp len=90",
    "10.0.0.1:1001>10.0.0.2:53 udp len=5",
    "10.0.0.2:53>10.0.0.1:1001 udp len=6",
    "10.0.0.1:1000>10.0.0.2:80 S seq=100 win=1000",
    "10.0.0.2:80>10.0.0.1:1000 SA seq=500 ack=101 win=1000",
    "10.0.0.1:1000>10.0.0.2:80 A seq=101 ack=501 win=1000",
    "10.0.0.1:1000>10.0.0.2:80 PA seq=101 ack=501 win=1000 len=20",
    "10.0.0.2:80>10.0.0.1:1000 R seq=501",
    "10.0.0.1>10.0.0.2 icmp-echo id=77 seq=1 len=8",
    "[fd00::1]:1000>[fd00::2]:53 udp len=20",
    "[fd00::2]:53>[fd00::1]:1000 udp len=30",
    "[fd00::1]:1000>[fd00::2]:80 S seq=100 win=1000",
    "[fd00::2]:80>[fd00::1]:1000 SA seq=500 ack=101 win=1000",
    "[fd00::1]:1000>[fd00::2]:80 PA seq=101 ack=501 win=1000 len=20",
    "[fd00::2]:80>[fd00::1]:1000 R seq=501",
    "[fd00::1]>[fd00::2] icmp-echo id=77 seq=1 len=8",
    "[fd00::2]>[fd00::1] icmp-unreach(4) ([fd00::1]:1000>[fd00::2]:53 udp len=20)",
    "[fd00::1]:0>[fd00::2]:53 udp len=4",
    "10.0.0.1:0>10.0.0.2:53 udp len=4",
    "10.0.0.2>10.0.0.1 icmp-unreach(3) (10.0.0.1:1000>10.0.0.2:53 udp len=20)",
];

fn actions() -> [CtAction; 8] {
    let marked = |mark| CtAction { mark: Some(mark), ..support::commit(0) };
    let masked = |value, mask| flow::Masked { value, mask };
    [
        support::look(0),
        support::commit(0),
        support::commit(0),
        support::commit(7),
        CtAction { force: true, ..support::commit(0) },
        marked(masked(5, 0xff)),
        marked(masked(0x500, 0xff00)),
        CtAction { nat: Some(support::nat("restore")), ..support::look(0) },
    ]
}

/// The fields that flows see, and the connection. A record that was allocated in vain has a later generation,
/// which does not matter.
fn shown(frames: &[Frame]) -> Vec<(String, Option<(u32, bool)>)> {
    let connection = |frame: &Frame| frame.connection.map(|it| (it.id, it.is_reply));
    frames.iter().map(|frame| (format!("{:?}", frame.key), connection(frame))).collect()
}

fn entries(conntrack: &Conntrack, now: Instant) -> Vec<String> {
    let shown = |entry: Entry| format!("{entry:?}");
    let mut all: Vec<String> = conntrack.entries(now, &Filter::default()).map(shown).collect();
    all.sort();
    all
}

/// Packets by index and number of repetitions; every eighth was tracked in a zone before.
fn arriving(tracker: &mut Tracker, now: Instant, runs: &[(usize, usize, u8)]) -> Vec<Frame> {
    let mut frames = Vec::new();
    for &(packet, times, tracked) in runs {
        for _ in 0..times {
            let mut frame = support::frame(PACKETS[packet]);
            if tracked == 0 {
                tracker.execute(now, &support::look(0), std::slice::from_mut(&mut frame));
            }
            frames.push(frame);
        }
    }
    frames
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn packets_that_come_together_are_tracked_as_if_each_came_alone(
        batches in proptest::collection::vec(
            (
                proptest::collection::vec((0..PACKETS.len(), 1..6usize, 0..8u8), 1..20),
                0..8usize,
                0..40_000u64,
            ),
            1..12,
        )
    ) {
        let [together, alone] =
            [(); 2].map(|()| Arc::new(Conntrack::new(1, Config::default())));
        let mut trackers = [&together, &alone].map(|it| it.tracker().expect("a tracker"));
        let actions = actions();
        let mut now_ms = 1000;
        for (runs, action, passes_ms) in batches {
            now_ms += passes_ms;
            let (now, action) = (Instant::from_millis(now_ms), &actions[action]);
            let [mut frames, mut others] =
                [0, 1].map(|at| arriving(&mut trackers[at], now, &runs));
            trackers[0].execute(now, action, &mut frames);
            for frame in &mut others {
                trackers[1].execute(now, action, std::slice::from_mut(frame));
            }
            prop_assert_eq!(shown(&frames), shown(&others));
            prop_assert_eq!(entries(&together, now), entries(&alone, now));
        }
    }
}
