//! Where receive queues are polled.

use super::worker_ports::RxSlot;
use base::{PortNo, WorkerId};
use control::{Isolation, RxqAssign};

/// A receive queue of an open port, as seen by the control thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RxqPlace {
    /// The worker that polls it, if any.
    pub worker: Option<WorkerId>,
    /// The processor to which it is pinned.
    pub pinned: Option<u16>,
}

/// The assignment algorithm, and the queues that no worker polls.
#[derive(Default)]
pub struct Rxqs {
    pub way: RxqAssign,
    pub isolation: Isolation,
    /// Whether each worker is isolated: it polls only pinned queues.
    pub isolated: Vec<bool>,
    pub idle: Vec<RxSlot>,
}

impl Rxqs {
    /// Whether a worker polls only pinned queues.
    pub fn is_isolated(&self, worker: WorkerId) -> bool {
        self.isolated.get(usize::from(worker.0)).copied().unwrap_or(false)
    }

    /// Closes the queues of a port that no worker polls.
    pub fn forget(&mut self, port: PortNo) {
        self.idle.retain(|slot| slot.port != port);
    }
}
