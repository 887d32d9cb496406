//! The timers' clock, which catches up gradually after the driver was away.

use crate::pacer::Pacer;
use base::Instant;

/// The time by which timers run, which equals the real time while the driver calls often enough. After a
/// pause of some milliseconds, the timers of all those milliseconds are due. Firing them at once would make a
/// burst longer than the device's queues, and the device would be blamed for the generator's pause. So this
/// clock continues from where it stood at 1.25 times the real pace, and is never later than
/// [`Pacer::LATE_NS`].
pub(crate) struct Late {
    shown_ns: u64,
    asked_ns: u64,
}

/// Most nanoseconds by which the clock advances in one call.
const STEP_NS: u64 = 2_000_000;

impl Late {
    /// A clock that shows `now`.
    pub fn new(now: Instant) -> Late {
        Late { shown_ns: now.as_nanos(), asked_ns: now.as_nanos() }
    }

    /// Returns the timers' time at the real time `now`.
    #[inline]
    pub fn now(&mut self, now: Instant) -> Instant {
        let now_ns = now.as_nanos();
        let passed = now_ns.saturating_sub(self.asked_ns).min(STEP_NS);
        let oldest = now_ns.saturating_sub(Pacer::LATE_NS);
        self.asked_ns = now_ns;
        self.shown_ns = (self.shown_ns + passed + passed / 4).max(oldest).min(now_ns);
        Instant::from_nanos(self.shown_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_late_is_made_up_at_five_quarters_of_the_pace() {
        let mut late = Late::new(Instant::from_millis(100));
        // The real time and the expected timers' time, in microseconds.
        let cases = [
            (100_000, 100_000),
            (101_000, 101_000),
            (103_500, 103_500),
            // Away for 10 ms, then driven again.
            (113_500, 106_000),
            (114_500, 107_250),
            (115_500, 108_500),
            (145_500, 125_500),
        ];
        for (asked_us, expect_us) in cases {
            let shown = late.now(Instant::from_nanos(asked_us * 1000));
            assert_eq!(shown.as_nanos() / 1000, expect_us, "at {asked_us}");
        }
        for us in 145_501..=245_500u64 {
            late.now(Instant::from_nanos(us * 1000));
        }
        let now = Instant::from_nanos(245_501_000);
        assert_eq!(late.now(now), now);
    }
}
