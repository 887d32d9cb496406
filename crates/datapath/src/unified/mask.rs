//! A mask of cache entries, and hashing under it.

use flow::{HEADER_WORDS, Headers};

/// The keys of hashes; random, so that senders cannot provoke collisions.
pub(super) type Secrets = [u64; HEADER_WORDS];

/// A mask, and common properties of its entries.
#[derive(Clone, Copy)]
pub(super) struct MaskInUse {
    pub(super) mask: Headers,
    /// Differs from that of any earlier mask that entries may still refer to.
    pub(super) serial: u32,
    /// It was hit since the last tick.
    pub(super) is_used: bool,
    /// Some entries are of untracked packets.
    pub(super) has_untracked: bool,
    /// It covers Ethernet addresses or a VLAN tag.
    has_link: bool,
}

impl MaskInUse {
    pub(super) fn new(mask: Headers, serial: u32) -> Self {
        let has_link = mask.has_link_bits();
        MaskInUse { mask, serial, is_used: true, has_untracked: false, has_link }
    }

    /// The hash of these headers. A product of two words that senders choose, masked by secrets, cannot be
    /// forced to a chosen value; words that few masks cover get a product of their own only under these masks
    /// (after rapidhash and NH).
    #[inline(always)]
    pub(super) fn hash(&self, headers: &Headers, secrets: &Secrets) -> u64 {
        headers.hash(&self.mask, self.has_link, secrets)
    }
}
