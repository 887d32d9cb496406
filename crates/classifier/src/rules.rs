//! The classifier of an OpenFlow table: rules with priorities, and lookups that un-wildcard the
//! bits that decided them.

use crate::layout::hash_mask;
use crate::prefix::{FieldTrie, MAX_PREFIX_FIELDS, PrefixField, TrieLookups};
use crate::slab::{Handle, Slab};
use crate::subtable::{RuleRef, Subtable};
use arrayvec::ArrayVec;
use flow::{FlowKey, Mask, Match};
use hashbrown::HashTable;
use std::sync::Arc;
use table::{Dissolve, Remains};

/// The rules of one OpenFlow table, each `R` with a match and a priority.
///
/// Lookups visit the subtables in the order of their highest priority, and stop when no other can
/// have a better rule. They un-wildcard the same bits as Open vSwitch (ovs: `lib/classifier.c`): of
/// a subtable without a match only the stages up to the one that showed it, and of addresses and
/// ports only as many leading bits as a trie needed.
///
/// If rules of equal priority overlap, OpenFlow leaves open which one a packet hits; here it is
/// any, the same one as long as the table does not change.
///
/// A clone is a snapshot that shares what neither side changes, so that a change after it copies
/// short pieces and the list of subtables, regardless of the number of rules.
#[derive(Clone, Debug)]
pub struct Classifier<R> {
    subtables: Slab<Arc<Subtable<R>>>,
    by_mask: HashTable<Handle>,
    /// In descending order of priority; among equals the older first.
    order: Vec<Rank>,
    pub(crate) tries: ArrayVec<FieldTrie, MAX_PREFIX_FIELDS>,
    len: usize,
}

/// The place of a subtable in the order.
#[derive(Clone, Copy, Debug)]
struct Rank {
    max_priority: u16,
    subtable: Handle,
}

impl<R: Clone> Default for Classifier<R> {
    fn default() -> Self {
        Self::new()
    }
}

impl<R> Classifier<R> {
    /// The number of rules.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the classifier has no rules.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the number of subtables, which is that of different masks.
    #[cfg(test)]
    pub(crate) fn subtable_count(&self) -> usize {
        self.order.len()
    }

    /// The rule with exactly this match and priority.
    pub fn get(&self, matching: &Match, priority: u16) -> Option<&R> {
        let handle = self.find_subtable(matching.mask())?;
        self.subtables.get(handle)?.get(matching.key(), priority)
    }

    /// Returns the rule of highest priority that the packet matches. Un-wildcards in `wildcards`
    /// all bits that decided the result, with or without a rule: every packet that agrees in them
    /// has the same result.
    pub fn lookup(&self, key: &FlowKey, wildcards: &mut Mask) -> Option<&R> {
        let mut tries = TrieLookups::new(&self.tries);
        self.best(|subtable| subtable.find_staged(key, &mut tries, wildcards))
    }

    /// As [`Self::lookup`], without un-wildcarding.
    #[cfg(test)]
    pub(crate) fn lookup_plain(&self, key: &FlowKey) -> Option<&R> {
        self.best(|subtable| subtable.find(key))
    }

    /// All rules, in an order that depends only on the sequence of changes.
    pub fn iter(&self) -> impl Iterator<Item = RuleRef<'_, R>> {
        self.ranked().flat_map(Subtable::rules)
    }

    /// The rules of this priority that a packet of `matching` could match too (OpenFlow's
    /// `OFPFF_CHECK_OVERLAP`), including the rule with exactly this match.
    pub fn overlapping(
        &self,
        matching: &Match,
        priority: u16,
    ) -> impl Iterator<Item = RuleRef<'_, R>> {
        let ranks = self.order.iter().take_while(move |rank| rank.max_priority >= priority);
        let subtables = ranks.filter_map(|rank| self.subtables.get(rank.subtable));
        let rules = subtables.flat_map(|subtable| subtable.rules());
        rules.filter(move |rule| rule.priority == priority && rule.overlaps(matching))
    }

    /// The rules whose packets `matching` all matches, as for OpenFlow's loose modify, delete and
    /// statistics requests.
    pub fn matching_within(&self, matching: &Match) -> impl Iterator<Item = RuleRef<'_, R>> {
        let subtables = self.ranked().filter(|table| matching.mask().is_within(table.mask()));
        // The rule's mask has all bits of `matching`, so overlapping means that the values agree.
        subtables.flat_map(Subtable::rules).filter(|rule| rule.overlaps(matching))
    }

    /// Visits subtables until no other can have a better rule.
    fn best<'a>(
        &'a self,
        mut find: impl FnMut(&'a Subtable<R>) -> Option<&'a (u16, R)>,
    ) -> Option<&'a R> {
        let mut best: Option<&(u16, R)> = None;
        for rank in &self.order {
            if best.is_some_and(|(priority, _)| *priority >= rank.max_priority) {
                break;
            }
            let found = self.subtables.get(rank.subtable).map(|it| &**it).and_then(&mut find);
            if let Some(found) = found
                && best.is_none_or(|(priority, _)| found.0 > *priority)
            {
                best = Some(found);
            }
        }
        best.map(|(_, rule)| rule)
    }

    /// The subtables in the order of lookups, each with its highest priority.
    pub(crate) fn by_priority(&self) -> impl Iterator<Item = (u16, &Subtable<R>)> {
        let ranks = self.order.iter();
        ranks.filter_map(|rank| Some((rank.max_priority, &**self.subtables.get(rank.subtable)?)))
    }

    fn ranked(&self) -> impl Iterator<Item = &Subtable<R>> {
        self.order.iter().filter_map(|rank| Some(&**self.subtables.get(rank.subtable)?))
    }

    /// The subtable of this rank.
    pub(crate) fn at_rank(&self, rank: usize) -> Option<&Subtable<R>> {
        self.subtables.get(self.order.get(rank)?.subtable).map(|subtable| &**subtable)
    }

    fn find_subtable(&self, mask: &Mask) -> Option<Handle> {
        let is_it = |&handle: &Handle| self.subtables.get(handle).is_some_and(|s| s.mask() == mask);
        self.by_mask.find(hash_mask(mask), is_it).copied()
    }
}

/// Changes copy parts that a clone shares.
impl<R: Clone> Classifier<R> {
    /// A classifier without rules, with tries for [`PrefixField::DEFAULT`].
    pub fn new() -> Self {
        Self::with_prefix_fields(PrefixField::DEFAULT)
    }

    /// A classifier without rules, with tries as in [`Self::set_prefix_fields`].
    pub fn with_prefix_fields(fields: &[PrefixField]) -> Self {
        let mut classifier = Classifier {
            subtables: Slab::default(),
            by_mask: HashTable::new(),
            order: Vec::new(),
            tries: ArrayVec::new(),
            len: 0,
        };
        classifier.set_prefix_fields(fields);
        classifier
    }

    /// Keeps tries for these fields only, of which the first [`MAX_PREFIX_FIELDS`] count. Returns
    /// whether that changed anything. The cost is a visit of all rules.
    pub fn set_prefix_fields(&mut self, fields: &[PrefixField]) -> bool {
        let mut wanted: ArrayVec<PrefixField, MAX_PREFIX_FIELDS> = ArrayVec::new();
        for &field in fields {
            if !wanted.contains(&field) && !wanted.is_full() {
                wanted.push(field);
            }
        }
        if wanted.iter().eq(self.tries.iter().map(|trie| &trie.field)) {
            return false;
        }
        self.tries = wanted.into_iter().map(FieldTrie::new).collect();
        for (_, subtable) in self.subtables.iter_mut() {
            let subtable = Arc::make_mut(subtable);
            subtable.set_tries(&self.tries);
            let lens = subtable.prefix_lens;
            if lens.iter().all(|&len| len == 0) {
                continue;
            }
            for key in subtable.keys() {
                for (trie, &len) in self.tries.iter_mut().zip(&lens) {
                    trie.insert(&key, len);
                }
            }
        }
        true
    }

    /// Adds a rule. Replaces and returns the rule with the same match and priority, if any.
    pub fn insert(&mut self, matching: &Match, priority: u16, rule: R) -> Option<R> {
        let key = matching.key();
        let handle = self.subtable_for(matching.mask(), priority);
        let subtable = Arc::make_mut(self.subtables.get_mut(handle)?);
        let max_before = subtable.max_priority();
        match subtable.insert(key, priority, rule) {
            Err(old) => return Some(old),
            Ok(false) => {}
            Ok(true) => {
                for (trie, &len) in self.tries.iter_mut().zip(&subtable.prefix_lens) {
                    trie.insert(key, len);
                }
            }
        }
        self.len += 1;
        if priority > max_before {
            self.set_rank(handle, priority);
        }
        None
    }

    /// Takes out the rule with exactly this match and priority.
    pub fn remove(&mut self, matching: &Match, priority: u16) -> Option<R> {
        let key = matching.key();
        let handle = self.find_subtable(matching.mask())?;
        let subtable = Arc::make_mut(self.subtables.get_mut(handle)?);
        let max_before = subtable.max_priority();
        let removed = subtable.remove(key, priority)?;
        self.len -= 1;
        if removed.last_of_match {
            for (trie, &len) in self.tries.iter_mut().zip(&subtable.prefix_lens) {
                trie.remove(key, len);
            }
        }
        if subtable.is_empty() {
            self.drop_subtable(handle);
        } else if subtable.max_priority() < max_before {
            let max_priority = subtable.max_priority();
            self.set_rank(handle, max_priority);
        }
        Some(removed.rule)
    }

    /// The rule with exactly this match and priority, to be changed.
    pub fn get_mut(&mut self, matching: &Match, priority: u16) -> Option<&mut R> {
        let handle = self.find_subtable(matching.mask())?;
        Arc::make_mut(self.subtables.get_mut(handle)?).get_mut(matching.key(), priority)
    }

    /// Returns the subtable of a mask; a new one ranks by the priority of its first rule.
    fn subtable_for(&mut self, mask: &Mask, priority: u16) -> Handle {
        if let Some(handle) = self.find_subtable(mask) {
            return handle;
        }
        let handle = self.subtables.insert(Arc::new(Subtable::new(mask, &self.tries)));
        let subtables = &self.subtables;
        self.by_mask.insert_unique(hash_mask(mask), handle, |&handle| {
            subtables.get(handle).map_or(0, |subtable| hash_mask(subtable.mask()))
        });
        let at = self.order.partition_point(|rank| rank.max_priority >= priority);
        self.order.insert(at, Rank { max_priority: priority, subtable: handle });
        handle
    }

    fn drop_subtable(&mut self, handle: Handle) {
        self.order.retain(|rank| rank.subtable != handle);
        if let Some(subtable) = self.subtables.remove(handle) {
            let hash = hash_mask(subtable.mask());
            if let Ok(entry) = self.by_mask.find_entry(hash, |&have| have == handle) {
                entry.remove();
            }
        }
    }

    /// Moves a subtable to the place of its priority; among equals it stays on its side, as in a
    /// stable sort.
    fn set_rank(&mut self, handle: Handle, max_priority: u16) {
        let Some(at) = self.order.iter().position(|rank| rank.subtable == handle) else { return };
        let old = self.order[at].max_priority;
        if old == max_priority {
            return;
        }
        self.order.remove(at);
        let at = if max_priority > old {
            self.order.partition_point(|rank| rank.max_priority >= max_priority)
        } else {
            self.order.partition_point(|rank| rank.max_priority > max_priority)
        };
        self.order.insert(at, Rank { max_priority, subtable: handle });
    }
}

impl<R: Send + Sync + 'static> Classifier<R> {
    /// Frees the classifier a part at a time.
    pub fn hand_over(self, remains: &mut Remains) {
        self.tries.into_iter().for_each(|trie| trie.hand_over(remains));
        remains.add(Ended { subtables: self.subtables, order: self.order });
    }
}

/// The subtables of a classifier that is being freed.
struct Ended<R> {
    subtables: Slab<Arc<Subtable<R>>>,
    order: Vec<Rank>,
}

impl<R: Send + Sync + 'static> Dissolve for Ended<R> {
    fn dissolve(&mut self, remains: &mut Remains, left: &mut usize) {
        while *left > 0
            && let Some(rank) = self.order.pop()
        {
            *left -= 1;
            if let Some(subtable) = self.subtables.remove(rank.subtable).and_then(Arc::into_inner) {
                subtable.hand_over(remains);
            }
        }
    }
}

#[cfg(test)]
mod tests;
