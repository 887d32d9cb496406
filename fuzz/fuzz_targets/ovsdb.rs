//! Any bytes as what a database server says, in pieces of any size.

#![no_main]

use base::Instant;
use libfuzzer_sys::fuzz_target;
use ovsdb::{Monitor, Session, SessionConfig};

fuzz_target!(|data: &[u8]| {
    let Some((&step, bytes)) = data.split_first() else { return };
    let monitor = Monitor::default().whole_table("Bridge").whole_table("Open_vSwitch");
    let mut session = Session::new(SessionConfig::new("Open_vSwitch", monitor).with_lock("l"));
    session.connected(Instant::from_millis(1));
    for chunk in bytes.chunks(usize::from(step).max(1)) {
        session.receive(Instant::from_millis(2), chunk);
        let _ = session.take_output();
        while session.next_event().is_some() {}
    }
});
