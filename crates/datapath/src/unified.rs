//! The unified flow cache: what became of packets with the same headers, from port to port.
//!
//! An entry stands for all packets that agree in the bits that the whole walk looked at (its
//! mask): every flow that was hit, before and after connection tracking, and of tracked packets
//! the connection. One probe then answers for all passes at once. What an entry says is checked
//! before it is believed: flows by their handles and versions, connections by their generation.
//!
//! Masks are few, because few kinds of flows carry most packets. Entries lie in sets of four, two
//! of which are looked through, and one that was used lately is not pushed out by one that was seen once.

mod entry;
mod tags;

use self::entry::{
    Entry, NARROW, Probe, REPLY, Rest, TRACKED, TRANSLATED, TWICE, USED, WAYS, alike, hash_all,
};
use self::tags::Tags;
use crate::lane::Visits;
use crate::learn::CONTROL;
use crate::translate::Translation;
use crate::way::Way;
use arrayvec::ArrayVec;
use base::limits::BATCH_SIZE;
use flow::{ConnectionRef, HEADER_WORDS, Headers};
use table::Array;

/// Different masks at a time.
const MASKS: usize = 8;
/// Kinds of packets for which the mask that served last is kept.
const KINDS: usize = 64;
/// What the cache begins with, if it may be so large, and how much larger it gets each time.
const ENTRIES_FIRST: usize = 1 << 14;
const GROWTH: usize = 8;
/// What an entry says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Known {
    pub way: Way,
    /// The connection, of tracked packets, which act on it once or twice.
    pub visits: Option<Visits>,
    /// What the connection makes of addresses and ports, where it does.
    pub translation: Option<Translation>,
}

/// What an entry says at first sight.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Remembered {
    pub way: Way,
    pub connection: Option<ConnectionRef>,
    pub is_translated: bool,
    /// The packets act on the connection twice.
    pub acts_twice: bool,
}

/// The entry of each packet of a batch, or [`NOT_FOUND`].
pub(crate) type Found = [u32; BATCH_SIZE];
/// No entry.
pub(crate) const NOT_FOUND: u32 = u32::MAX;

/// The cache of one worker.
pub(crate) struct UnifiedCache {
    masks: ArrayVec<MaskInUse, MASKS>,
    /// By kind of packet, which mask to try first.
    first_mask: [u8; KINDS],
    entries: Array<Entry>,
    /// What few entries have, in the same places.
    rest: Array<Rest>,
    /// Of the same places again.
    tags: Tags,
    occupied: usize,
    entries_max: usize,
    /// Numbers masks, so that an entry of a mask that went is not taken for one of the next.
    serial: u16,
    secrets: [u64; HEADER_WORDS],
    /// What is looked for, for each packet of a batch; kept for its room.
    probes: Box<[Probe; BATCH_SIZE]>,
}

#[derive(Clone, Copy)]
struct MaskInUse {
    mask: Headers,
    serial: u16,
    /// Since the last tick.
    is_used: bool,
    /// Of some entries the packets are not tracked.
    has_untracked: bool,
}

impl UnifiedCache {
    /// An empty cache that may grow to so many entries; 0 for none at all. `seed` should be
    /// random, so that senders cannot choose what collides.
    pub fn new(entries_max: usize, seed: u64) -> Self {
        let mut state = seed;
        let mut cache = UnifiedCache {
            masks: ArrayVec::new(),
            first_mask: [0; KINDS],
            entries: Array::default(),
            rest: Array::default(),
            tags: Tags::default(),
            occupied: 0,
            entries_max: 0,
            serial: 0,
            secrets: std::array::from_fn(|_| split_mix(&mut state)),
            probes: Box::new([Probe::default(); BATCH_SIZE]),
        };
        cache.set_entries_max(entries_max);
        cache
    }

    /// Forgets everything and may grow to so many entries from now on; 0 turns the cache off.
    pub fn set_entries_max(&mut self, entries: usize) {
        let entries = if entries == 0 { 0 } else { entries.next_power_of_two().max(WAYS) };
        if entries != self.entries_max {
            self.entries_max = entries;
            self.clear(entries.min(ENTRIES_FIRST));
        }
    }

    /// Whether there is a cache.
    #[inline]
    pub fn is_on(&self) -> bool {
        !self.entries.is_empty()
    }

    /// Now and then: makes room for other masks, and for more entries where many are used. What
    /// was known is then forgotten, since moving it would hold packets up longer than learning it
    /// anew.
    pub fn tick(&mut self) {
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
        if self.occupied * 2 > self.entries.len() && self.entries.len() < self.entries_max {
            self.clear((self.entries.len() * GROWTH).min(self.entries_max));
        }
    }

    fn clear(&mut self, entries: usize) {
        // The old ones go first, so that there is never memory for both.
        (self.entries, self.rest, self.tags) = Default::default();
        self.entries = Array::filled(Entry::EMPTY, entries);
        self.rest = Array::filled(Rest::EMPTY, entries);
        self.tags = Tags::empty(entries);
        self.occupied = 0;
    }

    /// Finds entries for packets: first all are hashed, then all places are touched, so that the
    /// waits for memory overlap, then all are compared. A packet that is like the one before it, as
    /// far as anybody looks, needs no probe of its own. Says whether any is of tracked packets.
    pub fn look_up(&mut self, headers: &[Headers], found: &mut Found) -> bool {
        if self.masks.is_empty() || self.entries.is_empty() {
            *found = [NOT_FOUND; BATCH_SIZE];
            return false;
        }
        let probes = self.probe_all(headers, found);
        let mut touched = 0;
        for probe in &mut self.probes[..probes] {
            probe.is_at_home = self.tags.at(probe.home as usize) == probe.tag;
            if probe.is_at_home {
                touched |= self.entries[probe.home as usize].flags;
            }
        }
        std::hint::black_box(touched);
        let (mut served, mut flags) = (0u32, 0);
        for number in 0..probes {
            let probe = self.probes[number];
            let first = usize::from(probe.first);
            let end = headers.len().min(first + usize::from(probe.packets));
            let (entry, in_use) =
                (&self.entries[probe.home as usize], &self.masks[usize::from(probe.mask)]);
            let is_narrow = !headers[first].is_ipv6();
            if probe.is_at_home && is_narrow && entry.is_for(&headers[first], in_use) {
                served |= 1 << probe.mask;
                flags |= entry.flags;
                found[first..end].iter_mut().for_each(|at| *at = probe.home);
            } else {
                for i in first..end {
                    found[i] = self.find_away(&headers[i], number);
                    flags |= self.entries.get(found[i] as usize).map_or(0, |entry| entry.flags);
                }
            }
        }
        for (i, mask) in self.masks.iter_mut().enumerate() {
            mask.is_used |= served & 1 << i != 0;
        }
        flags & TRACKED != 0
    }

    /// Says where each packet, or several in a row, are looked for; gives how many probes there are.
    /// Of tracked packets, those that change their connections are never known.
    fn probe_all(&mut self, headers: &[Headers], found: &mut Found) -> usize {
        let UnifiedCache { masks, first_mask, entries, secrets, probes, .. } = self;
        let has_untracked = masks.iter().any(|mask| mask.has_untracked);
        let (mut count, mut first) = (0, 0);
        while let Some(rest) = headers.get(first..).filter(|rest| !rest.is_empty())
            && count < BATCH_SIZE
        {
            if !has_untracked && rest[0].tcp_flags() & CONTROL != 0 {
                found[first] = NOT_FOUND;
                first += 1;
                continue;
            }
            let mask = first_mask[kind(&rest[0])];
            let packets = alike(rest, &masks[usize::from(mask)].mask);
            probes[count] = Probe { first: first as u8, packets, mask, ..Probe::default() };
            (count, first) = (count + 1, first + usize::from(packets));
        }
        hash_all(&mut probes[..count], headers, masks, secrets, entries.len() - 1);
        count
    }

    /// Looks in the places beside the first, and then under the masks that were not tried.
    #[inline(never)]
    fn find_away(&mut self, headers: &Headers, number: usize) -> u32 {
        if headers.is_none() {
            return NOT_FOUND;
        }
        let probe = self.probes[number];
        let tried = usize::from(probe.mask);
        let mut at = self.find(headers, &probe);
        let is_control = headers.tcp_flags() & CONTROL != 0;
        for mask in (0..self.masks.len()).filter(|&mask| mask != tried) {
            if at != NOT_FOUND {
                break;
            }
            if is_control && !self.masks[mask].has_untracked {
                continue;
            }
            at = self.find(headers, &self.probe(headers, mask));
            if at != NOT_FOUND {
                self.first_mask[kind(headers)] = mask as u8;
            }
        }
        at
    }

    fn find(&mut self, headers: &Headers, probe: &Probe) -> u32 {
        if !self.tags.may_have(probe) {
            return NOT_FOUND;
        }
        let in_use = &mut self.masks[usize::from(probe.mask)];
        for at in probe.places() {
            if self.tags.at(at) == probe.tag
                && self.entries[at].is_for(headers, in_use)
                && self.rest[at].is_for(headers, &in_use.mask)
            {
                in_use.is_used = true;
                return at as u32;
            }
        }
        NOT_FOUND
    }

    fn probe(&self, headers: &Headers, mask: usize) -> Probe {
        let mut probe = Probe { mask: mask as u8, ..Probe::default() };
        let places = self.entries.len() - 1;
        probe.hash(headers, &self.masks[mask].mask, &self.secrets, places);
        probe
    }

    /// What an entry says of its packets, which counts as a use of it.
    #[inline]
    pub fn get(&mut self, at: u32) -> Option<Remembered> {
        let entry = self.entries.get_mut(at as usize)?;
        if entry.way.is_none() {
            return None;
        }
        if entry.flags & USED == 0 {
            entry.flags |= USED;
        }
        let connection = entry.connection();
        let is_translated = entry.flags & TRANSLATED != 0;
        let acts_twice = entry.flags & TWICE != 0;
        Some(Remembered { way: entry.way, connection, is_translated, acts_twice })
    }

    /// The connection of an entry's packets, if they are tracked. What the connection makes of
    /// addresses and ports is fetched with it, as it will be wanted next.
    #[inline]
    pub fn connection(&self, at: u32) -> Option<ConnectionRef> {
        let entry = self.entries.get(at as usize)?;
        if entry.flags & TRANSLATED != 0 {
            std::hint::black_box(self.rest[at as usize].translation.is_some());
        }
        entry.connection()
    }

    /// What the connection makes of addresses and ports of an entry's packets, where it does.
    #[inline]
    pub fn translation(&self, at: u32) -> Option<&Translation> {
        let entry = self.entries.get(at as usize)?;
        if entry.flags & TRANSLATED == 0 {
            return None;
        }
        self.rest[at as usize].translation.as_ref()
    }

    /// Remembers what became of a packet, and that only these bits of its headers decided it;
    /// says whether there was room.
    pub fn insert(&mut self, headers: &Headers, mask: &Headers, known: &Known) -> bool {
        if !self.is_on() || headers.is_none() {
            return false;
        }
        let Some(mask) = self.mask_number(mask) else { return false };
        self.first_mask[kind(headers)] = mask as u8;
        let probe = self.probe(headers, mask);
        self.masks[mask].has_untracked |= known.visits.is_none();
        let in_use = self.masks[mask];
        let mask = in_use.mask;
        let Some(at) = self.place_for(headers, &probe) else { return false };
        let entry = &mut self.entries[at];
        self.occupied += usize::from(entry.way.is_none());
        self.tags.set(at, probe.tag);
        entry.words = std::array::from_fn(|i| headers.words()[i] & mask.words()[i]);
        (entry.way, entry.mask) = (known.way, in_use.serial);
        entry.flags = 0;
        if let Some(visits) = known.visits {
            let ConnectionRef { id, generation, is_reply } = visits.connection;
            entry.flags |= if visits.acting > 1 { TWICE } else { 0 };
            (entry.connection_id, entry.connection_generation) = (id, generation);
            entry.flags |= TRACKED | if is_reply { REPLY } else { 0 };
        }
        if headers.is_ipv6() {
            self.rest[at].words =
                std::array::from_fn(|i| headers.words()[NARROW + i] & mask.words()[NARROW + i]);
        }
        if let Some(translation) = known.translation {
            entry.flags |= TRANSLATED;
            self.rest[at].translation = Some(translation);
        }
        true
    }

    /// The entry with the same key, else a free one, else one that nobody used lately. Where all
    /// were used they are asked to be so once more before the next one comes.
    fn place_for(&mut self, headers: &Headers, probe: &Probe) -> Option<usize> {
        let in_use = &self.masks[usize::from(probe.mask)];
        let is_same = |&at: &usize| {
            self.tags.at(at) == probe.tag
                && self.entries[at].is_for(headers, in_use)
                && self.rest[at].is_for(headers, &in_use.mask)
        };
        let is_free = |&at: &usize| self.tags.at(at) == 0;
        let is_idle = |&at: &usize| self.entries[at].flags & USED == 0;
        let place = probe.places().find(is_same).or_else(|| probe.places().find(is_free));
        if let Some(place) = place.or_else(|| probe.places().find(is_idle)) {
            return Some(place);
        }
        for at in probe.places() {
            self.entries[at].flags &= !USED;
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
        self.serial = self.serial.wrapping_add(1);
        if self.serial == 0 {
            // Numbers begin again: nobody may have an old one.
            self.clear(self.entries.len());
        }
        self.masks.push(MaskInUse {
            mask: *mask,
            serial: self.serial,
            is_used: true,
            has_untracked: false,
        });
        Some(self.masks.len() - 1)
    }
}

/// Packets of a kind mostly go by the same mask: port, Ethernet type and protocol.
#[inline]
fn kind(headers: &Headers) -> usize {
    let words = headers.words();
    (words[0] >> 32 ^ words[1] ^ words[3] >> 56) as usize % KINDS
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
