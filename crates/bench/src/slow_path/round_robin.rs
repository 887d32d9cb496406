//! A port that plays packets of many flows in turn, up to an allowance.

use packet::{Batch, Pool};
use port::{PortError, RxQueue};
use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The control of such a port.
#[derive(Clone, Debug, Default)]
pub struct Allowance {
    left: Arc<AtomicU64>,
    first: Arc<AtomicU64>,
    count: Arc<AtomicU64>,
}

impl Allowance {
    /// Allows this many more packets.
    pub fn add(&self, packets: u64) {
        self.left.fetch_add(packets, Relaxed);
    }

    /// The number of packets of the allowance not received yet.
    pub fn left(&self) -> u64 {
        self.left.load(Relaxed)
    }

    /// Sets the flows of the following packets, starting with this one. New flows come first.
    pub fn set_flows(&self, first: u64, count: u64) {
        self.first.store(first, Relaxed);
        self.count.store(count, Relaxed);
    }
}

/// The port's receiving end.
pub struct RoundRobin {
    frame: Vec<u8>,
    /// Changes the frame to one of a flow.
    set: fn(&mut [u8], u32),
    allowance: Allowance,
    next: u64,
    /// The number of flows in the current range.
    count: u64,
}

impl RoundRobin {
    /// Plays this frame, changed for each flow.
    pub fn new(frame: Vec<u8>, set: fn(&mut [u8], u32), allowance: Allowance) -> RoundRobin {
        RoundRobin { frame, set, allowance, next: 0, count: 0 }
    }
}

impl RxQueue for RoundRobin {
    fn receive(&mut self, pool: &mut Pool, batch: &mut Batch) -> Result<(), PortError> {
        let Allowance { left, first, count } = &self.allowance;
        let (first, count) = (first.load(Relaxed), count.load(Relaxed));
        let packets = left.load(Relaxed).min(batch.remaining_capacity() as u64);
        if count == 0 {
            return Ok(());
        }
        if self.count < count {
            self.next = self.count;
        }
        self.count = count;
        for _ in 0..packets {
            (self.set)(&mut self.frame, (first + self.next % count) as u32);
            self.next += 1;
            let mut packet = pool.take();
            packet.receive_copy(&self.frame);
            batch.push(packet);
        }
        left.fetch_sub(packets, Relaxed);
        Ok(())
    }

    fn wake_fd(&self) -> Option<RawFd> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_as_are_allowed_come_of_each_flow_in_turn() {
        let allowance = Allowance::default();
        let set = |frame: &mut [u8], flow: u32| frame[0] = flow as u8;
        let mut port = RoundRobin::new(vec![0; 60], set, allowance.clone());
        let mut receive = || {
            let (mut pool, mut batch) = (Pool::new(64), Batch::new());
            port.receive(&mut pool, &mut batch).unwrap();
            batch.iter().map(|packet| packet.data()[0]).collect::<Vec<_>>()
        };
        allowance.add(5);
        assert_eq!(receive(), [0; 0], "of no flows nothing comes");
        allowance.set_flows(7, 3);
        assert_eq!(receive(), [7, 8, 9, 7, 8]);
        assert_eq!((receive().len(), allowance.left()), (0, 0));
        allowance.add(40);
        assert_eq!((receive().len(), receive().len()), (32, 8));
        allowance.set_flows(7, 5);
        allowance.add(6);
        assert_eq!(receive(), [10, 11, 7, 8, 9, 10], "new flows come first");
    }
}
