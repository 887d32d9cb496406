//! The recorded steps of packets are what was done. In a long random run, with the caches on and off, the
//! steps contain every packet that was sent, dropped or upcalled, and nothing else; and recording changes
//! nothing.

mod support;

use base::Instant;
use datapath::{FoundBy, Observer, Step, WorkerConfig, WorkerStats};
use flow::{DropReason, TraceId};
use support::policy::Policy;
use support::switch::{Seen, Switch};
use support::traffic::Traffic;

#[derive(Default)]
struct Recorder(Vec<Step>);

impl Observer for Recorder {
    fn note(&mut self, step: impl FnOnce() -> Step) {
        self.0.push(step());
    }

    fn trace(&self) -> Option<TraceId> {
        Some(TraceId(1))
    }
}

impl Recorder {
    fn count(&self, is_it: impl Fn(&Step) -> bool) -> u64 {
        self.0.iter().filter(|step| is_it(step)).count() as u64
    }

    fn check(&self, before: &WorkerStats, seen: &Seen, what: &str) {
        let after = &seen.stats;
        let mut told: Vec<u32> = Vec::new();
        told.extend(self.0.iter().filter_map(|step| match step {
            Step::Output(port) => Some(port.0),
            _ => None,
        }));
        told.sort_unstable();
        let sent: Vec<u32> = seen.sent.iter().map(|sent| sent.port).collect();
        assert_eq!(told, sent, "{what}");
        for &reason in DropReason::ALL {
            let dropped = after.drops.get(reason) - before.drops.get(reason);
            assert_eq!(self.count(|it| *it == Step::Dropped(reason)), dropped, "{what} {reason:?}");
        }
        // The two caches together answer what one of them would alone.
        let hits = after.exact_hits - before.exact_hits;
        assert_eq!(self.count(|it| matches!(it, Step::Hit { .. })), hits, "{what}");
        let missed = after.misses + after.lost - before.misses - before.lost;
        assert_eq!(self.count(|it| matches!(it, Step::Missed { .. })), missed, "{what}");
    }
}

/// Returns the share of passes that hit the unified cache.
fn run(seed: u64, entries: usize) -> f64 {
    let policy = Policy::new(seed);
    let config = WorkerConfig { unified_entries: entries, ..WorkerConfig::default() };
    let mut told = Switch::new(policy.clone(), config);
    let mut untold = Switch::new(policy, config);
    let mut traffic = Traffic::new(seed);
    let mut now = Instant::from_millis(1000);
    let mut before = WorkerStats::default();
    for step in 0..1000 {
        let r = traffic.random();
        now = now + std::time::Duration::from_micros(r.u64(0..2000) * r.u64(0..500));
        let (what, class, nth, zone) = (r.u32(0..200), r.usize(0..16), r.usize(..), r.u16(1..3));
        for switch in [&mut told, &mut untold] {
            match what {
                0..4 => switch.change(now, class),
                4 => switch.renumber(now, nth),
                5 => switch.flush(now, zone),
                6..9 => switch.tick(now),
                _ => {}
            }
        }
        let first = traffic.next(0);
        let mut recorder = Recorder::default();
        let packets = [first.bytes];
        let seen = told.receive_telling(now, first.port, &packets, &mut recorder);
        let what = format!("seed {seed}, step {step}: {:?}", recorder.0);
        assert_eq!(seen, untold.receive_telling(now, first.port, &packets, &mut ()), "{what}");
        recorder.check(&before, &seen, &what);
        let by_cache = recorder.count(|it| matches!(it, Step::Hit { by: FoundBy::Unified, .. }));
        let known = |it: &Step| matches!(it, Step::Followed { is_as_known: true, .. });
        assert_eq!(by_cache > 0, recorder.count(known) > 0, "{what}");
        seen.sent.iter().filter(|it| it.port < 4).for_each(|it| traffic.saw(it));
        before = seen.stats;
    }
    assert_eq!(told.state(now), untold.state(now), "seed {seed}");
    told.unified_share()
}

#[test]
fn steps_are_what_was_done() {
    for seed in 300..306 {
        assert!(run(seed, 1 << 14) > 0.02, "seed {seed}");
        assert!(run(seed, 0) < f64::EPSILON, "seed {seed}");
    }
}
