//! What operators set or rely on without seeing a packet: counting, zones, the reserve.

mod support;

use base::{Instant, Zone};
use conntrack::{Config, Conntrack, Event, Filter, Flush, Tracker};
use flow::{CtAction, CtState};
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

/// The same tuple in all 65,536 zones is as many connections, each answered in its own.
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
        assert_eq!(conntrack.flush(NOW, &Flush::zone(Zone(zone))), Ok(1));
        assert_eq!(send(&mut tracker, back, &support::look(zone)), CtState::TRK | CtState::NEW);
    }
    assert_eq!(conntrack.connections(), 65_528);
    assert_eq!(conntrack.entries(NOW, &Filter::default()).count(), 65_528);
    assert_eq!(conntrack.flush(NOW, &Flush::default()), Ok(65_528));
    assert_eq!(conntrack.connections(), 0);
}

/// One zone's flood leaves the last part of the room to others, who need not push anyone out.
#[test]
fn a_flood_leaves_the_reserve_to_others() {
    let config = Config { connections_max: 3200, ..Config::default() };
    let conntrack = Arc::new(Conntrack::new(1, config));
    let mut tracker = conntrack.tracker().expect("a tracker");
    for n in 0..20_000_u32 {
        let [_, a, b, c] = n.to_be_bytes();
        let text = format!("66.{a}.{b}.{c}:6666>20.0.0.1:80 udp len=4");
        assert!(send(&mut tracker, &text, &support::commit(1)).contains(CtState::NEW));
    }
    // A thirty-second part of the room is the reserve.
    let room = 3200 - conntrack.connections();
    assert!((90..=100).contains(&room), "{room} of the reserve of 100 are left");
    let evicted = conntrack.counters().get(Event::EvictedUnanswered);
    assert!(evicted > 16_000, "{evicted}");
    for n in 0..90 {
        let text = format!("10.0.0.{n}:5>20.0.0.1:80 udp len=4");
        assert!(send(&mut tracker, &text, &support::commit(2)).contains(CtState::NEW));
    }
    assert_eq!(conntrack.entries(NOW, &Filter::zone(Zone(2))).count(), 90);
    assert_eq!(conntrack.counters().get(Event::EvictedUnanswered), evicted);
    assert_eq!(conntrack.counters().get(Event::Full), 0);
}

/// In a full zone of a few connections, the one that may go is found wherever it stands.
#[test]
fn a_small_zone_makes_room_whenever_it_can() {
    let conntrack = Arc::new(Conntrack::new(1, Config::default()));
    let mut tracker = conntrack.tracker().expect("a tracker");
    conntrack.set_zone_limit(Some(Zone(1)), 24);
    for n in 0..23 {
        send(&mut tracker, &format!("10.0.0.{n}:5>20.0.0.1:80 udp len=4"), &support::commit(1));
        let answered =
            send(&mut tracker, &format!("20.0.0.1:80>10.0.0.{n}:5 udp len=4"), &support::look(1));
        assert!(answered.contains(CtState::EST));
    }
    for n in 0..=u8::MAX {
        send(&mut tracker, &format!("66.0.0.{n}:5>20.0.0.1:80 udp len=4"), &support::commit(1));
    }
    assert_eq!(conntrack.counters().get(Event::EvictedUnanswered), 255);
    assert_eq!(conntrack.entries(NOW, &Filter::zone(Zone(1))).count(), 24);
}
