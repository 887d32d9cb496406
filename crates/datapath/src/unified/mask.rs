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
        let [_, link, tagged, ..] = *mask.words();
        let has_link = link & !0xffff | tagged != 0;
        MaskInUse { mask, serial, is_used: true, has_untracked: false, has_link }
    }

    /// The hash of these headers. A product of two words that senders choose, masked by secrets, cannot be
    /// forced to a chosen value; words that few masks cover get a product of their own only under these masks
    /// (after rapidhash and NH).
    #[inline(always)]
    pub(super) fn hash(&self, headers: &Headers, secrets: &Secrets) -> u64 {
        let (h, m, s) = (headers.words(), self.mask.words(), secrets);
        let product = |i: usize, j: usize| fold(h[i] & m[i] ^ s[i], h[j] & m[j] ^ s[j]);
        let mut sum = product(3, 4) ^ h[0] & m[0] ^ h[1] & m[1];
        if self.has_link {
            sum ^= product(1, 2);
        }
        if headers.is_ipv6() {
            sum ^= product(5, 6) ^ fold(h[7] & m[7] ^ s[7], s[1] | 1);
        }
        fold(sum ^ s[0], s[2] | 1)
    }
}

#[inline(always)]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    (product >> 64) as u64 ^ product as u64
}
