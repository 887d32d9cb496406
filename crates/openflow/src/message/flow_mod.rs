//! Modifications of flow tables (OFPT_FLOW_MOD).

use super::FlowStatsRequest;
use crate::action::Action;
use base::{OfPort, TableId};
use bitflags::bitflags;
use flow::Match;

/// The command of a flow-mod.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FlowModCommand {
    /// Add a flow, replacing one with the same match and priority.
    Add,
    /// Modify the actions of all flows within the match.
    Modify,
    /// Modify the actions of the flow with exactly this match and priority.
    ModifyStrict,
    /// Delete all flows within the match.
    Delete,
    /// Delete the flow with exactly this match and priority.
    DeleteStrict,
}

bitflags! {
    /// Flags of a flow.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct FlowFlags: u16 {
        /// Send a flow-removed message when the flow is removed.
        const SEND_FLOW_REM = 1;
        /// Refuse to add a flow that overlaps one of the same priority.
        const CHECK_OVERLAP = 2;
        /// Reset the counters on modification (OpenFlow 1.3).
        const RESET_COUNTS = 4;
        /// Don't count packets.
        const NO_PKT_COUNTS = 8;
        /// Don't count bytes.
        const NO_BYT_COUNTS = 16;
    }
}

/// Add, modify or delete flows.
#[derive(Clone, PartialEq, Debug)]
pub struct FlowMod {
    /// The command.
    pub command: FlowModCommand,
    /// The match of the flow, or of the flows to modify or delete.
    pub matching: Match,
    /// Priority of the flow.
    pub priority: u16,
    /// The cookie by which modify and delete select flows.
    pub cookie: u64,
    /// The bits of it that are compared; 0 selects all flows.
    pub cookie_mask: u64,
    /// The cookie of an added flow; `u64::MAX` if a modification must not add flows.
    pub new_cookie: u64,
    /// Whether a modification sets `new_cookie`; only OpenFlow 1.0's does.
    pub modify_cookie: bool,
    /// The table; `None` is all tables for deletion, and the switch's choice (0) for addition.
    pub table: Option<TableId>,
    /// Idle timeout in seconds; 0 is none.
    pub idle_timeout_s: u16,
    /// Hard timeout in seconds; 0 is none.
    pub hard_timeout_s: u16,
    /// Importance; flows with the lowest are evicted first.
    pub importance: u16,
    /// The id of a buffered packet to which the flow is applied.
    pub buffer_id: Option<u32>,
    /// Deletes only flows that output to this port; `NONE` matches all.
    pub out_port: OfPort,
    /// Deletes only flows that output to this group.
    pub out_group: Option<u32>,
    /// Flags of the flow.
    pub flags: FlowFlags,
    /// The actions of the flow.
    pub actions: Vec<Action>,
}

/// Adds a flow with the default priority (OFP_DEFAULT_PRIORITY) to table 0 that matches and drops all
/// packets.
impl Default for FlowMod {
    fn default() -> Self {
        FlowMod {
            command: FlowModCommand::Add,
            matching: Match::any(),
            priority: FlowMod::DEFAULT_PRIORITY,
            cookie: 0,
            cookie_mask: 0,
            new_cookie: 0,
            modify_cookie: false,
            table: None,
            idle_timeout_s: 0,
            hard_timeout_s: 0,
            importance: 0,
            buffer_id: None,
            out_port: OfPort::NONE,
            out_group: None,
            flags: FlowFlags::empty(),
            actions: Vec::new(),
        }
    }
}

impl FlowMod {
    /// OFP_DEFAULT_PRIORITY
    pub const DEFAULT_PRIORITY: u16 = 0x8000;

    /// The flows that a modification or deletion selects. Output ports and groups select flows to delete only.
    pub fn selects(&self) -> FlowStatsRequest {
        let deletes = self.command.is_delete();
        FlowStatsRequest {
            matching: self.matching.clone(),
            table: self.table,
            out_port: if deletes { self.out_port } else { OfPort::NONE },
            out_group: self.out_group.filter(|_| deletes),
            cookie: self.cookie,
            cookie_mask: self.cookie_mask,
        }
    }
}
