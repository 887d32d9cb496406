//! Flow monitors: subscriptions of a controller to changes of flow tables.

use super::{FlowStatsRequest, RemovedReason};
use crate::action::Action;
use base::TableId;
use bitflags::bitflags;
use flow::Match;

bitflags! {
    /// The events of a monitor, and the contents of its updates.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct FlowMonitorFlags: u16 {
        /// Flows that exist when the monitor is added.
        const INITIAL = 1 << 0;
        /// Added flows.
        const ADD = 1 << 1;
        /// Removed flows.
        const REMOVED = 1 << 2;
        /// Modified flows.
        const MODIFY = 1 << 3;
        /// Updates contain the flow's actions.
        const ACTIONS = 1 << 4;
        /// The connection's own changes are also reported in full.
        const OWN = 1 << 5;
    }
}

impl FlowMonitorFlags {
    /// The types of changes; a monitor requires at least one of them.
    pub const CHANGES: FlowMonitorFlags =
        FlowMonitorFlags::ADD.union(FlowMonitorFlags::REMOVED).union(FlowMonitorFlags::MODIFY);
}

/// The command of a monitor request. Before OpenFlow 1.4 it is always `Add`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FlowMonitorCommand {
    /// Adds a monitor.
    Add,
    /// Replaces the monitor with the same id.
    Modify,
    /// Deletes the monitor.
    Delete,
}

/// A request for a flow monitor.
#[derive(Clone, PartialEq, Debug)]
pub struct FlowMonitor {
    /// The controller's id for it.
    pub id: u32,
    /// The command.
    pub command: FlowMonitorCommand,
    /// The events of the monitor, and the contents of its updates.
    pub flags: FlowMonitorFlags,
    /// The flows to monitor. Monitors do not select by cookie.
    pub flows: FlowStatsRequest,
}

/// An event of a flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FlowEvent {
    /// It existed when the monitor was added; before OpenFlow 1.4 the same as `Added`.
    Initial,
    /// It was added, perhaps replacing one with the same match and priority.
    Added,
    /// It was removed.
    Removed(RemovedReason),
    /// Its actions or its cookie changed.
    Modified,
}

/// The flow of an update.
#[derive(Clone, PartialEq, Debug)]
pub struct WatchedFlow {
    /// Its table.
    pub table: TableId,
    /// Its match.
    pub matching: Match,
    /// Priority.
    pub priority: u16,
    /// Cookie.
    pub cookie: u64,
    /// Idle timeout in seconds.
    pub idle_timeout_s: u16,
    /// Hard timeout in seconds.
    pub hard_timeout_s: u16,
    /// Its actions; empty unless the monitor requests actions.
    pub actions: Vec<Action>,
}

/// An update of a flow monitor.
#[derive(Clone, PartialEq, Debug)]
pub enum FlowUpdate {
    /// An event of a flow.
    Flow {
        /// The event.
        event: FlowEvent,
        /// The flow after the event, or before its removal.
        flow: Box<WatchedFlow>,
    },
    /// The connection's own request modified flows.
    Abbreviated {
        /// The request's transaction id.
        xid: u32,
    },
    /// Too many updates are queued; from now on only removals are reported. Before OpenFlow 1.4 this is a
    /// separate message.
    Paused,
    /// All omitted updates have been reported. Before OpenFlow 1.4 this is a separate message.
    Resumed,
}
