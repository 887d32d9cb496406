//! Errors of the load side.

mod trex;

pub use trex::TrexError;

use crate::in_memory::InMemoryError;
use generator::search::Broken;
use std::io;
use std::path::PathBuf;
use testbed::TestbedError;

/// Why a run ended without the requested result.
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
        /// The system's error.
        source: io::Error,
    },
    /// A profile is invalid.
    #[error("{name}: {source}")]
    Profile {
        /// Its name or file.
        name: String,
        /// What is wrong with it.
        source: generator::ProfileError,
    },
    /// Invalid options.
    #[error("{0}")]
    Options(String),
    /// A port cannot be opened, or disappeared.
    #[error("{0}{hint}", hint = what_to_do(.0))]
    Port(#[from] port::PortError),
    /// The device under test has a fault with which no measurement can go on.
    #[error("{0}")]
    Broken(#[from] Broken),
    /// The device under test cannot be brought up, or ended.
    #[error(transparent)]
    InMemory(#[from] InMemoryError),
    /// A stock tool failed, or namespaces are not available.
    #[error(transparent)]
    Place(#[from] TestbedError),
    /// A TRex server cannot be used.
    #[error(transparent)]
    Trex(#[from] TrexError),
    /// A file cannot be written.
    #[error("{}: {source}; name a file in a directory that you may write to", file.display())]
    Write {
        /// The file.
        file: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A thread or program that is needed ended.
    #[error("{0}")]
    Ended(String),
}

/// Advice, where the port's own error contains none.
fn what_to_do(error: &port::PortError) -> &'static str {
    match error {
        port::PortError::Gone { .. } => "; `ip link` shows which there are",
        _ => "",
    }
}

impl LoadError {
    /// Returns the exit status: 2 for invalid input, 3 for an invalid measurement.
    pub fn status(&self) -> u8 {
        match self {
            LoadError::ReadProfile { .. } | LoadError::Profile { .. } | LoadError::Options(_) => 2,
            LoadError::Trex(TrexError::TooLong { .. }) => 2,
            _ => 3,
        }
    }
}
