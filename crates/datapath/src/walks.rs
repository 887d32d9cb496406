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
use hashbrown::HashTable;

/// Walks at a time.
const WALKS: usize = 1 << 16;

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
    pub slot: u32,
    pub generation: u32,
}

/// The way of packets through several flows.
pub(crate) struct Walk {
    pub passes: Passes,
    /// What is left to do once the packet's connection was followed.
    pub steps: Steps,
    /// When the flows were last looked at ([`Walks::is_good`]).
    checked: u64,
    generation: u32,
}

/// All walks of a worker.
pub(crate) struct Walks {
    slots: Vec<Walk>,
    index: HashTable<u32>,
    /// Where the next one goes when all places are taken.
    next: u32,
    seed: u64,
}

impl Walks {
    /// None yet. `seed` should be random.
    pub fn new(seed: u64) -> Self {
        Walks { slots: Vec::new(), index: HashTable::new(), next: 0, seed }
    }

    /// A walk, if it is still kept.
    #[inline]
    pub fn get(&self, id: WalkId) -> Option<&Walk> {
        self.slots.get(id.slot as usize).filter(|walk| walk.generation == id.generation)
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
        let Some(walk) = self.slots.get_mut(id.slot as usize) else { return false };
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
        let hash = hash(passes, self.seed);
        let slots = &mut self.slots;
        if let Some(&slot) = self.index.find(hash, |&slot| slots[slot as usize].passes == *passes) {
            let walk = &mut slots[slot as usize];
            walk.checked = epoch;
            return Some(WalkId { slot, generation: walk.generation });
        }
        let steps = steps(passes, flows)?;
        let mut walk = Walk { passes: passes.clone(), steps, checked: epoch, generation: 0 };
        let slot = if slots.len() < WALKS {
            slots.push(walk);
            slots.len() as u32 - 1
        } else {
            self.next = (self.next + 1) % WALKS as u32;
            let old = &mut slots[self.next as usize];
            walk.generation = old.generation.wrapping_add(1);
            let old = std::mem::replace(old, walk);
            let old_hash = self::hash(&old.passes, self.seed);
            if let Ok(entry) = self.index.find_entry(old_hash, |&slot| slot == self.next) {
                entry.remove();
            }
            self.next
        };
        let (slots, seed) = (&self.slots, self.seed);
        self.index
            .insert_unique(hash, slot, |&slot| self::hash(&slots[slot as usize].passes, seed));
        Some(WalkId { slot, generation: slots[slot as usize].generation })
    }
}

/// Versions alone tell lists of steps apart.
fn hash(passes: &Passes, seed: u64) -> u64 {
    passes.iter().fold(seed, |hash, hit| {
        (hash ^ hit.version).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29)
    })
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
