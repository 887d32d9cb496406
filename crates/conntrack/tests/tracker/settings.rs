//! Settings and guarantees that no case covers: counters, zones, timeouts, what a connection's generation tells.

use crate::support;
use base::{Instant, Zone};
use conntrack::{Config, Conntrack, CtFlush, Filter, SctpState, Timeout, TimeoutPolicy, Tracker};
use flow::{ConnectionRef, CtAction, CtState, Masked};
use std::sync::Arc;

const NOW: Instant = Instant::from_millis(1);

fn send(tracker: &mut Tracker, text: &str, action: &CtAction) -> CtState {
    let mut frame = support::frame(text);
    tracker.execute(NOW, action, std::slice::from_mut(&mut frame));
    frame.key.ct_state()
}

#[test]
fn packets_and_bytes_are_counted_unless_that_is_off() {
    let conntrack = Arc::new(Conntrack::new(1, Config::default()));
    let mut tracker = conntrack.tracker().expect("a tracker");
    let (there, back) = ("10.0.0.1:1>20.0.0.1:80 udp len=58", "20.0.0.1:80>10.0.0.1:1 udp len=158");
    let counts = || {
        let entry = conntrack.entries(NOW, &Filter::default()).next().expect("a connection");
        let (there, back) = (entry.original_traffic, entry.reply_traffic);
        [(there.packets, there.bytes), (back.packets, back.bytes)]
    };
    for _ in 0..3 {
        send(&mut tracker, there, &support::commit(0));
    }
    send(&mut tracker, back, &support::look(0));
    assert_eq!(counts(), [(3, 300), (1, 200)]);
    conntrack.set_counts_traffic(false);
    send(&mut tracker, there, &support::commit(0));
    assert_eq!((counts(), conntrack.counts_traffic()), ([(3, 300), (1, 200)], false));
    conntrack.set_counts_traffic(true);
    send(&mut tracker, back, &support::look(0));
    assert_eq!(counts(), [(3, 300), (2, 400)]);
}

/// The same tuple in all 65,536 zones makes as many connections, each answered in its own zone.
#[test]
fn every_zone_has_a_table_of_its_own() {
    let conntrack = Arc::new(Conntrack::new(1, Config::default()));
    let mut tracker = conntrack.tracker().expect("a tracker");
    let there = "10.0.0.1:1>20.0.0.1:80 udp len=4";
    let back = "20.0.0.1:80>10.0.0.1:1 udp len=4";
    for zone in (0..=u16::MAX).rev() {
        assert_eq!(send(&mut tracker, back, &support::look(zone)), CtState::TRK | CtState::NEW);
        assert_eq!(send(&mut tracker, there, &support::commit(zone)), CtState::TRK | CtState::NEW);
    }
    for zone in [0, 1, 7, 255, 256, 32_768, 65_534, 65_535] {
        let listed: Vec<_> = conntrack.entries(NOW, &Filter::zone(Zone(zone))).collect();
        assert_eq!(listed.len(), 1, "{zone}");
        assert_eq!(listed[0].zone, Zone(zone));
        let answered = CtState::TRK | CtState::EST | CtState::RPL;
        assert_eq!(send(&mut tracker, back, &support::look(zone)), answered, "{zone}");
        assert_eq!(conntrack.flush(NOW, &CtFlush::zone(Zone(zone))), Ok(1));
        assert_eq!(send(&mut tracker, back, &support::look(zone)), CtState::TRK | CtState::NEW);
    }
    assert_eq!(conntrack.connections(), 65_528);
    assert_eq!(conntrack.entries(NOW, &Filter::default()).count(), 65_528);
    assert_eq!(conntrack.flush(NOW, &CtFlush::default()), Ok(65_528));
    assert_eq!(conntrack.connections(), 0);
}

/// Sends a packet. Returns the reference to its connection.
fn connection(tracker: &mut Tracker, text: &str, action: &CtAction) -> ConnectionRef {
    let mut frame = support::frame(text);
    tracker.execute(NOW, action, std::slice::from_mut(&mut frame));
    frame.connection.expect("a connection that can be followed")
}

#[test]
fn a_zone_has_its_own_timeouts_until_they_are_cleared() {
    let conntrack = Arc::new(Conntrack::new(1, Config::default()));
    let mut tracker = conntrack.tracker().expect("a tracker");
    let udp = |seconds| {
        let mut policy = TimeoutPolicy::new();
        policy.set(Timeout::UdpFirst, seconds);
        policy.set(Timeout::UdpSingle, seconds);
        policy
    };
    conntrack.set_default_timeouts(udp(20));
    let text = "10.0.0.1:1>20.0.0.1:80 udp len=4";
    let zones = [5, 6];
    let known = zones.map(|zone| connection(&mut tracker, text, &support::commit(zone)));
    // The time left in both zones after a packet in each, which is looked up or follows an earlier one.
    let mut left = |second: u64, follows: bool| {
        let now = Instant::from_millis(1000 * second);
        let mut frame = support::frame(text);
        for (zone, known) in zones.into_iter().zip(known) {
            if follows {
                assert!(tracker.follow_known(now, known, &frame), "zone {zone}, {second}");
            } else {
                tracker.execute(now, &support::look(zone), std::slice::from_mut(&mut frame));
            }
        }
        zones.map(|zone| {
            let entry = conntrack.entries(now, &Filter::zone(Zone(zone))).next();
            entry.expect("a connection in each zone").timeout_s
        })
    };
    for (second, follows) in [(10, true), (50, false)] {
        assert_eq!(left(second, follows), [20, 20]);
        conntrack.set_zone_timeouts(Zone(5), udp(7));
        assert_eq!(left(second + 5, follows), [7, 20]);
        conntrack.set_default_timeouts(udp(30));
        assert_eq!(left(second + 10, follows), [7, 30]);
        assert!(conntrack.clear_zone_timeouts(Zone(5)));
        assert!(!conntrack.clear_zone_timeouts(Zone(5)), "it has none any more");
        assert_eq!(left(second + 15, follows), [30, 30]);
        conntrack.set_default_timeouts(udp(20));
    }
}

#[test]
fn a_connection_is_unchanged_until_its_mark_changes_or_it_ends() {
    let conntrack = Arc::new(Conntrack::new(1, Config::default()));
    let mut tracker = conntrack.tracker().expect("a tracker");
    let text = "10.0.0.1:1>20.0.0.1:80 udp len=4";
    let begun = connection(&mut tracker, text, &support::commit(0));
    assert!(tracker.guard().is_unchanged(begun));
    let mark = Some(Masked { value: 1, mask: 1 });
    let marked = connection(&mut tracker, text, &CtAction { mark, ..support::commit(0) });
    let are_unchanged = |tracker: &mut Tracker| {
        let guard = tracker.guard();
        [begun, marked].map(|it| guard.is_unchanged(it))
    };
    assert_eq!(are_unchanged(&mut tracker), [false, true]);
    let later = Instant::from_millis(100_000);
    assert_eq!((0..10).map(|_| conntrack.tick(later)).sum::<usize>(), 1);
    assert_eq!(are_unchanged(&mut tracker), [false, false]);
}

#[test]
fn chunks_that_change_an_association_are_not_followed() {
    let conntrack = Arc::new(Conntrack::new(1, Config::default()));
    let mut tracker = conntrack.tracker().expect("a tracker");
    let there = |more: &str| format!("10.0.0.1:1000>10.0.0.2:80 sctp {more}");
    let back = |more: &str| format!("10.0.0.2:80>10.0.0.1:1000 sctp {more}");
    send(&mut tracker, &there("chunks=init/7"), &support::commit(0));
    for text in [
        back("tag=7 chunks=init-ack/9"),
        there("tag=9 chunks=cookie-echo"),
        back("tag=7 chunks=cookie-ack"),
    ] {
        send(&mut tracker, &text, &support::look(0));
    }
    let known = connection(&mut tracker, &there("tag=9 chunks=data"), &support::look(0));
    for (more, follows) in [
        ("tag=9 chunks=data", true),
        ("tag=9 chunks=shutdown", false),
        ("tag=8 chunks=data", false),
        ("tag=9 chunks=data", true),
    ] {
        let frame = support::frame(&there(more));
        assert_eq!(tracker.follow_known(NOW, known, &frame), follows, "{more}");
        let entry = conntrack.entries(NOW, &Filter::default()).next().expect("an association");
        assert_eq!(entry.sctp.map(|it| it.state), Some(SctpState::Established), "{more}");
    }
}
