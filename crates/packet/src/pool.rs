//! A worker's pool of free packet buffers.

use crate::packet::Packet;
use base::limits::FRAME_BYTES;

/// The largest frame of a small buffer in bytes: Ethernet with two VLAN tags, without FCS.
pub const SMALL_FRAME_BYTES: usize = 1522;

/// The room of a compact buffer in bytes: most packets that wait for an answer, and most copies of a flood, fit.
const COMPACT_BYTES: usize = 192;
/// Free compact buffers that are kept.
const COMPACT_KEPT: usize = 256;
/// Of longer copies for which no buffer is free, one of this many gets a buffer of full size.
const FULL_SIZE_EVERY: u32 = 32;

/// Free packets, each with room for the largest frame. A pool belongs to one worker. In steady
/// state every packet returns to it, and nothing is allocated.
///
/// It may also keep small buffers. A port whose driver lends small buffers then replies in the same
/// ones, which are in the processor's cache and need no copy. Packets that wait for an answer, and copies for
/// which there is no free buffer, take compact buffers.
#[derive(Debug)]
pub struct Pool {
    free: Vec<Packet>,
    keep: usize,
    small: Vec<Packet>,
    keep_small: usize,
    compact: Vec<Packet>,
    /// The number of long copies without a free buffer.
    lacking: u32,
}

impl Pool {
    /// An empty pool that keeps at most `keep` free packets.
    pub fn new(keep: usize) -> Self {
        let (free, small, compact) = (Vec::with_capacity(keep), Vec::new(), Vec::new());
        Pool { free, keep, small, keep_small: 0, compact, lacking: 0 }
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

    /// Returns an empty packet with room for this many bytes. Many are taken at once for the segments of a frame, so
    /// that new ones have no more room than they need.
    pub fn take_fitting(&mut self, bytes: usize) -> Packet {
        self.free.pop().unwrap_or_else(|| Packet::with_capacity(bytes.min(FRAME_BYTES)))
    }

    /// Returns a packet with room for this many bytes, at most [`FRAME_BYTES`], from the small buffers if one
    /// fits. Its old contents remain until they are overwritten.
    #[inline]
    pub fn take_for(&mut self, bytes: usize) -> Packet {
        let small = if bytes <= SMALL_FRAME_BYTES { self.small.pop() } else { None };
        small.unwrap_or_else(|| self.take())
    }

    /// A copy of `packet`.
    pub fn copy(&mut self, packet: &Packet) -> Packet {
        let Some(mut copy) = self.free.pop() else { return self.copy_to_new(packet) };
        if copy.copy_from(packet) {
            return copy;
        }
        self.free.push(copy);
        self.compact_copy(packet)
    }

    /// A copy of `packet` in a buffer of about its size, for packets that are queued.
    pub fn compact_copy(&mut self, packet: &Packet) -> Packet {
        if packet.len() > COMPACT_BYTES {
            return packet.compact_copy();
        }
        let spare = self.compact.pop();
        let mut copy = spare.unwrap_or_else(|| Packet::with_capacity(COMPACT_BYTES));
        // It has room for so many bytes.
        copy.copy_from(packet);
        copy
    }

    /// A copy where no buffer of full size is free. A flood makes a copy for each port, and a buffer of
    /// [`FRAME_BYTES`] has 17 pages to clear, so the copy is compact. The pool does not keep the buffers of long
    /// copies: one of [`FULL_SIZE_EVERY`] of these gets a buffer of full size, which it keeps. Where long copies
    /// recur, as those of a mirror, nothing is allocated after a while.
    #[cold]
    fn copy_to_new(&mut self, packet: &Packet) -> Packet {
        if packet.len() > COMPACT_BYTES {
            self.lacking = self.lacking.wrapping_add(1);
            if self.lacking.is_multiple_of(FULL_SIZE_EVERY) {
                let mut copy = Packet::with_capacity(FRAME_BYTES);
                if copy.copy_from(packet) {
                    return copy;
                }
            }
        }
        self.compact_copy(packet)
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
        } else if room >= SMALL_FRAME_BYTES {
            if self.small.len() < self.keep_small {
                self.small.push(packet);
            }
        } else if room >= COMPACT_BYTES && self.compact.len() < COMPACT_KEPT {
            self.compact.push(packet);
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
        assert_eq!(copies.each_ref().map(|copy| copy.room()), [FRAME_BYTES, COMPACT_BYTES]);
        copies.into_iter().for_each(|copy| pool.give(copy));
        assert_eq!((pool.free.len(), pool.compact.len()), (1, 1));
        let long = Packet::from_bytes(&[7; COMPACT_BYTES + 1]);
        assert_eq!(pool.compact_copy(&long).room(), COMPACT_BYTES + 1);
        assert_eq!(pool.compact_copy(&Packet::from_bytes(&[3])).data(), [3]);
        assert_eq!(pool.compact.len(), 0);
    }

    #[test]
    fn a_pool_that_lacks_buffers_for_long_copies_gets_them_after_a_while() {
        let (mut pool, packet) = (Pool::new(8), Packet::from_bytes(&[7; 300]));
        let mut round = || {
            let copies = [(); 3].map(|()| pool.copy(&packet));
            let full_size = copies.iter().filter(|copy| copy.room() == FRAME_BYTES).count();
            assert!(copies.iter().all(|copy| copy.data() == packet.data()));
            copies.into_iter().for_each(|copy| pool.give(copy));
            full_size
        };
        assert_eq!(round(), 0);
        let later: Vec<usize> = (0..3 * FULL_SIZE_EVERY).map(|_| round()).collect();
        assert!(later.is_sorted() && later.last() == Some(&3), "{later:?}");
        assert_eq!(later.iter().filter(|full_size| **full_size == 0).count(), 9, "{later:?}");
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
