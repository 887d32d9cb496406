//! The switch's worker and its handler one by one, for a caller that gives each a time of its own.

use super::{Cable, Switch};
use base::{Instant, WorkerId};
use flow::{FlowCommand, Upcall};
use ofproto::Handler;
use port::PortError;

impl Switch {
    /// The worker receives a batch on a port and sends what it can; what it does not know waits for
    /// [`Self::take_upcalls`]. Gives how many packets came.
    pub fn work(
        &mut self,
        now: Instant,
        cables: &mut [Cable],
        port: usize,
    ) -> Result<usize, PortError> {
        let received = self.receive(now, cables, port)?;
        self.out.wake_control = false;
        self.send(cables);
        Ok(received)
    }

    /// The worker carries out what a handler answered.
    pub fn carry_out(&mut self, now: Instant, command: FlowCommand, cables: &mut [Cable]) {
        self.worker.command(now, command, &mut self.out);
        self.send(cables);
    }

    /// A handler, counted from 0, takes so many upcalls at most.
    pub fn take_upcalls(&mut self, handler: u16, most: usize, upcalls: &mut Vec<Upcall>) {
        self.upcalls.pop_for(handler, most, upcalls);
    }

    /// The owner of the tables takes so many of its own.
    pub fn take_own_upcalls(&mut self, most: usize, upcalls: &mut Vec<Upcall>) {
        self.upcalls.pop(most, upcalls);
    }

    /// Whether upcalls wait for a handler.
    pub fn has_upcalls(&self, handler: u16) -> bool {
        !self.upcalls.is_empty_for(handler)
    }

    /// What answers misses beside the owner of the tables.
    pub fn handler(&mut self) -> Handler {
        self.core.publish();
        self.core.handler()
    }

    /// The owner applies what handlers left to it, has them see it, and looks at the flows that are to be
    /// looked at again; these are the commands that it takes.
    pub fn catch_up(&mut self, now: Instant) -> Vec<(WorkerId, FlowCommand)> {
        self.core.apply_credits(now);
        self.core.revalidate(now, &mut self.orders);
        std::mem::take(&mut self.orders.commands)
    }

    /// A handler could not answer it: the owner does.
    pub fn translate(&mut self, now: Instant, upcall: Upcall) -> Vec<(WorkerId, FlowCommand)> {
        self.core.upcall(now, upcall, &mut self.orders);
        std::mem::take(&mut self.orders.commands)
    }
}
