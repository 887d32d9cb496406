//! Flow lookup.
//!
//! | type | for | finds |
//! |---|---|---|
//! | [`Classifier`] | one OpenFlow table | the rule of highest priority, and which bits decided it |
//! | [`MegaflowTable`] | one datapath worker | the one flow that matches; flows do not overlap |
//! | [`ExactCache`] | one datapath worker | the flow that these very headers hit before |
//!
//! The first two are tuple-space searches: all flows with the same mask share a subtable, which is
//! a hash table over the masked words of the key, and a lookup probes one subtable after the other
//! (ovs: `lib/classifier.c`, `lib/dpif-netdev.c`). Two numbers bound what a lookup costs:
//!
//! | | words of the key touched | hash probes |
//! |---|---|---|
//! | [`Classifier::lookup`] | two a word in the mask of each subtable visited | 4 a subtable visited |
//! | [`Classifier::lookup_plain`] | two a word in the mask of each subtable visited | 1 a subtable visited |
//! | [`MegaflowTable::lookup`] | two a word in the mask of each subtable visited | 1 a subtable visited |
//! | [`ExactCache::lookup`] | the 34 of the key, once | 2 |
//!
//! [`Classifier::lookup_conjunctive`] costs a lookup, and one more for each conjunctive match of which the
//! packet has all clauses; it is for tables that have such rules and allocates.
//!
//! What holds flows grows in bounded steps, however many there are: [`Slab`], [`Rows`], [`Columns`] and [`Queue`]
//! lie in pieces that stay where they are, [`Index`] and [`PartedMap`] in 256 parts of which one grows at a time.
//!
//! "Two a word" is one for hashing and one for comparing, and the comparison happens only where a
//! hash was found. [`Classifier::lookup`] also walks each configured prefix trie at most once, and
//! the ports trie of a subtable that missed at its very end; a walk visits at most one node for
//! each bit of the field. No other lookup allocates.

#![forbid(unsafe_code)]

mod columns;
mod conjunction;
mod exact;
mod index;
mod layout;
mod megaflow;
mod parted;
mod parts;
mod prefix;
mod priorities;
mod queue;
#[cfg(test)]
mod random;
mod rows;
mod rules;
mod slab;
mod stage;
mod subtable;
mod trie;
mod within;

pub use columns::{Columns, Wanted};
pub use conjunction::Clause;
pub use exact::{ExactCache, hash};
pub use index::Index;
pub use megaflow::{LookupCounts, MegaflowTable};
pub use parted::PartedMap;
pub use prefix::{MAX_PREFIX_FIELDS, PrefixField};
pub use queue::Queue;
pub use rows::Rows;
pub use rules::Classifier;
pub use slab::{Handle, Slab};
pub use subtable::RuleRef;
pub use within::{Place, Visited};
