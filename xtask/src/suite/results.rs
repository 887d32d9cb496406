//! Results of tests, in a file that grows as they end.

use super::script::Test;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::time::UNIX_EPOCH;

/// The verdict of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    Pass,
    Fail,
    Skip,
}

impl Verdict {
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Pass => "pass",
            Verdict::Fail => "fail",
            Verdict::Skip => "skip",
        }
    }
}

/// The result of a test.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    pub number: u32,
    pub verdict: Verdict,
    /// The reason why it did not pass, if its log shows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    pub seconds: f64,
}

/// The first line of the file identifies the program: results of another program are not reused.
#[derive(PartialEq, Eq, Serialize, Deserialize)]
struct Header {
    program: String,
    bytes: u64,
    changed_ms: u64,
}

pub struct Results {
    file: File,
    outcomes: BTreeMap<u32, Outcome>,
}

impl Results {
    /// Opens the results of this program, or starts new ones.
    pub fn open(path: &Path, program: &Path, is_again: bool) -> Result<Results, String> {
        let failed = |e: std::io::Error| format!("{}: {e}", path.display());
        let header = Header::of(program).map_err(failed)?;
        path.parent().map_or(Ok(()), fs::create_dir_all).map_err(failed)?;
        let text = fs::read_to_string(path).unwrap_or_default();
        let mut lines = text.lines();
        let is_same = lines
            .next()
            .and_then(|it| serde_json::from_str::<Header>(it).ok())
            .is_some_and(|it| it == header);
        let outcomes: BTreeMap<u32, Outcome> = match is_same && !is_again {
            // The last line of a killed run may be incomplete.
            true => Results::kept(path),
            false => BTreeMap::new(),
        };
        let mut file = match outcomes.is_empty() {
            true => File::create(path).map_err(failed)?,
            false => OpenOptions::new().append(true).open(path).map_err(failed)?,
        };
        // Start a new line, also after an incomplete one.
        let begin = match outcomes.is_empty() {
            true => serde_json::to_string(&header).map_err(|e| e.to_string())?,
            false => String::new(),
        };
        writeln!(file, "{begin}").map_err(failed)?;
        Ok(Results { file, outcomes })
    }

    /// The results in a file, of any program; empty if there is no file.
    pub fn kept(path: &Path) -> BTreeMap<u32, Outcome> {
        let text = fs::read_to_string(path).unwrap_or_default();
        let outcomes = text.lines().filter_map(|it| serde_json::from_str::<Outcome>(it).ok());
        outcomes.map(|it| (it.number, it)).collect()
    }

    pub fn has(&self, number: u32) -> bool {
        self.outcomes.contains_key(&number)
    }

    pub fn add(&mut self, outcome: Outcome) -> Result<(), String> {
        let line = serde_json::to_string(&outcome).map_err(|e| e.to_string())?;
        writeln!(self.file, "{line}").map_err(|e| format!("cannot write down a result: {e}"))?;
        self.outcomes.insert(outcome.number, outcome);
        Ok(())
    }

    /// The results of those of these tests that were run.
    pub fn of(&self, tests: &[&Test]) -> BTreeMap<u32, Outcome> {
        let is_of = |number: u32| tests.iter().any(|it| it.number == number);
        self.outcomes.iter().filter(|&(&n, _)| is_of(n)).map(|(&n, it)| (n, it.clone())).collect()
    }
}

impl Header {
    fn of(program: &Path) -> std::io::Result<Header> {
        let of_file = fs::metadata(program)?;
        let changed = of_file.modified()?.duration_since(UNIX_EPOCH).unwrap_or_default();
        let changed_ms = changed.as_millis() as u64;
        Ok(Header { program: program.display().to_string(), bytes: of_file.len(), changed_ms })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_was_cut_off_goes_on_and_another_program_begins_anew() {
        let folder = std::env::temp_dir().join(format!("suite-results-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let (path, program) = (folder.join("r.jsonl"), folder.join("program"));
        fs::write(&program, "1").unwrap();
        let outcome = Outcome { number: 7, verdict: Verdict::Skip, cause: None, seconds: 1.5 };
        let mut results = Results::open(&path, &program, false).unwrap();
        results.add(outcome).unwrap();
        results.file.write_all(b"{\"number\":8,\"verd").unwrap();
        let mut results = Results::open(&path, &program, false).unwrap();
        assert!(results.has(7) && !results.has(8));
        let outcome = Outcome { number: 9, verdict: Verdict::Pass, cause: None, seconds: 0.5 };
        results.add(outcome).unwrap();
        assert!(Results::open(&path, &program, false).unwrap().has(9));
        fs::write(&program, "12").unwrap();
        assert!(!Results::open(&path, &program, false).unwrap().has(7));
        fs::remove_dir_all(&folder).unwrap();
    }
}
