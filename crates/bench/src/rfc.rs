//! `tidegate bench rfc`: procedures of the benchmarking RFCs, for stateful devices and for plain
//! forwarding. `--list` names them, with the section that each implements.
//!
//! [`frames`], [`burst`] and [`gateway`] send numbered test frames between two [`stations`]; [`tcp`] opens
//! connections with the generator's hosts. Both use all [`queues`] of a port. All tests search with trials in
//! [`bench`], and report their answer in [`outcome`].

mod bench;
mod burst;
mod flood;
mod frames;
mod gateway;
mod outcome;
mod queues;
mod stations;
mod tcp;
mod test;
#[cfg(test)]
mod tests;

use super::{BenchError, Outcome};
use bench::Bench;
use clap::{Args, ValueEnum};
use generator::search::Range;
use generator::stream::Network;
use load::dut::{DutKind, Inside, Place};
use load::error::LoadError;
use load::generate::interrupt::Interrupt;
use load::generate::numbers::{bounded, human, precision, whole};
use load::generate::{HostOptions, PlaceOptions};
use load::trial::Wall;
use outcome::Report;
use serde_json::json;
use test::{FRAME_SIZES, Test};
use testbed::Screen;

/// Timeouts of devices under test: no connection may expire during a test (RFC 9693 section 4.4).
const TIMEOUT_S: u32 = 600;

/// Run a test of a benchmarking RFC
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:
  tidegate bench rfc --list
  tidegate bench rfc rfc2544-throughput --frame-sizes 64,1518 --seconds 60
  tidegate bench rfc rfc2544-latency --at 100k --repeats 20
  tidegate bench rfc rfc2544-back-to-back --frame-sizes 64 --repeats 50
  tidegate bench rfc rfc2544-throughput --ipv6 --addresses 100 --flows 10k
  tidegate bench rfc rfc3511-concurrent --rate 20k -m 1k -M 1m
  tidegate bench rfc rfc3511-syn-flood --flood-rate 50k
  tidegate bench rfc rfc9411-connection-rate --seconds 300
  tidegate bench rfc rfc9693-establishment --connections 40k -m 10k -M 1m
  tidegate bench rfc rfc9693-capacity --maxconns 100k
  tidegate bench rfc rfc3511-concurrent --client eth1 --server eth2 --json

-m and -M bound what is searched for: frames or connections per second, or connections. Devices that \
the program starts get timeouts of 600 s, and forward without connection tracking in the tests of \
RFC 2544; their table is emptied between trials. A device that stands between --client and --server \
is emptied by --reset-command. With --workers and --queues the device has several of them; one \
thread of the generator serves all of its queues. The other options are those of `tidegate cps-ndr`. \
The exit status is 0 with an answer, 1 otherwise; results up to then are printed in either case.")]
pub struct RfcArgs {
    /// The test
    #[arg(value_enum, required_unless_present = "list")]
    test: Option<Test>,
    /// List the tests and the sections that they implement
    #[arg(long)]
    pub list: bool,
    /// Connections per trial; the initial number of connections (rfc9693-capacity)
    #[arg(long, value_name = "N", default_value = "40k", value_parser = |text: &str| bounded(text, 100.0, 4e6))]
    connections: f64,
    /// Maximum number of connections (rfc9693-capacity)
    #[arg(long, value_name = "N", default_value = "4m", value_parser = |text: &str| bounded(text, 100.0, 4e6))]
    max_connections: f64,
    /// Number of flows (rfc2544)
    #[arg(long, value_name = "N", default_value = "100", value_parser = |text: &str| bounded(text, 1.0, 4e6))]
    flows: f64,
    /// Connections opened per second, in tests that do not search for this rate; the rate of phase 1
    #[arg(long, value_name = "N", default_value = "10k", value_parser = |text: &str| bounded(text, 10.0, 2e6))]
    rate: f64,
    /// Use IPv6 instead of IPv4 (RFC 5180); the smallest frames then have 84 bytes
    #[arg(long)]
    ipv6: bool,
    /// Addresses of each station; flows exist between any two of them (rfc2544, rfc9693)
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = whole::<u16>(1..=60_000))]
    addresses: u16,
    /// Repetitions of the latency measurement or of the burst search; the mean counts [RFC 2544: 20 and 50]
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = whole::<u32>(1..=1000))]
    repeats: u32,
    /// Lower bound [default: 1k; 10 frames of a burst]
    #[arg(short = 'm', long, value_name = "N", value_parser = |text: &str| bounded(text, 10.0, 1e8))]
    min: Option<f64>,
    /// Upper bound [default: 10m frames/s, 1m frames of a burst, 1m connections/s or 200k connections]
    #[arg(short = 'M', long, value_name = "N", value_parser = |text: &str| bounded(text, 10.0, 1e8))]
    max: Option<f64>,
    /// The search ends when its bounds are this close, in percent of the upper one
    #[arg(long, value_name = "PERCENT", default_value_t = 2.0, value_parser = precision)]
    precision: f64,
    /// Seconds of a trial at a rate
    #[arg(long, value_name = "N", default_value = "2", value_parser = seconds)]
    seconds: f64,
    /// Bytes of a frame with its FCS [default: 64,128,256,512,1024,1280,1518; rfc9693: the first]
    #[arg(long, value_name = "BYTES", value_delimiter = ',', value_parser = whole::<u16>(64..=1518))]
    frame_sizes: Vec<u16>,
    /// Measure latency at this rate of frames instead of searching for one; send bursts at this rate
    #[arg(long, value_name = "N", value_parser = |text: &str| bounded(text, 10.0, 1e8))]
    at: Option<f64>,
    /// Rate of reverse frames that validate entries, relative to the establishment rate (alpha)
    #[arg(long, value_name = "SHARE", default_value_t = 1.0, value_parser = share)]
    validation_share: f64,
    /// SYNs per second without a following ACK (rfc3511-syn-flood)
    #[arg(long, value_name = "N", default_value = "10k", value_parser = |text: &str| bounded(text, 1.0, 1e7))]
    flood_rate: f64,
    /// Bytes of each reply (rfc9411-connection-rate; the RFC's: 1024, 2048, 4096, 16384, 65536)
    #[arg(long, value_name = "BYTES", default_value_t = 1024, value_parser = whole::<u32>(1..=1_000_000))]
    object_bytes: u32,
    /// A command that makes the device forget its connections, run between trials
    #[arg(short = 'c', long, value_name = "COMMAND")]
    reset_command: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    place: PlaceOptions,
    #[command(flatten)]
    hosts: HostOptions,
}

fn seconds(text: &str) -> Result<f64, String> {
    bounded(text, 0.1, 86_400.0)
}

fn share(text: &str) -> Result<f64, String> {
    let share = text.parse::<f64>().ok().filter(|share| *share > 0.0 && *share <= 1.0);
    share.ok_or_else(|| "from above 0 to 1".to_owned())
}

impl RfcArgs {
    fn range(&self) -> Range {
        let (min, max) = self.test.map_or((1e3, 1e6), Test::range);
        self.bounded_by(min, max)
    }

    /// The range for connection rates, independent of the test.
    fn rate_range(&self) -> Range {
        let (min, max) = Test::Establishment.range();
        self.bounded_by(min, max)
    }

    fn bounded_by(&self, min: f64, max: f64) -> Range {
        Range { min: self.min.unwrap_or(min), max: self.max.unwrap_or(max) }
    }

    fn frame_sizes(&self, test: Test) -> Vec<u16> {
        let standard = FRAME_SIZES.map(|size| size.max(self.network().frame_bytes_min()));
        match (self.frame_sizes.is_empty(), test.is_stateless()) {
            (false, _) => self.frame_sizes.clone(),
            (true, true) => standard.to_vec(),
            (true, false) => vec![standard[0]],
        }
    }

    /// The seed of random numbers.
    pub fn seed(&self) -> u64 {
        self.hosts.seed
    }

    /// The addresses of test frames.
    fn network(&self) -> Network {
        Network { is_v6: self.ipv6, addresses: self.addresses }
    }

    /// Returns the text of the progress.
    fn what(&self) -> String {
        self.test.map_or(String::new(), Test::name)
    }

    fn check(&self) -> Result<(), LoadError> {
        let range = self.range();
        if range.min >= range.max {
            return Err(LoadError::Options(format!(
                "-m {} is not below -M {}; give a range",
                human(range.min),
                human(range.max)
            )));
        }
        let least = self.network().frame_bytes_min();
        if let Some(small) = self.frame_sizes.iter().find(|size| **size < least) {
            return Err(LoadError::Options(format!(
                "--frame-sizes {small}: a test frame of IPv6 has {least} bytes at least"
            )));
        }
        self.check_version()?;
        // The generator supports no more flows.
        let most = f64::from(generator::stream::FLOWS_MAX);
        if self.test.is_some_and(Test::counts_connections) && range.max > most {
            return Err(LoadError::Options("-M: at most 4m connections".to_owned()));
        }
        Ok(())
    }
}

impl RfcArgs {
    /// Checks that the device and the test support IPv6, if requested.
    fn check_version(&self) -> Result<(), LoadError> {
        let Some(test) = self.test.filter(|_| self.ipv6) else { return Ok(()) };
        let tracks = self.place.wanted()?.is_some_and(|wanted| wanted.kind != DutKind::None);
        if tracks && !test.is_stateless() {
            return Err(LoadError::Options(
                "--ipv6: the published rules of devices that are brought up track IPv4 only; \
                 measure what stands between --client and --server, or a test of rfc2544"
                    .to_owned(),
            ));
        }
        if test == Test::SynFlood {
            return Err(LoadError::Options("--ipv6: the flood's SYNs are of IPv4 only".to_owned()));
        }
        Ok(())
    }
}

/// Lists the tests, or runs one.
pub fn measure(args: &RfcArgs) -> Result<Outcome, BenchError> {
    let Some(test) = args.test.filter(|_| !args.list) else {
        let all = Test::value_variants();
        let mut lines: String =
            all.iter().map(|it| format!("{:<24}{}\n", it.name(), it.section())).collect();
        lines.push_str(Test::ABSENT);
        let all = all.iter().map(|it| json!({"test": it.name(), "implements": it.section()}));
        return Ok(Outcome { text: lines, json: all.collect() });
    };
    let failed = |error| BenchError::Load(Box::new(error));
    args.check().map_err(failed)?;
    let mut args = args.clone();
    args.place.no_ct |= test.is_stateless();
    let screen = Screen::of("bench rfc", args.json);
    if let Inside::Ended(code) = args.place.enter(&screen).map_err(failed)? {
        return Err(BenchError::Ended(code));
    }
    let interrupt = Interrupt::listen().map_err(failed)?;
    let interrupted = || interrupt.is_set();
    let mut bench = open(&args, &interrupted).map_err(failed)?;
    let report = run(&mut bench, test).map_err(failed)?;
    let stopped = report.stopped.clone();
    let outcome = report.outcome(&mut bench, test);
    match stopped {
        None => Ok(outcome),
        Some(why) => Err(BenchError::Partly(Box::new(outcome), why)),
    }
}

fn open<'a>(args: &'a RfcArgs, interrupted: &'a dyn Fn() -> bool) -> Result<Bench<'a>, LoadError> {
    let Place { device, client, server, more, cores, .. } =
        args.place.open_with_timeouts(TIMEOUT_S, interrupted)?;
    cores.pin_generator(0);
    let (clients, servers) = client.zip(server).into_iter().chain(more).unzip();
    let links = queues::joined(clients).zip(queues::joined(servers));
    if links.is_none() {
        return Err(LoadError::Options("name both --client and --server".to_owned()));
    }
    Ok(Bench { args, clock: &Wall, interrupted, device, links, with_ceiling: true, phase: 0 })
}

fn run(bench: &mut Bench<'_>, test: Test) -> Result<Report, LoadError> {
    bench.clean()?;
    match test {
        Test::Throughput
        | Test::Latency
        | Test::FrameLoss
        | Test::BackToBack
        | Test::StatefulThroughput
        | Test::StatefulLatency
        | Test::StatefulFrameLoss => frames::run(bench, test),
        Test::Concurrent
        | Test::ConnectionRate
        | Test::SynFlood
        | Test::SteadyRate
        | Test::SteadyConcurrent => tcp::run(bench, test),
        Test::Establishment => gateway::establishment(bench),
        Test::Capacity => gateway::capacity(bench),
        Test::Teardown => gateway::teardown(bench),
    }
}
