//! Searches a bucket for a hash, all its entries at once.
//!
//! An entry's place is random, so a loop that ends at the match has a branch that is nearly always mispredicted. The
//! processor detects that only when the bucket arrives from memory, and discards the work that it did meanwhile, that of
//! the next packet included. The search therefore has no loop and one branch at the end.
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
    // SAFETY: needed because no safe operation loads several atomic words at once, and a plain load of them would race
    // with writers. To the compiler, this block may access any memory, so it stays between the loads before and after
    // it. It reads only the bucket, which the reference keeps alive, and writes only registers. The manuals guarantee
    // that aligned loads of 4 and 8 bytes are atomic (Intel SDM volume 3A, "Guaranteed Atomic Operations"; AMD64 APM
    // volume 2, section 7.3.2), but not how the processor divides a longer load. The result is correct for any division:
    // the bytes of an entry that no thread writes are the same in each part; an entry that a thread writes meanwhile may
    // be found or missed, as with separate loads, and the caller loads each found entry again, atomically.
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
