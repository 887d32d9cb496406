//! `tests/suites/expected.toml`: the expected result of each test, and the reason if it does not pass.

use super::Suite;
use super::results::{Outcome, Verdict};
use super::script::Test;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

const FILE: &str = "tests/suites/expected.toml";
const QUICK: &str = "tests/suites/quick.toml";
/// The reason if no rule matches.
const UNKNOWN: &str = "not sorted yet";

const HEAD: &str = "\
# What each test of Open vSwitch's and OVN's suites comes to with this switch and with Open vSwitch's own daemon
# (`peer`), and why it does not pass (`why`, from causes.toml). Each version of the suites has its sections: 3.1.0 is
# Debian's openvswitch-source. `make suite` compares with it; `cargo xtask suite --update` writes it, with `--peer` what
# the peer came to.
";

/// By name of the suite and number.
type Suites = BTreeMap<String, BTreeMap<u32, Entry>>;

/// The expectations of one version; those of the others are kept as they are.
#[derive(Default)]
pub struct Expected {
    version: String,
    suites: Suites,
    others: BTreeMap<String, Suites>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ours: Option<Verdict>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    peer: Option<Verdict>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    why: Option<String>,
}

/// The differences between results and expectations, by number.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Differences {
    pub regressions: BTreeSet<u32>,
    pub improvements: BTreeSet<u32>,
    /// Tests that the file does not contain.
    pub unknown: BTreeSet<u32>,
    /// Tests that came out worse than expected beside others, and as expected alone.
    pub flaky: BTreeSet<u32>,
}

impl Expected {
    pub fn load(root: &Path, version: &str) -> Result<Expected, String> {
        let text = match fs::read_to_string(root.join(FILE)) {
            Ok(text) => text,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => String::new(),
            Err(e) => return Err(format!("{FILE}: {e}")),
        };
        Expected::parse(&text, version)
    }

    fn parse(text: &str, version: &str) -> Result<Expected, String> {
        let read: BTreeMap<String, BTreeMap<String, BTreeMap<String, Entry>>> =
            toml::from_str(text).map_err(|e| format!("{FILE}: {e}"))?;
        let mut others = BTreeMap::new();
        for (of, suites) in read {
            let suites: Result<Suites, String> =
                suites.into_iter().map(|(suite, tests)| Ok((suite, numbered(tests)?))).collect();
            others.insert(of, suites?);
        }
        let suites = others.remove(version).unwrap_or_default();
        Ok(Expected { version: version.to_owned(), suites, others })
    }

    pub fn save(&self, root: &Path) -> Result<(), String> {
        fs::write(root.join(FILE), self.text()?).map_err(|e| format!("{FILE}: {e}"))
    }

    fn text(&self) -> Result<String, String> {
        let mut versions: BTreeMap<&str, &Suites> =
            self.others.iter().map(|(version, suites)| (&**version, suites)).collect();
        versions.insert(&self.version, &self.suites);
        let mut text = HEAD.to_owned();
        for (version, suites) in versions {
            for (suite, tests) in suites {
                let _ = writeln!(text, "\n[\"{version}\".{suite}]");
                for (number, entry) in tests {
                    let value = toml::Value::try_from(entry).map_err(|e| e.to_string())?;
                    let _ = writeln!(text, "{number} = {value}");
                }
            }
        }
        Ok(text)
    }

    /// Whether the file contains this suite of the version.
    pub fn has(&self, suite: Suite) -> bool {
        self.suites.contains_key(suite.name())
    }

    /// The results of the peer: those of a run on this machine (`kept`), otherwise those of the file.
    pub fn of_peer(&self, suite: Suite, kept: &BTreeMap<u32, Outcome>) -> BTreeMap<u32, Verdict> {
        let listed = self.suites.get(suite.name()).into_iter().flatten();
        let listed = listed.filter_map(|(&number, entry)| Some((number, entry.peer?)));
        listed.chain(kept.iter().map(|(&number, it)| (number, it.verdict))).collect()
    }

    pub fn update(
        &mut self,
        suite: Suite,
        tests: &[&Test],
        outcomes: &BTreeMap<u32, Outcome>,
        is_peer: bool,
    ) {
        let known = self.suites.entry(suite.name().to_owned()).or_default();
        for test in tests {
            let Some(outcome) = outcomes.get(&test.number) else { continue };
            let name = test.name.clone();
            let entry = known.entry(test.number).or_insert_with(|| Entry {
                name: String::new(),
                ours: None,
                peer: None,
                why: None,
            });
            entry.name = name;
            if is_peer {
                entry.peer = Some(outcome.verdict);
            } else {
                entry.ours = Some(outcome.verdict);
                entry.why = match outcome.verdict {
                    Verdict::Pass => None,
                    _ => Some(reason(outcome, entry.peer)),
                };
            }
        }
    }

    /// Expects the results of the peer from this switch.
    pub fn expect_as_peer(
        &mut self,
        suite: Suite,
        tests: &[&Test],
        peers: &BTreeMap<u32, Outcome>,
    ) {
        let known = self.suites.entry(suite.name().to_owned()).or_default();
        for test in tests {
            if let Some(outcome) = peers.get(&test.number) {
                let verdict = Some(outcome.verdict);
                let entry =
                    Entry { name: test.name.clone(), ours: verdict, peer: verdict, why: None };
                known.insert(test.number, entry);
            }
        }
    }

    /// A test that must pass and does not is a regression, and so is one that fails where it was skipped.
    pub fn compare(
        &self,
        suite: Suite,
        tests: &[&Test],
        outcomes: &BTreeMap<u32, Outcome>,
        is_peer: bool,
    ) -> Differences {
        let mut differences = Differences::default();
        let known = self.suites.get(suite.name());
        for test in tests {
            let Some(outcome) = outcomes.get(&test.number) else { continue };
            let entry = known.and_then(|it| it.get(&test.number));
            let was = entry.and_then(|it| if is_peer { it.peer } else { it.ours });
            let rank = |verdict: Verdict| match verdict {
                Verdict::Pass => 2,
                Verdict::Skip => 1,
                Verdict::Fail => 0,
            };
            let group = match was.map(|was| rank(outcome.verdict).cmp(&rank(was))) {
                None => &mut differences.unknown,
                Some(std::cmp::Ordering::Less) => &mut differences.regressions,
                Some(std::cmp::Ordering::Greater) => &mut differences.improvements,
                Some(std::cmp::Ordering::Equal) => continue,
            };
            group.insert(test.number);
        }
        differences
    }
}

fn numbered(tests: BTreeMap<String, Entry>) -> Result<BTreeMap<u32, Entry>, String> {
    let numbered = tests.into_iter().map(|(number, entry)| {
        let number = number.parse().map_err(|e| format!("{FILE}: test {number}: {e}"))?;
        Ok((number, entry))
    });
    numbered.collect()
}

fn reason(outcome: &Outcome, peer: Option<Verdict>) -> String {
    let cause = outcome.cause.as_deref();
    match peer {
        Some(Verdict::Fail | Verdict::Skip) => match cause {
            // A missing feature is not the reason if the peer does not pass either.
            Some(cause) if !cause.starts_with("not built yet") => cause.to_owned(),
            _ => "limit of the machine: the peer does not pass either".to_owned(),
        },
        _ => cause.unwrap_or(UNKNOWN).to_owned(),
    }
}

/// The numbers of the quick tests.
pub fn quick(root: &Path, suite: Suite) -> Result<BTreeSet<u32>, String> {
    let text = fs::read_to_string(root.join(QUICK)).map_err(|e| format!("{QUICK}: {e}"))?;
    let read: BTreeMap<String, BTreeSet<u32>> =
        toml::from_str(&text).map_err(|e| format!("{QUICK}: {e}"))?;
    Ok(read.get(suite.name()).cloned().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn test(number: u32) -> Test {
        let empty = String::new;
        Test { number, name: "t".into(), file: empty(), keywords: empty(), body: empty() }
    }

    fn outcomes(verdict: Verdict) -> BTreeMap<u32, Outcome> {
        [(1, Outcome { number: 1, verdict, cause: None, seconds: 0.0 })].into()
    }

    #[test]
    fn worse_is_a_regression_and_better_asks_for_an_update() {
        let (one, mut expected) = (test(1), Expected::default());
        let compare = |expected: &Expected, verdict| {
            expected.compare(Suite::Unit, &[&one], &outcomes(verdict), false)
        };
        assert_eq!(compare(&expected, Verdict::Pass).unknown, [1].into());
        expected.update(Suite::Unit, &[&one], &outcomes(Verdict::Skip), false);
        assert_eq!(compare(&expected, Verdict::Fail).regressions, [1].into());
        assert_eq!(compare(&expected, Verdict::Pass).improvements, [1].into());
        assert_eq!(compare(&expected, Verdict::Skip), Differences::default());
        assert_eq!(expected.suites["unit"][&1].why.as_deref(), Some(UNKNOWN));
    }

    #[test]
    fn each_version_has_expectations_of_its_own() {
        let line = "1 = { name = \"t\", ours = \"pass\", peer = \"skip\" }\n";
        let text = format!("{HEAD}\n[\"3.1.0\".unit]\n{line}\n[\"3.7.1\".system]\n{line}");
        let older = Expected::parse(&text, "3.1.0").unwrap();
        assert!(older.has(Suite::Unit) && !older.has(Suite::System));
        assert_eq!(older.text().unwrap(), text);
        let newer = Expected::parse(&text, "3.7.1").unwrap();
        assert_eq!(newer.of_peer(Suite::System, &BTreeMap::new()), [(1, Verdict::Skip)].into());
        let kept = outcomes(Verdict::Fail);
        assert_eq!(newer.of_peer(Suite::System, &kept), [(1, Verdict::Fail)].into());
        assert!(!Expected::parse(&text, "4.0.0").unwrap().has(Suite::Unit));
        assert!(Expected::parse("[\"3.1.0\".unit]\nx = { name = \"t\" }", "3.1.0").is_err());
    }

    #[test]
    fn what_the_peer_does_not_pass_either_is_the_machine_s() {
        let (one, mut expected) = (test(1), Expected::default());
        expected.update(Suite::System, &[&one], &outcomes(Verdict::Fail), true);
        expected.update(Suite::System, &[&one], &outcomes(Verdict::Fail), false);
        let why = expected.suites["system"][&1].why.clone().unwrap();
        assert!(why.starts_with("limit of the machine"), "{why}");
    }
}
