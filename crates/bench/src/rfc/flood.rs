//! The attackers of RFC 3511 section 5.5 at the device's ports, in parallel to the hosts.

use base::Instant;
use generator::{Flood, FloodCounts};
use load::link::Link;
use packet::{Batch, Pool};
use port::{PortError, RxQueue, TxCounters, TxQueue};
use std::os::fd::RawFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A value shared by the hosts' ports and the attackers. One thread drives both, so that the lock is never
/// contended.
#[derive(Debug)]
struct Shared<T>(Arc<Mutex<T>>);

impl<T> Shared<T> {
    fn new(it: T) -> Shared<T> {
        Shared(Arc::new(Mutex::new(it)))
    }

    fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        Shared(Arc::clone(&self.0))
    }
}

type Tx = Shared<Box<dyn TxQueue>>;

/// The attackers and their ports.
pub struct Attack {
    flood: Shared<Flood>,
    client: Tx,
    server: Tx,
    pool: Pool,
    batch: Batch,
}

impl Attack {
    /// Inserts attackers between the hosts and these ports; returns the ports for the hosts.
    pub fn join(flood: Flood, links: (Link, Link)) -> (Attack, (Link, Link)) {
        let flood = Shared::new(flood);
        let (client, server) = (Shared::new(links.0.tx), Shared::new(links.1.tx));
        let link = |rx, tx: &Tx, server| Link {
            rx: Box::new(Sifted { inner: rx, flood: flood.clone(), server }),
            tx: Box::new(tx.clone()),
        };
        let joined = (link(links.0.rx, &client, false), link(links.1.rx, &server, true));
        let (pool, batch) = (Pool::new(4096), Batch::new());
        (Attack { flood, client, server, pool, batch }, joined)
    }

    /// Sends SYNs at this rate per second from `now` on; `None` stops.
    pub fn set_rate(&mut self, per_second: Option<f64>, now: Instant) {
        match per_second {
            Some(rate) => self.flood.lock().start(rate.round() as u64, now),
            None => self.flood.lock().stop(),
        }
    }

    /// Counters since the rate was set.
    pub fn counts(&self) -> FloodCounts {
        self.flood.lock().counts()
    }

    /// Sends the SYNs that are due. Those that the port does not accept are lost.
    pub fn iterate(&mut self, now: Instant) {
        self.flood.lock().attack(&mut self.pool, &mut self.batch, now);
        let _ = self.client.lock().send(&mut self.pool, &mut self.batch);
        self.flood.lock().answer(&mut self.pool, &mut self.batch);
        let _ = self.server.lock().send(&mut self.pool, &mut self.batch);
    }
}

struct Sifted {
    inner: Box<dyn RxQueue>,
    flood: Shared<Flood>,
    server: bool,
}

impl RxQueue for Sifted {
    fn receive(&mut self, pool: &mut Pool, batch: &mut Batch) -> Result<(), PortError> {
        self.inner.receive(pool, batch)?;
        let mut flood = self.flood.lock();
        if self.server {
            flood.sift_server(pool, batch)
        } else {
            flood.sift_client(pool, batch)
        }
        Ok(())
    }

    fn wake_fd(&self) -> Option<RawFd> {
        self.inner.wake_fd()
    }
}

impl TxQueue for Tx {
    fn send(&mut self, pool: &mut Pool, batch: &mut Batch) -> TxCounters {
        self.lock().send(pool, batch)
    }
}
