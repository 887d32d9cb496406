//! Any vnet header before any frame, through a whole switch: what leaves it is what its rules saw.

#![no_main]

#[path = "../../crates/datapath/tests/support/bench.rs"]
mod bench;
#[path = "../../crates/datapath/tests/support/unfinished.rs"]
mod unfinished;

use libfuzzer_sys::fuzz_target;
use std::cell::RefCell;
use unfinished::Rig;

thread_local! {
    static RIG: RefCell<Rig> = RefCell::new(Rig::new());
}

fuzz_target!(|data: &[u8]| {
    if let Some((header, frame)) = data.split_first_chunk() {
        RIG.with_borrow_mut(|rig| rig.check(header, frame));
    }
});
