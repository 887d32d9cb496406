//! `cargo xtask licences`: checks the licence of every package that this platform's build uses
//! against the list in deny.toml, and that all come from one registry, without the network.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, fs};

use serde::Deserialize;

use crate::metadata::{Metadata, Package};
use crate::problem::Problem;
use crate::spdx::Allowed;

/// The list of allowed licences, which cargo-deny reads too.
const DENY: &str = "deny.toml";

#[derive(Deserialize)]
struct Deny {
    licenses: Licenses,
}

#[derive(Deserialize)]
struct Licenses {
    allow: Vec<String>,
}

/// Checks licences and, if possible, advisories. Returns whether there is no problem.
pub fn run() -> Result<bool, String> {
    let platform = Metadata::host_platform()?;
    let metadata = Metadata::load(&["--filter-platform", &platform])?;
    let text = fs::read_to_string(metadata.workspace_root.join(DENY))
        .map_err(|e| format!("cannot read {DENY}: {e}"))?;
    let allowed = parse_allowed(&text)?;
    let packages = used_packages(&metadata);
    let mut problems = check(&packages, &allowed);
    problems.extend(check_sources(&packages));
    for problem in &problems {
        println!("{problem}");
    }
    println!("licences: {} packages, {} problems", packages.len(), problems.len());
    let advisories = check_advisories(&metadata.workspace_root)?;
    Ok(problems.is_empty() && advisories)
}

fn parse_allowed(text: &str) -> Result<Allowed, String> {
    let deny: Deny = toml::from_str(text).map_err(|e| format!("{DENY}: {e}"))?;
    Ok(Allowed::new(deny.licenses.allow))
}

/// The packages of the graph; cargo may list others that this platform does not use.
fn used_packages(metadata: &Metadata) -> Vec<&Package> {
    let nodes = metadata.resolve.iter().flat_map(|resolve| &resolve.nodes);
    let used: BTreeSet<&str> = nodes.map(|node| node.id.as_str()).collect();
    metadata.packages.iter().filter(|p| used.contains(p.id.as_str())).collect()
}

fn check(packages: &[&Package], allowed: &Allowed) -> Vec<Problem> {
    let mut problems = Vec::new();
    for package in packages {
        let name = format!("{} {}", package.name, package.version);
        let text = match package.license.as_deref().map(|text| (text, allowed.satisfies(text))) {
            Some((_, Ok(true))) => continue,
            Some((text, Ok(false))) => format!(
                "`{name}` is licensed `{text}`, which the list does not allow; use another \
                 package, or add the licence after reading it"
            ),
            Some((text, Err(error))) => {
                format!("`{name}` has a licence `{text}` that cannot be read: {error}")
            }
            None => format!("`{name}` states no licence; use another package"),
        };
        problems.push(Problem::new(DENY, 1, text));
    }
    problems
}

/// Checks that all packages come from one registry, as deny.toml demands: the contents of a repository
/// elsewhere may change or disappear.
fn check_sources(packages: &[&Package]) -> Vec<Problem> {
    let source = |package: &Package| package.source.clone();
    let registry = packages.iter().find_map(|p| source(p).filter(|s| s.starts_with("registry+")));
    let mut problems = Vec::new();
    for package in packages {
        let Some(source) = source(package).filter(|source| Some(source) != registry.as_ref())
        else {
            continue;
        };
        let name = format!("{} {}", package.name, package.version);
        let text = format!(
            "`{name}` comes from `{source}`, and not from the registry of the others; use a \
             released version"
        );
        problems.push(Problem::new(DENY, 1, text));
    }
    problems
}

/// Runs the advisory check of cargo-deny, if it and its database are installed.
fn check_advisories(root: &Path) -> Result<bool, String> {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let installed = Command::new(&cargo)
        .args(["deny", "--version"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success());
    if !installed {
        println!("SKIPPED: advisory check: cargo-deny is not installed");
        return Ok(true);
    }
    if !advisory_databases().iter().any(|path| path.is_dir()) {
        println!("SKIPPED: advisory check: cargo-deny's database is not here (cargo deny fetch)");
        return Ok(true);
    }
    let status = Command::new(&cargo)
        .args(["deny", "--offline", "check", "advisories"])
        .current_dir(root)
        .status()
        .map_err(|e| format!("cannot start `cargo deny`: {e}"))?;
    Ok(status.success())
}

/// The places of the database of cargo-deny, by version.
fn advisory_databases() -> Vec<PathBuf> {
    let home = env::var_os("CARGO_HOME")
        .map(PathBuf::from)
        .or_else(|| env::var_os("HOME").map(|home| PathBuf::from(home).join(".cargo")));
    home.into_iter().flat_map(|h| ["advisory-dbs", "advisory-db"].map(|n| h.join(n))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const METADATA: &str = r#"{"workspace_root": "/r",
        "resolve": {"nodes": [{"id": "a"}, {"id": "b"}, {"id": "c"}, {"id": "d"}]},
        "packages": [
            {"name": "a", "version": "1.0.0", "id": "a", "license": "MIT OR GPL-2.0",
             "manifest_path": "/r/a/Cargo.toml", "dependencies": [], "targets": []},
            {"name": "b", "version": "2.0.0", "id": "b", "license": "GPL-3.0-only",
             "manifest_path": "/r/b/Cargo.toml", "dependencies": [], "targets": []},
            {"name": "c", "version": "3.0.0", "id": "c", "license": null,
             "manifest_path": "/r/c/Cargo.toml", "dependencies": [], "targets": []},
            {"name": "d", "version": "4.0.0", "id": "d", "license": "MIT AND",
             "manifest_path": "/r/d/Cargo.toml", "dependencies": [], "targets": []},
            {"name": "other-platform", "version": "1.0.0", "id": "o", "license": null,
             "manifest_path": "/r/o/Cargo.toml", "dependencies": [], "targets": []}
        ]}"#;

    #[test]
    fn packages_are_judged_by_the_list() {
        let metadata = Metadata::parse(METADATA.as_bytes()).unwrap();
        let allowed = parse_allowed("[licenses]\nallow = [\"MIT\"]\n").unwrap();
        let packages = used_packages(&metadata);
        assert_eq!(packages.len(), 4);
        let texts: Vec<_> = check(&packages, &allowed).into_iter().map(|p| p.text).collect();
        let expect = [
            "`b 2.0.0` is licensed `GPL-3.0-only`",
            "`c 3.0.0` states no licence",
            "`d 4.0.0` has a licence `MIT AND` that cannot be read",
        ];
        assert_eq!(texts.len(), expect.len(), "{texts:?}");
        for (text, start) in texts.iter().zip(expect) {
            assert!(text.starts_with(start), "{text:?} does not begin with {start:?}");
        }
    }

    #[test]
    fn packages_come_from_one_registry() {
        let with = |source: &str| {
            METADATA.replace(r#""id": "b","#, &format!(r#""id": "b", "source": "{source}","#))
        };
        let other = r#""id": "c", "source": "registry+https://a.example/index","#;
        let cases = [
            (METADATA.to_owned(), 0),
            (with("registry+https://a.example/index"), 0),
            (with("git+https://a.example/b#123"), 1),
            (with("sparse+https://a.example/b/"), 1),
            (with("registry+https://b.example/index").replace(r#""id": "c","#, other), 1),
        ];
        for (text, problems) in cases {
            let metadata = Metadata::parse(text.as_bytes()).unwrap();
            let found = check_sources(&used_packages(&metadata));
            assert_eq!(found.len(), problems, "{text}");
        }
    }

    #[test]
    fn the_repository_has_a_list() {
        let text = include_str!("../../deny.toml");
        let allowed = parse_allowed(text).unwrap();
        assert_eq!(allowed.satisfies("MIT OR Apache-2.0"), Ok(true));
        assert_eq!(allowed.satisfies("GPL-2.0-only"), Ok(false));
        assert!(parse_allowed("[bans]\n").is_err());
    }
}
