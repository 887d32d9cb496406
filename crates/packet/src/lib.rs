//! Packet buffers: the bytes of one frame with headroom in front, its offload state ([`Offload`]),
//! batches of 32 and per-worker pools.
//!
//! A [`Packet`] has exactly one owner. It moves from the receive queue through the datapath to a
//! transmit queue, which returns its buffer to a [`Pool`]. It is copied only when it leaves by more
//! than one port.

mod head;
mod offload;
mod packet;
mod pool;

pub use head::{Head, Lender, Metadata};
pub use offload::{Checksum, Gso, GsoKind, Offload};
pub use packet::{HEADROOM, Packet};
pub use pool::{Pool, SMALL_FRAME_BYTES};

/// Up to 32 packets that are processed together.
pub type Batch = arrayvec::ArrayVec<Packet, { base::limits::BATCH_SIZE }>;
