//! The search of the original script, `cps_ndr.py`: it starts in the middle, bisects, and does not end by
//! itself. Only its verdicts are better than the script's.

use super::{Answer, Certainty, Ending, Next, Purpose, Range, Search, Verdict};

/// After this many good or bad trials in a row the adaptive window moves.
const IN_A_ROW: i32 = 3;

/// The search.
#[derive(Clone, Debug)]
pub struct Bisect {
    range: Range,
    lower: f64,
    upper: f64,
    current: f64,
    done: u32,
    max_iterations: Option<u32>,
    /// How far bounds move after several good or bad trials in a row, in percent.
    adaptive_percent: f64,
    in_a_row: i32,
    passed: Option<f64>,
    failed: Option<f64>,
    invalid_above: bool,
}

impl Bisect {
    /// A search in this range. Without a number of iterations it never ends.
    pub fn new(range: Range, max_iterations: Option<u32>, adaptive_percent: f64) -> Bisect {
        Bisect {
            range,
            lower: range.min,
            upper: range.max,
            current: (range.min + range.max) / 2.0,
            done: 0,
            max_iterations,
            adaptive_percent,
            in_a_row: 0,
            passed: None,
            failed: None,
            invalid_above: false,
        }
    }
}

/// Bounds within this share of the upper one count as an answer; the search continues all the same.
const CLOSE: f64 = 0.01;

impl Bisect {
    fn ending(&self) -> Ending {
        let is_over = matches!(self.next(), Next::Done);
        let close = self.upper - self.lower <= CLOSE * self.upper;
        match (close, self.failed) {
            (true, None) if self.upper <= self.range.max => Ending::Range,
            (true, Some(_)) => Ending::Found,
            _ if is_over => Ending::Iterations,
            _ => Ending::Unfinished,
        }
    }
}

impl Search for Bisect {
    fn next(&self) -> Next {
        if self.max_iterations.is_some_and(|most| self.done >= most) {
            return Next::Done;
        }
        Next::Trial { rate: self.current, purpose: Purpose::Search }
    }

    fn record(&mut self, verdict: &Verdict, _loss: f64) {
        self.done += 1;
        if verdict.passed() {
            self.lower = self.current;
            self.passed = Some(self.current);
            self.in_a_row = self.in_a_row.max(0) + 1;
        } else {
            self.upper = self.current;
            self.failed = Some(self.current);
            self.invalid_above = verdict.is_invalid();
            self.in_a_row = self.in_a_row.min(0) - 1;
        }
        let by = self.adaptive_percent / 100.0;
        if self.in_a_row > IN_A_ROW {
            self.upper *= 1.0 + by;
        } else if self.in_a_row < -IN_A_ROW {
            self.lower *= 1.0 - by;
        }
        self.current = (self.lower + self.upper) / 2.0;
    }

    fn bounds(&self) -> (f64, f64) {
        (self.lower, self.upper)
    }

    fn answer(&self) -> Answer {
        let certainty = Certainty {
            passed: u32::from(self.passed.is_some()),
            trials: u32::from(self.passed.is_some()),
            confirmed: false,
        };
        Answer {
            rate: self.passed,
            upper: self.failed,
            stopped_by_generator: self.invalid_above,
            ending: self.ending(),
            certainty,
        }
    }
}
