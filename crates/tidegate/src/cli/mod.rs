//! The command line: `tidegate VERB …`, and `ovs-vswitchd …` for the daemon under that name.

mod pages;
mod whole;

use crate::conntrack::ConntrackArgs;
use crate::demo::DemoArgs;
use crate::lab::LabArgs;
use crate::latency::LatencyArgs;
use crate::offload::WhyNotOffloadedArgs;
use crate::trace::TraceArgs;
use bench::BenchArgs;
use bench::report::ReportArgs;
use clap::{Arg, ArgAction, Command, FromArgMatches, Subcommand};
use clap_complete::Shell;
use daemon::Directories;
use load::cps_ndr::CpsNdrArgs;
use load::generate::GenerateArgs;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use switch::command_line::getopt::{Opt, Takes};
use switch::command_line::{self, Id, OPTIONS, OWN_OPTIONS, SwitchOptions};
pub use whole::line as whole_line;

/// The parsed command line.
#[derive(Debug)]
pub enum Parsed {
    /// Run the switch.
    Switch(Box<SwitchOptions>),
    /// `demo`.
    Demo(DemoArgs),
    /// `lab`.
    Lab(LabArgs),
    /// `bench`.
    Bench(BenchArgs),
    /// `generate`.
    Generate(Box<GenerateArgs>),
    /// `cps-ndr`.
    CpsNdr(Box<CpsNdrArgs>),
    /// `report`.
    Report(ReportArgs),
    /// `conntrack`.
    Conntrack(ConntrackArgs),
    /// `latency`.
    Latency(LatencyArgs),
    /// `why-not-offloaded`.
    WhyNotOffloaded(WhyNotOffloadedArgs),
    /// `trace`.
    Trace(TraceArgs),
    /// Print this text, and exit with status 0.
    Print(String),
}

/// An error in the command line.
#[derive(Debug, PartialEq, Eq)]
pub struct Refused {
    /// The text for standard error.
    pub text: String,
    /// The exit status.
    pub status: u8,
}

/// A stateful software switch, in Open vSwitch's place
#[derive(Subcommand, Debug)]
enum Verb {
    Demo(DemoArgs),
    Lab(LabArgs),
    Bench(BenchArgs),
    Generate(Box<GenerateArgs>),
    CpsNdr(Box<CpsNdrArgs>),
    Report(ReportArgs),
    Conntrack(ConntrackArgs),
    Latency(LatencyArgs),
    WhyNotOffloaded(WhyNotOffloadedArgs),
    Trace(TraceArgs),
    /// Print a shell completion script
    #[command(after_help = "Examples:
  tidegate completion bash > /etc/bash_completion.d/tidegate
  tidegate completion zsh > /usr/share/zsh/site-functions/_tidegate")]
    Completion {
        /// The shell
        shell: Shell,
    },
    /// Print the manual page, or write all manual pages to a directory
    #[command(after_help = "Examples:
  tidegate man | man -l -                  read tidegate(1)
  tidegate man /usr/local/share/man/man1   install every page")]
    Man {
        /// The directory to write all pages to
        directory: Option<PathBuf>,
    },
}

/// Parses the command line: the program's name, then its arguments. Verbs that only print are executed here.
///
/// # Errors
/// The text to print, and the exit status.
pub fn read<I>(args: I, directories: &Directories) -> Result<Parsed, Refused>
where
    I: IntoIterator<Item = OsString>,
{
    let args: Vec<OsString> = args.into_iter().collect();
    let program = args.first().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let is_ovs = Path::new(&program).file_name().is_some_and(|name| name == daemon::PROGRAM);
    let is_switch = args.get(1).is_some_and(|verb| verb == "switch");
    if is_ovs || is_switch {
        let parsed = match is_ovs {
            true => command_line::read(args, directories),
            false => read_switch(args.into_iter().skip(2), directories),
        };
        return match parsed {
            Ok(command_line::Parsed::Switch(options)) => Ok(Parsed::Switch(options)),
            Ok(command_line::Parsed::Print(text)) => Ok(Parsed::Print(text)),
            Err(text) => Err(Refused { text, status: 1 }),
        };
    }
    let matches = match command().try_get_matches_from(args) {
        Ok(matches) => matches,
        // Requesting help is not an error.
        Err(error) if !error.use_stderr() => return Ok(Parsed::Print(error.render().to_string())),
        Err(error) => return Err(refuse(&error)),
    };
    match Verb::from_arg_matches(&matches).map_err(|error| refuse(&error))? {
        Verb::Demo(args) => Ok(Parsed::Demo(args)),
        Verb::Lab(args) => Ok(Parsed::Lab(args)),
        Verb::Bench(args) => Ok(Parsed::Bench(args)),
        Verb::CpsNdr(args) => Ok(Parsed::CpsNdr(args)),
        Verb::Report(args) => Ok(Parsed::Report(args)),
        Verb::Generate(args) => Ok(Parsed::Generate(args)),
        Verb::Conntrack(args) => Ok(Parsed::Conntrack(args)),
        Verb::Latency(args) => Ok(Parsed::Latency(args)),
        Verb::WhyNotOffloaded(args) => Ok(Parsed::WhyNotOffloaded(args)),
        Verb::Trace(args) => Ok(Parsed::Trace(args)),
        Verb::Completion { shell } => print(|out| pages::write_completion(shell, out)),
        Verb::Man { directory: None } => print(|out| pages::write_page(out)),
        Verb::Man { directory: Some(folder) } => {
            let paths = pages::write_pages(&folder).map_err(|error| Refused {
                text: format!(
                    "tidegate: {}: cannot write the manual pages ({})\n",
                    folder.display(),
                    base::reason(&error)
                ),
                status: 1,
            })?;
            Ok(Parsed::Print(paths.iter().map(|path| format!("{}\n", path.display())).collect()))
        }
    }
}

/// Parses the arguments of `tidegate switch`: the options of `ovs-vswitchd`, and Tidegate's own.
fn read_switch(
    args: impl Iterator<Item = OsString>,
    directories: &Directories,
) -> Result<command_line::Parsed, String> {
    const NAME: &str = "tidegate switch";
    let table: Vec<_> = OPTIONS.iter().chain(OWN_OPTIONS).copied().collect();
    command_line::utf8(NAME, args)
        .and_then(|args| command_line::parse(NAME, args, &table, &switch_help, directories))
        .map_err(|error| error + "\n")
}

/// Returns the definition of the whole command line.
pub fn command() -> Command {
    let program = Command::new("tidegate")
        .version(env!("CARGO_PKG_VERSION"))
        .about("A stateful software switch, in Open vSwitch's place")
        .after_help(
            "Examples:
  tidegate demo                              show the switch with real traffic
  tidegate bench conntrack 1 33554432 32     what connection tracking costs
  tidegate cps-ndr                           the most connections per second without loss
  tidegate generate --self-test              the ceiling of the load generator
  tidegate report DIR                        one page from the results in a folder
  tidegate switch --config bridge.toml       a switch with no database
  tidegate switch --pidfile --detach         a switch that ovs-vsctl configures
  tidegate conntrack --events --json         events of its connections
  tidegate latency                           how long its upcalls take
  tidegate trace tcp,tp_dst=80               each step of a packet, and its duration
  ovs-appctl list-commands                   the commands of a running switch",
        )
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(switch_command());
    Verb::augment_subcommands(program)
}

/// Returns the help of `tidegate switch`.
fn switch_help() -> String {
    switch_command()
        .display_name("tidegate switch")
        .bin_name("tidegate switch")
        .render_long_help()
        .to_string()
}

/// Returns `tidegate switch` for the help and the manual. [`command_line`] parses the actual command line,
/// because clap does not parse like getopt; both use the same table.
fn switch_command() -> Command {
    let options = OWN_OPTIONS.iter().chain(OPTIONS);
    Command::new("switch")
        .about("Run the switch; it takes every option of ovs-vswitchd 3.1")
        .after_help(
            "Examples:
  tidegate switch --config bridge.toml                 configured by a file, without a database
  tidegate switch --config bridge.toml --check         check the file
  tidegate switch --pidfile --detach --log-file        configured by ovsdb-server at its default socket
  tidegate switch unix:/tmp/db.sock -vbridge:dbg       another database, and a detailed log

Under the name ovs-vswitchd the program is this command.",
        )
        .disable_help_flag(true)
        .disable_version_flag(true)
        .args(options.map(clap_arg))
        .arg(
            Arg::new("database")
                .value_name("DATABASE")
                .help("Where ovsdb-server listens: unix:FILE, tcp:HOST:PORT or ssl:HOST:PORT")
                .conflicts_with("config"),
        )
}

fn clap_arg(option: &Opt<Id>) -> Arg {
    let arg = Arg::new(option.long).long(option.long).help(option.help);
    let arg = match option.short {
        Some(letter) => arg.short(letter),
        None => arg,
    };
    match option.takes {
        Takes::Nothing => arg.action(ArgAction::SetTrue),
        Takes::Argument(name) => arg.value_name(name),
        Takes::Maybe(name) => {
            arg.value_name(name).num_args(0..=1).require_equals(option.short.is_none())
        }
    }
}

fn refuse(error: &clap::Error) -> Refused {
    Refused {
        text: error.render().to_string(),
        status: u8::try_from(error.exit_code()).unwrap_or(2),
    }
}

fn print(write: impl FnOnce(&mut dyn io::Write) -> io::Result<()>) -> Result<Parsed, Refused> {
    let mut text = Vec::new();
    // Writing to memory cannot fail.
    let _ = write(&mut text);
    Ok(Parsed::Print(String::from_utf8_lossy(&text).into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_line(line: &str) -> Result<Parsed, Refused> {
        read(line.split(' ').map(OsString::from), &Directories::from_environment())
    }

    fn printed(line: &str) -> String {
        match read_line(line) {
            Ok(Parsed::Print(text)) => text,
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn the_definition_is_sound() {
        command().debug_assert();
    }

    #[test]
    fn the_name_and_the_verb_say_what_to_do() {
        for line in
            ["/usr/sbin/ovs-vswitchd unix:x", "ovs-vswitchd unix:x", "tidegate switch unix:x"]
        {
            match read_line(line) {
                Ok(Parsed::Switch(options)) => {
                    assert_eq!(options.source, command_line::Source::Database("unix:x".into()));
                }
                other => panic!("{line}: {other:?}"),
            }
        }
        assert!(matches!(read_line("tidegate demo --seconds 3"), Ok(Parsed::Demo(_))));
        assert!(matches!(read_line("tidegate bench zones 9 2 1"), Ok(Parsed::Bench(_))));
        assert!(printed("ovs-vswitchd --version").contains("(Open vSwitch) 3.1.0\nTidegate "));
        assert!(printed("tidegate --version").starts_with("tidegate "));
    }

    #[test]
    fn errors_have_a_status() {
        let refused = |line| read_line(line).unwrap_err();
        let option =
            Refused { text: "/x/ovs-vswitchd: unrecognized option '--nosuch'\n".into(), status: 1 };
        assert_eq!(refused("/x/ovs-vswitchd --nosuch"), option);
        assert!(refused("tidegate switch -x").text.starts_with("tidegate switch: invalid option"));
        assert_eq!(refused("tidegate nosuch").status, 2);
        assert_eq!(refused("tidegate").status, 2);
        let bytes = std::os::unix::ffi::OsStringExt::from_vec(vec![0xff]);
        let args = [OsString::from("ovs-vswitchd"), bytes];
        let error = read(args, &Directories::from_environment()).unwrap_err();
        assert!(error.text.contains("not UTF-8"), "{error:?}");
    }

    #[test]
    fn every_verb_has_help_with_examples() {
        let program = command();
        let bench = program.find_subcommand("bench").unwrap();
        let works = bench.get_subcommands().map(|work| format!("bench {}", work.get_name()));
        let verbs = program.get_subcommands().map(|verb| verb.get_name().to_owned());
        for verb in verbs.chain(works) {
            let help = printed(&format!("tidegate {verb} --help"));
            assert!(help.contains("Examples:"), "{help}");
            assert!(help.contains(&format!("tidegate {verb}")), "{help}");
        }
        let help = printed("tidegate switch --help");
        assert!(help.contains("--config <FILE>") && help.contains("--pidfile[=<FILE>]"), "{help}");
    }

    /// Returns the names of the program, its verbs and their subcommands, as in the names of pages.
    fn names(command: &Command, prefix: &str) -> Vec<String> {
        let of = |it: &Command| names(it, &format!("{prefix}-{}", it.get_name()));
        let below = command.get_subcommands().filter(|it| it.get_name() != "help").flat_map(of);
        std::iter::once(prefix.to_owned()).chain(below).collect()
    }

    #[test]
    fn pages_and_completions_know_every_verb() {
        let folder = tempfile::tempdir().unwrap();
        let made = folder.path().join("man/man1");
        let said = printed(&format!("tidegate man {}", made.display()));
        let names = names(&command(), "tidegate");
        assert!(names.len() > 20 && names.contains(&"tidegate-bench-rfc".to_owned()), "{names:?}");
        assert_eq!(said.lines().count(), names.len());
        for name in &names {
            let page = std::fs::read_to_string(made.join(format!("{name}.1"))).unwrap();
            for title in ["NAME", "SYNOPSIS", "DESCRIPTION", "\"EXIT STATUS\"", "EXAMPLES"] {
                assert!(page.contains(&format!(".SH {title}\n")), "{name}: no {title}: {page}");
            }
            assert!(!page.contains("EXTRA"), "{page}");
            // Every page of this program that it refers to exists.
            let plain = page.replace("\\-", "-");
            let words = plain.split(|c: char| !(c.is_ascii_alphanumeric() || "-()".contains(c)));
            for word in words.filter(|word| word.starts_with("tidegate-")) {
                let Some(other) = word.strip_suffix("(1)") else { continue };
                assert!(names.iter().any(|name| name == other), "{name} refers to {word}");
            }
        }
        for (name, expect) in [
            ("tidegate", "its own page says how"),
            ("tidegate-switch", "--check: the file is valid"),
            ("tidegate-trace", "No packet matched the filter"),
            ("tidegate-lab", "A check failed"),
            ("tidegate-bench-rfc", "Everything was measured."),
        ] {
            let page = std::fs::read_to_string(made.join(format!("{name}.1"))).unwrap();
            let plain = page.replace("\\-", "-");
            assert!(plain.contains(expect), "{name}: no {expect}: {plain}");
        }
        for verb in command().get_subcommands() {
            for shell in ["bash", "zsh", "fish"] {
                let text = printed(&format!("tidegate completion {shell}"));
                assert!(text.contains(verb.get_name()), "{shell}: {}", verb.get_name());
            }
        }
        assert!(printed("tidegate man").contains("tidegate"));
        let error = read_line("tidegate man /proc/no/such").unwrap_err();
        assert!(error.text.contains("cannot write the manual pages"), "{error:?}");
    }
}
