//! A patch between two ports: threads forward every packet from one port to the other. It is the minimum that
//! any device does.

use super::Wanted;
use super::cores::Cores;
use crate::error::LoadError;
use packet::{Batch, Pool};
use port::{RxQueue, TxQueue};
use port_vhost::{VhostPort, VhostRx};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

/// A running patch; it ends when dropped.
#[derive(Debug)]
pub struct Patch {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
    /// They close when dropped.
    _ends: [VhostPort; 2],
}

/// One direction of one queue.
struct Strand {
    rx: Box<dyn RxQueue>,
    tx: Box<dyn TxQueue>,
}

impl Patch {
    /// Joins both ports, queue by queue, with as many threads as the device has workers.
    pub fn start(
        ends: Vec<(VhostPort, Vec<VhostRx>)>,
        wanted: &Wanted,
        cores: &Cores,
    ) -> Result<Patch, LoadError> {
        let mut of_worker: Vec<Vec<Strand>> = (0..wanted.workers).map(|_| Vec::new()).collect();
        let Ok([(first, from_first), (second, from_second)]) = <[_; 2]>::try_from(ends) else {
            return Err(LoadError::Ended("a patch has two ends".to_owned()));
        };
        for (queue, (one, other)) in from_first.into_iter().zip(from_second).enumerate() {
            let there = Strand { rx: Box::new(one), tx: Box::new(second.tx(queue)) };
            let back = Strand { rx: Box::new(other), tx: Box::new(first.tx(queue)) };
            of_worker[queue % wanted.workers].extend([there, back]);
        }
        let stop = Arc::new(AtomicBool::new(false));
        let mut patch =
            Patch { stop: Arc::clone(&stop), threads: Vec::new(), _ends: [first, second] };
        for (worker, strands) in of_worker.into_iter().enumerate() {
            let (stop, cores) = (Arc::clone(&stop), cores.clone());
            let thread = thread::Builder::new().name(format!("patch{worker}")).spawn(move || {
                cores.pin_device(worker);
                carry(strands, &stop);
            });
            let thread = thread.map_err(|error| {
                LoadError::Ended(format!("cannot start the patch's thread: {error}"))
            })?;
            patch.threads.push(thread);
        }
        Ok(patch)
    }
}

impl Drop for Patch {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // If a thread failed, the other end has received no packets, which is noticed there.
            let _ = thread.join();
        }
    }
}

fn carry(mut strands: Vec<Strand>, stop: &AtomicBool) {
    let (mut pool, mut batch) = (Pool::new(1024), Batch::new());
    while !stop.load(Ordering::Relaxed) {
        for Strand { rx, tx } in &mut strands {
            // A port that is gone forwards nothing, which is noticed at the other end.
            if rx.receive(&mut pool, &mut batch).is_ok() && !batch.is_empty() {
                // Packets that do not fit into the other queue are lost, as on a wire.
                let _ = tx.send(&mut pool, &mut batch);
            }
        }
    }
}
