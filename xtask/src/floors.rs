//! The table of crates in ARCHITECTURE.md, and the rules about which crate may import which.

use std::collections::{BTreeMap, BTreeSet};

use crate::metadata::Metadata;
use crate::problem::Problem;

#[cfg(test)]
mod tests;

/// The page that holds the table.
pub const PAGE: &str = "ARCHITECTURE.md";
const OPEN: &str = "<!-- crates -->";
const CLOSE: &str = "<!-- /crates -->";

/// Crates that must not be reached from a crate, whatever their floors are.
const FORBIDDEN: &[(&str, &[&str])] = &[
    (
        "datapath",
        &["openflow", "ofproto", "tokio", "port-linux", "port-afxdp", "port-dpdk", "port-vhost"],
    ),
    ("ofproto", &["datapath"]),
    ("conntrack", &["port", "openflow"]),
    ("generator", &["wire", "flow", "conntrack", "datapath"]),
];

/// Only crates marked `[program]` may use these packages, and those whose names go on with `-` or `_`.
const PROGRAM_ONLY: &[&str] = &["tokio", "rustls", "clap"];

/// One row of the table.
#[derive(Debug, PartialEq, Eq)]
pub struct Room {
    /// The floor: imports go only to lower numbers.
    pub floor: u32,
    /// Whether the row says `[unsafe]`.
    pub may_be_unsafe: bool,
    /// Whether the row says `[program]`: it may read a clock, print and end the process.
    pub is_program: bool,
    /// The row's line on the page.
    pub line: usize,
}

/// The crates and their floors.
#[derive(Debug, Default)]
pub struct Floors {
    /// By crate name.
    pub rooms: BTreeMap<String, Room>,
}

/// A crate below `crates/`, or another package of the workspace.
#[derive(Debug, Default)]
pub struct Member {
    /// Its name.
    pub name: String,
    /// Its Cargo.toml from the repository root.
    pub manifest_path: String,
    /// The text of its Cargo.toml.
    pub manifest: String,
    /// Its dependencies: the name, and whether only tests use it.
    pub dependencies: Vec<(String, bool)>,
    /// The root files of its library and programs, from the repository root.
    pub roots: Vec<String>,
}

impl Member {
    /// The workspace's packages.
    pub fn all(metadata: &Metadata) -> Result<Vec<Self>, String> {
        let mut members = Vec::new();
        for package in &metadata.packages {
            let manifest_path = metadata.relative(&package.manifest_path);
            let manifest = std::fs::read_to_string(&package.manifest_path)
                .map_err(|e| format!("cannot read {manifest_path}: {e}"))?;
            let is_root =
                |kind: &String| matches!(kind.as_str(), "lib" | "bin" | "proc-macro" | "cdylib");
            members.push(Self {
                name: package.name.clone(),
                manifest_path,
                manifest,
                dependencies: package
                    .dependencies
                    .iter()
                    .map(|d| (d.name.clone(), d.kind.as_deref() == Some("dev")))
                    .collect(),
                roots: package
                    .targets
                    .iter()
                    .filter(|t| t.kind.iter().any(is_root))
                    .map(|t| metadata.relative(&t.src_path))
                    .collect(),
            });
        }
        members.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(members)
    }

    /// Whether it lies below `crates/`.
    pub fn is_crate(&self) -> bool {
        self.manifest_path.starts_with("crates/")
    }

    /// The line of its Cargo.toml that names a dependency, 1 when none does.
    fn line_of(&self, dependency: &str) -> usize {
        let names = |line: &str| {
            line.trim_start()
                .strip_prefix(dependency)
                .is_some_and(|rest| rest.starts_with(['.', ' ', '=']))
        };
        self.manifest.lines().position(names).map_or(1, |at| at + 1)
    }

    fn problem(&self, dependency: &str, text: String) -> Problem {
        Problem::new(&self.manifest_path, self.line_of(dependency), text)
    }
}

impl Floors {
    /// Reads the table between the markers of ARCHITECTURE.md.
    pub fn parse(page: &str) -> (Self, Vec<Problem>) {
        let mut floors = Self::default();
        let mut problems = Vec::new();
        let mut inside = false;
        let mut closed = false;
        for (number, line) in page.lines().enumerate() {
            let line_number = number + 1;
            match line.trim() {
                OPEN => inside = true,
                CLOSE if inside => {
                    inside = false;
                    closed = true;
                }
                row if inside && row.starts_with('|') => {
                    if let Err(text) = floors.row(row, line_number) {
                        problems.push(Problem::new(PAGE, line_number, text));
                    }
                }
                _ => {}
            }
        }
        if !closed {
            let text = format!(
                "the table of crates is missing; put it between `{OPEN}` and `{CLOSE}`, with rows \
                 `| floor | crate | what it is for |`"
            );
            problems.push(Problem::new(PAGE, 1, text));
        }
        (floors, problems)
    }

    fn row(&mut self, row: &str, line: usize) -> Result<(), String> {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let [floor, name, purpose @ ..] = cells.as_slice() else {
            return Err("a row needs `| floor | crate | what it is for |`".to_owned());
        };
        if *floor == "floor" || floor.chars().all(|c| matches!(c, '-' | ':')) {
            return Ok(());
        }
        let floor = floor.parse().map_err(|_| {
            format!("the floor `{floor}` is not a number; write a number from 0 up")
        })?;
        let name = name.trim_matches('`').to_owned();
        let purpose = purpose.join("|");
        if purpose.replace("[unsafe]", "").replace("[program]", "").trim().is_empty() {
            return Err(format!("`{name}` has no purpose; say in the third column what it is for"));
        }
        let room = Room {
            floor,
            may_be_unsafe: purpose.contains("[unsafe]"),
            is_program: purpose.contains("[program]"),
            line,
        };
        match self.rooms.insert(name.clone(), room) {
            None => Ok(()),
            Some(earlier) => Err(format!(
                "`{name}` already stands in line {}; remove one of the rows",
                earlier.line
            )),
        }
    }

    /// Checks the table against the crates, and their dependencies against the table.
    pub fn check(&self, members: &[Member]) -> Vec<Problem> {
        let mut problems = self.check_list(members);
        for member in members {
            problems.extend(self.check_floors(member));
            problems.extend(self.check_names(member, members));
        }
        problems.extend(check_cycles(members));
        problems
    }

    fn check_list(&self, members: &[Member]) -> Vec<Problem> {
        let mut problems = Vec::new();
        for member in members.iter().filter(|m| m.is_crate()) {
            if !self.rooms.contains_key(&member.name) {
                let text = format!("{PAGE} does not list `{}`; add a row for it", member.name);
                problems.push(Problem::new(&member.manifest_path, 1, text));
            }
        }
        let exists = |name: &str| members.iter().any(|m| m.is_crate() && m.name == name);
        for (name, room) in self.rooms.iter().filter(|(name, _)| !exists(name)) {
            let text = format!("there is no crate `{name}` below crates/; remove its row");
            problems.push(Problem::new(PAGE, room.line, text));
        }
        problems
    }

    /// Whether a crate is marked `[program]`.
    pub fn is_program(&self, name: &str) -> bool {
        self.rooms.get(name).is_some_and(|room| room.is_program)
    }

    fn check_floors(&self, member: &Member) -> Vec<Problem> {
        let Some(own) = self.rooms.get(&member.name) else { return Vec::new() };
        let mut problems = Vec::new();
        for (name, only_tests) in &member.dependencies {
            let Some(room) = self.rooms.get(name) else { continue };
            let allowed = room.floor < own.floor || (*only_tests && room.floor == own.floor);
            if !allowed {
                let text = format!(
                    "`{}` (floor {}) imports `{name}` (floor {}), but imports only go down; move \
                     what both need to a lower floor",
                    member.name, own.floor, room.floor
                );
                problems.push(member.problem(name, text));
            }
        }
        problems
    }

    /// The rules that name crates.
    fn check_names(&self, member: &Member, members: &[Member]) -> Vec<Problem> {
        let mut problems = Vec::new();
        let forbidden = FORBIDDEN.iter().find(|(name, _)| *name == member.name);
        for target in forbidden.into_iter().flat_map(|(_, targets)| *targets) {
            if let Some(path) = route(&member.name, target, members) {
                let text = format!(
                    "`{}` must not depend on `{target}`, also not through others ({}); remove the \
                     dependency",
                    member.name,
                    path.join(" -> ")
                );
                problems.push(member.problem(path.get(1).map_or(target, String::as_str), text));
            }
        }
        if self.is_program(&member.name) {
            return problems;
        }
        for (name, _) in &member.dependencies {
            if PROGRAM_ONLY.iter().any(|package| is_of_family(name, package)) {
                let text = format!(
                    "only crates marked [program] may depend on `{name}`; take what you need as an \
                     argument or a trait"
                );
                problems.push(member.problem(name, text));
            }
        }
        problems
    }
}

fn is_of_family(name: &str, package: &str) -> bool {
    name.strip_prefix(package).is_some_and(|rest| rest.is_empty() || rest.starts_with(['-', '_']))
}

/// Returns a dependency path from `from` to `target` in the workspace, through dependencies that are not
/// for tests alone, or as a direct dependency of the tests of `from`.
fn route(from: &str, target: &str, members: &[Member]) -> Option<Vec<String>> {
    let mut seen = BTreeSet::from([from.to_owned()]);
    let mut paths = vec![vec![from.to_owned()]];
    while let Some(path) = paths.pop() {
        let last = path.last()?;
        let Some(member) = members.iter().find(|m| m.name == *last) else { continue };
        for (name, only_tests) in &member.dependencies {
            if *only_tests && path.len() > 1 {
                continue;
            }
            let longer = [path.as_slice(), std::slice::from_ref(name)].concat();
            if name == target {
                return Some(longer);
            }
            if !*only_tests && seen.insert(name.clone()) {
                paths.push(longer);
            }
        }
    }
    None
}

/// Finds dependency cycles. Only dependencies of tests can form one, since cargo refuses the others.
fn check_cycles(members: &[Member]) -> Vec<Problem> {
    let mut open: BTreeMap<&str, BTreeSet<&str>> = members
        .iter()
        .map(|m| {
            let names = m.dependencies.iter().map(|(name, _)| name.as_str());
            (m.name.as_str(), names.filter(|n| members.iter().any(|m| m.name == *n)).collect())
        })
        .collect();
    // Repeatedly remove packages without remaining dependencies; a cycle is what remains.
    loop {
        let done: Vec<&str> =
            open.iter().filter(|(_, names)| names.is_empty()).map(|(name, _)| *name).collect();
        if done.is_empty() {
            break;
        }
        for name in &done {
            open.remove(name);
        }
        for names in open.values_mut() {
            names.retain(|name| !done.contains(name));
        }
    }
    let mut problems = Vec::new();
    for (name, names) in &open {
        let Some(member) = members.iter().find(|m| m.name == *name) else { continue };
        let list = names.iter().copied().collect::<Vec<_>>().join(", ");
        let text = format!(
            "`{name}` is part of, or depends on, a cycle through {list}; move the tests that need \
             it to a higher floor"
        );
        problems.push(member.problem(names.first().copied().unwrap_or(name), text));
    }
    problems
}
