//! `tidegate bench rfc`: procedures of the benchmarking RFCs, for stateful devices and for plain
//! forwarding. `--list` names them, with the section that each implements.
//!
//! [`frames`] and [`gateway`] send numbered test frames between two [`stations`], [`tcp`] opens
//! connections with the generator's hosts. All of them take their trials to the search in
//! [`bench`], and their answer to [`outcome`].

mod bench;
mod flood;
mod frames;
mod gateway;
mod outcome;
mod stations;
mod tcp;
mod test;
#[cfg(test)]
mod tests;

use super::{BenchError, Outcome};
use crate::demo::screen::Screen;
use crate::dut::Inside;
use crate::dut::Place;
use crate::generate::error::LoadError;
use crate::generate::interrupt::Interrupt;
use crate::generate::numbers::{bounded, human};
use crate::generate::trial::Wall;
use crate::generate::{HostOptions, PlaceOptions};
use bench::Bench;
use clap::{Args, ValueEnum};
use generator::search::Range;
use outcome::Report;
use serde_json::json;
use test::{FRAME_SIZES, Test};

/// Timeouts of devices that are brought up: no connection may expire in mid-test (RFC 9693
/// section 4.4).
const TIMEOUT_S: u32 = 600;

/// Run a test of a benchmarking RFC
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:
  tidegate bench rfc --list
  tidegate bench rfc rfc2544-throughput --frame-sizes 64,1518 --seconds 60
  tidegate bench rfc rfc2544-latency --at 100k
  tidegate bench rfc rfc3511-concurrent --rate 20k -m 1k -M 1m
  tidegate bench rfc rfc3511-syn-flood --flood-rate 50k
  tidegate bench rfc rfc9411-connection-rate --seconds 300
  tidegate bench rfc rfc9693-establishment --connections 40k -m 10k -M 1m
  tidegate bench rfc rfc9693-capacity --maxconns 100k
  tidegate bench rfc rfc3511-concurrent --client eth1 --server eth2 --json

-m and -M bound what is searched for: frames or connections a second, or connections. Devices that
are brought up get timeouts of 600 s, and forward without connection tracking in the tests of RFC
2544; their table is emptied between trials. A device that stands between --client and --server is
emptied by --reset-command. The rest is as in `tidegate cps-ndr`. The exit status is 0 with an
answer, 1 otherwise; what was measured until then is printed all the same.")]
pub struct RfcArgs {
    /// Which test
    #[arg(value_enum, required_unless_present = "list")]
    test: Option<Test>,
    /// Name the tests and the sections that they implement
    #[arg(long)]
    list: bool,
    /// Connections of each trial; the first number of connections (rfc9693-capacity)
    #[arg(long, value_name = "N", default_value = "40k", value_parser = |text: &str| bounded(text, 100.0, 4e6))]
    connections: f64,
    /// Connections tried at most (rfc9693-capacity)
    #[arg(long, value_name = "N", default_value = "4m", value_parser = |text: &str| bounded(text, 100.0, 4e6))]
    max_connections: f64,
    /// Flows that frames belong to (rfc2544)
    #[arg(long, value_name = "N", default_value = "100", value_parser = |text: &str| bounded(text, 1.0, 4e6))]
    flows: f64,
    /// Connections opened a second, where their rate is not searched for; phase 1's rate
    #[arg(long, value_name = "N", default_value = "10k", value_parser = |text: &str| bounded(text, 10.0, 2e6))]
    rate: f64,
    /// Lower bound [default: 1k]
    #[arg(short = 'm', long, value_name = "N", value_parser = |text: &str| bounded(text, 10.0, 1e8))]
    min: Option<f64>,
    /// Upper bound [default: 10m frames/s, 1m connections/s or 200k connections]
    #[arg(short = 'M', long, value_name = "N", value_parser = |text: &str| bounded(text, 10.0, 1e8))]
    max: Option<f64>,
    /// The search ends when its bounds are so close, in percent of the upper one
    #[arg(long, value_name = "PERCENT", default_value_t = 2.0)]
    precision: f64,
    /// How long a trial at a rate lasts
    #[arg(long, value_name = "N", default_value = "2", value_parser = seconds)]
    seconds: f64,
    /// Bytes of a frame with its FCS [default: 64,128,256,512,1024,1280,1518; rfc9693: 64]
    #[arg(long, value_name = "BYTES", value_delimiter = ',', value_parser = clap::value_parser!(u16).range(64..=1518))]
    frame_sizes: Vec<u16>,
    /// Measure latency at this rate of frames, and search for none
    #[arg(long, value_name = "N", value_parser = |text: &str| bounded(text, 10.0, 1e8))]
    at: Option<f64>,
    /// The rate of reverse frames that validate entries, of the rate of their establishment (alpha)
    #[arg(long, value_name = "SHARE", default_value_t = 1.0, value_parser = share)]
    validation_share: f64,
    /// SYNs a second that nobody follows up (rfc3511-syn-flood)
    #[arg(long, value_name = "N", default_value = "10k", value_parser = |text: &str| bounded(text, 1.0, 1e7))]
    flood_rate: f64,
    /// Bytes of each reply (rfc9411-connection-rate; the RFC's: 1024, 2048, 4096, 16384, 65536)
    #[arg(long, value_name = "BYTES", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
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

    /// Of rates of connections, whatever the test searches for.
    fn rate_range(&self) -> Range {
        let (min, max) = Test::Establishment.range();
        self.bounded_by(min, max)
    }

    fn bounded_by(&self, min: f64, max: f64) -> Range {
        Range { min: self.min.unwrap_or(min), max: self.max.unwrap_or(max) }
    }

    fn frame_sizes(&self, test: Test) -> Vec<u16> {
        match (self.frame_sizes.is_empty(), test.is_stateless()) {
            (false, _) => self.frame_sizes.clone(),
            (true, true) => FRAME_SIZES.to_vec(),
            (true, false) => vec![FRAME_SIZES[0]],
        }
    }

    /// What progress is shown of.
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
        // The generator has flows for no more.
        let most = f64::from(generator::stream::FLOWS_MAX);
        if self.test.is_some_and(Test::counts_connections) && range.max > most {
            return Err(LoadError::Options("-M: at most 4m connections".to_owned()));
        }
        Ok(())
    }
}

/// Names the tests, or runs one.
pub fn measure(args: &RfcArgs) -> Result<Outcome, BenchError> {
    let Some(test) = args.test.filter(|_| !args.list) else {
        let all = Test::value_variants();
        let lines: String =
            all.iter().map(|it| format!("{:<24}{}\n", it.name(), it.section())).collect();
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
    let Place { device, client, server, cores, .. } = args.place.open_with_timeouts(TIMEOUT_S)?;
    cores.pin_generator(0);
    let links = client.zip(server);
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
