//! Paces opens: evenly, and no faster than the configured rate.

use base::Instant;

/// Opens are due in groups, one group every 20 microseconds, or one by one at lower rates: even within a
/// millisecond, without work for each packet that arrives between two groups. Opens that the caller was late
/// for are made up at 1.25 times the rate, or with one extra open per group, and never in a burst: a device
/// that carries the rate would drop packets at twice the rate and be blamed for it. Opens that are more than
/// [`Pacer::late_ns`] late count as missed.
#[derive(Clone, Debug)]
pub struct Pacer {
    per_second: u64,
    ramp_ns: u64,
    start: u64,
    asked_at: u64,
    /// Opens that were due up to this many nanoseconds after the start were handed out or missed. It is
    /// behind the time after a late call, and catches up.
    until: u64,
    /// Opens that were handed out or missed since the start.
    settled: u64,
    missed: u64,
}

/// Late opens are made up faster than the rate by one part in this many.
const CATCH_UP_PART: u64 = 4;
/// Shortest time between two groups, in nanoseconds.
const GRAIN_NS: u64 = 20_000;
/// Opens that may always be late: at one extra open per group they are no burst. At low rates they take
/// longer than [`Pacer::LATE_NS`], but an open that is half a second late no longer keeps the rate.
const LATE_OPENS: u64 = 100;
const LATE_MOST_NS: u64 = 500_000_000;
/// Longest time whose opens are handed out at once, in nanoseconds.
const BURST_NS: u64 = 2_000_000;

impl Pacer {
    /// How late an open may be at any rate, in nanoseconds: a few time slices of the scheduler.
    pub const LATE_NS: u64 = 20_000_000;

    /// `per_second` opens each second from `start` on, after a linear rise over `ramp_ms`.
    pub fn new(per_second: u64, ramp_ms: u64, start: Instant) -> Pacer {
        let ramp_ns = ramp_ms.saturating_mul(1_000_000);
        let start = start.as_nanos();
        Pacer { per_second, ramp_ns, start, asked_at: start, until: 0, settled: 0, missed: 0 }
    }

    /// Returns the number of connections to open now.
    #[inline]
    pub fn due(&mut self, now: Instant) -> u64 {
        let is_soon = now.as_nanos().saturating_sub(self.asked_at) < GRAIN_NS;
        if is_soon { 0 } else { self.next_group(now) }
    }

    /// As [`Pacer::due`], for a caller that did not open `left` of the previous number: they are due again,
    /// or missed if they are now too late.
    #[inline]
    pub fn due_again(&mut self, left: u64, now: Instant) -> u64 {
        let is_soon = now.as_nanos().saturating_sub(self.asked_at) < GRAIN_NS;
        if is_soon {
            return left;
        }
        self.settled -= left.min(self.settled);
        self.next_group(now)
    }

    /// Returns how late an open may be at this rate, in nanoseconds.
    pub fn late_ns(per_second: u64) -> u64 {
        let one_open = 1_000_000_000 / per_second.max(1);
        (LATE_OPENS * one_open).clamp(Self::LATE_NS, LATE_MOST_NS)
    }

    fn next_group(&mut self, now: Instant) -> u64 {
        let elapsed = now.as_nanos().saturating_sub(self.start);
        let one_open = 1_000_000_000 / self.per_second.max(1);
        let oldest = elapsed.saturating_sub(Self::late_ns(self.per_second));
        // One open may always be late; otherwise low rates would miss all of theirs.
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

    /// Returns the opens that were due and not handed out because the driver called too late.
    pub fn missed(&self) -> u64 {
        self.missed
    }

    /// Returns the number of opens that are due up to `elapsed` nanoseconds after the start.
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
        // The rest of the opens that are not too late comes at 1.25 times the rate.
        let (mut total, mut most) = (due, 0);
        for us in (500_010..=700_000).step_by(10) {
            let due = pacer.due(Instant::from_nanos(us * 1000));
            (total, most) = (total + due, most.max(due));
        }
        assert_eq!((total + pacer.missed(), most), (700_000, 25));
        // At a low rate one extra open per group catches up soon, and more opens may be late.
        let mut pacer = Pacer::new(1000, 0, Instant::ZERO);
        let due = pacer.due(Instant::from_millis(500));
        assert_eq!((due, pacer.missed()), (4, 399));
        let asked: Vec<u64> =
            (1..=45).map(|n| pacer.due(Instant::from_nanos(500_000_000 + n * 20_000))).collect();
        assert_eq!((asked.iter().sum::<u64>(), asked.iter().max()), (45, Some(&1)));
        // A caller that opens a tenth of what is due misses the rest, except for what may be late.
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
