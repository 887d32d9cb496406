//! The simulated hosts at their ports, driven by one thread.

use super::error::LoadError;
use super::workers::{Order, Workers};
use base::Instant;
use base::limits::BATCH_SIZE;
use generator::{Host, Statistics};
use packet::{Batch, Pool};
use port::{RxQueue, TxCounters, TxQueue};
use std::time::Duration;

/// Batches that an endpoint takes in or sends in one turn, so that the other endpoint is not kept waiting.
const BATCHES: usize = 8;

/// How long what arrives without end may hold up timers: less than the shortest retransmission
/// timeout, and more than any queue lasts.
const HOLD: Duration = Duration::from_millis(100);

/// Small buffers that are kept for what is to be sent: as many as both endpoints send in one turn.
const SMALL: usize = 2 * BATCHES * BATCH_SIZE;

/// Turns without a packet before the core is given away for a moment: a generator that gives it away at
/// once comes too late for what falls due next.
const IDLE_TURNS: u32 = 200;

/// Both queues of a port.
pub struct Link {
    /// What arrives.
    pub rx: Box<dyn RxQueue>,
    /// What leaves.
    pub tx: Box<dyn TxQueue>,
}

impl Link {
    /// Hands over what arrived, some batches at most; returns the packets, and whether that was all.
    pub fn take_in(
        &mut self,
        pool: &mut Pool,
        batch: &mut Batch,
        mut receive: impl FnMut(&mut Pool, &mut Batch),
    ) -> Result<(u64, bool), LoadError> {
        let mut moved = 0;
        for _ in 0..BATCHES {
            self.rx.receive(pool, batch)?;
            if batch.is_empty() {
                return Ok((moved, true));
            }
            moved += batch.len() as u64;
            receive(pool, batch);
        }
        Ok((moved, false))
    }

    /// Sends what there is, some batches at most; returns the packets, what became of them, and
    /// whether that was all.
    pub fn send_out(
        &mut self,
        pool: &mut Pool,
        batch: &mut Batch,
        mut transmit: impl FnMut(&mut Pool, &mut Batch),
    ) -> (u64, TxCounters, bool) {
        let (mut moved, mut sent) = (0, TxCounters::default());
        for _ in 0..BATCHES {
            transmit(pool, batch);
            if batch.is_empty() {
                return (moved, sent, true);
            }
            let count = batch.len();
            moved += count as u64;
            sent += self.tx.send(pool, batch);
            if count < BATCH_SIZE {
                return (moved, sent, true);
            }
        }
        (moved, sent, false)
    }
}

/// A host at its port.
pub struct Endpoint {
    /// The host.
    pub host: Host,
    link: Link,
    /// Packets that the port had no room for, since whatever is behind it did not take them.
    pub dropped: u64,
    /// Packets that the port refused.
    pub errors: u64,
    /// All that had arrived was read in this turn, and all that was to be said was sent in the last.
    is_caught_up: bool,
}

impl Endpoint {
    /// A host at this port.
    pub fn new(host: Host, link: Link) -> Endpoint {
        Endpoint { host, link, dropped: 0, errors: 0, is_caught_up: true }
    }

    /// Takes in what arrived; returns the packets.
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

    /// Sends what there is to be said; returns the packets.
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

/// What all hosts have counted up to a moment.
#[derive(Clone, Debug, Default)]
pub struct Counted {
    /// The endpoints that open.
    pub client: Statistics,
    /// The endpoints that accept.
    pub server: Statistics,
    /// Time spent in iterations that moved packets, in nanoseconds, of all workers together.
    pub busy_ns: u64,
    /// The part of it after which something was left over that had arrived or was to be sent.
    pub behind_ns: u64,
    /// Opens that fell due and were missed.
    pub missed: u64,
    /// Packets that ports refused as wrong.
    pub errors: u64,
    /// Packets that ports had no room for.
    pub drops: u64,
    /// The longest time in which a worker looked at no port since it was told a rate, in
    /// nanoseconds.
    pub stall_ns: u64,
}

impl Counted {
    /// Counts what another worker has counted as well.
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

/// What became of a turn.
#[derive(Clone, Copy, Debug)]
struct Turn {
    at: Instant,
    moved: bool,
    is_behind: bool,
}

/// One or both endpoints.
pub struct Endpoints {
    /// The endpoint that opens.
    pub client: Option<Endpoint>,
    /// The endpoint that accepts.
    pub server: Option<Endpoint>,
    /// Packets that the queues hold in which they wait for these; none: not known.
    pub queue_packets: Option<u64>,
    pool: Pool,
    batch: Batch,
    last: Option<Turn>,
    idle: u32,
    /// Time spent in iterations that moved packets, in nanoseconds.
    busy_ns: u64,
    /// The part of it after which something was left over.
    behind_ns: u64,
    /// The longest time between two iterations since the hosts were told a rate.
    stall_ns: u64,
    /// When time passed for the hosts.
    ticked_at: Instant,
    workers: Workers,
    crew_moved: u64,
}

impl Endpoints {
    /// These endpoints, at rest.
    pub fn new(client: Option<Endpoint>, server: Option<Endpoint>) -> Endpoints {
        Endpoints::with(client, server, Workers::default())
    }

    /// The same with other workers, whose hosts these endpoints speak for too.
    pub fn with(client: Option<Endpoint>, server: Option<Endpoint>, workers: Workers) -> Endpoints {
        let (pool, batch) = (Pool::new(16_384).with_small(SMALL), Batch::new());
        let (last, idle, crew_moved) = (None, 0, 0);
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
            crew_moved,
        }
    }

    /// How many workers drive the hosts.
    pub fn workers(&self) -> usize {
        1 + self.workers.len()
    }

    /// Clients open so many connections each second from `now` on, after a linear rise.
    pub fn open_at(&mut self, per_second: u64, ramp_ms: u64, now: Instant) {
        let workers = self.workers() as u64;
        let part = |index: usize| {
            let one_more = u64::from((index as u64) < per_second % workers);
            Order::OpenAt { rate: per_second / workers + one_more, ramp_ms, now }
        };
        self.workers.order(part);
        self.obey(part(0));
    }

    /// Clients open nothing more.
    pub fn stop_opening(&mut self) {
        self.workers.order(|_| Order::StopOpening);
        self.obey(Order::StopOpening);
    }

    /// Ends every connection without a word.
    pub fn abort_all(&mut self) {
        self.workers.order(|_| Order::AbortAll);
        self.obey(Order::AbortAll);
    }

    /// Does with the own hosts what is wanted.
    pub fn obey(&mut self, order: Order) {
        if let Order::OpenAt { .. } = order {
            // Between trials there is no hurry.
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

    /// What all hosts have counted up to now.
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

    /// One turn of both: takes in, lets time pass, sends; returns the packets moved.
    ///
    /// What has arrived is read first, and what is under way is said first. Time passes for the hosts
    /// only when neither is left over, so that no host sends again what was answered in a packet that
    /// lies unread, and none opens connections while those that are open wait: a generator that was
    /// away for a moment, or is asked for more than it can do, would otherwise fill its queues with
    /// ever more of both and never come back.
    pub fn turn(&mut self, now: Instant) -> Result<u64, LoadError> {
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
        self.last = Some(Turn { at: now, moved: moved > 0, is_behind: !is_caught_up });
        if !self.workers.is_empty() {
            self.workers.go();
            let all = self.workers.moved();
            moved += all - std::mem::replace(&mut self.crew_moved, all);
        }
        Ok(moved)
    }

    /// Whether all workers still run; why not.
    pub fn check(&mut self) -> Result<(), LoadError> {
        self.workers.check()
    }

    /// The same; gives the core away after some iterations with nothing to do.
    pub fn turn_and_rest(&mut self, now: Instant) -> Result<u64, LoadError> {
        let moved = self.turn(now)?;
        self.idle = if moved > 0 { 0 } else { self.idle + 1 };
        if self.idle > IDLE_TURNS {
            self.idle = 0;
            std::thread::yield_now();
        }
        Ok(moved)
    }

    /// What the clients counted; nothing where there are none.
    pub fn client_statistics(&self) -> Statistics {
        self.counted().client
    }

    /// What the servers counted; nothing where there are none.
    pub fn server_statistics(&self) -> Statistics {
        self.counted().server
    }

    /// Connections alive on the opening side, or on the only one.
    pub fn active(&self) -> usize {
        let endpoint = self.client.as_ref().or(self.server.as_ref());
        endpoint.map_or(0, |endpoint| endpoint.host.alive()) + self.workers.active()
    }

    /// Connections alive on any endpoint.
    pub fn alive(&self) -> usize {
        let own = [&self.client, &self.server].into_iter().flatten();
        own.map(|endpoint| endpoint.host.alive()).sum::<usize>() + self.workers.alive()
    }

    /// Packets that ports refused as wrong.
    pub fn port_errors(&self) -> u64 {
        self.counted().errors
    }

    /// Packets that ports had no room for.
    pub fn port_drops(&self) -> u64 {
        self.counted().drops
    }

    /// Gives both ports back for other hosts, where there are both.
    pub fn into_links(self) -> Option<(Link, Link)> {
        Some((self.client?.link, self.server?.link))
    }
}
