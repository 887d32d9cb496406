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

    /// Says where packets with these headers are looked for.
    #[inline(always)]
    pub(super) fn hash(&self, headers: &Headers, secrets: &Secrets) -> u64 {
        headers.hash(&self.mask, self.has_link, secrets)
    }
}
