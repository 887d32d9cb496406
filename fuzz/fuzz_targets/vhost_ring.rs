//! Any contents of a guest's ring, which change while the switch is at it.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| port_vhost::fuzzing::ring(data));
