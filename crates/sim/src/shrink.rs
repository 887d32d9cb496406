//! Shrinks a plan to a short one that still violates the same law.

use crate::defect::Defect;
use crate::law::Law;
use crate::plan::{Plan, Step};
use crate::world::run_with;

/// The maximum number of runs.
const TRIES: usize = 2000;

/// Removes steps, packets and rules while the same law is violated.
pub fn shrink(plan: &Plan, law: Law, defect: Option<Defect>) -> Plan {
    let mut shrinking = Shrinking { best: plan.clone(), law, defect, tries: 0 };
    shrinking.cut();
    let mut size = plan.steps.len();
    while size > 0 {
        shrinking.steps(size);
        size /= 2;
    }
    shrinking.packets();
    shrinking.rules();
    shrinking.steps(1);
    shrinking.best
}

struct Shrinking {
    best: Plan,
    law: Law,
    defect: Option<Defect>,
    tries: usize,
}

impl Shrinking {
    /// Accepts a plan if it violates the law, too.
    fn take(&mut self, plan: Plan) -> bool {
        self.tries += 1;
        if self.tries > TRIES {
            return false;
        }
        let fails = run_with(&plan, self.defect).is_err_and(|it| it.law == self.law);
        if fails {
            self.best = plan;
        }
        fails
    }

    /// Truncates the plan after the violation.
    fn cut(&mut self) {
        let Err(violation) = run_with(&self.best, self.defect) else { return };
        let mut plan = self.best.clone();
        plan.steps.truncate(violation.step + 1);
        self.take(plan);
    }

    /// Removes steps, this many at a time.
    fn steps(&mut self, size: usize) {
        let mut at = 0;
        while at < self.best.steps.len() {
            let mut plan = self.best.clone();
            plan.steps.drain(at..(at + size).min(plan.steps.len()));
            if !self.take(plan) {
                at += size;
            }
        }
    }

    fn packets(&mut self) {
        for step in 0..self.best.steps.len() {
            let mut at = 0;
            while let Step::Arrive(packets) = &self.best.steps[step]
                && packets.len() > 1
                && at < packets.len()
            {
                let mut plan = self.best.clone();
                if let Step::Arrive(packets) = &mut plan.steps[step] {
                    packets.remove(at);
                }
                if !self.take(plan) {
                    at += 1;
                }
            }
        }
    }

    fn rules(&mut self) {
        for slot in 0..self.best.settings.rules.len() {
            let mut plan = self.best.clone();
            if plan.settings.rules[slot].take().is_some() {
                self.take(plan);
            }
        }
    }
}
