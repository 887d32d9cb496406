//! What must not be known outside: seeds of the hashes of what senders choose.
//!
//! `fastrand` seeds itself from the time since the machine started. That is good enough for choices,
//! and something that a sender may guess: TCP timestamps tell it.

use std::hash::{BuildHasher, RandomState};

/// A number from the system's own random numbers.
pub fn secret() -> u64 {
    // The standard library keys its own maps with them, and gives what nothing hashes to.
    RandomState::new().hash_one(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_have_nothing_in_common() {
        let secrets: Vec<u64> = (0..64).map(|_| secret()).collect();
        let ones: u32 = secrets.windows(2).map(|pair| (pair[0] ^ pair[1]).count_ones()).sum();
        // 63 times 32 of 64 bits on average; ten times the deviation of that to either side.
        assert!((1700..2340).contains(&ones), "{ones}: {secrets:x?}");
    }

    #[test]
    fn another_threads_secret_is_another() {
        let there = std::thread::spawn(secret).join().expect("no panic");
        assert_ne!(there, secret());
    }
}
