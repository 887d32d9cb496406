//! The tracker agrees with the oracle on random operations in any order: commits, replies, segments inside
//! and outside of their windows, SCTP handshakes and shutdowns, FTP and TFTP announcements, ICMP errors,
//! fragments, flushes, time, changes of the maximum and of limits, and NAT. The fuzz target `operations` runs
//! the same.

#[path = "support/operations.rs"]
mod operations;

use operations::{Operation, fill, run};
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn the_tracker_does_as_the_oracle_does(
        seed: u64,
        early_drop: bool,
        operations in proptest::collection::vec(any::<Operation>(), 0..400),
    ) {
        run(seed, early_drop, &operations);
    }

    #[test]
    fn early_drop_takes_the_connections_that_the_oracle_does(
        seed: u64,
        max in 30_u32..110,
        operations in proptest::collection::vec(any::<Operation>(), 150..400),
    ) {
        fill(seed, max, &operations);
    }
}
