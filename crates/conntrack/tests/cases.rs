//! Runs `testdata/conntrack/*.toml`: packets in, what is said of them out. Each case is played on
//! the tracker and on the oracle (`support/oracle`), and both must say what it expects.
//!
//! A step is a packet or an order to the tracker. `in` is a packet in `wire::text`'s form; `again`
//! sends the packet of the step before through once more, as recirculation does; `save` puts the
//! packet aside under a name, and `recall` sends it through once more later. The action is `zone`,
//! `commit`, `force`, `mark`, `label`, `nat` (`support::nat`) and `helper`. Steps are 1 ms apart
//! unless `at_ms` says when.
//!
//! `part` cuts the packet up: `[start, end]` of the bytes behind its IP header go in alone, as a
//! fragment. Where the step then has `parts`, these are the fragments that come out, each as its
//! state and its text; none stay to be sent `again`.
//!
//! What is then expected: `ct` the state, `out` the packet, `is_mark`, `is_label`, `tuple` the
//! original tuple in the key; and of the tracker: `dump` and `dump_all` (with `-m -s`) its lines,
//! `chosen` by a filter (`tidegate conntrack`'s words) which source ports, `stats` and `limits` texts, `count` counters, `connections` their number. Without `out` the
//! bytes must not change unless there is `nat`.
//!
//! Open vSwitch 3.1.0 gives the same states, packets and dumps, but where a case says that it
//! `differs`.

#[path = "support/oracle/mod.rs"]
mod oracle;
mod support;

use base::{Instant, Zone};
use conntrack::{CtFlush, Entry, Event, Filter, Stats, TimeoutPolicy, ZoneLimits};
use flow::{CtAction, Frame};
use oracle::Oracle;
use std::cell::RefCell;
use support::Tracked;
use support::case::SlowPathPacket;

/// The oracle, as cases ask it.
struct Asked(RefCell<Oracle>);

impl SlowPathPacket for Asked {
    fn track(&self, now: Instant, action: &CtAction, frame: &mut Frame) -> Vec<Frame> {
        self.0.borrow_mut().track(now, action, frame)
    }

    fn set_zone_limit(&self, zone: Option<Zone>, limit: u32) {
        let mut oracle = self.0.borrow_mut();
        match zone {
            None => oracle.limit_default = limit,
            Some(zone) => _ = oracle.limits.insert(zone.0, limit),
        }
    }

    fn clear_zone_limit(&self, zone: Zone) -> bool {
        self.0.borrow_mut().limits.remove(&zone.0).is_some()
    }

    fn set_timeouts(&self, zone: Option<Zone>, policy: TimeoutPolicy) {
        let mut oracle = self.0.borrow_mut();
        match zone {
            None => oracle.timeouts = policy,
            Some(zone) => _ = oracle.zone_timeouts.insert(zone.0, policy),
        }
    }

    fn set_check_tcp_windows(&self, check: bool) {
        self.0.borrow_mut().checks_windows = check;
    }

    fn set_connections_max(&self, max: u32) {
        self.0.borrow_mut().max = max;
    }

    fn tick(&self, now: Instant) {
        self.0.borrow_mut().expire(now);
    }

    fn flush(&self, now: Instant, flush: &CtFlush) -> Option<u32> {
        self.0.borrow_mut().flush(now, flush)
    }

    fn entries(&self, now: Instant, filter: &Filter) -> Vec<Entry> {
        self.0.borrow_mut().entries(now, filter)
    }

    fn stats(&self, now: Instant) -> Stats {
        self.0.borrow_mut().stats(now)
    }

    fn zone_limits(&self) -> ZoneLimits {
        self.0.borrow().zone_limits()
    }

    fn connections(&self) -> u32 {
        self.0.borrow().known.len() as u32
    }

    fn count(&self, event: Event) -> u64 {
        self.0.borrow().counted(event)
    }
}

#[test]
fn all_cases_on_the_oracle() {
    support::case::run_all(|config| Asked(RefCell::new(Oracle::new(&config))));
}

#[test]
fn all_cases() {
    support::case::run_all(|config| Tracked::new(7, config));
}
