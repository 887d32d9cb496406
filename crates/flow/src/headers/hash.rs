//! Hashes of headers under a mask.

use super::{HEADER_WORDS, Headers};

impl Headers {
    /// Hashes the bits of a mask; `has_link` is the mask's [`Headers::has_link_bits`]. A product of two words
    /// that senders choose, masked by secrets, cannot be brought to a chosen value by them; what few masks look
    /// at gets a product of its own only where they do (after rapidhash and NH).
    #[inline(always)]
    pub fn hash(&self, mask: &Headers, has_link: bool, secrets: &[u64; HEADER_WORDS]) -> u64 {
        let (h, m, s) = (&self.words, &mask.words, secrets);
        let product = |i: usize, j: usize| fold(h[i] & m[i] ^ s[i], h[j] & m[j] ^ s[j]);
        let mut sum = product(3, 4) ^ h[0] & m[0] ^ h[1] & m[1];
        if has_link {
            sum ^= product(1, 2);
        }
        if self.is_ipv6() {
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
