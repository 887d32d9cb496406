//! A table that many threads share without waiting: records by id, an index from hash to id for
//! each of 65,536 zones, and a timing wheel for expiry.
//!
//! Records are rows of atomic words; the caller defines their meaning.
//!
//! - [`Epochs`]: when memory may be reused.
//! - [`Slab`]: the records; [`Quota`]: their maximum number.
//! - [`Zones`] and [`Index`]: finding records.
//! - [`Wheel`]: their deadlines.
//! - [`HashTrie`] and [`Published`]: snapshots of data that one thread changes; [`Passages`]: who still works with an
//!   older one.
//! - [`Remains`]: large values that are freed a part at a time.
//! - [`Mailbox`], [`WakeUp`] and [`Notice`]: notifying threads of work.
//! - [`Array`]: large memory of one thread; [`free_piece`]: memory that is freed in pieces.
//! - [`prefetch`] and [`prefetch_whole`]: loading memory before it is needed.

mod array;
mod barrier;
mod bucket;
mod chunks;
mod counts;
mod epochs;
mod hash_trie;
mod index;
mod pages;
mod passages;
mod prefetch;
mod published;
mod quota;
mod remains;
mod slab;
mod spare;
mod wake_up;
mod wheel;
mod zones;

pub mod atomic;

pub use array::Array;
pub use epochs::{Epochs, Guard, MAX_READERS, Reader};
pub use hash_trie::HashTrie;
pub use index::{Index, Insert, Lookup, Spot};
pub use passages::{Passage, Passages, UnderWay};
pub use prefetch::{prefetch, prefetch_whole};
pub use published::{Locked, Published, Snapshot};
pub use quota::{Quota, Share};
pub use remains::{Dissolve, Remains};
pub use slab::{Slab, Spare};
pub use spare::free_piece;
pub use wake_up::{Mailbox, Notice, Opened, WakeUp};
pub use wheel::{Links, TICK, Wheel};
pub use zones::Zones;

/// The number of a record; zero stands for none.
pub type Id = u32;

/// The average index memory in bytes per entry, at most, in a zone of ten thousand entries or more.
/// A test checks it. The wheel needs only its word in the record.
pub const INDEX_BYTES: usize = 16;

// An IPv4 connection has 16 words, an IPv6 connection 24; with NAT it has two index entries.
const _: () = assert!(16 * 8 + 2 * INDEX_BYTES <= 160);
const _: () = assert!(24 * 8 + 2 * INDEX_BYTES <= 224);
