//! Import cycles between the modules of a crate, of which there are none.
//!
//! A crate's modules are those that its root declares, each with all that lies below it. Names that the root
//! exports again count as their module's. What the root defines itself has no place in this order.

use std::collections::{BTreeMap, BTreeSet};

use crate::files::RustFile;
use crate::problem::Problem;
use crate::scan::Token;

#[cfg(test)]
mod tests;

/// The cycles of all crates.
#[derive(Debug, Default)]
pub struct Cycles {
    crates: BTreeMap<String, Imports>,
}

/// Which module of a crate imports which, and where it does so first.
#[derive(Debug, Default)]
struct Imports {
    modules: BTreeMap<String, BTreeMap<String, (String, usize)>>,
}

impl Cycles {
    /// Reads the imports of all crates.
    pub fn find(files: &[RustFile]) -> Self {
        let mut all = Self::default();
        let roots: BTreeMap<&str, Root> = files.iter().filter_map(Root::new).collect();
        for file in files.iter().filter(|file| !file.is_test()) {
            let (Some(name), Some(place)) = (file.crate_name(), Place::of(file)) else { continue };
            let Some(root) = roots.get(name) else { continue };
            let imports = all.crates.entry(name.to_owned()).or_default();
            let entry = imports.modules.entry(place.module.to_owned()).or_default();
            for (line, path) in paths(file) {
                let Some(first) = place.below_root(&path) else { continue };
                let Some(module) = root.module_of(first) else { continue };
                if module != place.module {
                    entry.entry(module.to_owned()).or_insert((file.path.clone(), line));
                }
            }
        }
        all
    }

    /// A problem for each module that lies on a cycle.
    pub fn check(&self) -> Vec<Problem> {
        self.crates.values().flat_map(Imports::problems).collect()
    }
}

impl Imports {
    fn problems(&self) -> Vec<Problem> {
        self.modules.keys().filter_map(|module| self.problem(module)).collect()
    }

    /// The shortest cycle through a module, from what it imports to itself.
    fn way_back(&self, module: &str) -> Option<Vec<&str>> {
        let mut seen = BTreeSet::new();
        let mut ways = vec![vec![self.modules.get_key_value(module)?.0.as_str()]];
        while !ways.is_empty() {
            let mut longer = Vec::new();
            for way in ways {
                let imported = way.last().and_then(|last| self.modules.get(*last));
                for next in imported.into_iter().flat_map(BTreeMap::keys) {
                    let mut way = way.clone();
                    way.push(next);
                    if next == module {
                        way.remove(0);
                        return Some(way);
                    }
                    if seen.insert(next.as_str()) {
                        longer.push(way);
                    }
                }
            }
            ways = longer;
        }
        None
    }

    fn problem(&self, module: &str) -> Option<Problem> {
        let way = self.way_back(module)?;
        let (path, line) = self.modules.get(module)?.get(*way.first()?)?;
        let text = format!(
            "the module `{module}` lies on an import cycle: {module} -> {}; move what both need into \
             a module below them",
            way.join(" -> ")
        );
        Some(Problem::new(path, *line, text))
    }
}

/// What the root file of a crate declares.
struct Root {
    modules: BTreeSet<String>,
    /// The modules of the names that it exports again.
    exported: BTreeMap<String, String>,
}

impl Root {
    fn new(file: &RustFile) -> Option<(&str, Self)> {
        let name = file.crate_name()?;
        let inside = file.path.strip_prefix("crates/")?.strip_prefix(name)?;
        if !matches!(inside, "/src/lib.rs" | "/src/main.rs") {
            return None;
        }
        let modules: BTreeSet<String> =
            file.outline.modules.iter().map(|module| module.name.clone()).collect();
        let mut exported = BTreeMap::new();
        let tokens = file.source.tokens();
        for at in (0..tokens.len()).filter(|at| tokens[*at].text == "use") {
            let mut found = Vec::new();
            tree(&tokens, at + 1, &[], &mut found);
            for path in found {
                let first = path.iter().find(|part| !matches!(**part, "crate" | "self"));
                if let (Some(first), Some(last)) = (first, path.last())
                    && modules.contains(*first)
                {
                    exported.insert((*last).to_owned(), (*first).to_owned());
                }
            }
        }
        Some((name, Self { modules, exported }))
    }

    fn module_of(&self, name: &str) -> Option<&str> {
        self.modules.get(name).or_else(|| self.exported.get(name)).map(String::as_str)
    }
}

/// Where a file lies in its crate.
struct Place<'a> {
    /// The module that the root declares.
    module: &'a str,
    /// How many modules deep it lies.
    depth: usize,
}

impl<'a> Place<'a> {
    fn of(file: &'a RustFile) -> Option<Self> {
        let inside = file.path.split_once("/src/")?.1;
        let inside = inside.strip_suffix("/mod.rs").or_else(|| inside.strip_suffix(".rs"))?;
        let mut parts = inside.split('/');
        let module = parts.next()?;
        let is_root = inside == "lib" || inside == "main" || module == "bin";
        (!is_root).then(|| Self { module, depth: 1 + parts.count() })
    }

    /// The first name of a path behind the crate's root; `None` where the path stays in the module.
    fn below_root<'b>(&self, path: &[&'b str]) -> Option<&'b str> {
        if path.first() == Some(&"crate") {
            return path.get(1).copied();
        }
        let ups = path.iter().take_while(|part| **part == "super").count();
        (ups == self.depth).then(|| path.get(ups).copied()).flatten()
    }
}

/// The paths of a file that begin with `crate` or `super`, outside tests, each with its line.
fn paths(file: &RustFile) -> Vec<(usize, Vec<&str>)> {
    let tokens = file.source.tokens();
    let mut all = Vec::new();
    for at in 0..tokens.len() {
        let begins = matches!(tokens[at].text, "crate" | "super") && is_joined(&tokens, at + 1);
        let before = at.checked_sub(1).map_or("", |before| tokens[before].text);
        // Within a longer path, or the place of `pub(in crate::place)`.
        if !begins || matches!(before, ":" | "in") || file.outline.is_test_line(tokens[at].line) {
            continue;
        }
        let mut found = Vec::new();
        tree(&tokens, at, &[], &mut found);
        all.extend(found.into_iter().map(|path| (tokens[at].line, path)));
    }
    all
}

/// Whether `::` stands at `at`.
fn is_joined(tokens: &[Token<'_>], at: usize) -> bool {
    tokens.get(at..at + 2).is_some_and(|two| two.iter().all(|token| token.text == ":"))
}

/// Adds the paths of a tree, `a::{b, c::d}`, that begins at `at`. Returns where it ends.
fn tree<'a>(
    tokens: &[Token<'a>],
    mut at: usize,
    before: &[&'a str],
    found: &mut Vec<Vec<&'a str>>,
) -> usize {
    let mut path = before.to_vec();
    while let Some(token) = tokens.get(at) {
        if token.text == "{" {
            at += 1;
            while tokens.get(at).is_some_and(|token| token.text != "}") {
                let end = tree(tokens, at, &path, found);
                // A comma, or what is no tree.
                let is_end = tokens.get(end).is_some_and(|token| token.text == "}");
                at = if is_end { end } else { end.max(at) + 1 };
            }
            return at + 1;
        }
        if !token.text.starts_with(|c: char| c.is_alphabetic() || c == '_') {
            break;
        }
        path.push(token.text);
        at += 1;
        if !is_joined(tokens, at) {
            break;
        }
        at += 2;
    }
    found.push(path);
    // `as NAME`.
    while tokens.get(at).is_some_and(|token| !matches!(token.text, "," | "}" | ";")) {
        if tokens[at].text != "as" {
            break;
        }
        at += 2;
    }
    at
}
