//! Any bytes as what a database server says, in pieces of any size; what rows they hold are made a
//! configuration, and transactions go on meanwhile.

#![no_main]

use base::Instant;
use control::Desired;
use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};
use ovsdb::{Event, Session, SessionConfig, Transaction};
use std::time::Duration;
use tidegate_fuzz::json::mutate;
use tidegate_fuzz::known::VALUES;

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    mutate(data, (size, max_size, 1), seed, &VALUES, fuzzer_mutate)
});

fuzz_target!(|data: &[u8]| {
    let Some((&step, bytes)) = data.split_first() else { return };
    let monitor = control::monitored();
    let mut session = Session::new(SessionConfig::new("Open_vSwitch", monitor).with_lock("l"));
    let mut now = Instant::from_millis(1);
    session.connected(now);
    // In steps of a few bytes, inputs take long to run.
    for chunk in bytes.chunks(usize::from(step).max(1) * 8) {
        now = now + Duration::from_millis(100);
        session.receive(now, chunk);
        session.tick(now);
        while let Some(event) = session.next_event() {
            if let Event::Updated(_) | Event::Connected { .. } = event {
                let (desired, _) = Desired::from_rows(session.replica());
                assert!(control::difference(&desired, &desired).is_empty());
                let _ = control::next_cfg(session.replica());
                let _ = session.transact(Transaction::new());
            }
        }
        let _ = session.take_output();
    }
    session.disconnected(now);
    while session.next_event().is_some() {}
});
