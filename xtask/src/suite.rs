//! `cargo xtask suite`: Open vSwitch's own test suites with this switch in place of its daemon.
//!
//! Each test runs separately (`tests/suites/one`), several at a time. Its result is recorded when it
//! ends, so that an interrupted run can continue. At the end the results are compared with
//! `tests/suites/expected.toml`.

mod cause;
mod expected;
mod report;
mod results;
mod run;
mod script;
mod tree;

use crate::metadata::Metadata;
use cause::Causes;
use expected::Expected;
use results::Results;
use script::{Script, Test};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use tree::Tree;

/// This project's daemon.
const OURS: &str = "target/release/ovs-vswitchd";

pub const USAGE: &str = "\
usage: cargo xtask suite [OPTION]...

Runs Open vSwitch's or OVN's own test suites with this switch in place of Open vSwitch's daemon, and compares
what passes with tests/suites/expected.toml. As root; `make suite` sets everything up first. The suites come from
Debian's openvswitch-source, or from any tree that was built as those projects' documentation says.

  --suite NAME     system (real traffic), unit (tests that start the daemon with --enable-dummy), all,
                   quick (the tests of tests/suites/quick.toml), ovn (OVN's tests that start the daemon)
                   or ovn-system (OVN's with real traffic); default: system
  --tree DIR       a built tree of Open vSwitch or of OVN, of any version: its suites, tools and daemon are used
  --tests WHICH    only these: numbers and ranges (3,100-120), or words of their names (-k learn)
  --peer           run Open vSwitch's own daemon, to tell limits of this machine from the switch's
  --program FILE   the daemon under test; default: target/release/ovs-vswitchd
  --jobs N         how many at a time; default: two for each processor
  --again          run also what an earlier, unfinished run has results for
  --update         write what came out to tests/suites/expected.toml
  --json           print the results as JSON

A test that comes out worse than expected is run once more, with no other beside it: what it comes to then
counts, and the output says that it is flaky.

Exits with 1 where a test that is expected to pass does not. Of a version that tests/suites/expected.toml does not
contain, that is a test that Open vSwitch's own daemon passed in an earlier run with --peer.

examples:
  cargo xtask suite --tests '-k conntrack'
  cargo xtask suite --suite all --peer --update
  cargo xtask suite --suite unit --tree ../ovs
  cargo xtask suite --suite ovn --tree ../ovn --tests '-k ACL'";

/// The options.
#[derive(Debug, PartialEq, Eq)]
struct Options {
    suite: Choice,
    tree: Option<PathBuf>,
    tests: Option<String>,
    is_peer: bool,
    program: Option<PathBuf>,
    jobs: Option<usize>,
    is_again: bool,
    is_update: bool,
    is_json: bool,
}

/// The selected tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Choice {
    System,
    Unit,
    All,
    Quick,
    Ovn,
    OvnSystem,
}

/// The suites.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Suite {
    System,
    Unit,
    /// OVN's tests in one process tree, over dummy ports.
    Ovn,
    /// OVN's tests with real traffic.
    OvnSystem,
}

impl Suite {
    /// Its name.
    fn name(self) -> &'static str {
        match self {
            Suite::System => "system",
            Suite::Unit => "unit",
            Suite::Ovn => "ovn",
            Suite::OvnSystem => "ovn-system",
        }
    }

    /// Whether it is one of OVN's.
    fn is_of_ovn(self) -> bool {
        matches!(self, Suite::Ovn | Suite::OvnSystem)
    }

    /// Whether a test with these commands starts the daemon. The others test libraries, tools and databases.
    fn starts_daemon(self, body: &str) -> bool {
        match self {
            Suite::System | Suite::OvnSystem => true,
            Suite::Unit => body.contains("--enable-dummy"),
            Suite::Ovn => {
                ["sim_add", "start_daemon ovs-vswitchd"].iter().any(|it| body.contains(it))
            }
        }
    }

    /// How long a test may take, in seconds.
    fn limit_s(self) -> u32 {
        match self {
            Suite::System | Suite::Unit => 120,
            Suite::Ovn | Suite::OvnSystem => 300,
        }
    }

    /// Its generated script.
    fn script(self) -> &'static str {
        match self {
            Suite::System | Suite::OvnSystem => "system-userspace-testsuite",
            Suite::Unit | Suite::Ovn => "testsuite",
        }
    }
}

impl Choice {
    fn suites(self) -> &'static [Suite] {
        match self {
            Choice::System => &[Suite::System],
            Choice::Unit => &[Suite::Unit],
            Choice::All | Choice::Quick => &[Suite::System, Suite::Unit],
            Choice::Ovn => &[Suite::Ovn],
            Choice::OvnSystem => &[Suite::OvnSystem],
        }
    }
}

/// Runs the tests. Returns whether all tests that are expected to pass did.
pub fn run(args: &[&str]) -> Result<bool, String> {
    let options = Options::parse(args)?;
    let root = Metadata::load(&["--no-deps"])?.workspace_root;
    prepare(&root)?;
    let tree = match &options.tree {
        Some(folder) => Tree::given(folder)?,
        None => Tree::debian(&root)?,
    };
    options.suite.suites().iter().try_for_each(|&suite| tree.check(suite))?;
    if options.suite == Choice::Quick && options.tree.is_some() {
        return Err("suite: the quick tests are those of Debian's sources: omit --tree".into());
    }
    let daemon = options.daemon(&root, &tree)?;
    let causes = Causes::load(&root)?;
    let mut expected = Expected::load(&root, &tree.version)?;
    let (mut run, mut failed) = (0, 0);
    for &suite in options.suite.suites() {
        let script = Script::read(&tree, suite)?;
        let tests = options.choose(&root, &script)?;
        if tests.is_empty() {
            continue;
        }
        // A run of selected tests is for inspection: it prints their results.
        let is_whole = options.tests.is_none() && options.suite != Choice::Quick;
        let kept = kept_results(&root, &tree, suite, options.is_peer, is_whole);
        let mut results = Results::open(&kept, &daemon, options.is_again || !is_whole)?;
        let left: Vec<&Test> = tests.iter().copied().filter(|it| !results.has(it.number)).collect();
        let runner =
            run::Runner { root: &root, tree: &tree, suite, daemon: &daemon, causes: &causes };
        runner.run(&left, options.jobs(), &mut results, !options.is_json)?;
        let peers = Results::kept(&kept_results(&root, &tree, suite, true, is_whole));
        let is_listed = expected.has(suite);
        if !is_listed && !options.is_update {
            expected.expect_as_peer(suite, &tests, &peers);
        }
        let worse = expected.compare(suite, &left, &results.of(&left), options.is_peer).regressions;
        runner.run_alone(&left, &worse, &mut results, !options.is_json)?;
        let outcomes = results.of(&tests);
        if options.is_update {
            expected.update(suite, &tests, &outcomes, options.is_peer);
        }
        let mut differences = expected.compare(suite, &tests, &outcomes, options.is_peer);
        differences.flaky = worse.difference(&differences.regressions).copied().collect();
        (run, failed) = (run + outcomes.len(), failed + differences.regressions.len());
        let of_peer = expected.of_peer(suite, &peers);
        let report = report::Report { suite, version: &tree.version, is_listed, tests: &tests };
        if options.is_json {
            println!("{}", report.json(&outcomes, &of_peer, &differences));
        } else {
            print!("{}", report.text(&outcomes, &of_peer, &differences));
        }
    }
    if options.is_update {
        expected.save(&root)?;
    }
    if !options.is_json {
        // The line that `make test` counts.
        println!("{} passed, {failed} failed, 0 skipped", run - failed);
    }
    Ok(failed == 0)
}

/// The file of a suite's results, of all its tests or of some.
fn kept_results(root: &Path, tree: &Tree, suite: Suite, is_peer: bool, is_whole: bool) -> PathBuf {
    let whose = if is_peer { "peer" } else { "ours" };
    let part = if is_whole { "" } else { "-some" };
    let name = format!("{}-{}-{whose}{part}.jsonl", suite.name(), tree.version);
    root.join("target/suite/results").join(name)
}

/// Unpacks and builds what the suites need, once.
fn prepare(root: &Path) -> Result<(), String> {
    let script = root.join("tests/suites/prepare");
    let status = Command::new(&script)
        .status()
        .map_err(|e| format!("cannot start {}: {e}", script.display()))?;
    if status.success() { Ok(()) } else { Err("the suites could not be made ready".into()) }
}

impl Options {
    fn parse(args: &[&str]) -> Result<Options, String> {
        let mut options = Options {
            suite: Choice::System,
            tree: None,
            tests: None,
            is_peer: false,
            program: None,
            jobs: None,
            is_again: false,
            is_update: false,
            is_json: false,
        };
        let mut args = args.iter();
        while let Some(&name) = args.next() {
            let mut value =
                || args.next().copied().ok_or(format!("suite: {name} needs a value\n{USAGE}"));
            match name {
                "--suite" => options.suite = Choice::parse(value()?)?,
                "--tree" => {
                    options.tree = Some(value()?).filter(|it| !it.is_empty()).map(Into::into)
                }
                "--tests" => options.tests = Some(value()?.to_owned()).filter(|it| !it.is_empty()),
                "--program" => options.program = Some(value()?.into()),
                "--jobs" => {
                    let jobs = value()?;
                    let count = jobs.parse().ok().filter(|&it| it > 0);
                    options.jobs =
                        Some(count.ok_or(format!("suite: --jobs {jobs}: not a number from 1 on"))?);
                }
                "--peer" => options.is_peer = true,
                "--again" => options.is_again = true,
                "--update" => options.is_update = true,
                "--json" => options.is_json = true,
                _ => return Err(format!("suite: there is no option {name}\n{USAGE}")),
            }
        }
        Ok(options)
    }

    fn jobs(&self) -> usize {
        let processors = thread::available_parallelism().map_or(1, usize::from);
        self.jobs.unwrap_or(2 * processors)
    }

    fn daemon(&self, root: &Path, tree: &Tree) -> Result<PathBuf, String> {
        let own = || self.program.clone().unwrap_or_else(|| root.join(OURS));
        let found = if self.is_peer { tree.daemon() } else { Some(own()) };
        let program =
            found.ok_or("Open vSwitch's daemon is not installed; run `scripts/setup suite`")?;
        program
            .canonicalize()
            .map_err(|e| format!("{}: {e}; run `make build` first", program.display()))
    }

    fn choose<'a>(&self, root: &Path, script: &'a Script) -> Result<Vec<&'a Test>, String> {
        let of_quick = match self.suite {
            Choice::Quick => Some(expected::quick(root, script.suite)?),
            _ => None,
        };
        let wanted = self.tests.as_deref().map(Wanted::parse).transpose()?;
        let is_wanted = |test: &&Test| {
            of_quick.as_ref().is_none_or(|quick| quick.contains(&test.number))
                && wanted.as_ref().is_none_or(|wanted| wanted.has(test))
        };
        Ok(script.tests.iter().filter(is_wanted).collect())
    }
}

impl Choice {
    fn parse(text: &str) -> Result<Choice, String> {
        match text {
            "system" => Ok(Choice::System),
            "unit" => Ok(Choice::Unit),
            "all" => Ok(Choice::All),
            "quick" => Ok(Choice::Quick),
            "ovn" => Ok(Choice::Ovn),
            "ovn-system" => Ok(Choice::OvnSystem),
            _ => {
                let known = "system, unit, all, quick, ovn, ovn-system";
                Err(format!("suite: --suite {text}: one of {known}"))
            }
        }
    }
}

/// The tests selected by `--tests`.
#[derive(Debug, PartialEq, Eq)]
enum Wanted {
    Numbers(BTreeSet<u32>),
    Words(String),
}

impl Wanted {
    fn parse(text: &str) -> Result<Wanted, String> {
        if let Some(words) = text.strip_prefix("-k") {
            return Ok(Wanted::Words(words.trim().to_lowercase()));
        }
        let mut numbers = BTreeSet::new();
        for part in text.split([',', ' ']).filter(|it| !it.is_empty()) {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (Ok(first), Ok(last)) = (first.parse::<u32>(), last.parse::<u32>()) else {
                return Err(format!(
                    "suite: --tests {part}: neither a number, a range nor -k WORDS"
                ));
            };
            numbers.extend(first..=last.min(100_000));
        }
        Ok(Wanted::Numbers(numbers))
    }

    fn has(&self, test: &Test) -> bool {
        match self {
            Wanted::Numbers(numbers) => numbers.contains(&test.number),
            Wanted::Words(words) => {
                test.name.to_lowercase().contains(words) || test.keywords.contains(words)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_are_named_by_number_range_or_word() {
        let numbers = |text| match Wanted::parse(text) {
            Ok(Wanted::Numbers(numbers)) => numbers.into_iter().collect::<Vec<u32>>(),
            other => panic!("{other:?}"),
        };
        assert_eq!(numbers("3,7-9"), [3, 7, 8, 9]);
        assert_eq!(Wanted::parse("-k Learn"), Ok(Wanted::Words("learn".into())));
        assert!(Wanted::parse("x-3").unwrap_err().contains("neither"));
    }

    #[test]
    fn wrong_options_are_refused() {
        for args in [&["--suite", "x"][..], &["--jobs", "0"], &["--tests"], &["--nonsense"]] {
            assert!(Options::parse(args).is_err(), "{args:?}");
        }
        let options = Options::parse(&["--suite", "all", "--peer", "--jobs", "3"]).unwrap();
        assert_eq!((options.suite, options.is_peer, options.jobs), (Choice::All, true, Some(3)));
    }
}
