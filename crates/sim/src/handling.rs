//! Handlers, which answer misses from a snapshot of the tables in parallel with the control side.

use base::Instant;
use datapath::UpcallQueue;
use flow::{FlowCommand, Upcall};
use ofproto::{After, Handler};

/// A handler. It works in two steps: it translates without a lock, and installs under one.
pub struct Handling {
    number: u16,
    handler: Handler,
    /// The version of the rules by which it translated its answers; `None` if it has no answers.
    pub version: Option<usize>,
    taken: Vec<Upcall>,
}

impl Handling {
    pub fn new(number: u16, handler: Handler) -> Handling {
        Handling { number, handler, version: None, taken: Vec::new() }
    }

    /// Translates misses by the rules of this version, unless it has answers that are not installed yet.
    /// Returns the misses that only the control side may answer.
    pub fn translate(
        &mut self,
        now: Instant,
        most: usize,
        upcalls: &UpcallQueue,
        version: usize,
        mut is_lost: impl FnMut() -> bool,
    ) -> Vec<Upcall> {
        if self.handler.is_to_wait() {
            return Vec::new();
        }
        upcalls.pop_for(self.number, most, &mut self.taken);
        if !self.taken.is_empty() {
            self.version.get_or_insert(version);
        }
        let mut refused = Vec::new();
        for upcall in self.taken.drain(..) {
            if !is_lost() {
                refused.extend(self.handler.translate(now, upcall, None));
            }
        }
        refused
    }

    /// Installs the flows of all answers. Passes the commands for workers to `send`.
    pub fn install(
        &mut self,
        now: Instant,
        send: impl FnOnce(&mut Vec<(base::WorkerId, FlowCommand)>),
    ) -> After {
        self.version = None;
        self.handler.install(now, send)
    }

    /// Returns whether misses are queued for it that may be answered now.
    pub fn has_misses(&self, upcalls: &UpcallQueue) -> bool {
        !upcalls.is_empty_for(self.number) && !self.handler.is_to_wait()
    }

    /// Returns whether it has no answers and no misses are queued for it.
    pub fn is_idle(&self, upcalls: &UpcallQueue) -> bool {
        self.version.is_none() && upcalls.is_empty_for(self.number)
    }
}
