//! The default search: it bisects, repeats trials near the boundary, ends by itself, and confirms its answer
//! with one more trial.

use super::{Answer, Certainty, Ending, Next, Purpose, Range, Search, Verdict};

/// A rate near the boundary is decided by two of three trials.
const AGREE: usize = 2;
/// A rate is near the boundary within this many times the precision of the other bound.
const NEAR: f64 = 4.0;

/// Most trials in a row that may be invalid because the generator stalled. On a busy machine the next trial
/// may be valid.
const STALLS: u32 = 3;

/// The precision of the answer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Precision {
    /// The search ends when its bounds are within this share of the upper one.
    pub relative: f64,
    /// Most trials, the confirming one included; `None` is unlimited.
    pub max_iterations: Option<u32>,
    /// Allowed loss. A trial that lost something, but at most five times as much, is near the boundary,
    /// wherever the bounds are.
    pub loss: f64,
}

/// A decided rate.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Decided {
    rate: f64,
    passed: u32,
    trials: u32,
}

/// The search.
#[derive(Clone, Debug)]
pub struct Confirmed {
    range: Range,
    precision: Precision,
    /// Rates that passed, in ascending order. The last is the lower bound.
    lower: Vec<Decided>,
    /// The lowest rate that did not pass, and whether the generator was the reason.
    upper: Option<(f64, bool)>,
    /// Verdicts of the current rate.
    here: Vec<Verdict>,
    near_by_loss: bool,
    done: u32,
    /// Trials in a row in which the generator stalled.
    stalls: u32,
    /// Whether the answer's confirming trial was invalid once.
    hiccup: bool,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Searching,
    Confirming,
    Finished { confirmed: bool },
}

impl Confirmed {
    /// A search in this range.
    pub fn new(range: Range, precision: Precision) -> Confirmed {
        Confirmed {
            range,
            precision,
            lower: Vec::new(),
            upper: None,
            here: Vec::new(),
            near_by_loss: false,
            done: 0,
            stalls: 0,
            hiccup: false,
            state: State::Searching,
        }
    }

    fn low(&self) -> f64 {
        self.lower.last().map_or(self.range.min, |decided| decided.rate)
    }

    fn high(&self) -> f64 {
        self.upper.map_or(self.range.max, |(rate, _)| rate)
    }

    fn close_enough(&self) -> bool {
        self.high() - self.low() <= self.precision.relative * self.high()
    }

    /// Returns the rate to try. The ends of the range are tried only when no rate lies between them and the
    /// bound.
    fn current(&self) -> f64 {
        if self.state != State::Searching {
            return self.low();
        }
        match (self.close_enough(), self.lower.is_empty(), self.upper) {
            (true, true, _) => self.range.min,
            (true, false, None) => self.range.max,
            _ => (self.low() + self.high()) / 2.0,
        }
    }

    fn is_near(&self) -> bool {
        let wide = NEAR * self.precision.relative * self.high();
        self.near_by_loss || self.high() - self.low() <= wide
    }

    /// Returns whether this rate passed, or `None` while it is undecided.
    fn decided(&self) -> Option<bool> {
        let passed = self.here.iter().filter(|verdict| verdict.passed()).count();
        let not = self.here.len() - passed;
        // One invalid trial may be a hiccup of the machine.
        let hiccup = self.here.len() == 1 && self.here.iter().any(Verdict::is_invalid);
        let needed = if self.is_near() || hiccup || self.here.len() > 1 { AGREE } else { 1 };
        if passed >= needed {
            Some(true)
        } else if not >= needed {
            Some(false)
        } else {
            None
        }
    }

    fn decide(&mut self, passed: bool) {
        let rate = self.current();
        let good = self.here.iter().filter(|verdict| verdict.passed()).count() as u32;
        let trials = self.here.len() as u32;
        let invalid = self.here.iter().any(Verdict::is_invalid);
        if passed {
            self.lower.push(Decided { rate, passed: good, trials });
        } else {
            self.upper = Some((rate, invalid));
            // Not even the lowest rate passed.
            if rate <= self.range.min {
                self.state = State::Finished { confirmed: false };
            }
        }
        self.here.clear();
        self.near_by_loss = false;
    }

    fn confirm(&mut self, verdict: &Verdict) {
        let Some(last) = self.lower.last_mut() else { return };
        last.trials += 1;
        // One invalid confirming trial says nothing against the answer.
        if verdict.is_invalid() && !std::mem::replace(&mut self.hiccup, true) {
            return;
        }
        self.hiccup = false;
        if verdict.passed() {
            last.passed += 1;
            self.state = State::Finished { confirmed: true };
            return;
        }
        // The answer was not confirmed: it becomes the new upper bound, and the search continues below.
        let rate = last.rate;
        self.lower.pop();
        self.upper = Some((rate, verdict.is_invalid()));
        let at_bottom = rate <= self.range.min;
        self.state =
            if at_bottom { State::Finished { confirmed: false } } else { State::Searching };
    }

    fn ending(&self) -> Ending {
        let at_bottom = self.upper.is_some_and(|(rate, _)| rate <= self.range.min);
        if !matches!(self.state, State::Finished { .. }) {
            Ending::Unfinished
        } else if self.upper.is_none() && self.low() >= self.range.max {
            Ending::Range
        } else if at_bottom || self.close_enough() && !self.lower.is_empty() {
            Ending::Found
        } else {
            Ending::Iterations
        }
    }

    fn settle(&mut self) {
        if self.state != State::Searching || !self.here.is_empty() {
            return;
        }
        let ends_known =
            !self.lower.is_empty() && (self.upper.is_some() || self.low() >= self.range.max);
        // The last trial is reserved to confirm the answer.
        let is_last = self.left() == Some(1) && !self.lower.is_empty();
        if self.close_enough() && ends_known || is_last {
            self.state = State::Confirming;
        }
    }

    /// Returns the number of trials left; `None` is unlimited.
    fn left(&self) -> Option<u32> {
        self.precision.max_iterations.map(|most| most.saturating_sub(self.done))
    }

    /// Decides the current rate by its verdicts so far, because no trials are left.
    fn run_out(&mut self) {
        if self.state == State::Searching && !self.here.is_empty() {
            let passed = self.here.iter().filter(|verdict| verdict.passed()).count();
            if passed == 0 || passed == self.here.len() {
                self.decide(passed > 0);
            }
        }
        self.state = State::Finished { confirmed: false };
    }
}

impl Search for Confirmed {
    fn next(&self) -> Next {
        let rate = self.current();
        match self.state {
            State::Searching if self.here.is_empty() => {
                Next::Trial { rate, purpose: Purpose::Search }
            }
            State::Searching => Next::Trial { rate, purpose: Purpose::Repeat },
            State::Confirming => Next::Trial { rate, purpose: Purpose::Confirm },
            State::Finished { .. } => Next::Done,
        }
    }

    fn record(&mut self, verdict: &Verdict, loss: f64) {
        self.done += 1;
        if verdict.is_stalled() && self.stalls < STALLS {
            self.stalls += 1;
        } else if self.state == State::Confirming {
            self.stalls = 0;
            self.confirm(verdict);
        } else {
            self.stalls = 0;
            self.near_by_loss |= loss > 0.0 && loss <= 5.0 * self.precision.loss;
            self.here.push(verdict.clone());
            if let Some(passed) = self.decided() {
                self.decide(passed);
            }
        }
        self.settle();
        if self.left() == Some(0) && !matches!(self.state, State::Finished { .. }) {
            self.run_out();
        }
    }

    fn bounds(&self) -> (f64, f64) {
        (self.low(), self.high())
    }

    fn answer(&self) -> Answer {
        let decided = self.lower.last();
        Answer {
            rate: decided.map(|decided| decided.rate),
            upper: self.upper.map(|(rate, _)| rate),
            stopped_by_generator: self.upper.is_some_and(|(_, invalid)| invalid),
            ending: self.ending(),
            certainty: Certainty {
                passed: decided.map_or(0, |decided| decided.passed),
                trials: decided.map_or(0, |decided| decided.trials),
                confirmed: self.state == State::Finished { confirmed: true },
            },
        }
    }
}
