//! The megaflows' places, numbered from 1, in pieces, so that growing moves none of them.

use super::keys::Row;
use base::{Instant, WorkerId};
use flow::{FlowId, FlowStats};
use table::atomic::AtomicU64;

/// Places in a piece.
const PIECE: usize = 4096;

/// What is kept of a flow besides its key.
#[derive(Debug)]
pub(super) struct Place {
    pub generation: u32,
    pub worker: WorkerId,
    pub is_live: bool,
    pub tcp_flags: u16,
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
            generation: 0,
            worker: WorkerId(0),
            is_live: false,
            tcp_flags: 0,
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
    pieces: Vec<Vec<Place>>,
    free: Vec<u32>,
    len: usize,
    /// Where places that were never used begin.
    generation: u32,
}

impl table::Links for Slots {
    fn link(&self, id: table::Id) -> &AtomicU64 {
        let index = id as usize - 1;
        &self.pieces[index / PIECE][index % PIECE].wheel
    }
}

impl Slots {
    /// How many flows there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// The highest number that a place has.
    pub fn last(&self) -> u32 {
        let full = self.pieces.len().saturating_sub(1) * PIECE;
        (full + self.pieces.last().map_or(0, Vec::len)) as u32
    }

    /// A free place, which counts as taken now.
    pub fn take(&mut self) -> u32 {
        self.len += 1;
        let slot = self.free.pop().unwrap_or_else(|| {
            if self.pieces.last().is_none_or(|piece| piece.len() == PIECE) {
                self.pieces.push(Vec::with_capacity(PIECE));
            }
            if let Some(piece) = self.pieces.last_mut() {
                piece.push(Place { generation: self.generation, ..Place::empty() });
            }
            self.last()
        });
        if let Some(place) = self.at_mut(slot) {
            place.is_live = true;
        }
        slot
    }

    /// The flow is gone; its number is not used again.
    pub fn give_back(&mut self, slot: u32) {
        if let Some(place) = self.at_mut(slot) {
            place.is_live = false;
            place.generation = place.generation.wrapping_add(1);
            self.free.push(slot);
            self.len -= 1;
        }
        // Memory of a peak is given back when it is over. Numbers do not come again: the next flows'
        // are above.
        if self.len == 0 {
            let generations = self.pieces.iter().flatten().map(|place| place.generation);
            self.generation = generations.max().unwrap_or_default();
            (self.pieces, self.free) = (Vec::new(), Vec::new());
        }
    }

    /// The number of the flow in a place.
    pub fn id(&self, slot: u32) -> Option<FlowId> {
        let place = self.at(slot)?;
        Some(FlowId(u64::from(place.generation) << 32 | u64::from(slot)))
    }

    /// The place of a flow.
    pub fn slot(&self, id: FlowId) -> Option<u32> {
        let (slot, generation) = (id.0 as u32, (id.0 >> 32) as u32);
        self.at(slot).filter(|place| place.generation == generation).map(|_| slot)
    }

    /// What is in a place.
    pub fn at(&self, slot: u32) -> Option<&Place> {
        let index = (slot as usize).checked_sub(1)?;
        self.pieces.get(index / PIECE)?.get(index % PIECE).filter(|place| place.is_live)
    }

    /// What is in a place, to be changed; also where there is no flow.
    pub fn at_mut(&mut self, slot: u32) -> Option<&mut Place> {
        let index = (slot as usize).checked_sub(1)?;
        self.pieces.get_mut(index / PIECE)?.get_mut(index % PIECE)
    }
}
