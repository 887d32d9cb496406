//! `tidegate cps-ndr`: the search for the highest rate of new connections that a device carries
//! without loss, under the options of the original script (Robin Jarry's `cps_ndr.py`).

mod outcome;
mod session;
mod source;

use crate::dut::Inside;
use crate::error::LoadError;
use crate::generate::interrupt::Interrupt;
use crate::generate::numbers::{bounded, human, percent, precision, whole};
use crate::generate::result;
use crate::generate::{HostOptions, PlaceOptions, lifetime};
use crate::provenance::Provenance;
use clap::{Args, ValueEnum};
use generator::Profile;
use generator::search::{Bisect, Confirmed, Goal, MultiLoss, Precision, Range, Search};
use session::Session;
use source::GeneratorKind;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use testbed::Screen;

/// Search for the highest rate of new connections without loss
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:
  tidegate cps-ndr                                        this program's switch, in memory
  tidegate cps-ndr -m 10k -M 1.2m -T 5 -e 0.02 --json     longer samples, 0.02% may be lost
  tidegate cps-ndr --dut ovs -m 100 -M 20k                Open vSwitch's daemon, veth ports
  tidegate cps-ndr --client eth1 --server eth2 -c 'ssh fw conntrack -F'
  tidegate cps-ndr --search bisect -i 8 -T 30 -u 1        the original script's search
  tidegate cps-ndr -n 500 -w 50 -T 30 -m 500 -M 4k        long-lived connections
  tidegate cps-ndr --generator trex --server trex1 -m 1k  connections of a TRex server

A line is printed for each sample: \u{25b2}\u{25b2}\u{25b2} passed, \u{25bc}\u{25bc}\u{25bc} did \
not, \u{25a0}\u{25a0}\u{25a0} INVALID: the generator did not offer the requested load, so the sample \
says nothing about the device. The exit status is 0 with an answer, 1 if no rate passed, 2 for \
invalid options, 3 where samples were invalid or nothing could be measured.")]
pub struct CpsNdrArgs {
    /// How long the rate is sampled, in seconds, 1 to 600
    #[arg(short = 'T', long, value_name = "N", default_value_t = 1, value_parser = whole::<u32>(1..=600))]
    sample_time: u32,
    /// Samples before the search ends [default: as many as it takes; bisect: until interrupted]
    #[arg(short = 'i', long, value_name = "N", value_parser = whole::<u32>(1..))]
    max_iterations: Option<u32>,
    /// Allowed loss of packets, and of connections, in percent, 0 to 100
    #[arg(short = 'e', long, value_name = "PERCENT", default_value = "0.0", value_parser = percent)]
    error_threshold: f64,
    /// Share of UDP connections, in percent, 0 to 100
    #[arg(short = 'u', long, value_name = "PERCENT", default_value = "0", value_parser = percent)]
    udp_percent: f64,
    /// Requests and replies in a connection, 1 to 10000
    #[arg(short = 'n', long, value_name = "N", default_value_t = 1, value_parser = whole::<u32>(1..=10_000))]
    num_messages: u32,
    /// Bytes of each request and reply, 20 to 1456
    #[arg(short = 's', long, value_name = "N", default_value_t = 20, value_parser = whole::<u32>(20..=1456))]
    message_size: u32,
    /// How long the server waits before each reply, in milliseconds, 0 to 500
    #[arg(short = 'w', long, value_name = "N", default_value_t = 0, value_parser = whole::<u32>(0..=500))]
    server_wait: u32,
    /// Lower bound, in connections per second (500, 2.4k), 100 to 1m
    #[arg(short = 'm', long, value_name = "N", default_value = "10k", value_parser = |text: &str| bounded(text, 100.0, 1e6))]
    min_cps: f64,
    /// Upper bound (500k, 1.2m), 100 to 2m
    #[arg(short = 'M', long, value_name = "N", default_value = "500k", value_parser = |text: &str| bounded(text, 100.0, 2e6))]
    max_cps: f64,
    /// Most connections alive at once, 100 to 4m [default: as many as the rate needs, up to 2m]
    #[arg(short = 'f', long, value_name = "N", value_parser = |text: &str| bounded(text, 100.0, 4e6))]
    max_flows: Option<f64>,
    /// Linear rise to each rate, in seconds, 0 to 20 (trex: 3 to 20)
    #[arg(short = 'r', long, value_name = "N", default_value_t = 3, value_parser = whole::<u32>(0..=20))]
    ramp_up: u32,
    /// Let bounds grow after more than three good or bad samples in a row, in percent (bisect)
    #[arg(short = 'a', long, value_name = "PERCENT", default_value = "0", value_parser = percent)]
    adaptive_window: f64,
    /// A command run between samples, when all traffic has stopped
    #[arg(short = 'c', long, value_name = "COMMAND")]
    reset_command: Option<String>,
    /// Write the result to a file, as JSON
    #[arg(short = 'o', long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Repeat the answer's rate once, and show where the device's busiest worker spends its time
    #[arg(long)]
    perf: bool,
    /// Print more detail
    #[arg(short = 'v', long)]
    verbose: bool,
    /// The search method
    #[arg(long, value_enum, default_value_t = SearchKind::Confirmed)]
    search: SearchKind,
    /// The search ends when its bounds are this close, in percent of the upper one
    #[arg(long, value_name = "PERCENT", default_value = "1", value_parser = precision)]
    precision: f64,
    /// Loss ratios in percent that --search mlr looks for, besides --error-threshold
    #[arg(long, value_name = "PERCENT", value_delimiter = ',', default_value = "0.5", value_parser = percent)]
    goals: Vec<f64>,
    /// Share of samples that may lose more than a goal allows, in percent (mlr)
    #[arg(long, value_name = "PERCENT", default_value = "50", value_parser = below_all)]
    exceed_ratio: f64,
    /// Most samples that decide a rate (mlr)
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = whole::<u32>(1..=1000))]
    goal_samples: u32,
    /// What makes the connections; with trex, --server is the host of a TRex server (localhost)
    #[arg(long, value_enum, default_value_t = GeneratorKind::Own)]
    generator: GeneratorKind,
    /// The port of its RPC
    #[arg(short = 'p', long, value_name = "PORT", default_value_t = 4501, value_parser = whole::<u16>(1..))]
    sync_port: u16,
    /// Print one JSON object; everything else goes to standard error
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    place: PlaceOptions,
    #[command(flatten)]
    hosts: HostOptions,
}

/// The search method.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum SearchKind {
    /// Halve, repeat near the boundary, end at --precision, confirm the answer with one more sample
    Confirmed,
    /// Halve as the original script does; nothing is repeated
    Bisect,
    /// Multiple loss ratios in one search (MLRsearch), with the conditional throughput
    Mlr,
}

impl SearchKind {
    fn word(self) -> &'static str {
        match self {
            SearchKind::Confirmed => "confirmed",
            SearchKind::Bisect => "bisect",
            SearchKind::Mlr => "mlr",
        }
    }
}

fn below_all(text: &str) -> Result<f64, String> {
    let share = percent(text)?;
    if share < 100.0 { Ok(share) } else { Err("below 100".to_owned()) }
}

/// The chosen search.
enum Chosen {
    Confirmed(Confirmed),
    Bisect(Bisect),
    Mlr(MultiLoss),
}

impl Chosen {
    fn search(&mut self) -> &mut dyn Search {
        match self {
            Chosen::Confirmed(search) => search,
            Chosen::Bisect(search) => search,
            Chosen::Mlr(search) => search,
        }
    }

    fn multi_loss(&self) -> Option<&MultiLoss> {
        match self {
            Chosen::Mlr(search) => Some(search),
            Chosen::Confirmed(_) | Chosen::Bisect(_) => None,
        }
    }
}

impl CpsNdrArgs {
    fn profile(&self) -> Result<Profile, LoadError> {
        if self.min_cps >= self.max_cps {
            return Err(LoadError::Options(format!(
                "--min-cps {} is not below --max-cps {}; give a range",
                human(self.min_cps),
                human(self.max_cps)
            )));
        }
        let mut profile = Profile {
            name: "cps-ndr".to_owned(),
            udp_percent: self.udp_percent,
            messages: self.num_messages,
            request_bytes: self.message_size,
            reply_bytes: self.message_size,
            server_wait_ms: self.server_wait,
            ..Profile::default()
        };
        let talks =
            Duration::from_millis(u64::from(self.num_messages) * u64::from(self.server_wait));
        if talks > Duration::from_secs(self.sample_time.into()) {
            return Err(LoadError::Options(format!(
                "a connection lives {talks:?} ({} messages, {} ms before each reply), longer than \
                 the sample of {} s; use --sample-time {} or more",
                self.num_messages,
                self.server_wait,
                self.sample_time,
                talks.as_secs_f64().ceil()
            )));
        }
        let alive = self.max_cps * (lifetime(&profile).as_secs_f64() + 1.0) * 1.5;
        profile.connections_at_once = self.max_flows.unwrap_or(alive.clamp(10_000.0, 2e6)) as u32;
        profile
            .check()
            .map_err(|source| LoadError::Profile { name: "these options".to_owned(), source })?;
        Ok(profile)
    }

    fn search(&self) -> Chosen {
        let range = Range { min: self.min_cps, max: self.max_cps };
        let (loss, precision) = (self.error_threshold / 100.0, self.precision / 100.0);
        match self.search {
            SearchKind::Confirmed => Chosen::Confirmed(Confirmed::new(
                range,
                Precision {
                    relative: precision.max(1e-4),
                    max_iterations: self.max_iterations,
                    loss,
                },
            )),
            SearchKind::Bisect => {
                Chosen::Bisect(Bisect::new(range, self.max_iterations, self.adaptive_window))
            }
            SearchKind::Mlr => {
                let mut ratios: Vec<f64> = self.goals.iter().map(|goal| goal / 100.0).collect();
                ratios.push(loss);
                ratios.sort_by(f64::total_cmp);
                ratios.dedup();
                let width = precision.max(1e-4);
                let (exceed_ratio, trials) = (self.exceed_ratio / 100.0, self.goal_samples);
                let goal = |loss_ratio| Goal { loss_ratio, exceed_ratio, trials, width };
                let goals = ratios.into_iter().map(goal).collect();
                Chosen::Mlr(MultiLoss::new(range, goals, self.max_iterations))
            }
        }
    }
}

/// Runs the verb.
pub fn run(args: &CpsNdrArgs, provenance: &Provenance) -> ExitCode {
    let screen = Screen::of("cps-ndr", args.json);
    measure(args, &screen, provenance).unwrap_or_else(|error| {
        screen.problem(&error.to_string());
        ExitCode::from(error.status())
    })
}

fn measure(
    args: &CpsNdrArgs,
    screen: &Screen,
    provenance: &Provenance,
) -> Result<ExitCode, LoadError> {
    let profile = args.profile()?;
    let own = args.generator == GeneratorKind::Own;
    if !own {
        source::check_trex(args, &profile)?;
    }
    if let Inside::Ended(code) = args.place.enter(screen)? {
        return Ok(code);
    }
    let interrupt = Interrupt::listen()?;
    let ceiling = match own {
        true => args.place.ceiling(&profile, &args.hosts)?,
        false => source::unknown_ceiling(),
    };
    if args.verbose && own {
        let ceiling = human(ceiling.connections_per_second);
        screen.write(&format!("... the generator's own ceiling: {ceiling} connections/s\n"));
    }
    let mut chosen = args.search();
    let mut session = Session::open(args, &profile, screen, &interrupt)?;
    let mut ended = session.search(chosen.search());
    let answer = chosen.search().answer().rate;
    if let (true, Some(rate), Ok(()), false) = (args.perf, answer, &ended, interrupt.is_set()) {
        ended = session.look_at_workers(rate);
    }
    let outcome = session.outcome(&mut chosen, &profile, &ceiling, ended.as_ref().err());
    let json = provenance.stamp("cps-ndr", Some(args.hosts.seed), outcome.json());
    if let Some(file) = &args.output {
        std::fs::write(file, format!("{json}\n"))
            .map_err(|source| LoadError::Write { file: file.clone(), source })?;
    }
    if args.json {
        result::print(&format!("{json}\n"));
    } else {
        result::print(&outcome.text());
    }
    let status = outcome.status();
    // The result is printed before the error.
    ended?;
    Ok(ExitCode::from(status))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trex::tests::server;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: CpsNdrArgs,
    }

    /// Parses the options in this line.
    pub fn read(line: &str) -> Result<CpsNdrArgs, clap::Error> {
        let words = std::iter::once("cps-ndr").chain(line.split_whitespace());
        Line::try_parse_from(words).map(|line| line.args)
    }

    #[test]
    fn defaults_and_ranges_are_the_original_s() {
        let it = read("").unwrap();
        assert_eq!((it.sample_time, it.max_iterations, it.error_threshold), (1, None, 0.0));
        assert_eq!((it.udp_percent, it.num_messages, it.message_size), (0.0, 1, 20));
        assert_eq!((it.server_wait, it.min_cps, it.max_cps), (0, 10e3, 500e3));
        assert_eq!((it.max_flows, it.ramp_up, it.adaptive_window), (None, 3, 0.0));
        let it = read("-T 600 -i 8 -e 0.02 -u 1 -n 500 -s 1456 -w 50 -m 2.4k -M 1.2m -f 4m -r 20 -a 5 -c true -o x -v").unwrap();
        assert!((it.min_cps - 2400.0).abs() < 1e-6 && (it.max_cps - 1.2e6).abs() < 1e-6);
        assert!(it.verbose && it.output.is_some() && it.reset_command.is_some());
        for line in [
            "-T 0",
            "-T 601",
            "-e -1",
            "-e 101",
            "-e x",
            "-u 101",
            "-n 0",
            "-n 10001",
            "-s 19",
            "-s 1457",
            "-w 501",
            "-m 99",
            "-m 1.1m",
            "-M 99",
            "-M 2.1m",
            "-f 99",
            "-f 4.1m",
            "-r 21",
            "-a 101",
            "-i 0",
            "--search fast",
            "--exceed-ratio 100",
            "--goal-samples 0",
            "--sync-port 0",
            "--generator mine",
            "--dut me",
            "--nosuch",
        ] {
            assert_eq!(read(line).map(|_| ()).unwrap_err().exit_code(), 2, "{line}");
        }
    }

    #[test]
    fn a_device_between_trex_s_ports_that_drops_everything_passes_no_rate() {
        let script = server::Script { device_most: 0.0, ..server::Script::default() };
        let (port, _) = server::start(script);
        let line = format!("--generator trex --server 127.0.0.1 --sync-port {port} -i 1");
        let args = read(&format!("{line} -m 100 -M 400")).unwrap();
        let profile = args.profile().unwrap();
        source::check_trex(&args, &profile).unwrap();
        let (screen, interrupt) = (Screen::of("cps-ndr", true), Interrupt::default());
        let mut session = Session::open(&args, &profile, &screen, &interrupt).unwrap();
        let mut chosen = args.search();
        session.search(chosen.search()).unwrap();
        let ceiling = source::unknown_ceiling();
        let outcome = session.outcome(&mut chosen, &profile, &ceiling, None);
        assert_eq!((outcome.status(), outcome.samples.len()), (1, 1), "{}", outcome.text());
        assert_eq!(outcome.samples[0].verdict.word(), "fail");
        // The server crashes with these ramps, so they are refused.
        for ramp in ["0", "1", "2"] {
            let args = read(&format!("{line} -r {ramp}")).unwrap();
            let error = source::check_trex(&args, &profile).unwrap_err();
            assert!(error.to_string().contains("takes from 3 to 20 seconds"), "{error}");
            assert_eq!(error.status(), 2);
        }
    }

    #[test]
    fn what_cannot_work_is_refused_and_says_what_to_do() {
        let cases = [
            ("-m 500k -M 500k", "not below --max-cps"),
            ("-m 600k", "not below --max-cps"),
            ("-n 500 -w 50", "use --sample-time 25 or more"),
        ];
        for (line, expected) in cases {
            let error = read(line).unwrap().profile().unwrap_err();
            assert!(error.to_string().contains(expected), "{line}: {error}");
            assert_eq!(error.status(), 2);
        }
        let long = read("-n 500 -w 50 -T 25 -m 500 -M 2k").unwrap().profile().unwrap();
        assert!(long.connections_at_once > 2000 * 25);
    }
}
