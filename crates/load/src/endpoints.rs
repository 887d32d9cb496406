//! The simulated hosts and their ports, driven by one thread.

mod workers;

pub use workers::{Order, Workers};

use crate::error::LoadError;
use crate::link::{BATCHES, Link};
use base::Instant;
use base::limits::BATCH_SIZE;
use generator::{Host, Statistics};
use packet::{Batch, Pool};
use std::time::Duration;

/// How long continuous arrivals may delay timers: less than the shortest retransmission timeout, and longer
/// than any queue takes to drain.
const HOLD: Duration = Duration::from_millis(100);

/// Small send buffers in the pool: as many as both endpoints send in one iteration.
const SMALL: usize = 2 * BATCHES * BATCH_SIZE;

/// Iterations without a packet before the thread yields its core: a generator that yields at once is late for
/// what is due next.
const IDLE_ITERATIONS: u32 = 200;

/// A host and its port.
pub struct Endpoint {
    /// The host.
    pub host: Host,
    link: Link,
    /// Packets that the port had no room for, because the device did not take them.
    pub dropped: u64,
    /// Packets that the port rejected.
    pub errors: u64,
    /// Whether this iteration emptied the receive queue and the previous one sent everything.
    is_caught_up: bool,
}

impl Endpoint {
    /// A host at this port.
    pub fn new(host: Host, link: Link) -> Endpoint {
        Endpoint { host, link, dropped: 0, errors: 0, is_caught_up: true }
    }

    /// Receives packets and returns their number.
    fn take_in(
        &mut self,
        pool: &mut Pool,
        batch: &mut Batch,
        now: Instant,
    ) -> Result<u64, LoadError> {
        let Endpoint { host, link, .. } = self;
        let (moved, all) =
            link.take_in(pool, batch, |pool, batch| host.receive(pool, batch, now))?;
        self.is_caught_up &= all;
        Ok(moved)
    }

    /// Sends packets and returns their number.
    fn send_out(&mut self, pool: &mut Pool, batch: &mut Batch, now: Instant) -> u64 {
        let Endpoint { host, link, .. } = self;
        let (moved, sent, all) =
            link.send_out(pool, batch, |pool, batch| host.transmit(pool, batch, now));
        self.is_caught_up = all;
        self.dropped += sent.dropped;
        self.errors += sent.errors;
        moved
    }
}

/// Counters of all hosts.
#[derive(Clone, Debug, Default)]
pub struct Counted {
    /// Counters of the clients.
    pub client: Statistics,
    /// Counters of the servers.
    pub server: Statistics,
    /// Time spent in iterations that moved packets, in nanoseconds, of all workers together.
    pub busy_ns: u64,
    /// The part of it after which packets were left unreceived or unsent.
    pub behind_ns: u64,
    /// Opens that were due and missed.
    pub missed: u64,
    /// Packets that ports rejected.
    pub errors: u64,
    /// Packets for which ports had no room.
    pub drops: u64,
    /// Longest time in which a worker polled no port since the last rate was set, in nanoseconds.
    pub stall_ns: u64,
}

impl Counted {
    /// Adds another worker's counters.
    pub fn add(&mut self, other: &Counted) {
        self.client.add(&other.client);
        self.server.add(&other.server);
        self.busy_ns += other.busy_ns;
        self.behind_ns += other.behind_ns;
        self.missed += other.missed;
        self.errors += other.errors;
        self.drops += other.drops;
        self.stall_ns = self.stall_ns.max(other.stall_ns);
    }
}

/// The result of an iteration.
#[derive(Clone, Copy, Debug)]
struct Iteration {
    at: Instant,
    moved: bool,
    is_behind: bool,
}

/// One or both endpoints.
pub struct Endpoints {
    /// The clients and their port.
    pub client: Option<Endpoint>,
    /// The servers and their port.
    pub server: Option<Endpoint>,
    /// Packets that the queues in front of the endpoints hold; `None` where unknown.
    pub queue_packets: Option<u64>,
    pool: Pool,
    batch: Batch,
    last: Option<Iteration>,
    idle: u32,
    /// Time spent in iterations that moved packets, in nanoseconds.
    busy_ns: u64,
    /// The part of it after which packets were left unreceived or unsent.
    behind_ns: u64,
    /// Longest time between two iterations since the last rate was set.
    stall_ns: u64,
    /// When the hosts' timers ran last.
    ticked_at: Instant,
    workers: Workers,
    workers_moved: u64,
}

impl Endpoints {
    /// Endpoints that are idle.
    pub fn new(client: Option<Endpoint>, server: Option<Endpoint>) -> Endpoints {
        Endpoints::with(client, server, Workers::default())
    }

    /// Endpoints together with further workers, for whose hosts they stand too.
    pub fn with(client: Option<Endpoint>, server: Option<Endpoint>, workers: Workers) -> Endpoints {
        let (pool, batch) = (Pool::new(16_384).with_small(SMALL), Batch::new());
        let (last, idle, workers_moved) = (None, 0, 0);
        Endpoints {
            client,
            server,
            queue_packets: None,
            pool,
            batch,
            last,
            idle,
            busy_ns: 0,
            behind_ns: 0,
            stall_ns: 0,
            ticked_at: Instant::ZERO,
            workers,
            workers_moved,
        }
    }

    /// Returns the number of workers that drive the hosts.
    pub fn workers(&self) -> usize {
        1 + self.workers.len()
    }

    /// Clients open `per_second` connections per second from `now` on, after a linear rise.
    pub fn open_at(&mut self, per_second: u64, ramp_ms: u64, now: Instant) {
        let workers = self.workers() as u64;
        let part = |index: usize| {
            let one_more = u64::from((index as u64) < per_second % workers);
            Order::OpenAt { rate: per_second / workers + one_more, ramp_ms, now }
        };
        self.workers.order(part);
        self.obey(part(0));
    }

    /// Clients open no further connections.
    pub fn stop_opening(&mut self) {
        self.workers.order(|_| Order::StopOpening);
        self.obey(Order::StopOpening);
    }

    /// Ends every connection without sending anything.
    pub fn abort_all(&mut self) {
        self.workers.order(|_| Order::AbortAll);
        self.obey(Order::AbortAll);
    }

    /// Carries out an order with this thread's hosts.
    pub fn obey(&mut self, order: Order) {
        if let Order::OpenAt { .. } = order {
            // Stalls between trials do not count.
            (self.last, self.stall_ns) = (None, 0);
        }
        for endpoint in [&mut self.client, &mut self.server].into_iter().flatten() {
            match order {
                Order::OpenAt { rate, ramp_ms, now } => endpoint.host.open_at(rate, ramp_ms, now),
                Order::StopOpening => endpoint.host.stop_opening(),
                Order::AbortAll => endpoint.host.abort_all(),
            }
        }
    }

    /// Returns the counters of all hosts.
    pub fn counted(&self) -> Counted {
        let mut all = self.workers.counted();
        let count =
            |endpoint: &Endpoint, into: &mut Statistics| into.add(endpoint.host.statistics());
        for (endpoint, into) in [(&self.client, &mut all.client), (&self.server, &mut all.server)] {
            endpoint.iter().for_each(|endpoint| count(endpoint, into));
        }
        for endpoint in [&self.client, &self.server].into_iter().flatten() {
            all.missed += endpoint.host.missed_opens();
            all.errors += endpoint.errors;
            all.drops += endpoint.dropped;
        }
        all.busy_ns += self.busy_ns;
        all.behind_ns += self.behind_ns;
        all.stall_ns = all.stall_ns.max(self.stall_ns);
        all
    }

    /// One iteration of both endpoints: receive, run timers, send. Returns the number of packets moved.
    ///
    /// Timers run, and connections are opened, only when nothing is left unreceived or unsent. Otherwise a
    /// host would retransmit what an unread packet acknowledges, or open connections while those that are
    /// open wait. A generator that was away for a moment, or is overloaded, would fill its queues with ever
    /// more of both and not recover.
    pub fn iterate(&mut self, now: Instant) -> Result<u64, LoadError> {
        if let Some(last) = self.last {
            let ns = (now - last.at).as_nanos() as u64;
            self.busy_ns += if last.moved { ns } else { 0 };
            self.behind_ns += if last.is_behind { ns } else { 0 };
            self.stall_ns = self.stall_ns.max(ns);
        }
        let Endpoints { client, server, pool, batch, .. } = self;
        let (mut moved, mut is_caught_up) = (0, true);
        for endpoint in [&mut *client, &mut *server].into_iter().flatten() {
            moved += endpoint.take_in(pool, batch, now)?;
            is_caught_up &= endpoint.is_caught_up;
        }
        let passes = is_caught_up || now - self.ticked_at >= HOLD;
        for endpoint in [client, server].into_iter().flatten() {
            if passes {
                endpoint.host.tick(now);
            }
            moved += endpoint.send_out(pool, batch, now);
            is_caught_up &= endpoint.is_caught_up;
        }
        if passes {
            self.ticked_at = now;
        }
        self.last = Some(Iteration { at: now, moved: moved > 0, is_behind: !is_caught_up });
        if !self.workers.is_empty() {
            self.workers.go();
            let all = self.workers.moved();
            moved += all - std::mem::replace(&mut self.workers_moved, all);
        }
        Ok(moved)
    }

    /// Returns an error if a worker has ended.
    pub fn check(&mut self) -> Result<(), LoadError> {
        self.workers.check()
    }

    /// As [`Endpoints::iterate`]; yields the core after some iterations without packets.
    pub fn iterate_and_rest(&mut self, now: Instant) -> Result<u64, LoadError> {
        let moved = self.iterate(now)?;
        self.idle = if moved > 0 { 0 } else { self.idle + 1 };
        if self.idle > IDLE_ITERATIONS {
            self.idle = 0;
            std::thread::yield_now();
        }
        Ok(moved)
    }

    /// Returns the clients' counters; zeros where there are no clients.
    pub fn client_statistics(&self) -> Statistics {
        self.counted().client
    }

    /// Returns the servers' counters; zeros where there are no servers.
    pub fn server_statistics(&self) -> Statistics {
        self.counted().server
    }

    /// Returns the connections alive at the clients, or at the servers where there are no clients.
    pub fn active(&self) -> usize {
        let endpoint = self.client.as_ref().or(self.server.as_ref());
        endpoint.map_or(0, |endpoint| endpoint.host.alive()) + self.workers.active()
    }

    /// Returns the connections alive at all endpoints.
    pub fn alive(&self) -> usize {
        let own = [&self.client, &self.server].into_iter().flatten();
        own.map(|endpoint| endpoint.host.alive()).sum::<usize>() + self.workers.alive()
    }

    /// Returns the packets that ports rejected.
    pub fn port_errors(&self) -> u64 {
        self.counted().errors
    }

    /// Returns the packets for which ports had no room.
    pub fn port_drops(&self) -> u64 {
        self.counted().drops
    }

    /// Returns both ports, if there are both.
    pub fn into_links(self) -> Option<(Link, Link)> {
        Some((self.client?.link, self.server?.link))
    }
}
