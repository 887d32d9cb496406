//! `tidegate bench rfc`: procedures of the benchmarking RFCs for stateful devices, with the
//! generator's hosts. `--list` names those that are there, with the section that each implements.

use super::{BenchError, Outcome};
use crate::clock;
use crate::dut::Device;
use crate::generate::error::LoadError;
use crate::generate::numbers::{bounded, human};
use crate::generate::sides::{Link, Side, Sides};
use crate::generate::{HostOptions, PlaceOptions, hosts, machine};
use clap::{Args, ValueEnum};
use generator::search::{
    Allowance, Confirmed, Next, Precision, Range, Sample, Search, Verdict, Window, judge,
};
use generator::{Close, Profile};
use serde_json::{Value, json};
use std::time::Duration;

/// Timeouts of devices that are brought up: no connection may expire in mid-test (RFC 9693
/// section 4.4).
const TIMEOUT_S: u32 = 600;
/// Between the last first packet and the first reverse one (T of RFC 9693's tester).
const GAP_MS: u32 = 500;
/// How long anything may be waited for after its time.
const PATIENCE: Duration = Duration::from_secs(5);

/// Run a test of an RFC on a stateful device
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:
  tidegate bench rfc --list
  tidegate bench rfc rfc9693-establishment --connections 40k -m 10k -M 1m
  tidegate bench rfc rfc3511-concurrent --rate 20k -m 1k -M 1m
  tidegate bench rfc rfc3511-concurrent --client eth1 --server eth2 --json

-m and -M bound what is searched for: connections a second (establishment), connections
(concurrent). Devices that are brought up get timeouts of 600 s; their table is emptied between
trials. The rest is as in `tidegate cps-ndr`.")]
pub struct RfcArgs {
    /// Which test
    #[arg(value_enum, required_unless_present = "list")]
    test: Option<Test>,
    /// Name the tests and the sections that they implement
    #[arg(long)]
    list: bool,
    /// Connections of each trial (establishment)
    #[arg(long, value_name = "N", default_value = "40k", value_parser = |text: &str| bounded(text, 100.0, 4e6))]
    connections: f64,
    /// Connections opened a second (concurrent)
    #[arg(long, value_name = "N", default_value = "10k", value_parser = |text: &str| bounded(text, 10.0, 2e6))]
    rate: f64,
    /// Lower bound
    #[arg(short = 'm', long, value_name = "N", default_value = "1k", value_parser = |text: &str| bounded(text, 10.0, 4e6))]
    min: f64,
    /// Upper bound
    #[arg(short = 'M', long, value_name = "N", default_value = "200k", value_parser = |text: &str| bounded(text, 10.0, 4e6))]
    max: f64,
    /// The search ends when its bounds are so close, in percent of the upper one
    #[arg(long, value_name = "PERCENT", default_value_t = 2.0)]
    precision: f64,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    place: PlaceOptions,
    #[command(flatten)]
    hosts: HostOptions,
}

/// The tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Test {
    /// Maximum connection establishment rate, validated by a reverse packet for each entry
    #[value(name = "rfc9693-establishment")]
    Establishment,
    /// Concurrent TCP connection capacity, each validated when all are established
    #[value(name = "rfc3511-concurrent")]
    Concurrent,
}

impl Test {
    const ALL: [Test; 2] = [Test::Establishment, Test::Concurrent];

    fn name(self) -> &'static str {
        match self {
            Test::Establishment => "rfc9693-establishment",
            Test::Concurrent => "rfc3511-concurrent",
        }
    }

    fn section(self) -> &'static str {
        match self {
            Test::Establishment => {
                "RFC 9693 sections 4.5 and 4.6: N unique pseudorandom UDP tuples at a rate, then one \
                 reverse packet for each entry at the same rate"
            }
            Test::Concurrent => {
                "RFC 3511 section 5.2: N TCP connections opened at a rate, a request on each when \
                 all are open, closed by RST"
            }
        }
    }

    fn unit(self) -> &'static str {
        match self {
            Test::Establishment => "connections/s",
            Test::Concurrent => "connections",
        }
    }

    /// What hosts do in a trial of `count` connections opened at `rate`.
    fn profile(self, count: u32, rate: f64) -> Profile {
        let opening_ms = (f64::from(count) / rate * 1000.0).ceil() as u32;
        let wait = opening_ms + GAP_MS;
        let long = wait + 10_000;
        let base = Profile {
            name: self.name().to_owned(),
            connections_at_once: count,
            time_wait_ms: 0,
            idle_timeout_ms: long,
            ..Profile::default()
        };
        match self {
            // Every reverse packet comes the same time after its first one: at the same rate, and
            // only when all first ones have been sent. Nothing is sent twice.
            Test::Establishment => Profile {
                udp_percent: 100.0,
                server_wait_ms: wait,
                initial_rto_ms: long,
                max_rto_ms: long,
                retries: 0,
                ..base
            },
            Test::Concurrent => {
                Profile { messages: 2, think_time_ms: wait, close: Close::ClientReset, ..base }
            }
        }
    }
}

/// Names the tests, or runs one.
pub fn measure(args: &RfcArgs) -> Result<Outcome, BenchError> {
    let Some(test) = args.test.filter(|_| !args.list) else {
        let lines = Test::ALL.map(|it| format!("{:<24}{}\n", it.name(), it.section()));
        let all = Test::ALL.map(|it| json!({"test": it.name(), "implements": it.section()}));
        return Ok(Outcome { text: lines.concat(), json: json!(all) });
    };
    run(args, test).map_err(|error| BenchError::Load(Box::new(error)))
}

struct Bench<'a> {
    args: &'a RfcArgs,
    test: Test,
    device: Box<dyn Device>,
    links: Option<(Link, Link)>,
}

fn run(args: &RfcArgs, test: Test) -> Result<Outcome, LoadError> {
    if args.min >= args.max {
        return Err(LoadError::Options("-m is not below -M; give a range".to_owned()));
    }
    let place = args.place.open_with_timeouts(TIMEOUT_S)?;
    let (Some(client), Some(server)) = (place.client, place.server) else {
        return Err(LoadError::Options("name both --client and --server".to_owned()));
    };
    let mut bench = Bench { args, test, device: place.device, links: Some((client, server)) };
    let precision = args.precision.max(0.01) / 100.0;
    let mut search = Confirmed::new(
        Range { min: args.min, max: args.max },
        Precision { relative: precision, max_iterations: None, loss: 0.0 },
    );
    let allowed = Allowance { loss: 0.0, shortfall: Allowance::SHORTFALL };
    let mut trials = Vec::new();
    while let Next::Trial { rate: value, purpose } = search.next() {
        let sample = bench.trial(value)?;
        if let Some(broken) = sample.broken() {
            return Err(broken.into());
        }
        let verdict = judge(&sample, &allowed);
        eprintln!("{} {}: {}", human(value), test.unit(), verdict.word());
        trials.push(told(value, purpose.word(), &sample, &verdict));
        search.record(&verdict, sample.loss_ratio().max(sample.failure_ratio()));
    }
    let answer = search.answer();
    let text = match answer.rate {
        Some(value) => format!(
            "{} {} ({value:.0}), passed {} of {} trials{}\n{}\n",
            human(value),
            test.unit(),
            answer.certainty.passed,
            answer.certainty.trials,
            match answer.upper {
                Some(upper) if answer.stopped_by_generator => {
                    format!("; the generator could not offer {}", human(upper))
                }
                Some(upper) => format!("; {} did not pass", human(upper)),
                None => "; nothing higher was asked for".to_owned(),
            },
            test.section()
        ),
        None => {
            return Err(LoadError::Ended(format!(
                "not even {} {} passed: {}",
                human(args.min),
                test.unit(),
                trials.last().map_or(String::new(), |trial| trial["reasons"].to_string())
            )));
        }
    };
    let json = json!({
        "verb": "bench rfc",
        "test": test.name(),
        "implements": test.section(),
        "unit": test.unit(),
        "answer": answer.rate,
        "did_not_pass": answer.upper,
        "limited_by": if answer.stopped_by_generator { "generator" } else { "dut" },
        "connections": args.connections,
        "rate": args.rate,
        "timeouts_s": TIMEOUT_S,
        "dut": bench.device.describe(),
        "machine": machine::describe(),
        "trials": trials,
    });
    Ok(Outcome { text, json })
}

impl Bench<'_> {
    /// All connections of one trial, opened, validated and ended; then the table is emptied.
    fn trial(&mut self, value: f64) -> Result<Sample, LoadError> {
        let (count, rate) = match self.test {
            Test::Establishment => (self.args.connections as u32, value),
            Test::Concurrent => (value as u32, self.args.rate),
        };
        let profile = self.test.profile(count, rate);
        profile
            .check()
            .map_err(|source| LoadError::Profile { name: "this test".to_owned(), source })?;
        let known = self.args.place.knows_neighbours();
        let (client, server) = hosts(&profile, &self.args.hosts, count as usize + 1000, known)?;
        let Some((to, from)) = self.links.take() else {
            return Err(LoadError::Ended("the ports are gone".to_owned()));
        };
        let table_before = self.device.table()?;
        let refused = self.device.refused();
        let mut sides = Sides::new(Some(Side::new(client, to)), Some(Side::new(server, from)));
        let mut sample = open_all(&mut sides, count, rate)?;
        sample.table_before = table_before;
        sample.table_full = self.device.refused() - refused;
        sides.abort_all();
        self.links = sides.into_links();
        self.device.check()?;
        self.device.flush()?;
        Ok(sample)
    }
}

/// Opens so many at this rate, and waits until each has ended or its time is over.
fn open_all(sides: &mut Sides, count: u32, rate: f64) -> Result<Sample, LoadError> {
    let start = clock::now();
    if let Some(client) = &mut sides.client {
        client.host.open_at(rate.round().max(1.0) as u64, 0, start);
        client.host.stop_opening_after(count.into());
    }
    let opening = Duration::from_secs_f64(f64::from(count) / rate);
    // The reverse packets or second requests come as long after as the opening took.
    let limit = opening * 2 + Duration::from_millis(GAP_MS.into()) + PATIENCE;
    let mut opened_at = None;
    loop {
        let now = clock::now();
        sides.turn_and_rest(now)?;
        let opened = sides.client.as_ref().map_or(0, |side| side.host.statistics().opened);
        if opened >= count.into() && opened_at.is_none() {
            opened_at = Some(now);
        }
        if opened_at.is_some() && sides.alive() == 0 || now - start >= limit {
            break;
        }
    }
    let (client, server) = (sides.client_statistics(), sides.server_statistics());
    let missed = sides.client.as_ref().map_or(0, |side| side.host.missed_opens());
    let seconds = (opened_at.unwrap_or_else(clock::now) - start).as_secs_f64();
    let window = Window {
        seconds,
        opened: client.opened,
        // All belong to the trial, whenever they ended.
        completed: client.completed,
        active: client.opened,
        ..Window::default()
    };
    let mut sample = Sample { offered: rate, window, ..Sample::default() };
    sample.count(&client, &server, sides.active(), missed);
    sample.port_errors = sides.port_errors();
    sample.port_drops = sides.port_drops();
    Ok(sample)
}

fn told(value: f64, purpose: &str, sample: &Sample, verdict: &Verdict) -> Value {
    let reasons: Vec<_> = verdict.reasons().iter().map(ToString::to_string).collect();
    json!({
        "value": value,
        "purpose": purpose,
        "verdict": verdict.word(),
        "reasons": reasons,
        "sample": crate::generate::result::sample_json(sample),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: RfcArgs,
    }

    fn read(line: &str) -> Result<RfcArgs, clap::Error> {
        let words = std::iter::once("rfc").chain(line.split_whitespace());
        Line::try_parse_from(words).map(|line| line.args)
    }

    #[test]
    fn each_test_is_listed_with_its_section() {
        let listed = measure(&read("--list").unwrap()).unwrap();
        for test in Test::ALL {
            assert!(listed.text.contains(test.name()) && test.section().contains(" section"));
            assert!(read(test.name()).is_ok(), "{}", test.name());
        }
        assert!(
            read("").is_err() && read("rfc1").is_err() && read("rfc3511-concurrent -m 1").is_err()
        );
        let error = measure(&read("rfc3511-concurrent -m 2k -M 1k").unwrap()).map(|_| ());
        assert!(error.unwrap_err().to_string().contains("not below"));
    }

    #[test]
    fn trials_over_a_cable_open_validate_and_end_every_connection() {
        for test in Test::ALL {
            let args = read(&format!("{} --dut none --connections 300", test.name())).unwrap();
            let place = args.place.open().unwrap();
            let links = place.client.zip(place.server);
            let mut bench = Bench { args: &args, test, device: place.device, links };
            for value in [300.0, 200.0] {
                let sample = bench.trial(value).unwrap();
                let count = if test == Test::Establishment { 300 } else { value as u64 };
                assert_eq!((sample.opened, sample.completed), (count, count), "{}", test.name());
                assert_eq!((sample.forth.lost(), sample.back.lost()), (0, 0));
                assert_eq!(sample.failed.total() + sample.unfinished, 0);
                if test == Test::Establishment {
                    assert_eq!((sample.forth.sent, sample.back.sent), (count, count));
                }
            }
        }
    }
}
