//! Settings from the start of the switch.

use super::{Dummy, Processors};
use crate::stream::TlsSettings;
use std::path::PathBuf;

/// Settings from the start of the switch, besides its configuration.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Directory of sockets and pidfiles (`OVS_RUNDIR`).
    pub run_dir: PathBuf,
    /// Whether the database may only name Unix sockets in the run directory (`--no-self-confinement` disables
    /// that).
    pub is_confined: bool,
    /// TLS settings; the database may name other keys and certificates.
    pub tls: TlsSettings,
    /// The setting of `--enable-dummy`.
    pub dummy: Dummy,
    /// The processors for workers (`--dummy-numa`).
    pub processors: Processors,
}
