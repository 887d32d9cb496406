//! Which thread expires connections, and that expiry keeps up.

use crate::support;
use base::Instant;
use conntrack::{Config, Conntrack, Filter, Timeout, TimeoutPolicy, Tracker};
use std::sync::Arc;

/// Unanswered UDP expires after one second.
fn conntrack() -> Arc<Conntrack> {
    let mut timeouts = TimeoutPolicy::new();
    timeouts.set(Timeout::UdpFirst, 1);
    timeouts.set(Timeout::UdpSingle, 1);
    Arc::new(Conntrack::new(3, Config { timeouts, ..Config::default() }))
}

fn at(ms: u64) -> Instant {
    Instant::from_millis(ms)
}

/// Sends this many packets, each of another connection, from the port `first` on.
fn send(tracker: &mut Tracker, now: Instant, first: u16, count: u16) {
    let text = |port: u16| format!("10.0.0.1:{port}>20.0.0.1:80 udp len=4");
    let mut frames: Vec<_> =
        (first..first + count).map(|port| support::frame(&text(port))).collect();
    tracker.execute(now, &support::commit(1), &mut frames);
}

#[test]
fn a_thread_that_looks_after_its_own_is_left_alone_as_long_as_it_does() {
    let conntrack = conntrack();
    let mut tracker = conntrack.tracker().expect("a tracker");
    send(&mut tracker, at(1000), 1, 100);
    // No connection is due, but the thread has claimed its wheel.
    for ms in [1100, 1350, 1600, 1850] {
        tracker.expire(at(ms), 10);
    }
    assert_eq!((conntrack.connections(), conntrack.tick(at(2100))), (100, 0));
    // At most its budget, however many are due.
    let mut left = 100;
    for iteration in 1..=10u32 {
        tracker.expire(at(2100), 10);
        left -= 10;
        assert_eq!(conntrack.connections(), left, "after {iteration}");
    }
    send(&mut tracker, at(2400), 1, 100);
    tracker.expire(at(2500), 10);
    // Its last call was at 2500, and it is considered gone.
    assert_eq!((conntrack.tick(at(4500)), conntrack.tick(at(4501))), (0, 100));
}

#[test]
fn a_thread_that_stays_behind_is_given_more() {
    let conntrack = conntrack();
    let mut tracker = conntrack.tracker().expect("a tracker");
    // Each iteration creates 16 connections and examines 4: expiry alone would never catch up.
    let (mut now, mut most) = (1000, 0);
    for iteration in 0..2000u16 {
        send(&mut tracker, at(now), 1 + iteration * 16, 16);
        tracker.expire(at(now), 4);
        most = most.max(conntrack.connections());
        now += 5;
    }
    // 3,200 per second exist for one second each, and expire at most one second late.
    assert!((3200..=6400).contains(&most), "{most}");
    tracker.expire(at(now + 5000), usize::MAX);
    assert_eq!(conntrack.connections(), 0);
}

#[test]
fn connections_that_live_on_do_not_hide_those_that_do_not() {
    let conntrack = conntrack();
    let mut tracker = conntrack.tracker().expect("a tracker");
    send(&mut tracker, at(1000), 1, 50);
    // These have the same deadline, are examined first, and stay.
    send(&mut tracker, at(1000), 1000, 50);
    send(&mut tracker, at(1900), 1000, 50);
    let now = at(2250);
    // Examining 50 connections of which none expires does not end the work.
    assert!(conntrack.tick_within(now, 50));
    assert!(conntrack.tick_within(now, 50));
    assert!(!conntrack.tick_within(now, 50));
    assert_eq!(conntrack.connections(), 50);
    let shown = conntrack.entries(now, &Filter::default()).count();
    assert_eq!(shown, 50);
}
