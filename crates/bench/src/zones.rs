//! `tidegate bench zones`: commits, lookups and flushes, one zone of many.
//!
//! The same work as `ovstest test-conntrack benchmark-zones` (ovs: `tests/test-conntrack.c`, since 3.4): all
//! zones are filled; then, repeatedly, one full zone is flushed and filled again, its connections are looked
//! up, and an empty zone is flushed. Each call tracks one packet.

use super::flame::PerfArgs;
use super::packets::{self, Place, TEMPLATE};
use super::progress::Progress;
use super::summary::Summary;
use super::{BenchError, Outcome};
use ::conntrack::{Config, Conntrack, CtFlush, Tracker};
use base::{Instant, Zone};
use clap::Args;
use flow::CtAction;
use load::generate::numbers::whole;
use packet::Packet;
use serde_json::json;
use std::fmt::Write;
use std::sync::Arc;

/// The zone that is flushed and filled.
const FULL_ZONE: Zone = Zone(1);
/// A zone that is never filled.
const EMPTY_ZONE: Zone = Zone(65_535);

/// Measure connection tracking with many zones: commits, lookups, and flushing one of them
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:
  tidegate bench zones 10000 290 100             as ovstest test-conntrack benchmark-zones
  tidegate bench zones 60000 2 50 --json         one large zone and another

Each call of connection tracking is for one packet, whose headers are parsed and whose IP checksum \
is verified; ovstest parses headers before the measurement. A flush removes the connections at once; \
their memory is freed afterwards, in slices, as in the switch, and 'drain' is the time of all \
slices. All connections are made (ovstest stops at 3 million). UDP timeouts are the defaults (60 s, \
30 s once answered) and time stands still during the run.")]
pub struct ZonesArgs {
    /// Connections per zone
    #[arg(value_parser = whole::<u32>(1..=65_535))]
    conns: u32,
    /// Number of zones with connections; zone 1 must be one of them
    #[arg(value_parser = whole::<u16>(2..=65_535))]
    zones: u16,
    /// Number of flushes and refills
    #[arg(value_parser = whole::<u32>(1..=1_000_000))]
    iterations: u32,
    #[command(flatten)]
    perf: PerfArgs,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// The packets, and the actions that they are tracked by.
struct Bench {
    conntrack: Arc<Conntrack>,
    tracker: Tracker,
    packets: Vec<Packet>,
    place: Place,
    now: Instant,
}

/// One sample for each iteration, in nanoseconds.
#[derive(Default)]
struct Samples {
    flush_full: Vec<f64>,
    drain: Vec<f64>,
    commit: Vec<f64>,
    lookup: Vec<f64>,
    flush_empty: Vec<f64>,
}

/// Runs the work that the arguments ask for.
pub fn measure(args: &ZonesArgs) -> Result<Outcome, BenchError> {
    let total = u64::from(args.conns) * u64::from(args.zones);
    // The limit is twice as high, so that there is no early drop.
    let limit = u32::try_from(total * 2).unwrap_or(u32::MAX);
    let looking = args.perf.start()?;
    let begun = clock::now();
    let mut bench = Bench::new(args.conns, limit)?;
    let generated = clock::now();
    let progress = Progress::start("filling zones", args.zones.into());
    for zone in 0..args.zones {
        bench.track_all(Zone(zone), true);
        progress.advance(1);
    }
    drop(progress);
    let filled = clock::now();
    bench.check(total, "after filling all zones")?;
    let samples = bench.iterate(args)?;
    bench.check(total, "at the end")?;
    let ms = |from: Instant, to: Instant| (to - from).as_nanos() as f64 / 1e6;
    let phases = [ms(begun, generated), ms(generated, filled), ms(filled, clock::now())];
    let seen = looking.stop("tidegate bench zones")?;
    let mut outcome = report(args, &samples, phases)?;
    seen.add_to(&mut outcome);
    Ok(outcome)
}

impl Bench {
    fn new(conns: u32, connections_max: u32) -> Result<Bench, BenchError> {
        let config = Config { connections_max, ..Config::default() };
        let conntrack = Arc::new(Conntrack::new(fastrand::u64(..), config));
        let tracker = conntrack.tracker()?;
        let packets = (0..conns).map(packet).collect();
        Ok(Bench { conntrack, tracker, packets, place: Place::new(), now: clock::now() })
    }

    /// Tracks each connection's packet, one per call. An unparsable packet would show in the number of
    /// connections.
    fn track_all(&mut self, zone: Zone, commit: bool) {
        let action = CtAction { commit, zone, ..CtAction::default() };
        let Bench { tracker, packets, place, now, .. } = self;
        for packet in packets {
            place.track(packet, tracker, *now, &action);
        }
    }

    fn iterate(&mut self, args: &ZonesArgs) -> Result<Samples, BenchError> {
        let mut samples = Samples::default();
        let progress = Progress::start("flushing and filling", args.iterations.into());
        for _ in 0..args.iterations {
            let flushed = self.flush(FULL_ZONE, &mut samples.flush_full);
            if flushed != args.conns {
                let wrong = format!("a full zone had {flushed} connections, not {}", args.conns);
                return Err(BenchError::WrongWork(wrong));
            }
            timed(&mut samples.drain, || while self.conntrack.drain() {});
            timed(&mut samples.commit, || self.track_all(FULL_ZONE, true));
            timed(&mut samples.lookup, || self.track_all(FULL_ZONE, false));
            self.flush(EMPTY_ZONE, &mut samples.flush_empty);
            progress.advance(1);
        }
        Ok(samples)
    }

    /// Flushes a zone. Returns the number of its connections.
    fn flush(&self, zone: Zone, samples: &mut Vec<f64>) -> u32 {
        let flush = CtFlush::zone(zone);
        // Only a flush of one tuple can find nothing.
        timed(samples, || self.conntrack.flush(self.now, &flush)).unwrap_or_default()
    }

    fn check(&self, expect: u64, when: &str) -> Result<(), BenchError> {
        let connections = u64::from(self.conntrack.connections());
        if connections == expect {
            return Ok(());
        }
        let wrong = format!("there are {connections} connections {when}, not {expect}");
        Err(BenchError::WrongWork(wrong))
    }
}

/// The packet of a connection, with Open vSwitch's ports.
fn packet(number: u32) -> Packet {
    let or_last = |port: u16| if port == 0 { u16::MAX } else { port };
    let mut bytes = TEMPLATE;
    packets::set_ports(&mut bytes, or_last((number >> 16) as u16), or_last(number as u16));
    Packet::from_bytes(&bytes)
}

fn timed<T>(samples: &mut Vec<f64>, work: impl FnOnce() -> T) -> T {
    let start = clock::now();
    let result = work();
    samples.push((clock::now() - start).as_nanos() as f64);
    result
}

fn report(args: &ZonesArgs, samples: &Samples, phases: [f64; 3]) -> Result<Outcome, BenchError> {
    let sum_up = |samples: &[f64], factor: f64| {
        let none = || BenchError::WrongWork("nothing was sampled".into());
        Summary::of(samples).map(|it| it.times(factor)).ok_or_else(none)
    };
    let each = 1.0 / f64::from(args.conns);
    let commit = sum_up(&samples.commit, each)?;
    let lookup = sum_up(&samples.lookup, each)?;
    let flush_full = sum_up(&samples.flush_full, 1e-3)?;
    let drain = sum_up(&samples.drain, 1e-3)?;
    let flush_empty = sum_up(&samples.flush_empty, 1e-3)?;
    let [generate_ms, insert_ms, flush_ms] = phases;
    let mut text = format!(
        "initial packet generation time: {generate_ms:.0} ms\n\
         initial insert time: {insert_ms:.0} ms\n\
         flush run time: {flush_ms:.0} ms\n\n\
         {:26}{:>11}{:>11}{:>11}{:>11}{:>11}{:>11}\n",
        "", "min", "median", "95%", "99%", "max", "mean"
    );
    let rows = [
        ("flush full zone, us", flush_full),
        ("commit, ns per connection", commit),
        ("lookup, ns per connection", lookup),
        ("flush empty zone, us", flush_empty),
        ("drain, us", drain),
    ];
    for (name, it) in rows {
        let _ = write!(text, "{name:26}");
        for number in [it.min, it.median, it.p95, it.p99, it.max, it.mean] {
            let _ = write!(text, "{number:>11.2}");
        }
        text.push('\n');
    }
    let json = json!({
        "conns": args.conns,
        "zones": args.zones,
        "iterations": args.iterations,
        "generate_ms": generate_ms,
        "insert_ms": insert_ms,
        "flush_run_ms": flush_ms,
        "commit_ns_per_connection": commit,
        "lookup_ns_per_connection": lookup,
        "flush_full_us": flush_full,
        "flush_empty_us": flush_empty,
        "drain_us": drain,
    });
    Ok(Outcome { text, json })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: ZonesArgs,
    }

    fn read(line: &str) -> Result<ZonesArgs, clap::Error> {
        let words = std::iter::once("zones").chain(line.split(' '));
        Line::try_parse_from(words).map(|line| line.args)
    }

    #[test]
    fn what_cannot_be_measured_is_refused() {
        // 65,536 connections would include two with the same tuple, as in ovstest.
        for line in ["0 2 1", "65536 2 1", "1 1 1", "1 2 0", "1 65536 1", "1 2", "x 2 1"] {
            assert!(read(line).is_err(), "{line}");
        }
    }

    #[test]
    fn connections_have_open_vswitchs_ports() {
        let cases = [(0, [0xff; 4]), (1, [0xff, 0xff, 0, 1]), (65_535, [0xff; 4])];
        for (number, expect) in cases {
            assert_eq!(packet(number).data()[34..38], expect, "{number}");
        }
        assert_eq!(packet(0x1_0000).data()[34..38], [0, 1, 0xff, 0xff]);
    }

    #[test]
    fn a_short_run_does_the_work_and_sums_it_up() {
        let Outcome { text, json } = measure(&read("100 3 4").unwrap()).unwrap();
        for line in ["initial insert time: ", "flush run time: ", "flush full zone, us"] {
            assert!(text.contains(line), "{text}");
        }
        let works = ["commit_ns_per_connection", "lookup_ns_per_connection", "flush_full_us"];
        for work in works.iter().chain(&["flush_empty_us", "drain_us"]) {
            let it = |number: &str| json[work][number].as_f64().unwrap();
            assert!(it("min") <= it("median") && it("median") <= it("p95"), "{json}");
            assert!(it("p95") <= it("p99") && it("p99") <= it("max"), "{json}");
            assert!(it("min") <= it("mean") && it("mean") <= it("max"), "{json}");
        }
    }
}
