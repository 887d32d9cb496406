//! Short runs for `valgrind --tool=callgrind`, which counts instructions independently of other load: `cost
//! lookup|each|random|insert|single|refill|known|tcp COUNT`, from the repository's root; first `cargo build
//! --release -p conntrack --example cost`. Prints nanoseconds per packet.

mod support;

use base::{Instant, PortNo, Zone};
use conntrack::{Config, Conntrack, CtFlush, Tracker};
use flow::{CtAction, Frame, Headers};
use packet::Packet;
use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;
use support::set_source;

const NOW: Instant = Instant::from_millis(1_000_000);

fn frame(number: u32, tcp: bool) -> Frame {
    let [a, b, c] = [number >> 16 & 0xff, number >> 8 & 0xff, number & 0xff];
    let port = 1024 + (number >> 24);
    let text = match tcp {
        false => format!("10.{a}.{b}.{c}:{port}>20.0.0.1:80 udp len=0"),
        true => format!("10.{a}.{b}.{c}:{port}>20.0.0.1:80 A seq=1 ack=1 win=1000 len=0"),
    };
    let mut bytes = wire::text::parse(&text).expect("a packet");
    if !tcp {
        // As in Open vSwitch's measurements, UDP has no checksum.
        bytes[40..42].fill(0);
    }
    Frame::parse(Packet::from_bytes(&bytes), PortNo(1)).expect("a frame")
}

fn track(tracker: &mut Tracker, action: &CtAction, frames: &mut [Frame]) {
    frames.iter_mut().for_each(Frame::clear_ct);
    tracker.execute(NOW, action, black_box(frames));
}

fn main() {
    let mut words = std::env::args().skip(1);
    let what = words.next().unwrap_or_else(|| "lookup".into());
    let count: u32 = words.next().and_then(|word| word.parse().ok()).unwrap_or(1_000_000);
    let config = Config { connections_max: 1 << 28, ..Config::default() };
    let conntrack = Arc::new(Conntrack::new(7, config));
    let mut tracker = conntrack.tracker().expect("a tracker");
    let action = CtAction { commit: true, ..CtAction::default() };
    let mut random = fastrand::Rng::with_seed(1);
    let start = std::time::Instant::now();
    let (packets, elapsed) = match what.as_str() {
        "lookup" | "each" | "tcp" => {
            let number = |at| if what == "each" { at } else { 1 };
            let mut frames: Vec<Frame> =
                (0..32).map(|at| frame(number(at), what == "tcp")).collect();
            for _ in 0..count / 32 {
                track(&mut tracker, &action, &mut frames);
            }
            (count, start.elapsed())
        }
        "known" => {
            let mut frames = vec![frame(1, true)];
            track(&mut tracker, &action, &mut frames);
            track(&mut tracker, &action, &mut frames);
            let known = frames[0].connection.expect("a connection");
            for _ in 0..count {
                assert!(tracker.follow_known(NOW, known, black_box(&frames[0])));
            }
            (count, start.elapsed())
        }
        "random" => {
            let mut frames: Vec<Frame> = (0..32).map(|_| frame(1, false)).collect();
            for number in 0..count {
                set_source(&mut frames[0], number);
                track(&mut tracker, &action, &mut frames[..1]);
            }
            let passes = passes(200, || {
                for _ in 0..256 {
                    for frame in &mut frames {
                        set_source(frame, random.u32(..count));
                    }
                    track(&mut tracker, &action, &mut frames);
                }
            });
            (256 * 32, passes)
        }
        "insert" => insert(&mut tracker, count),
        "single" => {
            let mut frames: Vec<Frame> = (0..10_000).map(|at| frame(at, false)).collect();
            let passes = passes(count / 10_000, || {
                for frame in &mut frames {
                    track(&mut tracker, &action, std::slice::from_mut(frame));
                }
            });
            (10_000, passes)
        }
        "refill" => {
            refill(&conntrack, &mut tracker, count / 10_000);
            return;
        }
        other => panic!("{other} is not known"),
    };
    println!("{what}: {:.1} ns per packet", elapsed.as_nanos() as f64 / f64::from(packets));
}

/// The shortest of this many passes, without the first; `None` if no pass may read the clock.
fn passes(count: u32, mut pass: impl FnMut()) -> Duration {
    pass();
    let timed = |_| {
        let start = std::time::Instant::now();
        pass();
        start.elapsed()
    };
    (0..count).map(timed).min().unwrap_or_default()
}

/// Flushes and refills one zone repeatedly while others stay, as `tidegate bench zones` does; the shortest
/// time counts, which is the most reliable on a loaded machine.
fn refill(conntrack: &Conntrack, tracker: &mut Tracker, rounds: u32) {
    let mut packets: Vec<Packet> = (0..10_000).map(|at| frame(at, false).packet).collect();
    let (mut place, mut headers) = (Frame::empty(), Headers::none());
    let mut all = |tracker: &mut Tracker, zone, commit| {
        let action = CtAction { zone: Zone(zone), commit, ..CtAction::default() };
        let start = std::time::Instant::now();
        for packet in &mut packets {
            std::mem::swap(&mut place.packet, packet);
            assert!(place.read(PortNo(1), &mut headers));
            headers.write_protocol(&mut place.key);
            track(tracker, &action, std::slice::from_mut(&mut place));
            std::mem::swap(&mut place.packet, packet);
        }
        start.elapsed()
    };
    (0..20).for_each(|zone| _ = all(tracker, zone, true));
    let (mut commits, mut lookups, mut flushes) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..rounds {
        let flushed = conntrack.flush(NOW, &CtFlush::zone(Zone(1)));
        assert_eq!(flushed.ok(), Some(10_000));
        while conntrack.drain() {}
        commits.push(all(tracker, 1, true));
        lookups.push(all(tracker, 1, false));
        let empty = CtFlush::zone(Zone(1000));
        let start = std::time::Instant::now();
        let flushed = conntrack.flush(NOW, &empty);
        flushes.push(start.elapsed() * 10_000);
        assert_eq!(flushed.ok(), Some(0));
    }
    let all = [("commit", commits), ("lookup", lookups), ("flush of an empty zone", flushes)];
    for (what, mut times) in all {
        times.sort_unstable();
        let [least, median] = [times[0], times[times.len() / 2]].map(|it| it.as_nanos() / 10_000);
        println!("{what}: {least} ns at least, {median} in the median");
    }
}

/// New connections, zone by zone, one packet per call.
fn insert(tracker: &mut Tracker, count: u32) -> (u32, Duration) {
    let mut frames: Vec<Frame> = (0..10_000).map(|at| frame(at, false)).collect();
    let zones = (count / 10_000).max(1);
    let start = std::time::Instant::now();
    for zone in 0..zones {
        let action = CtAction { zone: Zone(zone as u16), commit: true, ..CtAction::default() };
        for frame in &mut frames {
            track(tracker, &action, std::slice::from_mut(frame));
        }
    }
    (zones * 10_000, start.elapsed())
}
