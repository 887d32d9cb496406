//! The sleeps of a polling worker that may sleep (`pmd-sleep-max`).

use std::time::Duration;

/// This many packets from one queue in one iteration end a polling worker's sleeps (ovs: `lib/dpif-netdev.c`,
/// `PMD_SLEEP_THRESH`).
const WIDE_AWAKE_PACKETS: u64 = 16;
/// Increase of each sleep over the last (ovs: `PMD_SLEEP_INC_US`).
const SLEEP_STEP: Duration = Duration::from_micros(1);

/// The next sleep of a polling worker.
#[derive(Debug, Default)]
pub struct PmdSleep {
    longest: Duration,
    next: Duration,
}

impl PmdSleep {
    /// Sets the longest sleep; zero disables sleeps.
    pub fn set_longest(&mut self, longest: Duration) {
        self.longest = longest;
    }

    /// Returns the sleep after an iteration in which the busiest queue had this many packets: a little longer
    /// than the last, up to the longest; `None` for many packets.
    pub fn next(&mut self, packets: u64) -> Option<Duration> {
        if self.longest.is_zero() || packets >= WIDE_AWAKE_PACKETS {
            self.next = Duration::ZERO;
            return None;
        }
        let sleep = self.next;
        self.next = (sleep + SLEEP_STEP).min(self.longest);
        (!sleep.is_zero()).then_some(sleep)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sleeps_grow_until_much_comes() {
        let mut pmd_sleep = PmdSleep::default();
        for (longest_us, packets, expect_us) in [
            (0, 0, None),
            (2, 0, None),
            (2, 15, Some(1)),
            (2, 0, Some(2)),
            (2, 0, Some(2)),
            (2, 16, None),
            (2, 0, None),
            (2, 0, Some(1)),
            (0, 0, None),
        ] {
            pmd_sleep.set_longest(Duration::from_micros(longest_us));
            let expect = expect_us.map(Duration::from_micros);
            assert_eq!(pmd_sleep.next(packets), expect, "{longest_us} {packets}");
        }
    }
}
