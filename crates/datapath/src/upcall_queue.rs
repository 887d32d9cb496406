//! The queue of upcalls between the workers and those who answer: bounded and fair.
//!
//! Misses go to handlers, the rest to the thread that owns the tables ([`Answers`]). Packets of one flow
//! go to one handler, so that handlers do not change their order. Each handler's upcalls wait by class
//! and port, each list bounded, and are served in turn (deficit round robin with a quantum of one, since
//! an upcall costs about the same whatever its size). A storm from one port, or of ARP, fills its own list
//! and takes its own share of the turns. Where a handler's whole queue is full, the longest list loses its
//! newest upcall to one that arrives for a shorter list, so that no number of storms keeps others out.

mod class;
mod port_queues;

use base::{PortNo, WorkerId};
use class::Class;
use flow::{Field, FlowKey, Upcall, UpcallKind};
use port_queues::PortQueues;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use wire::ethertype;

/// Who answers misses.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Answers {
    /// The thread that owns the tables.
    #[default]
    Owner,
    /// So many threads beside it.
    Handlers(u16),
    /// Each of so many workers its own.
    Workers(u16),
}

/// Shared by all workers, who push, and by those who answer, who pop.
#[derive(Debug)]
pub struct UpcallQueue {
    answers: Answers,
    /// The owner's list, then that of each handler.
    lists: Vec<List>,
}

/// What one thread answers.
#[derive(Debug, Default)]
struct List {
    queues: Mutex<PortQueues>,
    /// Told when the first upcall arrives, or when the thread is to look up for another reason.
    arrived: Condvar,
}

/// The queue was full; the upcall was dropped and counted against its port.
#[derive(Debug, PartialEq, Eq)]
pub struct QueueFull;

/// Room for an upcall, which must be used.
#[derive(Debug)]
#[must_use]
pub struct Reserved {
    list: usize,
    class: Class,
    port: PortNo,
    /// The upcall that lost its place, if one did.
    pub evicted: Option<Upcall>,
}

impl Default for UpcallQueue {
    fn default() -> Self {
        UpcallQueue::new()
    }
}

impl UpcallQueue {
    /// An empty queue of which one thread answers all.
    pub fn new() -> Self {
        UpcallQueue::answered_by(Answers::Owner)
    }

    /// An empty queue.
    pub fn answered_by(answers: Answers) -> Self {
        let others = match answers {
            Answers::Owner => 0,
            Answers::Handlers(count) | Answers::Workers(count) => count,
        };
        UpcallQueue { answers, lists: (0..=others).map(|_| List::default()).collect() }
    }

    /// Who answers misses.
    pub fn answers(&self) -> Answers {
        self.answers
    }

    /// The list of a worker's upcall.
    fn list_for(&self, worker: WorkerId, kind: &UpcallKind, key: &FlowKey) -> usize {
        let others = self.lists.len() - 1;
        match self.answers {
            _ if others == 0 || matches!(kind, UpcallKind::Controller(_)) => 0,
            Answers::Owner => 0,
            Answers::Handlers(_) => 1 + (flow_hash(key) % others as u64) as usize,
            Answers::Workers(_) => 1 + usize::from(worker.0) % others,
        }
    }

    /// Finds out whether there is room for a worker's upcall about a packet with this key, before anything
    /// is copied for it.
    pub fn reserve(
        &self,
        worker: WorkerId,
        kind: &UpcallKind,
        key: &FlowKey,
    ) -> Result<Reserved, QueueFull> {
        self.reserve_in(self.list_for(worker, kind, key), kind, key)
    }

    fn reserve_in(
        &self,
        list: usize,
        kind: &UpcallKind,
        key: &FlowKey,
    ) -> Result<Reserved, QueueFull> {
        let (class, port) = (Class::of(kind, key), key.in_port());
        let evicted = self.lists[list].lock().reserve(class, port)?;
        Ok(Reserved { list, class, port, evicted })
    }

    /// Adds an upcall whose room was reserved. Says whether the owner's list was empty, so that the owner
    /// must be woken; handlers are woken here.
    pub fn push(&self, reserved: &Reserved, upcall: Upcall) -> bool {
        let list = &self.lists[reserved.list];
        let is_first = list.lock().push(reserved.class, reserved.port, upcall);
        if is_first && reserved.list > 0 {
            list.arrived.notify_one();
        }
        is_first && reserved.list == 0
    }

    /// Passes a handler's upcall on to the owner, which is to be woken then.
    pub fn pass_on(&self, upcall: Upcall) -> Result<(), QueueFull> {
        let reserved = self.reserve_in(0, &upcall.kind, &upcall.key)?;
        self.push(&reserved, upcall);
        Ok(())
    }

    /// Takes up to `budget` of the owner's upcalls, one from each list in turn.
    pub fn pop(&self, budget: usize, out: &mut Vec<Upcall>) {
        self.lists[0].lock().pop(budget, out);
    }

    /// Takes up to `budget` upcalls of a handler, counted from 0, one from each list in turn.
    pub fn pop_for(&self, handler: u16, budget: usize, out: &mut Vec<Upcall>) {
        if let Some(list) = self.of_handler(handler) {
            list.lock().pop(budget, out);
        }
    }

    /// Waits until there is an upcall for a handler, [`Self::wake`] is called, or the time is over.
    pub fn wait(&self, handler: u16, at_most: Duration) {
        let Some(list) = self.of_handler(handler) else { return };
        let queues = list.lock();
        if queues.is_empty() && !queues.is_woken {
            // A spurious end of the wait does no harm.
            let waited = list.arrived.wait_timeout(queues, at_most);
            waited.unwrap_or_else(PoisonError::into_inner).0.is_woken = false;
        } else {
            let mut queues = queues;
            queues.is_woken = false;
        }
    }

    /// Ends the wait of every handler, or its next one.
    pub fn wake(&self) {
        for list in &self.lists {
            list.lock().is_woken = true;
            list.arrived.notify_all();
        }
    }

    fn of_handler(&self, handler: u16) -> Option<&List> {
        self.lists.get(usize::from(handler) + 1)
    }

    /// Whether nothing waits for the owner.
    pub fn is_empty(&self) -> bool {
        self.lists[0].lock().is_empty()
    }

    /// Whether nothing waits for a handler.
    pub fn is_empty_for(&self, handler: u16) -> bool {
        self.of_handler(handler).is_none_or(|list| list.lock().is_empty())
    }

    /// Upcalls dropped because there was no room, by port.
    pub fn dropped(&self) -> Vec<(PortNo, u64)> {
        let mut by_port: Vec<(PortNo, u64)> = Vec::new();
        for list in &self.lists {
            for (port, dropped) in list.lock().dropped() {
                match by_port.iter_mut().find(|(known, _)| *known == port) {
                    Some((_, count)) => *count += dropped,
                    None => by_port.push((port, dropped)),
                }
            }
        }
        by_port
    }

    /// Forgets a port that is no more, with what waits for it.
    pub fn remove_port(&self, port: PortNo) {
        self.lists.iter().for_each(|list| list.lock().remove_port(port));
    }
}

impl List {
    /// A thread that panicked while it held the lock left plain data behind, which is still good.
    fn lock(&self) -> MutexGuard<'_, PortQueues> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Of a packet's key what all packets of its flow have, either way: the sum of the hashes of both ends. An
/// exclusive or of addresses would be the same for all pairs of hosts that lie equally far apart.
fn flow_hash(key: &FlowKey) -> u64 {
    let [source, destination] = match key.eth_type() {
        ethertype::IPV4 => [Field::Ipv4Src, Field::Ipv4Dst],
        ethertype::IPV6 => [Field::Ipv6Src, Field::Ipv6Dst],
        ethertype::ARP => [Field::ArpSpa, Field::ArpTpa],
        _ => [Field::EthSrc, Field::EthDst],
    };
    let mix = |hash: u64, word: u64| {
        let mixed = (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed ^ mixed >> 32
    };
    let end = |address: Field, port: u16| {
        let address = key.get(address);
        [address as u64, (address >> 64) as u64, port.into()].into_iter().fold(1, mix)
    };
    let ends = end(source, key.tp_src()).wrapping_add(end(destination, key.tp_dst()));
    mix(ends, key.nw_proto().into())
}

#[cfg(test)]
mod tests;
