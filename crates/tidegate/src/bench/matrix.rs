//! `tidegate bench matrix`: the published table of rates in one command. Each cell is a search by
//! `tidegate cps-ndr` in a process of its own, whose result stays in the folder, so that a run that
//! was stopped goes on where it was.

use super::{BenchError, Outcome};
use crate::dut;
use crate::generate::numbers::human;
use clap::{Args, ValueEnum};
use port_linux::affinity::allowed_cpus;
use serde_json::{Value, json};
use std::fmt::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::str::FromStr;
use std::time::{Duration, Instant};

/// Measure the published table: short- and long-lived, with and without tracking, ours and theirs
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:
  tidegate bench matrix results                      every cell; run it again to go on
  tidegate bench matrix results --profiles short     without long-lived connections
  tidegate bench matrix results --layouts 1,2,4      by workers, with as many queues
  tidegate bench matrix results --list               what would be measured, and what is there
  tidegate report results                            the same as a page

Our switch and Open vSwitch's daemon are measured through vhost-user, a core for each worker of the
switch and of the generator, where this program has DPDK and Open vSwitch's daemon with DPDK is
installed; else ours in memory and both between veth pairs. The difference is between the two on
the same ports. Beside each rate stands what the busiest worker does then, locks marked with a star.
A cell's result is DIR/CELL.json; to measure a cell again, remove it.")]
pub struct MatrixArgs {
    /// Where results are kept
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// Which connections
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Lived::Short, Lived::Long])]
    profiles: Vec<Lived>,
    /// With connection tracking, without, or both
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Tracking::Ct, Tracking::Plain])]
    tracking: Vec<Tracking>,
    /// Workers and queues, as 4x2, or 4 for 4x4 [default: the published ones that have cores here]
    #[arg(long, value_delimiter = ',', value_name = "N[xM]")]
    layouts: Vec<Layout>,
    /// How switches are reached [default: vhost where that works, else memory and veth]
    #[arg(long, value_enum, value_delimiter = ',')]
    ports: Vec<Ports>,
    /// Which switches
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Version::Tidegate, Version::Ovs])]
    versions: Vec<Version>,
    /// How long each rate of short-lived connections is sampled, in seconds; long-lived: 25 and this
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=500))]
    sample_time: u32,
    /// Packets and connections that may be lost, in percent
    #[arg(long, value_name = "PERCENT", default_value_t = 0.02)]
    error_threshold: f64,
    /// The searches' precision, in percent
    #[arg(long, value_name = "PERCENT", default_value_t = 2.0)]
    precision: f64,
    /// Only say what would be measured
    #[arg(long)]
    list: bool,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// How long connections live.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Lived {
    /// One request and one reply
    Short,
    /// 500 of each over 25 seconds
    Long,
}

/// Whether connections are tracked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Tracking {
    /// Connection tracking, with the published rules
    Ct,
    /// None
    Plain,
}

/// How a switch is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Ports {
    /// vhost-user
    Vhost,
    /// In memory (ours alone)
    Memory,
    /// veth pairs
    Veth,
}

/// Which switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Version {
    /// This program's
    Tidegate,
    /// The installed Open vSwitch's
    Ovs,
}

/// Workers of a switch, and queues of each of its ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Layout {
    workers: usize,
    queues: usize,
}

impl Layout {
    const ONE: Layout = Layout { workers: 1, queues: 1 };
    /// The published ones.
    const PUBLISHED: [Layout; 7] = [
        Layout::ONE,
        Layout { workers: 2, queues: 1 },
        Layout { workers: 2, queues: 2 },
        Layout { workers: 4, queues: 2 },
        Layout { workers: 4, queues: 4 },
        Layout { workers: 8, queues: 4 },
        Layout { workers: 8, queues: 8 },
    ];

    /// The published ones for which there are so many cores: as many again for the generator.
    fn that_fit(cores: usize) -> Vec<Layout> {
        let fits = |layout: &Layout| *layout == Layout::ONE || 2 * layout.workers <= cores;
        Layout::PUBLISHED.into_iter().filter(fits).collect()
    }
}

impl FromStr for Layout {
    type Err = String;

    fn from_str(text: &str) -> Result<Layout, String> {
        let (workers, queues) = text.split_once('x').unwrap_or((text, text));
        let number = |text: &str| text.parse().ok().filter(|n| (1..=64).contains(n));
        match (number(workers), number(queues)) {
            (Some(workers), Some(queues)) if queues <= workers => Ok(Layout { workers, queues }),
            (Some(_), Some(_)) => Err("each queue needs a worker: as many workers, or more".into()),
            _ => Err("write workers and queues as 4x2, from 1 to 64".into()),
        }
    }
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}", self.workers, self.queues)
    }
}

/// One search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cell {
    lived: Lived,
    tracking: Tracking,
    layout: Layout,
    version: Version,
    ports: Ports,
}

impl Cell {
    fn name(&self) -> String {
        let lived = if self.lived == Lived::Short { "short" } else { "long" };
        let tracked = if self.tracking == Tracking::Ct { "ct" } else { "plain" };
        let (dut, ports) = (self.dut(), self.ports.word());
        format!("{lived}-{tracked}-{}-{dut}-{ports}", self.layout)
    }

    fn dut(&self) -> &'static str {
        if self.version == Version::Ovs { "ovs" } else { "tidegate" }
    }

    /// The range that is searched: what a device can carry there on machines of today.
    fn range(&self) -> [String; 2] {
        let workers = self.layout.workers as f64;
        let (min, max) = match (self.lived, self.ports) {
            (Lived::Short, Ports::Memory | Ports::Vhost) => (2e3, (1e6 * workers).min(2e6)),
            (Lived::Short, Ports::Veth) => (100.0, 40e3),
            (Lived::Long, Ports::Memory | Ports::Vhost) => (100.0, 8e3 * workers),
            (Lived::Long, Ports::Veth) => (100.0, 2e3),
        };
        [min, max].map(|rate| rate.to_string())
    }

    /// Whether it is measured at all.
    fn is_meant(&self) -> bool {
        match self.ports {
            Ports::Vhost => true,
            // Another process has no ports in this one's memory.
            Ports::Memory => self.version == Version::Tidegate,
            // A veth has one queue.
            Ports::Veth => self.layout == Layout::ONE,
        }
    }

    fn arguments(&self, args: &MatrixArgs, file: &Path) -> Vec<String> {
        let [min, max] = self.range();
        let long = self.lived == Lived::Long;
        let sample = args.sample_time + if long { 25 } else { 0 };
        let mut all = vec!["cps-ndr".to_owned(), "--perf".to_owned()];
        let named = [
            ("-u", "1".to_owned()),
            ("-m", min),
            ("-M", max),
            ("--dut", self.dut().to_owned()),
            ("--ports", self.ports.word().to_owned()),
            ("--workers", self.layout.workers.to_string()),
            ("--queues", self.layout.queues.to_string()),
            ("-T", sample.to_string()),
            ("-e", args.error_threshold.to_string()),
            ("--precision", args.precision.to_string()),
            ("-o", file.display().to_string()),
        ];
        all.extend(named.into_iter().flat_map(|(name, value)| [name.to_owned(), value]));
        if long {
            all.extend(["-n", "500", "-w", "50"].map(str::to_owned));
        }
        if self.tracking == Tracking::Plain {
            all.push("--no-ct".to_owned());
        }
        all
    }
}

impl Ports {
    fn word(self) -> &'static str {
        match self {
            Ports::Vhost => "vhost",
            Ports::Memory => "memory",
            Ports::Veth => "veth",
        }
    }
}

impl MatrixArgs {
    fn cells(&self) -> Vec<Cell> {
        let cores = allowed_cpus().map_or(1, |cpus| cpus.len());
        let layouts =
            if self.layouts.is_empty() { Layout::that_fit(cores) } else { self.layouts.clone() };
        let ports = match (self.ports.is_empty(), dut::has_vhost()) {
            (false, _) => self.ports.clone(),
            (true, true) => vec![Ports::Vhost],
            (true, false) => vec![Ports::Memory, Ports::Veth],
        };
        let mut all = Vec::new();
        for &lived in &self.profiles {
            for &tracking in &self.tracking {
                for &layout in &layouts {
                    for &ports in &ports {
                        let cell = |&version| Cell { lived, tracking, layout, version, ports };
                        all.extend(self.versions.iter().map(cell).filter(Cell::is_meant));
                    }
                }
            }
        }
        all
    }
}

/// Measures what is missing, and shows the table.
pub fn measure(args: &MatrixArgs) -> Result<Outcome, BenchError> {
    let wrong = |what: String| BenchError::WrongWork(what);
    std::fs::create_dir_all(&args.folder)
        .map_err(|error| wrong(format!("{}: {error}", args.folder.display())))?;
    let all = args.cells();
    let file = |cell: &Cell| args.folder.join(format!("{}.json", cell.name()));
    if args.list {
        let is_there = |cell: &Cell| if file(cell).exists() { "measured" } else { "missing" };
        let text = all.iter().map(|cell| format!("{:<32}{}\n", cell.name(), is_there(cell)));
        let names: Vec<_> =
            all.iter().map(|cell| json!({"cell": cell.name(), "is": is_there(cell)})).collect();
        return Ok(Outcome { text: text.collect(), json: json!(names) });
    }
    let missing: Vec<&Cell> = all.iter().filter(|cell| !file(cell).exists()).collect();
    let start = Instant::now();
    for (done, cell) in missing.iter().enumerate() {
        let left = match done {
            0 => String::new(),
            n => {
                let each = start.elapsed().as_secs() / n as u64;
                let left = Duration::from_secs(each * (missing.len() - n) as u64);
                format!(", about {} minutes left", left.as_secs().div_ceil(60))
            }
        };
        eprintln!("{} ({} of {}{left})", cell.name(), done + 1, missing.len());
        search(args, cell, &file(cell))?;
    }
    report(&all, &args.folder)
}

/// One search, whose file appears only when it is whole.
fn search(args: &MatrixArgs, cell: &Cell, file: &Path) -> Result<(), BenchError> {
    let part = file.with_extension("part");
    let program = std::env::current_exe()
        .map_err(|error| BenchError::WrongWork(format!("this program's file: {error}")))?;
    let output = Command::new(program)
        .args(cell.arguments(args, &part))
        .stdout(std::process::Stdio::null())
        .output()
        .map_err(|error| BenchError::WrongWork(format!("{}: {error}", cell.name())))?;
    let interrupted = std::fs::read(&part)
        .ok()
        .and_then(|bytes| serde_json::from_slice::<Value>(&bytes).ok())
        .is_none_or(|json| json["interrupted"] == true);
    // Without an answer (1, or 3 with samples) there is a result all the same.
    if interrupted || !matches!(output.status.code(), Some(0 | 1 | 3)) {
        let said = String::from_utf8_lossy(&output.stderr);
        let last = said.lines().last().unwrap_or("it was interrupted");
        return Err(BenchError::WrongWork(format!("{} did not end: {last}", cell.name())));
    }
    std::fs::rename(&part, file)
        .map_err(|error| BenchError::WrongWork(format!("{}: {error}", file.display())))
}

fn report(all: &[Cell], folder: &Path) -> Result<Outcome, BenchError> {
    let mut text = format!(
        "{:<32} | {:>13} | {:>12} | {:>9} | {:>11} | {:>10} | {:<10} | {}\n",
        "Cell",
        "Connections/s",
        "Active Flows",
        "Bandwidth",
        "Packet Rate",
        "Difference",
        "Limited by",
        "Busiest worker"
    );
    let (mut rows, mut found): (Vec<Value>, Vec<(Cell, f64)>) = (Vec::new(), Vec::new());
    for cell in all {
        let json = read(folder, cell)?;
        let number = |key: &str| json.get(key).and_then(Value::as_f64);
        let rate = number("connections_per_second");
        found.extend(rate.map(|rate| (*cell, rate)));
        // Ours against theirs, where both stand between the same ports.
        let ours = Cell { version: Version::Tidegate, ..*cell };
        let ours = found.iter().find(|(of, _)| cell.version == Version::Ovs && *of == ours);
        let difference = rate.zip(ours).map(|(theirs, (_, ours))| 100.0 * (ours / theirs - 1.0));
        let shown = |n: Option<f64>| n.map_or("-".to_owned(), human);
        let by = json.get("limited_by").and_then(Value::as_str).unwrap_or("-");
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "{:<32} | {:>13} | {:>12} | {:>9} | {:>11} | {:>10} | {by:<10} | {}",
            cell.name(),
            shown(rate),
            shown(number("active_flows")),
            shown(number("tx_bits_per_second")),
            shown(number("tx_packets_per_second")),
            difference.map_or(String::new(), |d| format!("{d:+.0}%")),
            worker(&json),
        );
        rows.push(json!({
            "cell": cell.name(),
            "workers": cell.layout.workers,
            "queues": cell.layout.queues,
            "version": json.pointer("/dut/version"),
            "connections_per_second": rate,
            "active_flows": number("active_flows"),
            "tx_bits_per_second": number("tx_bits_per_second"),
            "tx_packets_per_second": number("tx_packets_per_second"),
            "loss_ratio": number("loss_ratio"),
            "limited_by": json.get("limited_by"),
            "ours_over_theirs_percent": difference,
            "worker": json.get("worker"),
        }));
    }
    Ok(Outcome { text, json: json!({ "cells": rows }) })
}

fn read(folder: &Path, cell: &Cell) -> Result<Value, BenchError> {
    let file = folder.join(format!("{}.json", cell.name()));
    let wrong = |why: String| BenchError::WrongWork(format!("{}: {why}", file.display()));
    let bytes = std::fs::read(&file).map_err(|error| wrong(error.to_string()))?;
    serde_json::from_slice(&bytes).map_err(|error| wrong(error.to_string()))
}

/// What the busiest worker did most, and what of it was for locks.
fn worker(json: &Value) -> String {
    let Some(parts) = json.pointer("/worker/parts").and_then(Value::as_array) else {
        return String::new();
    };
    let shown = |part: &Value| {
        let mark = if part["lock"] == true { "*" } else { "" };
        let name = part["name"].as_str().unwrap_or_default();
        format!("{mark}{name} {:.0}%", part["percent"].as_f64().unwrap_or(0.0))
    };
    let mut words: Vec<String> = parts.iter().take(3).map(shown).collect();
    let locks = json.pointer("/worker/locks_percent").and_then(Value::as_f64).unwrap_or(0.0);
    words.push(format!("*locks {locks:.1}%"));
    words.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: MatrixArgs,
    }

    fn args(folder: &Path, line: &str) -> MatrixArgs {
        let words = ["matrix".as_ref(), folder.as_os_str()].into_iter();
        let words = words.chain(line.split_whitespace().map(AsRef::as_ref));
        Line::try_parse_from(words).unwrap().args
    }

    #[test]
    fn what_is_there_is_not_measured_again() {
        let folder = tempfile::tempdir().unwrap();
        let line = "--profiles short --ports vhost --layouts 1,2";
        let listed = measure(&args(folder.path(), &format!("{line} --list"))).unwrap().text;
        assert_eq!(listed.matches("missing").count(), 8, "{listed}");
        for (index, cell) in args(folder.path(), line).cells().iter().enumerate() {
            let rate = 1000.0 * (9 - index) as f64;
            let json = json!({
                "connections_per_second": rate,
                "limited_by": "dut",
                "worker": {
                    "locks_percent": 41.0,
                    "parts": [
                        {"name": "pthread_mutex_lock", "percent": 41.0, "lock": true},
                        {"name": "dp_netdev_input", "percent": 12.0, "lock": false},
                    ],
                },
            });
            let file = folder.path().join(format!("{}.json", cell.name()));
            std::fs::write(file, json.to_string()).unwrap();
        }
        let listed = measure(&args(folder.path(), &format!("{line} --list"))).unwrap().text;
        assert_eq!(listed.matches("measured").count(), 8, "{listed}");
        // All is there: nothing is started, and ours (9,000) is 12.5% above theirs (8,000).
        let outcome = measure(&args(folder.path(), line)).unwrap();
        assert!(outcome.text.contains("short-ct-2x2-ovs-vhost"), "{}", outcome.text);
        assert!(
            outcome.text.contains("*pthread_mutex_lock 41%, dp_netdev_input 12%, *locks 41.0%")
        );
        assert_eq!(outcome.json["cells"][1]["ours_over_theirs_percent"], 12.5);
        assert!(outcome.json["cells"][0]["ours_over_theirs_percent"].is_null());
    }

    #[test]
    fn every_cell_s_search_is_one_that_cps_ndr_takes() {
        let folder = Path::new("/nonexistent");
        let args = args(folder, "--ports vhost,memory,veth --layouts 1,2x1,8");
        let cells = args.cells();
        // 4 profiles; both versions by vhost in 3 layouts, ours in memory in 3, both by veth in 1.
        assert_eq!(cells.len(), 4 * (2 * 3 + 3 + 2));
        for cell in cells {
            let words = cell.arguments(&args, &folder.join("x"));
            let words = std::iter::once("tidegate".to_owned()).chain(words);
            let read = crate::cli::command().try_get_matches_from(words);
            assert!(read.is_ok(), "{}: {:?}", cell.name(), read.err());
        }
    }

    #[test]
    fn layouts_are_those_published_that_fit() {
        let fit =
            |cores| Layout::that_fit(cores).iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(fit(1), ["1x1"]);
        assert_eq!(fit(2), ["1x1"]);
        assert_eq!(fit(4), ["1x1", "2x1", "2x2"]);
        assert_eq!(fit(16).len(), 7);
        for bad in ["", "0", "2x3", "x", "65", "2x"] {
            assert!(bad.parse::<Layout>().is_err(), "{bad}");
        }
    }
}
