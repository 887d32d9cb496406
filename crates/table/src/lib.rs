//! A table that many threads share without waiting for each other: records by id, an index from
//! hash to id for each of 65,536 zones, and a wheel that says whose time ran out.
//!
//! What the records mean is the caller's business; here they are rows of atomic words.
//!
//! - [`Epochs`]: when memory may be used again.
//! - [`Slab`]: the records; [`Quota`]: how many there may be.
//! - [`Zones`] and [`Index`]: finding them.
//! - [`Wheel`]: their deadlines.
//! - [`HashTrie`] and [`Published`]: what one thread changes and others read as snapshots.
//! - [`Array`]: large memory of one thread, for what is not shared.
//! - [`prefetch`] and [`prefetch_whole`]: asking for memory before it is needed.

mod array;
mod barrier;
mod bucket;
mod chunks;
mod counts;
mod epochs;
mod hash_trie;
mod index;
mod pages;
mod prefetch;
mod published;
mod quota;
mod scan;
mod slab;
mod wheel;
mod zones;

pub mod atomic;

pub use array::Array;
pub use epochs::{Epochs, Guard, MAX_READERS, Reader};
pub use hash_trie::HashTrie;
pub use index::{Index, Insert, Lookup, Spot};
pub use prefetch::{prefetch, prefetch_whole};
pub use published::{Locked, Published, Snapshot};
pub use quota::{Quota, Share};
pub use slab::{Slab, Spare};
pub use wheel::{Links, TICK, Wheel};
pub use zones::Zones;

/// The number of a record. Zero is none's.
pub type Id = u32;

/// Bytes of index that an entry takes at most on the average, in a zone of ten thousand or more.
/// A test holds the index to it. The wheel takes none but the word in the record.
pub const INDEX_BYTES: usize = 16;

// A connection of IPv4 has 16 words, one of IPv6 has 24; a translated one stands in the index twice.
const _: () = assert!(16 * 8 + 2 * INDEX_BYTES <= 160);
const _: () = assert!(24 * 8 + 2 * INDEX_BYTES <= 224);
