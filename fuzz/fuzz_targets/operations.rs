//! Operations on a connection tracker and on an oracle, in any order: both say the same of each
//! packet, and know the same connections.

#![no_main]

#[path = "../../crates/conntrack/tests/support/operations.rs"]
mod operations;

use libfuzzer_sys::fuzz_target;
use operations::{Operation, run};

fuzz_target!(|operations: Vec<Operation>| {
    let some = operations.len().min(400);
    run(1, some % 2 == 0, &operations[..some]);
});
