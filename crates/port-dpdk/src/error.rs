//! Why DPDK does not run.

use std::io;

/// Why DPDK does not run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DpdkError {
    /// It was not built in.
    #[error(
        "this build of the switch has no DPDK; install libdpdk-dev and build it with `make`, or \
         with cargo's option `--features dpdk`"
    )]
    Absent,
    /// Nobody asked for it.
    #[error("DPDK does not run; set other_config:dpdk-init=true")]
    NotStarted,
    /// It refused to start.
    #[error("{}", describe(.source, .words))]
    Start {
        /// The system's error.
        source: io::Error,
        /// The errors that DPDK logged; empty where it logged none.
        words: String,
    },
    /// It refused before, and cannot be tried again.
    #[error(
        "DPDK could not be started, and a process can try only once; restart the switch when this \
         is set right: {why}"
    )]
    FailedBefore {
        /// Why it refused.
        why: String,
    },
}

fn describe(source: &io::Error, words: &str) -> String {
    let advice = match source.raw_os_error() {
        // Both are what it says where there are no huge pages.
        Some(13 | 12) => {
            "; it needs huge pages (sysctl vm.nr_hugepages=1024) and the right to use them, or \
             other_config:dpdk-extra=--no-huge for a test"
        }
        Some(22) => "; look at other_config:dpdk-extra and the other dpdk- options",
        _ => "",
    };
    let quoted = if words.is_empty() { String::new() } else { format!(" ({words})") };
    format!("Unable to initialize DPDK: {source}{quoted}{advice}")
}
