//! When connections are opened: evenly, and no faster than asked.

use base::Instant;

/// Opens fall due in groups of those of a fiftieth of a millisecond, or one by one where the rate is
/// lower than that: even within a millisecond, and no clockwork for each packet that arrives between
/// them. What a caller comes too late for is made up little by little, at five quarters of the rate or
/// by one open more in each group, and never in a burst that no one asked for: a device that carries
/// the rate would lose what comes at twice the rate, and would be blamed for it. What is later than
/// [`Pacer::LATE_NS`], or than so many opens take as no queue feels, is counted as missed.
#[derive(Clone, Debug)]
pub struct Pacer {
    per_second: u64,
    ramp_ns: u64,
    start: u64,
    asked_at: u64,
    /// What fell due until so long after the start has been handed out or missed. It is behind the
    /// time where a caller came too late, and catches up with it.
    until: u64,
    /// Opens that were handed out or missed since the start.
    settled: u64,
    missed: u64,
}

/// Late opens are made up this much faster than the rate, as a part of it.
const CATCH_UP_PART: u64 = 4;
/// The shortest time between two groups, in nanoseconds.
const GRAIN_NS: u64 = 20_000;
/// Opens that may always be late: one a group, they are no burst to any queue. At low rates they take
/// longer than [`Pacer::LATE_NS`], but half a second late is no longer the same rate.
const LATE_OPENS: u64 = 100;
const LATE_MOST_NS: u64 = 500_000_000;
/// The longest time whose opens are handed out at once, in nanoseconds.
const BURST_NS: u64 = 2_000_000;

impl Pacer {
    /// How late an open may be made at any rate, in nanoseconds: a few time slices of the system's
    /// scheduler.
    pub const LATE_NS: u64 = 20_000_000;

    /// `per_second` opens each second from `start` on, after a linear rise over `ramp_ms`.
    pub fn new(per_second: u64, ramp_ms: u64, start: Instant) -> Pacer {
        let ramp_ns = ramp_ms.saturating_mul(1_000_000);
        let start = start.as_nanos();
        Pacer { per_second, ramp_ns, start, asked_at: start, until: 0, settled: 0, missed: 0 }
    }

    /// How many connections are to be opened now.
    #[inline]
    pub fn due(&mut self, now: Instant) -> u64 {
        let is_soon = now.as_nanos().saturating_sub(self.asked_at) < GRAIN_NS;
        if is_soon { 0 } else { self.next_group(now) }
    }

    /// The same for a caller that did not do `left` of what was due before: they are due again, or
    /// missed when they are too late by now.
    #[inline]
    pub fn due_again(&mut self, left: u64, now: Instant) -> u64 {
        let is_soon = now.as_nanos().saturating_sub(self.asked_at) < GRAIN_NS;
        if is_soon {
            return left;
        }
        self.settled -= left.min(self.settled);
        self.next_group(now)
    }

    /// How late an open may be made at this rate, in nanoseconds.
    pub fn late_ns(per_second: u64) -> u64 {
        let one_open = 1_000_000_000 / per_second.max(1);
        (LATE_OPENS * one_open).clamp(Self::LATE_NS, LATE_MOST_NS)
    }

    fn next_group(&mut self, now: Instant) -> u64 {
        let elapsed = now.as_nanos().saturating_sub(self.start);
        let one_open = 1_000_000_000 / self.per_second.max(1);
        let oldest = elapsed.saturating_sub(Self::late_ns(self.per_second));
        // One may always be late, or low rates would miss all of theirs.
        let forgiven = self.cumulative(oldest).saturating_sub(1);
        if self.settled < forgiven {
            self.missed += forgiven - self.settled;
            self.settled = forgiven;
        }
        let gap = now.as_nanos().saturating_sub(self.asked_at).min(BURST_NS);
        self.asked_at = now.as_nanos();
        let more = one_open.max(gap / CATCH_UP_PART);
        self.until = elapsed.min(self.until.max(oldest) + gap + more);
        let due = self.cumulative(self.until).saturating_sub(self.settled);
        self.settled += due;
        due
    }

    /// Opens that fell due and were not handed out, since the driver did not ask in time.
    pub fn missed(&self) -> u64 {
        self.missed
    }

    /// Opens that fall due up to `elapsed` nanoseconds after the start.
    fn cumulative(&self, elapsed: u64) -> u64 {
        let (rate, t, ramp) =
            (u128::from(self.per_second), u128::from(elapsed), u128::from(self.ramp_ns));
        let second = 1_000_000_000u128;
        let total = if t < ramp {
            rate * t * t / (2 * ramp * second)
        } else {
            rate * (2 * t - ramp) / (2 * second)
        };
        u64::try_from(total).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn evenly_within_a_millisecond_and_exactly_over_a_second() {
        for rate in [1u64, 7, 100, 10_000, 333_333, 1_000_000] {
            let mut pacer = Pacer::new(rate, 0, Instant::ZERO);
            let mut total = 0;
            for step in 1..=100_000u64 {
                let due = pacer.due(Instant::from_nanos(step * 10_000));
                assert!(due <= rate.div_ceil(50_000), "{rate}: {due} at once");
                total += due;
            }
            assert_eq!((total, pacer.missed()), (rate, 0));
        }
    }

    #[test]
    fn late_callers_miss_opens_and_the_ramp_is_half() {
        let mut pacer = Pacer::new(1_000_000, 0, Instant::ZERO);
        let due = pacer.due(Instant::from_millis(500));
        assert_eq!((due, pacer.missed()), (2501, 479_999));
        // The rest of what is not too late comes at five quarters of the rate.
        let (mut total, mut most) = (due, 0);
        for us in (500_010..=700_000).step_by(10) {
            let due = pacer.due(Instant::from_nanos(us * 1000));
            (total, most) = (total + due, most.max(due));
        }
        assert_eq!((total + pacer.missed(), most), (700_000, 25));
        // At a low rate one more each time is soon all, and more of it is waited for.
        let mut pacer = Pacer::new(1000, 0, Instant::ZERO);
        let due = pacer.due(Instant::from_millis(500));
        assert_eq!((due, pacer.missed()), (4, 399));
        let asked: Vec<u64> =
            (1..=45).map(|n| pacer.due(Instant::from_nanos(500_000_000 + n * 20_000))).collect();
        assert_eq!((asked.iter().sum::<u64>(), asked.iter().max()), (45, Some(&1)));
        // A caller that does a tenth of what is due misses the rest, but for what may be late.
        let mut pacer = Pacer::new(100_000, 0, Instant::ZERO);
        let (mut done, mut left) = (0, 0);
        for ms in 1..=1000 {
            let due = pacer.due_again(left, Instant::from_millis(ms));
            done += due.min(10);
            left = due.saturating_sub(10);
        }
        assert_eq!((done, done + left + pacer.missed()), (10_000, 100_000));
        assert!(left <= 2001, "{left}");
        let mut pacer = Pacer::new(1000, 2000, Instant::ZERO);
        let total: u64 = (1..=4000).map(|ms| pacer.due(Instant::from_millis(ms))).sum();
        assert_eq!((total, pacer.missed()), (3000, 0));
    }
}
