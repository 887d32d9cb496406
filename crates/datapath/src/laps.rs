//! Where a batch's time goes, for whoever asks.

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

/// Is told when each stage of a batch is over. The worker has no clock; this may have one.
pub trait Laps {
    /// The stage is over, and the next begins.
    fn lap(&mut self, stage: Stage);
}

/// Nobody asks.
impl Laps for () {
    #[inline]
    fn lap(&mut self, _: Stage) {}
}
