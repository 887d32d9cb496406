//! The simulated hosts at their ports, driven by one thread.

use super::error::LoadError;
use base::Instant;
use generator::{Host, Statistics};
use packet::{Batch, Pool};
use port::{RxQueue, TxCounters, TxQueue};

/// Batches that a side takes in or sends in one turn, so that the other side is not kept waiting.
const BATCHES: usize = 8;

/// Turns without a packet before the core is given away for a moment: whoever gives it away at
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
    /// Hands over what arrived, some batches at most; returns the packets.
    pub fn take_in(
        &mut self,
        pool: &mut Pool,
        batch: &mut Batch,
        mut receive: impl FnMut(&mut Pool, &mut Batch),
    ) -> Result<u64, LoadError> {
        let mut moved = 0;
        for _ in 0..BATCHES {
            self.rx.receive(pool, batch)?;
            if batch.is_empty() {
                break;
            }
            moved += batch.len() as u64;
            receive(pool, batch);
        }
        Ok(moved)
    }

    /// Sends what there is, some batches at most; returns the packets and what became of them.
    pub fn send_out(
        &mut self,
        pool: &mut Pool,
        batch: &mut Batch,
        mut transmit: impl FnMut(&mut Pool, &mut Batch),
    ) -> (u64, TxCounters) {
        let (mut moved, mut sent) = (0, TxCounters::default());
        for _ in 0..BATCHES {
            transmit(pool, batch);
            if batch.is_empty() {
                break;
            }
            moved += batch.len() as u64;
            sent += self.tx.send(pool, batch);
        }
        (moved, sent)
    }
}

/// A host at its port.
pub struct Side {
    /// The host.
    pub host: Host,
    link: Link,
    /// Packets that the port had no room for, since whatever is behind it did not take them.
    pub dropped: u64,
    /// Packets that the port refused.
    pub errors: u64,
}

impl Side {
    /// A host at this port.
    pub fn new(host: Host, link: Link) -> Side {
        Side { host, link, dropped: 0, errors: 0 }
    }

    /// Takes in, lets time pass, sends; returns the packets moved.
    fn turn(&mut self, pool: &mut Pool, batch: &mut Batch, now: Instant) -> Result<u64, LoadError> {
        let Side { host, link, .. } = self;
        let mut moved = link.take_in(pool, batch, |pool, batch| host.receive(pool, batch, now))?;
        host.tick(now);
        let (out, sent) = link.send_out(pool, batch, |pool, batch| host.transmit(pool, batch, now));
        moved += out;
        self.dropped += sent.dropped;
        self.errors += sent.errors;
        Ok(moved)
    }
}

/// One or both sides.
pub struct Sides {
    /// The side that opens.
    pub client: Option<Side>,
    /// The side that accepts.
    pub server: Option<Side>,
    pool: Pool,
    batch: Batch,
    last: Option<(Instant, bool)>,
    idle: u32,
    /// Time spent in turns that moved packets, in nanoseconds.
    pub busy_ns: u64,
}

impl Sides {
    /// These sides, at rest.
    pub fn new(client: Option<Side>, server: Option<Side>) -> Sides {
        let (pool, batch) = (Pool::new(16_384), Batch::new());
        Sides { client, server, pool, batch, last: None, idle: 0, busy_ns: 0 }
    }

    /// One turn of both; returns the packets moved.
    pub fn turn(&mut self, now: Instant) -> Result<u64, LoadError> {
        if let Some((before, true)) = self.last {
            self.busy_ns += (now - before).as_nanos() as u64;
        }
        let mut moved = 0;
        for side in [&mut self.client, &mut self.server].into_iter().flatten() {
            moved += side.turn(&mut self.pool, &mut self.batch, now)?;
        }
        self.last = Some((now, moved > 0));
        Ok(moved)
    }

    /// The same; gives the core away after some turns with nothing to do.
    pub fn turn_and_rest(&mut self, now: Instant) -> Result<u64, LoadError> {
        let moved = self.turn(now)?;
        self.idle = if moved > 0 { 0 } else { self.idle + 1 };
        if self.idle > IDLE_TURNS {
            self.idle = 0;
            std::thread::yield_now();
        }
        Ok(moved)
    }

    /// What the client counted; nothing where there is none.
    pub fn client_statistics(&self) -> Statistics {
        self.client.as_ref().map_or_else(Statistics::default, |side| side.host.statistics().clone())
    }

    /// What the server counted; nothing where there is none.
    pub fn server_statistics(&self) -> Statistics {
        self.server.as_ref().map_or_else(Statistics::default, |side| side.host.statistics().clone())
    }

    /// Connections alive on the opening side, or on the only one.
    pub fn active(&self) -> usize {
        let side = self.client.as_ref().or(self.server.as_ref());
        side.map_or(0, |side| side.host.alive())
    }

    /// Connections alive on any side.
    pub fn alive(&self) -> usize {
        [&self.client, &self.server].into_iter().flatten().map(|side| side.host.alive()).sum()
    }

    /// Packets that ports refused as wrong.
    pub fn port_errors(&self) -> u64 {
        [&self.client, &self.server].into_iter().flatten().map(|side| side.errors).sum()
    }

    /// Packets that ports had no room for.
    pub fn port_drops(&self) -> u64 {
        [&self.client, &self.server].into_iter().flatten().map(|side| side.dropped).sum()
    }

    /// Gives both ports back for other hosts, where there are both.
    pub fn into_links(self) -> Option<(Link, Link)> {
        Some((self.client?.link, self.server?.link))
    }

    /// Ends every connection without a word.
    pub fn abort_all(&mut self) {
        for side in [&mut self.client, &mut self.server].into_iter().flatten() {
            side.host.abort_all();
        }
    }
}
