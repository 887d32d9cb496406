//! Why no load could be generated, or why it had to stop.

use crate::in_memory::InMemoryError;
use generator::search::Broken;
use std::io;
use std::path::PathBuf;
use testbed::TestbedError;

/// Why a run ended without the result that was asked for.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// A profile's file cannot be read.
    #[error(
        "{}: {source}; name a TOML file, or one of short-lived, long-lived, http, dns",
        file.display()
    )]
    ReadProfile {
        /// The file.
        file: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// A profile cannot work.
    #[error("{name}: {source}")]
    Profile {
        /// Its name or file.
        name: String,
        /// What is wrong with it.
        source: generator::ProfileError,
    },
    /// Options that cannot be meant.
    #[error("{0}")]
    Options(String),
    /// A port cannot be used, or went away.
    #[error("{0}{hint}", hint = what_to_do(.0))]
    Port(#[from] port::PortError),
    /// The device under test does what no measurement can go on with.
    #[error("{0}")]
    Broken(#[from] Broken),
    /// The device under test cannot be brought up, or ended.
    #[error(transparent)]
    InMemory(#[from] InMemoryError),
    /// A stock tool or the namespaces refuse.
    #[error(transparent)]
    Place(#[from] TestbedError),
    /// A TRex server cannot be used.
    #[error(transparent)]
    Trex(#[from] crate::trex::TrexError),
    /// A file cannot be written.
    #[error("{}: {source}; name a file in a directory that you may write to", file.display())]
    Write {
        /// The file.
        file: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// Something ended that was needed.
    #[error("{0}")]
    Ended(String),
}

/// Where the port's own words do not say it.
fn what_to_do(error: &port::PortError) -> &'static str {
    match error {
        port::PortError::Gone { .. } => "; `ip link` shows which there are",
        _ => "",
    }
}

impl LoadError {
    /// The exit status: 2 for what the user wrote, 3 for what makes a measurement invalid.
    pub fn status(&self) -> u8 {
        match self {
            LoadError::ReadProfile { .. } | LoadError::Profile { .. } | LoadError::Options(_) => 2,
            LoadError::Trex(crate::trex::TrexError::TooLong { .. }) => 2,
            _ => 3,
        }
    }
}
