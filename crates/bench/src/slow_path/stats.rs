//! `tidegate bench stats`: what collecting statistics costs where flows are many, the experiment of
//! "Statistics Collection Performance Impact" (ovs-dev, 7 November 2011).
//!
//! A switch in memory on one thread, whose time is its own processor time: programs beside it do not
//! count, and what it waits for the next packet is skipped.

use super::turns::{Allowance, Turns};
use super::{Chart, Line, due, seconds};
use crate::memory::{available_bytes, resident_bytes};
use crate::packets::{self, TEMPLATE};
use crate::progress::Progress;
use crate::{BenchError, Outcome};
use ::conntrack::{Config as ConntrackConfig, Conntrack};
use base::{Instant, WorkerId};
use clap::Args;
use load::in_memory::{Cable, Discard, OwnTime, PORTS, Switch};
use serde_json::{Value, json};
use std::fmt::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Bytes of a packet.
const FRAME: usize = 128;
/// Packets that wait before the next are lost, as in a network card's ring.
const RING: u64 = 2048;
/// How often the control side is told that time passes, as the switch's thread tells it.
const TICK: Duration = Duration::from_millis(100);
/// Flows that one flow-mod affects.
const AFFECTED: u32 = 10;
/// The destinations of flows that flow-mods affect; one for each phase.
const SPECIAL: [[u8; 4]; 2] = [[10, 9, 9, 8], [10, 9, 9, 9]];
/// The rule, whose flows are exact: it copies what packets differ in to registers.
const RULE: &str = "priority=10,udp,in_port=p0,nw_dst=10.0.0.0/8,\
                    actions=move:NXM_OF_IP_SRC[]->NXM_NX_REG0[],\
                    move:NXM_OF_IP_DST[]->NXM_NX_REG1[],\
                    move:NXM_OF_UDP_SRC[]->NXM_NX_REG2[0..15],output:p1";

/// Measure what collecting statistics costs the setting up of flows
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:
  tidegate bench stats                                 768,000 flows, then up to 10 million
  tidegate bench stats --most 768000 --svg stats.svg   without the second phase; flows over time
  tidegate bench stats --flows 100000 --most 200000 --seconds 5 --json

128-byte packets of all flows in turn, 450,000 per second, then as fast as they are taken; each flow is
exact, and nothing else uses the switch. Three times: statistics collected every second with expiry, every
five seconds with expiry, and neither (other_config:tidegate-stats-interval and
tidegate-flow-expiry).

The switch is in memory, on one thread that does the work of a worker, a handler and the control thread.
Its time is the processor time of that thread, so that other programs do not count; the whole switch,
which divides the work among threads, is measured by bench flow-setup. longest_pause_ms is the longest
time in which packets of new flows waited and no flow came. bytes_per_flow is the growth of resident
memory in the first of the three.")]
pub struct StatsArgs {
    /// Flows of the first phase
    #[arg(long, value_name = "N", default_value_t = 768_000, value_parser = clap::value_parser!(u32).range(1000..=10_000_000))]
    flows: u32,
    /// Packets per second of the first phase
    #[arg(long, value_name = "N", default_value_t = 450_000, value_parser = clap::value_parser!(u32).range(1000..=100_000_000))]
    rate: u32,
    /// Flows of the second phase, at full speed; with no more than --flows there is none
    #[arg(long, value_name = "N", default_value_t = 10_000_000, value_parser = clap::value_parser!(u32).range(1000..=20_000_000))]
    most: u32,
    /// How long each phase may take at most, in processor time
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=3600))]
    seconds: u32,
    /// Memory at which a phase ends, in megabytes; by default half of what is available
    #[arg(long, value_name = "N")]
    memory_mb: Option<u64>,
    /// Draw flows over time
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// How statistics are collected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Upkeep {
    EverySecond,
    EveryFive,
    Never,
}

impl Upkeep {
    const ALL: [Upkeep; 3] = [Upkeep::EverySecond, Upkeep::EveryFive, Upkeep::Never];

    fn name(self) -> &'static str {
        match self {
            Upkeep::EverySecond => "every 1 s, with expiry",
            Upkeep::EveryFive => "every 5 s, with expiry",
            Upkeep::Never => "no statistics, no expiry",
        }
    }

    /// The interval of statistics, where 0 is never.
    fn interval_ms(self) -> u64 {
        match self {
            Upkeep::EverySecond => 1000,
            Upkeep::EveryFive => 5000,
            Upkeep::Never => 0,
        }
    }
}

/// One phase.
#[derive(Clone, Debug, Default)]
struct Phase {
    /// How many flows it is of.
    wanted: u32,
    flows: usize,
    /// When all were there, from its beginning.
    all_after_s: Option<f64>,
    took_s: f64,
    longest_pause_ms: f64,
    lost: u64,
    stopped_by: Option<&'static str>,
    flow_mod_ms: f64,
    flow_mod_flows: usize,
    aggregate_ms: f64,
}

/// All of one way to collect statistics.
struct Run {
    upkeep: Upkeep,
    phases: Vec<Phase>,
    /// Seconds from the beginning, and flows.
    installed: Vec<(f64, f64)>,
    bytes_per_flow: Option<f64>,
}

/// A switch with its packets, and where time stands.
struct Station {
    switch: Switch,
    cables: [Cable; 2],
    allowance: Allowance,
    time: OwnTime,
    begun: Instant,
    ticked: Instant,
    installed: Vec<(f64, f64)>,
    memory_max: u64,
}

/// Runs the work that the arguments ask for.
pub fn measure(args: &StatsArgs) -> Result<Outcome, BenchError> {
    let phases = [Some(args.flows), Some(args.most).filter(|most| *most > args.flows)];
    let phases: Vec<u32> = phases.into_iter().flatten().collect();
    let steps = Upkeep::ALL.len() * phases.len();
    let progress = Progress::start("setting flows up", steps as u64);
    let mut runs = Vec::new();
    for upkeep in Upkeep::ALL {
        // Memory that an earlier run had is used again, so that only the first one's growth counts.
        let before = resident_bytes().filter(|_| runs.is_empty());
        let mut station = Station::new(args, upkeep)?;
        let mut done = Vec::new();
        for (number, &flows) in phases.iter().enumerate() {
            let rate = (number == 0).then_some(args.rate);
            done.push(station.phase(
                flows,
                rate,
                number,
                Duration::from_secs(args.seconds.into()),
            )?);
            progress.advance(1);
        }
        let grown = before.and_then(|before| resident_bytes()?.checked_sub(before));
        let flows = station.switch.flow_count();
        runs.push(Run {
            upkeep,
            phases: done,
            installed: station.installed,
            bytes_per_flow: grown.filter(|_| flows > 0).map(|grown| grown as f64 / flows as f64),
        });
    }
    drop(progress);
    let line = |run: &Run| Line { name: run.upkeep.name().into(), points: run.installed.clone() };
    let lines: Vec<Line> = runs.iter().map(line).collect();
    let title = "Flows over time, by how often statistics are collected";
    Chart { title, y_name: "flows", lines: &lines }.write(args.svg.as_deref())?;
    Ok(report(args, &runs))
}

impl Station {
    fn new(args: &StatsArgs, upkeep: Upkeep) -> Result<Station, BenchError> {
        let conntrack = Arc::new(Conntrack::new(fastrand::u64(..), ConntrackConfig::default()));
        let mut switch = Switch::sharing(RULE, WorkerId(0), conntrack)?;
        let config = ofproto::Config {
            flow_limit: 2 * args.most.max(args.flows) as usize,
            stats_interval_ms: Some(upkeep.interval_ms()),
            expires: upkeep != Upkeep::Never,
            ..ofproto::Config::default()
        };
        switch.set_flow_limit(config.flow_limit);
        switch.set_config(config);
        let allowance = Allowance::default();
        let mut frame = vec![0; FRAME];
        frame[..TEMPLATE.len()].copy_from_slice(&TEMPLATE);
        let turns = Turns::new(frame, set_flow, allowance.clone());
        let silent = Turns::new(Vec::new(), |_, _| {}, Allowance::default());
        let [from, to] = PORTS.map(|(_, port)| port);
        let cables = [
            Cable { port: from, rx: Box::new(turns), tx: Box::new(Discard) },
            Cable { port: to, rx: Box::new(silent), tx: Box::new(Discard) },
        ];
        let time = OwnTime::start();
        let begun = time.now();
        let memory_max = match args.memory_mb {
            Some(megabytes) => megabytes << 20,
            None => resident_bytes().unwrap_or(0) + available_bytes().unwrap_or(u64::MAX) / 2,
        };
        let (ticked, installed) = (begun, Vec::new());
        Ok(Station { switch, cables, allowance, time, begun, ticked, installed, memory_max })
    }

    /// Packets of so many flows in turn, until each has its flow or the time is over.
    fn phase(
        &mut self,
        flows: u32,
        rate: Option<u32>,
        number: usize,
        longest: Duration,
    ) -> Result<Phase, BenchError> {
        self.allowance.set_flows(0, flows.into());
        let begun = self.time.now();
        let mut phase = Phase { wanted: flows, ..Phase::default() };
        let (mut offered, mut grown_at, mut count) = (0, begun, self.switch.flow_count());
        loop {
            let now = self.time.now();
            self.tick(now, &mut phase);
            if let Some(rate) = rate {
                let due = due(now, begun, rate);
                if due == offered && self.allowance.left() == 0 {
                    let next = Duration::from_nanos(1_000_000_000 / u64::from(rate) + 1);
                    self.time.skip_to(now + next);
                    // Nothing waited: that is no pause.
                    grown_at = self.time.now();
                    continue;
                }
                let room = RING - self.allowance.left().min(RING);
                let come = (due - offered).min(room);
                phase.lost += due - offered - come;
                offered = due;
                self.allowance.add(come);
            } else {
                self.allowance.add(RING - self.allowance.left().min(RING));
            }
            self.switch.turn(now, &mut self.cables, 0)?;
            self.switch.go_on(now);
            let flows_now = self.switch.flow_count();
            if flows_now > count {
                let now = self.time.now();
                let pause = (now - grown_at).as_secs_f64() * 1e3;
                phase.longest_pause_ms = phase.longest_pause_ms.max(pause);
                grown_at = now;
            }
            count = flows_now;
            if count >= flows as usize {
                phase.all_after_s = Some(seconds(begun, self.time.now()));
            } else if self.time.now() - begun >= longest {
                phase.stopped_by = Some("time");
            }
            if phase.all_after_s.is_some() || phase.stopped_by.is_some() {
                break;
            }
        }
        (phase.took_s, phase.flows) = (seconds(begun, self.time.now()), count);
        self.sample();
        self.ask(&mut phase, number)?;
        Ok(phase)
    }

    /// Lets time pass for the control side, and counts.
    fn tick(&mut self, now: Instant, phase: &mut Phase) {
        if now - self.ticked < TICK {
            return;
        }
        self.ticked = now;
        self.sample();
        self.switch.sort();
        self.switch.keep_up(now);
        if resident_bytes().is_some_and(|bytes| bytes > self.memory_max) {
            phase.stopped_by = Some("memory");
        }
    }

    fn sample(&mut self) {
        let at = seconds(self.begun, self.time.now());
        self.installed.push((at, self.switch.flow_count() as f64));
    }

    /// What a controller waits for: a flow-mod that affects ten flows, the sum of one rule.
    fn ask(&mut self, phase: &mut Phase, number: usize) -> Result<(), BenchError> {
        let [a, b, c, d] = SPECIAL[number];
        let rule = format!("priority=300,udp,in_port=p0,nw_dst={a}.{b}.{c}.{d},actions=drop");
        let begun = self.time.now();
        self.switch.flow_mod(&rule, begun)?;
        phase.flow_mod_flows = self.switch.settle(begun);
        let changed = self.time.now();
        let sum = self.switch.aggregate("udp,in_port=p0,nw_dst=10.0.0.0/8", changed)?;
        let answered = self.time.now();
        if sum.packets == 0 && phase.flows > 0 {
            return Err(BenchError::WrongWork("the rule counted no packet".into()));
        }
        phase.flow_mod_ms = 1e3 * seconds(begun, changed);
        phase.aggregate_ms = 1e3 * seconds(changed, answered);
        Ok(())
    }
}

/// Makes a frame one of a flow: of the first ten and of the ten after them flow-mods will tell.
fn set_flow(frame: &mut [u8], flow: u32) {
    packets::set_connection(frame, flow);
    let destination = match flow / AFFECTED {
        0 => SPECIAL[0],
        1 => SPECIAL[1],
        _ => [10, 1, 1, 2],
    };
    packets::set_destination(frame, destination);
}

impl Phase {
    fn json(&self) -> Value {
        json!({
            "wanted": self.wanted,
            "flows": self.flows,
            "seconds_to_limit": self.all_after_s,
            "took_s": self.took_s,
            "longest_pause_ms": self.longest_pause_ms,
            "lost": self.lost,
            "stopped_by": self.stopped_by,
            "flow_mod_ms": self.flow_mod_ms,
            "flow_mod_flows": self.flow_mod_flows,
            "aggregate_ms": self.aggregate_ms,
        })
    }
}

fn report(args: &StatsArgs, runs: &[Run]) -> Outcome {
    let mut text = format!(
        "{FRAME}-byte packets of all flows in turn; times are processor time of one thread\n\
         {:26}{:>11}{:>11}{:>12}{:>13}{:>12}{:>13}\n",
        "statistics", "wanted", "flows", "seconds", "pause ms", "flow-mod ms", "aggregate ms"
    );
    for run in runs {
        for phase in &run.phases {
            let took = match phase.stopped_by {
                None => format!("{:.2}", phase.took_s),
                Some(by) => format!("{:.1} ({by})", phase.took_s),
            };
            // Writing to a string cannot fail.
            let _ = writeln!(
                text,
                "{:26}{:>11}{:>11}{took:>12}{:>13.2}{:>12.2}{:>13.2}",
                run.upkeep.name(),
                phase.wanted,
                phase.flows,
                phase.longest_pause_ms,
                phase.flow_mod_ms,
                phase.aggregate_ms,
            );
        }
    }
    if let Some(bytes) = runs.first().and_then(|run| run.bytes_per_flow) {
        let _ = writeln!(text, "{bytes:.0} bytes of memory per flow");
    }
    let runs = runs.iter().map(|run| {
        json!({
            "statistics": run.upkeep.name(),
            "interval_ms": run.upkeep.interval_ms(),
            "phases": run.phases.iter().map(Phase::json).collect::<Value>(),
            "bytes_per_flow": run.bytes_per_flow,
            "installed": run.installed,
        })
    });
    let json = json!({
        "flows": args.flows,
        "rate": args.rate,
        "most": args.most,
        "frame_bytes": FRAME,
        "time": "processor time of the thread",
        "runs": runs.collect::<Value>(),
    });
    Outcome { text, json }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(flows: u32, most: u32) -> StatsArgs {
        StatsArgs {
            flows,
            rate: 450_000,
            most,
            seconds: 60,
            memory_mb: None,
            svg: None,
            json: true,
        }
    }

    #[test]
    fn all_flows_come_whether_statistics_are_collected_or_not() {
        let Outcome { text, json } = measure(&args(3000, 5000)).unwrap();
        for run in json["runs"].as_array().unwrap() {
            let phases = run["phases"].as_array().unwrap();
            for (phase, wanted) in phases.iter().zip([3000, 5000]) {
                assert_eq!((&phase["flows"], &phase["wanted"]), (&wanted.into(), &wanted.into()));
                assert!(phase["seconds_to_limit"].as_f64().unwrap() > 0.0, "{phase}");
                assert!(phase["longest_pause_ms"].as_f64().unwrap() > 0.0, "{phase}");
                assert!(phase["flow_mod_flows"].as_u64().unwrap() >= 10, "{phase}");
                assert!(phase["flow_mod_ms"].as_f64().unwrap() > 0.0, "{phase}");
            }
            let installed = run["installed"].as_array().unwrap();
            assert_eq!(installed.last().unwrap()[1], 5000.0);
        }
        assert_eq!(json["runs"].as_array().unwrap().len(), 3);
        assert!(text.contains("no statistics, no expiry"), "{text}");
    }

    #[test]
    fn too_much_memory_and_too_much_time_end_a_phase() {
        let little = StatsArgs { memory_mb: Some(1), flows: 1_000_000, most: 1000, ..args(0, 0) };
        let mut station = Station::new(&little, Upkeep::EverySecond).unwrap();
        let phase = station.phase(1_000_000, None, 0, Duration::from_secs(60)).unwrap();
        assert_eq!(phase.stopped_by, Some("memory"));
        let mut station = Station::new(&args(1_000_000, 1000), Upkeep::Never).unwrap();
        let phase = station.phase(1_000_000, None, 0, Duration::from_millis(20)).unwrap();
        assert_eq!((phase.stopped_by, phase.all_after_s), (Some("time"), None));
    }

    #[test]
    fn frames_are_of_their_flow() {
        let mut frame = vec![0; FRAME];
        frame[..TEMPLATE.len()].copy_from_slice(&TEMPLATE);
        for (flow, destination) in
            [(0, SPECIAL[0]), (9, SPECIAL[0]), (10, SPECIAL[1]), (20, [10, 1, 1, 2])]
        {
            set_flow(&mut frame, flow);
            assert_eq!(
                frame[packets::IP_DESTINATION..packets::IP_DESTINATION + 4],
                destination,
                "{flow}"
            );
            let good = wire::checksum::Verdict::Good;
            assert_eq!(wire::checksum::verify_ipv4_header(&frame[14..34]), good, "{flow}");
        }
        assert_eq!(due(Instant::from_nanos(1_500_000_000), Instant::from_nanos(500_000_000), 7), 7);
    }
}
