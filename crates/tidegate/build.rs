//! Passes the commit of the build to the program, for results that are to be reproduced.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=..");
    println!("cargo:rerun-if-env-changed=TIDEGATE_COMMIT");
    // Git writes it with each commit and checkout; a missing file would make cargo run this every time.
    let log = git(&["rev-parse", "--git-path", "logs/HEAD"]);
    if let Some(log) = log.filter(|log| Path::new(log).exists()) {
        println!("cargo:rerun-if-changed={log}");
    }
    // A build outside a repository takes it from the environment.
    let given = std::env::var("TIDEGATE_COMMIT").ok();
    let commit = given.or_else(here).unwrap_or_else(|| "unknown".to_owned());
    println!("cargo:rustc-env=TIDEGATE_COMMIT={commit}");
}

/// Returns the commit that is checked out, and marks changes of the crates.
fn here() -> Option<String> {
    let commit = git(&["rev-parse", "HEAD"])?;
    let changed = git(&["status", "--porcelain", "--untracked-files=no", "--", ".."])?;
    Some(if changed.is_empty() { commit } else { format!("{commit} with changes") })
}

fn git(arguments: &[&str]) -> Option<String> {
    // Without optional locks, git writes nothing.
    let out = Command::new("git").env("GIT_OPTIONAL_LOCKS", "0").args(arguments).output().ok()?;
    let text = String::from_utf8(out.stdout).ok()?;
    out.status.success().then(|| text.trim().to_owned())
}
