//! Why the demo could not be shown at all. What was shown but was not as claimed is a
//! [`Check`](super::report::Check) instead.

use std::io;
use std::path::PathBuf;

/// An error that ends the demo.
#[derive(Debug, thiserror::Error)]
pub enum TestbedError {
    /// Programs that the demo uses are not installed.
    #[error(
        "these programs are missing: {}\ninstall them with: apt-get install {}",
        programs.join(", "), packages.join(" ")
    )]
    Missing {
        /// Names of the programs.
        programs: Vec<String>,
        /// Debian's packages that bring them, each once.
        packages: Vec<String>,
    },
    /// `--switch` names nothing that could be started.
    #[error("there is no program {} to be shown as the switch; `--switch` wants one that takes \
             ovs-vswitchd's options", .0.display())]
    NoSwitch(PathBuf),
    /// The kernel does not give us namespaces.
    #[error(
        "cannot make namespaces of our own ({reason})\nrun it as root, or let users make them: \
         sysctl -w kernel.unprivileged_userns_clone=1 (Debian), or \
         sysctl -w kernel.apparmor_restrict_unprivileged_userns=0 (Ubuntu)"
    )]
    NoNamespaces {
        /// What the attempt said.
        reason: String,
    },
    /// `/dev/net/tun` cannot be opened, without which no bridge has its own device.
    #[error(
        "cannot open /dev/net/tun ({0}), which the bridge's own device needs\nrun it as root, or \
         once, as root: modprobe tun; chmod 0666 /dev/net/tun"
    )]
    NoTun(#[source] io::Error),
    /// A stock tool said no.
    #[error("`{line}` failed ({status}){}", said(output))]
    Tool {
        /// The command line.
        line: String,
        /// How it ended.
        status: String,
        /// What it said.
        output: String,
    },
    /// A stock tool answered in a way that was not understood.
    #[error("`{line}` answered what we cannot read: {answer}")]
    Unreadable {
        /// The command line.
        line: String,
        /// The answer's beginning.
        answer: String,
    },
    /// The switch, the database or a server did not come up, or ended too early.
    #[error("{what}{}", said(log))]
    Daemon {
        /// Who, and what happened.
        what: String,
        /// The end of its log.
        log: String,
    },
    /// The operating system said no.
    #[error("cannot {what}: {error}")]
    Io {
        /// What was tried.
        what: String,
        /// The answer.
        #[source]
        error: io::Error,
    },
}

impl TestbedError {
    /// For `map_err`: says what was tried.
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
