//! Counts the frames that a port received and dropped.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// Frames that a port received and dropped since it was opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PacketRxDrops {
    /// Frames that the kernel dropped because the receive queue was full.
    pub queue_full: u64,
    /// Frames longer than a packet buffer.
    pub truncated: u64,
    /// Frames with a segmentation or an offset that the switch does not support.
    pub unsupported: u64,
}

impl PacketRxDrops {
    /// Returns the number of all dropped frames.
    pub fn total(&self) -> u64 {
        self.queue_full + self.truncated + self.unsupported
    }
}

/// The frames that a receive queue dropped itself, which its port reads from another thread.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    truncated: AtomicU64,
    unsupported: AtomicU64,
    /// VLAN tags of received frames, at most two per frame.
    tags: AtomicU64,
}

impl Refusals {
    /// Counts the VLAN tags of a frame.
    pub(super) fn count_tags(&self, tags: u64) {
        self.tags.fetch_add(tags, Ordering::Relaxed);
    }

    /// Counts a frame that is longer than a packet buffer.
    pub(super) fn count_truncated(&self) {
        self.truncated.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a frame that the switch does not support.
    pub(super) fn count_unsupported(&self) {
        self.unsupported.fetch_add(1, Ordering::Relaxed);
    }
}

/// The counters of a port.
#[derive(Debug, Default)]
pub(super) struct DropCounter {
    refusals: Arc<Refusals>,
    /// The socket of the receive queue, once it exists.
    socket: OnceLock<OwnedFd>,
    queue_full: AtomicU64,
}

impl DropCounter {
    /// Counts the drops of the receive queue with this socket. Returns the counters of the queue itself.
    pub(super) fn watch(&self, socket: &OwnedFd) -> io::Result<Arc<Refusals>> {
        // A port has only one receive queue, so this sets the socket once.
        let _ = self.socket.set(socket.try_clone()?);
        Ok(Arc::clone(&self.refusals))
    }

    /// Returns the number of VLAN tags of received frames.
    pub(super) fn tags(&self) -> u64 {
        self.refusals.tags.load(Ordering::Relaxed)
    }

    /// Returns all drops so far.
    pub(super) fn read(&self) -> PacketRxDrops {
        // The kernel's counter restarts with each reading.
        let more = self.socket.get().map_or(0, take_kernel_drops);
        PacketRxDrops {
            queue_full: self.queue_full.fetch_add(more, Ordering::Relaxed) + more,
            truncated: self.refusals.truncated.load(Ordering::Relaxed),
            unsupported: self.refusals.unsupported.load(Ordering::Relaxed),
        }
    }
}

/// Returns the frames that the kernel dropped since the last call (packet(7), `PACKET_STATISTICS`).
fn take_kernel_drops(socket: &OwnedFd) -> u64 {
    let mut statistics = libc::tpacket_stats { tp_packets: 0, tp_drops: 0 };
    let mut length = size_of::<libc::tpacket_stats>() as libc::socklen_t;
    // SAFETY: getsockopt() writes at most `length` bytes to a local of that size that lives until it returns.
    let rc = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_PACKET,
            libc::PACKET_STATISTICS,
            (&raw mut statistics).cast(),
            &raw mut length,
        )
    };
    if rc < 0 { 0 } else { u64::from(statistics.tp_drops) }
}
