//! Observes the processing of a batch, for traces and measurements: stages, runs of packets, steps.

use crate::step::Step;
use flow::TraceId;

/// The stages of a batch, in order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Stage {
    /// Reading headers.
    Parse,
    /// Cache lookups.
    Lookup,
    /// Connection tracking of cached packets.
    Connection,
    /// Counting and sending cached packets.
    Actions,
    /// The walk over the flow table for all other packets.
    Walk,
}

/// Receives events about a batch. The worker has no clock; an observer may have one. It is a type parameter
/// of the pipeline, so an empty observer costs nothing.
pub trait Observer {
    /// The stage ended, and the next begins.
    #[inline]
    fn stage_done(&mut self, _: Stage) {}

    /// The next packets of the batch hit the unified cache, or walk.
    #[inline]
    fn run(&mut self, _packets: usize, _is_hit: bool) {}

    /// A packet took a step. A trace passes in batches of one packet, so all steps belong to that packet and
    /// its copies.
    #[inline]
    fn note(&mut self, _: impl FnOnce() -> Step) {}

    /// The trace to record steps in. An upcall carries it along.
    #[inline]
    fn trace(&self) -> Option<TraceId> {
        None
    }
}

/// Observes nothing.
impl Observer for () {}
