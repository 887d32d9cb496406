//! The upcall queue between workers and handlers: bounded and fair.
//!
//! Misses go to handlers, packets for controllers to the thread that owns the tables ([`Answers`]), and frames of
//! protocols to the thread that runs their state machines, whatever waits for others. Packets of one
//! flow go to one handler, so that handlers keep their order. Each handler has one bounded list per class and
//! port, served by deficit round robin with a quantum of one, since an upcall costs about the same whatever
//! its size: class by class, and within a class port by port. So a storm of ARP from all ports leaves other
//! classes their turns, and a storm from one port leaves them to the other ports of its class. A storm fills
//! its own list. When a handler's whole queue is full, the longest list loses its newest upcall to one for a
//! shorter list, so storms do not exclude other ports. Control protocols take precedence. [`UpcallRates`]
//! limit a port's upcalls per class. `tests/models.rs` checks in all orders that no upcall is lost between
//! threads.

mod port_queues;
mod rates;

use crate::flow_hash::FlowHash;
use base::limits::UPCALLS;
use base::{Instant, PortNo, WorkerId};
use flow::{FlowKey, QueueClass, Upcall, UpcallKind};
use port_queues::PortQueues;
use rates::RateLimiter;
pub use rates::UpcallRates;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use table::Mailbox;
use table::atomic::AtomicU32;

/// Which threads answer misses.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Answers {
    /// The thread that owns the tables.
    #[default]
    Owner,
    /// This many handler threads.
    Handlers(u16),
    /// Each of this many workers answers its own.
    Workers(u16),
}

/// Shared by all workers, which push, and by the answering threads, which pop.
#[derive(Debug)]
pub struct UpcallQueue {
    answers: Answers,
    hash: FlowHash,
    /// The owner's list, then that of each handler, then that of the thread of the protocols.
    lists: Vec<Mailbox<PortQueues>>,
    limiter: Mutex<RateLimiter>,
    /// Whether there are rates, so that the limiter must be consulted.
    is_limited: AtomicBool,
    /// Misses that were evicted, by the worker that waits for their answers; and whether there are any.
    evicted: Mailbox<Vec<(WorkerId, FlowKey)>>,
    has_evicted: AtomicU32,
}

/// The queue was full, or the rate exceeded; the upcall was dropped and counted against its port.
#[derive(Debug, PartialEq, Eq)]
pub struct QueueFull;

/// Reserved room for an upcall; it must be used.
#[derive(Debug)]
#[must_use]
pub struct Reserved {
    list: usize,
    class: QueueClass,
    port: PortNo,
    /// The evicted upcall, if there is one.
    pub evicted: Option<Upcall>,
}

impl Default for UpcallQueue {
    fn default() -> Self {
        UpcallQueue::new()
    }
}

impl UpcallQueue {
    /// An empty queue that one thread answers.
    pub fn new() -> Self {
        UpcallQueue::answered_by(Answers::Owner, 0)
    }

    /// An empty queue. The seed makes the choice of handlers unpredictable.
    pub fn answered_by(answers: Answers, seed: u64) -> Self {
        let others = match answers {
            Answers::Owner => 0,
            Answers::Handlers(count) | Answers::Workers(count) => count,
        };
        UpcallQueue {
            answers,
            hash: FlowHash::new(seed),
            lists: (0..others + 2).map(|_| Mailbox::default()).collect(),
            limiter: Mutex::default(),
            is_limited: AtomicBool::new(false),
            evicted: Mailbox::default(),
            has_evicted: AtomicU32::new(0),
        }
    }

    /// Which threads answer misses.
    pub fn answers(&self) -> Answers {
        self.answers
    }

    /// Sets the limits of upcalls per second. A port and class whose rate is unchanged gets no new burst.
    pub fn set_rates(&self, rates: UpcallRates) {
        self.is_limited.store(!rates.is_empty(), Relaxed);
        self.limiter().set_rates(rates);
    }

    fn limiter(&self) -> MutexGuard<'_, RateLimiter> {
        self.limiter.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The list of the frames of protocols.
    fn protocols(&self) -> usize {
        self.lists.len() - 1
    }

    /// The list for a worker's upcall.
    fn list_for(&self, worker: WorkerId, kind: &UpcallKind, key: &FlowKey) -> usize {
        let others = self.protocols() - 1;
        match self.answers {
            _ if matches!(kind, UpcallKind::Protocol(_)) => self.protocols(),
            _ if others == 0 || matches!(kind, UpcallKind::Controller(_)) => 0,
            Answers::Owner => 0,
            Answers::Handlers(1) => 1,
            Answers::Handlers(_) => 1 + (self.hash.of(key) % others as u64) as usize,
            Answers::Workers(_) => 1 + usize::from(worker.0) % others,
        }
    }

    /// Checks rate and room for a worker's upcall about a packet with this key, before anything is copied.
    pub fn reserve(
        &self,
        now: Instant,
        worker: WorkerId,
        kind: &UpcallKind,
        key: &FlowKey,
    ) -> Result<Reserved, QueueFull> {
        let list = self.list_for(worker, kind, key);
        if self.is_limited.load(Relaxed) {
            let (class, port) = (QueueClass::of(kind, key), key.in_port());
            if !self.limiter().admits(now, port, class) {
                self.lists[list].open().refuse(class, port);
                return Err(QueueFull);
            }
        }
        self.reserve_in(list, kind, key)
    }

    fn reserve_in(
        &self,
        list: usize,
        kind: &UpcallKind,
        key: &FlowKey,
    ) -> Result<Reserved, QueueFull> {
        let (class, port) = (QueueClass::of(kind, key), key.in_port());
        let evicted = self.lists[list].open().reserve(class, port)?;
        Ok(Reserved { list, class, port, evicted })
    }

    /// Adds an upcall with reserved room. Returns whether the owner must be woken because its list was empty;
    /// handlers are woken here.
    pub fn push(&self, reserved: &Reserved, upcall: Upcall) -> bool {
        let list = &self.lists[reserved.list];
        let is_first = list.open().push(reserved.class, reserved.port, upcall);
        if is_first && reserved.list > 0 {
            list.notify();
        }
        is_first && reserved.list == 0
    }

    /// Passes an upcall from a handler to the owner, which must be woken if it is queued. Returns whether it
    /// is, and the upcall that is dropped, if any: this one or an evicted one.
    pub fn pass_on(&self, upcall: Upcall) -> (bool, Option<Upcall>) {
        match self.reserve_in(0, &upcall.kind, &upcall.key) {
            Ok(mut reserved) => {
                let evicted = reserved.evicted.take();
                self.push(&reserved, upcall);
                (true, evicted)
            }
            Err(QueueFull) => (false, Some(upcall)),
        }
    }

    /// Reports to another worker that its miss was evicted and will not be answered.
    pub fn tell_evicted(&self, worker: WorkerId, key: FlowKey) {
        let mut evicted = self.evicted.open();
        // A worker that does not poll this gives up waiting in the end.
        if evicted.len() < UPCALLS {
            evicted.push((worker, key));
            self.has_evicted.store(1, Relaxed);
        }
    }

    /// Takes the misses of a worker that upcalls of others evicted.
    pub fn take_evicted(&self, worker: WorkerId, out: &mut Vec<FlowKey>) {
        if self.has_evicted.load(Relaxed) != 0 {
            let mut evicted = self.evicted.open();
            out.extend(evicted.extract_if(.., |(its, _)| *its == worker).map(|(_, key)| key));
            self.has_evicted.store(u32::from(!evicted.is_empty()), Relaxed);
        }
    }

    /// Takes up to `budget` of the owner's upcalls, one from each class and port in turn.
    pub fn pop(&self, budget: usize, out: &mut Vec<Upcall>) {
        self.lists[0].open().pop(budget, out);
    }

    /// Takes up to `budget` upcalls of a handler, counted from 0, in turns of classes and ports.
    pub fn pop_for(&self, handler: u16, budget: usize, out: &mut Vec<Upcall>) {
        if let Some(list) = self.of_handler(handler) {
            list.open().pop(budget, out);
        }
    }

    /// Takes up to `budget` frames of protocols.
    pub fn pop_protocols(&self, budget: usize, out: &mut Vec<Upcall>) {
        self.lists[self.protocols()].open().pop(budget, out);
    }

    /// Whether no frame of a protocol waits.
    pub fn has_no_protocols(&self) -> bool {
        self.lists[self.protocols()].open().is_empty()
    }

    /// Waits for a frame of a protocol, a call of [`Self::wake_protocols`], or the timeout.
    pub fn wait_protocols(&self, at_most: Duration) {
        self.lists[self.protocols()].wait(at_most, PortQueues::is_empty);
    }

    /// Ends the wait of the thread of the protocols, or its next one.
    pub fn wake_protocols(&self) {
        self.lists[self.protocols()].wake();
    }

    /// Takes all upcalls, the owner's and the handlers'.
    pub fn drain(&self) -> Vec<Upcall> {
        let mut all = Vec::new();
        let lists = self.lists.iter().take(self.protocols());
        lists.for_each(|list| list.open().pop(usize::MAX, &mut all));
        all
    }

    /// Waits for an upcall for a handler, a call of [`Self::wake`], or the timeout.
    pub fn wait(&self, handler: u16, at_most: Duration) {
        if let Some(list) = self.of_handler(handler) {
            list.wait(at_most, PortQueues::is_empty);
        }
    }

    /// Ends the wait of every handler, or its next one.
    pub fn wake(&self) {
        self.lists.iter().for_each(Mailbox::wake);
    }

    fn of_handler(&self, handler: u16) -> Option<&Mailbox<PortQueues>> {
        self.lists.get(usize::from(handler) + 1)
    }

    /// Whether no upcall waits for the owner.
    pub fn is_empty(&self) -> bool {
        self.lists[0].open().is_empty()
    }

    /// Whether no upcall waits for a handler.
    pub fn is_empty_for(&self, handler: u16) -> bool {
        self.of_handler(handler).is_none_or(|list| list.open().is_empty())
    }

    /// Upcalls dropped for lack of room or by a rate limit, by port.
    pub fn dropped(&self) -> Vec<(PortNo, u64)> {
        let mut by_port: Vec<(PortNo, u64)> = Vec::new();
        for list in &self.lists {
            for (port, dropped) in list.open().dropped() {
                match by_port.iter_mut().find(|(known, _)| *known == port) {
                    Some((_, count)) => *count += dropped,
                    None => by_port.push((port, dropped)),
                }
            }
        }
        by_port
    }

    /// Removes a port's state and waiting upcalls.
    pub fn remove_port(&self, port: PortNo) {
        self.lists.iter().for_each(|list| list.open().remove_port(port));
        self.limiter().remove_port(port);
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
