//! An entry of the unified flow cache, and what is looked for in its place.

use super::MaskInUse;
use crate::translate::Translation;
use crate::way::Way;
use flow::{ConnectionRef, HEADER_WORDS, Headers};

/// Entries of a set. A hash chooses a set and a place in it, and another set for when that is full.
pub(super) const WAYS: usize = 4;

/// Words that are compared of every packet; those after them belong to IPv6 alone.
pub(super) const NARROW: usize = 5;

/// One line, which is all that is read for most packets.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(super) struct Entry {
    pub(super) words: [u64; NARROW],
    pub(super) way: Way,
    pub(super) connection_id: u32,
    pub(super) connection_generation: u32,
    pub(super) mask: u16,
    pub(super) flags: u16,
    spare: u32,
}

pub(super) const TRACKED: u16 = 1;
pub(super) const REPLY: u16 = 2;
pub(super) const TRANSLATED: u16 = 4;
pub(super) const TWICE: u16 = 16;
/// A packet came since the last time that somebody wanted the place.
pub(super) const USED: u16 = 8;

#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(super) struct Rest {
    pub(super) words: [u64; HEADER_WORDS - NARROW],
    pub(super) translation: Option<Translation>,
}

const _: () = assert!(size_of::<Entry>() == 64 && size_of::<Rest>() == 64);

#[derive(Clone, Copy, Default)]
pub(super) struct Probe {
    pub(super) home: u32,
    pub(super) other: u32,
    pub(super) mask: u8,
    /// Never 0.
    pub(super) tag: u8,
    /// The place of the hash itself has the tag.
    pub(super) is_at_home: bool,
    /// The packets of a batch that it is for: the first, and how many in a row.
    pub(super) first: u8,
    pub(super) packets: u8,
}

impl Probe {
    /// Three or four products of two words each, none of which an outsider can bring to a chosen
    /// value (after rapidhash and NH), say where packets with these headers are looked for.
    #[inline]
    pub(super) fn hash(
        &mut self,
        headers: &Headers,
        mask: &Headers,
        secrets: &[u64; HEADER_WORDS],
        places: usize,
    ) {
        let (h, m, s) = (headers.words(), mask.words(), secrets);
        let product = |i: usize| fold(h[i] & m[i] ^ s[i], h[i + 1] & m[i + 1] ^ s[i + 1]);
        let mut sum = product(0) ^ product(2) ^ product(4);
        if headers.is_ipv6() {
            sum ^= product(6);
        }
        let hash = fold(sum ^ s[0], s[1] | 1);
        self.home = (hash as usize & places) as u32;
        self.other = ((hash >> 32) as usize & places) as u32;
        self.tag = (hash >> 24) as u8 | 1;
    }

    pub(super) fn places(&self) -> impl Iterator<Item = usize> + use<> {
        let (home, other) = (self.home as usize, self.other as usize);
        (0..2 * WAYS).map(move |i| if i < WAYS { home ^ i } else { other ^ (i - WAYS) })
    }
}

impl Entry {
    pub(super) const EMPTY: Entry = Entry {
        words: [0; NARROW],
        way: Way::NONE,
        connection_id: 0,
        connection_generation: 0,
        mask: 0,
        flags: 0,
        spare: 0,
    };

    #[inline]
    pub(super) fn connection(&self) -> Option<ConnectionRef> {
        (self.flags & TRACKED != 0).then_some(ConnectionRef {
            id: self.connection_id,
            generation: self.connection_generation,
            is_reply: self.flags & REPLY != 0,
        })
    }

    /// Whether the entry stands for packets like this, as far as its words go.
    #[inline]
    pub(super) fn is_for(&self, headers: &Headers, in_use: &MaskInUse) -> bool {
        let (h, m) = (headers.words(), in_use.mask.words());
        let differs = |i: usize| h[i] & m[i] ^ self.words[i];
        let serial = u64::from(self.mask ^ in_use.serial);
        differs(4) | differs(3) | serial == 0 && differs(0) | differs(1) | differs(2) == 0
    }
}

impl Rest {
    pub(super) const EMPTY: Rest = Rest { words: [0; HEADER_WORDS - NARROW], translation: None };

    /// Whether the entry's further words are those of these headers.
    pub(super) fn is_for(&self, headers: &Headers, mask: &Headers) -> bool {
        let (h, m) = (headers.words(), mask.words());
        let mut words = self.words.iter().enumerate();
        !headers.is_ipv6() || words.all(|(i, &word)| h[NARROW + i] & m[NARROW + i] == word)
    }
}

#[inline]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    (product >> 64) as u64 ^ product as u64
}

/// How many packets from the first one on agree with it in the bits of a mask.
#[inline(never)]
pub(super) fn alike(headers: &[Headers], mask: &Headers) -> u8 {
    let is_like = |other: &&Headers| other.is_like(&headers[0], mask);
    1 + headers[1..].iter().take_while(is_like).count() as u8
}

/// Works out the places of probes. On its own, so that what it needs stays in registers.
#[inline(never)]
pub(super) fn hash_all(
    probes: &mut [Probe],
    headers: &[Headers],
    masks: &[MaskInUse],
    secrets: &[u64; HEADER_WORDS],
    places: usize,
) {
    for probe in probes {
        let mask = &masks[usize::from(probe.mask)].mask;
        probe.hash(&headers[usize::from(probe.first)], mask, secrets, places);
    }
}
