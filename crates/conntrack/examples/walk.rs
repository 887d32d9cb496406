//! The cost of walking a table: `walk COUNT [ZONES]` creates COUNT connections, spread evenly over the zones
//! and over memory, and prints the processor time of various dumps and flushes, in total and of the longest
//! part. First `cargo build --release -p conntrack --example walk`.

use base::{Instant, PortNo, Zone};
use conntrack::flush::{add_mark, add_tuple};
use conntrack::{Config, Conntrack, CtFlush, Cursor, Direction, Filter};
use flow::{CtAction, Frame};
use packet::Packet;
use std::sync::Arc;
use std::time::Duration;

const NOW: Instant = Instant::from_millis(1_000_000);
const ROUNDS: usize = 5;

fn main() {
    let mut words = std::env::args().skip(1).filter_map(|word| word.parse::<u32>().ok());
    let (count, zones) = (words.next().unwrap_or(1_000_000), words.next().unwrap_or(1));
    let config = Config { connections_max: 1 << 28, ..Config::default() };
    let conntrack = Arc::new(Conntrack::new(7, config));
    fill(&conntrack, count, zones);
    println!("{} connections in {zones} zones", conntrack.connections());

    let none_such = Filter { port: Some(9), ..Filter::default() };
    let parts = || {
        let (mut cursor, mut longest) = (Some(Cursor::default()), Duration::ZERO);
        while let Some(at) = cursor {
            let start = processor();
            let page = conntrack.dump(NOW, &none_such, at);
            longest = longest.max(processor() - start);
            assert!(page.entries.is_empty(), "no connection has port 9");
            cursor = page.next;
        }
        longest
    };
    let longest = (0..ROUNDS).map(|_| parts()).min().unwrap_or_default();
    println!("longest part of a dump: {:.1} us", longest.as_secs_f64() * 1e6);
    timed("dump that shows nothing", count, || _ = parts());
    timed("dump that makes every line", count, || {
        let all = Filter::default();
        let lines = conntrack.entries(NOW, &all).map(|entry| entry.to_string().len());
        assert!(lines.sum::<usize>() > 0);
    });
    // Conditions that a zone's filter excludes, and others: every zone has such servers, and most have such a
    // client.
    let of_none = ["ct_nw_dst=9.9.9.9", "ct_nw_proto=6", "ct_nw_proto=17,ct_tp_dst=9"];
    let of_most = ["ct_nw_dst=20.0.0.1,ct_nw_proto=17,ct_tp_src=9", "ct_nw_src=10.200.0.1"];
    for tuple in of_none.into_iter().chain(of_most) {
        let mut flush = CtFlush::default();
        add_tuple(&mut flush, Direction::Original, tuple).expect("a tuple");
        let none = |flush: &CtFlush| assert_eq!(conntrack.flush(NOW, flush), Ok(0));
        timed(&format!("flush of {tuple}, which no connection has"), count, || none(&flush));
        flush.zone = Some(Zone(0));
        timed("the same in one zone", count, || none(&flush));
    }
    let mut flush = CtFlush::default();
    add_mark(&mut flush, "1").expect("a mark");
    timed("flush by a mark that no connection has", count, || {
        assert_eq!(conntrack.flush(NOW, &flush), Ok(0))
    });
    let mut flush = CtFlush::default();
    let tuple = "ct_nw_src=9.9.9.9,ct_nw_dst=9.9.9.9,ct_nw_proto=17,ct_tp_src=9,ct_tp_dst=9";
    add_tuple(&mut flush, Direction::Reply, tuple).expect("a tuple");
    timed("flush of a whole tuple, in all zones", count, || {
        assert_eq!(conntrack.flush(NOW, &flush), Ok(0));
    });
}

/// Processor time of this thread so far.
fn processor() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux tells it");
    let ns = text.split(' ').next().and_then(|word| word.parse().ok()).expect("nanoseconds");
    Duration::from_nanos(ns)
}

/// The shortest of some rounds.
fn timed(what: &str, count: u32, mut work: impl FnMut()) {
    let mut round = || {
        let start = processor();
        work();
        processor() - start
    };
    let best = (0..ROUNDS).map(|_| round()).min().unwrap_or_default();
    let each = best.as_nanos() as f64 / f64::from(count);
    println!("{what}: {:.3} ms, {each:.1} ns per connection", best.as_secs_f64() * 1e3);
}

fn fill(conntrack: &Arc<Conntrack>, count: u32, zones: u32) {
    let mut tracker = conntrack.tracker().expect("a tracker");
    let bytes = wire::text::parse("10.0.0.0:1>20.0.0.1:80 udp len=0").expect("a packet");
    let mut frame = Frame::parse(Packet::from_bytes(&bytes), PortNo(1)).expect("a frame");
    for number in 0..count {
        let zone = Zone((number % zones) as u16);
        let action = CtAction { zone, commit: true, ..CtAction::default() };
        let bytes = frame.packet.data_mut();
        bytes[26..30].copy_from_slice(&(0x0a00_0000 + number / zones).to_be_bytes());
        bytes[24..26].fill(0);
        let sum = wire::checksum::checksum(&bytes[14..34]);
        bytes[24..26].copy_from_slice(&sum.to_be_bytes());
        // No checksum: it would depend on the source.
        bytes[40..42].fill(0);
        frame.clear_ct();
        tracker.execute(NOW, &action, std::slice::from_mut(&mut frame));
    }
}
