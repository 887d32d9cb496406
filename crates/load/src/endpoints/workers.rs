//! Worker threads of the generator beyond the first. Each drives its own hosts and queues, and reports its
//! counters to the first worker.

use super::{Counted, Endpoints};
use crate::dut::Cores;
use crate::error::LoadError;
use base::Instant;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

/// What the first worker orders the others to do.
#[derive(Clone, Copy, Debug)]
pub enum Order {
    /// Clients open this many connections per second from then on, after a linear rise.
    OpenAt {
        /// Connections per second.
        rate: u64,
        /// Duration of the rise, in milliseconds.
        ramp_ms: u64,
        /// Start of the rise.
        now: Instant,
    },
    /// Clients open no more.
    StopOpening,
    /// Every connection ends without sending anything.
    AbortAll,
}

/// The further workers. They end when this is dropped.
#[derive(Default)]
pub struct Workers {
    members: Vec<Member>,
}

struct Member {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<Result<(), LoadError>>>,
}

#[derive(Default)]
struct Shared {
    orders: Mutex<Vec<Order>>,
    counted: Mutex<Counted>,
    /// Incremented with each request; the answer is complete when `answered` is equal.
    asked: AtomicU64,
    answered: AtomicU64,
    /// Packets moved.
    moved: AtomicU64,
    /// Connections alive at both endpoints, and at the client.
    alive: AtomicUsize,
    active: AtomicUsize,
    /// Whether to drive the hosts, or only to answer requests.
    goes: AtomicBool,
    stop: AtomicBool,
}

impl Workers {
    /// Starts a thread for each of these, on the generator's second core and the following ones.
    pub fn start(endpoints: Vec<Endpoints>, cores: &Cores) -> Result<Workers, LoadError> {
        let mut workers = Workers::default();
        for (index, endpoints) in endpoints.into_iter().enumerate() {
            let shared = Arc::new(Shared::default());
            let (seen, cores) = (Arc::clone(&shared), cores.clone());
            let thread = thread::Builder::new()
                .name(format!("generator{}", index + 1))
                .spawn(move || {
                    cores.pin_generator(index + 1);
                    drive(endpoints, &seen)
                })
                .map_err(|error| {
                    LoadError::Ended(format!("cannot start a worker of the generator: {error}"))
                })?;
            workers.members.push(Member { shared, thread: Some(thread) });
        }
        Ok(workers)
    }

    /// Returns the number of further workers.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Returns whether there are no further workers.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Gives all of them an order. It is carried out when the next request is answered.
    pub fn order(&self, order: impl Fn(usize) -> Order) {
        for (index, member) in self.members.iter().enumerate() {
            lock(&member.shared.orders).push(order(index + 1));
            member.shared.asked.fetch_add(1, Ordering::Release);
        }
    }

    /// Starts driving the hosts. Clients without an order open as many connections as they have capacity for,
    /// as the first worker's do in its first iteration.
    pub fn go(&self) {
        for member in &self.members {
            member.shared.goes.store(true, Ordering::Release);
        }
    }

    /// Returns the counters of all of them.
    pub fn counted(&self) -> Counted {
        for member in &self.members {
            member.shared.asked.fetch_add(1, Ordering::Release);
        }
        let mut all = Counted::default();
        for Member { shared, thread } in &self.members {
            let asked = shared.asked.load(Ordering::Acquire);
            let runs = || thread.as_ref().is_some_and(|thread| !thread.is_finished());
            // A worker that has ended does not answer; its last counters stand.
            while shared.answered.load(Ordering::Acquire) < asked && runs() {
                thread::yield_now();
            }
            all.add(&lock(&shared.counted));
        }
        all
    }

    /// Returns the packets that they have moved since they started.
    pub fn moved(&self) -> u64 {
        self.members.iter().map(|member| member.shared.moved.load(Ordering::Relaxed)).sum()
    }

    /// Returns the connections alive at both endpoints.
    pub fn alive(&self) -> usize {
        self.members.iter().map(|member| member.shared.alive.load(Ordering::Acquire)).sum()
    }

    /// Returns the connections alive at the clients.
    pub fn active(&self) -> usize {
        self.members.iter().map(|member| member.shared.active.load(Ordering::Relaxed)).sum()
    }

    /// Returns an error if one of them has ended.
    pub fn check(&mut self) -> Result<(), LoadError> {
        for member in &mut self.members {
            match member.thread.take_if(|thread| thread.is_finished()).map(JoinHandle::join) {
                None => {}
                Some(Ok(Err(error))) => return Err(error),
                Some(_) => {
                    return Err(LoadError::Ended("a worker of the generator ended".to_owned()));
                }
            }
        }
        Ok(())
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        for member in &self.members {
            member.shared.stop.store(true, Ordering::Relaxed);
        }
        for member in &mut self.members {
            if let Some(thread) = member.thread.take() {
                // A failed thread was reported by `check`.
                let _ = thread.join();
            }
        }
    }
}

/// The loop of a worker's thread.
fn drive(mut endpoints: Endpoints, shared: &Shared) -> Result<(), LoadError> {
    let mut answered = 0;
    while !shared.stop.load(Ordering::Relaxed) {
        // Read before the orders, so that orders given before the start are carried out first.
        let goes = shared.goes.load(Ordering::Acquire);
        let asked = shared.asked.load(Ordering::Acquire);
        if asked != answered {
            for order in lock(&shared.orders).drain(..) {
                endpoints.obey(order);
            }
            shared.alive.store(endpoints.alive(), Ordering::Release);
            *lock(&shared.counted) = endpoints.counted();
            answered = asked;
            shared.answered.store(asked, Ordering::Release);
        }
        if !goes {
            thread::yield_now();
            continue;
        }
        let moved = endpoints.iterate_and_rest(clock::now())?;
        if moved > 0 {
            shared.moved.fetch_add(moved, Ordering::Relaxed);
        }
        shared.alive.store(endpoints.alive(), Ordering::Release);
        shared.active.store(endpoints.active(), Ordering::Relaxed);
    }
    Ok(())
}

/// Orders and counters are consistent after every statement, so a poisoned lock may be used.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
