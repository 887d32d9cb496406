//! The command line of `ovs-vswitchd`, which `tidegate switch` takes too.

pub mod getopt;
mod options;
mod usage;

pub use options::{Id, OPTIONS, OWN_OPTIONS, Source, SwitchOptions, TlsOptions, parse};

use daemon::{Directories, OVS_VERSION, PROGRAM};
use std::ffi::OsString;

/// The parsed command line.
#[derive(Debug)]
pub enum Parsed {
    /// Run the switch.
    Switch(Box<SwitchOptions>),
    /// Print this text, and exit with status 0.
    Print(String),
}

/// Parses the command line of `ovs-vswitchd`: the program's name, then its arguments.
///
/// # Errors
/// The text for standard error; the program then exits with status 1.
pub fn read<I>(args: I, directories: &Directories) -> Result<Parsed, String>
where
    I: IntoIterator<Item = OsString>,
{
    let mut args = args.into_iter();
    let program = args.next().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let help = || usage::text(PROGRAM, OPTIONS, directories);
    utf8(&program, args)
        .and_then(|args| parse(&program, args, OPTIONS, &help, directories))
        .map_err(|error| error + "\n")
}

/// Returns the arguments as text.
///
/// # Errors
/// An argument is not UTF-8.
pub fn utf8(program: &str, args: impl Iterator<Item = OsString>) -> Result<Vec<String>, String> {
    args.map(|arg| {
        arg.into_string().map_err(|arg| {
            format!("{program}: the argument {arg:?} is not UTF-8; paths and names must be")
        })
    })
    .collect()
}

/// Returns the output of `--version`. Scripts use the last word of the line with "Open vSwitch".
pub fn version() -> String {
    format!("{}Tidegate {}\n", ovs_version(), env!("CARGO_PKG_VERSION"))
}

/// Returns the answer to the command `version` on the control socket.
pub fn ovs_version() -> String {
    format!("{PROGRAM} (Open vSwitch) {OVS_VERSION}\n")
}
