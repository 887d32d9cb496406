//! The search that is asked for by default: it halves, repeats what is near the boundary, ends by
//! itself, and runs its answer once more before it believes it.

use super::{Answer, Certainty, Ending, Next, Purpose, Range, Search, Verdict};

/// A rate near the boundary is decided by two of three.
const AGREE: usize = 2;
/// Within so many times the precision of the other bound, a rate is near the boundary.
const NEAR: f64 = 4.0;

/// Trials in a row that may say nothing for the generator's not getting to its ports: on a machine that
/// does something else now and then, the next may.
const STALLS: u32 = 3;

/// How exact the answer is to be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Precision {
    /// The search ends when its bounds are no further apart than this share of the upper one.
    pub relative: f64,
    /// Trials before it ends anyhow, the confirming one among them; none: as many as it takes.
    pub max_iterations: Option<u32>,
    /// The loss that is allowed: a trial that lost up to five times as much, but did lose, is near
    /// the boundary wherever the bounds are.
    pub loss: f64,
}

/// A rate that was decided.
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
    /// Rates that passed, rising. The last is the lower bound.
    lower: Vec<Decided>,
    /// The lowest rate that did not, and whether that was the generator's fault.
    upper: Option<(f64, bool)>,
    /// What was said so far of the rate that is looked at.
    here: Vec<Verdict>,
    near_by_loss: bool,
    done: u32,
    /// Trials in a row in which the generator was held up.
    stalls: u32,
    /// The answer's confirming run was invalid once.
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

    /// The rate that is to be looked at; the ends of the range are looked at only when nothing
    /// lies between them and the bound.
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

    /// Whether this rate is decided, and how.
    fn decided(&self) -> Option<bool> {
        let passed = self.here.iter().filter(|verdict| verdict.passed()).count();
        let not = self.here.len() - passed;
        // What the generator did not do may have been a hiccup of the machine.
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
        // What the generator did not do once says nothing against the answer.
        if verdict.is_invalid() && !std::mem::replace(&mut self.hiccup, true) {
            return;
        }
        self.hiccup = false;
        if verdict.passed() {
            last.passed += 1;
            self.state = State::Finished { confirmed: true };
            return;
        }
        // The answer did not hold: it is the new upper bound, and the search goes on below.
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
        // The last trial is kept for the answer.
        let is_last = self.left() == Some(1) && !self.lower.is_empty();
        if self.close_enough() && ends_known || is_last {
            self.state = State::Confirming;
        }
    }

    /// Trials that there may still be; none: as many as it takes.
    fn left(&self) -> Option<u32> {
        self.precision.max_iterations.map(|most| most.saturating_sub(self.done))
    }

    /// There may be no more trials: what all trials of a rate have said stands.
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
