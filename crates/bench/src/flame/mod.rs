//! `--perf`: where the time of a run goes, as a flame graph.
//!
//! The process samples itself: a timer of its processor time (`SIGPROF`) interrupts the running thread, whose
//! call stack is recorded. This needs no `perf`, no hardware counters and no privileges. Inlined functions
//! are found by the line tables that release builds keep.

mod draw;
mod tree;

use super::{BenchError, Outcome};
use clap::Args;
use pprof::ProfilerGuard;
use serde_json::json;
use std::fmt::Write;
use std::path::PathBuf;
use tree::Tree;

/// Samples per second of processor time: a prime, to avoid synchronisation with the measured work.
const LOOKS_PER_S: i32 = 997;
/// Code in which no sample is taken: the unwinder cannot leave it, or is itself running.
const BLIND: [&str; 2] = ["libgcc", "vdso"];

/// Whether a run is sampled, and the file of the graph.
#[derive(Args, Clone, Debug, Default)]
pub struct PerfArgs {
    /// Write a flame graph (SVG) of the measured part of the run; sampling costs a little time
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = "flame.svg")]
    perf: Option<PathBuf>,
}

/// A run that may be sampled.
pub struct Looking(Option<(ProfilerGuard<'static>, PathBuf)>);

/// The samples of a run, if it was sampled.
#[derive(Debug)]
#[must_use]
pub struct Seen(Option<Graph>);

#[derive(Debug)]
struct Graph {
    file: PathBuf,
    looks: u64,
}

impl PerfArgs {
    /// Starts sampling, if requested.
    pub fn start(&self) -> Result<Looking, BenchError> {
        let Some(file) = &self.perf else { return Ok(Looking(None)) };
        let builder = pprof::ProfilerGuardBuilder::default().frequency(LOOKS_PER_S);
        let guard = builder.blocklist(&BLIND).build();
        let guard = guard.map_err(|error| BenchError::Profile(error.to_string()))?;
        Ok(Looking(Some((guard, file.clone()))))
    }
}

impl Looking {
    /// Stops sampling, and writes the graph.
    pub fn stop(self, title: &str) -> Result<Seen, BenchError> {
        let Some((guard, file)) = self.0 else { return Ok(Seen(None)) };
        let report = guard.report().build();
        drop(guard);
        let report = report.map_err(|error| BenchError::Profile(error.to_string()))?;
        let mut tree = Tree::new();
        for (frames, count) in &report.data {
            let outermost_first = frames.frames.iter().rev();
            let functions = outermost_first.flat_map(|inlined| inlined.iter().rev());
            tree.add(functions.map(pprof::Symbol::name), u64::try_from(*count).unwrap_or(0));
        }
        std::fs::write(&file, draw::svg(&tree, title))
            .map_err(|source| BenchError::WriteGraph { file: file.clone(), source })?;
        Ok(Seen(Some(Graph { file, looks: tree.looks() })))
    }
}

impl Seen {
    /// Adds the path of the graph to the result.
    pub fn add_to(self, outcome: &mut Outcome) {
        let Some(Graph { file, looks }) = self.0 else { return };
        let hint = if looks == 0 { "; the run was too short to be looked at" } else { "" };
        // Writing to a string cannot fail.
        let _ = writeln!(outcome.text, "flame graph: {}, of {looks} looks{hint}", file.display());
        if let Some(result) = outcome.json.as_object_mut() {
            let graph = json!({"file": file, "looks": looks, "looks_per_second": LOOKS_PER_S});
            result.insert("flame_graph".to_owned(), graph);
        }
    }
}
