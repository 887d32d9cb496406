//! A mask that entries were remembered under, and hashing by it.

use flow::{HEADER_WORDS, Headers};

/// What hashes are keyed with; random, so that senders cannot choose what collides.
pub(super) type Secrets = [u64; HEADER_WORDS];

/// A mask, and what is known of all entries under it.
#[derive(Clone, Copy)]
pub(super) struct MaskInUse {
    pub(super) mask: Headers,
    /// Different from that of any mask before it that entries may still name.
    pub(super) serial: u32,
    /// Since the last tick.
    pub(super) is_used: bool,
    /// Of some entries the packets are not tracked.
    pub(super) has_untracked: bool,
    /// It looks at Ethernet addresses or at a VLAN tag.
    has_link: bool,
}

impl MaskInUse {
    pub(super) fn new(mask: Headers, serial: u32) -> Self {
        let [_, link, tagged, ..] = *mask.words();
        let has_link = link & !0xffff | tagged != 0;
        MaskInUse { mask, serial, is_used: true, has_untracked: false, has_link }
    }

    /// Says where packets with these headers are looked for. A product of two words that senders
    /// choose, masked by secrets, cannot be brought to a chosen value by them; what few masks look
    /// at gets a product of its own only where they do (after rapidhash and NH).
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
