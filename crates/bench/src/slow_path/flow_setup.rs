//! `tidegate bench flow-setup`: the rate of flow set-up for packets that each need a flow, and the effect on
//! established traffic.

mod files;
mod samples;

use self::files::Files;
use self::samples::{Sample, Samples};
use super::daemon::{Kind, Misses, PUBLISHED_AFTER, Peer, Plays, UnderTest};
use super::{Chart, Line, daemon};
use crate::progress::Progress;
use crate::{BenchError, Outcome};
use clap::Args;
use load::generate::numbers::whole;
use serde_json::{Value, json};
use std::fmt::Write;
use std::path::PathBuf;
use std::thread::sleep;
use std::time::Duration;

/// Maximum number of packets that fit into the 262,144 buffers with which Open vSwitch plays them.
const PEER_FLOWS: u32 = 200_000;
/// Flows of the established traffic.
const ESTABLISHED: u32 = 1000;
/// Interval of reading counters.
const EVERY: Duration = Duration::from_millis(10);
/// Duration of the measurement of the established traffic alone.
const ALONE: Duration = Duration::from_secs(1);
/// If no flow is added for this long, the run ends.
const QUIET: Duration = Duration::from_secs(2);
/// Time limit for the established traffic to have its flows.
const PATIENCE: Duration = Duration::from_secs(20);

// Ports, by their OpenFlow numbers.
const NEW: u16 = 1;
const NEW_SINK: u16 = 2;
const OLD: u16 = 3;
const OLD_SINK: u16 = 4;

/// Measure how fast new flows are set up: a whole switch, beside established traffic
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:
  tidegate bench flow-setup --flows 200000 --hold            all of them, however often it takes
  tidegate bench flow-setup --flows 200000 --rate 300000     offered at a rate, each packet once
  tidegate bench flow-setup --flows 200000 --hold --handlers 0,1   both ways to answer misses
  tidegate bench flow-setup --flows 200000 --hold --peer ovs --json
  tidegate bench flow-setup --flows 50000 --svg flows.svg    flows over time

A switch in a process and namespaces of its own has one worker on the last processor and plays pcap \
files (type=pcap; Open vSwitch: DPDK's net_pcap). Each packet of the first needs a flow of its own, \
since the rule copies source address and port to registers; 20 rules are loaded. A second port plays \
1,000 flows that are established. Each switch runs twice: with its flow limit as it is by default, \
and with the limit raised (other_config:flow-limit, upcall/set-flow-limit). Played as fast as they \
are taken, packets come faster than flows can be made, so that many find the queue of misses full \
and are refused. Ours runs a third time as a sender with a window sends: the rules send packets \
back, and no more than --window are under way. Then none is to be refused.

All rates and shares are of the time until the last flow came. refused counts packets that found no room
on their way up; since its counters are published late, it includes the following 1.2 s.
established_rate_ratio is the rate of the established traffic meanwhile over that before. With --peer
both play the established traffic as fast as their worker takes it, because net_pcap cannot be paced;
the ratio then is how the worker shares its time, and own us the processor time of all threads for a flow
without what the established packets take of the worker alone, which with paced traffic also polls.
Needs ovsdb-server and the stock tools; --peer needs root and huge pages.")]
pub struct FlowSetupArgs {
    /// Number of flows to set up
    #[arg(long, value_name = "N", default_value_t = 200_000, value_parser = whole::<u32>(100..=2_000_000))]
    flows: u32,
    /// Play the packets repeatedly until every flow exists
    #[arg(long)]
    hold: bool,
    /// Packets per second that need a flow; by default as fast as the worker receives them
    #[arg(long, value_name = "N", value_parser = whole::<u32>(1000..=10_000_000), conflicts_with = "peer")]
    rate: Option<u32>,
    /// Established packets per second
    #[arg(long, value_name = "N", default_value_t = 500_000, value_parser = whole::<u32>(1000..=10_000_000))]
    established_rate: u32,
    /// Handler threads of our switch (n-handler-threads), one run per number; 0: the worker answers its own
    /// misses. By default as the switch decides by the number of processors
    #[arg(long, value_name = "N,...", value_delimiter = ',', value_parser = whole::<u16>(0..=64))]
    handlers: Vec<u16>,
    /// Packets in flight in the run with a window; 0: no such run
    #[arg(long, value_name = "N", default_value_t = 128, value_parser = whole::<u32>(0..=4096))]
    window: u32,
    /// Also measure a peer
    #[arg(long, value_enum, value_name = "SWITCH")]
    peer: Option<Peer>,
    /// Time limit of each run, in seconds
    #[arg(long, value_name = "N", default_value_t = 15, value_parser = whole::<u32>(1..=600))]
    seconds: u32,
    /// Draw flows over time
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// The settings of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Case {
    kind: Kind,
    /// The flow limit is raised.
    is_raised: bool,
    /// The number of handlers, if it is set.
    handlers: Option<u16>,
    /// The number of packets in flight, if it is limited.
    window: Option<u32>,
}

/// One run of one switch.
struct Run {
    case: Case,
    version: String,
    samples: Samples,
    /// Established packets per second before, and the worker's time for one, in seconds, if they kept it busy.
    alone: f64,
    packet_alone_s: Option<f64>,
    bytes_per_flow: Option<f64>,
}

/// Runs the work that the arguments ask for.
pub fn measure(args: &FlowSetupArgs) -> Result<Outcome, BenchError> {
    if args.peer.is_some() && args.flows > PEER_FLOWS {
        let wrong = format!("Open vSwitch plays no more than {PEER_FLOWS} packets over and over");
        return Err(BenchError::WrongWork(wrong));
    }
    let (kinds, missing) = Peer::kinds(args.peer);
    daemon::enter("bench flow-setup", args.json, &kinds)?;
    let files = Files::write(args)?;
    let cases = cases(args, &kinds);
    let progress = Progress::start("setting flows up", cases.len() as u64);
    let mut runs = Vec::new();
    for case in cases {
        runs.push(run(args, &files, case)?);
        progress.advance(1);
    }
    drop(progress);
    let lines: Vec<Line> = runs.iter().map(Run::line).collect();
    let title = format!("{} flows, each for a packet", args.flows);
    Chart { title: &title, y_name: "flows installed", lines: &lines }.write(args.svg.as_deref())?;
    Ok(report(args, &runs, missing))
}

/// All runs of these switches.
fn cases(args: &FlowSetupArgs, kinds: &[Kind]) -> Vec<Case> {
    let mut cases = Vec::new();
    for &kind in kinds {
        let handlers: Vec<Option<u16>> = match kind {
            Kind::Tidegate if !args.handlers.is_empty() => {
                args.handlers.iter().copied().map(Some).collect()
            }
            _ => vec![None],
        };
        for handlers in handlers {
            let case = |is_raised, window| Case { kind, is_raised, handlers, window };
            cases.extend([case(false, None), case(true, None)]);
            if kind == Kind::Tidegate && args.window > 0 && args.rate.is_none() {
                cases.push(case(true, Some(args.window)));
            }
        }
    }
    cases
}

/// Starts a switch with its rules and established traffic, and waits until that has its flows.
fn start(args: &FlowSetupArgs, files: &Files, case: Case) -> Result<UnderTest, BenchError> {
    let mut switch = UnderTest::start(case.kind)?;
    if let Some(handlers) = case.handlers {
        switch.set_handlers(handlers)?;
    }
    if case.is_raised {
        switch.set_flow_limit(u64::from(args.flows) * 2 + u64::from(ESTABLISHED))?;
    }
    switch.add_flows(if case.window.is_some() { &files.echo_rules } else { &files.rules })?;
    for sink in [NEW_SINK, OLD_SINK] {
        switch.add_port(sink, Plays::Nothing)?;
    }
    let plays = if args.peer.is_none() { Plays::Paced } else { Plays::Loop };
    switch.add_port(OLD, plays(&files.old))?;
    let begun = clock::now();
    while switch.flows()? < u64::from(ESTABLISHED) {
        if clock::now() - begun > PATIENCE {
            let flows = switch.flows()?;
            let wrong = format!("the established traffic has {flows} flows, not {ESTABLISHED}");
            return Err(BenchError::WrongWork(wrong));
        }
        sleep(EVERY);
    }
    Ok(switch)
}

fn run(args: &FlowSetupArgs, files: &Files, case: Case) -> Result<Run, BenchError> {
    let mut switch = start(args, files, case)?;
    let (alone, packet_alone_s) = established_alone(&mut switch)?;
    sleep(PUBLISHED_AFTER);
    let resident = switch.resident_bytes();
    let plays = match (case.window, args.hold, args.rate) {
        (Some(packets), ..) => Plays::Windowed(&files.new, packets),
        (None, true, None) => Plays::Loop(&files.new),
        (None, true, Some(_)) => Plays::Paced(&files.new),
        (None, false, _) => Plays::Once(&files.new),
    };
    let samples = watch(args, &mut switch, plays)?;
    let grown = switch.resident_bytes().zip(resident).map(|(now, was)| now.saturating_sub(was));
    let samples = with_late_misses(samples, &mut switch)?;
    if samples.flows() > 0.0 && samples.established_rate() <= 0.0 {
        return Err(nothing_forwarded());
    }
    let version = switch.version()?;
    switch.stop()?;
    let flows = samples.flows();
    Ok(Run {
        case,
        version,
        samples,
        alone,
        packet_alone_s: args.peer.map(|_| packet_alone_s),
        bytes_per_flow: grown.filter(|_| flows > 0.0).map(|grown| grown as f64 / flows),
    })
}

fn nothing_forwarded() -> BenchError {
    BenchError::WrongWork("no packet of the established traffic was forwarded".into())
}

/// Established packets per second before other packets come, with the counters read as often as later, and the
/// worker's processor time for one of them, in seconds.
fn established_alone(switch: &mut UnderTest) -> Result<(f64, f64), BenchError> {
    let begun = clock::now();
    let first = Sample::read(switch, begun)?;
    while clock::now() - begun < ALONE {
        sleep(EVERY);
        Sample::read(switch, begun)?;
    }
    let last = Sample::read(switch, begun)?;
    let rate = last.established_rate(&first);
    if rate > 0.0 { Ok((rate, last.worker_s_per_packet(&first))) } else { Err(nothing_forwarded()) }
}

/// Adds the port of new packets, and reads the counters until all flows exist, no more are added, or the time
/// is over.
fn watch(
    args: &FlowSetupArgs,
    switch: &mut UnderTest,
    plays: Plays<'_>,
) -> Result<Vec<Sample>, BenchError> {
    let begun = clock::now();
    let mut samples = vec![Sample::read(switch, begun)?];
    switch.add_port(NEW, plays)?;
    let (mut most, mut grown_at) = (0.0, clock::now());
    loop {
        let sample = Sample::read(switch, begun)?;
        samples.push(sample);
        let now = clock::now();
        if sample.flows > most {
            (most, grown_at) = (sample.flows, now);
        }
        let is_over = now - begun >= Duration::from_secs(args.seconds.into());
        let is_quiet = !args.hold && now - grown_at >= QUIET;
        if sample.flows >= args.flows.into() || is_over || is_quiet {
            return Ok(samples);
        }
        sleep(EVERY);
    }
}

/// Adds a sample once the counters of misses are up to date. Flows removed meanwhile still count.
fn with_late_misses(
    mut samples: Vec<Sample>,
    switch: &mut UnderTest,
) -> Result<Samples, BenchError> {
    sleep(PUBLISHED_AFTER);
    let misses = switch.misses()?;
    if let Some(&last) = samples.last() {
        samples.push(Sample { at_s: last.at_s + PUBLISHED_AFTER.as_secs_f64(), misses, ..last });
    }
    Ok(Samples(samples))
}

impl Run {
    fn name(&self) -> String {
        let Case { kind, is_raised, handlers, window } = self.case;
        let limit = if is_raised { "limit raised" } else { "default limit" };
        let handlers = handlers.map_or(String::new(), |count| format!(", {count} handlers"));
        let window = window.map_or(String::new(), |packets| format!(", window {packets}"));
        format!("{}{handlers}, {limit}{window}", kind.name())
    }

    fn line(&self) -> Line {
        Line { name: self.name(), points: self.samples.points() }
    }

    fn established_ratio(&self) -> f64 {
        self.samples.established_rate() / self.alone
    }

    /// Processor time of all threads for a flow without what established packets take alone, in microseconds.
    fn own_processor_us(&self) -> Option<f64> {
        Some(self.samples.processor_us_per_flow(self.packet_alone_s?))
    }

    fn refused_share(&self) -> f64 {
        let Misses { queued, refused } = self.samples.misses();
        refused as f64 / (queued + refused).max(1) as f64
    }

    fn json(&self, flows: u32) -> Value {
        let samples = &self.samples;
        let all = samples.flows() >= f64::from(flows);
        let (misses, processor) = (samples.misses(), samples.processor());
        json!({
            "switch": self.case.kind.name(),
            "version": self.version,
            "limit": if self.case.is_raised { "raised" } else { "default" },
            "handlers": self.case.handlers,
            "window": self.case.window,
            "setups_per_second": samples.per_second(),
            "setups_per_processor_second": samples.per_processor_second(),
            "flows_installed": samples.flows(),
            "seconds_to_all": all.then(|| samples.came().at_s),
            "upcalls": misses.queued,
            "refused": misses.refused,
            "refused_share": self.refused_share(),
            "established_rate_ratio": self.established_ratio(),
            "bytes_per_flow": self.bytes_per_flow,
            "processor_us_per_flow": samples.processor_us_per_flow(0.0),
            "processor_us_per_flow_without_established": self.own_processor_us(),
            "workers_processor_s": processor.workers_s,
            "other_processor_s": processor.others_s,
            "installed": samples.points(),
        })
    }
}

/// Open vSwitch's processor time for a flow over ours, both with the limit raised and at full speed: all of it, and
/// without what established packets take alone.
fn processor_ratios(runs: &[Run]) -> Option<[f64; 2]> {
    let of = |kind| {
        let is_it = |it: &&Run| it.case.kind == kind && it.case.is_raised;
        let run = runs.iter().filter(is_it).find(|it| it.case.window.is_none())?;
        Some([run.samples.processor_us_per_flow(0.0), run.own_processor_us()?])
    };
    let ([all, own], [ovs, ovs_own]) = (of(Kind::Tidegate)?, of(Kind::Ovs)?);
    Some([ovs / all, ovs_own / own])
}

fn report(args: &FlowSetupArgs, runs: &[Run], missing: Option<String>) -> Outcome {
    let mut text = format!(
        "{} flows, each for a packet; {ESTABLISHED} established beside them\n{:46}{:>11}{:>11}{:>10}\
         {:>13}{:>13}{:>9}{:>9}\n",
        args.flows,
        "",
        "flows",
        "flows/s",
        "refused",
        "established",
        "bytes/flow",
        "us/flow",
        "own us"
    );
    for run in runs {
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "{:46}{:>11}{:>11.0}{:>9.1}%{:>13.2}{:>13}{:>9.2}{:>9}",
            run.name(),
            run.samples.flows(),
            run.samples.per_second(),
            100.0 * run.refused_share(),
            run.established_ratio(),
            run.bytes_per_flow.map_or("unknown".to_owned(), |bytes| format!("{bytes:.0}")),
            run.samples.processor_us_per_flow(0.0),
            run.own_processor_us().map_or("-".to_owned(), |us| format!("{us:.2}")),
        );
    }
    text += "(us/flow: processor time of all threads; own us: less that of established packets)\n";
    let ratios = processor_ratios(runs);
    if let Some([all, own]) = ratios {
        let over = "Open vSwitch's time for a flow over ours, limit raised";
        let _ = writeln!(text, "{over}: {all:.2}; own {own:.2}");
    }
    if let Some(why) = &missing {
        let _ = writeln!(text, "Open vSwitch is not measured: {why}");
    }
    let json = json!({
        "flows": args.flows,
        "established_flows": ESTABLISHED,
        "established_rate": args.peer.is_none().then_some(args.established_rate),
        "offered_rate": args.rate,
        "hold": args.hold,
        "rules": 20,
        "processor_ratio": ratios.map(|it| it[0]),
        "processor_ratio_without_established": ratios.map(|it| it[1]),
        "runs": runs.iter().map(|run| run.json(args.flows)).collect::<Value>(),
        "not_measured": missing,
    });
    Outcome { text, json }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slow_path::processor::Processor;

    /// A run with samples of seconds, flows, queued and refused misses.
    fn run(samples: &[(f64, f64, u64, u64)]) -> Run {
        let sample = |&(at_s, flows, queued, refused)| {
            let misses = Misses { queued, refused };
            Sample { at_s, flows, misses, ..Sample::default() }
        };
        Run {
            case: Case { kind: Kind::Tidegate, is_raised: true, handlers: None, window: None },
            version: "x".into(),
            samples: Samples(samples.iter().map(sample).collect()),
            alone: 1.0,
            packet_alone_s: Some(0.0),
            bytes_per_flow: Some(400.0),
        }
    }

    #[test]
    fn what_is_refused_after_the_last_flow_does_not_count() {
        let it = run(&[
            (0.0, 0.0, 0, 0),
            (1.0, 500.0, 500, 100),
            (2.0, 1000.0, 900, 200),
            (3.5, 1000.0, 1000, 3000),
            (9.0, 1000.0, 1000, 9999),
        ]);
        assert_eq!(it.refused_share(), 0.75);
        let json = it.json(1000);
        assert_eq!((&json["seconds_to_all"], &json["refused"]), (&2.0.into(), &3000.into()));
        assert!(it.json(1001)["seconds_to_all"].is_null());
    }

    fn args() -> FlowSetupArgs {
        FlowSetupArgs {
            flows: 1000,
            hold: true,
            rate: None,
            handlers: Vec::new(),
            window: 128,
            established_rate: 1000,
            peer: Some(Peer::Ovs),
            seconds: 1,
            svg: None,
            json: false,
        }
    }

    #[test]
    fn each_way_to_answer_is_run_and_ours_with_a_window() {
        let check = |args: &FlowSetupArgs, expect: &[(Kind, bool, Option<u16>, Option<u32>)]| {
            let cases = cases(args, &[Kind::Tidegate, Kind::Ovs]).into_iter();
            let found: Vec<_> =
                cases.map(|it| (it.kind, it.is_raised, it.handlers, it.window)).collect();
            assert_eq!(found, expect);
        };
        let (ours, ovs) = (Kind::Tidegate, Kind::Ovs);
        let peer = [(ovs, false, None, None), (ovs, true, None, None)];
        let of = |handlers: Option<u16>, window: Option<u32>| {
            let third = window.map(|window| (ours, true, handlers, Some(window)));
            [(ours, false, handlers, None), (ours, true, handlers, None)].into_iter().chain(third)
        };
        check(&args(), &of(None, Some(128)).chain(peer).collect::<Vec<_>>());
        let both = FlowSetupArgs { handlers: vec![0, 1], ..args() };
        let expect = of(Some(0), Some(128)).chain(of(Some(1), Some(128))).chain(peer);
        check(&both, &expect.collect::<Vec<_>>());
        let paced = FlowSetupArgs { rate: Some(1000), ..args() };
        check(&paced, &of(None, None).chain(peer).collect::<Vec<_>>());
    }

    #[test]
    fn a_switch_that_is_not_there_is_told() {
        let runs = [run(&[(0.0, 0.0, 0, 0), (1.0, 1000.0, 1000, 0)])];
        let Outcome { text, json } = report(&args(), &runs, Some("there is none".into()));
        assert!(text.contains("Open vSwitch is not measured: there is none"), "{text}");
        assert_eq!(json["not_measured"], "there is none");
        assert_eq!(json["runs"][0]["setups_per_second"], 1000.0);
        assert!(json["processor_ratio"].is_null());
    }

    #[test]
    fn processor_time_is_compared_where_both_limits_are_raised() {
        let of = |kind, is_raised, window, workers_s, packet_alone_s| {
            let last = Processor { workers_s, others_s: 1.0 };
            let after =
                Sample { at_s: 1.0, flows: 1e6, sent: 1000, processor: last, ..Sample::default() };
            let case = Case { kind, is_raised, handlers: None, window };
            let samples = Samples(vec![Sample::default(), after]);
            Run { case, samples, packet_alone_s, ..run(&[]) }
        };
        let runs = [
            of(Kind::Tidegate, false, None, 50.0, Some(0.0)),
            of(Kind::Tidegate, true, None, 4.0, Some(0.003)),
            of(Kind::Tidegate, true, Some(128), 60.0, Some(0.0)),
            of(Kind::Ovs, false, None, 70.0, Some(0.0)),
            of(Kind::Ovs, true, None, 9.0, Some(0.001)),
        ];
        assert_eq!(processor_ratios(&runs), Some([2.0, 4.5]));
        assert_eq!(processor_ratios(&runs[..3]), None);
        let json = report(&args(), &runs, None).json;
        assert_eq!(json["processor_ratio_without_established"], 4.5);
        assert_eq!(json["runs"][1]["processor_us_per_flow"], 5.0);
    }
}
