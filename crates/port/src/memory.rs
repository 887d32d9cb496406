//! A cable without devices: two ports joined by bounded queues in memory.

use crate::queue::{PortError, RxQueue, TxCounters, TxQueue};
use packet::{Batch, Packet, Pool};
use std::collections::VecDeque;
use std::os::fd::RawFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// One end of a cable. The other end receives what it sends, with its offload.
///
/// A test holds one end and calls [`MemoryPort::push`] and [`MemoryPort::pop`]; the switch uses the other
/// end's [`MemoryPort::rx`] and [`MemoryPort::tx`].
#[derive(Clone, Debug)]
pub struct MemoryPort {
    incoming: Cable,
    outgoing: Cable,
}

impl MemoryPort {
    /// Returns the two ends of a cable that holds up to `depth` packets in each direction.
    pub fn pair(depth: usize) -> (MemoryPort, MemoryPort) {
        let (there, back) = (Cable::new(depth), Cable::new(depth));
        let far = MemoryPort { incoming: there.clone(), outgoing: back.clone() };
        (MemoryPort { incoming: back, outgoing: there }, far)
    }

    /// Sends one packet to the other end. Returns it if the cable is full.
    pub fn push(&self, packet: Packet) -> Result<(), Packet> {
        self.outgoing.put(packet)
    }

    /// Takes the oldest packet that the other end sent.
    pub fn pop(&self) -> Option<Packet> {
        self.incoming.lock().pop_front()
    }

    /// Returns a receive queue of this end. All receive queues of an end share its packets.
    pub fn rx(&self) -> MemoryRx {
        MemoryRx { incoming: self.incoming.clone() }
    }

    /// Returns a transmit queue of this end.
    pub fn tx(&self) -> MemoryTx {
        MemoryTx { outgoing: self.outgoing.clone() }
    }
}

/// The receiving half of a [`MemoryPort`].
#[derive(Debug)]
pub struct MemoryRx {
    incoming: Cable,
}

impl RxQueue for MemoryRx {
    fn receive(&mut self, _pool: &mut Pool, batch: &mut Batch) -> Result<(), PortError> {
        let mut waiting = self.incoming.lock();
        let count = batch.remaining_capacity().min(waiting.len());
        batch.extend(waiting.drain(..count));
        Ok(())
    }

    fn wake_fd(&self) -> Option<RawFd> {
        None
    }
}

/// The sending half of a [`MemoryPort`].
#[derive(Debug)]
pub struct MemoryTx {
    outgoing: Cable,
}

impl TxQueue for MemoryTx {
    fn send(&mut self, pool: &mut Pool, batch: &mut Batch) -> TxCounters {
        let mut counters = TxCounters::default();
        // Locked once per batch, because the other end takes the same lock.
        let mut waiting = self.outgoing.lock();
        let room = self.outgoing.depth.saturating_sub(waiting.len()).min(batch.len());
        for packet in batch.drain(..room) {
            counters.packets += 1;
            counters.bytes += packet.len() as u64;
            waiting.push_back(packet);
        }
        drop(waiting);
        for packet in batch.drain(..) {
            counters.dropped += 1;
            pool.give(packet);
        }
        counters
    }
}

/// One direction.
#[derive(Clone, Debug)]
struct Cable {
    packets: Arc<Mutex<VecDeque<Packet>>>,
    depth: usize,
}

impl Cable {
    fn new(depth: usize) -> Self {
        Cable { packets: Arc::new(Mutex::new(VecDeque::with_capacity(depth))), depth }
    }

    /// The queue is consistent after every statement, so a poisoned lock may be used.
    fn lock(&self) -> MutexGuard<'_, VecDeque<Packet>> {
        self.packets.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put(&self, packet: Packet) -> Result<(), Packet> {
        let mut packets = self.lock();
        if packets.len() >= self.depth {
            return Err(packet);
        }
        packets.push_back(packet);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_cross_in_order_and_a_full_cable_drops() {
        let (ours, theirs) = MemoryPort::pair(40);
        let mut pool = Pool::new(64);
        for i in 0..40 {
            ours.push(Packet::from_bytes(&[i; 60])).unwrap();
        }
        assert!(ours.push(Packet::from_bytes(&[99])).is_err());
        let mut batch = Batch::new();
        let mut rx = theirs.rx();
        rx.receive(&mut pool, &mut batch).unwrap();
        assert_eq!(batch.len(), 32);
        assert_eq!(batch[31].data()[0], 31);
        // A full batch takes no further packets.
        rx.receive(&mut pool, &mut batch).unwrap();
        assert_eq!(batch.len(), 32);

        let mut tx = theirs.tx();
        let sent = tx.send(&mut pool, &mut batch);
        assert_eq!((sent.packets, sent.bytes, sent.dropped), (32, 32 * 60, 0));
        rx.receive(&mut pool, &mut batch).unwrap();
        let sent = tx.send(&mut pool, &mut batch);
        assert_eq!((sent.packets, sent.dropped), (8, 0));
        batch.push(pool.take());
        assert_eq!(tx.send(&mut pool, &mut batch).dropped, 1);
        assert!(batch.is_empty());
        assert_eq!((0..).map_while(|_| ours.pop()).count(), 40);
    }
}
