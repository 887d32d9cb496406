//! Translation state frozen while a packet recirculates.
//!
//! Equal states share a number, so that translating a packet again gives the same actions. A number lives
//! while some megaflow refers to it, and a while longer: packets may be on their way.

use crate::ids::BridgeId;
use base::{Instant, PortNo, RecircId, TableId};
use classifier::{PartedMap, Queue};
use flow::{Field, FlowKey, Wide};
use openflow::Action;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Everything that translation needs to continue.
#[derive(Clone, PartialEq, Debug)]
pub struct Frozen {
    /// The bridge to continue in.
    pub bridge: BridgeId,
    /// The table to continue in.
    pub table: TableId,
    /// The datapath port of the packet's arrival.
    pub device: PortNo,
    /// Registers, metadata, the tunnel, the packet type and the bridge's in-port; all other fields are zero.
    pub pipeline: FlowKey,
    /// The stack.
    pub stack: Vec<Wide>,
    /// The action set.
    pub action_set: Vec<Action>,
    /// Whether the connection-tracking fields are visible.
    pub conntracked: bool,
    /// Mirrors that have copied the packet, by bit.
    pub mirrored: u32,
    /// The remaining actions, done instead of a lookup in the table.
    pub rest: Vec<Rest>,
    /// Userdata for the controller.
    pub userdata: Vec<u8>,
}

/// The remaining actions of a flow.
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
    /// The part of a key that is frozen (ovs: `ofproto/ofproto-dpif-rid.h`, `frozen_metadata`).
    pub fn pipeline_of(key: &FlowKey) -> FlowKey {
        let mut out = FlowKey::new();
        out.set_in_port_raw(key.in_port_raw());
        out.copy_tunnel(key);
        out.set(Field::PacketType, key.get(Field::PacketType));
        for &field in Field::BASIC.iter().filter(|field| field.is_pipeline()) {
            out.set(field, key.get(field));
        }
        out
    }

    /// Restores the frozen fields in a key.
    pub fn restore(&self, key: &mut FlowKey) {
        key.set_in_port_raw(self.pipeline.in_port_raw());
        key.copy_tunnel(&self.pipeline);
        key.set(Field::PacketType, self.pipeline.get(Field::PacketType));
        for &field in Field::BASIC.iter().filter(|field| field.is_pipeline()) {
            key.set(field, self.pipeline.get(field));
        }
    }

    /// A hash of the state.
    fn hash(&self) -> u64 {
        use std::hash::{Hash, Hasher};
        let mut hasher = std::hash::DefaultHasher::new();
        (self.bridge, self.table, self.device, &self.pipeline).hash(&mut hasher);
        (&self.stack, self.action_set.len(), self.conntracked, self.mirrored, &self.userdata)
            .hash(&mut hasher);
        self.rest.iter().for_each(|it| (it.table, it.cookie, it.actions.len()).hash(&mut hasher));
        hasher.finish()
    }
}

#[derive(Debug)]
struct Entry {
    state: Arc<Frozen>,
    hash: u64,
    /// How many [`Links`](crate::links::Links) refer to it.
    refs: usize,
    /// When it was last used by a translation or released.
    touched: Instant,
    /// Whether it is in the queue of expiring states.
    lingers: bool,
    /// Whether a megaflow ever referred to it.
    was_held: bool,
}

/// Frozen states by number, and numbers by state. Translation allocates and reads numbers through shared
/// references; the thread that installs the megaflows counts their uses.
#[derive(Debug, Default)]
pub struct RecircTable {
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    by_id: PartedMap<RecircId, Entry>,
    by_hash: PartedMap<u64, Vec<RecircId>>,
    /// Numbers without references when they were queued, each once, with the time of the last use.
    lingering: Queue<(Instant, RecircId)>,
    /// How many states were never referred to by a megaflow.
    unheld: usize,
    last: u32,
}

/// How long an unreferenced number is kept.
const LINGER: Duration = Duration::from_secs(10);
/// The same when states arrive faster than megaflows are installed. Packets on their way and handlers'
/// answers need less.
const CROWDED_LINGER: Duration = Duration::from_secs(2);
/// Maximum number of states that no megaflow has referred to yet. Misses without megaflows, as above the flow
/// limit, create them without any other bound; the flow limit bounds the states of megaflows.
const UNHELD_MAX: usize = 256 * 1024;
/// Numbers examined at once.
const SWEPT_AT_ONCE: usize = 1024;

impl RecircTable {
    /// The state's number; `None` if it is new and too many unreferenced states exist.
    pub fn intern(&self, now: Instant, state: Frozen) -> Option<RecircId> {
        let hash = state.hash();
        let mut table = self.lock();
        let Table { by_id, by_hash, .. } = &mut *table;
        let same = by_hash.get(&hash).into_iter().flatten();
        for id in same {
            if let Some(entry) = by_id.get_mut(id)
                && *entry.state == state
            {
                entry.touched = now;
                return Some(*id);
            }
        }
        if table.unheld >= UNHELD_MAX {
            return None;
        }
        let id = table.free_id();
        table.by_hash.or_default(hash).push(id);
        let state = Arc::new(state);
        let (refs, touched, lingers, was_held) = (0, now, true, false);
        table.by_id.insert(id, Entry { state, hash, refs, touched, lingers, was_held });
        table.lingering.push((now, id));
        table.unheld += 1;
        Some(id)
    }

    /// The state of this number.
    pub fn get(&self, id: RecircId) -> Option<Arc<Frozen>> {
        self.lock().by_id.get(&id).map(|entry| entry.state.clone())
    }

    /// Megaflows refer to the state.
    pub fn hold(&self, id: RecircId) {
        let Table { by_id, unheld, .. } = &mut *self.lock();
        if let Some(entry) = by_id.get_mut(&id) {
            entry.refs += 1;
            if !std::mem::replace(&mut entry.was_held, true) {
                *unheld -= 1;
            }
        }
    }

    /// Megaflows that referred to the state are gone.
    pub fn release(&self, now: Instant, id: RecircId) {
        let mut table = self.lock();
        let Table { by_id, lingering, .. } = &mut *table;
        if let Some(entry) = by_id.get_mut(&id) {
            entry.refs = entry.refs.saturating_sub(1);
            entry.touched = now;
            if entry.refs == 0 && !std::mem::replace(&mut entry.lingers, true) {
                lingering.push((now, id));
            }
        }
    }

    /// Removes states that were unused for long, examining a bounded number. Returns whether there are more
    /// to examine.
    pub fn sweep(&self, now: Instant) -> bool {
        let mut table = self.lock();
        let linger = if table.unheld > UNHELD_MAX / 2 { CROWDED_LINGER } else { LINGER };
        let Table { by_id, by_hash, lingering, unheld, .. } = &mut *table;
        let is_due = |(at, _): &&(Instant, RecircId)| now - *at >= linger;
        for _ in 0..SWEPT_AT_ONCE {
            let Some(&(_, id)) = lingering.front().filter(is_due) else { return false };
            lingering.pop();
            let Some(entry) = by_id.get_mut(&id) else { continue };
            if entry.refs > 0 {
                entry.lingers = false;
            } else if now - entry.touched < linger {
                // The queue is then slightly out of order, which does no harm.
                lingering.push((entry.touched, id));
            } else {
                *unheld -= usize::from(!entry.was_held);
                if let Some(ids) = by_hash.get_mut(&entry.hash) {
                    ids.retain(|other| *other != id);
                    if ids.is_empty() {
                        by_hash.remove(&entry.hash);
                    }
                }
                by_id.remove(&id);
            }
        }
        lingering.front().is_some_and(|it| is_due(&it))
    }

    /// How many states there are.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.lock().by_id.len()
    }

    /// A thread that panicked while holding the lock left complete entries.
    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    fn free_id(&mut self) -> RecircId {
        loop {
            // 0 is the first pass, and the datapath reserves the highest number.
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
            mirrored: 0,
            rest: vec![],
            userdata: vec![],
        }
    }

    #[test]
    fn equal_states_share_a_number_until_nobody_names_it() {
        let table = RecircTable::default();
        let at = |s: u64| Instant::from_millis(s * 1000);
        let first = table.intern(at(1), state(1)).unwrap();
        assert_eq!(first, RecircId(1));
        assert_eq!(table.intern(at(1), state(2)), Some(RecircId(2)));
        assert_eq!(table.intern(at(1), state(1)), Some(first));
        table.hold(first);
        table.sweep(at(20));
        assert_eq!(table.len(), 1);
        assert_eq!(table.get(first).as_deref(), Some(&state(1)));
        table.release(at(20), first);
        table.sweep(at(25));
        assert_eq!(table.len(), 1);
        table.sweep(at(30));
        assert_eq!((table.len(), table.lock().by_hash.len()), (0, 0));
        assert_eq!(table.intern(at(31), state(1)), Some(RecircId(3)));
    }

    #[test]
    fn states_that_no_megaflow_names_do_not_grow_without_a_bound() {
        let table = RecircTable::default();
        let ms = Instant::from_millis;
        let numbered = |n: usize| Frozen { userdata: n.to_be_bytes().to_vec(), ..state(1) };
        let first = table.intern(ms(1000), numbered(0)).unwrap();
        table.hold(first);
        for n in 1..=UNHELD_MAX {
            assert!(table.intern(ms(1000), numbered(n)).is_some(), "{n}");
        }
        // Known states keep their numbers.
        assert_eq!(table.intern(ms(1000), numbered(UNHELD_MAX + 1)), None);
        assert!(table.intern(ms(1000), numbered(1)).is_some());
        assert!(!table.sweep(ms(2999)));
        // They expire earlier, and then there is room again.
        assert!(table.sweep(ms(3000)));
        assert!(table.intern(ms(3000), numbered(UNHELD_MAX + 1)).is_some());
        while table.sweep(ms(3000)) {}
        assert!(table.len() <= UNHELD_MAX / 2 + 2, "{}", table.len());
        while table.sweep(ms(13_000)) {}
        assert_eq!((table.len(), table.lock().unheld), (1, 0));
        assert!(table.get(first).is_some());
        table.release(ms(13_000), first);
        assert!(!table.sweep(ms(23_000)));
        assert_eq!(table.len(), 0);
    }
}
