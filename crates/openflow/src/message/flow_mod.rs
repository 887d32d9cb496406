//! Changes of flow tables (OFPT_FLOW_MOD).

use crate::action::Action;
use base::{OfPort, TableId};
use bitflags::bitflags;
use flow::Match;

/// What a flow-mod does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FlowModCommand {
    /// Add, replacing a flow of the same match and priority.
    Add,
    /// Change the actions of all flows within the match.
    Modify,
    /// Change the actions of the flow with just this match and priority.
    ModifyStrict,
    /// Delete all flows within the match.
    Delete,
    /// Delete the flow with just this match and priority.
    DeleteStrict,
}

bitflags! {
    /// Flags of a flow.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct FlowFlags: u16 {
        /// Send a flow-removed message when the flow goes.
        const SEND_FLOW_REM = 1;
        /// Refuse to add where flows of the same priority overlap.
        const CHECK_OVERLAP = 2;
        /// Zero the counters on modification (OpenFlow 1.3).
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
    /// What to do.
    pub command: FlowModCommand,
    /// Which packets, or which flows.
    pub matching: Match,
    /// Priority of the flow.
    pub priority: u16,
    /// Cookie bits that modify and delete select by.
    pub cookie: u64,
    /// Which of them; 0 selects all.
    pub cookie_mask: u64,
    /// The cookie of a flow that is added; `u64::MAX` where a modification is to add none.
    pub new_cookie: u64,
    /// Whether a modification gives the flow `new_cookie`, as only OpenFlow 1.0's does.
    pub modify_cookie: bool,
    /// The table; `None` is all tables on deletion, the switch's choice (0) on addition.
    pub table: Option<TableId>,
    /// Gone after so many seconds without packets; 0 never.
    pub idle_timeout_s: u16,
    /// Gone after so many seconds; 0 never.
    pub hard_timeout_s: u16,
    /// What to evict first; the lowest goes first.
    pub importance: u16,
    /// A buffered packet to which the flow is applied.
    pub buffer_id: Option<u32>,
    /// Deletes only flows that output to this port; `NONE` is any.
    pub out_port: OfPort,
    /// Deletes only flows that send to this group.
    pub out_group: Option<u32>,
    /// Flags of the flow.
    pub flags: FlowFlags,
    /// What to do with packets.
    pub actions: Vec<Action>,
}

/// Adds a flow of the default priority (OFP_DEFAULT_PRIORITY) to table 0 that matches and drops everything.
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
}
