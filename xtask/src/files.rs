//! The files of the repository, and their role: crate, test or other.

use std::path::Path;
use std::process::Command;

use crate::outline::Outline;
use crate::scan::Source;

/// A Rust file, scanned.
#[derive(Debug)]
pub struct RustFile {
    /// Path from the repository root.
    pub path: String,
    /// Its code and its comments.
    pub source: Source,
    /// Its outline.
    pub outline: Outline,
}

impl RustFile {
    /// Scans a file's text.
    pub fn new(path: &str, text: &str) -> Self {
        let source = Source::new(text);
        let outline = Outline::new(&source);
        Self { path: path.to_owned(), source, outline }
    }

    /// The crate below `crates/` that it belongs to.
    pub fn crate_name(&self) -> Option<&str> {
        self.path.strip_prefix("crates/").and_then(|rest| rest.split('/').next())
    }

    /// Whether the whole file is tests: `tests.rs`, or anything below a folder `tests`.
    pub fn is_test(&self) -> bool {
        self.path.ends_with("/tests.rs") || self.has_folder("tests")
    }

    /// Whether a folder of its path has this name.
    pub fn has_folder(&self, name: &str) -> bool {
        let mut folders = self.path.split('/').rev();
        folders.next();
        folders.any(|folder| folder == name)
    }
}

/// The paths of all files that git tracks or would track, from the root, which still exist.
pub fn list(root: &Path) -> Result<Vec<String>, String> {
    // The owner of a clone in continuous integration is often another user.
    let output = Command::new("git")
        .args(["-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others"])
        .arg("--exclude-standard")
        .current_dir(root)
        .output()
        .map_err(|e| format!("cannot start `git ls-files`: {e}; install git"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("`git ls-files` failed; run this in a clone with its .git:\n{said}"));
    }
    let mut paths: Vec<String> = output
        .stdout
        .split(|byte| *byte == 0)
        .map(|path| String::from_utf8_lossy(path).into_owned())
        .filter(|path| !path.is_empty() && root.join(path).is_file())
        .collect();
    paths.sort();
    paths.dedup();
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places() {
        let file = |path| RustFile::new(path, "");
        assert_eq!(file("crates/port-linux/src/tap.rs").crate_name(), Some("port-linux"));
        assert_eq!(file("xtask/src/main.rs").crate_name(), None);
        assert!(file("crates/a/tests/b.rs").is_test());
        assert!(file("crates/a/src/b/tests.rs").is_test());
        assert!(file("crates/a/src/tests/c.rs").is_test());
        assert!(!file("crates/a/src/contests.rs").is_test());
        assert!(!file("crates/a/src/tests_of.rs").is_test());
        assert!(!file("build.rs").has_folder("build.rs"));
    }
}
