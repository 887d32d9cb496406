//! The step of keyed hashes.

/// The two halves of the product of two words, xored, as wyhash and rapidhash do. Each word is masked with a
/// secret: without it a sender cannot choose what collides.
#[inline(always)]
pub fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}
