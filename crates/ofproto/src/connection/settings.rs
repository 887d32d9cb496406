//! The settings of a connection.

use super::limiter::Rate;
use base::limits;
use openflow::message::Version;
use std::time::Duration;

/// The kind of peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ConnectionKind {
    /// A configured controller of the bridge.
    Controller,
    /// A short-lived client, such as a tool on `BRIDGE.mgmt`. It receives asynchronous messages only after
    /// setting a non-zero `miss_send_len`.
    Service,
    /// A client of `BRIDGE.snoop`: receives copies of the controller's messages; its own are ignored.
    Snoop,
}

/// The settings of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settings {
    /// The kind of peer.
    pub kind: ConnectionKind,
    /// The permitted versions, bit `n` for wire version `n`; those outside [`Settings::SPOKEN`] are ignored.
    pub versions: u32,
    /// A peer silent for this long is sent an echo request, and disconnected after as long again.
    pub probe: Option<Duration>,
    /// Maximum number of queued asynchronous messages; further ones are dropped and counted.
    pub queue: usize,
    /// Rate limits of packet-ins: of those that no flow matched, and of others.
    pub rate: Option<Rate>,
    /// Whether asynchronous messages are sent by default.
    pub is_async: bool,
}

impl Settings {
    /// All supported versions.
    pub const SPOKEN: u32 = (1 << Version::V10 as u8)
        | (1 << Version::V11 as u8)
        | (1 << Version::V12 as u8)
        | (1 << Version::V13 as u8)
        | (1 << Version::V14 as u8)
        | (1 << Version::V15 as u8);

    /// For a controller: all versions, and Open vSwitch's probe interval of 5 seconds.
    pub fn controller() -> Self {
        let probe = Some(Duration::from_secs(5));
        Settings { kind: ConnectionKind::Controller, probe, ..Settings::service() }
    }

    /// For a management connection: all versions, and a probe every minute.
    pub fn service() -> Self {
        Settings {
            kind: ConnectionKind::Service,
            versions: Self::SPOKEN,
            probe: Some(Duration::from_secs(60)),
            queue: limits::CONTROLLER_QUEUE,
            rate: None,
            is_async: true,
        }
    }

    /// For a client that only listens and does not answer probes.
    pub fn snoop() -> Self {
        Settings { kind: ConnectionKind::Snoop, probe: None, ..Settings::service() }
    }
}
