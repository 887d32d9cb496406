//! State frozen while a packet goes round the datapath once more.
//!
//! The same state always has the same number, so that translating a packet again gives the same
//! steps. A number lives as long as some megaflow names it, and then a while: packets may be on
//! their way.

use crate::bridge::BridgeId;
use base::{Instant, PortNo, RecircId, TableId};
use flow::{Field, FlowKey};
use hashbrown::HashMap;
use openflow::Action;
use std::sync::Arc;
use std::time::Duration;

/// Everything that translation needs to go on where it stopped.
#[derive(Clone, PartialEq, Debug)]
pub struct Frozen {
    /// The bridge in which to go on.
    pub bridge: BridgeId,
    /// The table in which to go on.
    pub table: TableId,
    /// The datapath port that the packet came in on.
    pub device: PortNo,
    /// Registers, metadata, the tunnel and the bridge's in-port; the rest is zero.
    pub pipeline: FlowKey,
    /// The stack.
    pub stack: Vec<u128>,
    /// The action set.
    pub action_set: Vec<Action>,
    /// Whether what connection tracking says is to be seen.
    pub conntracked: bool,
    /// What is left of lists of actions, to be done in place of asking the table.
    pub rest: Vec<Rest>,
    /// Bytes for the controller.
    pub userdata: Vec<u8>,
}

/// Actions that were left of a flow's.
#[derive(Clone, PartialEq, Debug)]
pub struct Rest {
    /// The flow's table.
    pub table: TableId,
    /// Its cookie.
    pub cookie: u64,
    /// The actions.
    pub actions: Vec<Action>,
}

impl Frozen {
    /// What of a key is frozen with it (ovs: `ofproto/ofproto-dpif-rid.h`, `frozen_metadata`).
    pub fn pipeline_of(key: &FlowKey) -> FlowKey {
        let mut out = FlowKey::new();
        out.set_in_port_raw(key.in_port_raw());
        out.copy_tunnel(key);
        for &field in Field::BASIC.iter().filter(|field| field.is_pipeline()) {
            out.set(field, key.get(field));
        }
        out
    }

    /// Puts what was frozen back into a key.
    pub fn restore(&self, key: &mut FlowKey) {
        key.set_in_port_raw(self.pipeline.in_port_raw());
        key.copy_tunnel(&self.pipeline);
        for &field in Field::BASIC.iter().filter(|field| field.is_pipeline()) {
            key.set(field, self.pipeline.get(field));
        }
    }

    /// A number that equal states share.
    fn hash(&self) -> u64 {
        use std::hash::{Hash, Hasher};
        let mut hasher = std::hash::DefaultHasher::new();
        (self.bridge, self.table, self.device, &self.pipeline).hash(&mut hasher);
        (&self.stack, self.action_set.len(), self.conntracked, &self.userdata).hash(&mut hasher);
        self.rest.iter().for_each(|it| (it.table, it.cookie, it.actions.len()).hash(&mut hasher));
        hasher.finish()
    }
}

#[derive(Debug)]
struct Entry {
    state: Arc<Frozen>,
    hash: u64,
    /// How many megaflows name it.
    refs: usize,
    /// When it was last given out or given up.
    touched: Instant,
}

/// Frozen states by number, and numbers by state.
#[derive(Debug, Default)]
pub struct RecircTable {
    by_id: HashMap<RecircId, Entry>,
    by_hash: HashMap<u64, Vec<RecircId>>,
    last: u32,
    swept: Instant,
}

/// How long a number that no megaflow names is kept.
const LINGER: Duration = Duration::from_secs(10);
/// How often such numbers are looked for.
const SWEEP_EVERY: Duration = Duration::from_secs(1);

impl RecircTable {
    /// The state's number.
    pub fn intern(&mut self, now: Instant, state: Frozen) -> RecircId {
        let hash = state.hash();
        let same = self.by_hash.get(&hash).into_iter().flatten();
        for &id in same {
            if let Some(entry) = self.by_id.get_mut(&id)
                && *entry.state == state
            {
                entry.touched = now;
                return id;
            }
        }
        let id = self.free_id();
        self.by_hash.entry(hash).or_default().push(id);
        self.by_id.insert(id, Entry { state: Arc::new(state), hash, refs: 0, touched: now });
        id
    }

    /// The state of this number.
    pub fn get(&self, id: RecircId) -> Option<Arc<Frozen>> {
        self.by_id.get(&id).map(|entry| entry.state.clone())
    }

    /// A megaflow names it.
    pub fn hold(&mut self, id: RecircId) {
        if let Some(entry) = self.by_id.get_mut(&id) {
            entry.refs += 1;
        }
    }

    /// A megaflow that named it is gone.
    pub fn release(&mut self, now: Instant, id: RecircId) {
        if let Some(entry) = self.by_id.get_mut(&id) {
            entry.refs = entry.refs.saturating_sub(1);
            entry.touched = now;
        }
    }

    /// Forgets what is no longer named.
    pub fn sweep(&mut self, now: Instant) {
        if now - self.swept < SWEEP_EVERY {
            return;
        }
        self.swept = now;
        let by_hash = &mut self.by_hash;
        self.by_id.retain(|id, entry| {
            let keep = entry.refs > 0 || now - entry.touched < LINGER;
            if !keep && let Some(ids) = by_hash.get_mut(&entry.hash) {
                ids.retain(|other| other != id);
                if ids.is_empty() {
                    by_hash.remove(&entry.hash);
                }
            }
            keep
        });
    }

    /// How many states are kept.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    fn free_id(&mut self) -> RecircId {
        loop {
            // 0 is the first pass, and the datapath keeps the highest number to itself.
            self.last = if self.last >= u32::MAX - 1 { 1 } else { self.last + 1 };
            let id = RecircId(self.last);
            if !self.by_id.contains_key(&id) {
                return id;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(table: u8) -> Frozen {
        Frozen {
            bridge: BridgeId(1),
            table: TableId(table),
            device: PortNo(2),
            pipeline: FlowKey::new(),
            stack: vec![],
            action_set: vec![],
            conntracked: true,
            rest: vec![],
            userdata: vec![],
        }
    }

    #[test]
    fn equal_states_share_a_number_until_nobody_names_it() {
        let mut table = RecircTable::default();
        let at = |s: u64| Instant::from_millis(s * 1000);
        let first = table.intern(at(1), state(1));
        assert_eq!(first, RecircId(1));
        assert_eq!(table.intern(at(1), state(2)), RecircId(2));
        assert_eq!(table.intern(at(1), state(1)), first);
        table.hold(first);
        table.sweep(at(20));
        assert_eq!(table.len(), 1);
        assert_eq!(table.get(first).as_deref(), Some(&state(1)));
        table.release(at(20), first);
        table.sweep(at(25));
        assert_eq!(table.len(), 1);
        table.sweep(at(30));
        assert_eq!((table.len(), table.by_hash.len()), (0, 0));
        assert_eq!(table.intern(at(31), state(1)), RecircId(3));
    }
}
