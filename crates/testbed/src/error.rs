//! Errors that prevent a test bed from running. A check that fails is a [`Check`](crate::Check) instead.

use std::io;
use std::path::PathBuf;

/// An error that ends the program.
#[derive(Debug, thiserror::Error)]
pub enum TestbedError {
    /// Required programs are not installed.
    #[error(
        "these programs are missing: {}\ninstall them with: apt-get install {}",
        programs.join(", "), packages.join(" ")
    )]
    Missing {
        /// The names of the programs.
        programs: Vec<String>,
        /// The Debian packages that contain them, without duplicates.
        packages: Vec<String>,
    },
    /// The program of `--switch` does not exist.
    #[error("there is no program {} to be shown as the switch; `--switch` wants one that takes \
             ovs-vswitchd's options", .0.display())]
    NoSwitch(PathBuf),
    /// The kernel refuses namespaces.
    #[error(
        "cannot make namespaces of our own ({reason})\nrun it as root, or let users make them: \
         sysctl -w kernel.unprivileged_userns_clone=1 (Debian), or \
         sysctl -w kernel.apparmor_restrict_unprivileged_userns=0 (Ubuntu)"
    )]
    NoNamespaces {
        /// The error message of the attempt.
        reason: String,
    },
    /// `/dev/net/tun` cannot be opened, which the local ports of bridges need.
    #[error(
        "cannot open /dev/net/tun ({0}), which the bridge's own device needs\nrun it as root, or \
         once, as root: modprobe tun; chmod 0666 /dev/net/tun"
    )]
    NoTun(#[source] io::Error),
    /// A stock tool failed.
    #[error("`{line}` failed ({status}){}", said(output))]
    Tool {
        /// The command line.
        line: String,
        /// The exit status.
        status: String,
        /// The output.
        output: String,
    },
    /// The output of a stock tool could not be parsed.
    #[error("`{line}` answered what we cannot read: {answer}")]
    Unreadable {
        /// The command line.
        line: String,
        /// The start of the output.
        answer: String,
    },
    /// The switch, the database or a server did not start, or ended early.
    #[error("{what}{}", said(log))]
    Daemon {
        /// The daemon and the error.
        what: String,
        /// The end of its log.
        log: String,
    },
    /// A system call failed.
    #[error("cannot {what}: {error}")]
    Io {
        /// The attempted operation.
        what: String,
        /// The system's error.
        #[source]
        error: io::Error,
    },
}

impl TestbedError {
    /// Returns a function for `map_err` that adds the attempted operation.
    pub fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> TestbedError {
        let what = what.into();
        move |error| TestbedError::Io { what, error }
    }
}

fn said(output: &str) -> String {
    match output.trim() {
        "" => String::new(),
        text => format!(":\n{text}"),
    }
}
