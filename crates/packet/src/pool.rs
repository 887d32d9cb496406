//! A worker's own store of free packet buffers.

use crate::packet::Packet;
use base::limits::FRAME_BYTES;

/// Free packets, each with room for the largest frame. Belongs to one worker; when the switch is
/// in its stride every packet taken comes back, and nothing is allocated.
#[derive(Debug)]
pub struct Pool {
    free: Vec<Packet>,
    keep: usize,
}

impl Pool {
    /// A pool that keeps at most `keep` free packets; it starts empty.
    pub fn new(keep: usize) -> Self {
        Pool { free: Vec::with_capacity(keep), keep }
    }

    /// An empty packet that takes a frame of [`FRAME_BYTES`].
    #[inline]
    pub fn take(&mut self) -> Packet {
        self.free.pop().unwrap_or_else(|| Packet::with_capacity(FRAME_BYTES))
    }

    /// A copy of `packet`.
    pub fn copy(&mut self, packet: &Packet) -> Packet {
        let mut copy = self.take();
        if copy.copy_from(packet) { copy } else { packet.compact_copy() }
    }

    /// Hands a packet back. Small buffers, which came from elsewhere, and more than the pool
    /// keeps are freed.
    #[inline]
    pub fn give(&mut self, packet: Packet) {
        if self.free.len() < self.keep && packet.room() >= FRAME_BYTES {
            self.free.push(packet);
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
        assert_eq!(pool.copy(&Packet::from_bytes(&[1, 2])).data(), [1, 2]);
    }
}
