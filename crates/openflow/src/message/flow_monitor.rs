//! Flow monitors: what a controller watches in the flow tables, and what it is told of them.

use super::{FlowStatsRequest, RemovedReason};
use crate::action::Action;
use base::TableId;
use bitflags::bitflags;
use flow::Match;

bitflags! {
    /// When a monitor sends updates, and what they hold.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct FlowMonitorFlags: u16 {
        /// The flows that are there when the monitor begins.
        const INITIAL = 1 << 0;
        /// Flows that are added.
        const ADD = 1 << 1;
        /// Flows that go.
        const REMOVED = 1 << 2;
        /// Flows that change.
        const MODIFY = 1 << 3;
        /// Updates hold the flow's actions.
        const ACTIONS = 1 << 4;
        /// The connection's own changes are reported in full, too.
        const OWN = 1 << 5;
    }
}

impl FlowMonitorFlags {
    /// The kinds of changes; a monitor names at least one of them.
    pub const CHANGES: FlowMonitorFlags =
        FlowMonitorFlags::ADD.union(FlowMonitorFlags::REMOVED).union(FlowMonitorFlags::MODIFY);
}

/// What a request does with a monitor. Before OpenFlow 1.4 it adds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FlowMonitorCommand {
    /// Begins one.
    Add,
    /// Replaces the one of the same id.
    Modify,
    /// Ends it.
    Delete,
}

/// A flow monitor as it is asked for.
#[derive(Clone, PartialEq, Debug)]
pub struct FlowMonitor {
    /// The peer's number for it.
    pub id: u32,
    /// What to do with it.
    pub command: FlowMonitorCommand,
    /// When it sends updates, and what they hold.
    pub flags: FlowMonitorFlags,
    /// Which flows it watches. Monitors do not select by cookie.
    pub flows: FlowStatsRequest,
}

/// What happened to a flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FlowEvent {
    /// It was there when the monitor began; before OpenFlow 1.4 the same as added.
    Initial,
    /// It was added, perhaps in place of one with the same match and priority.
    Added,
    /// It went.
    Removed(RemovedReason),
    /// Its actions or its cookie changed.
    Modified,
}

/// The flow of an update.
#[derive(Clone, PartialEq, Debug)]
pub struct WatchedFlow {
    /// Its table.
    pub table: TableId,
    /// Which packets.
    pub matching: Match,
    /// Priority.
    pub priority: u16,
    /// Cookie.
    pub cookie: u64,
    /// Seconds without packets after which it goes.
    pub idle_timeout_s: u16,
    /// Seconds after which it goes.
    pub hard_timeout_s: u16,
    /// What it does with packets; empty unless the monitor asks for actions.
    pub actions: Vec<Action>,
}

/// What a flow monitor reports.
#[derive(Clone, PartialEq, Debug)]
pub enum FlowUpdate {
    /// Something happened to a flow.
    Flow {
        /// What.
        event: FlowEvent,
        /// The flow as it is now, or as it was when it went.
        flow: Box<WatchedFlow>,
    },
    /// The connection's own request changed flows.
    Abbreviated {
        /// The request's transaction id.
        xid: u32,
    },
    /// Too many updates wait; only removals are reported from now on. Before OpenFlow 1.4 this is a
    /// message of its own.
    Paused,
    /// What was left out has been reported. Before OpenFlow 1.4 this is a message of its own.
    Resumed,
}
