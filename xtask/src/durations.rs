//! Durations of the stages of `make test`, by the clock and in processor time, and the slowest test
//! programs and cases.

use std::fmt;
use std::fs;
use std::time::{Duration, Instant};

/// Ticks of `/proc/self/stat` per second (proc(5); the same on every Linux that Rust's tier 1 has).
const TICKS_PER_SECOND: u64 = 100;
/// How many test programs and cases are listed at the end.
const SHOWN: usize = 10;
/// Test programs and cases that took less are not listed.
const SHOWN_FROM: Duration = Duration::from_secs(5);

/// A moment, or the time between two of them.
#[derive(Clone, Copy, Debug)]
pub struct Took {
    at: Instant,
    wall: Duration,
    /// Processor time of all child processes that ended and were waited for; `None` if the system does
    /// not report it.
    processors: Option<Duration>,
}

/// Durations of the stages and of their parts.
#[derive(Default)]
pub struct Durations {
    stages: Vec<(&'static str, Took)>,
    /// Durations of stages that ran concurrently with another stage.
    beside: Vec<(&'static str, Took)>,
    parts: Vec<(Duration, String)>,
    /// The test program whose result comes next.
    program: String,
}

impl Took {
    /// Returns the present moment.
    pub fn so_far() -> Took {
        let stat = fs::read_to_string("/proc/self/stat").ok();
        let processors = stat.as_deref().and_then(children_time);
        Took { at: Instant::now(), wall: Duration::ZERO, processors }
    }

    /// Returns the time since an earlier moment.
    pub fn since(self, began: &Took) -> Took {
        let processors = self.processors.zip(began.processors).map(|(now, then)| now - then);
        Took { wall: self.at - began.at, processors, ..self }
    }
}

impl fmt::Display for Took {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} s", self.wall.as_secs())?;
        match self.processors {
            Some(time) => write!(f, ", {} s of the processors", time.as_secs()),
            None => Ok(()),
        }
    }
}

impl Durations {
    /// Records the duration of a stage.
    pub fn stage(&mut self, name: &'static str, took: Took) {
        self.stages.push((name, took));
    }

    /// Records the duration of a stage that ran concurrently with another one. The processor time of
    /// that one includes its own.
    pub fn beside(&mut self, name: &'static str, took: Took) {
        self.beside.push((name, Took { processors: None, ..took }));
    }

    /// Parses a line of a stage's output: the result of a test program from `cargo test`, or of a case
    /// from `tests/run`.
    pub fn line(&mut self, line: &str) {
        if let Some((_, path)) = line.strip_suffix(')').and_then(|line| line.rsplit_once("target/"))
            && line.trim_start().starts_with("Running ")
        {
            let file = path.rsplit('/').next().unwrap_or(path);
            self.program = file.rsplit_once('-').map_or(file, |(name, _)| name).to_owned();
        } else if let Some(name) = line.trim_start().strip_prefix("Doc-tests ") {
            self.program = format!("{name}, documentation");
        } else if line.starts_with("test result: ")
            && let Some((_, seconds)) = line.rsplit_once("finished in ")
        {
            let name = std::mem::take(&mut self.program);
            self.part(name, seconds.trim_end_matches('s'));
        } else if let Some((name, seconds)) =
            line.strip_prefix("ok ").and_then(|it| it.strip_suffix(" s)")?.split_once(" ("))
        {
            self.part(format!("tests/run {name}"), seconds);
        }
    }

    fn part(&mut self, name: String, seconds: &str) {
        if let Some(took) = seconds.parse().ok().and_then(|it| Duration::try_from_secs_f64(it).ok())
        {
            self.parts.push((took, name));
        }
    }

    /// Returns the durations of all stages, their sum, and the slowest parts.
    pub fn summary(&self) -> String {
        let mut lines: Vec<String> =
            self.stages.iter().map(|(name, took)| format!("{name}: {took}")).collect();
        let seconds: u64 = self.stages.iter().map(|(_, took)| took.wall.as_secs()).sum();
        lines
            .extend(self.beside.iter().map(|(name, took)| format!("{name}, beside these: {took}")));
        lines.push(format!("all stages: {} min {} s", seconds / 60, seconds % 60));
        let mut parts: Vec<_> = self.parts.iter().filter(|(took, _)| *took >= SHOWN_FROM).collect();
        parts.sort_by(|a, b| b.cmp(a));
        parts.truncate(SHOWN);
        if !parts.is_empty() {
            let text = |(took, name): &&(Duration, String)| format!("{name} {}", took.as_secs());
            let list: Vec<String> = parts.iter().map(text).collect();
            lines.push(format!("longest, in seconds: {}", list.join(", ")));
        }
        lines.join("\n")
    }
}

/// Returns the processor time of waited-for children in a line of `/proc/PID/stat`: fields 16 and 17,
/// which follow the name in parentheses.
fn children_time(stat: &str) -> Option<Duration> {
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
    Some(Duration::from_millis((ticks(16)? + ticks(17)?) * (1000 / TICKS_PER_SECOND)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_processor_time_of_children_is_read() {
        let stat = "7 (a b) c) S 1 7 7 0 -1 4194560 100 200 0 0 11 22 150 50 20 0 1 0 99 1000 10";
        assert_eq!(children_time(stat), Some(Duration::from_secs(2)));
        assert_eq!(children_time("7 (x) S 1 7"), None);
        assert_eq!(children_time(""), None);
    }

    #[test]
    fn the_longest_parts_are_named() {
        let mut durations = Durations::default();
        let result = "test result: ok. 5 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; ";
        for line in [
            "     Running unittests src/lib.rs (target/debug/deps/conntrack-0a1b)",
            &format!("{result}finished in 6.60s"),
            "     Running tests/order.rs (/x/target/loom/release/deps/port_dpdk-0a1b)",
            &format!("{result}finished in 12.00s"),
            "   Doc-tests wire",
            &format!("{result}finished in 0.10s"),
            "ok bench-rfc (30 s)",
            "ok then (or not)",
        ] {
            durations.line(line);
        }
        let took = |wall_s, processors_s| Took {
            at: Instant::now(),
            wall: Duration::from_secs(wall_s),
            processors: Some(Duration::from_secs(processors_s)),
        };
        durations.stage("lint", took(50, 90));
        durations.stage("build", took(100, 150));
        durations.beside("model check", took(20, 300));
        assert_eq!(
            durations.summary(),
            "lint: 50 s, 90 s of the processors\nbuild: 100 s, 150 s of the processors\n\
             model check, beside these: 20 s\nall stages: 2 min 30 s\n\
             longest, in seconds: tests/run bench-rfc 30, port_dpdk 12, conntrack 6"
        );
    }
}
