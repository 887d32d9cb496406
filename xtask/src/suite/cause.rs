//! Why a test does not pass: the first matching rule of `tests/suites/causes.toml`.

use super::results::Verdict;
use super::script::Test;
use serde::Deserialize;
use std::fs;
use std::path::Path;

const FILE: &str = "tests/suites/causes.toml";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Causes {
    cause: Vec<Cause>,
}

/// A rule. It matches if all of its keys do; a list matches if one of its texts is found.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Cause {
    /// The reason, in a few words.
    why: String,
    verdict: Option<Verdict>,
    /// In the test's name.
    name: Option<Vec<String>>,
    /// In the test's commands.
    body: Option<Vec<String>>,
    /// In its log, or the daemon's.
    log: Option<Vec<String>>,
}

impl Causes {
    pub fn load(root: &Path) -> Result<Causes, String> {
        let text = fs::read_to_string(root.join(FILE)).map_err(|e| format!("{FILE}: {e}"))?;
        toml::from_str(&text).map_err(|e| format!("{FILE}: {e}"))
    }

    pub fn find(&self, verdict: Verdict, test: &Test, log: &str) -> Option<String> {
        let fits = |texts: &Option<Vec<String>>, place: &str| {
            texts.as_ref().is_none_or(|texts| texts.iter().any(|it| place.contains(&**it)))
        };
        self.cause
            .iter()
            .find(|it| {
                it.verdict.is_none_or(|it| it == verdict)
                    && fits(&it.name, &test.name)
                    && fits(&it.body, &test.body)
                    && fits(&it.log, log)
            })
            .map(|it| it.why.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_rule_that_fits_is_the_cause() {
        let text = "[[cause]]\nwhy = \"a\"\nlog = [\"x\", \"y\"]\nname = [\"n\"]\n\
            [[cause]]\nwhy = \"b\"\nbody = [\"add-group\"]\nverdict = \"fail\"\n";
        let causes: Causes = toml::from_str(text).unwrap();
        let test = Test {
            number: 1,
            name: "an".into(),
            file: String::new(),
            keywords: String::new(),
            body: "ofctl add-group".into(),
        };
        assert_eq!(causes.find(Verdict::Fail, &test, "..y").as_deref(), Some("a"));
        assert_eq!(causes.find(Verdict::Fail, &test, "").as_deref(), Some("b"));
        assert_eq!(causes.find(Verdict::Skip, &test, ""), None);
    }
}
