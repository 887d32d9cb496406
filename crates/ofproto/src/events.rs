//! What the OpenFlow connections must be told.

use crate::bridge::BridgeId;
use crate::rule::Rule;
use flow::OptionMapping;
use openflow::action::Action;
use openflow::message::{
    FlowEvent, FlowStatsEntry, PacketIn, PortDesc, PortReason, RemovedReason, TableDesc,
    TableReason,
};
use std::sync::Arc;

/// Something that controllers may want to hear of. The queue is emptied with
/// [`crate::Ofproto::take_events`].
#[derive(Clone, PartialEq, Debug)]
pub enum Event {
    /// A flow went.
    FlowRemoved {
        /// Its bridge.
        bridge: BridgeId,
        /// The flow as it was.
        flow: Box<FlowStatsEntry>,
        /// Why.
        reason: RemovedReason,
    },
    /// A flow of a bridge with flow monitors came, changed or went.
    FlowChanged(Box<FlowChange>),
    /// A packet goes to controllers.
    PacketIn {
        /// The bridge that it came through.
        bridge: BridgeId,
        /// The packet, not cut yet.
        packet_in: Box<PacketIn>,
        /// Which controllers, by their connections' id.
        controller_id: u16,
        /// The maximum number of bytes of the packet to send.
        max_len: u16,
        /// Whether a table miss sent it, whose length a connection's own setting
        /// (`miss_send_len`) decides.
        is_miss: bool,
    },
    /// A table tells how much room it has.
    TableStatus {
        /// Its bridge.
        bridge: BridgeId,
        /// Whether little is left.
        reason: TableReason,
        /// The table.
        desc: TableDesc,
    },
    /// A port came, changed or went.
    PortStatus {
        /// The bridge.
        bridge: BridgeId,
        /// Which of them.
        reason: PortReason,
        /// The port.
        port: Box<PortDesc>,
        /// What it was before, where it changed.
        before: Option<Box<PortDesc>>,
    },
}

/// A change of a flow.
#[derive(Clone, PartialEq, Debug)]
pub struct FlowChange {
    /// What happened.
    pub event: FlowEvent,
    /// The flow as it is now, or as it was when it went.
    pub flow: Rule,
    /// What the flow did before, or the one in whose place it is.
    pub before: Option<Arc<[Action]>>,
    /// The bridge's TLV table.
    pub options: Arc<[OptionMapping]>,
    /// The transaction id of the request that did it; without meaning if no request did.
    pub xid: u32,
}
