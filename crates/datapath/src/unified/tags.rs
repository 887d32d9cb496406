//! Tags: one byte of each entry's hash. For a packet without an entry, mostly nothing else is read.

use super::entry::WAYS;
use super::probe::Probe;
use table::Array;

/// A set's tags in one word.
const BYTES: u32 = 0x0101_0101;

const _: () = assert!(WAYS == size_of::<u32>());

/// The tags of all places, set by set. 0 marks an empty place; no hash yields it.
#[derive(Default)]
pub(super) struct Tags {
    sets: Array<u32>,
}

impl Tags {
    /// The tags of this many empty places, a multiple of the set size.
    pub(super) fn empty(places: usize, pause: &mut dyn FnMut()) -> Tags {
        Tags { sets: Array::filled(0, places / WAYS, pause) }
    }

    /// The tag at a place.
    #[inline]
    pub(super) fn at(&self, place: usize) -> u8 {
        (self.sets[place / WAYS] >> (place % WAYS * 8)) as u8
    }

    /// Writes the tag at a place.
    pub(super) fn set(&mut self, place: usize, tag: u8) {
        let shift = place % WAYS * 8;
        let set = &mut self.sets[place / WAYS];
        *set = *set & !(0xff << shift) | u32::from(tag) << shift;
    }

    /// Whether any place of the two sets may match. A byte of the difference is zero if its tag matches, and
    /// subtracting one from it then borrows (H. S. Warren, Hacker's Delight, section 6-1).
    #[inline]
    pub(super) fn may_have(&self, probe: &Probe, last: usize) -> bool {
        let wanted = BYTES * u32::from(probe.tag());
        let has = |place: usize| {
            let differs = self.sets[place / WAYS] ^ wanted;
            differs.wrapping_sub(BYTES) & !differs & BYTES << 7
        };
        has(probe.home(last)) | has(probe.other(last)) != 0
    }

    /// Prefetches the entries of a probe's two sets.
    #[inline]
    pub(super) fn prefetch(&self, probe: &Probe, last: usize) {
        self.sets.prefetch(probe.home(last) / WAYS);
        self.sets.prefetch(probe.other(last) / WAYS);
    }
}
