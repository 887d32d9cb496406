//! Reports of a run: by file, by cause, and compared with the expected results.

use super::Suite;
use super::expected::Differences;
use super::results::{Outcome, Verdict};
use super::script::Test;
use serde_json::{Value, json};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// Numbers of passed, failed and skipped tests, and of those that the peer passes.
#[derive(Clone, Copy, Default)]
struct Counts {
    ours: [usize; 3],
    peer: usize,
}

impl Counts {
    fn add(&mut self, verdict: Verdict, peer: Option<Verdict>) {
        self.ours[verdict as usize] += 1;
        self.peer += usize::from(peer == Some(Verdict::Pass));
    }

    fn line(self, name: &str, is_peer_known: bool) -> String {
        let [pass, fail, skip] = self.ours;
        let peer = if is_peer_known { self.peer.to_string() } else { "?".to_owned() };
        format!("{:>6} {pass:>6} {fail:>6} {skip:>6} {peer:>6}  {name}\n", pass + fail + skip)
    }
}

/// What a report is about.
pub struct Report<'a> {
    pub suite: Suite,
    pub version: &'a str,
    /// Whether `expected.toml` contains the suite of this version. If not, the peer's results are expected.
    pub is_listed: bool,
    pub tests: &'a [&'a Test],
}

impl Report<'_> {
    /// The report as text.
    pub fn text(
        &self,
        outcomes: &BTreeMap<u32, Outcome>,
        peer: &BTreeMap<u32, Verdict>,
        differences: &Differences,
    ) -> String {
        let (suite, version) = (self.suite.name(), self.version);
        let mut text = format!(
            "\n== {suite} suite of {version}\n tests   pass   fail   skip   peer  file   (peer: passed by Open vSwitch)\n"
        );
        let (mut files, mut all) = (BTreeMap::<&str, Counts>::new(), Counts::default());
        let mut causes = BTreeMap::<&str, Vec<u32>>::new();
        for test in self.tests {
            let Some(outcome) = outcomes.get(&test.number) else { continue };
            let of_peer = peer.get(&test.number).copied();
            files.entry(&test.file).or_default().add(outcome.verdict, of_peer);
            all.add(outcome.verdict, of_peer);
            if outcome.verdict != Verdict::Pass {
                let cause = outcome.cause.as_deref().unwrap_or("not sorted yet");
                causes.entry(cause).or_default().push(test.number);
            }
        }
        let is_peer_known = outcomes.keys().all(|number| peer.contains_key(number));
        files.iter().for_each(|(file, counts)| text += &counts.line(file, is_peer_known));
        text += &all.line("all", is_peer_known);
        text += &list_causes(causes);
        text += &self.list_differences(differences);
        let [pass, fail, skip] = all.ours;
        let _ = writeln!(text, "\n{pass} pass, {fail} fail, {skip} are skipped");
        text
    }

    fn list_differences(&self, differences: &Differences) -> String {
        let mut text = String::new();
        let name = |number: &u32| {
            let test = self.tests.iter().find(|it| it.number == *number);
            test.map_or(String::new(), |it| format!("  {number}: {}\n", it.name))
        };
        let mut group = |title: &str, numbers: &BTreeSet<u32>| {
            if !numbers.is_empty() {
                let _ = write!(text, "\n{title}\n{}", numbers.iter().map(name).collect::<String>());
            }
        };
        let titles = match self.is_listed {
            true => [
                "Regressions, against tests/suites/expected.toml:",
                "Better than expected (`--update` writes it down):",
                "Not in tests/suites/expected.toml (`--update` adds them):",
            ],
            false => [
                "Open vSwitch's own daemon does better:",
                "Better than Open vSwitch's own daemon:",
                "Not run with `--peer` yet, so that there is nothing to compare with:",
            ],
        };
        group(titles[0], &differences.regressions);
        group(titles[1], &differences.improvements);
        group(titles[2], &differences.unknown);
        group(
            "Flaky: worse than expected beside other tests, as expected alone:",
            &differences.flaky,
        );
        // The lines that `make test` repeats at its end.
        for number in &differences.regressions {
            let _ = write!(text, "FAILED: {} suite{}", self.suite.name(), name(number));
        }
        text
    }

    /// The report as JSON.
    pub fn json(
        &self,
        outcomes: &BTreeMap<u32, Outcome>,
        peer: &BTreeMap<u32, Verdict>,
        differences: &Differences,
    ) -> Value {
        let of_test = |test: &&Test| {
            let outcome = outcomes.get(&test.number)?;
            Some(json!({
                "number": test.number,
                "name": test.name,
                "file": test.file,
                "result": outcome.verdict.name(),
                "peer": peer.get(&test.number).map(|it| it.name()),
                "cause": outcome.cause,
                "seconds": outcome.seconds,
            }))
        };
        json!({
            "suite": self.suite.name(),
            "version": self.version,
            "tests": self.tests.iter().filter_map(of_test).collect::<Vec<Value>>(),
            "regressions": differences.regressions,
            "improvements": differences.improvements,
            "unknown": differences.unknown,
            "flaky": differences.flaky,
        })
    }
}

fn list_causes(causes: BTreeMap<&str, Vec<u32>>) -> String {
    let mut causes: Vec<_> = causes.into_iter().collect();
    causes.sort_by_key(|(_, tests)| Reverse(tests.len()));
    let mut text = String::new();
    if !causes.is_empty() {
        text += "\n tests  cause\n";
    }
    for (cause, numbers) in causes {
        let numbers: Vec<String> = numbers.iter().map(u32::to_string).collect();
        let _ = writeln!(text, "{:>6}  {cause}: {}", numbers.len(), numbers.join(" "));
    }
    text
}
