//! Copies of a packet's state while translation goes on elsewhere and then comes back. They lie on the heap,
//! because translation may nest 64 deep. Each is made in a frame of its own, which ends before the next level
//! begins.

use super::Context;
use super::packet_type::HeaderChange;
use flow::{Action, FlowKey};

/// The datapath's packet before actions whose changes do not come back: a bucket's, a clone's, another bridge's.
pub(crate) struct Aside {
    /// The number of steps then, and that of [`super::packet_type::Shims::changes`].
    steps: usize,
    changes: u32,
    base: Box<FlowKey>,
    under_labels: [u64; 2],
}

impl Context<'_> {
    /// The packet's key.
    #[inline(never)]
    pub fn saved_key(&self) -> Box<FlowKey> {
        Box::new(self.key.clone())
    }

    /// Begins actions whose changes do not come back.
    #[inline(never)]
    pub fn begin_aside(&mut self) -> Aside {
        if self.shims.header_change != HeaderChange::Nothing {
            self.commit_packet_type();
        }
        let (steps, changes) = (self.actions.len(), self.shims.changes);
        let base = Box::new(self.base.clone());
        Aside { steps, changes, base, under_labels: self.shims.under_labels }
    }

    /// Ends them. Where they added or removed a header that cannot be taken back and more actions may follow, the
    /// datapath carries their steps out on a copy of the packet.
    pub fn end_aside(&mut self, aside: Aside, last: bool) {
        self.shims.header_change = HeaderChange::Nothing;
        self.shims.nsh_metadata.clear();
        if self.shims.changes == aside.changes || last {
            return;
        }
        let steps: Vec<Action> = self.actions.drain(aside.steps..).collect();
        self.actions.push(Action::Clone(steps.into()));
        (self.base, self.shims.under_labels) = (*aside.base, aside.under_labels);
        self.shims.changes = aside.changes;
    }

    /// The packet's key, and the key as the datapath has it.
    #[inline(never)]
    pub fn saved_keys(&self) -> Box<(FlowKey, FlowKey)> {
        Box::new((self.key.clone(), self.base.clone()))
    }
}
