//! `tidegate bench stats`: the cost of collecting statistics with many flows, the experiment of "Statistics
//! Collection Performance Impact" (ovs-dev, 7 November 2011).
//!
//! A switch in memory on one thread, timed by its own processor time: other programs do not count, and idle
//! time is skipped.

mod pauses;
mod station;
mod whole;

use self::station::{Burst, Phase, Purge, Station};
use self::whole::{Files, Whole};
use super::daemon::{self, Peer};
use super::{Chart, Line};
use crate::memory::resident_bytes;
use crate::progress::Progress;
use crate::{BenchError, Outcome};
use clap::Args;
use load::generate::numbers::whole;
use serde_json::{Value, json};
use std::fmt::Write;
use std::path::PathBuf;
use std::time::Duration;

/// Bytes of a packet.
const FRAME: usize = 128;

/// Measure the effect of collecting statistics on flow set-up
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:
  tidegate bench stats                                 768,000 flows, then up to 10 million
  tidegate bench stats --most 768000 --svg stats.svg   without the second phase; flows over time
  tidegate bench stats --flows 100000 --most 200000 --seconds 5 --json
  tidegate bench stats --peer ovs --svg stats.svg      the first phase through whole switches

128-byte packets of all flows in turn, 450,000 per second, then as fast as they are taken. Megaflows \
are disabled, so each flow is exact; the rule sends to a port that is down; nothing else uses the \
switch. Three times: statistics collected every second with expiry, every five seconds with expiry, \
and neither (other_config:tidegate-stats-interval and tidegate-flow-expiry).

The switch is in memory, on one thread that does the work of a worker, a handler and the control thread.
Its time is the processor time of that thread, so that other programs do not count; the whole switch,
which divides the work among threads, is measured by bench flow-setup. longest_pause_ms is the longest
time in which packets of new flows waited and no flow came; longest_pause has beside it the time by a clock
and the longest piece of work in it. longest_step_ms is the longest part in which
a flow-mod, an aggregate or the deletion of all flows at the end is carried out; with --flow-mods also
the publication of that many new rules and the translation of all flows that follows. bytes_per_flow is the
growth of resident memory in the first of the three.

With --peer the first phase goes through whole switches in processes and namespaces of their own, \
ours and Open vSwitch's with DPDK (max-revalidator in place of the interval; it always collects), \
with one worker each; times are then those of a clock. Needs ovsdb-server, the stock tools, root and \
huge pages.")]
pub struct StatsArgs {
    /// Flows of the first phase
    #[arg(long, value_name = "N", default_value_t = 768_000, value_parser = whole::<u32>(1000..=10_000_000))]
    flows: u32,
    /// Packets per second of the first phase
    #[arg(long, value_name = "N", default_value_t = 450_000, value_parser = whole::<u32>(1000..=100_000_000))]
    rate: u32,
    /// Flows of the second phase, at full speed; no such phase if not above --flows
    #[arg(long, value_name = "N", default_value_t = 10_000_000, value_parser = whole::<u32>(1000..=20_000_000))]
    most: u32,
    /// Time limit of each phase, in seconds of processor time
    #[arg(long, value_name = "N", default_value_t = 180, value_parser = whole::<u32>(1..=3600))]
    seconds: u32,
    /// Idle timeout of flows in seconds; it must exceed the time to play all flows once
    #[arg(long, value_name = "N", default_value_t = 600, value_parser = whole::<u32>(1..=86_400))]
    max_idle: u32,
    /// Rules that are added at once in the end
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = whole::<u32>(0..=1_000_000))]
    flow_mods: u32,
    /// Memory at which a phase ends, in megabytes; by default half of what is available
    #[arg(long, value_name = "N", value_parser = whole::<u64>(..))]
    memory_mb: Option<u64>,
    /// Measure whole switches: ours and a peer
    #[arg(long, value_enum, value_name = "SWITCH")]
    peer: Option<Peer>,
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

    /// The interval of statistics; 0 is never.
    fn interval_ms(self) -> u64 {
        match self {
            Upkeep::EverySecond => 1000,
            Upkeep::EveryFive => 5000,
            Upkeep::Never => 0,
        }
    }
}

/// The run of one way to collect statistics.
struct Run {
    upkeep: Upkeep,
    phases: Vec<Phase>,
    /// Seconds since the start, and flows.
    installed: Vec<(f64, f64)>,
    bytes_per_flow: Option<f64>,
    burst: Option<Burst>,
    purge: Purge,
}

/// Runs the work that the arguments ask for.
pub fn measure(args: &StatsArgs) -> Result<Outcome, BenchError> {
    if args.peer.is_some() {
        return measure_whole(args);
    }
    let phases = [Some(args.flows), Some(args.most).filter(|most| *most > args.flows)];
    let phases: Vec<u32> = phases.into_iter().flatten().collect();
    let steps = Upkeep::ALL.len() * phases.len();
    let progress = Progress::start("setting flows up", steps as u64);
    let mut runs = Vec::new();
    for upkeep in Upkeep::ALL {
        // Later runs reuse the memory of earlier ones, so only the first one's growth counts.
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
        let flows = station.flow_count();
        let burst = (args.flow_mods > 0).then(|| station.burst(args.flow_mods)).transpose()?;
        let purge = station.purge()?;
        runs.push(Run {
            upkeep,
            phases: done,
            burst,
            purge,
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

/// The first phase through whole switches.
fn measure_whole(args: &StatsArgs) -> Result<Outcome, BenchError> {
    let (kinds, missing) = Peer::kinds(args.peer);
    daemon::enter("bench stats", args.json, &kinds)?;
    let files = Files::write(args)?;
    let steps = kinds.len() * Upkeep::ALL.len();
    let progress = Progress::start("setting flows up", steps as u64);
    let mut wholes = Vec::new();
    for kind in kinds {
        for upkeep in Upkeep::ALL {
            wholes.push(whole::run(args, &files, kind, upkeep)?);
            progress.advance(1);
        }
    }
    drop(progress);
    let line = |it: &Whole| Line { name: it.name(), points: it.installed.clone() };
    let lines: Vec<Line> = wholes.iter().map(line).collect();
    let title = "Flows over time, by how often statistics are collected";
    Chart { title, y_name: "flows", lines: &lines }.write(args.svg.as_deref())?;
    Ok(whole::report(args, &wholes, missing))
}

/// A line about what was done after the last phase.
fn ending(what: &str, flows: &str, took_s: f64, longest_step_ms: f64) -> String {
    format!("  {what:24}{:>11}{flows:>11}{took_s:>12.2}{longest_step_ms:>46.2}\n", "")
}

fn report(args: &StatsArgs, runs: &[Run]) -> Outcome {
    let mut text = format!(
        "{FRAME}-byte packets of all flows in turn; times are processor time of one thread\n\
         {:26}{:>11}{:>11}{:>12}{:>10}{:>13}{:>14}{:>9}\n",
        "statistics",
        "wanted",
        "flows",
        "seconds",
        "pause ms",
        "flow-mod ms",
        "aggregate ms",
        "step ms"
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
                "{:26}{:>11}{:>11}{took:>12}{:>10.2}{:>13.2}{:>14.2}{:>9.2}",
                run.upkeep.name(),
                phase.wanted,
                phase.flows,
                phase.longest_pause_ms,
                phase.flow_mod_ms,
                phase.aggregate_ms,
                phase.longest_step_ms,
            );
        }
        if let Some(Burst { flow_mods, settled_s, longest_step_ms, .. }) = run.burst {
            text += &ending(&format!("{flow_mods} flow-mods"), "", settled_s, longest_step_ms);
        }
        let Purge { flows, took_s, longest_step_ms } = run.purge;
        text += &ending("all flows deleted", &flows.to_string(), took_s, longest_step_ms);
    }
    if let Some(bytes) = runs.first().and_then(|run| run.bytes_per_flow) {
        let _ = writeln!(text, "{bytes:.0} bytes of memory per flow");
    }
    let runs = runs.iter().map(|run| {
        json!({
            "statistics": run.upkeep.name(),
            "interval_ms": run.upkeep.interval_ms(),
            "phases": run.phases,
            "burst": run.burst,
            "purge": run.purge,
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

    pub fn args(flows: u32, most: u32) -> StatsArgs {
        StatsArgs {
            flows,
            rate: 450_000,
            most,
            seconds: 60,
            max_idle: 600,
            flow_mods: 100,
            memory_mb: None,
            peer: None,
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
                let pause = &phase["longest_pause"];
                assert!(pause["work_ms"].as_f64().unwrap() <= pause["ms"].as_f64().unwrap());
                assert_eq!(pause["ms"], phase["longest_pause_ms"]);
                assert!(phase["flow_mod_flows"].as_u64().unwrap() >= 10, "{phase}");
                for time in ["flow_mod_ms", "longest_step_ms"] {
                    assert!(phase[time].as_f64().unwrap() > 0.0, "{phase}");
                }
            }
            let installed = run["installed"].as_array().unwrap();
            assert_eq!(
                installed[installed.len() - 2..].iter().map(|it| &it[1]).collect::<Vec<_>>(),
                [5000.0, 0.0]
            );
            // Ten flows of each phase were dropped by a flow-mod, not removed.
            assert_eq!(run["purge"]["flows"], 5000);
            assert_eq!(
                (&run["burst"]["flow_mods"], &run["burst"]["flows"]),
                (&100.into(), &5000.into())
            );
            assert!(run["burst"]["published_ms"].as_f64().unwrap() > 0.0, "{run}");
            assert!(run["purge"]["longest_step_ms"].as_f64().unwrap() > 0.0, "{run}");
        }
        assert_eq!(json["runs"].as_array().unwrap().len(), 3);
        assert!(text.contains("no statistics, no expiry"), "{text}");
    }
}
