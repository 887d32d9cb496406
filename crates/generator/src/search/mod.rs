//! The search for the highest rate of new connections that a device carries: what a trial's
//! numbers mean ([`judge`]), and which rate is tried next ([`Search`]). No clock, no packets, no
//! printing: facts in, decisions out.

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

/// The rates that are looked at, in connections per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Range {
    /// The lowest.
    pub min: f64,
    /// The highest.
    pub max: f64,
}

/// What is to be done next.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Next {
    /// A trial of this rate.
    Trial {
        /// Connections per second.
        rate: f64,
        /// What for.
        purpose: Purpose,
    },
    /// Nothing: the answer is there.
    Done,
}

/// What a trial is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// To narrow the bounds.
    Search,
    /// To decide about a rate that was tried already.
    Repeat,
    /// To see whether the answer holds.
    Confirm,
}

impl Purpose {
    /// In a word, as results show it.
    pub fn word(self) -> &'static str {
        match self {
            Purpose::Search => "search",
            Purpose::Repeat => "repeat",
            Purpose::Confirm => "confirm",
        }
    }
}

/// What a search has found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Answer {
    /// The highest rate that passed; none did.
    pub rate: Option<f64>,
    /// The lowest rate above it that did not; none: the highest of the range passed.
    pub upper: Option<f64>,
    /// That rate was not offered, so that the device may carry more.
    pub stopped_by_generator: bool,
    /// Why no higher rate was looked for.
    pub ending: Ending,
    /// How sure it is.
    pub certainty: Certainty,
}

/// Why a search went no further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Its bounds are as close as they are to be.
    Found,
    /// The highest rate of the range passed.
    Range,
    /// There were as many trials as there may be.
    Iterations,
    /// It was not finished.
    Unfinished,
}

/// How sure an answer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Certainty {
    /// Trials of the answer's rate that passed.
    pub passed: u32,
    /// Trials of the answer's rate.
    pub trials: u32,
    /// The answer was run again, from a clean state, and passed.
    pub confirmed: bool,
}

/// Decides which rate is tried next.
pub trait Search {
    /// What to do next.
    fn next(&self) -> Next;

    /// Takes what the trial that [`Search::next`] asked for has said, and the larger share of what
    /// it lost, of packets or connections.
    fn record(&mut self, verdict: &Verdict, loss: f64);

    /// The highest rate that passed (or the range's lower end), the lowest that did not (or the
    /// range's upper end).
    fn bounds(&self) -> (f64, f64);

    /// What is known now.
    fn answer(&self) -> Answer;
}

#[cfg(test)]
mod tests;
