//! A log-linear histogram of durations.

use std::time::Duration;

/// The logarithm of the number of buckets per power of two: the relative error is at most 1/32.
const SUB_BITS: u32 = 5;
const SUB: usize = 1 << SUB_BITS;
const BUCKETS: usize = (64 - SUB_BITS as usize + 1) * SUB;

/// Counts durations in nanoseconds. It has a fixed size of 15 KB.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram {
    buckets: Box<[u64]>,
    count: u64,
    sum_ns: u128,
    min_ns: u64,
    max_ns: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        let buckets = vec![0; BUCKETS].into_boxed_slice();
        Histogram { buckets, count: 0, sum_ns: 0, min_ns: u64::MAX, max_ns: 0 }
    }
}

impl Histogram {
    /// Adds one duration of `ns` nanoseconds.
    pub fn record(&mut self, ns: u64) {
        self.record_many(ns, 1);
    }

    /// Adds the same duration `times` times, at least once.
    pub fn record_many(&mut self, ns: u64, times: u64) {
        if let Some(bucket) = self.buckets.get_mut(bucket_of(ns)) {
            *bucket += times;
        }
        self.count += times;
        self.sum_ns += u128::from(ns) * u128::from(times);
        self.min_ns = self.min_ns.min(ns);
        self.max_ns = self.max_ns.max(ns);
    }

    /// Returns the number of recorded durations.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns the mean, or `None` if nothing was recorded.
    pub fn mean(&self) -> Option<Duration> {
        let mean = self.sum_ns.checked_div(u128::from(self.count))?;
        Some(Duration::from_nanos(u64::try_from(mean).unwrap_or(u64::MAX)))
    }

    /// Returns the exact minimum and maximum.
    pub fn extremes(&self) -> Option<(Duration, Duration)> {
        let (min, max) = (Duration::from_nanos(self.min_ns), Duration::from_nanos(self.max_ns));
        (self.count > 0).then_some((min, max))
    }

    /// Returns the percentile `percent`, with a relative error of at most 1/32.
    pub fn percentile(&self, percent: f64) -> Option<Duration> {
        if self.count == 0 {
            return None;
        }
        let wanted = ((percent / 100.0 * self.count as f64).ceil() as u64).clamp(1, self.count);
        let mut seen = 0;
        for (index, &count) in self.buckets.iter().enumerate() {
            seen += count;
            if seen >= wanted {
                let ns = upper_end(index).clamp(self.min_ns, self.max_ns);
                return Some(Duration::from_nanos(ns));
            }
        }
        Some(Duration::from_nanos(self.max_ns))
    }

    /// Returns the durations recorded since `before`, an earlier state of this histogram. Its minimum and
    /// maximum have only the resolution of the buckets.
    #[must_use]
    pub fn since(&self, before: &Histogram) -> Histogram {
        let mut found = Histogram::default();
        let pairs = self.buckets.iter().zip(&before.buckets);
        for (index, ((now, then), to)) in pairs.zip(&mut found.buckets).enumerate() {
            *to = now.saturating_sub(*then);
            if *to > 0 {
                let low = index.checked_sub(1).map_or(0, |below| upper_end(below) + 1);
                found.min_ns = found.min_ns.min(low.max(self.min_ns));
                found.max_ns = upper_end(index).min(self.max_ns);
            }
        }
        found.count = self.count.saturating_sub(before.count);
        found.sum_ns = self.sum_ns.saturating_sub(before.sum_ns);
        found
    }

    /// Returns the non-empty buckets: the largest duration of each in nanoseconds, and the count.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let all = self.buckets.iter().enumerate();
        all.filter(|(_, count)| **count > 0).map(|(index, count)| (upper_end(index), *count))
    }

    /// Adds the durations of another histogram.
    pub fn merge(&mut self, other: &Histogram) {
        for (to, from) in self.buckets.iter_mut().zip(&other.buckets) {
            *to += from;
        }
        self.count += other.count;
        self.sum_ns += other.sum_ns;
        self.min_ns = self.min_ns.min(other.min_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
    }
}

fn bucket_of(ns: u64) -> usize {
    if ns < SUB as u64 {
        return ns as usize;
    }
    let shift = ns.ilog2() - SUB_BITS;
    (shift as usize + 1) * SUB + (ns >> shift) as usize - SUB
}

/// Returns the largest value of a bucket.
fn upper_end(index: usize) -> u64 {
    if index < SUB {
        return index as u64;
    }
    let shift = index / SUB - 1;
    let low = ((index % SUB + SUB) as u64) << shift;
    low + ((1u64 << shift) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_value_lies_in_its_bucket(ns in any::<u64>()) {
            let index = bucket_of(ns);
            prop_assert!(index < BUCKETS);
            let end = upper_end(index);
            prop_assert!(ns <= end && end - ns <= ns / 32, "{} {}", ns, end);
        }

        #[test]
        fn percentiles_agree_with_sorting(mut all in proptest::collection::vec(0u64..1 << 40, 1..200), p in 0.0f64..100.0) {
            let mut histogram = Histogram::default();
            all.iter().for_each(|&ns| histogram.record(ns));
            all.sort_unstable();
            let rank = ((p / 100.0 * all.len() as f64).ceil() as usize).clamp(1, all.len());
            let exact = all[rank - 1];
            let got = histogram.percentile(p).unwrap().as_nanos() as u64;
            prop_assert!(got >= exact && got <= exact + exact / 32, "{} {}", got, exact);
        }
    }

    #[test]
    fn merged_is_as_if_recorded_together() {
        let (mut a, mut b, mut both) =
            (Histogram::default(), Histogram::default(), Histogram::default());
        assert!(a.percentile(50.0).is_none() && a.mean().is_none() && a.extremes().is_none());
        for ns in 0..1000 {
            if ns % 3 == 0 {
                a.record(ns)
            } else {
                b.record(ns * 7)
            }
            both.record(if ns % 3 == 0 { ns } else { ns * 7 });
        }
        let before = a.clone();
        a.merge(&b);
        assert_eq!(a, both);
        let later = a.since(&before);
        assert_eq!((later.count(), later.mean()), (b.count(), b.mean()));
        assert_eq!(later.percentile(50.0), b.percentile(50.0));
        assert_eq!(a.buckets().map(|(_, count)| count).sum::<u64>(), 1000);
        assert_eq!(a.since(&a), Histogram::default());
    }
}
