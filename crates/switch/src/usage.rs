//! Busy time of a worker or a queue over the last minute.

use std::time::Duration;

/// Length of an interval (ovs: `lib/dpif-netdev.c`, `PMD_INTERVAL_LEN`).
pub const INTERVAL: Duration = Duration::from_secs(5);
/// Number of intervals that are kept.
pub const INTERVALS: usize = 12;

/// Time in the last [`INTERVALS`] complete intervals and in the current one, in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    running_ns: u64,
    past_ns: [u64; INTERVALS],
    /// Index of the next interval.
    next: usize,
}

impl Usage {
    /// Adds time to the current interval.
    pub fn add(&mut self, ns: u64) {
        self.running_ns += ns;
    }

    /// Ends the current interval. Returns its time.
    pub fn end_interval(&mut self) -> u64 {
        let ended = std::mem::take(&mut self.running_ns);
        self.past_ns[self.next] = ended;
        self.next = (self.next + 1) % INTERVALS;
        ended
    }

    /// Returns the time in the last `intervals` complete intervals.
    pub fn sum_ns(&self, intervals: usize) -> u64 {
        let back = |age: usize| self.past_ns[(self.next + INTERVALS - age) % INTERVALS];
        (1..=intervals.min(INTERVALS)).map(back).sum()
    }
}

/// Returns `part` of `total` in whole percent, as Open vSwitch prints it; `None` if `total` is zero.
pub fn percent(part: u64, total: u64) -> Option<u64> {
    (total > 0).then(|| (u128::from(part) * 100 / u128::from(total)) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_interval_gives_way_to_the_newest() {
        let mut usage = Usage::default();
        for interval in 1..=15u64 {
            usage.add(interval);
            usage.add(100);
            assert_eq!(usage.end_interval(), 100 + interval);
        }
        usage.add(7);
        for (intervals, expect) in [(0, 0), (1, 115), (2, 229), (12, 12 * 100 + 114), (99, 1314)] {
            assert_eq!(usage.sum_ns(intervals), expect, "{intervals} intervals");
        }
    }

    #[test]
    fn shares_are_whole_percent() {
        for (part, total, expect) in
            [(0, 0, None), (1, 3, Some(33)), (u64::MAX, u64::MAX, Some(100)), (0, 9, Some(0))]
        {
            assert_eq!(percent(part, total), expect, "{part} of {total}");
        }
    }
}
