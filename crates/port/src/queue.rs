//! The queues of a port, as workers use them.

use packet::{Batch, Pool};
use std::os::fd::RawFd;
use std::time::Duration;

/// A receive queue, owned by one worker at a time.
pub trait RxQueue: Send {
    /// Receives waiting packets, up to the batch's free room, in buffers from `pool`. Without packets it
    /// returns `Ok` and leaves the batch unchanged.
    fn receive(&mut self, pool: &mut Pool, batch: &mut Batch) -> Result<(), PortError>;

    /// Returns a file descriptor that becomes readable when packets arrive, for sleeping workers; `None` if
    /// the queue must be polled.
    fn wake_fd(&self) -> Option<RawFd>;

    /// Returns how long a queue without [`RxQueue::wake_fd`] that was just empty will stay empty; zero if
    /// unknown.
    fn quiet_for(&self) -> Duration {
        Duration::ZERO
    }
}

/// A transmit queue. Every worker owns one for each port.
pub trait TxQueue: Send {
    /// Sends the whole batch or drops what cannot be sent. Empties the batch and returns the buffers to
    /// `pool`.
    fn send(&mut self, pool: &mut Pool, batch: &mut Batch) -> TxCounters;
}

/// The counters of one [`TxQueue::send`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[must_use]
pub struct TxCounters {
    /// Packets sent.
    pub packets: u64,
    /// Bytes sent, without offload headers.
    pub bytes: u64,
    /// Packets dropped because the transmit queue was full.
    pub dropped: u64,
    /// Packets dropped because the device rejected them.
    pub errors: u64,
}

impl std::ops::AddAssign for TxCounters {
    fn add_assign(&mut self, more: TxCounters) {
        self.packets += more.packets;
        self.bytes += more.bytes;
        self.dropped += more.dropped;
        self.errors += more.errors;
    }
}

/// Why a port cannot be opened or has stopped working.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PortError {
    /// The device does not exist or was removed.
    #[error("{device}: no such device")]
    Gone {
        /// The device's name.
        device: String,
    },
    /// A system call failed.
    #[error("{device}: could not {what}: {source}")]
    System {
        /// The device's name.
        device: String,
        /// The attempted operation.
        what: &'static str,
        /// The system's error.
        source: std::io::Error,
    },
    /// The configuration is invalid for the port.
    #[error("{device}: {reason}")]
    Invalid {
        /// The device's name.
        device: String,
        /// The error, with advice.
        reason: String,
    },
}
