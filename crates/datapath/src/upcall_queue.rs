//! The queue of misses between the workers and the control side: bounded and fair.
//!
//! Upcalls wait by class and port, each list bounded, and are served in turn (deficit round robin
//! with a quantum of one, since an upcall costs about the same whatever its size). A storm from one
//! port, or of ARP, fills its own list and takes its own share of the turns; everybody else's
//! upcalls go on.

use base::PortNo;
use base::limits::{UPCALLS, UPCALLS_PER_PORT};
use flow::{Upcall, UpcallKind};
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What kind of upcall: each kind gets its own turns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Class {
    Arp,
    Miss,
    Controller,
}

impl Class {
    fn of(upcall: &Upcall) -> Class {
        match (&upcall.kind, upcall.key.eth_type()) {
            (UpcallKind::Controller(_), _) => Class::Controller,
            (UpcallKind::Miss, 0x0806 | 0x8035) => Class::Arp,
            (UpcallKind::Miss, _) => Class::Miss,
        }
    }
}

#[derive(Debug)]
struct Lane {
    class: Class,
    port: PortNo,
    waiting: VecDeque<Upcall>,
    dropped: u64,
}

#[derive(Debug, Default)]
struct Lanes {
    lanes: Vec<Lane>,
    turn: usize,
    total: usize,
}

/// Shared by all workers, who push, and the control side, which pops.
#[derive(Debug, Default)]
pub struct UpcallQueue {
    lanes: Mutex<Lanes>,
}

/// The queue was full; the upcall was dropped and counted against its port.
#[derive(Debug, PartialEq, Eq)]
pub struct QueueFull;

impl UpcallQueue {
    /// An empty queue.
    pub fn new() -> Self {
        UpcallQueue::default()
    }

    /// Adds an upcall. `Ok(true)` says that the queue was empty, so that the thread that pops must be
    /// woken.
    pub fn push(&self, upcall: Upcall) -> Result<bool, QueueFull> {
        let mut lanes = self.lock();
        let (class, port) = (Class::of(&upcall), upcall.key.in_port());
        let full = lanes.total >= UPCALLS;
        let lane = lanes.lane(class, port);
        if full || lane.waiting.len() >= UPCALLS_PER_PORT {
            lane.dropped += 1;
            return Err(QueueFull);
        }
        lane.waiting.push_back(upcall);
        lanes.total += 1;
        Ok(lanes.total == 1)
    }

    /// Takes up to `budget` upcalls, one from each list in turn.
    pub fn pop(&self, budget: usize, out: &mut Vec<Upcall>) {
        let mut lanes = self.lock();
        let mut left = budget.min(lanes.total);
        while left > 0 {
            let turn = lanes.turn % lanes.lanes.len();
            lanes.turn = turn + 1;
            if let Some(upcall) = lanes.lanes[turn].waiting.pop_front() {
                out.push(upcall);
                lanes.total -= 1;
                left -= 1;
            }
        }
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.lock().total == 0
    }

    /// Upcalls dropped because a list was full, by port.
    pub fn dropped(&self) -> Vec<(PortNo, u64)> {
        let lanes = self.lock();
        let mut by_port: Vec<(PortNo, u64)> = Vec::new();
        for lane in lanes.lanes.iter().filter(|lane| lane.dropped > 0) {
            match by_port.iter_mut().find(|(port, _)| *port == lane.port) {
                Some((_, count)) => *count += lane.dropped,
                None => by_port.push((lane.port, lane.dropped)),
            }
        }
        by_port
    }

    /// Forgets a port that is no more, with what waits for it.
    pub fn remove_port(&self, port: PortNo) {
        let mut lanes = self.lock();
        lanes.lanes.retain(|lane| lane.port != port);
        lanes.total = lanes.lanes.iter().map(|lane| lane.waiting.len()).sum();
    }

    /// A worker that panicked while it held the lock left plain data behind, which is still good.
    fn lock(&self) -> MutexGuard<'_, Lanes> {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lanes {
    fn lane(&mut self, class: Class, port: PortNo) -> &mut Lane {
        let known = self.lanes.iter().position(|lane| lane.class == class && lane.port == port);
        let index = known.unwrap_or_else(|| {
            self.lanes.push(Lane { class, port, waiting: VecDeque::new(), dropped: 0 });
            self.lanes.len() - 1
        });
        &mut self.lanes[index]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::{Instant, WorkerId};
    use flow::FlowKey;
    use packet::Packet;

    fn upcall(port: u32, eth_type: u16) -> Upcall {
        let mut key = FlowKey::new();
        key.set_in_port_raw(port);
        key.set_eth_type(eth_type);
        Upcall {
            worker: WorkerId(0),
            kind: UpcallKind::Miss,
            packet: Packet::from_bytes(&[0; 14]),
            key,
            received: Instant::ZERO,
            queued: Instant::ZERO,
            trace: None,
        }
    }

    fn ports(queue: &UpcallQueue, budget: usize) -> Vec<(u32, u16)> {
        let mut out = Vec::new();
        queue.pop(budget, &mut out);
        out.iter().map(|u| (u.key.in_port().0, u.key.eth_type())).collect()
    }

    #[test]
    fn a_storm_takes_only_its_own_share() {
        let queue = UpcallQueue::new();
        for _ in 0..2 * UPCALLS_PER_PORT {
            let _ = queue.push(upcall(1, 0x806));
        }
        assert_eq!(queue.dropped(), [(PortNo(1), UPCALLS_PER_PORT as u64)]);
        assert_eq!(queue.push(upcall(1, 0x800)), Ok(false));
        assert_eq!(queue.push(upcall(2, 0x800)), Ok(false));
        let first = ports(&queue, 3);
        assert!(first.contains(&(1, 0x800)) && first.contains(&(2, 0x800)), "{first:?}");
    }

    #[test]
    fn says_when_to_wake_and_forgets_ports() {
        let queue = UpcallQueue::new();
        assert_eq!(queue.push(upcall(1, 0x800)), Ok(true));
        assert_eq!(queue.push(upcall(2, 0x800)), Ok(false));
        queue.remove_port(PortNo(1));
        assert_eq!(ports(&queue, 9), [(2, 0x800)]);
        assert!(queue.is_empty());
        assert_eq!(queue.push(upcall(2, 0x800)), Ok(true));
    }
}
