//! A simulated bad network: queues that lose, duplicate, reorder and corrupt packets.
//!
//! All faults are drawn from one seed, so that a failed run can be repeated.

use crate::queue::{PortError, RxQueue, TxCounters, TxQueue};
use packet::{Batch, Packet, Pool};
use std::os::fd::RawFd;

/// Probability of each fault, in parts per million of packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FaultRates {
    /// Packets that are lost.
    pub lose_ppm: u32,
    /// Packets that are duplicated.
    pub duplicate_ppm: u32,
    /// Packets that are held until after the next one.
    pub reorder_ppm: u32,
    /// Packets in which one bit is flipped.
    pub corrupt_ppm: u32,
}

/// Counters of faults.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FaultCounts {
    /// Packets that were lost.
    pub lost: u64,
    /// Packets that were duplicated.
    pub duplicated: u64,
    /// Packets that were held back.
    pub reordered: u64,
    /// Packets in which a bit was flipped.
    pub corrupted: u64,
}

/// Pseudorandom numbers from a seed (xorshift64*, Vigna 2016), the same on every machine.
#[derive(Clone, Debug)]
pub struct Prng(u64);

impl Prng {
    /// A generator with this seed.
    pub fn new(seed: u64) -> Self {
        // The state must not be zero; the multiplication spreads small seeds.
        Prng(seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// Returns the next 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// Returns a number below `limit`; 0 if `limit` is 0.
    pub fn below(&mut self, limit: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(limit)) >> 64) as u64
    }

    fn happens(&mut self, ppm: u32) -> bool {
        self.below(1_000_000) < u64::from(ppm)
    }
}

/// A receive queue behind a bad network.
pub struct FaultyRx<Q> {
    queue: Q,
    faults: Faults,
}

impl<Q: RxQueue> FaultyRx<Q> {
    /// Receives from `queue` with faults at `rates`, drawn from `prng`.
    pub fn new(queue: Q, rates: FaultRates, prng: Prng) -> Self {
        FaultyRx { queue, faults: Faults::new(rates, prng) }
    }

    /// Returns the counters of faults.
    pub fn counts(&self) -> FaultCounts {
        self.faults.counts
    }
}

impl<Q: RxQueue> RxQueue for FaultyRx<Q> {
    fn receive(&mut self, pool: &mut Pool, batch: &mut Batch) -> Result<(), PortError> {
        let mut fresh = Batch::new();
        self.queue.receive(pool, &mut fresh)?;
        if fresh.is_empty() {
            // A packet held back must not wait forever for a later one.
            self.faults.release();
        }
        for packet in fresh {
            self.faults.apply(packet, pool);
        }
        let count = batch.remaining_capacity().min(self.faults.ready.len());
        batch.extend(self.faults.ready.drain(..count));
        Ok(())
    }

    fn wake_fd(&self) -> Option<RawFd> {
        // Packets may wait here while the inner queue is empty, so this queue must be polled.
        None
    }
}

/// A transmit queue in front of a bad network. Lost packets count as sent, as on a real network.
pub struct FaultyTx<Q> {
    queue: Q,
    faults: Faults,
}

impl<Q: TxQueue> FaultyTx<Q> {
    /// Sends into `queue` with faults at `rates`, drawn from `prng`.
    pub fn new(queue: Q, rates: FaultRates, prng: Prng) -> Self {
        FaultyTx { queue, faults: Faults::new(rates, prng) }
    }

    /// Returns the counters of faults.
    pub fn counts(&self) -> FaultCounts {
        self.faults.counts
    }

    /// Sends the packet that is held back, if there is one.
    pub fn flush(&mut self, pool: &mut Pool) -> TxCounters {
        self.faults.release();
        self.send_ready(pool)
    }

    fn send_ready(&mut self, pool: &mut Pool) -> TxCounters {
        let mut counters = TxCounters::default();
        let mut batch = Batch::new();
        while !self.faults.ready.is_empty() {
            let count = batch.remaining_capacity().min(self.faults.ready.len());
            batch.extend(self.faults.ready.drain(..count));
            counters += self.queue.send(pool, &mut batch);
        }
        counters
    }
}

impl<Q: TxQueue> TxQueue for FaultyTx<Q> {
    fn send(&mut self, pool: &mut Pool, batch: &mut Batch) -> TxCounters {
        let packets = batch.len() as u64;
        let bytes = batch.iter().map(|p| p.len() as u64).sum();
        for packet in batch.drain(..) {
            self.faults.apply(packet, pool);
        }
        let behind = self.send_ready(pool);
        // Packets that the inner queue did not refuse count as sent.
        let refused = behind.dropped + behind.errors;
        TxCounters { packets: packets.saturating_sub(refused), bytes, ..behind }
    }
}

/// The common part of the two queues.
struct Faults {
    rates: FaultRates,
    prng: Prng,
    held: Option<Packet>,
    ready: Vec<Packet>,
    counts: FaultCounts,
}

impl Faults {
    fn new(rates: FaultRates, prng: Prng) -> Self {
        Faults { rates, prng, held: None, ready: Vec::new(), counts: FaultCounts::default() }
    }

    fn apply(&mut self, mut packet: Packet, pool: &mut Pool) {
        if self.prng.happens(self.rates.lose_ppm) {
            self.counts.lost += 1;
            pool.give(packet);
            return;
        }
        if self.prng.happens(self.rates.corrupt_ppm) {
            self.counts.corrupted += 1;
            let bit = self.prng.below(packet.len() as u64 * 8) as usize;
            if let Some(byte) = packet.data_mut().get_mut(bit / 8) {
                *byte ^= 1 << (bit % 8);
            }
        }
        if self.prng.happens(self.rates.duplicate_ppm) {
            self.counts.duplicated += 1;
            let copy = pool.copy(&packet);
            self.ready.push(copy);
        }
        if self.held.is_none() && self.prng.happens(self.rates.reorder_ppm) {
            self.counts.reordered += 1;
            self.held = Some(packet);
            return;
        }
        self.ready.push(packet);
        self.release();
    }

    fn release(&mut self) {
        self.ready.extend(self.held.take());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::MemoryPort;

    const ALL: u32 = 1_000_000;

    /// Sends `count` numbered packets. Returns the first byte of each packet that arrives, and the counters.
    fn through_tx(rates: FaultRates, seed: u64, count: u8) -> (Vec<u8>, FaultCounts) {
        let (near, far) = MemoryPort::pair(1000);
        let mut pool = Pool::new(8);
        let mut tx = FaultyTx::new(near.tx(), rates, Prng::new(seed));
        let mut batch = Batch::new();
        for i in 0..count {
            batch.push(Packet::from_bytes(&[i; 20]));
            let sent = tx.send(&mut pool, &mut batch);
            assert_eq!((sent.packets, sent.bytes), (1, 20));
        }
        let _ = tx.flush(&mut pool);
        let arrived = (0..).map_while(|_| far.pop()).map(|p| p.data()[0]).collect();
        (arrived, tx.counts())
    }

    #[test]
    fn each_fault_does_what_it_says() {
        let none = FaultRates::default();
        let cases: [(FaultRates, &[u8]); 4] = [
            (none, &[0, 1, 2, 3, 4]),
            (FaultRates { lose_ppm: ALL, ..none }, &[]),
            (FaultRates { duplicate_ppm: ALL, ..none }, &[0, 0, 1, 1, 2, 2, 3, 3, 4, 4]),
            (FaultRates { reorder_ppm: ALL, ..none }, &[1, 0, 3, 2, 4]),
        ];
        for (rates, expect) in cases {
            assert_eq!(through_tx(rates, 7, 5).0, expect, "{rates:?}");
        }
    }

    #[test]
    fn one_bit_flips_and_a_seed_repeats_the_run() {
        let rates = FaultRates {
            lose_ppm: 100_000,
            duplicate_ppm: 100_000,
            reorder_ppm: 200_000,
            corrupt_ppm: 300_000,
        };
        let first = through_tx(rates, 42, 200);
        assert_eq!(first, through_tx(rates, 42, 200));
        assert_ne!(first.0, through_tx(rates, 43, 200).0);
        let counts = first.1;
        assert!(counts.lost > 5 && counts.duplicated > 5 && counts.corrupted > 20);
        assert_eq!(first.0.len() as u64, 200 - counts.lost + counts.duplicated);

        let (near, far) = MemoryPort::pair(4);
        near.push(Packet::from_bytes(&[0; 64])).unwrap();
        let rates = FaultRates { corrupt_ppm: ALL, ..FaultRates::default() };
        let mut rx = FaultyRx::new(far.rx(), rates, Prng::new(1));
        let mut batch = Batch::new();
        rx.receive(&mut Pool::new(1), &mut batch).unwrap();
        let flipped: u32 = batch[0].data().iter().map(|b| b.count_ones()).sum();
        assert_eq!(flipped, 1);
    }

    #[test]
    fn what_a_full_batch_leaves_comes_with_the_next() {
        let (near, far) = MemoryPort::pair(100);
        for i in 0..32 {
            near.push(Packet::from_bytes(&[i; 20])).unwrap();
        }
        let rates = FaultRates { duplicate_ppm: ALL, reorder_ppm: 0, ..FaultRates::default() };
        let mut rx = FaultyRx::new(far.rx(), rates, Prng::new(1));
        let (mut pool, mut seen) = (Pool::new(8), Vec::new());
        for _ in 0..2 {
            let mut batch = Batch::new();
            rx.receive(&mut pool, &mut batch).unwrap();
            seen.extend(batch.iter().map(|p| p.data()[0]));
        }
        assert_eq!(seen, (0..32).flat_map(|i| [i, i]).collect::<Vec<u8>>());
    }
}
