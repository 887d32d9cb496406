//! What the switch is started with.

use super::{Dummy, Processors};
use crate::stream::TlsSettings;
use std::path::PathBuf;

/// What the switch is started with, besides its configuration.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where sockets and pidfiles lie (`OVS_RUNDIR`).
    pub run_dir: PathBuf,
    /// Whether the database may name Unix sockets in the run directory only
    /// (`--no-self-confinement` lifts it).
    pub is_confined: bool,
    /// How TLS is spoken; the database may name other keys and certificates.
    pub tls: TlsSettings,
    /// Whether ports may be dummies (`--enable-dummy`).
    pub dummy: Dummy,
    /// What workers run on (`--dummy-numa`).
    pub processors: Processors,
}
