//! Distributions of values: percentiles, and counts by powers of two.

use base::Histogram;
use std::time::Duration;

/// One for zero, and one for each power of two up to 2^39.
const OCTAVES: usize = 41;

/// A distribution. Times are recorded in nanoseconds; their powers of two are in microseconds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Spread {
    values: Histogram,
    octaves: [u64; OCTAVES],
}

/// A summary of a distribution.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Summary {
    /// Number of values.
    pub count: u64,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
    /// The mean.
    pub average: f64,
    /// The 50th, 90th, 99th and 99.9th percentile, within one part in 32.
    pub percentiles: [f64; 4],
}

impl Default for Spread {
    fn default() -> Self {
        Spread { values: Histogram::default(), octaves: [0; OCTAVES] }
    }
}

impl Spread {
    /// Records a time `times` times.
    pub fn record_ns(&mut self, ns: u64, times: u64) {
        self.add(ns, ns / 1000, times);
    }

    /// Records a number.
    pub fn record(&mut self, value: u64) {
        self.add(value, value, 1);
    }

    fn add(&mut self, value: u64, in_unit: u64, times: u64) {
        self.values.record_many(value, times);
        let octave = in_unit.checked_ilog2().map_or(0, |bits| bits as usize + 1);
        self.octaves[octave.min(OCTAVES - 1)] += times;
    }

    /// Adds another distribution.
    pub fn merge(&mut self, other: &Spread) {
        self.values.merge(&other.values);
        for (to, from) in self.octaves.iter_mut().zip(&other.octaves) {
            *to += from;
        }
    }

    /// Returns the number of values.
    pub fn count(&self) -> u64 {
        self.values.count()
    }

    /// Returns the summary of times, in microseconds.
    pub fn summary_us(&self) -> Summary {
        self.summary(1000.0)
    }

    /// Returns the summary of numbers.
    pub fn summary_plain(&self) -> Summary {
        self.summary(1.0)
    }

    fn summary(&self, unit: f64) -> Summary {
        let value = |it: Option<Duration>| it.map_or(0.0, |it| it.as_nanos() as f64 / unit);
        let (min, max) = self.values.extremes().unzip();
        Summary {
            count: self.values.count(),
            min: value(min),
            max: value(max),
            average: value(self.values.mean()),
            percentiles: [50.0, 90.0, 99.0, 99.9].map(|it| value(self.values.percentile(it))),
        }
    }

    /// Returns times in microseconds, each with the number of values up to it.
    pub fn cumulative_us(&self) -> impl Iterator<Item = (f64, u64)> + '_ {
        self.values.buckets().scan(0, |sum, (ns, count)| {
            *sum += count;
            Some((ns as f64 / 1e3, *sum))
        })
    }

    /// Returns the lower end of each power of two, up to the last with values, and its count.
    pub fn octaves(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let used = self.octaves.iter().rposition(|&count| count > 0).map_or(0, |last| last + 1);
        let lower = |at: usize| if at == 0 { 0 } else { 1u64 << (at - 1) };
        self.octaves[..used].iter().enumerate().map(move |(at, &count)| (lower(at), count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_fall_into_the_power_of_two_that_is_not_larger() {
        for (us, octave) in
            [(0, 0), (1, 1), (2, 2), (3, 2), (4, 4), (63, 32), (64, 64), (1 << 39, 1 << 39)]
        {
            for ns in [us * 1000, us * 1000 + 999] {
                let mut spread = Spread::default();
                spread.record_ns(ns, 1);
                assert_eq!(spread.octaves().last(), Some((octave, 1)), "{ns}");
            }
        }
        let mut spread = Spread::default();
        spread.record(u64::MAX);
        assert_eq!(spread.octaves().last(), Some((1 << 39, 1)));
        assert_eq!(Spread::default().octaves().count(), 0);
    }

    #[test]
    fn cumulative_counts_end_with_all() {
        let mut spread = Spread::default();
        for us in [1, 1, 5, 1000] {
            spread.record_ns(us * 1000, 1);
        }
        let counts: Vec<u64> = spread.cumulative_us().map(|(_, count)| count).collect();
        let times: Vec<f64> = spread.cumulative_us().map(|(us, _)| us).collect();
        assert_eq!(counts, [2, 3, 4]);
        assert!(times.is_sorted() && (1000.0..1040.0).contains(&times[2]), "{times:?}");
    }

    #[test]
    fn percentiles_are_values_that_came() {
        let mut spread = Spread::default();
        (1..=1000).for_each(|us| spread.record_ns(us * 1000, 1));
        let it = spread.summary_us();
        assert_eq!((it.count, it.min, it.max, it.average), (1000, 1.0, 1000.0, 500.5));
        for (have, want) in it.percentiles.iter().zip([500.0, 900.0, 990.0, 999.0]) {
            assert!(*have >= want && *have <= want * 33.0 / 32.0, "{have} {want}");
        }
        assert_eq!(Spread::default().summary_us(), Summary::default());
    }
}
