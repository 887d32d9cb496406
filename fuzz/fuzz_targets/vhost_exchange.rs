//! Any messages of the program behind a guest's socket, with packets between them.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| port_vhost::fuzzing::exchange(data));
