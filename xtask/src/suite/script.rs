//! The generated scripts of the suites, with their tests.

use super::Suite;
use super::tree::Tree;
use std::fs;

/// A test of a suite.
#[derive(Debug, PartialEq, Eq)]
pub struct Test {
    pub number: u32,
    pub name: String,
    /// The file that it was generated from, as `ofproto-dpif.at`.
    pub file: String,
    pub keywords: String,
    /// Its commands.
    pub body: String,
}

/// The tests of a suite, by number.
pub struct Script {
    pub suite: Suite,
    pub tests: Vec<Test>,
}

impl Script {
    /// Reads the tests that start the daemon.
    pub fn read(tree: &Tree, suite: Suite) -> Result<Script, String> {
        let path = tree.folder.join("tests").join(suite.script());
        let text = fs::read(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        let mut tests = tests(&String::from_utf8_lossy(&text));
        tests.retain(|it| suite.starts_daemon(&it.body));
        if tests.is_empty() {
            return Err(format!("{}: no tests found in it", path.display()));
        }
        Ok(Script { suite, tests })
    }
}

/// Each test is between `#AT_START_N` and `#AT_STOP_N`; the list for `--help` precedes them, with lines
/// `N;FILE:LINE;NAME;KEYWORDS;`.
fn tests(text: &str) -> Vec<Test> {
    let mut tests = Vec::new();
    let mut listed = std::collections::BTreeMap::new();
    for line in text.lines() {
        if line.starts_with("#AT_START_") {
            break;
        }
        let line = line.strip_prefix("at_help_all=\"").unwrap_or(line);
        let mut parts = line.splitn(4, ';');
        let number = parts.next().and_then(|it| it.parse::<u32>().ok());
        if let (Some(number), Some(place), Some(name), Some(words)) =
            (number, parts.next(), parts.next(), parts.next())
        {
            let file = place.split(':').next().unwrap_or(place);
            let words = words.trim_end_matches([';', '"']);
            listed.insert(number, (file.to_owned(), name.to_owned(), words.to_owned()));
        }
    }
    for part in text.split("\n#AT_START_").skip(1) {
        let (number, rest) = part.split_once('\n').unwrap_or((part, ""));
        let Ok(number) = number.trim().parse() else { continue };
        let body = rest.split("\n#AT_STOP_").next().unwrap_or(rest);
        let Some((file, name, keywords)) = listed.remove(&number) else { continue };
        tests.push(Test { number, name, file, keywords, body: body.to_owned() });
    }
    tests
}

#[cfg(test)]
mod tests {
    use super::tests;

    #[test]
    fn tests_are_found_with_their_commands() {
        let text = "x\nat_help_all=\"1;a.at:3;first one;word;\n2;b.at:9;second;;\n\"\n\
            #AT_START_1\nrun it\n#AT_STOP_1\n#AT_START_2\nother\n#AT_STOP_2\n";
        let tests = tests(text);
        let seen: Vec<_> = tests
            .iter()
            .map(|it| (it.number, &*it.file, &*it.name, &*it.keywords, &*it.body))
            .collect();
        assert_eq!(
            seen,
            [(1, "a.at", "first one", "word", "run it"), (2, "b.at", "second", "", "other")]
        );
    }
}
