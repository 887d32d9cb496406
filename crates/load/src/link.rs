//! A port's queues, one for each way, as a generator reads and fills them.

use crate::error::LoadError;
use base::limits::BATCH_SIZE;
use packet::{Batch, Pool};
use port::{RxQueue, TxCounters, TxQueue};

/// Batches that an endpoint receives or sends per iteration, so that the other endpoint does not wait.
pub(crate) const BATCHES: usize = 8;

/// Both queues of a port.
pub struct Link {
    /// Receive queue.
    pub rx: Box<dyn RxQueue>,
    /// Transmit queue.
    pub tx: Box<dyn TxQueue>,
}

impl Link {
    /// Receives up to [`BATCHES`] batches. Returns the number of packets, and whether the queue was emptied.
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

    /// Sends up to [`BATCHES`] batches. Returns the number of packets, the queue's counters, and whether
    /// everything was sent.
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
