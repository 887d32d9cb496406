//! Several loss ratios in one search (draft-ietf-bmwg-mlrsearch-15): every trial counts for every goal, a
//! load is classified by all its trials, and each goal's answer is the conditional throughput at its relevant
//! lower bound.

use super::{Answer, Certainty, Ending, Next, Purpose, Range, Search, Verdict};

/// One goal of a search (section 4.6 of the draft). All trials have the final length.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Goal {
    /// Allowed loss, 0 to 1.
    pub loss_ratio: f64,
    /// Share of trials that may lose more, 0 to below 1.
    pub exceed_ratio: f64,
    /// Most trials that decide a load.
    pub trials: u32,
    /// The bounds are close enough within this share of the upper one.
    pub width: f64,
}

/// The result for one goal.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GoalResult {
    /// The goal.
    pub goal: Goal,
    /// The highest load below the upper bound that reaches the goal.
    pub lower: Option<f64>,
    /// The lowest load that does not.
    pub upper: Option<f64>,
    /// The forwarding rate at the lower bound, by the goal's share of trials.
    pub conditional_throughput: Option<f64>,
}

impl GoalResult {
    /// Returns whether both bounds are known. Otherwise the answer lies at an end of the range, or does not
    /// exist (section 6.6 of the draft).
    pub fn is_regular(&self) -> bool {
        self.lower.is_some() && self.upper.is_some()
    }
}

#[derive(Clone, Debug)]
struct Load {
    rate: f64,
    losses: Vec<f64>,
    invalid: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Class {
    Lower,
    Upper,
    Undecided,
}

impl Load {
    /// Classifies a load by section 4.6.2 and the code of appendix A, for trials of one length.
    fn class(&self, goal: &Goal) -> Class {
        if self.invalid {
            return Class::Upper;
        }
        let high = self.losses.iter().filter(|loss| **loss > goal.loss_ratio).count() as f64;
        let low = self.losses.len() as f64 - high;
        let whole = (high + low).max(f64::from(goal.trials));
        let quantile = whole * goal.exceed_ratio;
        let pessimistic = whole - low <= quantile;
        let optimistic = high <= quantile;
        match (pessimistic, optimistic) {
            (true, true) => Class::Lower,
            (false, false) => Class::Upper,
            _ => Class::Undecided,
        }
    }

    /// Returns the conditional throughput (section 6.6 and appendix B of the draft): the forwarding rate with
    /// the largest loss among the goal's share of the best trials. Trials that the goal would have made but
    /// did not need count as total loss.
    fn throughput(&self, goal: &Goal) -> f64 {
        let mut losses = self.losses.clone();
        losses.sort_by(f64::total_cmp);
        let whole = (losses.len() as f64).max(f64::from(goal.trials));
        let mut remaining = whole * (1.0 - goal.exceed_ratio);
        let mut quantile = None;
        for loss in losses {
            if remaining <= 0.0 {
                break;
            }
            quantile = Some(loss);
            remaining -= 1.0;
        }
        self.rate * (1.0 - quantile.filter(|_| remaining <= 0.0).unwrap_or(1.0))
    }
}

/// The search.
#[derive(Clone, Debug)]
pub struct MultiLoss {
    range: Range,
    goals: Vec<Goal>,
    loads: Vec<Load>,
    done: u32,
    max_iterations: Option<u32>,
}

impl MultiLoss {
    /// A search in this range for all of these goals.
    pub fn new(range: Range, goals: Vec<Goal>, max_iterations: Option<u32>) -> MultiLoss {
        MultiLoss { range, goals, loads: Vec::new(), done: 0, max_iterations }
    }

    /// Returns one result per goal.
    pub fn results(&self) -> Vec<GoalResult> {
        let result = |goal: &Goal| {
            let (lower, upper) = self.relevant(goal);
            GoalResult {
                goal: *goal,
                lower: lower.map(|load| load.rate),
                upper: upper.map(|load| load.rate),
                conditional_throughput: lower.map(|load| load.throughput(goal)),
            }
        };
        self.goals.iter().map(result).collect()
    }

    /// Returns the relevant bounds: the smallest upper bound, and the largest lower bound below it.
    fn relevant(&self, goal: &Goal) -> (Option<&Load>, Option<&Load>) {
        let rate = |load: &&Load| load.rate;
        let of = |class| self.loads.iter().filter(move |load| load.class(goal) == class);
        let upper = of(Class::Upper).min_by(|a, b| rate(a).total_cmp(&rate(b)));
        let below = upper.map_or(f64::INFINITY, |load| load.rate);
        let lower = of(Class::Lower)
            .filter(|load| load.rate < below)
            .max_by(|a, b| rate(a).total_cmp(&rate(b)));
        (lower, upper)
    }

    /// Returns the load that this goal needs a trial of; `None` when it is done.
    fn wanted(&self, goal: &Goal) -> Option<f64> {
        let (lower, upper) = self.relevant(goal);
        let low = lower.map_or(self.range.min, |load| load.rate);
        let high = upper.map_or(self.range.max, |load| load.rate);
        let between = |load: &&Load| (low..=high).contains(&load.rate);
        let open = self.loads.iter().filter(between).find(|l| l.class(goal) == Class::Undecided);
        if let Some(load) = open {
            return Some(load.rate);
        }
        match (lower, upper) {
            // The ends of the range are always measured: an answer there is irregular.
            (_, None) => (low < self.range.max).then_some(self.range.max),
            (None, Some(upper)) => (upper.rate > self.range.min).then_some(self.range.min),
            (Some(_), Some(_)) => {
                let wide = high - low > goal.width * high;
                // Bisected on a logarithmic scale, because widths are relative.
                wide.then(|| (low * high).sqrt())
            }
        }
    }
}

impl Search for MultiLoss {
    fn next(&self) -> Next {
        if self.max_iterations.is_some_and(|most| self.done >= most) {
            return Next::Done;
        }
        let Some(rate) = self.goals.iter().find_map(|goal| self.wanted(goal)) else {
            return Next::Done;
        };
        let known = self.loads.iter().any(|load| load.rate == rate);
        Next::Trial { rate, purpose: if known { Purpose::Repeat } else { Purpose::Search } }
    }

    fn record(&mut self, verdict: &Verdict, loss: f64) {
        let Next::Trial { rate, .. } = self.next() else { return };
        self.done += 1;
        // A trial that failed for another reason than loss counts as forwarding nothing.
        let only_lost = |reason: &super::Reason| {
            matches!(reason, super::Reason::Lost { .. } | super::Reason::Failed { .. })
        };
        let counts = verdict.reasons().iter().all(only_lost);
        let loss = if counts { loss } else { 1.0 };
        let invalid = verdict.is_invalid();
        match self.loads.iter_mut().find(|load| load.rate == rate) {
            Some(load) => {
                load.losses.push(loss);
                load.invalid |= invalid;
            }
            None => self.loads.push(Load { rate, losses: vec![loss], invalid }),
        }
    }

    fn bounds(&self) -> (f64, f64) {
        let Some(goal) = self.goals.iter().find(|goal| self.wanted(goal).is_some()) else {
            let answer = self.answer();
            let low = answer.rate.unwrap_or(self.range.min);
            return (low, answer.upper.unwrap_or(self.range.max));
        };
        let (lower, upper) = self.relevant(goal);
        let low = lower.map_or(self.range.min, |load| load.rate);
        (low, upper.map_or(self.range.max, |load| load.rate))
    }

    /// Returns the answer for the first goal, which is the strictest.
    fn answer(&self) -> Answer {
        let bounds = self.goals.first().map(|goal| (goal, self.relevant(goal)));
        let (lower, upper) = bounds.map_or((None, None), |(_, bounds)| bounds);
        let passed = |load: &Load| {
            let allowed = bounds.map_or(0.0, |(goal, _)| goal.loss_ratio);
            load.losses.iter().filter(|loss| **loss <= allowed).count() as u32
        };
        Answer {
            rate: lower.map(|load| load.rate),
            upper: upper.map(|load| load.rate),
            stopped_by_generator: upper.is_some_and(|load| load.invalid),
            ending: match self.next() {
                Next::Trial { .. } => Ending::Unfinished,
                Next::Done if bounds.is_some_and(|(goal, _)| self.wanted(goal).is_some()) => {
                    Ending::Iterations
                }
                Next::Done if upper.is_none() => Ending::Range,
                Next::Done => Ending::Found,
            },
            certainty: Certainty {
                passed: lower.map_or(0, passed),
                trials: lower.map_or(0, |load| load.losses.len() as u32),
                confirmed: lower.is_some_and(|load| load.losses.len() > 1),
            },
        }
    }
}

#[cfg(test)]
pub(super) fn tests_throughput(goal: &Goal, losses: &[f64]) -> f64 {
    Load { rate: 1000.0, losses: losses.to_vec(), invalid: false }.throughput(goal)
}

#[cfg(test)]
pub(super) fn tests_class(goal: &Goal, losses: &[f64]) -> String {
    let load = Load { rate: 1.0, losses: losses.to_vec(), invalid: false };
    format!("{:?}", load.class(goal))
}

#[cfg(test)]
mod tests {
    use super::super::Reason;
    use super::*;

    #[test]
    fn answers_at_the_ends_of_the_range_are_irregular() {
        let range = Range { min: 10_000.0, max: 500_000.0 };
        let goal = Goal { loss_ratio: 0.0, exceed_ratio: 0.5, trials: 3, width: 0.05 };
        for (passes, regular, lower) in
            [(0.0, false, false), (50_000.0, true, true), (1e9, false, true)]
        {
            let mut search = MultiLoss::new(range, vec![goal], None);
            while let Next::Trial { rate, .. } = search.next() {
                let lost = Reason::Lost { way: "there", lost: 1, sent: 2 };
                let verdict =
                    if rate <= passes { Verdict::Pass } else { Verdict::Fail(vec![lost]) };
                search.record(&verdict, if rate <= passes { 0.0 } else { 0.1 });
            }
            let result = search.results()[0];
            assert_eq!(
                (result.is_regular(), result.lower.is_some()),
                (regular, lower),
                "{result:?}"
            );
        }
    }
}
