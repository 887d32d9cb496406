//! Runs tests, some at a time, each in namespaces of its own.

use super::Suite;
use super::cause::Causes;
use super::results::{Outcome, Results, Verdict};
use super::script::Test;
use super::tree::Tree;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// Maximum number of tests that are repeated alone.
const MOST_ALONE: usize = 20;

pub struct Runner<'a> {
    pub root: &'a Path,
    pub tree: &'a Tree,
    pub suite: Suite,
    pub daemon: &'a Path,
    pub causes: &'a Causes,
}

impl Runner<'_> {
    /// Runs these tests. With `is_told`, it prints the result of each and the estimated time for the
    /// rest.
    pub fn run(
        &self,
        tests: &[&Test],
        jobs: usize,
        results: &mut Results,
        is_told: bool,
    ) -> Result<(), String> {
        let (next, began) = (AtomicUsize::new(0), Instant::now());
        thread::scope(|scope| {
            let (sender, receiver) = mpsc::channel();
            for _ in 0..jobs.min(tests.len()) {
                let (sender, next) = (sender.clone(), &next);
                scope.spawn(move || {
                    while let Some(test) = tests.get(next.fetch_add(1, Ordering::Relaxed)) {
                        if sender.send((*test, self.one(test))).is_err() {
                            return;
                        }
                    }
                });
            }
            drop(sender);
            for (done, (test, outcome)) in (1..).zip(&receiver) {
                let outcome = outcome?;
                if is_told {
                    let left = remaining(began.elapsed(), done, tests.len());
                    let why = outcome.cause.as_ref().map_or(String::new(), |it| format!(" ({it})"));
                    println!(
                        "{done}/{} {left} {} {}: {}{why}",
                        tests.len(),
                        outcome.verdict.name(),
                        test.number,
                        test.name
                    );
                }
                results.add(outcome)?;
            }
            Ok(())
        })
    }

    /// Runs those of these tests again one by one: tests that run concurrently compete for the
    /// processors, and some wait only for seconds. If many fail, the switch is at fault, and none is
    /// repeated.
    pub fn run_alone(
        &self,
        tests: &[&Test],
        numbers: &BTreeSet<u32>,
        results: &mut Results,
        is_told: bool,
    ) -> Result<(), String> {
        if numbers.is_empty() || numbers.len() > MOST_ALONE {
            return Ok(());
        }
        if is_told {
            println!("worse than expected: run again, alone");
        }
        let again: Vec<&Test> =
            tests.iter().copied().filter(|it| numbers.contains(&it.number)).collect();
        self.run(&again, 1, results, is_told)
    }

    fn one(&self, test: &Test) -> Result<Outcome, String> {
        let of_daemon = self.daemon.parent().and_then(Path::file_name).unwrap_or_default();
        let number = test.number.to_string();
        let folder = self.root.join("target/suite/run").join(of_daemon);
        let suite = format!("{}-{}", self.suite.name(), self.tree.version);
        let folder = folder.join(suite).join(&number);
        let began = Instant::now();
        let output = Command::new(self.root.join("tests/suites/one"))
            .args([self.suite.script(), &number])
            .arg(&folder)
            .env("SUITE_DAEMON", self.daemon)
            .env("SUITE_TREE", &self.tree.folder)
            .env("SUITE_OPEN_VSWITCH", &self.tree.open_vswitch)
            .env("SUITE_LIMIT_S", self.suite.limit_s().to_string())
            .stdin(Stdio::null())
            .output()
            .map_err(|e| format!("cannot start tests/suites/one: {e}"))?;
        let seconds = (began.elapsed().as_secs_f64() * 10.0).round() / 10.0;
        let printed = String::from_utf8_lossy(&output.stdout);
        let (verdict, cause) = match verdict(&printed, test.number) {
            Some(Verdict::Pass) => {
                // Its remaining files are not needed.
                let _ = fs::remove_dir_all(&folder);
                (Verdict::Pass, None)
            }
            Some(verdict) => {
                let log = log_of(&folder, self.suite.script(), test.number);
                (verdict, self.causes.find(verdict, test, &log))
            }
            None => (Verdict::Fail, Some("not done within its time".to_owned())),
        };
        Ok(Outcome { number: test.number, verdict, cause, seconds })
    }
}

/// Parses the suite's line about the test: `  7: NAME      ok`.
fn verdict(printed: &str, number: u32) -> Option<Verdict> {
    let begin = format!("{number}: ");
    let line = printed.lines().find(|it| it.trim_start().starts_with(&begin))?;
    let end = line.rsplit("  ").next()?.trim();
    // A long name leaves only one space.
    let is = |word: &str| end.starts_with(word) || line.contains(&format!(" {word}"));
    match () {
        () if is("FAILED (") || is("UNEXPECTED PASS") => Some(Verdict::Fail),
        () if is("skipped (") => Some(Verdict::Skip),
        () if line.ends_with(" ok") || is("expected failure") => Some(Verdict::Pass),
        () => None,
    }
}

/// The log of a test, and the daemon's.
fn log_of(folder: &Path, script: &str, number: u32) -> String {
    let folder = folder.join(format!("{script}.dir"));
    // The folder has as many digits as the suite's last test.
    let own =
        fs::read_dir(&folder).into_iter().flatten().flatten().map(|it| it.path()).find(|it| {
            it.file_name().and_then(|it| it.to_str()).and_then(|it| it.parse().ok()) == Some(number)
        });
    let Some(own) = own else { return String::new() };
    [format!("{script}.log"), "ovs-vswitchd.log".into()]
        .iter()
        .filter_map(|name| fs::read(own.join(name)).ok())
        .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
        .collect()
}

/// `[about 3 min left]`.
fn remaining(elapsed: Duration, done: usize, all: usize) -> String {
    let left_s = elapsed.as_secs_f64() / done as f64 * (all - done) as f64;
    match left_s {
        s if s < 90.0 => format!("[about {s:.0} s left]"),
        s => format!("[about {:.0} min left]", s / 60.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts_are_read_from_the_suites_lines() {
        let printed = "## x ##\n  7: datapath - a b     ok\n 8: c   FAILED (x.at:3)\n\
            9: d skipped (y.at:5)\n 10: long name ok\n 11: e    expected failure (a.at:1)\n 12: f\n";
        let seen = [7, 8, 9, 10, 11, 12, 13].map(|n| verdict(printed, n));
        let (pass, fail) = (Some(Verdict::Pass), Some(Verdict::Fail));
        assert_eq!(seen, [pass, fail, Some(Verdict::Skip), pass, pass, None, None]);
    }

    #[test]
    fn the_time_left_is_what_the_rest_takes_at_this_pace() {
        assert_eq!(remaining(Duration::from_secs(10), 10, 30), "[about 20 s left]");
        assert_eq!(remaining(Duration::from_secs(600), 10, 20), "[about 10 min left]");
    }
}
