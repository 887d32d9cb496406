//! Events for the OpenFlow connections.

use crate::Ofproto;
use crate::ids::BridgeId;
use crate::rule::Rule;
use flow::OptionMapping;
use openflow::action::Action;
use openflow::message::{
    FlowEvent, FlowStatsEntry, PacketIn, PortDesc, PortReason, RemovedReason, TableDesc,
    TableReason,
};
use std::sync::Arc;

/// An event that controllers may receive. [`crate::Ofproto::take_events`] empties the queue.
#[derive(Clone, PartialEq, Debug)]
pub enum Event {
    /// A flow was removed.
    FlowRemoved {
        /// Its bridge.
        bridge: BridgeId,
        /// The flow as it was when removed.
        flow: Box<FlowStatsEntry>,
        /// Why.
        reason: RemovedReason,
    },
    /// A flow of a bridge with flow monitors was added, changed or removed.
    FlowChanged(Box<FlowChange>),
    /// A packet for controllers.
    PacketIn {
        /// The bridge that it came through.
        bridge: BridgeId,
        /// The whole packet: no packet is buffered, so the `max_len` of an action and a connection's
        /// `miss_send_len` do not apply (OpenFlow 1.3.5, section 6.1.2).
        packet_in: Box<PacketIn>,
        /// The `controller_id` of the receiving connections.
        controller_id: u16,
        /// Whether a table miss sent it.
        is_miss: bool,
    },
    /// A table reached a vacancy threshold.
    TableStatus {
        /// Its bridge.
        bridge: BridgeId,
        /// Which threshold.
        reason: TableReason,
        /// The table.
        desc: TableDesc,
    },
    /// A port was added, changed or removed.
    PortStatus {
        /// The bridge.
        bridge: BridgeId,
        /// Which of these.
        reason: PortReason,
        /// The port.
        port: Box<PortDesc>,
        /// Its previous description, if it changed.
        before: Option<Box<PortDesc>>,
    },
}

/// A change of a flow.
#[derive(Clone, PartialEq, Debug)]
pub struct FlowChange {
    /// What happened.
    pub event: FlowEvent,
    /// The flow as it is now, or as it was when removed.
    pub flow: Rule,
    /// The previous actions of the flow, or those of the flow that it replaced.
    pub before: Option<Arc<[Action]>>,
    /// The bridge's TLV table.
    pub options: Arc<[OptionMapping]>,
    /// The transaction id of the request; without meaning if no request made the change.
    pub xid: u32,
}

impl Ofproto {
    /// Replaces the events by others. Returns them.
    pub(crate) fn exchange_events(&mut self, others: Vec<Event>) -> Vec<Event> {
        std::mem::replace(&mut self.events, others)
    }

    /// Adds events of a change that is complete.
    pub(crate) fn add_events(&mut self, events: Vec<Event>) {
        self.events.extend(events);
    }
}
