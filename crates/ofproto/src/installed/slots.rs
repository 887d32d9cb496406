//! The slots of megaflows, numbered from 1. The cost of growing and of freeing memory does not depend on
//! their number.

use super::keys::Row;
use base::{Instant, WorkerId};
use classifier::{Handle, Slab};
use flow::{FlowId, FlowStats};
use table::atomic::AtomicU64;

/// The state of a flow besides its key.
#[derive(Debug)]
pub(super) struct Place {
    pub worker: WorkerId,
    pub tcp_flags: u16,
    /// Whether it waits for revalidation.
    pub is_queued: bool,
    pub row: Row,
    /// The numbers of its actions and links.
    pub actions: u32,
    pub links: u32,
    /// Its neighbours in the list of flows with the same links; 0 is none.
    pub previous: u32,
    pub next: u32,
    pub packets: u64,
    pub bytes: u64,
    pub used: Option<std::num::NonZeroU64>,
    pub created: Instant,
    /// The word of the timing wheel.
    pub wheel: AtomicU64,
}

impl Place {
    fn empty() -> Self {
        Place {
            worker: WorkerId(0),
            tcp_flags: 0,
            is_queued: false,
            row: Row::default(),
            actions: 0,
            links: 0,
            previous: 0,
            next: 0,
            packets: 0,
            bytes: 0,
            used: None,
            created: Instant::ZERO,
            wheel: AtomicU64::new(0),
        }
    }

    pub fn stats(&self) -> FlowStats {
        let used = self.used.map(|ns| Instant::from_nanos(ns.get()));
        FlowStats { packets: self.packets, bytes: self.bytes, used, tcp_flags: self.tcp_flags }
    }

    pub fn set_stats(&mut self, stats: &FlowStats) {
        (self.packets, self.bytes, self.tcp_flags) = (stats.packets, stats.bytes, stats.tcp_flags);
        self.used = stats.used.and_then(|used| std::num::NonZeroU64::new(used.as_nanos().max(1)));
    }

    /// The time of the last packet, initially of installation.
    pub fn last_used(&self) -> Instant {
        self.used.map_or(self.created, |ns| Instant::from_nanos(ns.get())).max(self.created)
    }
}

/// The places.
#[derive(Debug, Default)]
pub(super) struct Slots {
    places: Slab<Place>,
    /// The timing wheel's word for unused slots.
    unused: AtomicU64,
    /// The number of visits of slots.
    #[cfg(test)]
    visits: std::cell::Cell<u64>,
}

impl table::Links for Slots {
    fn link(&self, id: table::Id) -> &AtomicU64 {
        self.at(id).map_or(&self.unused, |place| &place.wheel)
    }
}

impl Slots {
    /// Empty slots whose flows get numbers different from these.
    pub fn successor(&self) -> Slots {
        Slots { places: self.places.successor(), ..Slots::default() }
    }

    /// How many flows there are.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// The highest slot in use so far.
    pub fn last(&self) -> u32 {
        self.places.end() as u32
    }

    /// Takes a free slot.
    pub fn take(&mut self) -> u32 {
        self.places.insert(Place::empty()).index() as u32 + 1
    }

    /// Frees the slot; the flow's id is not used again.
    pub fn give_back(&mut self, slot: u32) {
        if let Some(handle) = self.handle(slot) {
            self.places.remove(handle);
        }
    }

    /// The id of the flow in a slot.
    pub fn id(&self, slot: u32) -> Option<FlowId> {
        Some(FlowId(self.handle(slot)?.to_word() + 1))
    }

    /// The slot of a flow.
    pub fn slot(&self, id: FlowId) -> Option<u32> {
        #[cfg(test)]
        self.visits.update(|visits| visits + 1);
        let handle = Handle::from_word(id.0.checked_sub(1)?);
        self.places.get(handle).map(|_| id.0 as u32)
    }

    /// The state in a slot.
    pub fn at(&self, slot: u32) -> Option<&Place> {
        #[cfg(test)]
        self.visits.update(|visits| visits + 1);
        self.places.at((slot as usize).checked_sub(1)?)
    }

    /// The same, mutable.
    pub fn at_mut(&mut self, slot: u32) -> Option<&mut Place> {
        #[cfg(test)]
        self.visits.update(|visits| visits + 1);
        self.places.at_mut((slot as usize).checked_sub(1)?)
    }

    /// The number of visits of slots since the last call.
    #[cfg(test)]
    pub fn take_visits(&self) -> u64 {
        self.visits.take()
    }

    fn handle(&self, slot: u32) -> Option<Handle> {
        #[cfg(test)]
        self.visits.update(|visits| visits + 1);
        self.places.handle_at((slot as usize).checked_sub(1)?)
    }
}
