//! Errors of benchmarks.

use std::path::PathBuf;

/// The reason why there is no result.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// The work was not done correctly, so its time has no meaning.
    #[error("{0}; the figure would mean nothing, so there is none")]
    WrongWork(String),
    /// A file of flows cannot be read.
    #[error("{}: {source}; name a file of flows in the syntax of ovs-ofctl", file.display())]
    ReadRules {
        /// The file.
        file: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// The run cannot be profiled.
    #[error("the run can't be looked at for a flame graph: {0}; leave out --perf")]
    Profile(String),
    /// A flame graph cannot be written.
    #[error("{}: {source}; name a file that can be written with --perf=FILE", file.display())]
    WriteGraph {
        /// The file.
        file: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// A chart cannot be written.
    #[error("{}: {source}; name a file that can be written with --svg", file.display())]
    WriteChart {
        /// The file.
        file: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// A file for a switch under test cannot be written.
    #[error("{}: {source}", file.display())]
    WriteFile {
        /// The file.
        file: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// A file that a switch under test wrote can't be read.
    #[error("{}: {source}", file.display())]
    ReadFile {
        /// The file.
        file: PathBuf,
        /// The system's answer.
        source: std::io::Error,
    },
    /// A switch under test, or a tool that it needs.
    #[error(transparent)]
    Testbed(#[from] testbed::TestbedError),
    /// A switch under test does not answer its control socket.
    #[error(transparent)]
    Ask(#[from] daemon::unixctl::client::ClientError),
    /// The switch in memory cannot be created.
    #[error(transparent)]
    InMemory(#[from] load::in_memory::InMemoryError),
    /// More threads than connection tracking supports.
    #[error(transparent)]
    Conntrack(#[from] conntrack::Error),
    /// DPDK does not start.
    #[error("{}", .0.on_command_line("--dpdk-extra"))]
    Dpdk(#[from] port_dpdk::DpdkError),
    /// Load cannot be generated.
    #[error(transparent)]
    Load(Box<load::error::LoadError>),
    /// It ended early, or without a result; what was measured until then is reported.
    #[error("{1}")]
    Partly(Box<super::Outcome>, String),
    /// The program ran again in namespaces of its own, which reported everything.
    #[error("ended")]
    Ended(std::process::ExitCode),
    /// A packet file cannot be played.
    #[error(transparent)]
    Port(#[from] port::PortError),
}
