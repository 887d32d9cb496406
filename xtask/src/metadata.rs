//! The part of the output of `cargo metadata` that the checks use.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize;

/// The output of `cargo metadata`.
#[derive(Debug, Deserialize)]
pub struct Metadata {
    /// The workspace's packages, and with `resolve` also their dependencies.
    pub packages: Vec<Package>,
    /// The dependency graph; absent with `--no-deps`.
    pub resolve: Option<Resolve>,
    /// The repository root.
    pub workspace_root: PathBuf,
}

/// A package.
#[derive(Debug, Deserialize)]
pub struct Package {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Cargo's id of it.
    pub id: String,
    /// Its SPDX licence expression.
    pub license: Option<String>,
    /// Its source; absent for the workspace's own packages.
    pub source: Option<String>,
    /// Its Cargo.toml.
    pub manifest_path: PathBuf,
    /// The dependencies in its Cargo.toml.
    pub dependencies: Vec<Dependency>,
    /// Its targets.
    pub targets: Vec<Target>,
}

/// One dependency as a Cargo.toml states it.
#[derive(Debug, Deserialize)]
pub struct Dependency {
    /// The package's name.
    pub name: String,
    /// `None` for an ordinary dependency, else `dev` or `build`.
    pub kind: Option<String>,
}

/// A library, program, test, ... of a package.
#[derive(Debug, Deserialize)]
pub struct Target {
    /// `lib`, `bin`, `test`, ...
    pub kind: Vec<String>,
    /// Its root file.
    pub src_path: PathBuf,
}

/// The graph of packages for one platform.
#[derive(Debug, Deserialize)]
pub struct Resolve {
    /// One node per package.
    pub nodes: Vec<Node>,
}

/// A package in the graph.
#[derive(Debug, Deserialize)]
pub struct Node {
    /// Cargo's id of it.
    pub id: String,
}

impl Metadata {
    /// Runs cargo without the network. `args` are appended to the command.
    pub fn load(args: &[&str]) -> Result<Self, String> {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let output = Command::new(cargo)
            .args(["metadata", "--offline", "--locked", "--format-version", "1"])
            .args(args)
            .output()
            .map_err(|e| format!("cannot start `cargo metadata`: {e}"))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(format!(
                "`cargo metadata --offline --locked` failed; if packages are missing, run \
                 `cargo fetch --locked` first:\n{said}"
            ));
        }
        Self::parse(&output.stdout)
    }

    /// Reads the JSON that cargo prints.
    pub fn parse(json: &[u8]) -> Result<Self, String> {
        serde_json::from_slice(json).map_err(|e| format!("cannot read `cargo metadata`: {e}"))
    }

    /// A path for messages: relative to the repository root.
    pub fn relative(&self, path: &Path) -> String {
        path.strip_prefix(&self.workspace_root).unwrap_or(path).display().to_string()
    }

    /// The platform that rustc builds for by default, as `x86_64-unknown-linux-gnu`.
    pub fn host_platform() -> Result<String, String> {
        let output = Command::new("rustc")
            .arg("-vV")
            .output()
            .map_err(|e| format!("cannot start `rustc -vV`: {e}"))?;
        let said = String::from_utf8_lossy(&output.stdout);
        said.lines()
            .find_map(|line| line.strip_prefix("host: "))
            .map(str::to_owned)
            .ok_or_else(|| "`rustc -vV` names no host".to_owned())
    }
}
