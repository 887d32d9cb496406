//! Copies of a packet's state while translation goes on elsewhere and then comes back. They lie on the heap,
//! because translation may nest 64 deep. Each is made in a frame of its own, which ends before the next level
//! begins.

use super::Context;
use flow::FlowKey;

impl Context<'_> {
    /// The packet's key.
    #[inline(never)]
    pub fn saved_key(&self) -> Box<FlowKey> {
        Box::new(self.key.clone())
    }

    /// The packet's key, and the key as the datapath has it.
    #[inline(never)]
    pub fn saved_keys(&self) -> Box<(FlowKey, FlowKey)> {
        Box::new((self.key.clone(), self.base.clone()))
    }
}
