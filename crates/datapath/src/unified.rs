//! The unified flow cache: what became of packets with the same headers, from port to port.
//!
//! An entry stands for all packets that agree in the bits that the whole walk looked at (its
//! mask): every flow that was hit, before and after connection tracking, and of tracked packets
//! the connection. One probe then answers for all passes at once. What an entry says is checked
//! before it is believed: flows by their handles and versions, connections by their generation.
//!
//! Masks are few, because few kinds of flows carry most packets. Entries lie in sets of four, and
//! one that was used lately is not pushed out by one that was seen once.

use crate::walks::WalkId;
use arrayvec::ArrayVec;
use base::limits::BATCH_SIZE;
use classifier::Handle;
use flow::{ConnectionRef, HEADER_WORDS, Headers};

/// Entries that a hash may be in.
const WAYS: usize = 4;
/// Different masks at a time.
const MASKS: usize = 8;
/// Kinds of packets for which the mask that served last is kept.
const KINDS: usize = 64;
/// What the cache begins with, if it may be so large.
const ENTRIES_FIRST: usize = 4096;
/// Words that are compared of every packet; those after them belong to IPv6 alone.
const NARROW: usize = 5;

/// Where the packets of an entry go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Way {
    /// Through one flow, and that is all.
    Flow(Handle),
    /// Through several.
    Walk(WalkId),
}

/// What an entry says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Known {
    pub way: Way,
    /// The connection, of tracked packets.
    pub connection: Option<ConnectionRef>,
    /// What the connection makes of addresses and ports, where it does.
    pub translation: Option<Translation>,
}

/// Addresses and ports, laid out as in a [`flow::FlowKey`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Translation {
    pub addresses: [u64; 4],
    pub ports: u32,
}

/// Where entries were found for the packets of a batch.
pub(crate) type Found = ArrayVec<Option<u32>, BATCH_SIZE>;

/// The cache of one worker.
pub(crate) struct UnifiedCache {
    masks: ArrayVec<MaskInUse, MASKS>,
    /// By kind of packet, which mask to try first.
    first_mask: [u8; KINDS],
    entries: Box<[Entry]>,
    /// What few entries have, in the same places.
    rest: Box<[Rest]>,
    occupied: usize,
    entries_max: usize,
    /// Numbers masks, so that an entry of a mask that went is not taken for one of the next.
    serial: u16,
    secrets: [u64; HEADER_WORDS],
}

#[derive(Clone, Copy)]
struct MaskInUse {
    mask: Headers,
    serial: u16,
    /// Since the last tick.
    hits: u64,
}

/// One line, which is all that is read for most packets.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Entry {
    words: [u64; NARROW],
    way: Option<Way>,
    connection_id: u32,
    connection_generation: u32,
    mask: u16,
    flags: u16,
}

const TRACKED: u16 = 1;
const REPLY: u16 = 2;
const TRANSLATED: u16 = 4;
/// A packet came since the last time that somebody wanted the place.
const USED: u16 = 8;

#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Rest {
    words: [u64; HEADER_WORDS - NARROW],
    translation: Translation,
}

const _: () = assert!(size_of::<Entry>() == 64 && size_of::<Rest>() == 64);

impl UnifiedCache {
    /// An empty cache that may grow to so many entries; 0 for none at all. `seed` should be
    /// random, so that senders cannot choose what collides.
    pub fn new(entries_max: usize, seed: u64) -> Self {
        let mut state = seed;
        let mut cache = UnifiedCache {
            masks: ArrayVec::new(),
            first_mask: [0; KINDS],
            entries: Box::default(),
            rest: Box::default(),
            occupied: 0,
            entries_max: 0,
            serial: 0,
            secrets: std::array::from_fn(|_| split_mix(&mut state)),
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

    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.occupied
    }

    /// Now and then: makes room for other masks, and for more entries where many are used. What
    /// was known is then forgotten, since moving it would hold packets up longer than learning it
    /// anew.
    pub fn tick(&mut self) {
        let before = self.masks.len();
        if self.masks.is_full() {
            self.masks.retain(|mask| mask.hits > 0);
        }
        if self.masks.len() != before {
            self.first_mask = [0; KINDS];
        }
        for mask in &mut self.masks {
            mask.hits = 0;
        }
        if self.occupied * 2 > self.entries.len() && self.entries.len() < self.entries_max {
            self.clear(self.entries.len() * 2);
        }
    }

    fn clear(&mut self, entries: usize) {
        self.entries = vec![Entry::EMPTY; entries].into();
        self.rest = vec![Rest::EMPTY; entries].into();
        self.occupied = 0;
    }

    /// Finds entries for packets: first all are hashed, then all places are touched, so that the
    /// waits for memory overlap, then all are compared.
    pub fn look_up(&mut self, headers: &[Headers], found: &mut Found) {
        found.clear();
        if self.masks.is_empty() || self.entries.is_empty() {
            found.extend(headers.iter().map(|_| None).take(BATCH_SIZE));
            return;
        }
        let mut hashes = [0u64; BATCH_SIZE];
        let mut masks = [0u8; BATCH_SIZE];
        for ((headers, hash), mask) in headers.iter().zip(&mut hashes).zip(&mut masks) {
            *mask = self.first_mask[kind(headers)];
            *hash = self.hash(headers, &self.masks[usize::from(*mask)].mask);
        }
        let mut touched = 0;
        for hash in &hashes[..headers.len().min(BATCH_SIZE)] {
            touched |= self.entries[self.home(*hash)].flags;
        }
        std::hint::black_box(touched);
        for ((headers, hash), mask) in headers.iter().zip(&hashes).zip(&masks) {
            let mask = usize::from(*mask);
            let at = match self.find(headers, mask, *hash) {
                None if !headers.is_none() => self.find_otherwise(headers, mask),
                at => at,
            };
            found.push(at);
        }
    }

    /// Looks under the masks that were not tried.
    fn find_otherwise(&mut self, headers: &Headers, tried: usize) -> Option<u32> {
        for mask in (0..self.masks.len()).filter(|&mask| mask != tried) {
            let hash = self.hash(headers, &self.masks[mask].mask);
            if let Some(at) = self.find(headers, mask, hash) {
                self.first_mask[kind(headers)] = mask as u8;
                return Some(at);
            }
        }
        None
    }

    #[inline]
    fn find(&mut self, headers: &Headers, mask: usize, hash: u64) -> Option<u32> {
        let home = self.home(hash);
        let in_use = &mut self.masks[mask];
        for way in 0..WAYS {
            let at = home ^ way;
            let entry = &self.entries[at];
            if entry.mask == in_use.serial
                && entry.way.is_some()
                && is_equal(&entry.words, &self.rest[at].words, headers, &in_use.mask)
            {
                in_use.hits += 1;
                return Some(at as u32);
            }
        }
        None
    }

    /// What an entry says of its packets.
    #[inline]
    pub fn get(&mut self, at: u32) -> Option<Known> {
        let entry = &mut self.entries[at as usize];
        let way = entry.way?;
        if entry.flags & USED == 0 {
            entry.flags |= USED;
        }
        let connection = (entry.flags & TRACKED != 0).then_some(ConnectionRef {
            id: entry.connection_id,
            generation: entry.connection_generation,
            is_reply: entry.flags & REPLY != 0,
        });
        let translation =
            (entry.flags & TRANSLATED != 0).then(|| self.rest[at as usize].translation);
        Some(Known { way, connection, translation })
    }

    /// Remembers what became of a packet, and that only these bits of its headers decided it;
    /// says whether there was room.
    pub fn insert(&mut self, headers: &Headers, mask: &Headers, known: &Known) -> bool {
        if !self.is_on() || headers.is_none() {
            return false;
        }
        let Some(mask) = self.mask_number(mask) else { return false };
        self.first_mask[kind(headers)] = mask as u8;
        let MaskInUse { mask, serial, .. } = self.masks[mask];
        let mask = &mask;
        let home = self.home(self.hash(headers, mask));
        let Some(at) = self.place_for(home, headers, mask, serial) else { return false };
        let masked: [u64; HEADER_WORDS] =
            std::array::from_fn(|i| headers.words()[i] & mask.words()[i]);
        let (narrow, wide) = masked.split_at(NARROW);
        let entry = &mut self.entries[at];
        self.occupied += usize::from(entry.way.is_none());
        entry.words.copy_from_slice(narrow);
        (entry.way, entry.mask, entry.flags) = (Some(known.way), serial, 0);
        if let Some(ConnectionRef { id, generation, is_reply }) = known.connection {
            (entry.connection_id, entry.connection_generation) = (id, generation);
            entry.flags |= TRACKED | if is_reply { REPLY } else { 0 };
        }
        if known.translation.is_some() || headers.is_ipv6() {
            self.rest[at].words.copy_from_slice(wide);
        }
        if let Some(translation) = known.translation {
            entry.flags |= TRANSLATED;
            self.rest[at].translation = translation;
        }
        true
    }

    /// The entry with the same key, else a free one, else one that nobody used lately. Where all
    /// were used they are asked to be so once more before the next one comes.
    fn place_for(
        &mut self,
        home: usize,
        headers: &Headers,
        mask: &Headers,
        serial: u16,
    ) -> Option<usize> {
        let places = || (0..WAYS).map(|way| home ^ way);
        let is_same = |&at: &usize| {
            let Entry { words, way, mask: theirs, .. } = &self.entries[at];
            way.is_some()
                && *theirs == serial
                && is_equal(words, &self.rest[at].words, headers, mask)
        };
        let is_free = |&at: &usize| self.entries[at].way.is_none();
        let is_idle = |&at: &usize| self.entries[at].flags & USED == 0;
        let place = places().find(is_same).or_else(|| places().find(is_free));
        if let Some(place) = place.or_else(|| places().find(is_idle)) {
            return Some(place);
        }
        for at in places() {
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
        self.masks.push(MaskInUse { mask: *mask, serial: self.serial, hits: 0 });
        Some(self.masks.len() - 1)
    }

    #[inline]
    fn home(&self, hash: u64) -> usize {
        hash as usize & (self.entries.len() - 1)
    }

    /// Four products of two words each, none of which an outsider can bring to a chosen value
    /// (after rapidhash and NH).
    #[inline]
    fn hash(&self, headers: &Headers, mask: &Headers) -> u64 {
        let (h, m, s) = (headers.words(), mask.words(), &self.secrets);
        let word = |i: usize| (h[i] & m[i]) ^ s[i];
        let mut sum = fold(word(0), word(1)) ^ fold(word(2), word(3));
        sum ^= fold(word(4), word(5)) ^ fold(word(6), word(7));
        fold(sum ^ s[0], s[1] | 1)
    }
}

impl Entry {
    const EMPTY: Entry = Entry {
        words: [0; NARROW],
        way: None,
        connection_id: 0,
        connection_generation: 0,
        mask: 0,
        flags: 0,
    };
}

impl Rest {
    const EMPTY: Rest = Rest {
        words: [0; HEADER_WORDS - NARROW],
        translation: Translation { addresses: [0; 4], ports: 0 },
    };
}

/// Whether an entry stands for packets with these headers.
#[inline]
fn is_equal(
    narrow: &[u64; NARROW],
    wide: &[u64; HEADER_WORDS - NARROW],
    headers: &Headers,
    mask: &Headers,
) -> bool {
    let (h, m) = (headers.words(), mask.words());
    let differs = |i: usize, word: u64| (h[i] & m[i]) ^ word;
    let mut difference = 0;
    for (i, &word) in narrow.iter().enumerate() {
        difference |= differs(i, word);
    }
    if difference != 0 {
        return false;
    }
    !headers.is_ipv6() || (0..wide.len()).all(|i| differs(NARROW + i, wide[i]) == 0)
}

/// Packets of a kind mostly go by the same mask: port, Ethernet type and protocol.
#[inline]
fn kind(headers: &Headers) -> usize {
    let words = headers.words();
    (words[0] >> 32 ^ words[1] ^ words[3] >> 56) as usize % KINDS
}

#[inline]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    (product >> 64) as u64 ^ product as u64
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
