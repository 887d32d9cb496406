//! A worker's pool of free packet buffers.

use crate::packet::Packet;
use base::limits::FRAME_BYTES;

/// The largest frame of a small buffer in bytes: Ethernet with two VLAN tags, without FCS.
pub const SMALL_FRAME_BYTES: usize = 1522;

/// Free packets, each with room for the largest frame. A pool belongs to one worker. In steady
/// state every packet returns to it, and nothing is allocated.
///
/// It may also keep small buffers. A port whose driver lends small buffers then replies in the same
/// ones, which are in the processor's cache and need no copy.
#[derive(Debug)]
pub struct Pool {
    free: Vec<Packet>,
    keep: usize,
    small: Vec<Packet>,
    keep_small: usize,
}

impl Pool {
    /// An empty pool that keeps at most `keep` free packets.
    pub fn new(keep: usize) -> Self {
        Pool { free: Vec::with_capacity(keep), keep, small: Vec::new(), keep_small: 0 }
    }

    /// Adds at most `keep` buffers of [`SMALL_FRAME_BYTES`].
    #[must_use]
    pub fn with_small(mut self, keep: usize) -> Self {
        self.small = Vec::with_capacity(keep);
        self.keep_small = keep;
        self
    }

    /// An empty packet that takes a frame of [`FRAME_BYTES`].
    #[inline]
    pub fn take(&mut self) -> Packet {
        self.free.pop().unwrap_or_else(|| Packet::with_capacity(FRAME_BYTES))
    }

    /// Returns a packet with room for this many bytes, at most [`FRAME_BYTES`], from the small buffers if one
    /// fits. Its old contents remain until they are overwritten.
    #[inline]
    pub fn take_for(&mut self, bytes: usize) -> Packet {
        let small = if bytes <= SMALL_FRAME_BYTES { self.small.pop() } else { None };
        small.unwrap_or_else(|| self.take())
    }

    /// A copy of `packet`. Without a free buffer it is one of the packet's own size: a flood makes a copy for
    /// each port, and one of [`FRAME_BYTES`] has 17 pages to clear.
    pub fn copy(&mut self, packet: &Packet) -> Packet {
        let Some(mut copy) = self.free.pop() else { return packet.compact_copy() };
        if copy.copy_from(packet) {
            return copy;
        }
        self.free.push(copy);
        packet.compact_copy()
    }

    /// Returns a packet to the pool. Frees small buffers of another origin, and packets beyond the number
    /// that the pool keeps.
    #[inline]
    pub fn give(&mut self, packet: Packet) {
        let room = packet.room();
        if room >= FRAME_BYTES {
            if self.free.len() < self.keep {
                self.free.push(packet);
            }
        } else if self.small.len() < self.keep_small && room >= SMALL_FRAME_BYTES {
            self.small.push(packet);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_full_size_buffers_come_back_and_no_more_than_kept() {
        let mut pool = Pool::new(1);
        let (a, b) = (pool.take(), pool.take());
        pool.give(Packet::from_bytes(&[1]));
        assert_eq!(pool.free.len(), 0);
        pool.give(a);
        pool.give(b);
        assert_eq!(pool.free.len(), 1);
        let copies = [(); 2].map(|()| pool.copy(&Packet::from_bytes(&[1, 2])));
        assert_eq!(copies.each_ref().map(Packet::data), [[1, 2]; 2]);
        assert_eq!(copies.map(|copy| copy.room()), [FRAME_BYTES, 2]);
    }

    #[test]
    fn small_ones_are_taken_for_small_frames_only() {
        let mut pool = Pool::new(1).with_small(1);
        let small = || Packet::with_capacity(SMALL_FRAME_BYTES);
        pool.give(Packet::with_capacity(SMALL_FRAME_BYTES - 1));
        assert_eq!(pool.small.len(), 0);
        pool.give(small());
        pool.give(small());
        assert_eq!((pool.small.len(), pool.free.len()), (1, 0));
        assert!(pool.take().room() >= FRAME_BYTES);
        assert!(pool.take_for(SMALL_FRAME_BYTES + 1).room() >= FRAME_BYTES);
        assert_eq!(pool.take_for(SMALL_FRAME_BYTES).room(), SMALL_FRAME_BYTES);
        assert!(pool.take_for(SMALL_FRAME_BYTES).room() >= FRAME_BYTES);
    }
}
