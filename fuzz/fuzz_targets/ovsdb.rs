//! Any bytes as what a database server says, in pieces of any size; what rows they hold are made a
//! configuration, and transactions go on meanwhile.

#![no_main]

use base::Instant;
use control::Desired;
use libfuzzer_sys::fuzz_target;
use ovsdb::{Event, Monitor, Session, SessionConfig, Transaction};
use std::time::Duration;

fuzz_target!(|data: &[u8]| {
    let Some((&step, bytes)) = data.split_first() else { return };
    let tables = ["Open_vSwitch", "Bridge", "Port", "Interface", "Controller"];
    let monitor = tables.iter().fold(Monitor::default(), |all, table| all.whole_table(table));
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
