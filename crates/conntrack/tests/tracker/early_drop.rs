//! Early drop in tables that are too large to be examined completely. `tests/oracle.rs` compares smaller ones
//! with an oracle.

use crate::support;
use base::{Instant, Zone};
use conntrack::{Config, Conntrack, Event, Filter, Tracker};
use flow::{CtAction, CtState};
use std::sync::Arc;

const NOW: Instant = Instant::from_millis(1);

/// A table, and hosts that send requests to a server, which are answered or not.
struct Table {
    conntrack: Arc<Conntrack>,
    tracker: Tracker,
    now: Instant,
}

impl Table {
    fn new(connections_max: u32) -> Table {
        let config = Config { connections_max, ..Config::default() };
        let conntrack = Arc::new(Conntrack::new(1, config));
        let tracker = conntrack.tracker().expect("a tracker");
        Table { conntrack, tracker, now: NOW }
    }

    fn send(&mut self, text: &str, action: &CtAction) -> CtState {
        let mut frame = support::frame(text);
        self.tracker.execute(self.now, action, std::slice::from_mut(&mut frame));
        frame.key.ct_state()
    }

    /// The nth host sends a datagram.
    fn ask(&mut self, zone: u16, n: u32) {
        let text = format!("{}:6666>20.0.0.1:80 udp len=4", host(n));
        assert!(self.send(&text, &support::commit(zone)).contains(CtState::NEW));
    }

    /// The server replies. Returns whether there is a connection.
    fn answer(&mut self, zone: u16, n: u32) -> bool {
        let text = format!("20.0.0.1:80>{}:6666 udp len=4", host(n));
        self.send(&text, &support::look(zone)).contains(CtState::EST)
    }

    /// The nth host sends a ping, and the server answers it if it can.
    fn ping(&mut self, zone: u16, n: u32) {
        let host = host(n);
        let ping = format!("{host}>20.0.0.1 icmp-echo id=7 seq=1 len=8");
        assert!(self.send(&ping, &support::commit(zone)).contains(CtState::NEW));
        self.send(&format!("20.0.0.1>{host} icmp-reply id=7 seq=1 len=8"), &support::look(zone));
    }

    /// The nth host makes a handshake with the server. Returns whether there is a connection.
    fn connect(&mut self, zone: u16, n: u32) -> bool {
        let (there, back) = (format!("{}:6666>20.0.0.1:80", host(n)), "20.0.0.1:80");
        self.send(&format!("{there} S seq=100 win=1000"), &support::commit(zone));
        let synack = format!("{back}>{}:6666 SA seq=500 ack=101 win=1000", host(n));
        self.send(&synack, &support::look(zone));
        self.is_connected(zone, n)
    }

    fn is_connected(&mut self, zone: u16, n: u32) -> bool {
        let ack = format!("{}:6666>20.0.0.1:80 A seq=101 ack=501 win=1000", host(n));
        self.send(&ack, &support::look(zone)).contains(CtState::EST)
    }

    fn count(&self, event: Event) -> u64 {
        self.conntrack.counters().get(event)
    }

    fn size(&self, zone: u16) -> usize {
        self.conntrack.entries(self.now, &Filter::zone(Zone(zone))).count()
    }
}

fn host(n: u32) -> String {
    let [_, a, b, c] = n.to_be_bytes();
    format!("66.{a}.{b}.{c}")
}

/// Answered pings and datagrams filled the whole table, including the reserve, and no zone had room for half
/// a minute.
#[test]
fn a_flood_that_is_answered_gives_way_to_others() {
    let mut table = Table::new(3200);
    for n in 0..3000 {
        table.ping(1, 2 * n);
        table.ask(1, 2 * n + 1);
        assert!(table.answer(1, 2 * n + 1));
    }
    assert!(table.size(1) <= 3100, "{}: the reserve of 100 is not the flood's", table.size(1));
    assert_eq!(table.count(Event::Full), 0);
    for n in 0..1000 {
        assert!(table.connect(2, n), "connection {n} of another zone");
    }
    assert!((0..1000).all(|n| table.is_connected(2, n)));
    assert_eq!(
        table.size(1) + table.size(2),
        3150,
        "of the reserve of 100, half is left to others"
    );
    assert!(table.count(Event::EvictedAnswered) > 3500);
}

/// Connections that a handshake established are kept, but may not use the reserve either.
#[test]
fn established_connections_leave_the_reserve_to_others() {
    let mut table = Table::new(3200);
    for n in 0..3200 {
        assert_eq!(table.connect(1, n), n < 3100, "{n}");
    }
    assert_eq!(table.count(Event::Full), 100);
    // Each zone gets half of the remaining room.
    for (zone, connections) in [(2, 50), (3, 25), (4, 13), (5, 6), (6, 3)] {
        (0..100).for_each(|n| assert_eq!(table.connect(zone, n), n < connections, "{zone}, {n}"));
    }
    assert_eq!(table.size(1), 3100);
}

/// Among zones above the reserve, the one with the most droppable connections loses one, whichever zone the
/// new connection is in: floods of two zones become equal, and do not affect a third zone that is smaller or
/// whose connections are established.
#[test]
fn the_zone_that_floods_most_gives_way() {
    let mut table = Table::new(3200);
    (0..1500).for_each(|n| assert!(table.connect(1, n)));
    (0..200).for_each(|n| table.ask(2, n));
    (0..1600).for_each(|n| table.ask(3, n));
    assert_eq!([1, 2].map(|zone| table.size(zone)), [1500, 200]);
    assert_eq!(table.size(3), 3100 - 1700, "it fills the table but for the reserve");
    (0..5000).for_each(|n| table.ask(4, n));
    let [two, three, four] = [2, 3, 4].map(|zone| table.size(zone));
    assert_eq!((table.size(1), two), (1500, 200));
    assert!(three.abs_diff(four) < 50, "{three} and {four} share what is left");
    // Established connections replace them, too, finally all three.
    (1500..2700).for_each(|n| assert!(table.connect(1, n)));
    let [two, three, four] = [2, 3, 4].map(|zone| table.size(zone));
    assert_eq!(table.size(1), 2700);
    assert!(three.abs_diff(four) < 50 && three.abs_diff(two) < 50, "{two}, {three} and {four}");
}

/// Many zones, none above the reserve, fill the table: the largest one is found and loses a connection.
#[test]
fn the_largest_of_many_small_zones_gives_way() {
    let mut table = Table::new(3200);
    for zone in 0..200 {
        let connections = if zone == 150 { 60 } else { 15 };
        (0..connections).for_each(|n| table.ask(zone, n));
    }
    // There are 155 places left.
    for zone in 1000..1200 {
        (0..2).for_each(|n| table.ask(zone, n));
    }
    assert_eq!((table.count(Event::Full), table.count(Event::EvictedUnanswered)), (0, 245));
    assert!((1000..1200).all(|zone| table.size(zone) == 2));
    assert!(table.size(150) < 20, "{}", table.size(150));
}

/// After a peak a hundred times as large, droppable connections are found in the sparse table.
#[test]
fn what_may_go_is_found_after_a_peak() {
    let mut table = Table::new(200_000);
    (0..100_000).for_each(|n| table.ask(1, n));
    table.now = Instant::from_millis(100_000);
    while table.conntrack.tick(table.now) > 0 {}
    assert_eq!(table.conntrack.connections(), 0);
    // At its limit a zone refuses; at the maximum the table drops early.
    table.conntrack.set_zone_limit(Some(Zone(1)), 1000);
    (0..2000).for_each(|n| table.ask(1, n));
    assert_eq!((table.count(Event::ZoneFull), table.count(Event::EvictedUnanswered)), (1000, 0));
    table.conntrack.set_zone_limit(Some(Zone(1)), 0);
    table.conntrack.set_connections_max(1000);
    (2000..3000).for_each(|n| table.ask(1, n));
    (0..31).for_each(|n| table.ask(2, n));
    let refused = table.count(Event::Full);
    assert!(refused <= 32, "{refused}: only as many as there are too many");
    (0..1000).for_each(|n| table.ask(3, n));
    assert_eq!(table.count(Event::Full), refused);
}

/// A flood in one zone leaves the reserve to other zones, which use half of it without dropping connections.
#[test]
fn a_flood_leaves_the_reserve_to_others() {
    let mut table = Table::new(3200);
    for n in 0..20_000 {
        table.ask(1, n);
    }
    // The reserve is one thirty-second of the maximum.
    let room = 3200 - table.conntrack.connections();
    assert!((90..=100).contains(&room), "{room} of the reserve of 100 are left");
    let evicted = table.count(Event::EvictedUnanswered);
    assert!(evicted > 16_000, "{evicted}");
    for n in 0..50 {
        let text = format!("10.0.0.{n}:5>20.0.0.1:80 udp len=4");
        assert!(table.send(&text, &support::commit(2)).contains(CtState::NEW));
    }
    assert_eq!(table.conntrack.entries(NOW, &Filter::zone(Zone(2))).count(), 50);
    assert_eq!(table.count(Event::EvictedUnanswered), evicted);
    assert_eq!(table.count(Event::Full), 0);
}

/// In a full table with few connections, the droppable one is found at any place.
#[test]
fn a_small_table_drops_early_whenever_it_can() {
    let mut table = Table::new(24);
    for n in 0..23 {
        table.send(&format!("10.0.0.{n}:5>20.0.0.1:80 udp len=4"), &support::commit(1));
        let answered =
            table.send(&format!("20.0.0.1:80>10.0.0.{n}:5 udp len=4"), &support::look(1));
        assert!(answered.contains(CtState::EST));
    }
    for n in 0..=u8::MAX {
        table.send(&format!("66.0.0.{n}:5>20.0.0.1:80 udp len=4"), &support::commit(1));
    }
    assert_eq!(table.count(Event::EvictedUnanswered), 255);
    assert_eq!(table.conntrack.entries(NOW, &Filter::zone(Zone(1))).count(), 24);
}
