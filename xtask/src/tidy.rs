//! `cargo xtask tidy`: runs all rules over the repository.

use std::fs;
use std::path::Path;

use crate::cycles::Cycles;
use crate::files::{self, RustFile};
use crate::floors::{Floors, Member, PAGE};
use crate::metadata::Metadata;
use crate::modules;
use crate::problem::Problem;
use crate::settings;
use crate::sizes::{RATCHET, Ratchet, Sizes};
use crate::style;

/// How to update the ratchet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Update {
    /// Nothing.
    None,
    /// Lower and remove exceptions.
    Lower,
    /// Record the present sizes, including larger ones.
    Accept,
}

/// Checks the repository and prints every problem. Returns whether there was none.
pub fn run(update: Update) -> Result<bool, String> {
    let metadata = Metadata::load(&["--no-deps"])?;
    let root = metadata.workspace_root.clone();
    let members = Member::all(&metadata)?;
    let paths = files::list(&root)?;
    let mut problems: Vec<Problem> = paths.iter().filter_map(|p| style::check_path(p)).collect();
    let (rust_files, found) = read_all(&root, &paths)?;
    problems.extend(found);
    problems.extend(check_architecture(&root, &members, &rust_files));
    problems.extend(settings::check(&rust_files));
    problems.extend(modules::check(&rust_files));
    problems.extend(Cycles::find(&rust_files).check());
    problems.extend(rust_files.iter().flat_map(style::check_numbers));

    let sizes = Sizes::measure(&rust_files);
    let ratchet = load_ratchet(&root, &sizes, update)?;
    let found = sizes.check(&ratchet);
    problems.extend(found.problems);
    for note in &found.notes {
        println!("note: {note}");
    }
    problems.sort();
    problems.dedup();
    for problem in &problems {
        println!("{problem}");
    }
    if problems.is_empty() {
        println!("tidy: {} files are in order", paths.len());
    } else {
        println!("tidy: {} problems in {} files", problems.len(), paths.len());
    }
    Ok(problems.is_empty())
}

/// Reads every text file, applies the rules for any text, and scans the Rust files.
fn read_all(root: &Path, paths: &[String]) -> Result<(Vec<RustFile>, Vec<Problem>), String> {
    let mut rust_files = Vec::new();
    let mut problems = Vec::new();
    for path in paths {
        let bytes = fs::read(root.join(path)).map_err(|e| format!("cannot read {path}: {e}"))?;
        let Ok(text) = String::from_utf8(bytes) else {
            if path.ends_with(".rs") {
                problems.push(Problem::new(path, 1, "is not UTF-8; convert it"));
            }
            continue;
        };
        problems.extend(style::check_hosts(path, &text));
        problems.extend(style::check_words(path, &text));
        if path.ends_with(".rs") {
            rust_files.push(RustFile::new(path, &text));
        }
    }
    Ok((rust_files, problems))
}

/// The rules that need the table of crates.
fn check_architecture(root: &Path, members: &[Member], rust_files: &[RustFile]) -> Vec<Problem> {
    let page = fs::read_to_string(root.join(PAGE)).unwrap_or_default();
    let (floors, mut problems) = Floors::parse(&page);
    problems.extend(floors.check(members));
    problems.extend(style::check_forbids(rust_files, members, &floors));
    for file in rust_files {
        problems.extend(style::check_unsafe(file, &floors));
        problems.extend(style::check_calls(file, &floors));
        problems.extend(style::check_modules(file));
    }
    problems
}

/// Reads the ratchet (a missing file is an empty one), and rewrites it if requested.
fn load_ratchet(root: &Path, sizes: &Sizes, update: Update) -> Result<Ratchet, String> {
    let path = root.join(RATCHET);
    let text = if path.exists() {
        fs::read_to_string(&path).map_err(|e| format!("cannot read {RATCHET}: {e}"))?
    } else {
        String::new()
    };
    let ratchet = Ratchet::parse(&text)?;
    if update == Update::None {
        return Ok(ratchet);
    }
    let updated = sizes.updated(&ratchet, update == Update::Accept);
    fs::write(&path, updated.to_toml()).map_err(|e| format!("cannot write {RATCHET}: {e}"))?;
    Ok(updated)
}
