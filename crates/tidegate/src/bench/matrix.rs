//! `tidegate bench matrix`: the published table of rates in one command. Each cell is a search by
//! `tidegate cps-ndr` in a process of its own, whose result stays in the folder, so that a run that
//! was stopped goes on where it was.

use super::{BenchError, Outcome};
use crate::generate::numbers::human;
use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// Measure the published table: short- and long-lived, with and without tracking, ours and theirs
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:
  tidegate bench matrix results                      every cell; run it again to go on
  tidegate bench matrix results --profiles short     without long-lived connections
  tidegate bench matrix results --list               what would be measured, and what is there
  tidegate report results                            the same as a page

One worker each. Our switch is measured in memory and between veth pairs, Open vSwitch's daemon
between veth pairs; the difference is between the two on veth. A cell's result is DIR/CELL.json; to
measure a cell again, remove it.")]
pub struct MatrixArgs {
    /// Where results are kept
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// Which connections
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Lived::Short, Lived::Long])]
    profiles: Vec<Lived>,
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

/// One search.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Cell {
    lived: Lived,
    tracked: bool,
    dut: &'static str,
    ports: &'static str,
}

impl Cell {
    fn name(&self) -> String {
        let lived = if self.lived == Lived::Short { "short" } else { "long" };
        let tracked = if self.tracked { "ct" } else { "plain" };
        format!("{lived}-{tracked}-{}-{}", self.dut, self.ports)
    }

    /// The range that is searched: what a device can carry there on machines of today.
    fn range(&self) -> [&'static str; 2] {
        match (self.lived, self.ports) {
            (Lived::Short, "memory") => ["5k", "1m"],
            (Lived::Short, _) => ["100", "40k"],
            (Lived::Long, "memory") => ["100", "20k"],
            (Lived::Long, _) => ["100", "2k"],
        }
    }

    fn arguments(&self, args: &MatrixArgs, file: &Path) -> Vec<String> {
        let [min, max] = self.range();
        let long = self.lived == Lived::Long;
        let sample = args.sample_time + if long { 25 } else { 0 };
        let mut all: Vec<String> =
            ["cps-ndr", "-u", "1", "-m", min, "-M", max, "--dut", self.dut, "--ports", self.ports]
                .map(str::to_owned)
                .to_vec();
        let numbers = [
            ("-T", sample.to_string()),
            ("-e", args.error_threshold.to_string()),
            ("--precision", args.precision.to_string()),
            ("-o", file.display().to_string()),
        ];
        all.extend(numbers.into_iter().flat_map(|(name, value)| [name.to_owned(), value]));
        if long {
            all.extend(["-n", "500", "-w", "50"].map(str::to_owned));
        }
        if !self.tracked {
            all.push("--no-ct".to_owned());
        }
        all
    }
}

fn cells(profiles: &[Lived]) -> Vec<Cell> {
    let mut all = Vec::new();
    for &lived in profiles {
        for tracked in [true, false] {
            for (dut, ports) in [("tidegate", "memory"), ("tidegate", "veth"), ("ovs", "veth")] {
                all.push(Cell { lived, tracked, dut, ports });
            }
        }
    }
    all
}

/// Measures what is missing, and shows the table.
pub fn measure(args: &MatrixArgs) -> Result<Outcome, BenchError> {
    let wrong = |what: String| BenchError::WrongWork(what);
    std::fs::create_dir_all(&args.folder)
        .map_err(|error| wrong(format!("{}: {error}", args.folder.display())))?;
    let all = cells(&args.profiles);
    let file = |cell: &Cell| args.folder.join(format!("{}.json", cell.name()));
    if args.list {
        let is_there = |cell: &Cell| if file(cell).exists() { "measured" } else { "missing" };
        let text = all.iter().map(|cell| format!("{:<26}{}\n", cell.name(), is_there(cell)));
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
        "{:<26} | {:>13} | {:>12} | {:>9} | {:>11} | {:>10} | {}\n",
        "Cell",
        "Connections/s",
        "Active Flows",
        "Bandwidth",
        "Packet Rate",
        "Difference",
        "Limited by"
    );
    let mut rows = Vec::new();
    let mut before: Option<(Cell, f64)> = None;
    for cell in all {
        let file = folder.join(format!("{}.json", cell.name()));
        let bytes = std::fs::read(&file)
            .map_err(|error| BenchError::WrongWork(format!("{}: {error}", file.display())))?;
        let json: Value = serde_json::from_slice(&bytes)
            .map_err(|error| BenchError::WrongWork(format!("{}: {error}", file.display())))?;
        let number = |key: &str| json.get(key).and_then(Value::as_f64);
        let rate = number("connections_per_second");
        let other = before.take().filter(|(b, _)| {
            (b.lived, b.tracked, b.ports) == (cell.lived, cell.tracked, cell.ports)
        });
        // Ours against theirs, where both stand between the same ports.
        let difference = rate.zip(other).map(|(theirs, (_, ours))| 100.0 * (ours / theirs - 1.0));
        before = rate.map(|rate| (cell.clone(), rate));
        let shown = |n: Option<f64>| n.map_or("-".to_owned(), human);
        let by = json.get("limited_by").and_then(Value::as_str).unwrap_or("-");
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "{:<26} | {:>13} | {:>12} | {:>9} | {:>11} | {:>10} | {by}",
            cell.name(),
            shown(rate),
            shown(number("active_flows")),
            shown(number("tx_bits_per_second")),
            shown(number("tx_packets_per_second")),
            difference.map_or(String::new(), |d| format!("{d:+.0}%")),
        );
        rows.push(json!({
            "cell": cell.name(),
            "connections_per_second": rate,
            "active_flows": number("active_flows"),
            "tx_bits_per_second": number("tx_bits_per_second"),
            "tx_packets_per_second": number("tx_packets_per_second"),
            "limited_by": json.get("limited_by"),
            "ours_over_theirs_percent": difference,
        }));
    }
    Ok(Outcome { text, json: json!({ "cells": rows }) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(folder: &Path, list: bool) -> MatrixArgs {
        MatrixArgs {
            folder: folder.to_owned(),
            profiles: vec![Lived::Short],
            sample_time: 1,
            error_threshold: 0.02,
            precision: 5.0,
            list,
            json: false,
        }
    }

    #[test]
    fn what_is_there_is_not_measured_again() {
        let folder = tempfile::tempdir().unwrap();
        let listed = measure(&args(folder.path(), true)).unwrap().text;
        assert_eq!(listed.matches("missing").count(), 6, "{listed}");
        for (index, cell) in cells(&[Lived::Short]).iter().enumerate() {
            let rate = 1000.0 * (6 - index) as f64;
            let json = json!({"connections_per_second": rate, "limited_by": "dut"});
            let file = folder.path().join(format!("{}.json", cell.name()));
            std::fs::write(file, json.to_string()).unwrap();
        }
        let listed = measure(&args(folder.path(), true)).unwrap().text;
        assert_eq!(listed.matches("measured").count(), 6, "{listed}");
        // All is there: nothing is started, and ours (5,000) is 25% above theirs (4,000).
        let outcome = measure(&args(folder.path(), false)).unwrap();
        assert!(outcome.text.contains("short-ct-ovs-veth"), "{}", outcome.text);
        assert_eq!(outcome.json["cells"][2]["ours_over_theirs_percent"], 25.0);
        assert!(outcome.json["cells"][1]["ours_over_theirs_percent"].is_null());
    }

    #[test]
    fn every_cell_s_search_is_one_that_cps_ndr_takes() {
        let folder = Path::new("/nonexistent");
        for cell in cells(&[Lived::Short, Lived::Long]) {
            let words = cell.arguments(&args(folder, false), &folder.join("x"));
            let words = std::iter::once("tidegate".to_owned()).chain(words);
            let read = crate::cli::command().try_get_matches_from(words);
            assert!(read.is_ok(), "{}: {:?}", cell.name(), read.err());
        }
    }
}
