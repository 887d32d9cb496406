//! Any bytes as what a database server says, in pieces of any size; what rows they hold are made a
//! configuration, and what a switch may report of them is written back.

#![no_main]

use base::Instant;
use control::Desired;
use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};
use ovsdb::{Datum, Event, Framer, Message, Session, SessionConfig};
use std::time::Duration;
use tidegate_fuzz::dice::Dice;
use tidegate_fuzz::json::mutate;
use tidegate_fuzz::known::VALUES;
use tidegate_fuzz::status::status;

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    mutate(data, (size, max_size, 1), seed, &VALUES, fuzzer_mutate)
});

fuzz_target!(|data: &[u8]| {
    let Some((&step, bytes)) = data.split_first() else { return };
    let monitor = control::monitored();
    let mut session = Session::new(SessionConfig::new("Open_vSwitch", monitor).with_lock("l"));
    let mut dice = Dice::new(step.into());
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
                let status = status(session.replica(), &mut dice);
                for transaction in control::report(session.replica(), &status) {
                    let _ = session.transact(transaction);
                }
            }
        }
        sent(&session.take_output());
    }
    session.disconnected(now);
    while session.next_event().is_some() {}
});

/// What is sent is whole messages; the rows in its transactions are read back as they were written.
fn sent(bytes: &[u8]) {
    let mut framer = Framer::default();
    framer.push(bytes);
    let mut length = 0;
    while let Some(message) = framer.next_message().expect("framed") {
        length += message.len();
        let message = Message::parse(message).expect("a message");
        let Message::Request { method, params, .. } = message else { continue };
        let operations = params.as_array().filter(|_| method == "transact");
        for row in operations.into_iter().flatten().filter_map(|operation| operation.get("row")) {
            for (column, value) in row.as_object().into_iter().flatten() {
                let datum = Datum::parse(value).unwrap_or_else(|error| panic!("{column}: {error}"));
                assert_eq!(datum.to_json(), *value, "{column}");
            }
        }
    }
    assert_eq!(length, bytes.len(), "nothing of a message is left");
}
