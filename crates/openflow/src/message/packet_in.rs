//! Packet-ins and their continuations.

use super::PacketMetadata;
use crate::action::Action;
use base::{PortNo, TableId};
use flow::Wide;

/// A packet-in message.
#[derive(Clone, PartialEq, Debug)]
pub struct PacketIn {
    /// The packet, truncated to the requested length.
    pub data: Vec<u8>,
    /// Length of the packet before truncation.
    pub total_len: u16,
    /// OpenFlow 1.3's reason: 0 no match, 1 action, 2 invalid TTL.
    pub reason: u8,
    /// The table of the flow that sent it; `None` for a packet-out.
    pub table: Option<TableId>,
    /// The flow's cookie; `u64::MAX` for none.
    pub cookie: u64,
    /// Port and pipeline fields.
    pub metadata: PacketMetadata,
    /// The userdata of the `controller` action.
    pub userdata: Vec<u8>,
    /// The remaining processing of a paused packet; only in NXT_PACKET_IN2.
    pub continuation: Option<Box<Continuation>>,
}

/// The packet-in format of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum PacketInFormat {
    /// OFPT_PACKET_IN of the connection's version.
    #[default]
    Standard,
    /// NXT_PACKET_IN
    Nxt,
    /// NXT_PACKET_IN2
    Nxt2,
}

/// The remaining processing of a packet, besides its metadata.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Continuation {
    /// Identifies the bridge in this run of the switch.
    pub bridge: u128,
    /// The stack, with the top last.
    pub stack: Vec<Wide>,
    /// Bit mask of mirrors that received it.
    pub mirrors: u32,
    /// Whether the connection tracking state is visible.
    pub conntracked: bool,
    /// The remaining actions, list by list.
    pub rest: Vec<ContinuedActions>,
    /// The action set.
    pub action_set: Vec<Action>,
    /// The datapath's input port.
    pub port: PortNo,
}

/// The remaining actions of a flow.
#[derive(Clone, PartialEq, Debug)]
pub struct ContinuedActions {
    /// The flow's table.
    pub table: TableId,
    /// Its cookie.
    pub cookie: u64,
    /// The actions.
    pub actions: Vec<Action>,
}
