//! `cargo xtask cost`: counts the instructions of the hot path with callgrind, and compares them with
//! the accepted numbers of `xtask/cost.toml`.
//!
//! Unlike times, instruction counts do not depend on the load of the machine. Each work runs twice, with
//! few and with many packets; the difference of the counts excludes the set-up.

use std::fs;
use std::num::NonZeroUsize;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::thread;

use serde::Deserialize;

use crate::metadata::Metadata;

/// The file of the accepted numbers, relative to the workspace's root.
const ACCEPTED: &str = "xtask/cost.toml";
/// A count that exceeds the accepted one by more than this many percent is a failure.
const TOLERANCE_PERCENT: u64 = 3;
/// The placeholder in a work's arguments for its number of packets or connections.
const COUNT: &str = "COUNT";

/// What to do with counts that differ from the accepted ones.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Numbers {
    /// Fail if one is too high.
    Check,
    /// Write them into [`ACCEPTED`].
    Accept,
}

#[derive(Deserialize)]
struct File {
    work: Vec<Work>,
}

/// An entry of [`ACCEPTED`].
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Work {
    name: String,
    package: String,
    /// The example of the package that runs the work.
    example: String,
    /// The arguments of the example, which contain [`COUNT`].
    arguments: String,
    /// The two numbers of packets or connections.
    counts: [u64; 2],
    /// Accepted instructions per packet or connection.
    accepted: u64,
}

/// Counts the instructions of every work. Returns whether none exceeds its accepted count.
pub fn run(numbers: Numbers) -> Result<bool, String> {
    let root = Metadata::load(&["--no-deps"])?.workspace_root;
    let path = root.join(ACCEPTED);
    let text = fs::read_to_string(&path).map_err(|e| format!("cannot read {ACCEPTED}: {e}"))?;
    let File { work } = toml::from_str(&text).map_err(|e| format!("{ACCEPTED}: {e}"))?;
    let valgrind = Command::new("valgrind").arg("--version").stdout(Stdio::null()).status();
    if valgrind.is_err() {
        println!("SKIPPED: instructions of the hot path: valgrind is not installed");
        println!("0 passed, 0 failed, 1 skipped");
        return Ok(true);
    }
    build(&root, &work)?;
    let (mut failed, mut updated) = (0, text);
    for (work, counted) in work.iter().zip(count_all(&root, &work)) {
        if let Ok(count) = counted {
            updated = with_accepted(&updated, &work.name, count);
        }
        match counted.and_then(|count| judge(count, work.accepted)) {
            Ok(words) => println!("ok {}: {words}", work.name),
            Err(words) => {
                println!("FAIL {}: {words}", work.name);
                failed += 1;
            }
        }
    }
    println!("{} passed, {failed} failed, 0 skipped", work.len() - failed);
    if numbers == Numbers::Accept {
        fs::write(&path, updated).map_err(|e| format!("cannot write {ACCEPTED}: {e}"))?;
        return Ok(true);
    }
    Ok(failed == 0)
}

/// Builds the examples with the programs of `make build`, so that both use the same libraries.
fn build(root: &Path, all: &[Work]) -> Result<(), String> {
    let mut command = Command::new("cargo");
    command.current_dir(root).args(["build", "--quiet", "--release", "--locked"]);
    for name in unique(all, |work| &work.package) {
        command.args(["--package", name]);
    }
    for name in unique(all, |work| &work.example) {
        command.args(["--example", name]);
    }
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("the examples cannot be built: {status}")),
        Err(error) => Err(format!("cannot start cargo: {error}")),
    }
}

fn unique<'a>(all: &'a [Work], of: impl Fn(&'a Work) -> &'a str) -> Vec<&'a str> {
    let mut names: Vec<&str> = all.iter().map(of).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// Counts all works, as many at a time as there are processors.
fn count_all(root: &Path, all: &[Work]) -> Vec<Result<u64, String>> {
    let processors = thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let left = Mutex::new(all.iter().enumerate());
    let mut found: Vec<(usize, Result<u64, String>)> = thread::scope(|scope| {
        let threads: Vec<_> = (0..processors)
            .map(|_| {
                scope.spawn(|| {
                    let next = || left.lock().ok()?.next();
                    std::iter::from_fn(next).map(|(at, work)| (at, count(root, work))).collect()
                })
            })
            .collect();
        let joined = threads.into_iter().map(|thread| thread.join().unwrap_or_default());
        joined.collect::<Vec<Vec<_>>>().concat()
    });
    found.sort_by_key(|(at, _)| *at);
    found.into_iter().map(|(_, counted)| counted).collect()
}

/// Returns the instructions per packet or connection.
fn count(root: &Path, work: &Work) -> Result<u64, String> {
    let [few, many] = work.counts;
    let (before, after) = (collected(root, work, few)?, collected(root, work, many)?);
    Ok(after.saturating_sub(before) / (many - few).max(1))
}

/// Returns the instructions of a run.
fn collected(root: &Path, work: &Work, number: u64) -> Result<u64, String> {
    let arguments = work.arguments.replace(COUNT, &number.to_string());
    let output = Command::new("valgrind")
        .current_dir(root)
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(format!("target/release/examples/{}", work.example))
        .args(arguments.split_whitespace())
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("cannot start valgrind: {error}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        return Err(format!("`{} {arguments}`: {}: {said}", work.example, output.status));
    }
    let line = said.lines().find_map(|line| line.split_once("Collected :"));
    let number = line.and_then(|(_, number)| number.trim().parse().ok());
    number.ok_or_else(|| format!("callgrind does not say what it counted: {said}"))
}

/// Returns the message about a count, and whether the count is acceptable.
fn judge(count: u64, accepted: u64) -> Result<String, String> {
    let words = format!("{count} instructions, {accepted} accepted");
    if count * 100 > accepted * (100 + TOLERANCE_PERCENT) {
        return Err(format!(
            "{words}; make it cheaper, or run `cargo xtask cost --accept` and say why in the commit"
        ));
    }
    if count * (100 + TOLERANCE_PERCENT) < accepted * 100 {
        return Ok(format!("{words}; `cargo xtask cost --accept` lowers the accepted number"));
    }
    Ok(words)
}

/// Returns the text of [`ACCEPTED`] with the new count of a work.
fn with_accepted(text: &str, name: &str, count: u64) -> String {
    let (mut lines, mut is_meant) = (Vec::new(), false);
    for line in text.lines() {
        if let Some((key, value)) = line.split_once(" = ") {
            is_meant = if key == "name" { value.trim_matches('"') == name } else { is_meant };
            if key == "accepted" && is_meant {
                lines.push(format!("accepted = {count}"));
                continue;
            }
        }
        lines.push(line.to_owned());
    }
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_percent_more_is_the_most() {
        let is_accepted = |count| judge(count, 1000).is_ok();
        assert!(is_accepted(500) && is_accepted(1000) && is_accepted(1030));
        assert!(!is_accepted(1031) && !is_accepted(2000));
        let hints = |count| judge(count, 1000).is_ok_and(|words| words.contains("lowers"));
        assert!(hints(900) && !hints(975) && !hints(1000));
    }

    #[test]
    fn accepting_changes_one_number() {
        let text = "# Why.\n\n[[work]]\nname = \"a\"\naccepted = 1\n\n[[work]]\nname = \"b\"\naccepted = 2\n";
        assert_eq!(with_accepted(text, "b", 7), text.replace("accepted = 2", "accepted = 7"));
        assert_eq!(with_accepted(text, "c", 7), text);
    }

    #[test]
    fn the_file_is_read() {
        let text = include_str!("../cost.toml");
        let File { work } = toml::from_str(text).expect("the file's format");
        for work in work {
            assert!(work.arguments.contains(COUNT), "{}", work.name);
            assert!(work.counts[0] < work.counts[1], "{}", work.name);
        }
    }
}
