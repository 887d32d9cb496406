//! Why a connection is closed, and what is known of it.

use super::settings::ConnectionKind;
use crate::ids::BridgeId;
use base::Instant;
use openflow::OfError;
use openflow::message::{Role, Version};
use std::time::Duration;

/// Why a connection must be closed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum CloseReason {
    /// The first message was not a hello.
    #[error("the peer's first message is of type {0}, not a hello")]
    NoHello(u8),
    /// No version in common.
    #[error("no version in common: we speak {ours:#x}, the peer {theirs:#x} (bit n: version n)")]
    NoCommonVersion {
        /// Ours, bit `n` for wire version `n`.
        ours: u32,
        /// The peer's.
        theirs: u32,
    },
    /// The bytes are not OpenFlow.
    #[error("the peer does not speak OpenFlow: {0}")]
    NotOpenFlow(OfError),
    /// No message after an echo request, or no hello.
    #[error("no answer to an echo request for {0:?}")]
    Silent(Duration),
    /// The bridge was removed.
    #[error("the bridge was removed")]
    BridgeGone,
    /// A user asked for it (`bridge/reconnect`).
    #[error("asked to connect again")]
    Asked,
    /// No message tells a peer of another datapath id.
    #[error("the datapath ID changed")]
    DatapathId,
    /// The controller was removed from the configuration.
    #[error("the controller was removed")]
    Removed,
}

impl CloseReason {
    /// Whether the peer is given time to read what was sent, above all why it is rejected. A silent one is not, so
    /// that it is replaced at once.
    pub fn lingers(&self) -> bool {
        !matches!(self, CloseReason::Silent(_))
    }
}

/// The state of a connection.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConnectionStatus {
    /// Its bridge.
    pub bridge: BridgeId,
    /// The kind of peer.
    pub kind: ConnectionKind,
    /// The version agreed on, `None` before that.
    pub version: Option<Version>,
    /// The peer's role.
    pub role: Role,
    /// When the stream was connected.
    pub since: Instant,
    /// When the peer last sent something.
    pub last_received: Instant,
    /// Asynchronous messages dropped because the peer reads too slowly.
    pub dropped: u64,
}

impl ConnectionStatus {
    /// Whether messages can be exchanged.
    pub fn is_connected(&self) -> bool {
        self.version.is_some()
    }
}
