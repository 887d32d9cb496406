//! Settings and guarantees that no case covers: counters, zones.

use crate::support;
use base::{Instant, Zone};
use conntrack::{Config, Conntrack, CtFlush, Filter, Tracker};
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
