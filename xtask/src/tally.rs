//! Counts passed, failed and skipped tests in the output of stages.

use std::process::ExitStatus;

/// How a stage reports its tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reports {
    /// It has no tests of its own: it passes or fails as a whole.
    Nothing,
    /// With one `test result:` line per test program, like `cargo test`.
    Cargo,
    /// With a closing line `N passed, N failed, N skipped`.
    ClosingLine,
}

/// Counters, and the lines that explain them.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Tests that passed.
    pub passed: usize,
    /// Tests that failed, and stages that failed without naming a test.
    pub failed: usize,
    /// Tests and checks that did not run.
    pub skipped: usize,
    /// The tests that failed by their names, and stages that failed without naming one.
    failures: Vec<String>,
    /// The `SKIPPED:` lines.
    skips: Vec<String>,
    /// The `UNSTEADY:` lines: tests that failed and then passed.
    unsteady: Vec<String>,
    /// Whether a closing line was seen.
    closed: bool,
}

impl Tally {
    /// Reads one line of a stage's output.
    pub fn line(&mut self, reports: Reports, line: &str) {
        if line.starts_with("SKIPPED:") {
            self.skips.push(line.to_owned());
            match reports {
                Reports::Nothing => self.skipped += 1,
                Reports::Cargo => {
                    // The test that printed it returned early, and `cargo test` counts it as passed.
                    self.skipped += 1;
                    self.passed = self.passed.saturating_sub(1);
                }
                // The closing line counts it.
                Reports::ClosingLine => {}
            }
        }
        if line.starts_with("UNSTEADY:") {
            self.unsteady.push(line.to_owned());
        }
        match reports {
            Reports::Nothing => {}
            Reports::Cargo => self.cargo_line(line),
            // The closing line counts them.
            Reports::ClosingLine if line.starts_with("FAILED: ") || line.starts_with("FAIL ") => {
                self.failures.push(line.to_owned());
            }
            Reports::ClosingLine => {
                if let Some((passed, failed, skipped)) = closing_line(line) {
                    (self.passed, self.failed, self.skipped) = (passed, failed, skipped);
                    self.closed = true;
                }
            }
        }
    }

    fn cargo_line(&mut self, line: &str) {
        if let Some(rest) = line.strip_prefix("test result: ") {
            let count = |what| count_before(rest, what).unwrap_or(0);
            self.passed += count("passed");
            self.failed += count("failed");
            self.skipped += count("ignored");
            return;
        }
        let failed = line.strip_prefix("test ").and_then(|rest| rest.strip_suffix(" ... FAILED"));
        if let Some(name) = failed {
            self.failures.push(format!("FAILED: {name}"));
        }
        let ignored = line.strip_prefix("test ").and_then(|rest| rest.split_once(" ... ignored"));
        if let Some((name, why)) = ignored {
            let why = why.trim_start_matches([',', ' ']);
            let why = if why.is_empty() { "marked #[ignore]" } else { why };
            self.skips.push(format!("SKIPPED: {name}: {why}"));
        }
    }

    /// Ends a stage. A failed stage whose output reports no failure counts as a failure itself.
    pub fn close(&mut self, name: &str, reports: Reports, status: ExitStatus) {
        if reports == Reports::ClosingLine && !self.closed {
            self.fail(format!(
                "FAILED: {name}: no closing line `N passed, N failed, N skipped` ({status})"
            ));
        } else if !status.success() && self.failed == 0 {
            self.fail(format!("FAILED: {name}: {status}"));
        }
    }

    /// Counts a failure that no test reported.
    pub fn fail(&mut self, why: String) {
        self.failed += 1;
        self.failures.push(why);
    }

    /// Counts something that did not run.
    pub fn skip(&mut self, why: String) {
        self.skipped += 1;
        self.skips.push(why);
    }

    /// Adds another stage's counts.
    pub fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
        self.failures.extend(other.failures);
        self.skips.extend(other.skips);
        self.unsteady.extend(other.unsteady);
    }

    /// The failures, the unsteady and the skipped tests, and the closing line.
    pub fn summary(&self) -> String {
        let mut lines = [self.failures.as_slice(), &self.unsteady].concat();
        if self.skips.is_empty() {
            lines.push("nothing was skipped".to_owned());
        }
        lines.extend_from_slice(&self.skips);
        lines.push(format!(
            "{} passed, {} failed, {} skipped",
            self.passed, self.failed, self.skipped
        ));
        lines.join("\n")
    }
}

/// The number before a word, as in `ok. 5 passed; 0 failed`.
fn count_before(text: &str, what: &str) -> Option<usize> {
    let words: Vec<&str> = text.split([' ', ';', ',']).filter(|w| !w.is_empty()).collect();
    let at = words.iter().position(|word| *word == what)?;
    words.get(at.checked_sub(1)?)?.parse().ok()
}

/// Parses `N passed, N failed, N skipped`, which must be the whole line.
fn closing_line(line: &str) -> Option<(usize, usize, usize)> {
    let mut parts = line.trim_end().split(", ");
    let mut count = |what: &str| -> Option<usize> {
        parts.next()?.strip_suffix(what)?.strip_suffix(' ')?.parse().ok()
    };
    let counts = (count("passed")?, count("failed")?, count("skipped")?);
    parts.next().is_none().then_some(counts)
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    fn tally(reports: Reports, lines: &[&str], code: i32) -> Tally {
        let mut tally = Tally::default();
        for line in lines {
            tally.line(reports, line);
        }
        tally.close("stage", reports, ExitStatus::from_raw(code << 8));
        tally
    }

    #[test]
    fn counts() {
        let ok = "test result: ok. 5 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out";
        let bad = "test result: FAILED. 2 passed; 3 failed; 0 ignored; 0 measured; 0 filtered out";
        use Reports::{Cargo, ClosingLine, Nothing};
        type Counts = (usize, usize, usize);
        let cases: &[(Reports, &[&str], i32, Counts)] = &[
            (Cargo, &[ok, "noise", ok], 0, (10, 0, 2)),
            (Cargo, &[ok, bad], 101, (7, 3, 1)),
            (Cargo, &["error: could not compile"], 101, (0, 1, 0)),
            (Cargo, &[ok, "SKIPPED: tap: needs root"], 0, (4, 0, 2)),
            (Cargo, &[ok, " SKIPPED: not at the start"], 0, (5, 0, 1)),
            (Nothing, &["SKIPPED: advisory check: no database"], 0, (0, 0, 1)),
            (Nothing, &["warning: x"], 2, (0, 1, 0)),
            (Nothing, &["3 passed, 1 failed, 0 skipped"], 0, (0, 0, 0)),
            (ClosingLine, &["SKIPPED: x: y", "7 passed, 0 failed, 1 skipped"], 0, (7, 0, 1)),
            (ClosingLine, &["7 passed, 2 failed, 1 skipped"], 1, (7, 2, 1)),
            (ClosingLine, &["7 passed, 0 failed, 0 skipped"], 1, (7, 1, 0)),
            (ClosingLine, &["all went well"], 0, (0, 1, 0)),
            (ClosingLine, &["of 9: 7 passed, 0 failed, 0 skipped, 2 lost"], 0, (0, 1, 0)),
        ];
        for (reports, lines, code, expect) in cases {
            let t = tally(*reports, lines, *code);
            assert_eq!((t.passed, t.failed, t.skipped), *expect, "{lines:?}");
        }
    }

    #[test]
    fn the_summary_says_why() {
        let mut total = tally(Reports::Cargo, &["test a::b ... ignored, needs a disk"], 0);
        total.add(tally(Reports::Nothing, &["SKIPPED: c: d"], 2));
        let lines = [
            "UNSTEADY: pcap: late",
            "FAIL vlan: no reply",
            "FAILED: unit suite  7: x",
            "0 passed, 2 failed, 0 skipped",
        ];
        let mut named = tally(Reports::ClosingLine, &lines, 1);
        named.add(tally(Reports::Cargo, &["test a::c ... FAILED", "test result: 1 failed"], 1));
        let expect = "FAIL vlan: no reply\nFAILED: unit suite  7: x\nFAILED: a::c\nUNSTEADY: pcap: late\nnothing was skipped\n\
                      0 passed, 3 failed, 0 skipped";
        assert_eq!(named.summary(), expect);
        let expect = "FAILED: stage: exit status: 2\nSKIPPED: a::b: needs a disk\nSKIPPED: c: d\n\
                      0 passed, 1 failed, 1 skipped";
        assert_eq!(total.summary(), expect);
        assert_eq!(
            Tally::default().summary(),
            "nothing was skipped\n0 passed, 0 failed, 0 skipped"
        );
    }
}
