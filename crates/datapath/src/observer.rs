//! What a worker does with a batch, for traces and for measuring: stages, runs of packets, steps.

use crate::step::Step;
use flow::TraceId;

/// What a worker does with a batch, in this order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Stage {
    /// Reading headers.
    Parse,
    /// Looking up what is known of the packets.
    Lookup,
    /// Following known packets of known connections.
    Connection,
    /// Counting and sending known packets.
    Actions,
    /// The whole walk over the tables, for the others.
    Walk,
}

/// Is told what becomes of a batch. The worker has no clock; an observer may have one. It is a parameter
/// of the pipeline's type, so that an observer that does nothing costs nothing.
pub trait Observer {
    /// The stage is over, and the next begins.
    #[inline]
    fn stage_done(&mut self, _: Stage) {}

    /// The next packets of the batch hit the unified cache, or walk.
    #[inline]
    fn run(&mut self, _packets: usize, _is_hit: bool) {}

    /// A packet took a step. A trace hands in batches of one packet, so that all
    /// of them are of that packet and its copies.
    #[inline]
    fn note(&mut self, _: impl FnOnce() -> Step) {}

    /// Where steps are written down. A packet that goes up to the control side takes it along.
    #[inline]
    fn trace(&self) -> Option<TraceId> {
        None
    }
}

/// Nothing is asked for.
impl Observer for () {}
