//! Software offloads: completing checksums, segmenting large frames, and merging segments.
//!
//! The first two are for ports that cannot carry [`packet::Offload`] (pcap files), for packets that leave
//! the switch otherwise than through a port, such as to a controller, and for packets that arrive with an offload
//! that the datapath does not know ([`crate::vnet`]). [`Merge`] is for ports whose device takes large frames.

mod layout;
mod merge;
mod partial;
mod segment;
#[cfg(test)]
mod tests;

pub use merge::Merge;
pub use partial::{complete_checksum, find_partial, is_whole};
pub(crate) use partial::{partial_place, state_partial};
pub use segment::{Segments, exceeds, finish, is_segmentable, segment};
