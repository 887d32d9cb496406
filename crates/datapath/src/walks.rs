//! Walks: which flows packets go through one after the other, and what is done with them in the
//! end.
//!
//! Most connections share a few walks, so that each is kept once, and entries of the
//! [`UnifiedCache`](crate::unified::UnifiedCache) name it.

use crate::manner::{Manner, Steps};
use crate::worker::InstalledFlow;
use arrayvec::ArrayVec;
use base::limits::RECIRC_DEPTH;
use classifier::{Handle, MegaflowTable};

/// Walks at a time.
const WALKS: usize = 4096;

/// A flow that was hit, and which of its lists of steps was carried out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Hit {
    pub flow: Handle,
    pub version: u64,
}

/// The flows that a packet hit, in order.
pub(crate) type Passes = ArrayVec<Hit, RECIRC_DEPTH>;

/// Names a walk for as long as it is kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct WalkId {
    slot: u16,
    generation: u16,
}

/// The way of packets through several flows.
pub(crate) struct Walk {
    pub passes: Passes,
    /// What is left to do once the packet's connection was followed.
    pub steps: Steps,
    /// When the flows were last looked at ([`Walks::is_good`]).
    checked: u64,
    generation: u16,
}

/// All walks of a worker.
#[derive(Default)]
pub(crate) struct Walks {
    slots: Vec<Walk>,
    /// Where the next one goes that pushes another out.
    next: usize,
}

impl Walks {
    /// A walk, if it is still kept.
    #[inline]
    pub fn get(&self, id: WalkId) -> Option<&Walk> {
        self.slots.get(usize::from(id.slot)).filter(|walk| walk.generation == id.generation)
    }

    /// Whether a walk's flows are still those that its packets would go through. `epoch` changes
    /// whenever any flow does; only then the flows are looked at.
    #[inline]
    pub fn is_good(
        &mut self,
        id: WalkId,
        epoch: u64,
        flows: &MegaflowTable<InstalledFlow>,
    ) -> bool {
        let Some(walk) = self.slots.get_mut(usize::from(id.slot)) else { return false };
        if walk.generation != id.generation {
            return false;
        }
        if walk.checked != epoch {
            if !walk.passes.iter().all(|hit| is_current(hit, flows)) {
                return false;
            }
            walk.checked = epoch;
        }
        true
    }

    /// The walk through these flows, which are as they were hit. `None` where a packet's way
    /// through them cannot be remembered: something happens before or between visits to connection
    /// tracking, or what happens hangs on more than headers and connection.
    pub fn intern(
        &mut self,
        passes: &Passes,
        epoch: u64,
        flows: &MegaflowTable<InstalledFlow>,
    ) -> Option<WalkId> {
        if let Some(slot) = self.slots.iter().position(|walk| walk.passes == *passes) {
            self.slots[slot].checked = epoch;
            return Some(WalkId { slot: slot as u16, generation: self.slots[slot].generation });
        }
        let steps = steps(passes, flows)?;
        let mut walk = Walk { passes: passes.clone(), steps, checked: epoch, generation: 0 };
        let gone = self
            .slots
            .iter()
            .position(|walk| !walk.passes.iter().all(|hit| is_current(hit, flows)));
        let slot = match gone {
            None if self.slots.len() < WALKS => {
                self.slots.push(walk);
                return Some(WalkId { slot: (self.slots.len() - 1) as u16, generation: 0 });
            }
            None => {
                self.next = (self.next + 1) % WALKS;
                self.next
            }
            Some(slot) => slot,
        };
        walk.generation = self.slots[slot].generation.wrapping_add(1);
        let id = WalkId { slot: slot as u16, generation: walk.generation };
        self.slots[slot] = walk;
        Some(id)
    }
}

fn is_current(hit: &Hit, flows: &MegaflowTable<InstalledFlow>) -> bool {
    flows.get(hit.flow).is_some_and(|flow| flow.version == hit.version)
}

/// The steps after connection tracking: those of the last flow. All before it do nothing but track
/// and send round.
fn steps(passes: &Passes, flows: &MegaflowTable<InstalledFlow>) -> Option<Steps> {
    let (last, before) = passes.split_last()?;
    let goes_on = |hit: &Hit| flows.get(hit.flow).is_some_and(|it| it.manner == Manner::GoesOn);
    match &flows.get(last.flow)?.manner {
        Manner::Ends(steps) if before.iter().all(goes_on) => Some(steps.clone()),
        _ => None,
    }
}
