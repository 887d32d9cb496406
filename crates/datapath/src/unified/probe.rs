//! A probe, for one packet or several in a row.

use super::entry::WAYS;

/// The places to look in, and the packets of the batch that it is for.
#[derive(Clone, Copy, Default)]
pub(super) struct Probe {
    pub(super) hash: u64,
    pub(super) mask: u8,
    /// The first packet and the number of packets.
    pub(super) first: u8,
    pub(super) packets: u8,
    /// The first place has no matching entry or tag.
    pub(super) is_away: bool,
}

impl Probe {
    pub(super) fn of(hash: u64, mask: usize) -> Probe {
        Probe { hash, mask: mask as u8, ..Probe::default() }
    }

    /// The first place. `last` is the last place of the cache; all its bits are set.
    #[inline(always)]
    pub(super) fn home(&self, last: usize) -> usize {
        self.hash as usize & last
    }

    /// The place in the second set, for when the first set is full.
    #[inline(always)]
    pub(super) fn other(&self, last: usize) -> usize {
        (self.hash >> 32) as usize & last
    }

    /// The tag; never 0.
    #[inline(always)]
    pub(super) fn tag(&self) -> u8 {
        (self.hash >> 24) as u8 | 1
    }

    /// All places, the first one first.
    pub(super) fn places(&self, last: usize) -> impl Iterator<Item = usize> + use<> {
        let (home, other) = (self.home(last), self.other(last));
        (0..2 * WAYS).map(move |i| if i < WAYS { home ^ i } else { other ^ (i - WAYS) })
    }
}
