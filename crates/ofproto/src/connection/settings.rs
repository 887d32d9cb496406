//! How a connection is made.

use super::limiter::Rate;
use base::limits;
use openflow::message::Version;
use std::time::Duration;

/// Whom a connection is to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ConnectionKind {
    /// A controller that the bridge is configured with.
    Controller,
    /// A passing client, such as a tool on `BRIDGE.mgmt`: gets asynchronous messages only
    /// after asking for them with a `miss_send_len` that is not 0.
    Service,
    /// A client of `BRIDGE.snoop`, which gets copies of what is said with the controller and is not
    /// listened to.
    Snoop,
}

/// How a connection is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settings {
    /// Whom it is to.
    pub kind: ConnectionKind,
    /// Versions that may be spoken, bit `n` for wire version `n`; others than
    /// [`Settings::SPOKEN`] are ignored.
    pub versions: u32,
    /// A peer silent for this long is asked for an echo, and dropped after as long again.
    pub probe: Option<Duration>,
    /// Asynchronous messages that wait for a slow peer; further ones are dropped and counted.
    pub queue: usize,
    /// How fast packet-ins of each kind are sent: those that no flow matched, and others.
    pub rate: Option<Rate>,
    /// Whether asynchronous messages are sent before the peer asks for them.
    pub is_async: bool,
}

impl Settings {
    /// All versions that we speak.
    pub const SPOKEN: u32 = (1 << Version::V10 as u8)
        | (1 << Version::V11 as u8)
        | (1 << Version::V12 as u8)
        | (1 << Version::V13 as u8)
        | (1 << Version::V14 as u8)
        | (1 << Version::V15 as u8);

    /// A controller's, with all versions and Open vSwitch's probe interval of 5 seconds.
    pub fn controller() -> Self {
        let probe = Some(Duration::from_secs(5));
        Settings { kind: ConnectionKind::Controller, probe, ..Settings::service() }
    }

    /// A management connection's, with all versions and a probe every minute.
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

    /// Of a client that only listens, and does not answer probes.
    pub fn snoop() -> Self {
        Settings { kind: ConnectionKind::Snoop, probe: None, ..Settings::service() }
    }
}
