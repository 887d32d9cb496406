//! Finds settings that are parsed and never read: a field of the configuration or of the command line
//! that no code reads has no effect, and no test would show it.

use crate::files::RustFile;
use crate::problem::Problem;
use std::collections::BTreeSet;

/// Where settings are declared, as public fields.
const DECLARED: [&str; 6] = [
    "crates/control/src/desired.rs",
    "crates/control/src/dpdk.rs",
    "crates/control/src/options.rs",
    "crates/control/src/port.rs",
    "crates/control/src/queues.rs",
    "crates/switch/src/command_line/options.rs",
];

/// The files that parse settings. Being named there does not count as being read.
const PARSED: [&str; 3] =
    ["crates/control/src/file", "crates/control/src/rows", "crates/switch/src/command_line/"];

/// Reports the settings that no file reads as `.NAME`.
pub fn check(files: &[RustFile]) -> Vec<Problem> {
    let read: BTreeSet<&str> = files.iter().flat_map(fields_read).collect();
    let declared = files.iter().filter(|file| DECLARED.contains(&file.path.as_str()));
    let fields = declared.flat_map(|file| fields_declared(file).map(move |field| (file, field)));
    let unread = fields.filter(|(_, (name, _))| !read.contains(name));
    let problem = |(file, (name, line)): (&RustFile, (&str, usize))| {
        let words = format!(
            "the setting {name} is parsed and never read; give it an effect, or remove it and say \
             in crates/control/src/compatibility/ that it is ignored"
        );
        Problem::new(&file.path, line, words)
    };
    unread.map(problem).collect()
}

/// The public fields of a file, with their lines.
fn fields_declared(file: &RustFile) -> impl Iterator<Item = (&str, usize)> {
    let lines = file.source.code.iter().enumerate();
    lines.filter_map(|(index, code)| {
        let (name, _) = code.trim().strip_prefix("pub ")?.split_once(':')?;
        let is_name = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        (is_name && !file.outline.is_test_line(index + 1)).then_some((name, index + 1))
    })
}

/// Returns the fields that a file's code reads, as far as this is visible without types: words after a
/// dot that are not called.
fn fields_read(file: &RustFile) -> Vec<&str> {
    let is_elsewhere = DECLARED.contains(&file.path.as_str())
        || PARSED.iter().any(|path| file.path.starts_with(path));
    if is_elsewhere || file.is_test() || !file.path.starts_with("crates/") {
        return Vec::new();
    }
    let tokens = file.source.tokens();
    let behind_a_point = tokens.windows(3).filter(|three| {
        three[0].text == "." && three[2].text != "(" && !file.outline.is_test_line(three[1].line)
    });
    behind_a_point.map(|three| three[1].text).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unread(reader: &str) -> Vec<String> {
        let declared =
            "pub struct Options {\n    /// Text.\n    pub colour: u8,\n    pub size: u8,\n}\n";
        let files = [
            RustFile::new("crates/control/src/options.rs", declared),
            RustFile::new("crates/control/src/rows.rs", "fn f(o: Options) { o.colour; o.size; }"),
            RustFile::new("crates/switch/src/options.rs", reader),
        ];
        check(&files).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_setting_that_only_the_parser_names_is_reported() {
        assert_eq!(unread("fn f(o: Options) { g(o.colour, o.size) }"), [""; 0]);
        let problems = unread("fn f(o: Options) { o.size(); // o.size\n g(o.colour) }");
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert!(problems[0].starts_with("crates/control/src/options.rs:4: the setting size is "));
        let tests = "fn f(o: Options) { o.colour }\n#[cfg(test)]\nmod tests {\n fn f() { o.size + 1; }\n}\n";
        assert_eq!(unread(tests).len(), 1);
    }
}
