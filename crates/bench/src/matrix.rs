//! `tidegate bench matrix`: the published table of rates in one command. Each [`cell`] is a [`search`] by
//! `tidegate cps-ndr` in its own process, whose result is stored in the folder, so that an interrupted run
//! can be continued; [`table`] prints the stored results.

mod cell;
mod search;
mod table;
#[cfg(test)]
mod tests;

use super::{BenchError, Outcome};
use cell::{Cell, Layout, Lived, Ports, Tracking, Version};
use clap::Args;
use load::dut;
use load::generate::interrupt::Interrupt;
use load::generate::numbers::{percent, precision, whole};
use load::provenance::Provenance;
use port_linux::affinity::allowed_cpus;
use search::{Ended, Left};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Its name, in results.
pub const VERB: &str = "bench matrix";

/// Measure the published table: short- and long-lived, with and without tracking, ours and theirs
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:
  tidegate bench matrix results                      every cell; run it again to go on
  tidegate bench matrix results --profiles short     without long-lived connections
  tidegate bench matrix results --layouts 1,2,4      by workers, with as many queues
  tidegate bench matrix results --list               what would be measured, what is there, how long
  tidegate report results                            the same as a page

Our switch and Open vSwitch's daemon are measured through vhost-user, a core for each worker of the \
switch and of the generator, where this program has DPDK and Open vSwitch's daemon with DPDK is \
installed; else ours in memory and both between veth pairs. The difference is between the two on the \
same ports. Beside each rate stand the functions in which the busiest worker spends its time, locks \
marked with a star. A cell's result is DIR/CELL.json; to measure a cell again, remove it. An \
interrupt prints the table of the cells that were measured, and the same command continues with the \
cell that was interrupted. A cell that cannot be measured, or whose samples were all invalid, is \
named, and measured again by the next run. The table stays in DIR/matrix.json. The exit status is 0 \
if every cell was measured, 1 otherwise.")]
pub struct MatrixArgs {
    /// The folder for results
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// The connection profiles
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Lived::Short, Lived::Long])]
    profiles: Vec<Lived>,
    /// With connection tracking, without, or both
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Tracking::Ct, Tracking::Plain])]
    tracking: Vec<Tracking>,
    /// Workers and queues, as 4x2, or 4 for 4x4 [default: the published ones that have cores here]
    #[arg(long, value_delimiter = ',', value_name = "N[xM]")]
    layouts: Vec<Layout>,
    /// How switches are reached [default: vhost where available, else memory and veth]
    #[arg(long, value_enum, value_delimiter = ',')]
    ports: Vec<Ports>,
    /// The switches
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Version::Tidegate, Version::Ovs])]
    versions: Vec<Version>,
    /// Seconds to sample each rate of short-lived connections; long-lived: 25 more
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = whole::<u32>(1..=500))]
    sample_time: u32,
    /// Linear rise to each rate, in seconds
    #[arg(short = 'r', long, value_name = "N", default_value_t = 3, value_parser = whole::<u32>(0..=20))]
    ramp_up: u32,
    /// Maximum number of samples of a search
    #[arg(short = 'i', long, value_name = "N", value_parser = whole::<u32>(1..))]
    max_iterations: Option<u32>,
    /// Allowed loss of packets and connections, in percent
    #[arg(long, value_name = "PERCENT", default_value_t = 0.02, value_parser = percent)]
    error_threshold: f64,
    /// Precision of the searches, in percent
    #[arg(long, value_name = "PERCENT", default_value_t = 2.0, value_parser = precision)]
    precision: f64,
    /// List the cells and the expected time, without measuring
    #[arg(long)]
    pub list: bool,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
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
pub fn measure(args: &MatrixArgs, provenance: &Provenance) -> Result<Outcome, BenchError> {
    let wrong = |what: String| BenchError::WrongWork(what);
    std::fs::create_dir_all(&args.folder)
        .map_err(|error| wrong(format!("{}: {error}", args.folder.display())))?;
    let all = args.cells();
    let is_there = |cell: &Cell| {
        // An unreadable file is treated as missing, and replaced.
        let json = table::read(&args.folder, cell).ok().flatten();
        json.is_some_and(|json| !search::says_nothing(&json))
    };
    if args.list {
        return Ok(list(args, &all, &is_there));
    }
    let missing: Vec<&Cell> = all.iter().filter(|cell| !is_there(cell)).collect();
    let stopped = if missing.is_empty() { None } else { measure_each(args, &missing)? };
    let Outcome { text, json } = table::table(&all, &args.folder)?;
    let outcome = Outcome { text, json: provenance.stamp(VERB, None, json) };
    table::keep(&outcome, &args.folder)?;
    match stopped {
        None => Ok(outcome),
        Some(why) => Err(BenchError::Partly(Box::new(outcome), why)),
    }
}

fn file(folder: &Path, cell: &Cell) -> PathBuf {
    folder.join(format!("{}.json", cell.name()))
}

/// Returns the cells to measure, and the estimated time.
fn list(args: &MatrixArgs, all: &[Cell], is_there: &dyn Fn(&Cell) -> bool) -> Outcome {
    let mut left = Duration::ZERO;
    let (mut text, mut names) = (String::new(), Vec::new());
    for cell in all {
        let (is, takes) = match is_there(cell) {
            true => ("measured", Duration::ZERO),
            false => ("missing", cell.expected(args)),
        };
        left += takes;
        let minutes = takes.as_secs_f64() / 60.0;
        let about =
            if takes.is_zero() { String::new() } else { format!(" (about {minutes:.0} min)") };
        text += &format!("{:<32}{is}{about}\n", cell.name());
        names.push(json!({"cell": cell.name(), "is": is, "expected_s": takes.as_secs()}));
    }
    text += &format!("about {} minutes\n", left.as_secs().div_ceil(60));
    Outcome { text, json: json!(names) }
}

/// Searches cell after cell. Returns the reason if some were not possible.
fn measure_each(args: &MatrixArgs, missing: &[&Cell]) -> Result<Option<String>, BenchError> {
    let interrupt = Interrupt::listen().map_err(|error| BenchError::Load(Box::new(error)))?;
    let start = Instant::now();
    let mut left = Left::new(missing.iter().map(|cell| cell.expected(args)).collect());
    let mut failed = Vec::new();
    let cut_short = "interrupted; the same command goes on";
    for (done, cell) in missing.iter().enumerate() {
        if interrupt.is_set() {
            return Ok(Some(cut_short.to_owned()));
        }
        let name = cell.name();
        eprintln!("{name} ({} of {}, {})", done + 1, missing.len(), left.words(start.elapsed()));
        let shown = |line: &str| format!("{name}: {line} ({})", left.words(start.elapsed()));
        match search::search(args, cell, &file(&args.folder, cell), &interrupt, &shown)? {
            Ended::Measured(said) => eprintln!("{name}: {said}"),
            Ended::Interrupted => return Ok(Some(cut_short.to_owned())),
            Ended::Failed(why) => {
                eprintln!("{name} could not be measured: {why}");
                failed.push(format!("{name}: {why}"));
            }
        }
        left.done(start.elapsed());
    }
    Ok((!failed.is_empty()).then(|| failed.join("; ")))
}
