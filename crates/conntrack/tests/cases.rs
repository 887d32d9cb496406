//! Runs `testdata/conntrack/*.toml`: packets, and the expected connection state of each. Each case runs on
//! the tracker and on the oracle (`support/oracle`); both must give the expected results.
//!
//! A step is a packet or a command to the tracker. `in` is a packet in the text form of `wire::text`; `again`
//! sends the packet of the previous step once more, as recirculation does; `save` stores the packet under a
//! name, and `recall` sends it again later. The action consists of `zone`, `commit`, `force`, `mark`,
//! `label`, `nat` (`support::nat`) and `helper`. Steps are 1 ms apart unless `at_ms` sets the time.
//!
//! `part` fragments the packet: only the bytes `[start, end]` after its IP header are sent, as a fragment. If
//! the step has `parts`, these are the expected fragments, each as state and text; none are left for `again`.
//!
//! Expected results: `ct` is the state, `out` the packet, `is_mark` and `is_label` the mark and label,
//! `tuple` the original tuple in the key. Of the tracker: `dump` and `dump_all` (with `-m -s`) are its lines,
//! `chosen` maps a filter (in the syntax of `tidegate conntrack`) to source ports, `stats` and `limits` are
//! texts, `count` are counters, `connections` is their number. Without `out`, the bytes must not change
//! unless there is `nat`.
//!
//! Open vSwitch 3.1.0 gives the same states, packets and dumps, unless a case `differs`.

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

/// The oracle as an implementation for cases.
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
