//! Logging options of the command line.

use super::SpecError;
use std::io;
use std::path::PathBuf;

/// One logging option. Options take effect in the order of the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogOption {
    /// `-vSPEC`, `--verbose=SPEC`; without SPEC all levels are logged.
    Verbose(Option<String>),
    /// `--log-file[=FILE]`.
    LogFile(Option<PathBuf>),
    /// `--syslog-method=METHOD`.
    SyslogMethod(String),
    /// `--syslog-target=HOST:PORT`.
    SyslogTarget(String),
}

/// Why a logging option is invalid; the texts are Open vSwitch's.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // Each message says it.
pub enum LogError {
    #[error("processing \"{text}\": {error}")]
    Verbosity { text: String, error: SpecError },
    #[error("unsupported syslog method '{0}'")]
    SyslogMethod(String),
    #[error("{}: cannot open the log file ({}); check --log-file", .path.display(), base::reason(.error))]
    LogFile { path: PathBuf, error: io::Error },
}
