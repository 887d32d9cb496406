//! Flow paths: the flows that a packet hits in consecutive passes, and the path's final actions.
//!
//! Most connections share a few flow paths. Each is kept once, and entries of the
//! [`UnifiedCache`](crate::unified::UnifiedCache) refer to it.

use crate::flow_kind::{FinalActions, FlowKind};
use crate::installed::InstalledFlow;
use arrayvec::ArrayVec;
use base::limits::RECIRC_DEPTH;
use classifier::{Handle, MegaflowTable};
use hashbrown::HashTable;

/// Maximum number of flow paths per worker.
const FLOW_PATHS: usize = 1 << 16;

/// A hit flow, and the version of its actions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Hit {
    pub flow: Handle,
    pub version: u64,
}

/// The flows that a packet hit, in order.
pub(crate) type Passes = ArrayVec<Hit, RECIRC_DEPTH>;

/// Refers to a flow path while it is kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FlowPathRef {
    pub slot: u32,
    pub generation: u32,
}

/// The flows that packets hit, and the actions that end the path.
pub(crate) struct FlowPath {
    pub passes: Passes,
    /// The actions after the last `ct`.
    pub final_actions: FinalActions,
    /// The epoch in which the flows were last checked ([`FlowPaths::is_current`]).
    checked: u64,
    generation: u32,
}

/// The flow paths of a worker.
pub(crate) struct FlowPaths {
    slots: Vec<FlowPath>,
    index: HashTable<u32>,
    /// The slot to replace next when all are in use.
    next: u32,
    seed: u64,
}

impl FlowPaths {
    /// No flow paths. `seed` should be random.
    pub fn new(seed: u64) -> Self {
        FlowPaths { slots: Vec::new(), index: HashTable::new(), next: 0, seed }
    }

    /// A flow path, if it is still kept.
    #[inline]
    pub fn get(&self, id: FlowPathRef) -> Option<&FlowPath> {
        self.slots.get(id.slot as usize).filter(|path| path.generation == id.generation)
    }

    /// Whether all flows of a path are still installed with the same actions. `epoch` changes with every
    /// change of a flow; the flows are checked once per epoch.
    #[inline]
    pub fn is_current(
        &mut self,
        id: FlowPathRef,
        epoch: u64,
        flows: &MegaflowTable<InstalledFlow>,
    ) -> bool {
        let Some(path) = self.slots.get_mut(id.slot as usize) else { return false };
        if path.generation != id.generation {
            return false;
        }
        if path.checked != epoch {
            if !path.passes.iter().all(|hit| is_current(hit, flows)) {
                return false;
            }
            path.checked = epoch;
        }
        true
    }

    /// The path of these flows, which must be current. `None` if it cannot be cached: an action other than
    /// `ct` and `recirc` precedes the last `ct`, or an action depends on more than headers and connection.
    pub fn intern(
        &mut self,
        passes: &Passes,
        epoch: u64,
        flows: &MegaflowTable<InstalledFlow>,
    ) -> Option<FlowPathRef> {
        let hash = hash(passes, self.seed);
        let slots = &mut self.slots;
        if let Some(&slot) = self.index.find(hash, |&slot| slots[slot as usize].passes == *passes) {
            let path = &mut slots[slot as usize];
            path.checked = epoch;
            return Some(FlowPathRef { slot, generation: path.generation });
        }
        let final_actions = final_actions(passes, flows)?;
        let mut path =
            FlowPath { passes: passes.clone(), final_actions, checked: epoch, generation: 0 };
        let slot = if slots.len() < FLOW_PATHS {
            slots.push(path);
            slots.len() as u32 - 1
        } else {
            self.next = (self.next + 1) % FLOW_PATHS as u32;
            let old = &mut slots[self.next as usize];
            path.generation = old.generation.wrapping_add(1);
            let old = std::mem::replace(old, path);
            let old_hash = self::hash(&old.passes, self.seed);
            if let Ok(entry) = self.index.find_entry(old_hash, |&slot| slot == self.next) {
                entry.remove();
            }
            self.next
        };
        let (slots, seed) = (&self.slots, self.seed);
        self.index
            .insert_unique(hash, slot, |&slot| self::hash(&slots[slot as usize].passes, seed));
        Some(FlowPathRef { slot, generation: slots[slot as usize].generation })
    }
}

/// Versions are unique per list of actions.
fn hash(passes: &Passes, seed: u64) -> u64 {
    passes.iter().fold(seed, |hash, hit| {
        (hash ^ hit.version).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29)
    })
}

fn is_current(hit: &Hit, flows: &MegaflowTable<InstalledFlow>) -> bool {
    flows.get(hit.flow).is_some_and(|flow| flow.version == hit.version)
}

/// The final actions of a path: those of its last flow. All earlier flows consist of `ct` and `recirc`; the
/// first may decapsulate.
fn final_actions(passes: &Passes, flows: &MegaflowTable<InstalledFlow>) -> Option<FinalActions> {
    let (last, before) = passes.split_last()?;
    let goes_on = |(at, hit): (usize, &Hit)| match flows.get(hit.flow).map(|it| &it.kind) {
        Some(FlowKind::Recirculates) => true,
        Some(FlowKind::Decapsulates) => at == 0,
        _ => false,
    };
    match &flows.get(last.flow)?.kind {
        FlowKind::Terminal(final_actions) if before.iter().enumerate().all(goes_on) => {
            Some(final_actions.clone())
        }
        _ => None,
    }
}
