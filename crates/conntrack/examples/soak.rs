//! Creates and ends connections at full rate for a while: memory must stay flat.
//!
//! `soak [SECONDS [CONNECTIONS]]` runs for 600 s by default. One thread creates UDP connections, with NAT in
//! every other zone; one runs short TCP connections from SYN to the last ACK; and one expires, flushes and
//! dumps. Prints a line every tenth of the time, and exits with status 1 if the process grew by more than a
//! tenth after the first fifth, or a connection existed a second after its deadline. With the default maximum
//! of 200,000 connections, most are dropped early; with some millions they expire.
//!
//! Timely expiry is checked with answered connections, one per 100 ms, which early drop does not take.

use base::{Instant, PortNo, Zone};
use conntrack::{Config, Conntrack, CtFlush, Cursor, Filter, Timeout, TimeoutPolicy, Tracker};
use flow::{CtAction, Field, Frame, Nat, NatKind, NatRange, PortSelection};
use packet::{Checksum, Packet};
use std::net::IpAddr;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const ZONES: u16 = 16;

fn main() -> ExitCode {
    let seconds = std::env::args().nth(1).and_then(|word| word.parse().ok()).unwrap_or(600u64);
    let mut timeouts = TimeoutPolicy::new();
    timeouts.set(Timeout::UdpFirst, 1);
    timeouts.set(Timeout::UdpSingle, 1);
    timeouts.set(Timeout::UdpMultiple, 1);
    timeouts.set(Timeout::TcpClose, 1);
    let connections_max = std::env::args().nth(2).and_then(|word| word.parse().ok());
    let connections_max = connections_max.unwrap_or(200_000u32);
    let config = Config { connections_max, timeouts, ..Config::default() };
    let conntrack = Arc::new(Conntrack::new(9, config));
    let (stops, made) = (AtomicBool::new(false), AtomicU64::new(0));
    let begun = std::time::Instant::now();
    let now = || Instant::from_nanos(begun.elapsed().as_nanos() as u64);
    let probes = Mutex::new(Vec::new());
    let (grown, late) = std::thread::scope(|scope| {
        for texts in [&UDP[..], &TCP] {
            let (conntrack, stops, made, probes) = (&conntrack, &stops, &made, &probes);
            scope.spawn(move || churn(conntrack, texts, (stops, made, probes), now));
        }
        let seen = watch(&conntrack, Duration::from_secs(seconds), (&made, &probes), now);
        stops.store(true, Ordering::Relaxed);
        seen
    });
    println!("grown by {:.1} % after the first fifth", 100.0 * grown);
    println!(
        "of {} connections that ended by it, none was there {} ms after its time",
        late.seen,
        late.most_ms + 1
    );
    if grown > 0.1 || late.most_ms > 1000 || late.seen == 0 {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    }
}

/// A connection's packets; 10.0.0.1 is replaced by another client for each connection.
const UDP: [&str; 1] = ["10.0.0.1:1000>20.0.0.1:80 udp len=0"];
const TCP: [&str; 7] = [
    "10.0.0.1:1000>20.0.0.2:80 S seq=100 win=9000",
    "20.0.0.2:80>10.0.0.1:1000 SA seq=500 ack=101 win=9000",
    "10.0.0.1:1000>20.0.0.2:80 A seq=101 ack=501 win=9000",
    "10.0.0.1:1000>20.0.0.2:80 PA seq=101 ack=501 win=9000 len=100",
    "20.0.0.2:80>10.0.0.1:1000 FA seq=501 ack=201 win=9000",
    "10.0.0.1:1000>20.0.0.2:80 FA seq=201 ack=502 win=9000",
    "20.0.0.2:80>10.0.0.1:1000 A seq=502 ack=202 win=9000",
];

/// A connection whose expiry is checked: its zone, in which it is alone, and its deadline.
type Probe = (Zone, Instant);

/// How late connections expired.
#[derive(Default)]
struct Late {
    seen: u32,
    most_ms: u64,
}

/// Zones of the probes; each is used again after ten seconds.
const PROBE_ZONES: std::ops::Range<u16> = 1000..1100;

/// Begins an answered connection that expires in a second.
fn probe(tracker: &mut Tracker, number: u16, now: Instant) -> Probe {
    let zone = Zone(PROBE_ZONES.start + number % PROBE_ZONES.len() as u16);
    let texts = [UDP[0], "20.0.0.1:80>10.0.0.1:1000 udp len=0"];
    let mut frames = texts.map(|text| frame(&wire::text::parse(text).expect("a packet")));
    tracker.execute(now, &CtAction { commit: true, zone, ..CtAction::default() }, &mut frames);
    (zone, now + Duration::from_secs(1))
}

/// Removes expired probes. A probe refused by a full table never existed.
fn look_at(probes: &mut Vec<Probe>, conntrack: &Conntrack, now: Instant, late: &mut Late) {
    probes.retain(|&(zone, due)| {
        let is_there = conntrack.zone_limits(&[zone]).zones.iter().any(|it| it.count > 0);
        let late_ms = now.saturating_since(due).as_millis() as u64;
        if is_there {
            late.most_ms = late.most_ms.max(late_ms);
        }
        if !is_there && now >= due {
            late.seen += 1;
        }
        is_there
    });
}

/// Creates connections until it is stopped.
fn churn(
    conntrack: &Arc<Conntrack>,
    texts: &[&str],
    (stops, made, probes): (&AtomicBool, &AtomicU64, &Mutex<Vec<Probe>>),
    now: impl Fn() -> Instant,
) {
    let mut probed = 0;
    let mut tracker = conntrack.tracker().expect("a tracker");
    let packets = texts.iter().map(|text| wire::text::parse(text).expect("a packet"));
    let mut frames: Vec<Frame> = packets.cycle().take(35).map(|it| frame(&it)).collect();
    let (address, is_udp) = (IpAddr::from([30, 0, 0, 1]), texts.len() == 1);
    let nat = Nat::Rewrite(NatRange {
        kind: NatKind::Src,
        addresses: Some((address, IpAddr::from([30, 0, 255, 255]))),
        ports: None,
        selection: PortSelection::Default,
        persistent: false,
    });
    let mut number = 0u32;
    while !stops.load(Ordering::Relaxed) {
        for connection in frames.chunks_mut(texts.len()) {
            number = number.wrapping_add(1);
            for frame in connection {
                frame.clear_ct();
                set_client(frame, number & 0xff_ffff);
            }
        }
        let zone = Zone((number >> 10) as u16 % ZONES);
        let nat = (is_udp && zone.0 % 2 == 1).then(|| nat.clone());
        let commit = CtAction { commit: true, zone, nat, ..CtAction::default() };
        tracker.execute(now(), &commit, &mut frames);
        // As a worker expires its own connections after as many packets.
        tracker.expire(now(), 4 + frames.len() / 4);
        made.fetch_add(frames.len() as u64, Ordering::Relaxed);
        if is_udp && now().as_millis() >= probed * 100 {
            probed = now().as_millis() / 100 + 1;
            let probe = probe(&mut tracker, probed as u16, now());
            probes.lock().expect("no thread panicked").push(probe);
        }
    }
}

/// A frame whose checksums a device has verified.
fn frame(bytes: &[u8]) -> Frame {
    let mut frame = Frame::parse(Packet::from_bytes(bytes), PortNo(1)).expect("a frame");
    frame.packet.offload.checksum = Checksum::Good;
    frame
}

/// Gives the client, which has port 1000, another address; updates the IP header's checksum.
fn set_client(frame: &mut Frame, number: u32) {
    let is_client_first = frame.key.tp_dst() == 80;
    let bytes = frame.packet.data_mut();
    let sum = u16::from_be_bytes([bytes[24], bytes[25]]);
    let mut sides = [[10, 0, 0, 0], [20, 0, 0, 0]].map(u32::from_be_bytes);
    sides[0] |= number;
    sides[1] |= 2;
    if !is_client_first {
        sides.swap(0, 1);
    }
    let mut new_sum = sum;
    for (at, side) in [26, 30].into_iter().zip(sides) {
        let old = [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]];
        new_sum = wire::checksum::update_u32(new_sum, u32::from_be_bytes(old), side);
        bytes[at..at + 4].copy_from_slice(&side.to_be_bytes());
    }
    bytes[24..26].copy_from_slice(&new_sum.to_be_bytes());
    let [src, dst] = sides.map(u128::from);
    frame.key.set(Field::Ipv4Src, src);
    frame.key.set(Field::Ipv4Dst, dst);
}

/// Does the control side's work. Returns the growth of the process, and how late connections expired.
fn watch(
    conntrack: &Conntrack,
    time: Duration,
    (made, probes): (&AtomicU64, &Mutex<Vec<Probe>>),
    now: impl Fn() -> Instant,
) -> (f64, Late) {
    let mut late = Late::default();
    let parts = 10;
    let mut settled = f64::NAN;
    for part in 1..=parts {
        while now().as_nanos() < time.as_nanos() as u64 / parts * part {
            // Connections that become due meanwhile wait for the next iteration.
            let at = now();
            while conntrack.tick_within(at, 1 << 14) {}
            let zone = Zone((now().as_millis() / 100) as u16 % ZONES);
            let _ = conntrack.flush(now(), &CtFlush::zone(zone));
            conntrack.dump(now(), &Filter::default(), Cursor::default());
            look_at(&mut probes.lock().expect("no thread panicked"), conntrack, now(), &mut late);
            std::thread::sleep(Duration::from_millis(100));
        }
        let bytes = resident_bytes();
        if part == parts / 5 {
            settled = bytes;
        }
        println!(
            "{:5} s: {:6.1} MB, {:7} connections, {} packets",
            now().as_secs(),
            bytes / 1e6,
            conntrack.connections(),
            made.load(Ordering::Relaxed)
        );
    }
    (resident_bytes() / settled - 1.0, late)
}

/// The resident memory of the process, by proc(5).
fn resident_bytes() -> f64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or("0");
    let kilobytes = line.split_whitespace().next().and_then(|word| word.parse::<f64>().ok());
    kilobytes.unwrap_or(0.0) * 1024.0
}
