//! Queues of ports.

use base::OfPort;

/// A queue of a port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QueueId {
    /// The port.
    pub port: OfPort,
    /// The queue's number at that port.
    pub queue: u32,
}

/// The statistics of a queue; `None` means "not counted".
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QueueStats {
    /// The queue.
    pub id: QueueId,
    /// Bytes, packets, and dropped packets.
    pub counters: [Option<u64>; 3],
    /// Time since its creation, in nanoseconds; not before OpenFlow 1.3.
    pub duration_ns: Option<u64>,
}

/// The queues of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QueueRequest {
    /// Their port; `NONE` means all.
    pub port: OfPort,
    /// Their number; `None` means all.
    pub queue: Option<u32>,
}
