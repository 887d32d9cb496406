//! The megaflows' places, numbered from 1: what growing and giving back memory cost does not depend on how
//! many there are.

use super::keys::Row;
use base::{Instant, WorkerId};
use classifier::{Handle, Slab};
use flow::{FlowId, FlowStats};
use table::atomic::AtomicU64;

/// What is kept of a flow besides its key.
#[derive(Debug)]
pub(super) struct Place {
    pub worker: WorkerId,
    pub tcp_flags: u16,
    /// Whether it waits to be translated again.
    pub is_queued: bool,
    pub row: Row,
    /// The numbers of its actions and of what it stands for.
    pub actions: u32,
    pub links: u32,
    /// Its neighbours in the list of flows that stand for the same; 0 is none.
    pub previous: u32,
    pub next: u32,
    pub packets: u64,
    pub bytes: u64,
    pub used: Option<std::num::NonZeroU64>,
    pub created: Instant,
    /// The timing wheel's.
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

    /// When a packet last hit it, at first when it was put there.
    pub fn last_used(&self) -> Instant {
        self.used.map_or(self.created, |ns| Instant::from_nanos(ns.get())).max(self.created)
    }
}

/// The places.
#[derive(Debug, Default)]
pub(super) struct Slots {
    places: Slab<Place>,
    /// The timing wheel's word of places without a flow.
    unused: AtomicU64,
}

impl table::Links for Slots {
    fn link(&self, id: table::Id) -> &AtomicU64 {
        self.at(id).map_or(&self.unused, |place| &place.wheel)
    }
}

impl Slots {
    /// No places, for flows whose numbers are other ones.
    pub fn successor(&self) -> Slots {
        Slots { places: self.places.successor(), ..Slots::default() }
    }

    /// How many flows there are.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// No flow has a higher number.
    pub fn last(&self) -> u32 {
        self.places.end() as u32
    }

    /// A free place, which counts as taken now.
    pub fn take(&mut self) -> u32 {
        self.places.insert(Place::empty()).index() as u32 + 1
    }

    /// The flow is gone; its number is not used again.
    pub fn give_back(&mut self, slot: u32) {
        if let Some(handle) = self.handle(slot) {
            self.places.remove(handle);
        }
    }

    /// The number of the flow in a place.
    pub fn id(&self, slot: u32) -> Option<FlowId> {
        Some(FlowId(self.handle(slot)?.to_word() + 1))
    }

    /// The place of a flow.
    pub fn slot(&self, id: FlowId) -> Option<u32> {
        let handle = Handle::from_word(id.0.checked_sub(1)?);
        self.places.get(handle).map(|_| id.0 as u32)
    }

    /// What is in a place.
    pub fn at(&self, slot: u32) -> Option<&Place> {
        self.places.at((slot as usize).checked_sub(1)?)
    }

    /// What is in a place, to be changed.
    pub fn at_mut(&mut self, slot: u32) -> Option<&mut Place> {
        self.places.at_mut((slot as usize).checked_sub(1)?)
    }

    fn handle(&self, slot: u32) -> Option<Handle> {
        self.places.handle_at((slot as usize).checked_sub(1)?)
    }
}
