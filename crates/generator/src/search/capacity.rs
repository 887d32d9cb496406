//! The search for the number of connections that a device's table holds (RFC 9693 section 4.9): it doubles
//! the number until the rate at which they can be established collapses, then bisects.
//!
//! The method is that of the RFC's own tester (siitperf). For one number of connections, rates are tried in
//! order of likelihood: first the last good rate, then the rate below which it counts as collapsed, then
//! bisection between them.

/// The thresholds and precisions of the search.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CapacityRules {
    /// Doubling ends when the rate falls below this share of the previous one (beta, 0.1 to 0.2).
    pub collapse: f64,
    /// While bisecting, a rate below this share means that the table is too small (gamma, 0.4 to 0.5).
    pub halving: f64,
    /// A rate is found when its bounds are within this share of each other.
    pub rate_precision: f64,
    /// The capacity is found when its bounds are within this share of each other.
    pub precision: f64,
}

impl Default for CapacityRules {
    fn default() -> Self {
        CapacityRules { collapse: 0.15, halving: 0.45, rate_precision: 0.1, precision: 0.02 }
    }
}

/// The next trial: a number of connections and a rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CapacityTrial {
    /// Connections to establish and validate.
    pub connections: u64,
    /// Connections per second.
    pub rate: f64,
}

/// The result of the search.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CapacityAnswer {
    /// Largest number of connections that the table held.
    pub lower: Option<u64>,
    /// Smallest number that it did not hold; `None` where it held every number tried.
    pub upper: Option<u64>,
    /// The rate at which `lower` connections were established, per second.
    pub rate: f64,
}

/// The search.
#[derive(Clone, Debug)]
pub struct CapacitySearch {
    rules: CapacityRules,
    most: u64,
    held: Option<(u64, f64)>,
    not_held: Option<u64>,
    /// The number of connections under test, and the bounds of its rate.
    here: u64,
    rates: RateBounds,
    done: bool,
}

/// The bounds of the rate for one number of connections.
#[derive(Clone, Copy, Debug)]
struct RateBounds {
    /// The first rate to try.
    top: f64,
    /// Rates below this one need not be known.
    floor: f64,
    passed: Option<f64>,
    failed: Option<f64>,
}

impl RateBounds {
    /// Returns the next rate to try; `None` where the bounds are close enough.
    fn wanted(&self, precision: f64) -> Option<f64> {
        match (self.passed, self.failed) {
            (None, None) => Some(self.top),
            (None, Some(failed)) => (failed > self.floor).then_some(self.floor),
            (Some(_), None) => None,
            (Some(low), Some(high)) => {
                (high - low > precision * high).then_some((low + high) / 2.0)
            }
        }
    }
}

impl CapacitySearch {
    /// A search that starts with `start` connections at `rate`, which the device is known to carry, and tries
    /// at most `most` connections.
    pub fn new(rules: CapacityRules, start: u64, most: u64, rate: f64) -> CapacitySearch {
        let here = start.clamp(1, most.max(1));
        let floor = rate * rules.collapse;
        let rates = RateBounds { top: rate, floor, passed: None, failed: None };
        let (held, not_held) = (None, None);
        CapacitySearch { rules, most, held, not_held, here, rates, done: false }
    }

    /// Returns the next trial; `None` when the search has ended.
    pub fn next(&self) -> Option<CapacityTrial> {
        let rate = self.rates.wanted(self.rules.rate_precision).filter(|_| !self.done)?;
        Some(CapacityTrial { connections: self.here, rate })
    }

    /// Records the result of the trial that [`CapacitySearch::next`] returned: whether every connection was
    /// established and validated.
    pub fn record(&mut self, passed: bool) {
        let Some(CapacityTrial { rate, .. }) = self.next() else { return };
        let bound = if passed { &mut self.rates.passed } else { &mut self.rates.failed };
        *bound = Some(rate);
        if self.rates.wanted(self.rules.rate_precision).is_none() {
            self.decide();
        }
    }

    /// Goes on to the next number of connections once the rate of this one is known.
    fn decide(&mut self) {
        match self.rates.passed {
            Some(rate) => self.held = Some((self.here, rate)),
            None => self.not_held = Some(self.here),
        }
        let Some((held, rate)) = self.held else {
            self.done = true;
            return;
        };
        let share = match self.not_held {
            None if held >= self.most => {
                self.done = true;
                return;
            }
            None => {
                self.here = (held * 2).min(self.most);
                self.rules.collapse
            }
            Some(upper) => {
                let exact = (upper as f64 * self.rules.precision).max(1.0);
                if (upper - held) as f64 <= exact {
                    self.done = true;
                    return;
                }
                self.here = held + (upper - held) / 2;
                self.rules.halving
            }
        };
        self.rates = RateBounds { top: rate, floor: rate * share, passed: None, failed: None };
    }

    /// Returns the result so far.
    pub fn answer(&self) -> CapacityAnswer {
        CapacityAnswer {
            lower: self.held.map(|(held, _)| held),
            upper: self.not_held,
            rate: self.held.map_or(0.0, |(_, rate)| rate),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Searches a simulated table of `capacity` entries whose rate falls as it fills.
    fn search(
        capacity: u64,
        rate_of: impl Fn(u64) -> f64,
        start: u64,
        most: u64,
    ) -> (CapacityAnswer, Vec<CapacityTrial>) {
        let rate = rate_of(start) * 0.9;
        let mut search = CapacitySearch::new(CapacityRules::default(), start, most, rate);
        let mut tried = Vec::new();
        while let Some(trial) = search.next() {
            tried.push(trial);
            search
                .record(trial.connections <= capacity && trial.rate <= rate_of(trial.connections));
            assert!(tried.len() < 200, "it never ends: {tried:?}");
        }
        (search.answer(), tried)
    }

    #[test]
    fn the_table_s_size_comes_out() {
        for capacity in [1000, 1024, 5000, 123_456, 999_999] {
            let slower = |held: u64| 100_000.0 / (1.0 + held as f64 / 500_000.0);
            let (answer, tried) = search(capacity, slower, 1000, 4_000_000);
            let lower = answer.lower.unwrap();
            assert!(lower <= capacity && lower as f64 >= capacity as f64 * 0.97, "{answer:?}");
            assert!(answer.upper.unwrap() > capacity && tried.len() < 60, "{answer:?} {tried:?}");
        }
    }

    #[test]
    fn what_is_never_reached_or_never_held_is_said() {
        let (answer, _) = search(u64::MAX, |_| 50_000.0, 1000, 10_000);
        assert_eq!((answer.lower, answer.upper), (Some(10_000), None));
        let (answer, tried) = search(10, |_| 50_000.0, 1000, 10_000);
        assert_eq!((answer.lower, answer.upper, tried.len()), (None, Some(1000), 2));
    }

    #[test]
    fn a_rate_that_collapses_is_a_full_table() {
        // From 6,000 connections on the table evicts one for each new one, at a tenth of the rate.
        let rate = |held: u64| if held <= 6000 { 50_000.0 } else { 5000.0 };
        let (answer, _) = search(u64::MAX, rate, 1000, 1_000_000);
        assert!((5800..=6000).contains(&answer.lower.unwrap()), "{answer:?}");
    }
}
