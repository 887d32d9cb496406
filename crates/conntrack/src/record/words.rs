//! A record's words, of either IP version.

use super::{Record, WORDS_V4, WORDS_V6};
use table::atomic::AtomicU64;

/// A record's words as one reference, smaller than a [`Record`] and specific to an IP version.
pub(crate) trait Words<'a>: Copy {
    fn record(self) -> Record<'a>;

    /// The original direction's addresses and the rest of its key.
    fn original(self) -> ([u64; 4], u64);
}

impl<'a> Words<'a> for &'a [AtomicU64; WORDS_V4] {
    #[inline(always)]
    fn record(self) -> Record<'a> {
        Record::v4(self)
    }

    #[inline(always)]
    fn original(self) -> ([u64; 4], u64) {
        let (addresses, rest) = self.record().key_v4(false);
        (wide(addresses), rest)
    }
}

impl<'a> Words<'a> for &'a [AtomicU64; WORDS_V6] {
    #[inline(always)]
    fn record(self) -> Record<'a> {
        Record::v6(self)
    }

    #[inline(always)]
    fn original(self) -> ([u64; 4], u64) {
        self.record().key_v6(false)
    }
}

/// IPv4 addresses in the layout of the key fields, which both IP versions share.
#[inline(always)]
pub(crate) fn wide(addresses: u64) -> [u64; 4] {
    [0, addresses >> 32, 0, addresses & 0xffff_ffff]
}
