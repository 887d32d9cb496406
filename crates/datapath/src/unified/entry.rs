//! An entry of the unified cache.

use super::mask::MaskInUse;
use crate::nat_rewrite::NatRewrite;
use crate::path_id::PathId;
use flow::{ConnectionRef, HEADER_WORDS, Headers, IPV4_WORDS};

/// Entries per set. A hash selects a set and a place in it, and a second set for when that is full.
pub(super) const WAYS: usize = 4;

/// One cache line, all that is read for most packets.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(super) struct Entry {
    pub(super) words: [u64; IPV4_WORDS],
    pub(super) path_id: PathId,
    pub(super) connection_id: u32,
    pub(super) connection_generation: u32,
    /// The serial number of its mask; 0 for an empty place.
    pub(super) mask: u32,
    pub(super) flags: u16,
    spare: u16,
}

pub(super) const TRACKED: u16 = 1;
pub(super) const REPLY: u16 = 2;
pub(super) const NAT_REWRITTEN: u16 = 4;
pub(super) const TWICE: u16 = 16;
/// There is a connection in a second zone, with these flags:
pub(super) const SECOND: u16 = 32;
pub(super) const SECOND_REPLY: u16 = 64;
pub(super) const SECOND_TWICE: u16 = 128;
/// The entry was hit since its place was last considered for eviction.
pub(super) const USED: u16 = 8;

#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(super) struct Rest {
    pub(super) words: [u64; HEADER_WORDS - IPV4_WORDS],
    pub(super) nat_rewrite: Option<NatRewrite>,
}

/// The connection of a second zone.
#[derive(Clone, Copy)]
pub(super) struct Second {
    pub(super) id: u32,
    pub(super) generation: u32,
}

const _: () = assert!(size_of::<Entry>() == 64 && size_of::<Rest>() == 64);

impl Entry {
    pub(super) const EMPTY: Entry = Entry {
        words: [0; IPV4_WORDS],
        path_id: PathId::NONE,
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

    /// Whether the entry matches these headers, as far as its own words tell.
    #[inline(always)]
    pub(super) fn is_for(&self, headers: &Headers, in_use: &MaskInUse) -> bool {
        let (h, m) = (headers.words(), in_use.mask.words());
        let differs = |i: usize| h[i] & m[i] ^ self.words[i];
        let serial = u64::from(self.mask ^ in_use.serial);
        differs(4) | differs(3) | differs(0) | differs(1) | differs(2) | serial == 0
    }
}

impl Second {
    pub(super) const NONE: Second = Second { id: 0, generation: 0 };
}

impl Rest {
    pub(super) const EMPTY: Rest =
        Rest { words: [0; HEADER_WORDS - IPV4_WORDS], nat_rewrite: None };

    /// Whether the entry's further words match these headers, which are of IPv6.
    #[inline]
    pub(super) fn is_for(&self, headers: &Headers, mask: &Headers) -> bool {
        let (h, m) = (headers.words(), mask.words());
        let differs = |i: usize| h[IPV4_WORDS + i] & m[IPV4_WORDS + i] ^ self.words[i];
        differs(0) | differs(1) | differs(2) == 0
    }
}
