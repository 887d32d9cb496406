//! Secret seeds of hashes over data that senders choose.
//!
//! `fastrand` is seeded from the time since the machine started. That suffices for random choices, but a
//! sender can guess it, because TCP timestamps reveal it.

use std::hash::{BuildHasher, RandomState};

/// Returns a number from the system's random source.
pub fn secret() -> u64 {
    // The standard library keys its hash maps with random numbers; this is the hash of nothing with such a
    // key.
    RandomState::new().hash_one(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_have_nothing_in_common() {
        let secrets: Vec<u64> = (0..64).map(|_| secret()).collect();
        let ones: u32 = secrets.windows(2).map(|pair| (pair[0] ^ pair[1]).count_ones()).sum();
        // 63 times 32 of 64 bits on average, and ten standard deviations to either side.
        assert!((1700..2340).contains(&ones), "{ones}: {secrets:x?}");
    }

    #[test]
    fn another_threads_secret_is_another() {
        let there = std::thread::spawn(secret).join().expect("no panic");
        assert_ne!(there, secret());
    }
}
