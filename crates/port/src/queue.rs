//! The two ends of a port that workers hold.

use packet::{Batch, Pool};
use std::os::fd::RawFd;
use std::time::Duration;

/// A receive queue. One worker at a time owns it.
pub trait RxQueue: Send {
    /// Receives packets that wait, up to the batch's free room, in buffers from `pool`.
    /// Nothing waiting is `Ok` with the batch as it was.
    fn receive(&mut self, pool: &mut Pool, batch: &mut Batch) -> Result<(), PortError>;

    /// A file descriptor that becomes readable when packets wait, for workers that sleep;
    /// `None` where the queue can only be polled.
    fn wake_fd(&self) -> Option<RawFd>;

    /// How long a queue without [`RxQueue::wake_fd`] that had nothing just now will have nothing
    /// yet; zero where it cannot know.
    fn quiet_for(&self) -> Duration {
        Duration::ZERO
    }
}

/// A transmit queue. Every worker owns one of its own for each port.
pub trait TxQueue: Send {
    /// Sends the whole batch or drops what can't be sent, empties it, and hands the buffers to
    /// `pool`.
    fn send(&mut self, pool: &mut Pool, batch: &mut Batch) -> TxCounters;
}

/// What became of the packets handed to [`TxQueue::send`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[must_use]
pub struct TxCounters {
    /// Packets sent.
    pub packets: u64,
    /// Bytes sent, without offload headers.
    pub bytes: u64,
    /// Packets dropped because the queue behind was full.
    pub dropped: u64,
    /// Packets dropped because the device refused them.
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

/// Why a port cannot be opened or no longer works.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PortError {
    /// The device was removed or is not there.
    #[error("{device}: no such device")]
    Gone {
        /// The device's name.
        device: String,
    },
    /// The system refused.
    #[error("{device}: could not {what}: {source}")]
    System {
        /// The device's name.
        device: String,
        /// What was tried.
        what: &'static str,
        /// The system's answer.
        source: std::io::Error,
    },
    /// The configuration names something the port does not have.
    #[error("{device}: {reason}")]
    Invalid {
        /// The device's name.
        device: String,
        /// What is wrong and what to do.
        reason: String,
    },
}
