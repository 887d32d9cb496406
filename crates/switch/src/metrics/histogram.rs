//! Histograms with Open vSwitch's bins (ovs: `lib/dpif-netdev-perf.c`).

/// Number of bins; the last one counts all larger values.
pub const BINS: usize = 32;

/// A histogram of values.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Histogram {
    /// The largest value of each bin.
    pub walls: [u32; BINS],
    /// Number of values in each bin.
    pub bins: [u64; BINS],
}

impl Histogram {
    /// Bins of equal width; the last but one ends at `max`.
    pub fn linear(min: u32, max: u32) -> Self {
        let steps = BINS as u32 - 2;
        let wall = |i: usize| min + i as u32 * (max - min) / steps;
        Histogram::new(std::array::from_fn(|i| if i < BINS - 1 { wall(i) } else { u32::MAX }))
    }

    /// Bins of exponentially increasing width, preceded by a bin for zero if `min` is zero.
    pub fn logarithmic(min: u32, max: u32) -> Self {
        let mut walls = [0; BINS];
        let first = usize::from(min == 0);
        let (low, high) = (f64::from(min.max(1)).ln(), f64::from(max).ln());
        let steps = (BINS - 2 - first) as f64;
        let mut least = first as u32;
        for (i, wall) in walls[first..BINS - 1].iter_mut().enumerate() {
            let exact = (low + i as f64 * (high - low) / steps).exp() as u32;
            *wall = exact.max(least);
            least = *wall + 1;
        }
        walls[BINS - 2] = walls[BINS - 2].max(max);
        walls[BINS - 1] = u32::MAX;
        Histogram::new(walls)
    }

    fn new(walls: [u32; BINS]) -> Self {
        Histogram { walls, bins: [0; BINS] }
    }

    /// Counts a value.
    pub fn add(&mut self, value: u64) {
        self.add_times(value, 1);
    }

    /// Counts a value `times` times.
    pub fn add_times(&mut self, value: u64, times: u64) {
        let at = self.walls[..BINS - 1].partition_point(|&wall| u64::from(wall) < value);
        self.bins[at] += times;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn walls_rise_from_the_least_to_the_most() {
        for (histogram, min, max) in [
            (Histogram::linear(0, 32), 0, 32),
            (Histogram::linear(100, 30_000), 100, 30_000),
            (Histogram::logarithmic(500, 24_000_000), 500, 24_000_000),
            (Histogram::logarithmic(0, 1000), 0, 1000),
            (Histogram::logarithmic(0, 30), 0, 30),
        ] {
            let walls = histogram.walls;
            assert!(walls.is_sorted() && walls[BINS - 1] == u32::MAX, "{walls:?}");
            // Rounding may reduce the lowest one by one.
            assert!(walls[0].abs_diff(min) <= 1 && walls[BINS - 2] >= max, "{walls:?}");
        }
        // The first of Open vSwitch's own bins, of packets per iteration.
        let walls = Histogram::logarithmic(0, 1000).walls;
        assert_eq!(walls[..12], [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]);
    }

    #[test]
    fn values_fall_into_the_first_bin_that_reaches_them() {
        for (value, bin) in [(0, 0), (1, 1), (30, 30), (31, 31), (u64::MAX, 31)] {
            let mut histogram = Histogram::linear(0, 30);
            histogram.add_times(value, 3);
            assert_eq!(histogram.bins[bin], 3, "{value}");
            assert_eq!(histogram.bins.iter().sum::<u64>(), 3);
        }
    }
}
