//! The tracker does as the oracle does: commits, answers, segments in and out of their windows,
//! handshakes and ends of SCTP, FTP's and TFTP's announcements, ICMP errors, fragments, flushes, time,
//! the maximum and limits as they change, and translation, in any order. The fuzz target `operations`
//! runs the same.

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
