//! The tracker does as the oracle does: commits, answers, closes, flushes, time, the maximum and
//! limits as they change, and translation, in any order. The fuzz target `operations` runs the same.

#[path = "support/oracle.rs"]
mod oracle;

use oracle::{Operation, run};
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn the_tracker_does_as_the_oracle_does(
        seed: u64,
        operations in proptest::collection::vec(any::<Operation>(), 0..400),
    ) {
        run(seed, &operations);
    }
}
