//! A subtable: all rules of a table with the same mask.

use crate::layout::{Layout, LayoutWord, WordHasher, words_of};
use crate::prefix::{FieldTrie, MAX_PREFIX_FIELDS, TrieLookups};
use crate::priorities::Priorities;
use crate::stage::Stage;
use crate::trie::PrefixTrie;
use arrayvec::ArrayVec;
use flow::{Field, FlowKey, Mask, Match};
use std::hash::Hasher as _;
use std::ops::Range;
use std::sync::Arc;
use table::{HashTrie, Remains};

/// Rules are hashed with a fixed seed, so that iteration is the same in every run. They come from
/// the controller, so senders of packets cannot choose what collides.
const SEED: u64 = 0;

/// A rule in the classifier.
#[derive(Debug)]
pub struct RuleRef<'a, R> {
    /// Its priority.
    pub priority: u16,
    /// What was inserted.
    pub rule: &'a R,
    layout: &'a Layout,
    words: &'a [u64],
}

impl<R> RuleRef<'_, R> {
    /// The packets it matches.
    pub fn matching(&self) -> Match {
        self.layout.unpack(self.words)
    }
}

/// The rules of one mask. Clones share all parts that neither of them changes.
#[derive(Clone, Debug)]
pub(crate) struct Subtable<R> {
    mask: Mask,
    /// The words of the mask, outer stages first.
    layout: Layout,
    /// The stages that the mask has words in, except the last.
    early: ArrayVec<EarlyStage, 3>,
    last: StageWords,
    /// The length of the mask's prefix for each trie of the table.
    pub prefix_lens: [u32; MAX_PREFIX_FIELDS],
    /// The mask's source port, then its destination port.
    ports_mask: u32,
    ports: PrefixTrie,
    heads: HashTrie<Head<R>>,
    priorities: Priorities,
}

/// The words of a stage in the layout.
#[derive(Clone, Debug)]
struct StageWords {
    words: Range<usize>,
    has_addresses: bool,
}

/// A stage after which a lookup may already know that no rule matches.
#[derive(Clone, Debug)]
struct EarlyStage {
    stage: StageWords,
    /// The hashes of the heads' words up to the end of this stage, with the number of heads that
    /// have each.
    hashes: HashTrie<usize>,
}

/// The rules of one match, which differ only in priority.
#[derive(Clone, Debug)]
pub(crate) struct Head<R> {
    words: Arc<[u64]>,
    /// The rule of highest priority, which lookups return.
    top: (u16, R),
    /// The others, highest priority first.
    lower: Vec<(u16, R)>,
}

/// The result of a removal.
pub(crate) struct Removed<R> {
    pub rule: R,
    /// Whether no other rule has this match.
    pub last_of_match: bool,
}

impl<R> Subtable<R> {
    /// A subtable without rules, for a table with these tries.
    pub fn new(mask: &Mask, tries: &[FieldTrie]) -> Self {
        let mut words: Vec<LayoutWord> = Vec::new();
        let mut stages: ArrayVec<StageWords, 4> = ArrayVec::new();
        for stage in Stage::ALL {
            let start = words.len();
            words.extend(words_of(&stage.part_of(mask)));
            if words.len() > start {
                let has_addresses = stage == Stage::L3;
                stages.push(StageWords { words: start..words.len(), has_addresses });
            }
        }
        let last = stages.pop().unwrap_or(StageWords { words: 0..0, has_addresses: false });
        let early =
            stages.into_iter().map(|stage| EarlyStage { stage, hashes: HashTrie::default() });
        let mut subtable = Subtable {
            mask: mask.clone(),
            layout: Layout::new(words),
            early: early.collect(),
            last,
            prefix_lens: [0; MAX_PREFIX_FIELDS],
            ports_mask: (mask.get(Field::TpSrc) << 16 | mask.get(Field::TpDst)) as u32,
            ports: PrefixTrie::default(),
            heads: HashTrie::default(),
            priorities: Priorities::default(),
        };
        subtable.set_tries(tries);
        subtable
    }

    /// Adapts to a change of the table's tries.
    pub fn set_tries(&mut self, tries: &[FieldTrie]) {
        self.prefix_lens = [0; MAX_PREFIX_FIELDS];
        for (len, trie) in self.prefix_lens.iter_mut().zip(tries) {
            *len = trie.field.prefix_len(&self.mask);
        }
    }

    pub fn mask(&self) -> &Mask {
        &self.mask
    }

    pub fn is_empty(&self) -> bool {
        self.heads.is_empty()
    }

    /// The highest priority of any rule, 0 without rules.
    pub fn max_priority(&self) -> u16 {
        self.priorities.max()
    }

    /// Returns the rule of highest priority that matches `key`.
    #[inline]
    #[cfg(test)]
    pub fn find(&self, key: &FlowKey) -> Option<&(u16, R)> {
        Some(&self.head(self.layout.hash(key, SEED), key)?.top)
    }

    /// Returns the rule of highest priority that matches `key`, and un-wildcards the bits that decided this.
    pub fn find_staged(
        &self,
        key: &FlowKey,
        tries: &mut TrieLookups<'_>,
        wildcards: &mut Mask,
    ) -> Option<&(u16, R)> {
        Some(&self.find_head(key, tries, wildcards)?.top)
    }

    /// Returns the rules that match `key`, and un-wildcards the bits that decided the result (ovs:
    /// `lib/classifier.c`, `find_match_wc`).
    pub fn find_head(
        &self,
        key: &FlowKey,
        tries: &mut TrieLookups<'_>,
        wildcards: &mut Mask,
    ) -> Option<&Head<R>> {
        let mut hasher = WordHasher::new(SEED);
        let mut looked_at = 0;
        for EarlyStage { stage, hashes } in &self.early {
            if stage.has_addresses && tries.rule_out(&self.prefix_lens, key, wildcards) {
                return self.miss(looked_at, wildcards);
            }
            looked_at = stage.words.end;
            self.layout.hash_range(stage.words.clone(), key, &mut hasher);
            let hash = hasher.finish();
            if hashes.find(hash, |_| true).is_none() {
                return self.miss(looked_at, wildcards);
            }
        }
        if self.last.has_addresses && tries.rule_out(&self.prefix_lens, key, wildcards) {
            return self.miss(looked_at, wildcards);
        }
        self.layout.hash_range(self.last.words.clone(), key, &mut hasher);
        let head = self.head(hasher.finish(), key);
        if head.is_none() && self.ports_rule_out(key, wildcards) {
            return self.miss(looked_at, wildcards);
        }
        wildcards.union(&self.mask);
        head
    }

    /// Returns whether no rule has the packet's ports, and then un-wildcards the port bits that
    /// show it. Open vSwitch does not check whether the ports caused the miss, and leaves out the
    /// other fields of the last stage even if they did.
    fn ports_rule_out(&self, key: &FlowKey, wildcards: &mut Mask) -> bool {
        if self.ports_mask == 0 {
            return false;
        }
        let ports = self.masked_ports(key);
        let found = self.ports.lookup(u128::from(ports) << 96, 32);
        if found.has_length(self.ports_len()) {
            return false;
        }
        let bits = self.ports_mask & !u32::MAX.checked_shr(found.bits).unwrap_or(0);
        wildcards.add_bits(Field::TpSrc, (bits >> 16).into());
        wildcards.add_bits(Field::TpDst, (bits & 0xffff).into());
        true
    }

    /// Un-wildcards the words compared so far, which decided that nothing matches.
    fn miss(&self, looked_at: usize, wildcards: &mut Mask) -> Option<&Head<R>> {
        self.layout.unwildcard(0..looked_at, wildcards);
        None
    }

    /// The rule with this match and priority.
    pub fn get(&self, key: &FlowKey, priority: u16) -> Option<&R> {
        let head = self.head(self.layout.hash(key, SEED), key)?;
        let found = head.rules().find(|(have, _)| *have == priority)?;
        Some(&found.1)
    }

    /// All rules.
    pub fn rules(&self) -> impl Iterator<Item = RuleRef<'_, R>> {
        let layout = &self.layout;
        self.heads.iter().flat_map(move |head| {
            head.rules().map(move |(priority, rule)| RuleRef {
                priority: *priority,
                rule,
                layout,
                words: &head.words,
            })
        })
    }

    /// Visits and counts down some rules, from this hash on. Returns the hash from which to go on, if there may be more.
    pub fn part(
        &self,
        from: u64,
        left: &mut usize,
        mut visit: impl FnMut(RuleRef<'_, R>),
    ) -> Option<u64> {
        let (layout, (heads, next)) = (&self.layout, self.heads.part(from));
        for head in heads {
            for &(priority, ref rule) in head.rules() {
                *left = left.saturating_sub(1);
                visit(RuleRef { priority, rule, layout, words: &head.words });
            }
        }
        next
    }

    /// The keys of all matches, each once.
    pub fn keys(&self) -> impl Iterator<Item = FlowKey> {
        self.heads.iter().map(|head| self.layout.unpack(&head.words).key().clone())
    }

    fn head(&self, hash: u64, key: &FlowKey) -> Option<&Head<R>> {
        self.heads.find(hash, |head| self.layout.matches(&head.words, key))
    }

    /// The length of the prefixes in the ports trie: up to the last bit of the mask. Bits between
    /// that the mask lacks are zero in rules and packets alike.
    fn ports_len(&self) -> u32 {
        32 - self.ports_mask.trailing_zeros()
    }

    fn masked_ports(&self, key: &FlowKey) -> u32 {
        (u32::from(key.tp_src()) << 16 | u32::from(key.tp_dst())) & self.ports_mask
    }
}

/// Changes copy parts that another table shares.
impl<R: Clone> Subtable<R> {
    /// Adds a rule. Returns an equal one of the same priority as the error; otherwise returns
    /// whether its match is new.
    pub fn insert(&mut self, key: &FlowKey, priority: u16, rule: R) -> Result<bool, R> {
        let hash = self.layout.hash(key, SEED);
        let layout = &self.layout;
        let is_new = match self.heads.find_mut(hash, |head| layout.matches(&head.words, key)) {
            Some(head) => {
                if let Some(old) = head.insert(priority, rule) {
                    return Err(old);
                }
                false
            }
            None => {
                let words = layout.pack(key).collect();
                let head = Head { words, top: (priority, rule), lower: Vec::new() };
                self.heads.insert(hash, head);
                self.index(key);
                true
            }
        };
        self.priorities.add(priority);
        Ok(is_new)
    }

    /// Takes a rule out.
    pub fn remove(&mut self, key: &FlowKey, priority: u16) -> Option<Removed<R>> {
        let hash = self.layout.hash(key, SEED);
        let layout = &self.layout;
        let is_it = |head: &Head<R>| layout.matches(&head.words, key);
        let head = self.heads.find_mut(hash, is_it)?;
        let removed = if head.top.0 != priority {
            let at = head.lower.iter().position(|&(have, _)| have == priority)?;
            Removed { rule: head.lower.remove(at).1, last_of_match: false }
        } else if head.lower.is_empty() {
            let rule = self.heads.remove(hash, is_it)?.top.1;
            self.unindex(key);
            Removed { rule, last_of_match: true }
        } else {
            let next = head.lower.remove(0);
            Removed { rule: std::mem::replace(&mut head.top, next).1, last_of_match: false }
        };
        self.priorities.remove(priority);
        Some(removed)
    }

    /// The rule with this match and priority, to be changed.
    pub fn get_mut(&mut self, key: &FlowKey, priority: u16) -> Option<&mut R> {
        let hash = self.layout.hash(key, SEED);
        let layout = &self.layout;
        let head = self.heads.find_mut(hash, |head| layout.matches(&head.words, key))?;
        let mut rules = std::iter::once(&mut head.top).chain(&mut head.lower);
        let found = rules.find(|(have, _)| *have == priority)?;
        Some(&mut found.1)
    }

    /// Adds a new match to the early stages and the ports trie.
    fn index(&mut self, key: &FlowKey) {
        let mut hasher = WordHasher::new(SEED);
        for EarlyStage { stage, hashes } in &mut self.early {
            self.layout.hash_range(stage.words.clone(), key, &mut hasher);
            let hash = hasher.finish();
            match hashes.find_mut(hash, |_| true) {
                Some(count) => *count += 1,
                None => hashes.insert(hash, 1),
            }
        }
        if self.ports_mask != 0 {
            self.ports.insert(u128::from(self.masked_ports(key)) << 96, self.ports_len());
        }
    }

    /// Removes what [`Self::index`] added.
    fn unindex(&mut self, key: &FlowKey) {
        let mut hasher = WordHasher::new(SEED);
        for EarlyStage { stage, hashes } in &mut self.early {
            self.layout.hash_range(stage.words.clone(), key, &mut hasher);
            let hash = hasher.finish();
            if let Some(count) = hashes.find_mut(hash, |_| true) {
                *count -= 1;
                if *count == 0 {
                    hashes.remove(hash, |_| true);
                }
            }
        }
        if self.ports_mask != 0 {
            self.ports.remove(u128::from(self.masked_ports(key)) << 96, self.ports_len());
        }
    }
}

impl<R: Send + Sync + 'static> Subtable<R> {
    /// Frees the subtable a part at a time.
    pub fn hand_over(self, remains: &mut Remains) {
        self.early.into_iter().for_each(|early| early.hashes.hand_over(remains));
        self.ports.hand_over(remains);
        self.heads.hand_over(remains);
    }
}

impl<R> RuleRef<'_, R> {
    /// Whether a packet could match both this rule and `other`.
    pub(crate) fn overlaps(&self, other: &Match) -> bool {
        self.layout.overlaps(self.words, other)
    }
}

impl<R> Head<R> {
    /// Highest priority first.
    pub fn rules(&self) -> impl Iterator<Item = &(u16, R)> {
        std::iter::once(&self.top).chain(&self.lower)
    }

    /// Adds a rule, or replaces and returns the one of the same priority.
    fn insert(&mut self, priority: u16, rule: R) -> Option<R> {
        if priority == self.top.0 {
            return Some(std::mem::replace(&mut self.top.1, rule));
        }
        if priority > self.top.0 {
            let old = std::mem::replace(&mut self.top, (priority, rule));
            self.lower.insert(0, old);
            return None;
        }
        let at = self.lower.partition_point(|(have, _)| *have > priority);
        match self.lower.get_mut(at) {
            Some((have, old)) if *have == priority => Some(std::mem::replace(old, rule)),
            _ => {
                self.lower.insert(at, (priority, rule));
                None
            }
        }
    }
}
