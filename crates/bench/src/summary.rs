//! A summary of samples.

use serde::Serialize;

/// A summary of samples. Percentiles are by nearest rank, so each is a measured sample.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Summary {
    /// The smallest.
    pub min: f64,
    /// The 50th percentile.
    pub median: f64,
    /// The 95th percentile.
    pub p95: f64,
    /// The 99th percentile.
    pub p99: f64,
    /// The largest.
    pub max: f64,
    /// The arithmetic mean.
    pub mean: f64,
}

impl Summary {
    /// Summarises samples; `None` if there are none.
    pub fn of(samples: &[f64]) -> Option<Summary> {
        let mut sorted = samples.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        let rank = |percent: usize| {
            let rank = (sorted.len() * percent).div_ceil(100).max(1);
            sorted[rank - 1]
        };
        Some(Summary {
            min,
            median: rank(50),
            p95: rank(95),
            p99: rank(99),
            max,
            mean: sorted.iter().sum::<f64>() / sorted.len() as f64,
        })
    }

    /// The summary in another unit.
    #[must_use]
    pub fn times(self, factor: f64) -> Summary {
        Summary {
            min: self.min * factor,
            median: self.median * factor,
            p95: self.p95 * factor,
            p99: self.p99 * factor,
            max: self.max * factor,
            mean: self.mean * factor,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_samples_by_nearest_rank() {
        let numbers = |count: u32| (1..=count).rev().map(f64::from).collect::<Vec<_>>();
        // The number of samples (1, 2, 3 and so on), and the five expected values.
        let cases: [(u32, [f64; 5]); 5] = [
            (1, [1.0, 1.0, 1.0, 1.0, 1.0]),
            (2, [1.0, 1.0, 2.0, 2.0, 2.0]),
            (5, [1.0, 3.0, 5.0, 5.0, 5.0]),
            (100, [1.0, 50.0, 95.0, 99.0, 100.0]),
            (1000, [1.0, 500.0, 950.0, 990.0, 1000.0]),
        ];
        for (count, expect) in cases {
            let it = Summary::of(&numbers(count)).unwrap();
            assert_eq!([it.min, it.median, it.p95, it.p99, it.max], expect, "{count}");
            assert_eq!(it.mean, f64::from(count + 1) / 2.0);
        }
        assert_eq!(Summary::of(&[]), None);
    }

    #[test]
    fn another_unit_scales_all_six() {
        let it = Summary::of(&[1.0, 2.0, 6.0]).unwrap().times(10.0);
        assert_eq!((it.min, it.median, it.p99, it.max, it.mean), (10.0, 20.0, 60.0, 60.0, 30.0));
    }
}
