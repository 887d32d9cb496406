//! Saved copies of a packet's state during nested actions. They are on the heap because translation may nest
//! 64 levels deep. Each is made in its own stack frame, which ends before the next level begins.

use super::Context;
use super::packet_type::HeaderChange;
use flow::{Action, FlowKey};

/// The state before nested actions whose changes do not persist: a bucket's, a clone's, another bridge's.
pub(crate) struct Aside {
    /// The number of datapath actions, and of [`super::packet_type::Shims::changes`].
    steps: usize,
    changes: u32,
    base: Box<FlowKey>,
    under_labels: [u64; 2],
}

impl Context<'_> {
    /// A copy of the packet's key.
    #[inline(never)]
    pub fn saved_key(&self) -> Box<FlowKey> {
        Box::new(self.key.clone())
    }

    /// Begins nested actions whose changes do not persist.
    #[inline(never)]
    pub fn begin_aside(&mut self) -> Aside {
        if self.shims.header_change != HeaderChange::Nothing {
            self.commit_packet_type();
        }
        let (steps, changes) = (self.actions.len(), self.shims.changes);
        let base = Box::new(self.base.clone());
        Aside { steps, changes, base, under_labels: self.shims.under_labels }
    }

    /// Ends them. If they added or removed a header irreversibly and more actions may follow, the datapath
    /// executes their actions on a clone.
    pub fn end_aside(&mut self, aside: Aside, last: bool) {
        self.shims.header_change = HeaderChange::Nothing;
        self.shims.nsh_metadata.clear();
        if self.shims.changes == aside.changes || last {
            return;
        }
        let steps: Vec<Action> = self.actions.drain(aside.steps..).collect();
        self.actions.push(Action::Clone(steps.into()));
        (*self.base, self.shims.under_labels) = (*aside.base, aside.under_labels);
        self.shims.changes = aside.changes;
    }

    /// Copies of the packet's key and of the datapath's.
    #[inline(never)]
    pub fn saved_keys(&self) -> Box<(FlowKey, FlowKey)> {
        Box::new((self.key.clone(), self.base.clone()))
    }
}
