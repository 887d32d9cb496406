//! A preempted thread delays the reuse of other threads' memory, but only up to a limit.

use crate::support;
use base::{Instant, Zone};
use conntrack::{Config, Conntrack, Event, Tracker};
use flow::CtAction;
use std::sync::Arc;

const NOW: Instant = Instant::from_millis(1000);
const MAX: u32 = 1000;

/// The nth host sends a datagram. Returns whether it has a connection.
fn ask(conntrack: &Arc<Conntrack>, tracker: &mut Tracker, n: u32) -> bool {
    let before = conntrack.counters().get(Event::Created);
    let [_, a, b, c] = n.to_be_bytes();
    let mut frame = support::frame(&format!("66.{a}.{b}.{c}:6666>20.0.0.1:80 udp len=4"));
    let commit = CtAction { commit: true, zone: Zone(1), ..CtAction::default() };
    tracker.execute(NOW, &commit, std::slice::from_mut(&mut frame));
    conntrack.counters().get(Event::Created) > before
}

#[test]
fn while_a_thread_is_held_up_memory_does_not_grow_without_end() {
    let config = Config { connections_max: MAX, ..Config::default() };
    let conntrack = Arc::new(Conntrack::new(1, config));
    let [mut tracker, mut other] = [(); 2].map(|()| conntrack.tracker().expect("a tracker"));
    let held_up = other.guard();
    // Each new connection drops another one, until too many records wait.
    let made = (0..100_000).take_while(|&n| ask(&conntrack, &mut tracker, n)).count() as u32;
    let bound = 2 * MAX + (1 << 16);
    assert!((bound - 100..bound + 100).contains(&made), "{made}");
    let evicted = conntrack.counters().get(Event::EvictedUnanswered);
    (0..1000).for_each(|n| assert!(!ask(&conntrack, &mut tracker, 200_000 + n)));
    let counters = conntrack.counters();
    assert_eq!(counters.get(Event::RecordsWait), 1001);
    assert!(counters.get(Event::EvictedUnanswered) <= evicted + 1, "none is dropped in vain");
    assert_eq!((counters.get(Event::Full), counters.get(Event::FenceRefused)), (0, 0));
    drop(held_up);
    (0..5000).for_each(|n| assert!(ask(&conntrack, &mut tracker, 300_000 + n)));
    assert_eq!(conntrack.counters().get(Event::RecordsWait), 1001);
}
