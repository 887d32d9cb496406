//! The unified cache: the complete path of packets with the same headers, from input to output.
//!
//! An entry represents all packets that agree in the bits that the whole walk looked at (its mask): all flows
//! hit, before and after connection tracking, and for tracked packets the connection. One probe thus answers
//! for all passes. An entry is validated before use: flows by their handles and versions, connections by
//! their generation.
//!
//! There are few masks, because few kinds of flows carry most packets. Entries form sets of four, and a
//! lookup reads two sets. An entry used recently is not evicted by one seen once.

mod entry;
mod look_up;
mod mask;
mod memory;
mod probe;
mod tags;

use self::entry::{
    NAT_REWRITTEN, REPLY, SECOND, SECOND_REPLY, SECOND_TWICE, Second, TRACKED, TWICE, USED, WAYS,
};
use self::look_up::kind;
use self::mask::{MaskInUse, Secrets};
use self::probe::Probe;
use crate::ct_passes::CtPasses;
use crate::nat_rewrite::NatRewrite;
use crate::path_id::PathId;
use arrayvec::ArrayVec;
use base::limits::BATCH_SIZE;
use flow::{ConnectionRef, Headers, IPV4_WORDS};

pub(crate) use self::look_up::mark_of;
pub use self::memory::{CacheMemory, CacheMemoryRequest};

/// Maximum number of masks.
const MASKS: usize = 8;
/// TCP's SYN, FIN and RST: packets with these change connections, so they are not cached.
pub(crate) const CONTROL: u16 = 0x7;
/// Number of kinds of packets for which the last successful mask is kept.
const KINDS: usize = 64;
/// The initial number of entries, if permitted, and the growth factor.
const ENTRIES_FIRST: usize = 1 << 14;
const GROWTH: usize = 8;

/// A new entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct NewEntry {
    pub path_id: PathId,
    /// The connections of tracked packets, each with one or two passes.
    pub ct_passes: Option<CtPasses>,
    /// The NAT rewrite, if the connection has NAT.
    pub nat_rewrite: Option<NatRewrite>,
}

/// The fields of an entry that every hit needs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EntryView {
    pub path_id: PathId,
    pub connection: Option<ConnectionRef>,
    /// The packets act once on one connection.
    pub is_usual: bool,
}

/// The entry of each packet of a batch, or [`NOT_FOUND`].
pub(crate) type Found = [u32; BATCH_SIZE];
/// No entry.
pub(crate) const NOT_FOUND: u32 = u32::MAX;

/// The cache of one worker.
pub(crate) struct UnifiedCache {
    masks: ArrayVec<MaskInUse, MASKS>,
    /// By kind of packet, the mask to try first.
    first_mask: [u8; KINDS],
    room: CacheMemory,
    occupied: usize,
    /// Packets of some entries are tracked.
    has_tracked: bool,
    entries_max: usize,
    /// Larger memory is being prepared.
    awaits_room: bool,
    /// Numbers the masks from 1, so that an entry of a removed mask is not taken for one of the next mask.
    serial: u32,
    /// Few packets hit, so the tags are checked before entries are fetched.
    expects_few: bool,
    secrets: Secrets,
    /// The probes of a batch; kept to avoid allocation.
    probes: Box<[Probe; BATCH_SIZE]>,
}

impl UnifiedCache {
    /// An empty cache that may grow to this many entries; 0 disables it. `seed` should be random, so that
    /// senders cannot provoke collisions.
    pub fn new(entries_max: usize, seed: u64) -> Self {
        let mut state = seed;
        let mut cache = UnifiedCache {
            masks: ArrayVec::new(),
            first_mask: [0; KINDS],
            room: CacheMemory::default(),
            occupied: 0,
            has_tracked: false,
            entries_max: 0,
            awaits_room: false,
            serial: 0,
            expects_few: false,
            secrets: std::array::from_fn(|_| split_mix(&mut state)),
            probes: Box::new([Probe::default(); BATCH_SIZE]),
        };
        cache.set_entries_max(entries_max);
        cache
    }

    /// Clears the cache and sets its maximum size; 0 turns it off.
    pub fn set_entries_max(&mut self, entries: usize) {
        let entries = if entries == 0 { 0 } else { entries.next_power_of_two().max(WAYS) };
        if entries != self.entries_max {
            self.entries_max = entries;
            self.awaits_room = false;
            self.replace(CacheMemory::new(entries.min(ENTRIES_FIRST), &mut || ()));
        }
    }

    /// Whether there is a cache.
    #[inline]
    pub fn is_on(&self) -> bool {
        !self.room.entries.is_empty()
    }

    /// Called periodically: removes unused masks when there is no room for others, and requests more memory
    /// if much is in use. `expects_few` says whether few packets are expected to hit.
    pub fn tick(&mut self, expects_few: bool) -> Option<CacheMemoryRequest> {
        self.expects_few = expects_few;
        let before = self.masks.len();
        if self.masks.is_full() {
            self.masks.retain(|mask| mask.is_used);
        }
        if self.masks.len() != before {
            self.first_mask = [0; KINDS];
        }
        for mask in &mut self.masks {
            mask.is_used = false;
        }
        let places = self.room.entries.len();
        if self.awaits_room || self.occupied * 2 <= places || places >= self.entries_max {
            return None;
        }
        self.awaits_room = true;
        Some(CacheMemoryRequest::new((places * GROWTH).min(self.entries_max)))
    }

    /// Switches to the requested memory, unless the settings changed meanwhile; returns the memory to free.
    /// All entries are dropped, since moving them would delay packets longer than inserting them anew.
    pub fn take(&mut self, room: CacheMemory) -> CacheMemory {
        let is_for_this = room.entries.len() <= self.entries_max;
        if !std::mem::take(&mut self.awaits_room) || !is_for_this {
            return room;
        }
        self.replace(room)
    }

    /// Removes all entries.
    pub fn forget(&mut self) {
        // Entries of removed masks are never found.
        self.masks.clear();
        (self.first_mask, self.has_tracked) = ([0; KINDS], false);
    }

    fn replace(&mut self, room: CacheMemory) -> CacheMemory {
        (self.occupied, self.has_tracked) = (0, false);
        std::mem::replace(&mut self.room, room)
    }

    /// Whether some entries are of tracked packets.
    #[inline]
    pub fn has_tracked(&self) -> bool {
        self.has_tracked
    }

    /// The fields of an entry.
    #[inline(always)]
    pub fn get(&self, at: u32) -> Option<EntryView> {
        let entry = self.room.entries.get(at as usize)?;
        let connection = entry.connection();
        let is_usual = entry.flags & (TWICE | SECOND) == 0;
        Some(EntryView { path_id: entry.path_id, connection, is_usual })
    }

    /// The connections of an entry's packets, and which of them they act on twice.
    #[inline]
    pub fn connections(&self, at: u32) -> [Option<(ConnectionRef, bool)>; 2] {
        let Some(entry) = self.room.entries.get(at as usize) else { return [None; 2] };
        let flags = entry.flags;
        let first = entry.connection().map(|it| (it, flags & TWICE != 0));
        if flags & SECOND == 0 {
            return [first, None];
        }
        let Second { id, generation } = self.room.seconds[at as usize];
        let second = ConnectionRef { id, generation, is_reply: flags & SECOND_REPLY != 0 };
        [first, Some((second, flags & SECOND_TWICE != 0))]
    }

    /// The NAT rewrite of an entry's packets, if they have one.
    #[inline]
    pub fn nat_rewrite(&self, at: u32) -> Option<&NatRewrite> {
        let entry = self.room.entries.get(at as usize)?;
        if entry.flags & NAT_REWRITTEN == 0 {
            return None;
        }
        self.room.rest[at as usize].nat_rewrite.as_ref()
    }

    /// Inserts an entry for packets that agree with `headers` in the bits of `mask`. Returns its position, if
    /// there was room.
    pub fn insert(&mut self, headers: &Headers, mask: &Headers, new: &NewEntry) -> Option<u32> {
        if !self.is_on() || headers.is_none() {
            return None;
        }
        let mask = self.mask_number(mask)?;
        self.first_mask[kind(headers)] = mask as u8;
        let probe = self.probe(headers, mask);
        self.masks[mask].has_untracked |= new.ct_passes.is_none();
        let in_use = self.masks[mask];
        let mask = in_use.mask;
        let at = self.place_for(headers, &probe)?;
        let entry = &mut self.room.entries[at];
        self.occupied += usize::from(entry.path_id.is_none());
        self.room.tags.set(at, probe.tag());
        entry.words = std::array::from_fn(|i| headers.words()[i] & mask.words()[i]);
        (entry.path_id, entry.mask) = (new.path_id, in_use.serial);
        entry.flags = 0;
        if let Some(ct_passes) = new.ct_passes {
            self.has_tracked = true;
            let ConnectionRef { id, generation, is_reply } = ct_passes.first.connection;
            (entry.connection_id, entry.connection_generation) = (id, generation);
            let is_twice = ct_passes.first.acting > 1;
            entry.flags |= TRACKED | flag(REPLY, is_reply) | flag(TWICE, is_twice);
            if let Some(second) = ct_passes.second {
                let ConnectionRef { id, generation, is_reply } = second.connection;
                self.room.seconds[at] = Second { id, generation };
                let is_twice = second.acting > 1;
                entry.flags |= SECOND | flag(SECOND_REPLY, is_reply) | flag(SECOND_TWICE, is_twice);
            }
        }
        if headers.is_ipv6() {
            self.room.rest[at].words = std::array::from_fn(|i| {
                headers.words()[IPV4_WORDS + i] & mask.words()[IPV4_WORDS + i]
            });
        }
        if let Some(nat_rewrite) = new.nat_rewrite {
            entry.flags |= NAT_REWRITTEN;
            self.room.rest[at].nat_rewrite = Some(nat_rewrite);
        }
        Some(at as u32)
    }

    /// The place of the entry with the same key, else a free one, else one not used recently. If all were
    /// used, their use bits are cleared for the next time.
    fn place_for(&mut self, headers: &Headers, probe: &Probe) -> Option<usize> {
        let (in_use, last) = (&self.masks[usize::from(probe.mask)], self.room.entries.len() - 1);
        let is_same =
            |&at: &usize| self.room.tags.at(at) == probe.tag() && self.is_for(at, headers, in_use);
        let is_free = |&at: &usize| self.room.tags.at(at) == 0;
        let is_idle = |&at: &usize| self.room.entries[at].flags & USED == 0;
        let place = probe.places(last).find(is_same).or_else(|| probe.places(last).find(is_free));
        if let Some(place) = place.or_else(|| probe.places(last).find(is_idle)) {
            return Some(place);
        }
        for at in probe.places(last) {
            self.room.entries[at].flags &= !USED;
        }
        None
    }

    fn mask_number(&mut self, mask: &Headers) -> Option<usize> {
        if let Some(number) = self.masks.iter().position(|it| it.mask == *mask) {
            return Some(number);
        }
        if self.masks.is_full() {
            return None;
        }
        if self.serial == u32::MAX {
            // The numbers start over: no mask or entry may keep an old one.
            self.forget();
            self.replace(CacheMemory::new(self.room.entries.len(), &mut || ()));
            self.serial = 0;
        }
        self.serial += 1;
        self.masks.push(MaskInUse::new(*mask, self.serial));
        Some(self.masks.len() - 1)
    }
}

/// The bit if `holds`, else 0.
fn flag(bit: u16, holds: bool) -> u16 {
    if holds { bit } else { 0 }
}

/// SplitMix64 (Steele, Lea, Flood 2014).
fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests;
