//! Packets for controllers, and what they need to go on.

use super::PacketMetadata;
use crate::action::Action;
use base::{PortNo, TableId};

/// A packet on its way to a controller.
#[derive(Clone, PartialEq, Debug)]
pub struct PacketIn {
    /// The bytes, cut to what was asked for.
    pub data: Vec<u8>,
    /// Bytes that the packet had.
    pub total_len: u16,
    /// OpenFlow 1.3's reason: 0 no match, 1 action, 2 invalid TTL.
    pub reason: u8,
    /// The table of the flow that sent it; `None` from a packet-out.
    pub table: Option<TableId>,
    /// Its cookie; `u64::MAX` for none.
    pub cookie: u64,
    /// Port and pipeline fields.
    pub metadata: PacketMetadata,
    /// What the action carried for the controller.
    pub userdata: Vec<u8>,
    /// What is left to do with a packet that waits for the controller; only NXT_PACKET_IN2 has it.
    pub continuation: Option<Box<Continuation>>,
}

/// How packet-ins are written on one connection.
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

/// What is left to do with a packet, besides its registers and the like.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Continuation {
    /// Names the bridge that it is in, in this run of the switch.
    pub bridge: u128,
    /// The stack, the top last.
    pub stack: Vec<u128>,
    /// Mirrors that it went to already, by bit.
    pub mirrors: u32,
    /// Whether what connection tracking says is to be seen.
    pub conntracked: bool,
    /// What is left of lists of actions.
    pub rest: Vec<ContinuedActions>,
    /// The action set.
    pub action_set: Vec<Action>,
    /// The datapath port that it came in on.
    pub port: PortNo,
}

/// Actions that were left of a flow's.
#[derive(Clone, PartialEq, Debug)]
pub struct ContinuedActions {
    /// The flow's table.
    pub table: TableId,
    /// Its cookie.
    pub cookie: u64,
    /// The actions.
    pub actions: Vec<Action>,
}
