//! The rules that one file can break by itself: `unsafe`, banned calls, names, registry hosts.

use crate::files::RustFile;
use crate::floors::{Floors, Member};
use crate::problem::Problem;
use crate::scan::Source;

#[cfg(test)]
mod tests;

/// Calls that the crates below the program must not make, and what to do instead.
const BANNED: &[(&[&str], &str)] = &[
    (&["Instant", ":", ":", "now"], "take `now: base::Instant` as an argument"),
    (&["SystemTime", ":", ":", "now"], "take the time as an argument"),
    (&["println", "!"], "use `log`, or return what is to be printed"),
    (&["print", "!"], "use `log`, or return what is to be printed"),
    (&["eprintln", "!"], "use `log`, or return an error"),
    (&["eprint", "!"], "use `log`, or return an error"),
    (&["dbg", "!"], "remove it, or use `log`"),
    (&["process", ":", ":", "exit"], "return an error and let the program end"),
];

/// Names that do not describe a content.
const EMPTY_NAMES: &[&str] =
    &["util", "utils", "common", "manager", "managers", "helper", "helpers", "misc"];

/// Hosts of package registries, in pieces so that this file does not name them.
const REGISTRY_HOSTS: &[&[&str]] = &[
    &["crates", "io"],
    &["rust-lang", "org"],
    &["pypi", "org"],
    &["pythonhosted", "org"],
    &["npmjs", "org"],
    &["rubygems", "org"],
    &["proxy", "golang", "org"],
    &["deb", "debian", "org"],
];

/// Words that do not name the part of the program.
const VAGUE_WORDS: &[&str] = &["nobody", "somebody", "anybody", "whoever"];
/// Things that are counted per second.
const COUNTED: &[&str] = &[
    "connections",
    "packets",
    "frames",
    "bits",
    "bytes",
    "messages",
    "opens",
    "million",
    "transactions",
    "requests",
    "replies",
    "flows",
    "misses",
];
/// Ethernet types that `wire::ethertype` names, and how.
const ETHERTYPES: &[(&str, &str)] = &[
    ("0x0800", "IPV4"),
    ("0x0806", "ARP"),
    ("0x8035", "RARP"),
    ("0x8100", "VLAN"),
    ("0x86dd", "IPV6"),
    ("0x88a8", "SERVICE_VLAN"),
    ("0x8847", "MPLS"),
    ("0x8848", "MPLS_MULTICAST"),
    ("0x894f", "NSH"),
    ("0x88cc", "LLDP"),
    ("0x6558", "TRANSPARENT_ETHERNET"),
    ("0x88be", "ERSPAN_II"),
    ("0x22eb", "ERSPAN_III"),
];
/// Where the numbers may stand: the file that names them, and the crate that must not import it.
const NUMBERS_STAND_IN: &[&str] = &["crates/wire/src/numbers.rs", "crates/generator/"];

/// Checks every `unsafe` of a file: whether its crate may contain it, and whether it is justified.
pub fn check_unsafe(file: &RustFile, floors: &Floors) -> Vec<Problem> {
    let room = file.crate_name().and_then(|name| floors.rooms.get(name));
    let allowed = room.is_some_and(|room| room.may_be_unsafe);
    let mut problems = Vec::new();
    for site in &file.outline.unsafe_sites {
        let text = if !allowed {
            "`unsafe` stands outside the crates marked [unsafe] in ARCHITECTURE.md; use a safe \
             wrapper, or move it into one of those crates"
        } else if !is_explained(&file.source, site.line, site.contract) {
            "`unsafe` without a `// SAFETY:` comment directly above; say why it is needed and why \
             it is sound"
        } else {
            continue;
        };
        problems.push(Problem::new(&file.path, site.line, text));
    }
    problems
}

/// Whether a SAFETY comment is on the line, or directly above it or above the statement that it continues,
/// apart from attributes.
fn is_explained(source: &Source, line: usize, contract: bool) -> bool {
    let explains = |line: usize| {
        let comment = source.comment_at(line);
        comment.contains("SAFETY:") || (contract && comment.contains("# Safety"))
    };
    let mut at = line;
    loop {
        if explains(at) {
            return true;
        }
        at -= 1;
        if at == 0 {
            return false;
        }
        let code = source.code_at(at).trim();
        let is_comment = code.is_empty() && !source.comment_at(at).trim().is_empty();
        let is_attribute = code.starts_with("#[");
        let goes_on = !code.is_empty() && !code.ends_with([';', '{', '}', ',']);
        if !is_comment && !is_attribute && !goes_on {
            return false;
        }
    }
}

/// Checks that the root files of all other packages forbid `unsafe`.
pub fn check_forbids(files: &[RustFile], members: &[Member], floors: &Floors) -> Vec<Problem> {
    let mut problems = Vec::new();
    for member in members {
        if floors.rooms.get(&member.name).is_some_and(|room| room.may_be_unsafe) {
            continue;
        }
        for root in &member.roots {
            let forbids = files.iter().any(|f| f.path == *root && f.outline.forbids_unsafe);
            if !forbids {
                let text = "`#![forbid(unsafe_code)]` is missing; add it below the `//!` lines";
                problems.push(Problem::new(root, 1, text));
            }
        }
    }
    problems
}

/// Checks for calls that only the program may make.
pub fn check_calls(file: &RustFile, floors: &Floors) -> Vec<Problem> {
    let exempt = file.crate_name().is_some_and(|name| floors.is_program(name))
        || file.path.starts_with("xtask/")
        || file.path.ends_with("/build.rs")
        || file.is_test()
        || file.has_folder("benches")
        || file.has_folder("examples");
    if exempt {
        return Vec::new();
    }
    let tokens = file.source.tokens();
    let mut problems = Vec::new();
    for (call, instead) in BANNED {
        for window in tokens.windows(call.len()) {
            let found = window.iter().map(|t| t.text).eq(call.iter().copied());
            let line = window.first().map_or(1, |t| t.line);
            if found && !file.outline.is_test_line(line) {
                let text = format!("`{}` is for the program only; {instead}", call.concat());
                problems.push(Problem::new(&file.path, line, text));
            }
        }
    }
    problems
}

/// Checks for Ethernet types as numbers where a name exists. Tests may spell bytes out.
pub fn check_numbers(file: &RustFile) -> Vec<Problem> {
    let exempt = file.crate_name().is_none()
        || file.is_test()
        || file.has_folder("examples")
        || NUMBERS_STAND_IN.iter().any(|place| file.path.starts_with(place));
    if exempt {
        return Vec::new();
    }
    let tokens = file.source.tokens();
    let numbers = tokens.iter().filter(|token| !file.outline.is_test_line(token.line));
    let problem = |token: &crate::scan::Token<'_>| {
        let digits = token.text.trim_end_matches("_u16").trim_end_matches("u16");
        let (number, name) = ETHERTYPES.iter().find(|(number, _)| *number == digits)?;
        let text = format!("the number {number} has a name; write `wire::ethertype::{name}`");
        Some(Problem::new(&file.path, token.line, text))
    };
    numbers.filter_map(problem).collect()
}

/// Checks the folders and the file name of a path for names without content.
pub fn check_path(path: &str) -> Option<Problem> {
    let stems = path.split('/').map(|part| part.split('.').next().unwrap_or(part));
    empty_name(stems).map(|name| Problem::new(path, 1, empty_name_text(name)))
}

/// Checks the modules that a file declares for names without content.
pub fn check_modules(file: &RustFile) -> Vec<Problem> {
    let mut problems = Vec::new();
    for module in &file.outline.modules {
        if let Some(name) = empty_name([module.name.as_str()]) {
            problems.push(Problem::new(&file.path, module.line, empty_name_text(name)));
        }
    }
    problems
}

fn empty_name<'a, I: IntoIterator<Item = &'a str>>(names: I) -> Option<&'a str> {
    names.into_iter().find(|name| name.split(['_', '-']).any(|word| EMPTY_NAMES.contains(&word)))
}

fn empty_name_text(name: &str) -> String {
    format!("the name `{name}` does not say what is inside; use a noun for what it holds")
}

/// Checks that a text names no package registry. Lock files, which cargo writes, may.
pub fn check_hosts(path: &str, text: &str) -> Vec<Problem> {
    if path == "Cargo.lock" || path.ends_with("/Cargo.lock") {
        return Vec::new();
    }
    let mut problems = Vec::new();
    for host in REGISTRY_HOSTS.iter().map(|pieces| pieces.join(".")) {
        for (number, line) in text.lines().enumerate() {
            if line.contains(&host) {
                let text = format!("names the package registry {host}; leave the host out");
                problems.push(Problem::new(path, number + 1, text));
            }
        }
    }
    problems
}

/// Checks a text for words that do not name a part of the program, and for rates that are not "per second".
/// Words in quotation marks, and user names, are permitted.
pub fn check_words(path: &str, text: &str) -> Vec<Problem> {
    if path.ends_with("Cargo.lock") {
        return Vec::new();
    }
    let mut problems = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let lower = line.to_ascii_lowercase();
        if let Some(word) = VAGUE_WORDS.iter().find(|word| has_word(&lower, word)) {
            let text =
                format!("\"{word}\" leaves open who; name the thread, the caller or the reader");
            problems.push(Problem::new(path, number + 1, text));
        }
        if COUNTED.iter().any(|counted| has_word(&lower, &format!("{counted} a second"))) {
            problems.push(Problem::new(path, number + 1, "say \"per second\", not \"a second\""));
        }
    }
    problems
}

/// Whether a line contains these words in a row, unquoted.
fn has_word(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + word.len()..].chars().next();
        let is_part = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
        let is_name = before == Some('=') || before == Some('"') && after == Some('"');
        !is_part(before) && !is_part(after) && !is_name
    })
}
