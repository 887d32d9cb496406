//! Reports of a run: by file, by cause, and compared with the expected results.

use super::Suite;
use super::expected::Differences;
use super::results::{Outcome, Verdict};
use super::script::Test;
use serde_json::{Value, json};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// Numbers of passed, failed and skipped tests.
#[derive(Clone, Copy, Default)]
struct Counts([usize; 3]);

impl Counts {
    fn add(&mut self, verdict: Verdict) {
        self.0[verdict as usize] += 1;
    }

    fn line(self, name: &str) -> String {
        let [pass, fail, skip] = self.0;
        format!("{:>6} {pass:>6} {fail:>6} {skip:>6}  {name}\n", pass + fail + skip)
    }
}

/// The report as text.
pub fn text(
    suite: Suite,
    tests: &[&Test],
    outcomes: &BTreeMap<u32, Outcome>,
    differences: &Differences,
) -> String {
    let mut text = format!("\n== {} suite\n tests   pass   fail   skip  file\n", suite.name());
    let (mut files, mut all) = (BTreeMap::<&str, Counts>::new(), Counts::default());
    let mut causes = BTreeMap::<&str, Vec<u32>>::new();
    for test in tests {
        let Some(outcome) = outcomes.get(&test.number) else { continue };
        files.entry(&test.file).or_default().add(outcome.verdict);
        all.add(outcome.verdict);
        if outcome.verdict != Verdict::Pass {
            let cause = outcome.cause.as_deref().unwrap_or("not sorted yet");
            causes.entry(cause).or_default().push(test.number);
        }
    }
    files.iter().for_each(|(file, counts)| text += &counts.line(file));
    text += &all.line("all");
    let mut causes: Vec<_> = causes.into_iter().collect();
    causes.sort_by_key(|(_, tests)| Reverse(tests.len()));
    if !causes.is_empty() {
        text += "\n tests  cause\n";
    }
    for (cause, numbers) in causes {
        let numbers: Vec<String> = numbers.iter().map(u32::to_string).collect();
        let _ = writeln!(text, "{:>6}  {cause}: {}", numbers.len(), numbers.join(" "));
    }
    let name = |number: &u32| {
        let test = tests.iter().find(|it| it.number == *number);
        test.map_or(String::new(), |it| format!("  {number}: {}\n", it.name))
    };
    let mut group = |title: &str, numbers: &BTreeSet<u32>| {
        if !numbers.is_empty() {
            let _ = write!(text, "\n{title}\n{}", numbers.iter().map(name).collect::<String>());
        }
    };
    if suite.is_expected() {
        group("Regressions, against tests/suites/expected.toml:", &differences.regressions);
        group("Better than expected (`--update` writes it down):", &differences.improvements);
        group("Not in tests/suites/expected.toml (`--update` adds them):", &differences.unknown);
    } else {
        group("Open vSwitch's own daemon does better:", &differences.regressions);
        group("Better than Open vSwitch's own daemon:", &differences.improvements);
        group(
            "Not run with `--peer` yet, so that there is nothing to compare with:",
            &differences.unknown,
        );
    }
    // The lines that `make test` repeats at its end.
    for number in &differences.regressions {
        let _ = write!(text, "FAILED: {} suite{}", suite.name(), name(number));
    }
    let [pass, fail, skip] = all.0;
    let _ = writeln!(text, "\n{pass} pass, {fail} fail, {skip} are skipped");
    text
}

/// The report as JSON.
pub fn json(
    suite: Suite,
    tests: &[&Test],
    outcomes: &BTreeMap<u32, Outcome>,
    differences: &Differences,
) -> Value {
    let tests: Vec<Value> = tests
        .iter()
        .filter_map(|test| {
            let outcome = outcomes.get(&test.number)?;
            Some(json!({
                "number": test.number,
                "name": test.name,
                "file": test.file,
                "result": outcome.verdict.name(),
                "cause": outcome.cause,
                "seconds": outcome.seconds,
            }))
        })
        .collect();
    json!({
        "suite": suite.name(),
        "tests": tests,
        "regressions": differences.regressions,
        "improvements": differences.improvements,
        "unknown": differences.unknown,
    })
}
