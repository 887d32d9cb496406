//! Tells the program which commit it is built from, for results that are to be measured again.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=..");
    println!("cargo:rerun-if-env-changed=TIDEGATE_COMMIT");
    // Written with each commit and checkout; a file that is not there would run this again and again.
    let log = git(&["rev-parse", "--git-path", "logs/HEAD"]);
    if let Some(log) = log.filter(|log| Path::new(log).exists()) {
        println!("cargo:rerun-if-changed={log}");
    }
    // A build without the repository may be told.
    let given = std::env::var("TIDEGATE_COMMIT").ok();
    let commit = given.or_else(here).unwrap_or_else(|| "unknown".to_owned());
    println!("cargo:rustc-env=TIDEGATE_COMMIT={commit}");
}

/// The commit that is checked out, and whether the crates were changed since.
fn here() -> Option<String> {
    let commit = git(&["rev-parse", "HEAD"])?;
    let changed = git(&["status", "--porcelain", "--untracked-files=no", "--", ".."])?;
    Some(if changed.is_empty() { commit } else { format!("{commit} with changes") })
}

fn git(arguments: &[&str]) -> Option<String> {
    // Looking is not to write anything that is looked at.
    let out = Command::new("git").env("GIT_OPTIONAL_LOCKS", "0").args(arguments).output().ok()?;
    let text = String::from_utf8(out.stdout).ok()?;
    out.status.success().then(|| text.trim().to_owned())
}
