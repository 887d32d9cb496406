//! `cargo xtask mutants`: the share of small faults in the code that the tests detect.
//!
//! cargo-mutants makes the faults (a function that returns a constant, `<` for `<=`) and runs the
//! crate's tests on each. Running all of them takes hours, so a random sample of each crate is run. A
//! fault that changes only speed, which no test can detect, is listed in `xtask/mutants.toml` with the
//! reason.

use std::collections::BTreeSet;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;
use std::process::{Command, Stdio};

use serde::Deserialize;

use crate::metadata::Metadata;

/// Faults that may stay unnoticed, from the workspace's root.
const ACCEPTED: &str = "xtask/mutants.toml";
/// The default crates.
const CRATES: [&str; 5] = ["classifier", "conntrack", "datapath", "ofproto", "table"];
/// The percentage of compiling faults that must be detected or accepted.
const WANTED_PERCENT: usize = 95;

/// Tests that cargo-mutants does not recognise, since they are built under `all(test, not(loom))` or `loom`.
const TESTS: [&str; 2] = ["**/tests.rs", "**/models.rs"];
/// Faults that are not part of samples: cargo-mutants 27 always tests all of this kind in the selected files.
/// They do not count.
const NOT_CHOSEN: &str = "delete field";

pub const USAGE: &str = "\
usage: cargo xtask mutants [OPTION]... [CRATE]...

Runs the tests of each crate on a random sample of small faults in its code, and says how many they notice.
Needs cargo-mutants (`cargo install --locked cargo-mutants`). Without a name: classifier, conntrack, datapath,
ofproto and table.

  --sample N       faults of each crate; default: 30
  --seed N         chooses other ones; default: 1
  --file GLOB      only in these files, such as 'crates/conntrack/src/headers/extract.rs'

Exits with 1 where less than 95% of a crate's faults are noticed or listed in xtask/mutants.toml.";

/// The options.
#[derive(Debug, PartialEq, Eq)]
struct Options<'a> {
    sample: usize,
    seed: u64,
    files: Vec<&'a str>,
    crates: Vec<&'a str>,
}

#[derive(Deserialize, Default)]
struct File {
    #[serde(default)]
    accepted: Vec<Accepted>,
}

/// A fault that may stay unnoticed.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Accepted {
    /// Its name in cargo-mutants, without line and column.
    mutant: String,
    /// For readers of the file; not used here.
    #[serde(rename = "reason")]
    _reason: String,
}

/// The results of a crate's sample.
#[derive(Debug, Default, PartialEq, Eq)]
struct Outcome {
    caught: usize,
    accepted: usize,
    missed: Vec<String>,
}

/// Runs the samples. Returns whether enough faults were detected in all crates.
pub fn run(words: &[&str]) -> Result<bool, String> {
    let options = Options::read(words)?;
    let root = Metadata::load(&["--no-deps"])?.workspace_root;
    let text = fs::read_to_string(root.join(ACCEPTED))
        .map_err(|error| format!("cannot read {ACCEPTED}: {error}"))?;
    let file: File = toml::from_str(&text).map_err(|error| format!("{ACCEPTED}: {error}"))?;
    let accepted: BTreeSet<&str> = file.accepted.iter().map(|it| it.mutant.as_str()).collect();
    let mut enough = true;
    for name in &options.crates {
        let chosen = options.choose(list(&root, name, &options.files)?);
        let outcome = test(&root, name, &chosen, &accepted)?;
        println!("{name}: {}", outcome.summary());
        enough &= outcome.is_enough();
    }
    Ok(enough)
}

impl<'a> Options<'a> {
    fn read(words: &[&'a str]) -> Result<Self, String> {
        let mut options = Options { sample: 30, seed: 1, files: Vec::new(), crates: Vec::new() };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or(format!("{word} needs a value\n{USAGE}"));
            let number =
                |text: &str| text.parse().map_err(|_| format!("{word}: '{text}' is no number"));
            match *word {
                "--sample" => options.sample = number(value()?)? as usize,
                "--seed" => options.seed = number(value()?)?,
                "--file" => options.files.push(value()?),
                name if !name.starts_with('-') => options.crates.push(name),
                other => return Err(format!("unknown option {other}\n{USAGE}")),
            }
        }
        if options.crates.is_empty() {
            options.crates.extend(CRATES);
        }
        Ok(options)
    }

    /// Returns the sample, which depends only on the seed.
    fn choose(&self, mut all: Vec<String>) -> Vec<String> {
        let rank = |mutant: &String| {
            let mut hasher = DefaultHasher::new();
            (self.seed, mutant).hash(&mut hasher);
            hasher.finish()
        };
        all.sort_by_key(rank);
        all.truncate(self.sample);
        all
    }
}

/// All faults that cargo-mutants knows in a crate.
fn list(root: &Path, name: &str, files: &[&str]) -> Result<Vec<String>, String> {
    let mut command = mutants(root, name);
    command.arg("--list");
    files.iter().for_each(|file| _ = command.args(["--file", file]));
    let output = command.stderr(Stdio::inherit()).output().map_err(|error| {
        format!(
            "cannot start cargo-mutants ({error}); `cargo install --locked cargo-mutants` brings it"
        )
    })?;
    if !output.status.success() {
        return Err(format!(
            "`cargo mutants --list` failed ({}); `cargo install --locked cargo-mutants` brings it",
            output.status
        ));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.lines().map(str::to_owned).collect())
}

fn mutants(root: &Path, name: &str) -> Command {
    let mut command = Command::new("cargo");
    command.current_dir(root).args(["mutants", "--colors", "never", "--package", name]);
    command.args(["--exclude-re", NOT_CHOSEN]);
    TESTS.iter().for_each(|tests| _ = command.args(["--exclude", tests]));
    command
}

/// Runs the crate's tests on these faults.
fn test(
    root: &Path,
    name: &str,
    chosen: &[String],
    accepted: &BTreeSet<&str>,
) -> Result<Outcome, String> {
    if chosen.is_empty() {
        return Ok(Outcome::default());
    }
    let folder = root.join("target/mutants").join(name);
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut command = mutants(root, name);
    command.arg("--output").arg(&folder);
    let files: BTreeSet<&str> = chosen.iter().filter_map(|it| it.split(':').next()).collect();
    files.iter().for_each(|file| _ = command.args(["--file", file]));
    for mutant in chosen {
        command.args(["--re", &format!("^{}$", escaped(mutant))]);
    }
    // The exit status is 2 if a fault was missed and 3 if tests hung; both are reported below.
    let status =
        command.status().map_err(|error| format!("cannot start cargo-mutants: {error}"))?;
    if !matches!(status.code(), Some(0 | 2 | 3)) {
        return Err(format!("`cargo mutants` failed on {name}: {status}"));
    }
    let lines = |file: &str| {
        let text = fs::read_to_string(folder.join("mutants.out").join(file)).unwrap_or_default();
        let is_chosen = |mutant: &&str| chosen.iter().any(|it| it == mutant);
        text.lines().filter(is_chosen).map(str::to_owned).collect::<Vec<_>>()
    };
    let caught = lines("caught.txt").len() + lines("timeout.txt").len();
    Ok(Outcome::new(caught, lines("missed.txt"), accepted))
}

/// A regular expression for exactly this text.
fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for c in text.chars() {
        if !c.is_alphanumeric() && !matches!(c, ' ' | '_' | '/' | '<' | '>' | '=' | ',' | ':' | '"')
        {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped
}

/// `crates/x/src/y.rs:12:5: replace …` without the line and column.
fn without_place(mutant: &str) -> String {
    let mut parts = mutant.splitn(4, ':');
    match (parts.next(), parts.next(), parts.next(), parts.next()) {
        (Some(file), Some(_), Some(_), Some(what)) => format!("{file}:{what}"),
        _ => mutant.to_owned(),
    }
}

impl Outcome {
    fn new(caught: usize, missed: Vec<String>, accepted: &BTreeSet<&str>) -> Outcome {
        let all = missed.len();
        let is_missed = |mutant: &String| !accepted.contains(without_place(mutant).as_str());
        let missed: Vec<String> = missed.into_iter().filter(is_missed).collect();
        Outcome { caught, accepted: all - missed.len(), missed }
    }

    fn all(&self) -> usize {
        self.caught + self.accepted + self.missed.len()
    }

    fn is_enough(&self) -> bool {
        (self.caught + self.accepted) * 100 >= self.all() * WANTED_PERCENT
    }

    fn summary(&self) -> String {
        let (all, caught) = (self.all(), self.caught);
        let percent = (caught + self.accepted) * 100 / all.max(1);
        let mut text = format!(
            "{caught} of {all} faults noticed, {} accepted: {percent}% ({WANTED_PERCENT}% wanted)",
            self.accepted
        );
        self.missed.iter().for_each(|mutant| text += &format!("\n  missed {mutant}"));
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read() {
        let read = Options::read(&["--sample", "5", "conntrack", "--file", "a.rs"]).unwrap();
        let (files, crates) = (vec!["a.rs"], vec!["conntrack"]);
        assert_eq!(read, Options { sample: 5, seed: 1, files, crates });
        assert_eq!(Options::read(&[]).unwrap().crates, CRATES);
        for wrong in [&["--sample"][..], &["--sample", "x"], &["--all"]] {
            assert!(Options::read(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn the_seed_chooses_the_sample() {
        let all: Vec<String> = (0..100).map(|n| format!("a.rs:{n}:1: replace f")).collect();
        let choose = |seed| {
            let options = Options { seed, ..Options::read(&["--sample", "10"]).unwrap() };
            options.choose(all.clone())
        };
        assert_eq!((choose(1).len(), choose(1)), (10, choose(1)));
        assert_ne!(choose(1), choose(2));
    }

    #[test]
    fn what_is_accepted_is_not_missed() {
        let accepted = BTreeSet::from(["a.rs: replace < with <= in f"]);
        let missed = ["a.rs:7:3: replace < with <= in f", "a.rs:9:3: replace g -> bool with true"];
        let outcome = Outcome::new(18, missed.map(str::to_owned).to_vec(), &accepted);
        assert_eq!((outcome.accepted, outcome.missed.len(), outcome.is_enough()), (1, 1, true));
        let words = "18 of 20 faults noticed, 1 accepted: 95% (95% wanted)\n  missed a.rs:9:3: ";
        assert!(outcome.summary().starts_with(words), "{}", outcome.summary());
        assert_eq!(escaped("a.rs:1: f -> (u8) with !x"), r"a\.rs:1: f \-> \(u8\) with \!x");
    }

    #[test]
    fn the_list_of_accepted_faults_is_read() {
        let file: File = toml::from_str(include_str!("../mutants.toml")).unwrap();
        assert!(file.accepted.iter().all(|it| it.mutant.contains(": ")));
    }
}
