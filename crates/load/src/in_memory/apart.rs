//! Separate steps of the switch's worker and handler, for callers that time each of them.

use super::{Cable, Switch};
use base::{Instant, WorkerId};
use flow::{FlowCommand, Upcall};
use ofproto::Handler;
use port::PortError;

impl Switch {
    /// The worker receives a batch on a port and sends what it can; misses wait for [`Self::take_upcalls`].
    /// Returns the number of packets received.
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

    /// The worker carries out a handler's command.
    pub fn carry_out(&mut self, now: Instant, command: FlowCommand, cables: &mut [Cable]) {
        self.worker.command(now, command, &mut self.out);
        self.send(cables);
    }

    /// Takes up to `most` upcalls for a handler, numbered from 0.
    pub fn take_upcalls(&mut self, handler: u16, most: usize, upcalls: &mut Vec<Upcall>) {
        self.upcalls.pop_for(handler, most, upcalls);
    }

    /// Takes up to `most` upcalls for the owner of the tables.
    pub fn take_own_upcalls(&mut self, most: usize, upcalls: &mut Vec<Upcall>) {
        self.upcalls.pop(most, upcalls);
    }

    /// Returns whether upcalls wait for a handler.
    pub fn has_upcalls(&self, handler: u16) -> bool {
        !self.upcalls.is_empty_for(handler)
    }

    /// Returns a handler with the current snapshot.
    pub fn handler(&mut self) -> Handler {
        self.core.publish();
        self.core.handler()
    }

    /// The owner of the tables applies what handlers left to it, publishes a snapshot, and revalidates flows.
    /// Returns the resulting commands for workers.
    pub fn catch_up(&mut self, now: Instant) -> Vec<(WorkerId, FlowCommand)> {
        self.core.apply_credits(now);
        self.core.revalidate(now, &mut self.orders);
        std::mem::take(&mut self.orders.commands)
    }

    /// The owner of the tables answers an upcall that a handler could not. Returns the commands for workers.
    pub fn translate(&mut self, now: Instant, upcall: Upcall) -> Vec<(WorkerId, FlowCommand)> {
        self.core.upcall(now, upcall, &mut self.orders);
        std::mem::take(&mut self.orders.commands)
    }
}
