//! Connections that come and go at full rate for a while: memory must stay flat.
//!
//! `soak [SECONDS]` runs for 600 s, or as long as is said, on two threads beside one that expires,
//! flushes and dumps. Prints a line every tenth of the time, and ends with status 1 if the process has
//! grown by more than a tenth after the first fifth.

use base::{Instant, PortNo, Zone};
use conntrack::{Config, Conntrack, Cursor, Filter, Flush, Timeout, TimeoutPolicy};
use flow::{CtAction, Frame};
use packet::Packet;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

const THREADS: u32 = 2;
const ZONES: u16 = 16;

fn main() -> ExitCode {
    let seconds = std::env::args().nth(1).and_then(|word| word.parse().ok()).unwrap_or(600u64);
    let mut timeouts = TimeoutPolicy::new();
    timeouts.set(Timeout::UdpFirst, 1);
    timeouts.set(Timeout::UdpSingle, 1);
    let config = Config { connections_max: 200_000, timeouts, ..Config::default() };
    let conntrack = Arc::new(Conntrack::new(9, config));
    let (stops, made) = (AtomicBool::new(false), AtomicU64::new(0));
    let begun = std::time::Instant::now();
    let now = || Instant::from_nanos(begun.elapsed().as_nanos() as u64);
    let grown = std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (conntrack, stops, made) = (&conntrack, &stops, &made);
            scope.spawn(move || churn(conntrack, thread, stops, made, now));
        }
        let grown = watch(&conntrack, Duration::from_secs(seconds), &made, now);
        stops.store(true, Ordering::Relaxed);
        grown
    });
    println!("grown by {:.1} % after the first fifth", 100.0 * grown);
    if grown > 0.1 { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// Makes connections until it is stopped.
fn churn(
    conntrack: &Arc<Conntrack>,
    thread: u32,
    stops: &AtomicBool,
    made: &AtomicU64,
    now: impl Fn() -> Instant,
) {
    let mut tracker = conntrack.tracker().expect("a tracker");
    let text = format!("10.0.0.1:1000>20.0.0.{}:80 udp len=0", thread + 1);
    let mut bytes = wire::text::parse(&text).expect("a packet");
    bytes[40..42].fill(0);
    let parse = |_| Frame::parse(Packet::from_bytes(&bytes), PortNo(1)).expect("a frame");
    let mut frames: Vec<Frame> = (0..32).map(parse).collect();
    let mut number = 0u32;
    while !stops.load(Ordering::Relaxed) {
        for frame in &mut frames {
            number = number.wrapping_add(1);
            frame.clear_ct();
            set_source(frame, number & 0xff_ffff);
        }
        let zone = Zone((number >> 10) as u16 % ZONES);
        let commit = CtAction { commit: true, zone, ..CtAction::default() };
        tracker.execute(now(), &commit, &mut frames);
        made.fetch_add(32, Ordering::Relaxed);
    }
}

/// Gives another source address, and mends the IP checksum.
fn set_source(frame: &mut Frame, number: u32) {
    let bytes = frame.packet.data_mut();
    let old = u32::from_be_bytes([bytes[26], bytes[27], bytes[28], bytes[29]]);
    let new = 0x0a00_0000 | number;
    let sum = u16::from_be_bytes([bytes[24], bytes[25]]);
    bytes[24..26].copy_from_slice(&wire::checksum::update_u32(sum, old, new).to_be_bytes());
    bytes[26..30].copy_from_slice(&new.to_be_bytes());
}

/// Does what the control side does, and gives how much the process grew.
fn watch(
    conntrack: &Conntrack,
    time: Duration,
    made: &AtomicU64,
    now: impl Fn() -> Instant,
) -> f64 {
    let parts = 10;
    let mut settled = f64::NAN;
    for part in 1..=parts {
        while now().as_nanos() < time.as_nanos() as u64 / parts * part {
            while conntrack.tick(now()) > 0 {}
            let zone = Zone((now().as_millis() / 100) as u16 % ZONES);
            let _ = conntrack.flush(now(), &Flush::zone(zone));
            conntrack.dump(now(), &Filter::default(), Cursor::default());
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
    resident_bytes() / settled - 1.0
}

/// What the process has of the machine's memory, by proc(5).
fn resident_bytes() -> f64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or("0");
    let kilobytes = line.split_whitespace().next().and_then(|word| word.parse::<f64>().ok());
    kilobytes.unwrap_or(0.0) * 1024.0
}
