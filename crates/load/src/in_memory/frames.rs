//! Frames on their way to or from a port.

use packet::{Batch, Pool};
use port::{PortError, RxQueue};
use std::collections::VecDeque;
use std::os::fd::RawFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A line of frames; clones are its other end. A port that receives takes them in order.
#[derive(Clone, Debug, Default)]
pub struct Frames(Arc<Mutex<VecDeque<Vec<u8>>>>);

impl Frames {
    /// Adds a frame at the end.
    pub fn push(&self, frame: Vec<u8>) {
        self.lock().push_back(frame);
    }

    /// Removes the first frame.
    pub fn pop(&self) -> Option<Vec<u8>> {
        self.lock().pop_front()
    }

    /// Returns whether there are no frames.
    pub fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Vec<u8>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RxQueue for Frames {
    fn receive(&mut self, pool: &mut Pool, batch: &mut Batch) -> Result<(), PortError> {
        let mut frames = self.lock();
        while !batch.is_full() {
            let Some(frame) = frames.pop_front() else { break };
            let mut packet = pool.take();
            packet.receive_copy(&frame);
            batch.push(packet);
        }
        Ok(())
    }

    fn wake_fd(&self) -> Option<RawFd> {
        None
    }
}
