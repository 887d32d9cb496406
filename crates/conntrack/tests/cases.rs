//! Runs `testdata/conntrack/*.toml`: packets in, what is said of them out.
//!
//! A step is a packet or an order to the tracker. `in` is a packet in `wire::text`'s form; `again`
//! sends the packet of the step before through once more, as recirculation does; `save` puts the
//! packet aside under a name, and `recall` sends it through once more later. The action is `zone`,
//! `commit`, `force`, `mark`, `label`, `nat` (`support::nat`) and `helper`. Steps are 1 ms apart
//! unless `at_ms` says when.
//!
//! `part` cuts the packet up: `[start, end]` of the bytes behind its IP header go in alone, as a
//! fragment. Where the step then has `parts`, these are the fragments that come out, each as its
//! state and its text; none stay to be sent `again`.
//!
//! What is then expected: `ct` the state, `out` the packet, `is_mark`, `is_label`, `tuple` the
//! original tuple in the key; and of the tracker: `dump` and `dump_all` (with `-m -s`) its lines,
//! `chosen` by a filter (`tidegate conntrack`'s words) which source ports, `stats` and `limits` texts, `count` counters, `connections` their number. Without `out` the
//! bytes must not change unless there is `nat`.
//!
//! Open vSwitch 3.1.0 gives the same states, packets and dumps, but where a case says that it
//! `differs`.

mod support;

use support::Tracked;

#[test]
fn all_cases() {
    support::case::run_all(|config| Tracked::new(7, config));
}
