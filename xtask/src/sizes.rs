//! Sizes of files and functions, held by a ratchet: what is too large may only shrink.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Deserialize;

use crate::files::RustFile;
use crate::problem::Problem;

#[cfg(test)]
mod tests;

/// The file of exceptions.
pub const RATCHET: &str = "xtask/ratchet.toml";

/// Lines of a file, without tests, that need no exception.
const FILE_AIM: usize = 400;
/// Lines of a file, without tests, for which there is no exception.
const FILE_LIMIT: usize = 1000;
/// Lines of a function that need no exception.
const FUNCTION_AIM: usize = 70;

/// The exceptions, with their sizes in lines.
#[derive(Debug, Default, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ratchet {
    /// By path.
    #[serde(default)]
    pub files: BTreeMap<String, usize>,
    /// By `path::name`; the second function of that name in a file is `path::name#2`.
    #[serde(default)]
    pub functions: BTreeMap<String, usize>,
}

/// The measured sizes, without those that need no exception.
#[derive(Debug, Default)]
pub struct Sizes {
    files: BTreeMap<String, Size>,
    functions: BTreeMap<String, Size>,
}

#[derive(Debug)]
struct Size {
    path: String,
    line: usize,
    lines: usize,
}

/// The comparison of the sizes with the ratchet.
#[derive(Debug, Default)]
pub struct Findings {
    /// Problems.
    pub problems: Vec<Problem>,
    /// Exceptions that can be lowered.
    pub notes: Vec<Problem>,
}

impl Sizes {
    /// Measures all files.
    pub fn measure(files: &[RustFile]) -> Self {
        let mut sizes = Self::default();
        for file in files.iter().filter(|f| !f.is_test()) {
            sizes.add(file);
        }
        sizes
    }

    fn add(&mut self, file: &RustFile) {
        let outline = &file.outline;
        let lines = (1..=file.source.lines()).filter(|line| !outline.is_test_line(*line)).count();
        if lines > FILE_AIM {
            let size = Size { path: file.path.clone(), line: 1, lines };
            self.files.insert(file.path.clone(), size);
        }
        let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
        for function in outline.functions.iter().filter(|f| !outline.is_test_line(f.line)) {
            let count = seen.entry(&function.name).or_default();
            *count += 1;
            if function.lines <= FUNCTION_AIM {
                continue;
            }
            let mut key = format!("{}::{}", file.path, function.name);
            if *count > 1 {
                key = format!("{key}#{count}");
            }
            let (line, lines) = (function.line, function.lines);
            self.functions.insert(key, Size { path: file.path.clone(), line, lines });
        }
    }

    /// Compares with the exceptions.
    pub fn check(&self, ratchet: &Ratchet) -> Findings {
        let mut findings = Findings::default();
        for size in self.files.values().filter(|size| size.lines > FILE_LIMIT) {
            let text = format!(
                "{} lines without tests, and {FILE_LIMIT} is the hard limit; split the file",
                size.lines
            );
            findings.problems.push(Problem::new(&size.path, 1, text));
        }
        compare(&self.files, &ratchet.files, "the file", FILE_AIM, &mut findings);
        compare(&self.functions, &ratchet.functions, "the function", FUNCTION_AIM, &mut findings);
        findings
    }

    /// The exceptions, lowered or removed as far as the sizes permit; with `accept`, also added or raised as
    /// needed. A file above the hard limit is never accepted.
    pub fn updated(&self, ratchet: &Ratchet, accept: bool) -> Ratchet {
        Ratchet {
            files: update(&self.files, &ratchet.files, accept, FILE_LIMIT),
            functions: update(&self.functions, &ratchet.functions, accept, usize::MAX),
        }
    }
}

fn compare(
    sizes: &BTreeMap<String, Size>,
    exceptions: &BTreeMap<String, usize>,
    what: &str,
    aim: usize,
    findings: &mut Findings,
) {
    for (key, size) in sizes {
        let lines = size.lines;
        let problem = |text: String| Problem::new(&size.path, size.line, text);
        match exceptions.get(key) {
            None => findings.problems.push(problem(format!(
                "{what} {key} has {lines} lines and should have at most {aim}; split it by what \
                 its parts do"
            ))),
            Some(listed) if lines > *listed => findings.problems.push(problem(format!(
                "{what} {key} has grown from {listed} to {lines} lines (aim: {aim}); split it \
                 instead"
            ))),
            Some(listed) if lines < *listed => findings.notes.push(problem(format!(
                "{what} {key} has shrunk from {listed} to {lines} lines; run `cargo xtask tidy \
                 --update-ratchet`"
            ))),
            Some(_) => {}
        }
    }
    for key in exceptions.keys().filter(|key| !sizes.contains_key(*key)) {
        let text = format!(
            "{what} {key} needs no exception any more; run `cargo xtask tidy --update-ratchet`"
        );
        findings.notes.push(Problem::new(RATCHET, 1, text));
    }
}

fn update(
    sizes: &BTreeMap<String, Size>,
    exceptions: &BTreeMap<String, usize>,
    accept: bool,
    limit: usize,
) -> BTreeMap<String, usize> {
    let mut updated = BTreeMap::new();
    for (key, size) in sizes {
        let lines = match exceptions.get(key) {
            _ if accept && size.lines <= limit => size.lines,
            Some(listed) => size.lines.min(*listed),
            None => continue,
        };
        updated.insert(key.clone(), lines);
    }
    updated
}

impl Ratchet {
    /// Reads the ratchet file.
    pub fn parse(text: &str) -> Result<Self, String> {
        toml::from_str(text).map_err(|e| format!("{RATCHET}: {e}"))
    }

    /// Writes the ratchet file.
    pub fn to_toml(&self) -> String {
        let mut text = "\
# Files and functions that are larger than they should be, with their size in lines. `cargo xtask tidy` fails
# when one grows or a new one appears. Written by `cargo xtask tidy --update-ratchet` (lowers and removes) and
# `--accept` (also adds and raises).
"
        .to_owned();
        for (title, entries) in [("files", &self.files), ("functions", &self.functions)] {
            let _ = writeln!(text, "\n[{title}]");
            for (key, lines) in entries {
                let _ = writeln!(text, "\"{key}\" = {lines}");
            }
        }
        text
    }
}
