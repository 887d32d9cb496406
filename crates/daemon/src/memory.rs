//! Memory that the C library's allocator keeps after it was freed.

/// Memory of this size and above is the system's, which gets it back as it is freed.
#[cfg(target_env = "gnu")]
const OWN_MAPPING_BYTES: libc::c_int = 1 << 20;

/// Free memory goes back to the system by [`give_back`] alone. Otherwise the allocator gives hundreds of MB back in the
/// middle of anything that frees the last piece above them.
pub fn keep() {
    #[cfg(target_env = "gnu")]
    // SAFETY: Rust's library has no such function. It takes the allocator's locks itself, and changes nothing that is
    // in use.
    unsafe {
        // The allocator fixes this size, too, once one of both is set.
        libc::mallopt(libc::M_MMAP_THRESHOLD, OWN_MAPPING_BYTES);
        libc::mallopt(libc::M_TRIM_THRESHOLD, libc::c_int::MAX);
    }
}

/// Gives free memory back to the system. Threads that allocate meanwhile may wait, some 0.1 ms for each MB that is
/// given back. Without glibc it does nothing.
pub fn give_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: Rust's library has no such function. It takes the allocator's locks itself, and changes nothing that is
    // in use.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Returns how many bytes of the C library's allocator are in use. Without glibc it returns 0.
pub fn in_use() -> u64 {
    #[cfg(target_env = "gnu")]
    {
        // SAFETY: Rust's library has no such function. It takes the allocator's locks itself, and only reads.
        let counts = unsafe { libc::mallinfo2() };
        (counts.uordblks + counts.hblkhd) as u64
    }
    #[cfg(not(target_env = "gnu"))]
    0
}

#[cfg(all(test, target_env = "gnu"))]
mod tests {
    use super::*;

    #[test]
    fn large_and_small_pieces_are_in_use_until_they_are_freed() {
        for pieces in [vec![vec![1u8; 20_000_000]], vec![vec![1u8; 1000]; 20_000]] {
            let with = in_use();
            drop(pieces);
            let without = in_use();
            // Other tests of this process allocate less.
            assert!(without + 15_000_000 < with, "{with} bytes became {without}");
        }
    }

    fn resident_kb() -> u64 {
        let text = std::fs::read_to_string("/proc/self/statm").unwrap();
        text.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 4
    }

    #[test]
    fn what_was_freed_between_others_goes_back() {
        let mut all: Vec<Option<Box<[u8; 1000]>>> =
            (0..60_000).map(|_| Some(Box::new([1; 1000]))).collect();
        // Those that stay keep what is below them from going back by itself.
        all.iter_mut().enumerate().for_each(|(n, it)| {
            if n % 1000 > 0 {
                drop(it.take());
            }
        });
        let before = resident_kb();
        give_back();
        let after = resident_kb();
        assert!(after + 40_000 < before, "{before} kB became {after} kB");
        assert_eq!(all.iter().flatten().count(), 60);
    }
}
