//! The sleeps of a polling worker that may sleep (`pmd-sleep-max`).

use std::time::Duration;

/// So many packets from one queue in one iteration end a polling worker's sleeps
/// (ovs: `lib/dpif-netdev.c`, `PMD_SLEEP_THRESH`).
const WIDE_AWAKE_PACKETS: u64 = 16;
/// How much longer than the last each sleep is (ovs: `PMD_SLEEP_INC_US`).
const SLEEP_STEP: Duration = Duration::from_micros(1);

/// How long a polling worker sleeps next.
#[derive(Debug, Default)]
pub struct PmdSleep {
    longest: Duration,
    next: Duration,
}

impl PmdSleep {
    /// Sleeps are no longer than this; zero for none.
    pub fn set_longest(&mut self, longest: Duration) {
        self.longest = longest;
    }

    /// The sleep after a iteration in which so many packets came from the queue that had the most: a little
    /// longer than the last, up to the longest, unless much came.
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
