//! Automatic reassignment of queues (ovs: `lib/dpif-netdev.c`, `pmd_auto_lb`).
//!
//! A worker that was overloaded for a whole minute triggers an attempt, at most once per
//! `pmd-auto-lb-rebal-interval` minutes. An attempt computes another assignment, which is applied only if it
//! is better.

use super::assignment::{Assignment, Queue, unevenness};
use super::usage::{INTERVALS, percent};
use base::Instant;
use control::{AutoBalance, RxqAssign};
use std::time::Duration;

/// A worker's load in its last interval.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Load {
    /// The number of intervals that have ended.
    pub intervals: u64,
    /// Busy time in the last interval.
    pub busy_ns: u64,
    /// Length of the last interval.
    pub total_ns: u64,
}

/// Monitors the workers' loads.
#[derive(Debug, Default)]
pub struct Balancer {
    /// By worker: the last interval that was observed, and the number of overloaded ones in a row.
    workers: Vec<(u64, usize)>,
    attempted: Option<Instant>,
    /// The assignment that the last check could not improve.
    hopeless: Option<(RxqAssign, Assignment)>,
}

impl Balancer {
    /// Observes a worker's last interval, once.
    pub fn observe(&mut self, worker: usize, load: Load, settings: AutoBalance, isolated: bool) {
        if self.workers.len() <= worker {
            self.workers.resize(worker + 1, (0, 0));
        }
        let (seen, overloaded) = &mut self.workers[worker];
        if load.intervals == *seen {
            return;
        }
        *seen = load.intervals;
        let busy = percent(load.busy_ns, load.total_ns).unwrap_or(0);
        let is_too_busy = !isolated && busy >= settings.load_percent.into();
        *overloaded = if is_too_busy { *overloaded + 1 } else { 0 };
    }

    /// Returns whether an attempt is due: the interval is over, and a worker was overloaded for a minute. The
    /// first interval begins with the first call.
    pub fn is_due(&mut self, now: Instant, settings: AutoBalance) -> bool {
        let Some(attempted) = self.attempted else {
            self.attempted = Some(now);
            return false;
        };
        if now - attempted <= Duration::from_secs(60 * u64::from(settings.interval_min)) {
            return false;
        }
        self.attempted = Some(now);
        self.workers.iter().any(|(_, overloaded)| *overloaded >= INTERVALS)
    }

    /// Returns whether another assignment could improve anything. The reason why not is logged once per
    /// assignment.
    pub fn has_hope(&mut self, way: RxqAssign, current: &Assignment) -> bool {
        let nothing = "PMD auto load balance nothing to do";
        if self.hopeless.as_ref().is_some_and(|(was, known)| (*was, known) == (way, current)) {
            log::debug!(
                target: "dpif_netdev",
                "{nothing}, no configuration changes since last check."
            );
            return false;
        }
        let obstacle = obstacle(way, current);
        if let Some(obstacle) = obstacle {
            log::debug!(target: "dpif_netdev", "{nothing}, {obstacle}");
        }
        self.hopeless = obstacle.map(|_| (way, current.clone()));
        obstacle.is_none()
    }

    /// Resets everything, after a reassignment or when balancing is disabled.
    pub fn reset(&mut self) {
        *self = Balancer::default();
    }
}

/// Returns why no other assignment could improve anything, if so: the algorithm must use loads, and a worker
/// must have more than one queue to move.
pub fn obstacle(way: RxqAssign, current: &Assignment) -> Option<&'static str> {
    if way == RxqAssign::RoundRobin {
        return Some("pmd-rxq-assign=roundrobin assignment type configured.");
    }
    let open: Vec<usize> =
        (0..current.isolated.len()).filter(|worker| !current.isolated[*worker]).collect();
    let held = |worker: &usize| current.workers.iter().filter(|w| **w == Some(*worker)).count();
    let can_improve = open.len() > 1 && open.iter().any(|worker| held(worker) > 1);
    (!can_improve).then_some("not enough non-isolated PMDs or RxQs.")
}

/// Returns whether `next` is sufficiently more even than `current`. `worker_ns` is the length of each
/// worker's last minute.
pub fn is_worthwhile(
    current: &Assignment,
    next: &Assignment,
    queues: &[Queue],
    worker_ns: &[u64],
    settings: AutoBalance,
) -> bool {
    let [now, then] = [current, next].map(|one| unevenness(one, queues, worker_ns));
    let improvement = percent(now.saturating_sub(then), now).unwrap_or(0);
    log::debug!(
        target: "dpif_netdev",
        "Current variance {now} Estimated variance {then}. Variance improvement {improvement}%."
    );
    improvement >= settings.improvement_percent.into() && then < now
}

#[cfg(test)]
mod tests {
    use super::super::assignment::{Core, assign};
    use super::*;
    use base::PortNo;
    use control::Isolation;

    const SETTINGS: AutoBalance =
        AutoBalance { enabled: true, interval_min: 1, load_percent: 95, improvement_percent: 25 };

    fn at(seconds: u64) -> Instant {
        Instant::from_nanos(1 + seconds * 1_000_000_000)
    }

    #[test]
    fn a_minute_of_too_much_makes_an_attempt_due() {
        // (load of the worker in each 5-second interval, the times at which an attempt follows).
        let check = |busy: &dyn Fn(u64) -> u64, isolated: bool, expect: &[u64]| {
            let mut balancer = Balancer::default();
            let mut due = Vec::new();
            for second in 0..300 {
                let intervals = second / 5;
                let load = Load { intervals, busy_ns: busy(intervals), total_ns: 100 };
                balancer.observe(0, load, SETTINGS, isolated);
                if balancer.is_due(at(second), SETTINGS) {
                    due.push(second);
                }
            }
            assert_eq!(due, expect);
        };
        check(&|_| 95, false, &[61, 122, 183, 244]);
        check(&|_| 94, false, &[]);
        check(&|_| 100, true, &[]);
        // One quiet interval restarts the minute.
        check(&|interval| if interval == 10 { 0 } else { 100 }, false, &[122, 183, 244]);
        check(&|interval| if interval % 6 == 0 { 0 } else { 100 }, false, &[]);
    }

    #[test]
    fn an_attempt_waits_for_its_interval_and_begins_anew_after_a_reset() {
        let settings = AutoBalance { interval_min: 2, ..SETTINGS };
        let mut balancer = Balancer::default();
        for interval in 1..=20 {
            let load = Load { intervals: interval, busy_ns: 100, total_ns: 100 };
            balancer.observe(1, load, settings, false);
        }
        assert!(!balancer.is_due(at(0), settings));
        assert!(!balancer.is_due(at(120), settings));
        assert!(balancer.is_due(at(121), settings));
        balancer.reset();
        assert!(!balancer.is_due(at(300), settings) && !balancer.is_due(at(500), settings));
    }

    #[test]
    fn what_cannot_be_improved_is_looked_at_once() {
        let mut balancer = Balancer::default();
        let [one, two] = [1, 2].map(|workers| Assignment {
            workers: vec![Some(0); 2],
            isolated: vec![false; workers],
            unpinned: Vec::new(),
        });
        let mut check = |way, current, hope, hopeless| {
            assert_eq!(balancer.has_hope(way, current), hope);
            assert_eq!(balancer.hopeless.is_some(), hopeless);
        };
        check(RxqAssign::Cycles, &one, false, true);
        check(RxqAssign::Cycles, &one, false, true);
        check(RxqAssign::Cycles, &two, true, false);
        check(RxqAssign::RoundRobin, &two, false, true);
        check(RxqAssign::Group, &two, true, false);
    }

    #[test]
    fn only_a_better_assignment_is_worth_it() {
        let queue = |(index, busy_ns): (usize, u64)| Queue {
            port: PortNo(index as u32 + 1),
            queue: 0,
            numa: 0,
            busy_ns,
            pinned: None,
            is_slow: false,
            stays: None,
        };
        let cores = [0, 1].map(|cpu| Core { cpu: Some(cpu), numa: 0 });
        // (load of each queue in percent, its worker, whether anything changes).
        let check = |busy: &[u64], now: &[usize], way, expect: bool| {
            let queues: Vec<Queue> = busy.iter().copied().enumerate().map(queue).collect();
            let workers = now.iter().copied().map(Some).collect();
            let current = Assignment { workers, isolated: vec![false; 2], unpinned: Vec::new() };
            let next = assign(&cores, &queues, way, Isolation::Isolated);
            let found = obstacle(way, &current).is_none()
                && is_worthwhile(&current, &next, &queues, &[100, 100], SETTINGS);
            assert_eq!(found, expect, "{busy:?} on {now:?}, {way:?}");
        };
        check(&[48, 48, 2, 2], &[0, 0, 1, 1], RxqAssign::Cycles, true);
        check(&[48, 48, 2, 2], &[0, 0, 1, 1], RxqAssign::Group, true);
        check(&[48, 48, 2, 2], &[0, 0, 1, 1], RxqAssign::RoundRobin, false);
        check(&[48, 48, 2, 2], &[0, 1, 1, 0], RxqAssign::Cycles, false);
        // One queue per worker: nothing can be moved.
        check(&[96, 2], &[0, 1], RxqAssign::Cycles, false);
        // 90 + 10 against 8: moving the 10 reduces the variance only from 2116 to 1296 (38%).
        check(&[90, 10, 8], &[0, 0, 1], RxqAssign::Cycles, true);
        // 60 + 5 against 30: 17² to 12²: half; 60 + 1 against 30: 15² to 14²: an eighth.
        check(&[60, 5, 30], &[0, 0, 1], RxqAssign::Group, true);
        check(&[60, 1, 30], &[0, 0, 1], RxqAssign::Group, false);
    }
}
