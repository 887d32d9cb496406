//! Looking through a bucket for a hash, all its entries at once.
//!
//! Where an entry stands is chance: a processor that leaves a loop there guesses wrong nearly always, learns
//! it only when the bucket has come from memory, and has to begin anew what could have gone on meanwhile,
//! the next packet's work included. So there is no loop to leave, and one branch at the end.
//!
//! This is one of five places in the crate with `unsafe`: only instructions read words of several
//! atomics at once.

use super::Bucket;

/// Returns the places of entries with this hash as bits by word; bit 0, the control word, is never
/// set.
///
/// Each word is read once, whole and in no order, as by relaxed loads. A caller then reads the
/// entry itself.
#[inline(always)]
pub(crate) fn places(bucket: &Bucket, hash: u32) -> u32 {
    #[cfg(all(target_arch = "x86_64", not(any(miri, loom))))]
    let places = together(bucket, hash);
    #[cfg(not(all(target_arch = "x86_64", not(any(miri, loom)))))]
    let places = one_by_one(bucket, hash);
    places & !1
}

/// With SSE2, which every x86-64 has: half the instructions of eight loads and compares.
#[cfg(all(target_arch = "x86_64", not(any(miri, loom))))]
#[inline(always)]
fn together(bucket: &Bucket, hash: u32) -> u32 {
    use core::arch::asm;
    let places: u32;
    // SAFETY: needed because nothing safe loads several atomic words at once, and a plain load of them
    // would race with those that write. Instructions do not: the processor reads aligned words of
    // eight bytes whole, also as parts of a longer load, and the compiler takes this for something
    // that may touch any memory, so that it stays between the loads before and after it. What is read
    // is the bucket, which the reference proves to be there; nothing is written but registers.
    unsafe {
        asm!(
            "movd {hash_of}, {hash:e}",
            "pshufd {hash_of}, {hash_of}, 0",
            "movups {low}, [{bucket}]",
            "movups {next}, [{bucket} + 16]",
            // The upper halves of four words: their hashes.
            "shufps {low}, {next}, 0xdd",
            "movups {high}, [{bucket} + 32]",
            "movups {next}, [{bucket} + 48]",
            "shufps {high}, {next}, 0xdd",
            "pcmpeqd {low}, {hash_of}",
            "pcmpeqd {high}, {hash_of}",
            "packssdw {low}, {high}",
            "packsswb {low}, {low}",
            "pmovmskb {places:e}, {low}",
            bucket = in(reg) bucket.as_ptr(),
            hash = in(reg) hash,
            places = lateout(reg) places,
            hash_of = out(xmm_reg) _,
            low = out(xmm_reg) _,
            high = out(xmm_reg) _,
            next = out(xmm_reg) _,
            options(nostack, preserves_flags),
        );
    }
    places & 0xff
}

/// Without SSE2, and for tools that do not follow instructions.
#[cfg(any(test, not(target_arch = "x86_64"), miri, loom))]
fn one_by_one(bucket: &Bucket, hash: u32) -> u32 {
    let words = bucket.iter().enumerate();
    words.fold(0, |places, (at, word)| {
        places | u32::from(crate::bucket::Entry::is_at(word, hash)) << at
    })
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::atomic::AtomicU64;
    use proptest::prelude::*;

    proptest! {
        // Miri has no files to write failures to, and little time.
        #![proptest_config(ProptestConfig {
            cases: if cfg!(miri) { 8 } else { 256 },
            failure_persistence: None,
            ..ProptestConfig::default()
        })]

        #[test]
        fn every_place_is_found_and_no_other(
            words in any::<[u64; 8]>(), like in any::<[bool; 8]>(), hash: u32,
        ) {
            let word = |at: usize| match like[at] {
                true => u64::from(hash) << 32 | words[at] >> 32,
                false => words[at],
            };
            let bucket: Bucket = std::array::from_fn(|at| AtomicU64::new(word(at)));
            let expect = (1..8).filter(|&at| (word(at) >> 32) as u32 == hash);
            let expect = expect.fold(0, |places, at| places | 1 << at);
            prop_assert_eq!(places(&bucket, hash), expect);
            prop_assert_eq!(one_by_one(&bucket, hash) & !1, expect);
        }
    }
}
