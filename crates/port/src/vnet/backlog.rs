//! Received frames that wait for a place in a batch, since one of them becomes many.

use super::Received;
use packet::{Batch, Packet, Pool};
use std::collections::VecDeque;

/// The frames of a receive queue behind one that is received as its segments. It is empty between calls of the queue
/// unless the batch was full, and holds at most the frames of one receive call.
#[derive(Debug, Default)]
pub struct Backlog {
    waiting: VecDeque<(Packet, Received)>,
}

impl Backlog {
    /// Returns whether no frame waits.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Adds a frame to the batch, or to those that wait. The batch has room if none waits.
    #[inline]
    pub fn receive(&mut self, packet: Packet, received: Received, batch: &mut Batch) {
        match received {
            Received::Whole if self.waiting.is_empty() && !batch.is_full() => batch.push(packet),
            received => self.waiting.push_back((packet, received)),
        }
    }

    /// Moves frames that wait to the batch, as far as it has room.
    #[inline]
    pub fn continue_with(&mut self, pool: &mut Pool, batch: &mut Batch) {
        if !self.waiting.is_empty() {
            self.fill(pool, batch);
        }
    }

    #[cold]
    fn fill(&mut self, pool: &mut Pool, batch: &mut Batch) {
        while !batch.is_full()
            && let Some((packet, received)) = self.waiting.front_mut()
        {
            let next = match received {
                Received::Whole => Some(packet.take()),
                Received::Segments(segments) => segments.next(packet.data(), pool),
            };
            match next {
                Some(next) => batch.push(next),
                None => pool.give(packet.take()),
            }
            if packet.is_empty() {
                self.waiting.pop_front();
            }
        }
    }
}
