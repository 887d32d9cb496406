//! Conjunctive matches: a packet that matches a rule of each clause matches `conj_id=ID`
//! (ovs: `lib/classifier.c`, `classifier_lookup__`; `ovs-actions(7)`).

use crate::prefix::TrieLookups;
use crate::rules::Classifier;
use crate::subtable::Head;
use flow::{Field, FlowKey, Mask};

/// A rule's part in a conjunctive match.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Clause {
    /// The conjunctive match.
    pub id: u32,
    /// The number of this clause, from 0 to 63.
    pub clause: u8,
    /// The number of clauses, from 2 to 64.
    pub clauses: u8,
}

/// A rule with clauses that the packet matches. It counts only if one of its conjunctive matches
/// has all clauses.
struct Soft<'a, 'c, R> {
    priority: u16,
    clauses: &'c [Clause],
    /// The rules of its match, and its place among them.
    head: &'a Head<R>,
    at: usize,
}

impl<R> Classifier<R> {
    /// [`Self::lookup`] for a table that has rules with clauses. `clauses_of` returns a rule's
    /// clauses, none for other rules.
    pub fn lookup_conjunctive<'a, 'c>(
        &'a self,
        key: &FlowKey,
        wildcards: &mut Mask,
        clauses_of: impl Fn(&R) -> &'c [Clause],
    ) -> Option<&'a R> {
        let (mut hard, mut soft) = self.matches(key, wildcards, &clauses_of);
        loop {
            let best = hard.map(|(priority, _)| *priority);
            soft.retain(|it| best.is_none_or(|best| it.priority > best));
            let Some(priority) = soft.iter().map(|it| it.priority).max() else {
                return hard.map(|(_, rule)| rule);
            };
            for id in complete(&soft, priority) {
                let mut key = key.clone();
                key.set(Field::ConjId, id.into());
                // Rules with clauses do not match in this pass.
                let (found, _) = self.matches(&key, wildcards, &clauses_of);
                if let Some((_, rule)) = found {
                    return Some(rule);
                }
            }
            // The rules of the same match with a lower priority are next.
            for it in soft.iter_mut().filter(|it| it.priority == priority) {
                it.at += 1;
                match it.head.rules().nth(it.at) {
                    Some(next) => {
                        (it.priority, it.clauses) = (next.0, clauses_of(&next.1));
                        if it.clauses.is_empty() && hard.is_none_or(|best| next.0 > best.0) {
                            hard = Some(next);
                        }
                    }
                    None => it.clauses = &[],
                }
            }
            soft.retain(|it| !it.clauses.is_empty());
        }
    }

    /// Returns the best rule without clauses that the packet matches, and the better rules with
    /// clauses.
    fn matches<'a, 'c>(
        &'a self,
        key: &FlowKey,
        wildcards: &mut Mask,
        clauses_of: &impl Fn(&R) -> &'c [Clause],
    ) -> (Option<&'a (u16, R)>, Vec<Soft<'a, 'c, R>>) {
        let mut tries = TrieLookups::new(&self.tries);
        let (mut hard, mut soft): (Option<&(u16, R)>, _) = (None, Vec::new());
        for (max_priority, subtable) in self.by_priority() {
            if hard.is_some_and(|(priority, _)| *priority >= max_priority) {
                break;
            }
            let Some(head) = subtable.find_head(key, &mut tries, wildcards) else { continue };
            let Some(top) = head.rules().next() else { continue };
            if hard.is_some_and(|(priority, _)| *priority >= top.0) {
                continue;
            }
            match clauses_of(&top.1) {
                [] => hard = Some(top),
                clauses => soft.push(Soft { priority: top.0, clauses, head, at: 0 }),
            }
        }
        (hard, soft)
    }
}

/// The conjunctive matches whose clauses are all present among rules of this priority, in the order
/// in which they become complete.
fn complete<R>(soft: &[Soft<'_, '_, R>], priority: u16) -> Vec<u32> {
    let rules = soft.iter().filter(|it| it.priority == priority);
    let count = rules.clone().count();
    // The clauses present of each; bits of clauses that it does not have are set.
    let mut seen: Vec<(u32, u64)> = Vec::new();
    let mut ids = Vec::new();
    for clause in rules.flat_map(|it| it.clauses) {
        if usize::from(clause.clauses) > count {
            continue;
        }
        let at = seen.iter().position(|(id, _)| *id == clause.id).unwrap_or_else(|| {
            let beyond = u64::MAX.checked_shl(clause.clauses.into()).unwrap_or(0);
            seen.push((clause.id, beyond));
            seen.len() - 1
        });
        let there = &mut seen[at].1;
        *there |= 1u64.checked_shl(clause.clause.into()).unwrap_or(0);
        if *there == u64::MAX && !ids.contains(&clause.id) {
            ids.push(clause.id);
        }
    }
    ids
}

#[cfg(test)]
mod tests;
