//! Queues of ports.

use base::OfPort;

/// A queue of a port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QueueId {
    /// The port.
    pub port: OfPort,
    /// The queue's number there.
    pub queue: u32,
}

/// What a queue has sent; `None` is "not counted".
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QueueStats {
    /// Which queue.
    pub id: QueueId,
    /// Bytes, packets, and packets that were dropped.
    pub counters: [Option<u64>; 3],
    /// How long it exists, in nanoseconds; not told before OpenFlow 1.3.
    pub duration_ns: Option<u64>,
}

/// Which queues a request asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QueueRequest {
    /// Of this port; `NONE` is all.
    pub port: OfPort,
    /// This one; `None` is all.
    pub queue: Option<u32>,
}
