//! `tidegate bench conntrack`: packets through connection tracking alone.
//!
//! The same work as `ovstest test-conntrack benchmark` (ovs: `tests/test-conntrack.c`): each thread has one
//! batch, which it tracks repeatedly in zone 0 with `commit`. As there, the offsets of a packet's headers are
//! known beforehand; its tuple is parsed in each call, the IP checksum is verified, and the connection fields
//! of the previous call are cleared.

use super::flame::PerfArgs;
use super::packets::{self, Lot};
use super::progress::Progress;
use super::rounds::{self, Rounds};
use super::threads::{Run, Start, Worked, on_threads};
use super::{BenchError, Outcome, churn, inserts, memory};
use ::conntrack::{Config, Conntrack, Tracker};
use base::limits::BATCH_SIZE;
use clap::{Args, ValueEnum};
use flow::CtAction;
use load::generate::numbers::whole;
use port_linux::affinity;
use serde_json::json;
use std::fmt::Write;
use std::sync::Arc;

/// Packets between two updates of the progress.
const STRETCH: u64 = 1 << 18;
/// Packets for timing the preparation alone.
const PREPARED: u64 = if cfg!(test) { 1 << 10 } else { 1 << 21 };

/// Measure connection tracking: how long it takes to find a packet's connection and follow it
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:
  tidegate bench conntrack 1 33554432 32                      as ovstest test-conntrack benchmark
  tidegate bench conntrack 2 33554432 32 --mode each          32 connections for each thread
  tidegate bench conntrack 1 10000000 32 --random 1000000     a million connections, at random
  tidegate bench conntrack 1 7000000 32 --churn --json        a million short TCP connections
  tidegate bench conntrack 1 33554432 32 --perf=lookups.svg   where the time goes, as a picture
  tidegate bench conntrack 2 1000000 32 --insert --rounds 9   new connections, two threads, one zone
  tidegate bench conntrack 2 1000000 32 --rounds 100          two threads against each of them alone

For each call of connection tracking a packet's tuple is read from its bytes and the IP checksum is \
verified; only the offsets of its headers are kept from call to call. 'ns per packet' is the time of \
one thread for one of its packets. UDP timeouts are the defaults (60 s, 30 s once answered) and time \
stands still during the run, as in ovstest. With --random and --insert each packet's source address \
and port are written, and its checksum mended, within the measured time. bytes_per_connection is the \
growth of the process's resident memory over 1,048,576 connections in one table, with index and \
timers.")]
pub struct ConntrackArgs {
    /// How many threads
    #[arg(value_parser = whole::<u16>(1..=120))]
    threads: u16,
    /// How many packets each thread tracks
    #[arg(value_parser = whole::<u64>(1..=1_000_000_000_000))]
    packets: u64,
    /// Packets per call, as in ovstest
    #[arg(value_parser = whole::<u64>(1..=BATCH_SIZE as u64))]
    batch: u64,
    /// Non-zero: send to port 3 instead of 2, which is another connection (with --mode one)
    #[arg(default_value_t = 0, value_parser = whole::<u64>(..))]
    change: u64,
    /// How a batch's packets are spread over connections
    #[arg(long, value_enum, default_value_t = Mode::One, conflicts_with_all = ["random", "churn", "insert"])]
    mode: Mode,
    /// Create N connections first, then pick them at random, the same ones in all threads
    #[arg(long, value_name = "N", value_parser = whole::<u32>(1..=100_000_000))]
    random: Option<u32>,
    /// Seed of --random: the same seed picks the same connections in the same order
    #[arg(long, value_name = "NUMBER", default_value_t = 1, value_parser = whole::<u64>(..))]
    pub seed: u64,
    /// Create and end short TCP connections instead, of 7 packets each
    #[arg(long, conflicts_with = "random")]
    churn: bool,
    /// Create a connection per packet instead, all threads in one zone, which is filled once before
    #[arg(long, conflicts_with_all = ["random", "churn"])]
    insert: bool,
    /// Compare each thread alone on its own processor with all together: N rounds of PACKETS each
    #[arg(long, value_name = "N", conflicts_with = "churn", value_parser = whole::<u32>(1..=100_000))]
    rounds: Option<u32>,
    /// With --churn, the timeout of connections that are not established, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 1, requires = "churn", value_parser = whole::<u32>(1..=3600))]
    close_timeout: u32,
    #[command(flatten)]
    perf: PerfArgs,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// The connections of the packets of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Mode {
    /// All packets belong to one, as in ovstest since Open vSwitch 3.4
    One,
    /// Each packet has its own, as in ovstest until Open vSwitch 3.3 with CHANGE
    Each,
}

/// Runs the work that the arguments ask for.
pub fn measure(args: &ConntrackArgs) -> Result<Outcome, BenchError> {
    let (threads, batch) = (args.threads, args.batch as usize);
    if args.churn {
        let asked =
            churn::Asked { threads, packets: args.packets, batch, close_s: args.close_timeout };
        return churn::measure(&asked, &args.perf);
    }
    if args.insert {
        let (connections, rounds) = (args.packets, args.rounds.unwrap_or(1));
        return inserts::measure(
            &inserts::Asked { threads, connections, batch, rounds },
            &args.perf,
        );
    }
    // First, while there is no freed memory that would be reused.
    let bytes = memory::bytes_per_connection();
    let connections = args.connections();
    // The limit is twice as high, so that there is no early drop.
    let config = Config { connections_max: 2 * connections.max(1 << 20), ..Config::default() };
    let conntrack = Arc::new(Conntrack::new(fastrand::u64(..), config));
    if let Some(count) = args.random {
        populate(&mut conntrack.tracker()?, count);
    }
    let looking = args.perf.start()?;
    let measured = args.track(&conntrack)?;
    let seen = looking.stop("tidegate bench conntrack")?;
    let made = conntrack.connections();
    if made != connections {
        let wrong = format!("there are {made} connections, not {connections}");
        return Err(BenchError::WrongWork(wrong));
    }
    drop(conntrack);
    let mut outcome = report(args, &measured, connections, bytes);
    seen.add_to(&mut outcome);
    Ok(outcome)
}

/// The result for packets of existing connections.
enum Measured {
    Once(Run),
    Rounds(Rounds),
}

impl ConntrackArgs {
    /// Has all threads track their packets, once or in rounds.
    fn track(&self, conntrack: &Arc<Conntrack>) -> Result<Measured, BenchError> {
        let each = self.packets.saturating_mul(self.threads.into());
        let total = each.saturating_mul(self.rounds.map_or(1, |count| 2 * u64::from(count)));
        let progress = Progress::start("tracking packets", total);
        let work = |tracker: &mut Tracker, thread, start: &Start| {
            self.lookups(tracker, thread, start, &progress)
        };
        let Some(count) = self.rounds else {
            return on_threads(conntrack, 0..self.threads, &[], work).map(Measured::Once);
        };
        let cpus = affinity::allowed_cpus().unwrap_or_default();
        let run = |numbers| on_threads(conntrack, numbers, &cpus, work);
        rounds::compare(self.threads, count, run).map(Measured::Rounds)
    }

    /// Returns the number of connections at the end.
    fn connections(&self) -> u32 {
        let each = match (self.random, self.mode) {
            (Some(count), _) => return count,
            (None, Mode::One) => 1,
            // All batches are complete, as in ovstest.
            (None, Mode::Each) => self.batch as u32,
        };
        u32::from(self.threads) * each
    }

    /// The batch of a thread.
    fn lot(&self, thread: u16) -> Lot {
        let mut lot = Lot::new(self.batch as usize);
        for index in 0..lot.len() {
            let destination = match self.mode {
                Mode::One => 2 + u16::from(self.change != 0),
                Mode::Each => 2 + index as u16,
            };
            lot.change(index, |bytes| packets::set_ports(bytes, 1 + thread, destination));
        }
        lot
    }

    /// What one thread does.
    fn lookups(
        &self,
        tracker: &mut Tracker,
        thread: u16,
        start: &Start,
        seen: &Progress,
    ) -> Worked {
        let action = CtAction { commit: true, ..CtAction::default() };
        let mut lot = self.lot(thread);
        let mut random = fastrand::Rng::with_seed(self.seed.wrapping_add(thread.into()));
        let now = clock::now();
        let (mut tracked, mut stretch) = (0, 0);
        let begun = start.wait();
        while tracked < self.packets {
            self.choose(&mut lot, &mut random);
            tracker.execute(now, &action, lot.untracked());
            let count = lot.len() as u64;
            tracked += count;
            stretch += count;
            if stretch >= STRETCH {
                seen.advance(stretch);
                stretch = 0;
            }
        }
        begun.ended(tracked)
    }

    /// With `--random`, changes the connection of each packet.
    #[inline]
    fn choose(&self, lot: &mut Lot, random: &mut fastrand::Rng) {
        let Some(count) = self.random else { return };
        for index in 0..lot.len() {
            lot.set_connection(index, random.u32(..count));
        }
    }

    /// [`Self::lookups`] without connection tracking, on one thread: returns the nanoseconds per packet for
    /// preparing packets and clearing their connection fields.
    fn preparing_ns(&self) -> f64 {
        let mut lot = self.lot(0);
        let mut random = fastrand::Rng::with_seed(self.seed);
        let (mut prepared, start) = (0, clock::now());
        while prepared < PREPARED {
            self.choose(&mut lot, &mut random);
            prepared += std::hint::black_box(lot.untracked()).len() as u64;
        }
        (clock::now() - start).as_nanos() as f64 / prepared as f64
    }
}

/// Creates the connections for `--random`.
fn populate(tracker: &mut Tracker, count: u32) {
    let progress = Progress::start("making connections", count.into());
    let action = CtAction { commit: true, ..CtAction::default() };
    let (mut lot, now) = (Lot::new(1), clock::now());
    for number in 0..count {
        lot.set_connection(0, number);
        tracker.execute(now, &action, lot.untracked());
        if number % STRETCH as u32 == 0 {
            progress.advance(STRETCH);
        }
    }
}

fn report(
    args: &ConntrackArgs,
    measured: &Measured,
    connections: u32,
    bytes: Option<f64>,
) -> Outcome {
    let (run, rounds) = match measured {
        Measured::Once(run) => (run, None),
        Measured::Rounds(rounds) => (&rounds.together, Some(rounds)),
    };
    let preparing = args.preparing_ns();
    let (ns, rate) = (run.ns_per_packet(), run.packets_per_second());
    let mode = match (args.random, args.mode) {
        (Some(_), _) => "random",
        (None, Mode::One) => "one",
        (None, Mode::Each) => "each",
    };
    let mut text = format!("conntrack:  {:5} ms\n", run.elapsed_ns / 1_000_000);
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{ns:.1} ns per packet, {preparing:.1} ns of it for making it new");
    let _ = writeln!(
        text,
        "{:.2} million packets per second, {} threads, {connections} connections",
        rate / 1e6,
        run.threads
    );
    text += &rounds.map_or(String::new(), Rounds::text);
    if let Some(bytes) = bytes {
        let _ =
            writeln!(text, "{bytes:.0} bytes per connection, of {} in one table", memory::SAMPLE);
    }
    let json = json!({
        "mode": mode,
        "threads": run.threads,
        "batch": args.batch,
        "packets": run.packets,
        "connections": connections,
        "elapsed_ms": run.elapsed_ns as f64 / 1e6,
        "ns_per_packet": ns,
        "prepare_ns_per_packet": preparing,
        "packets_per_second": rate,
        "rounds": rounds.map(Rounds::json),
        "bytes_per_connection": bytes,
        "connections_per_second": null,
        "udp_timeouts_s": {"first": 60, "single": 60, "multiple": 30},
    });
    Outcome { text, json }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: ConntrackArgs,
    }

    fn read(line: &str) -> Result<ConntrackArgs, clap::Error> {
        let words = std::iter::once("conntrack").chain(line.split(' '));
        Line::try_parse_from(words).map(|line| line.args)
    }

    #[test]
    fn what_cannot_be_measured_is_refused() {
        let refused = [
            ("0 1 1", "0 is not from 1 to 120"),
            ("1 0 1", "0 is not from 1 to"),
            ("1 1 0", "0 is not from 1 to 32"),
            ("1 1 33", "33 is not from 1 to 32"),
            ("1 1", "<BATCH>"),
            ("1 1 1 x", "write a number such as"),
            ("1 1 1 --random 0", "0 is not from 1"),
            ("1 1 1 --random 5 --churn", "cannot be used with"),
            ("1 1 1 --mode each --churn", "cannot be used with"),
            ("1 1 1 --random 5 --insert", "cannot be used with"),
            ("1 1 1 --close-timeout 5", "--churn"),
            ("1 1 1 --rounds 0", "0 is not from 1"),
            ("1 1 1 --rounds 2 --churn", "cannot be used with"),
        ];
        for (line, expect) in refused {
            let error = read(line).map(|_| ()).unwrap_err().to_string();
            assert!(error.contains(expect), "{line}: {error}");
        }
    }

    #[test]
    fn batches_have_open_vswitchs_ports() {
        let cases: [(&str, [u16; 4]); 4] = [
            ("9 1 2", [8, 2, 8, 2]),
            ("9 1 2 1", [8, 3, 8, 3]),
            ("9 1 2 0 --mode each", [8, 2, 8, 3]),
            ("9 1 2 1 --mode each", [8, 2, 8, 3]),
        ];
        for (line, expect) in cases {
            let mut lot = read(line).unwrap().lot(7);
            let ports: Vec<_> =
                lot.untracked().iter().flat_map(|it| [it.key.tp_src(), it.key.tp_dst()]).collect();
            assert_eq!(ports, expect, "{line}");
        }
    }

    #[test]
    fn a_short_run_counts_every_packet() {
        let cases = [
            ("2 1000 32", "one", 2000 + 2 * 24, 2),
            ("1 64 1 1", "one", 64, 1),
            ("2 320 32 --mode each", "each", 640, 64),
            ("2 640 32 --random 500", "random", 1280, 500),
        ];
        for (line, mode, packets, connections) in cases {
            let Outcome { text, json } = measure(&read(line).unwrap()).unwrap();
            assert!(text.starts_with("conntrack:  "), "{text}");
            assert_eq!(json["mode"], mode, "{line}");
            assert_eq!(json["packets"], packets, "{line}");
            assert_eq!(json["connections"], connections, "{line}");
            for number in ["ns_per_packet", "packets_per_second", "prepare_ns_per_packet"] {
                assert!(json[number].as_f64().unwrap() > 0.0, "{line}: {json}");
            }
        }
    }

    #[test]
    fn in_rounds_each_thread_also_works_alone() {
        let Outcome { text, json } = measure(&read("2 64 32 --rounds 3").unwrap()).unwrap();
        assert!(text.contains("3 rounds: "), "{text}");
        assert_eq!(json["packets"], 3 * 2 * 64);
        assert_eq!(json["rounds"]["count"], 3);
        assert!(json["rounds"]["times_alone"]["median"].as_f64().unwrap() > 0.0, "{json}");
    }
}
