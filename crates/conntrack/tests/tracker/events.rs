//! Events of connections for a watcher, and filters of connections.

use crate::support;
use base::{Instant, Zone};
use conntrack::{Config, Conntrack, CtFlush, Event, Filter, What};
use flow::{CtAction, Masked};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use support::Tracked;

fn send(tracked: &Tracked, at_ms: u64, text: &str, action: &CtAction) {
    let mut frame = support::frame(text);
    tracked.execute(Instant::from_millis(at_ms), action, std::slice::from_mut(&mut frame));
}

/// `new 1000`, `destroyed(conntrack_expired) 1001`: the change and the connection's source port.
fn told(tracked: &Tracked) -> Vec<String> {
    let changes = tracked.events();
    assert_eq!(changes.lost, 0);
    let text = |change: conntrack::Change| {
        let flow::TupleL4::Ports { src, .. } = change.entry.original.l4 else { return "?".into() };
        match change.what {
            What::Destroyed(why) => format!("{}({}) {src}", change.what.name(), why.name()),
            what => format!("{} {src}", what.name()),
        }
    };
    changes.changes.into_iter().map(text).collect()
}

#[test]
fn a_watcher_hears_of_everything_that_shows() {
    let tracked = support::tracker();
    let commit = support::commit(1);
    send(&tracked, 1, "10.0.0.1:999>20.0.0.1:80 udp len=4", &commit);
    assert_eq!(told(&tracked), [""; 0]);
    tracked.set_watched(true);
    send(&tracked, 2, "10.0.0.1:1000>20.0.0.1:80 S seq=100 win=1000", &commit);
    send(&tracked, 3, "20.0.0.1:80>10.0.0.1:1000 SA seq=900 ack=101 win=1000", &commit);
    send(&tracked, 4, "10.0.0.1:1000>20.0.0.1:80 A seq=101 ack=901 win=1000", &commit);
    send(&tracked, 5, "10.0.0.1:1000>20.0.0.1:80 A seq=101 ack=901 win=1000", &commit);
    assert_eq!(told(&tracked), ["new 1000", "updated 1000"]);
    let marked = CtAction { mark: Some(Masked { value: 7, mask: 7 }), ..commit.clone() };
    send(&tracked, 6, "10.0.0.1:1000>20.0.0.1:80 A seq=101 ack=901 win=1000", &marked);
    send(&tracked, 6, "10.0.0.1:1000>20.0.0.1:80 A seq=101 ack=901 win=1000", &marked);
    assert_eq!(told(&tracked), ["updated 1000"]);
    send(&tracked, 7, "10.0.0.1:1001>20.0.0.1:80 udp len=4", &commit);
    send(&tracked, 8, "20.0.0.1:80>10.0.0.1:1001 udp len=4", &commit);
    send(&tracked, 9, "10.0.0.1:1001>20.0.0.1:80 udp len=4", &commit);
    assert_eq!(told(&tracked), ["new 1001", "updated 1001"]);
    // The connection from before the watch is reported too.
    tracked.tick(Instant::from_millis(61_000));
    let mut gone = told(&tracked);
    gone.sort();
    let expired = "destroyed(conntrack_expired)";
    assert_eq!(gone, [format!("{expired} 1001"), format!("{expired} 999")]);
    tracked.flush(Instant::from_millis(61_001), &CtFlush::zone(Zone(1))).expect("a zone");
    while tracked.drain() {}
    assert_eq!(told(&tracked), ["destroyed(conntrack_flushed) 1000"]);
    tracked.set_watched(false);
    send(&tracked, 61_002, "10.0.0.1:1002>20.0.0.1:80 udp len=4", &commit);
    assert_eq!(told(&tracked), [""; 0]);
}

#[test]
fn every_end_has_its_reason() {
    // The maximum is two; an answered connection stays.
    let tracked = Tracked::new(3, Config { connections_max: 2, ..Config::default() });
    tracked.set_watched(true);
    let commit = support::commit(1);
    let syn = |port: u16| format!("10.0.0.1:{port}>20.0.0.1:80 S seq=100 win=1000");
    let back = |port: u16, flags: &str| format!("20.0.0.1:80>10.0.0.1:{port} {flags} win=1000");
    // `force` reverses its direction.
    send(&tracked, 1, "10.0.0.1:1>20.0.0.1:80 udp len=4", &commit);
    let force = CtAction { force: true, ..commit.clone() };
    send(&tracked, 2, "20.0.0.1:80>10.0.0.1:1 udp len=4", &force);
    assert_eq!(told(&tracked), ["new 1", "destroyed(conntrack_replaced) 1", "new 80"]);
    // Never answered, and dropped early for the third.
    send(&tracked, 3, &syn(2), &commit);
    send(&tracked, 3, &back(2, "SA seq=900 ack=101"), &commit);
    send(&tracked, 3, "10.0.0.1:2>20.0.0.1:80 A seq=101 ack=901 win=1000", &commit);
    send(&tracked, 4, &syn(3), &commit);
    let evicted = "destroyed(conntrack_evicted_unanswered) 80";
    assert_eq!(told(&tracked), ["new 2", "updated 2", evicted, "new 3"]);
    // Closed, and dropped early before an unanswered one.
    send(&tracked, 5, &back(2, "RA seq=901 ack=101"), &commit);
    send(&tracked, 6, &syn(4), &commit);
    let evicted = "destroyed(conntrack_evicted_closed) 2";
    assert_eq!(told(&tracked), ["updated 2", evicted, "new 4"]);
    // By a flush, and by time.
    let mut one = CtFlush::default();
    conntrack::flush::add_tuple(
        &mut one,
        conntrack::Direction::Original,
        "ct_nw_proto=6,ct_tp_src=4",
    )
    .expect("a tuple");
    assert_eq!(tracked.flush(Instant::from_millis(7), &one), Ok(1));
    assert_eq!(told(&tracked), ["destroyed(conntrack_flushed) 4"]);
    tracked.tick(Instant::from_millis(60_000));
    assert_eq!(told(&tracked), ["destroyed(conntrack_expired) 3"]);
}

#[test]
fn what_nobody_fetches_is_lost_and_counted() {
    let tracked = Tracked::new(3, Config { connections_max: 1 << 20, ..Config::default() });
    tracked.set_watched(true);
    for n in 0..9000 {
        let text = format!("10.0.{}.{}:1000>20.0.0.1:80 udp len=4", n / 250, n % 250 + 1);
        send(&tracked, 1, &text, &support::commit(1));
    }
    let changes = tracked.events();
    assert_eq!(changes.changes.len() as u64 + changes.lost, 9000);
    assert!(changes.lost > 0 && changes.changes.len() >= 4096, "{}", changes.lost);
    assert_eq!(tracked.counters().get(Event::Created), 9000);
}

#[test]
fn filters_choose_by_all_that_a_connection_has() {
    let tracked = support::tracker();
    let mark = CtAction { mark: Some(Masked { value: 5, mask: 0xf }), ..support::commit(1) };
    let label =
        CtAction { label: Some(Masked { value: 9 << 64, mask: u128::MAX }), ..support::commit(2) };
    let nat = CtAction { nat: Some(support::nat("src=30.0.0.1")), ..support::commit(3) };
    send(&tracked, 1, "10.0.0.1:1000>20.0.0.1:80 udp len=4", &mark);
    send(&tracked, 1, "10.0.0.2:1001>20.0.0.1:443 S seq=1 win=9", &label);
    send(&tracked, 1, "10.0.1.3:1002>20.0.0.1:53 udp len=4", &nat);
    send(&tracked, 1, "[fd00::1]:1003>[fd00::2]:53 udp len=4", &support::commit(1));
    send(&tracked, 1, "10.0.2.4:1004>20.0.0.1:80 sctp chunks=init/7", &support::commit(4));
    let cases: [(&str, &[u16]); 20] = [
        ("", &[1000, 1001, 1002, 1003, 1004]),
        ("source=10.0.0.0/16", &[1000, 1001, 1002, 1004]),
        ("source=20.0.0.0/8", &[]),
        ("source=30.0.0.1", &[]),
        ("destination=20.0.0.0/8 protocol=udp", &[1000, 1002]),
        ("protocol=sctp state=closed", &[1004]),
        ("state=cookie_wait", &[]),
        ("state=closed", &[1004]),
        ("zone=1", &[1000, 1003]),
        ("network=10.0.0.0/24", &[1000, 1001]),
        ("network=30.0.0.1", &[1002]),
        ("network=fd00::/8", &[1003]),
        ("port=53", &[1002, 1003]),
        ("port=1001", &[1001]),
        ("protocol=tcp", &[1001]),
        ("mark=0x4/0xc", &[1000]),
        ("label=0x90000000000000000", &[1001]),
        ("state=syn_sent", &[1001]),
        ("state=established", &[]),
        ("zone=1 port=53", &[1003]),
    ];
    for (texts, expect) in cases {
        let mut filter = Filter::default();
        texts.split_whitespace().for_each(|text| filter.add(text).expect("a filter"));
        let mut found: Vec<u16> = Vec::new();
        let mut cursor = Some(conntrack::Cursor::default());
        while let Some(at) = cursor {
            let page = tracked.dump(Instant::from_millis(2), &filter, at);
            for entry in page.entries {
                if let flow::TupleL4::Ports { src, .. } = entry.original.l4 {
                    found.push(src);
                }
            }
            assert_eq!(page.next.map(|next| next.to_string().parse()), page.next.map(Ok));
            cursor = page.next;
        }
        found.sort_unstable();
        assert_eq!(found, expect, "{texts}");
        assert_eq!(tracked.stats(Instant::from_millis(2), &filter).total as usize, expect.len());
    }
    // Flushes by mark and label visit only their zone.
    let by_mark = CtFlush { mark: Some(Masked { value: 5, mask: 0xf }), ..CtFlush::zone(Zone(1)) };
    assert_eq!(tracked.flush(Instant::from_millis(2), &by_mark), Ok(1));
    let by_label =
        CtFlush { label: Some(Masked { value: 9 << 64, mask: 9 << 64 }), ..CtFlush::default() };
    assert_eq!(tracked.flush(Instant::from_millis(2), &by_label), Ok(1));
    assert_eq!(tracked.connections(), 3);
}

/// One thread creates connections and another ends them at once: each is first reported as new.
#[test]
fn no_end_is_told_before_the_beginning() {
    let conntrack = Arc::new(Conntrack::new(5, Config::default()));
    let mut tracker = conntrack.tracker().expect("a tracker");
    conntrack.set_watched(true);
    let (now, zone) = (Instant::from_millis(1), CtFlush::zone(Zone(1)));
    let mut told: HashMap<u16, Vec<&str>> = HashMap::new();
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        // Even if the other thread panics, which would otherwise wait forever.
        let _end = End(&is_over);
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                conntrack.flush(now, &zone).expect("a zone");
                while conntrack.drain() {}
            }
        });
        for first in (1000..21_000).step_by(20) {
            let syn = |port| support::frame(&format!("10.0.0.1:{port}>20.0.0.1:80 udp len=4"));
            let mut frames: Vec<_> = (first..first + 20).map(syn).collect();
            tracker.execute(now, &support::commit(1), &mut frames);
            // Sometimes both changes are reported at once.
            if first % 100 == 0 {
                collect(&conntrack, &mut told);
            }
        }
    });
    conntrack.flush(now, &zone).expect("a zone");
    while conntrack.drain() {}
    collect(&conntrack, &mut told);
    assert_eq!(told.len(), 20_000);
    told.retain(|_, what| *what != ["new", "destroyed"]);
    assert_eq!(told, HashMap::new());
}

/// Sets a flag when it is dropped.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The reported changes by source port.
fn collect(conntrack: &Conntrack, told: &mut HashMap<u16, Vec<&str>>) {
    let changes = conntrack.events();
    assert_eq!(changes.lost, 0);
    for change in changes.changes {
        let flow::TupleL4::Ports { src, .. } = change.entry.original.l4 else { continue };
        told.entry(src).or_default().push(change.what.name());
    }
}
