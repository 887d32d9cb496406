//! The search for the highest rate of new connections that a device carries: [`judge`] turns a trial's
//! numbers into a verdict, and [`Search`] chooses the next rate. No clock, no packets, no printing.

mod bisect;
mod capacity;
mod confirmed;
mod frames;
mod multi_loss;
mod reason;
mod sample;
mod verdict;

pub use bisect::Bisect;
pub use capacity::{CapacityAnswer, CapacityRules, CapacitySearch, CapacityTrial};
pub use confirmed::{Confirmed, Precision};
pub use frames::{FrameSample, judge_frames};
pub use multi_loss::{Goal, GoalResult, MultiLoss};
pub use reason::Reason;
pub use sample::{Broken, Direction, Sample, Window};
pub use verdict::{Allowance, Verdict, judge, not_offered};

/// The range of rates to search, in connections per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Range {
    /// Lowest rate.
    pub min: f64,
    /// Highest rate.
    pub max: f64,
}

/// The next step of a search.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Next {
    /// A trial at this rate.
    Trial {
        /// Connections per second.
        rate: f64,
        /// Why the trial is made.
        purpose: Purpose,
    },
    /// The search has ended.
    Done,
}

/// Why a trial is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// To narrow the bounds.
    Search,
    /// To decide a rate that was tried before.
    Repeat,
    /// To confirm the answer.
    Confirm,
}

impl Purpose {
    /// Returns the purpose as one word for results.
    pub fn word(self) -> &'static str {
        match self {
            Purpose::Search => "search",
            Purpose::Repeat => "repeat",
            Purpose::Confirm => "confirm",
        }
    }
}

/// The result of a search.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Answer {
    /// The highest rate that passed, if any did.
    pub rate: Option<f64>,
    /// The lowest rate above it that did not pass; `None` where the highest rate of the range passed.
    pub upper: Option<f64>,
    /// The generator did not offer the `upper` rate, so the device may carry more.
    pub stopped_by_generator: bool,
    /// Why the search ended.
    pub ending: Ending,
    /// How certain the answer is.
    pub certainty: Certainty,
}

/// Why a search ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Its bounds are close enough.
    Found,
    /// The highest rate of the range passed.
    Range,
    /// The number of trials was exhausted.
    Iterations,
    /// It was interrupted.
    Unfinished,
}

/// How certain an answer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Certainty {
    /// Trials of the answer's rate that passed.
    pub passed: u32,
    /// Trials of the answer's rate.
    pub trials: u32,
    /// The answer was tried again from a clean state, and passed.
    pub confirmed: bool,
}

/// A search for the highest rate that passes.
pub trait Search {
    /// Returns the next step.
    fn next(&self) -> Next;

    /// Records the verdict of the trial that [`Search::next`] returned, and the larger of its losses, of
    /// packets or connections.
    fn record(&mut self, verdict: &Verdict, loss: f64);

    /// Returns the highest rate that passed (or the range's lower end) and the lowest that did not (or the
    /// range's upper end).
    fn bounds(&self) -> (f64, f64);

    /// Returns the answer so far.
    fn answer(&self) -> Answer;
}

#[cfg(test)]
mod tests;
