//! `cargo xtask test`: runs every stage of `make test`, continues after failures, and prints a summary.
//!
//! Stages that compute and are not sensitive to load run at the lowest priority, concurrently with one
//! that mostly waits; their output is printed after it.
//!
//! All output goes to the terminal and into a log. The result lines of `cargo test`, the closing line of
//! the whole-program tests, and every line that begins with `SKIPPED:` (a check that could not run here,
//! and why) are counted. Lines that begin with `UNSTEADY:` (a case that failed and then passed) are repeated in the
//! summary. The summary lists the durations of the stages, and the slowest test programs
//! and cases.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, PipeReader, Write};
use std::num::NonZeroUsize;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use crate::durations::{Durations, Took};
use crate::metadata::Metadata;
use crate::tally::{Reports, Tally};

/// The log, below the target folder.
const LOG: &str = "target/test.log";
/// The whole-program tests.
const WHOLE_PROGRAM: &str = "tests/run";
/// The program under test, which `cargo test` builds, with checks of overflow. Called `ovs-vswitchd`, as the suite
/// calls it, it is that daemon.
const TIDEGATE: &str = "target/debug/tidegate";
/// The variable that tells test programs how many tests to run at a time.
const TEST_THREADS: &str = "RUST_TEST_THREADS";
/// How long a stage's output may stay open after the stage has ended.
const LEFT_OPEN: Duration = Duration::from_secs(5);

struct Stage {
    name: &'static str,
    reports: Reports,
    command: &'static [&'static str],
    /// Whether it runs at the lowest priority, concurrently with the last stage before it that does not.
    beside: bool,
}

/// The result of a stage.
struct Outcome {
    tally: Tally,
    took: Took,
}

const fn stage(name: &'static str, reports: Reports, command: &'static [&'static str]) -> Stage {
    Stage { name, reports, command, beside: false }
}

const fn beside(name: &'static str, reports: Reports, command: &'static [&'static str]) -> Stage {
    Stage { name, reports, command, beside: true }
}

/// A model check. `package` is built alone, so that no features are added that other packages need.
macro_rules! model_check {
    ($package:literal, $($which:literal),+) => {
        &[
            "env", "RUSTFLAGS=--cfg loom", "cargo", "test", "--locked", "--profile=loom",
            "--target-dir=target/loom", $package, $($which),+
        ]
    };
}

const STAGES: &[Stage] = &[
    stage("lint", Reports::Nothing, &["make", "lint"]),
    // If the system has DPDK, all tests are built with its ports, in one build.
    stage("cargo test", Reports::Cargo, &["make", "-s", "test-cargo"]),
    stage(
        "whole program",
        Reports::ClosingLine,
        &["env", "TIDEGATE=target/debug/tidegate", WHOLE_PROGRAM],
    ),
    beside("instructions", Reports::ClosingLine, &["cargo", "xtask", "cost"]),
    beside(
        "model check of the table",
        Reports::Cargo,
        model_check!("--package=table", "--test=models"),
    ),
    beside(
        "model check of connections",
        Reports::Cargo,
        model_check!("--package=conntrack", "--lib", "record::models"),
    ),
    beside(
        "model check of misses",
        Reports::Cargo,
        model_check!("--package=datapath", "--test=models"),
    ),
    beside("fuzz targets", Reports::Nothing, &["make", "-s", "test-fuzz"]),
    stage(
        "Open vSwitch's suite",
        Reports::ClosingLine,
        &["cargo", "xtask", "suite", "--suite", "quick", "--program", TIDEGATE],
    ),
];

/// Runs all stages. Returns whether all passed.
pub fn run() -> Result<bool, String> {
    let root = Metadata::load(&["--no-deps"])?.workspace_root;
    let mut log = create_log(&root).map_err(|e| format!("cannot write {LOG}: {e}"))?;
    let (mut total, mut durations) = (Tally::default(), Durations::default());
    let mut left = STAGES;
    while let Some((first, rest)) = left.split_first() {
        let (others, rest) = rest.split_at(rest.iter().take_while(|it| it.beside).count());
        left = rest;
        let beside = thread::scope(|scope| {
            let beside = scope.spawn(|| run_beside(others, &root));
            println!("== {}: {}", first.name, first.command.join(" "));
            let outcome = carry_out(first, &root, |line| {
                println!("{line}");
                durations.line(line);
                writeln!(log, "{line}")
            })?;
            println!("== {}: {}", first.name, outcome.took);
            durations.stage(first.name, outcome.took);
            total.add(outcome.tally);
            beside.join().map_err(|_| "a stage beside another one panicked".to_owned())?
        })?;
        for (stage, (lines, outcome)) in others.iter().zip(beside) {
            println!("== {}: {}", stage.name, stage.command.join(" "));
            for line in lines {
                println!("{line}");
                durations.line(&line);
                writeln!(log, "{line}").map_err(|e| format!("cannot write {LOG}: {e}"))?;
            }
            println!("== {}: {}, beside {}", stage.name, outcome.took, first.name);
            durations.beside(stage.name, outcome.took);
            total.add(outcome.tally);
        }
    }
    let summary = format!(
        "\n== what took how long\n{}\n== what failed and what was skipped (all output: {LOG})\n{}",
        durations.summary(),
        total.summary()
    );
    println!("{summary}");
    writeln!(log, "{summary}").map_err(|e| format!("cannot write {LOG}: {e}"))?;
    Ok(total.failed == 0)
}

fn create_log(root: &Path) -> io::Result<File> {
    let path = root.join(LOG);
    path.parent().map_or(Ok(()), fs::create_dir_all)?;
    File::create(path)
}

/// Runs stages one after the other, and stores their output.
fn run_beside(stages: &[Stage], root: &Path) -> Result<Vec<(Vec<String>, Outcome)>, String> {
    let run = |stage| {
        let mut lines = Vec::new();
        let outcome = carry_out(stage, root, |line| {
            lines.push(line.to_owned());
            Ok(())
        })?;
        Ok((lines, outcome))
    };
    stages.iter().map(run).collect()
}

/// Runs a stage, and forwards each line of its output.
fn carry_out(
    stage: &Stage,
    root: &Path,
    mut line: impl FnMut(&str) -> io::Result<()>,
) -> Result<Outcome, String> {
    let (mut tally, began) = (Tally::default(), Took::so_far());
    if stage.command.last() == Some(&WHOLE_PROGRAM) && !root.join(WHOLE_PROGRAM).exists() {
        tally.skip(format!("SKIPPED: {}: there is no {WHOLE_PROGRAM}", stage.name));
        return Ok(Outcome { tally, took: Took::so_far().since(&began) });
    }
    let lowest: &[&str] = if stage.beside { &["nice", "-n", "19"] } else { &[] };
    let words: Vec<&str> = lowest.iter().chain(stage.command).copied().collect();
    let said = words.join(" ");
    let (mut child, lines) =
        start(words[0], &words[1..], root).map_err(|e| format!("cannot start `{said}`: {e}"))?;
    let (status, left_open) = follow(&mut child, &lines, |text| {
        tally.line(stage.reports, text);
        line(text)
    })
    .map_err(|e| format!("cannot follow `{said}`: {e}"))?;
    let took = Took::so_far().since(&began);
    if left_open {
        tally.fail(format!("FAILED: {}: a process it started did not end with it", stage.name));
    }
    tally.close(stage.name, stage.reports, status);
    Ok(Outcome { tally, took })
}

/// Starts a command with both outputs in one pipe, so that their lines keep their order.
fn start(program: &str, args: &[&str], root: &Path) -> io::Result<(Child, Receiver<String>)> {
    let (reader, writer) = io::pipe()?;
    let path = if program.contains('/') { root.join(program) } else { program.into() };
    let mut command = Command::new(path);
    // Build scripts would take the variables that cargo sets for this program for the caller's, and `make
    // build` would build the results of `make test` again.
    for (name, _) in env::vars_os().filter(|(name, _)| is_of_this_program(name)) {
        command.env_remove(name);
    }
    let child = command
        .args(args)
        .current_dir(root)
        .env(TEST_THREADS, test_threads())
        .stdin(Stdio::null())
        .stdout(writer.try_clone()?)
        .stderr(writer)
        .spawn()?;
    let (sender, lines) = mpsc::channel();
    thread::spawn(move || send_lines(reader, &sender));
    Ok((child, lines))
}

/// Returns whether cargo sets this variable for a program that it runs.
fn is_of_this_program(name: &OsStr) -> bool {
    name.to_str()
        .is_some_and(|it| it.starts_with("CARGO_PKG_") || it.starts_with("CARGO_MANIFEST_"))
}

/// Returns the default number of concurrent tests per test program: two per processor, as in `tests/run`,
/// since some mostly wait.
fn test_threads() -> OsString {
    env::var_os(TEST_THREADS).unwrap_or_else(|| {
        let processors = thread::available_parallelism().map_or(1, NonZeroUsize::get);
        (2 * processors).to_string().into()
    })
}

/// Sends every line until all writers have closed the pipe.
fn send_lines(reader: PipeReader, sender: &mpsc::Sender<String>) {
    let mut reader = BufReader::new(reader);
    let mut bytes = Vec::new();
    while reader.read_until(b'\n', &mut bytes).is_ok_and(|read| read > 0) {
        let line = String::from_utf8_lossy(&bytes).trim_end_matches(['\n', '\r']).to_owned();
        if sender.send(line).is_err() {
            return;
        }
        bytes.clear();
    }
}

/// Forwards every line until the command has ended and its output is closed. A process that it left
/// behind may keep the output open: after a while it stops waiting and also returns `true`.
fn follow<F>(
    child: &mut Child,
    lines: &Receiver<String>,
    mut line: F,
) -> io::Result<(ExitStatus, bool)>
where
    F: FnMut(&str) -> io::Result<()>,
{
    let mut ended = None;
    loop {
        match lines.recv_timeout(Duration::from_millis(200)) {
            Ok(text) => line(&text)?,
            Err(RecvTimeoutError::Disconnected) => return Ok((child.wait()?, false)),
            Err(RecvTimeoutError::Timeout) => {}
        }
        if ended.is_none() && child.try_wait()?.is_some() {
            ended = Some(Instant::now());
        }
        if ended.is_some_and(|since| since.elapsed() > LEFT_OPEN) {
            return Ok((child.wait()?, true));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> (Vec<String>, i32, bool) {
        let (mut child, lines) = start("sh", &["-c", script], Path::new("/")).unwrap();
        let mut seen = Vec::new();
        let (status, left_open) = follow(&mut child, &lines, |line| {
            seen.push(line.to_owned());
            Ok(())
        })
        .unwrap();
        (seen, status.code().unwrap(), left_open)
    }

    #[test]
    fn stages_beside_others_keep_their_lines_and_failures() {
        let stages = [
            beside("a", Reports::Nothing, &["sh", "-c", "echo $(nice); exit 3"]),
            beside("b", Reports::ClosingLine, &["echo", "2 passed, 0 failed, 1 skipped"]),
        ];
        let ran = run_beside(&stages, Path::new("/")).unwrap();
        let seen: Vec<_> = ran
            .iter()
            .map(|(lines, it)| (lines.concat(), it.tally.passed, it.tally.failed))
            .collect();
        let closing = "2 passed, 0 failed, 1 skipped".to_owned();
        // The test itself may run with another priority.
        let nice = |words: &[&str]| {
            let output = Command::new(words[0]).args(&words[1..]).output().unwrap();
            String::from_utf8(output.stdout).unwrap().trim().parse::<i32>().unwrap()
        };
        let lowest = (nice(&["nice"]) + 19).min(19);
        assert_eq!(seen, [(lowest.to_string(), 0, 1), (closing, 2, 0)]);
        assert!(!STAGES[0].beside, "there is none before it");
    }

    #[test]
    fn both_outputs_are_followed_in_order() {
        let (seen, code, left_open) = shell("echo a; echo b >&2; printf c; exit 3");
        assert_eq!(seen, ["a", "b", "c"]);
        assert_eq!((code, left_open), (3, false));
    }

    #[test]
    fn tests_may_wait_beside_each_other() {
        let (seen, code, _) = shell("echo $RUST_TEST_THREADS");
        let threads: usize = seen.concat().parse().unwrap();
        assert!(threads >= 1 && code == 0);
    }

    #[test]
    fn a_process_left_behind_does_not_hang_the_suite() {
        let started = Instant::now();
        let (seen, code, left_open) = shell("sleep 12 & echo a");
        assert_eq!((seen, code, left_open), (vec!["a".to_owned()], 0, true));
        assert!(started.elapsed() < Duration::from_secs(11));
    }
}
