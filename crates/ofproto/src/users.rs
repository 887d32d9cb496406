//! Which flows use a group, a meter or the like.

use crate::ids::RuleId;
use openflow::Action;
use std::collections::{BTreeMap, BTreeSet};

/// Calls a function for each number of some kind in actions.
type Each = fn(&[Action], &mut dyn FnMut(u32));

/// Flows by the numbers in their actions.
#[derive(Debug)]
pub(crate) struct Users {
    each: Each,
    by_number: BTreeMap<u32, BTreeSet<RuleId>>,
}

impl Users {
    /// No flows, for numbers of this kind.
    pub fn new(each: Each) -> Self {
        Users { each, by_number: BTreeMap::new() }
    }

    /// Takes all flows out.
    pub fn take(&mut self) -> Users {
        Users { each: self.each, by_number: std::mem::take(&mut self.by_number) }
    }

    /// The flows that use a number.
    pub fn of(&self, number: u32) -> Vec<RuleId> {
        self.by_number.get(&number).into_iter().flatten().copied().collect()
    }

    /// How many flows use a number.
    pub fn count(&self, number: u32) -> u32 {
        self.by_number.get(&number).map_or(0, |users| users.len() as u32)
    }

    /// Adds a flow with these actions.
    pub fn add(&mut self, rule: RuleId, actions: &[Action]) {
        (self.each)(actions, &mut |number| {
            self.by_number.entry(number).or_default().insert(rule);
        });
    }

    /// Removes a flow with these actions, or updates one to the actions `now`.
    pub fn remove(&mut self, rule: RuleId, before: &[Action], now: &[Action]) {
        (self.each)(before, &mut |number| {
            let mut stays = false;
            (self.each)(now, &mut |other| stays |= other == number);
            if stays {
                return;
            }
            if let Some(users) = self.by_number.get_mut(&number) {
                users.remove(&rule);
                if users.is_empty() {
                    self.by_number.remove(&number);
                }
            }
        });
    }
}
