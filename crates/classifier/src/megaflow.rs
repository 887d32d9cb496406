//! The datapath's flows: a packet matches at most one, so a lookup ends with the first hit.

mod rows;

use self::rows::Subtable;
use crate::layout::hash_mask;
use crate::slab::{Handle, Slab};
use flow::{FlowKey, Mask, Match};
use hashbrown::HashTable;

/// The number of hints, which [`hint_of`] chooses from: enough for a few ports and passes at a
/// time.
const HINTS: usize = 32;

/// Masked flows that do not overlap, each with a value `V`, owned by one worker.
///
/// A flow is named by a [`Handle`], which finds nothing once the flow is removed; an
/// [`ExactCache`](crate::ExactCache) stores handles. The caller ensures that flows do not overlap
/// (they come from the masks of one set of tables); of flows that overlap, a lookup returns any.
///
/// Lookups visit subtables in the order of their hits up to the last [`Self::resort`], which the
/// worker calls about once per second (ovs: `lib/dpif-netdev.c`, `dpcls_sort_subtable_vector`).
#[derive(Clone, Debug)]
pub struct MegaflowTable<V> {
    subtables: Slab<Subtable>,
    by_mask: HashTable<Handle>,
    /// The subtable of the last insertion: one flow often has the mask of the one before it.
    last: Option<Handle>,
    order: Vec<Handle>,
    flows: Slab<Flow<V>>,
    /// The subtable and row of the last hit for packets of the same port, pass and connection
    /// state, most of which match one flow.
    hints: [Option<(Handle, u32)>; HINTS],
    seed: u64,
    counts: LookupCounts,
}

/// The accumulated cost of lookups.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct LookupCounts {
    /// The number of packets that matched a flow.
    pub hits: u64,
    /// The number of packets that matched no flow.
    pub misses: u64,
    /// The number of subtables visited for all these packets.
    pub subtables_visited: u64,
}

#[derive(Clone, Debug)]
struct Flow<V> {
    /// The place of its subtable, which stays as long as it has flows.
    subtable: u32,
    row: u32,
    value: V,
}

impl<V> MegaflowTable<V> {
    /// A table without flows. `seed` must be random: packets cause flows, and a sender must not be
    /// able to choose flows whose hashes collide.
    pub fn new(seed: u64) -> Self {
        MegaflowTable {
            subtables: Slab::default(),
            by_mask: HashTable::new(),
            last: None,
            order: Vec::new(),
            flows: Slab::default(),
            hints: [None; HINTS],
            seed,
            counts: LookupCounts::default(),
        }
    }

    /// The number of flows.
    pub fn len(&self) -> usize {
        self.flows.len()
    }

    /// Whether the table has no flows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds a flow. If there is one with the same match, its value is replaced and returned, and
    /// its handle stays valid.
    pub fn insert(&mut self, matching: &Match, value: V) -> (Handle, Option<V>) {
        self.put(matching.key(), matching.mask(), value)
    }

    /// [`Self::insert`] of a flow for packets that agree with `key` in the bits of `mask`.
    pub fn put(&mut self, key: &FlowKey, mask: &Mask, value: V) -> (Handle, Option<V>) {
        let place = self.subtable_for(mask);
        let subtable = self.subtables.get(place);
        let hash = subtable.map_or(0, |it| it.layout.hash(key, self.seed));
        if let Some(handle) = subtable.and_then(|it| it.find(key, hash))
            && let Some(flow) = self.flows.get_mut(handle)
        {
            return (handle, Some(std::mem::replace(&mut flow.value, value)));
        }
        let subtable = place.index() as u32;
        let handle = self.flows.insert(Flow { subtable, row: 0, value });
        if let (Some(subtable), Some(flow)) =
            (self.subtables.get_mut(place), self.flows.get_mut(handle))
        {
            flow.row = subtable.insert(key, handle, hash);
        }
        (handle, None)
    }

    /// Takes out the flow with exactly this match.
    pub fn remove(&mut self, matching: &Match) -> Option<V> {
        self.remove_handle(self.find(matching)?)
    }

    /// Takes out a flow.
    pub fn remove_handle(&mut self, handle: Handle) -> Option<V> {
        let flow = self.flows.remove(handle)?;
        let place = flow.subtable as usize;
        if let Some(subtable) = self.subtables.at_mut(place) {
            let moved = subtable.remove(flow.row, self.seed);
            if subtable.len() == 0 {
                self.drop_subtable(place);
            } else if let Some(moved) = moved.and_then(|moved| self.flows.get_mut(moved)) {
                moved.row = flow.row;
            }
        }
        Some(flow.value)
    }

    /// The flow with exactly this match.
    pub fn find(&self, matching: &Match) -> Option<Handle> {
        let subtable = self.subtables.get(self.find_subtable(matching.mask())?)?;
        subtable.find(matching.key(), subtable.layout.hash(matching.key(), self.seed))
    }

    /// The value of a flow, `None` if the flow is gone.
    #[inline]
    pub fn get(&self, handle: Handle) -> Option<&V> {
        Some(&self.flows.get(handle)?.value)
    }

    /// The value of a flow, to be changed.
    #[inline]
    pub fn get_mut(&mut self, handle: Handle) -> Option<&mut V> {
        Some(&mut self.flows.get_mut(handle)?.value)
    }

    /// The value of the flow in a place ([`Handle::index`]), if there is one.
    pub fn at(&self, place: usize) -> Option<&V> {
        Some(&self.flows.at(place)?.value)
    }

    /// The handle of the flow in a place.
    pub fn handle_at(&self, place: usize) -> Option<Handle> {
        self.flows.handle_at(place)
    }

    /// The match of a flow, `None` if the flow is gone.
    pub fn matching(&self, handle: Handle) -> Option<Match> {
        let flow = self.flows.get(handle)?;
        let subtable = self.subtables.at(flow.subtable as usize)?;
        Some(subtable.layout.unpack(subtable.words(flow.row)?))
    }

    /// The mask of a flow, `None` if the flow is gone.
    pub fn mask(&self, handle: Handle) -> Option<&Mask> {
        Some(&self.subtables.at(self.flows.get(handle)?.subtable as usize)?.mask)
    }

    /// The flow that the packet matches.
    pub fn lookup(&mut self, key: &FlowKey) -> Option<Handle> {
        let (subtable, row) = self.place_of(key)?;
        self.subtables.get(subtable)?.flow(row)
    }

    /// Returns the flow that the first packet matches, and the number of packets in a row that
    /// match it, the first included. Each counts as one lookup.
    pub fn lookup_run<'k>(
        &mut self,
        mut keys: impl Iterator<Item = &'k FlowKey>,
    ) -> Option<(Handle, usize)> {
        let (handle, row) = self.place_of(keys.next()?)?;
        let subtable = self.subtables.get_mut(handle)?;
        let (layout, words) = (&subtable.layout, subtable.words(row)?);
        let more = keys.take_while(|key| layout.matches_soon(words, key)).count();
        subtable.hits += more as u64;
        self.counts.subtables_visited += more as u64;
        self.counts.hits += more as u64;
        Some((subtable.flow(row)?, more + 1))
    }

    /// Returns the subtable and row of the flow that the packet matches, and counts the lookup.
    fn place_of(&mut self, key: &FlowKey) -> Option<(Handle, u32)> {
        let hint = hint_of(key);
        if let Some((handle, row)) = self.hints[hint]
            && let Some(subtable) = self.subtables.get_mut(handle)
            && subtable.is_for(row, key)
        {
            subtable.hits += 1;
            self.counts.subtables_visited += 1;
            self.counts.hits += 1;
            return Some((handle, row));
        }
        for &handle in &self.order {
            let Some(subtable) = self.subtables.get_mut(handle) else { continue };
            self.counts.subtables_visited += 1;
            if let Some(row) = subtable.find_row(key, self.seed) {
                subtable.hits += 1;
                self.counts.hits += 1;
                self.hints[hint] = Some((handle, row));
                return Some((handle, row));
            }
        }
        self.counts.misses += 1;
        None
    }

    /// [`Self::lookup`] without counting.
    pub fn peek(&self, key: &FlowKey) -> Option<Handle> {
        let mut subtables = self.order.iter().filter_map(|&handle| self.subtables.get(handle));
        subtables.find_map(|it| it.flow(it.find_row(key, self.seed)?))
    }

    /// Sorts the subtables by their hits since the last call, the most first.
    pub fn resort(&mut self) {
        let subtables = &self.subtables;
        let hits = |handle: &Handle| subtables.get(*handle).map_or(0, |subtable| subtable.hits);
        self.order.sort_by_key(|handle| std::cmp::Reverse(hits(handle)));
        for (_, subtable) in self.subtables.iter_mut() {
            subtable.hits = 0;
        }
    }

    /// The accumulated cost of lookups.
    pub fn counts(&self) -> LookupCounts {
        self.counts
    }

    /// All flows, by handle.
    pub fn iter(&self) -> impl Iterator<Item = (Handle, &V)> {
        self.flows.iter().map(|(handle, flow)| (handle, &flow.value))
    }

    /// All flows, by handle, to be changed.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (Handle, &mut V)> {
        self.flows.iter_mut().map(|(handle, flow)| (handle, &mut flow.value))
    }

    /// The masks in the order in which lookups visit them, each with its number of flows.
    pub fn masks(&self) -> impl Iterator<Item = (&Mask, usize)> {
        let subtables = self.order.iter().filter_map(|&handle| self.subtables.get(handle));
        subtables.map(|subtable| (&subtable.mask, subtable.len()))
    }

    fn find_subtable(&self, mask: &Mask) -> Option<Handle> {
        let is_it = |&handle: &Handle| self.subtables.get(handle).is_some_and(|s| s.mask == *mask);
        let last = self.last.filter(is_it);
        last.or_else(|| self.by_mask.find(hash_mask(mask), is_it).copied())
    }

    fn subtable_for(&mut self, mask: &Mask) -> Handle {
        if let Some(handle) = self.find_subtable(mask) {
            self.last = Some(handle);
            return handle;
        }
        let handle = self.subtables.insert(Subtable::new(mask));
        let subtables = &self.subtables;
        self.by_mask.insert_unique(hash_mask(mask), handle, |&handle| {
            subtables.get(handle).map_or(0, |subtable| hash_mask(&subtable.mask))
        });
        self.order.push(handle);
        handle
    }

    fn drop_subtable(&mut self, place: usize) {
        let Some(handle) = self.subtables.handle_at(place) else { return };
        self.order.retain(|&have| have != handle);
        if let Some(subtable) = self.subtables.remove(handle) {
            let hash = hash_mask(&subtable.mask);
            if let Ok(entry) = self.by_mask.find_entry(hash, |&have| have == handle) {
                entry.remove();
            }
        }
    }
}

/// The hint of a packet, by its port, its pass and its connection state without the mark.
fn hint_of(key: &FlowKey) -> usize {
    let mixed = key.place_hint().wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> (u64::BITS - HINTS.ilog2())) as usize
}

#[cfg(test)]
mod tests;
