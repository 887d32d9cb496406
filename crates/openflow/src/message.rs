//! Messages, the same for every version of OpenFlow.

mod flow_mod;
mod flow_monitor;
mod group;
mod learned;
mod meter;
mod packet_in;
mod port;
mod queue;
pub mod reason;
mod statistics;
mod tables;

pub use crate::tlv_table::{TlvCommand, TlvMap};
pub use crate::version::Version;
pub use flow::CtFlush;
pub use flow_mod::{FlowFlags, FlowMod, FlowModCommand};
pub use flow_monitor::{
    FlowEvent, FlowMonitor, FlowMonitorCommand, FlowMonitorFlags, FlowUpdate, WatchedFlow,
};
pub use group::{
    BUCKET_MAX, Bucket, BucketPlace, GROUP_ALL, GROUP_MAX, GroupCommand, GroupDesc, GroupMod,
    GroupStats, GroupType, HashField, Selection, SelectionMethod,
};
pub use meter::{
    METER_ALL, METER_BANDS_MAX, METER_CONTROLLER, METER_MAX, METER_SLOWPATH, METERS_MAX,
    MeterCommand, MeterDesc, MeterMod, MeterStats,
};
pub use packet_in::{Continuation, ContinuedActions, PacketIn, PacketInFormat};
pub use port::{PortConfig, PortDesc, PortReason};
pub use queue::{QueueId, QueueRequest, QueueStats};
pub use statistics::{
    FlowStatsEntry, FlowStatsRequest, PortStats, StatsReply, StatsRequest, TableStats,
};
pub use tables::{TableDesc, TableFeatures, TableMiss, TableMod, TableReason, VacancyEvents};

use crate::action::Action;
use crate::error::ErrorCode;
use base::{DatapathId, MacAddr, OfPort};
use flow::Match;

/// The fields of a packet-in or packet-out besides its bytes: registers, metadata, port and connection
/// fields, as a match that is exact in every known field.
pub type PacketMetadata = Match;

/// A packet-out message.
#[derive(Clone, PartialEq, Debug)]
pub struct PacketOut {
    /// The id of a buffered packet, instead of `data`.
    pub buffer_id: Option<u32>,
    /// Input port and pipeline fields.
    pub metadata: PacketMetadata,
    /// The actions to execute.
    pub actions: Vec<Action>,
    /// The packet.
    pub data: Vec<u8>,
}

/// Why a flow was removed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RemovedReason {
    /// No packets for its idle timeout.
    IdleTimeout,
    /// Its hard timeout passed.
    HardTimeout,
    /// Deleted by a flow-mod.
    Delete,
    /// Deleted with a group that it sends to.
    GroupDelete,
    /// Deleted with a meter that it uses.
    MeterDelete,
    /// Evicted for room.
    Eviction,
}

/// A controller's role.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// No change: requests the current role.
    NoChange,
    /// One of equals.
    Equal,
    /// The only one that may change the switch.
    Primary,
    /// May only read.
    Secondary,
}

/// The asynchronous messages that a controller receives: masks of reasons, first as primary or equal, then as
/// secondary.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct AsyncMasks {
    /// Mask of packet-in reasons.
    pub packet_in: [Option<u32>; 2],
    /// Mask of port-status reasons.
    pub port_status: [Option<u32>; 2],
    /// Mask of flow-removed reasons.
    pub flow_removed: [Option<u32>; 2],
    /// Mask of table-status reasons, from OpenFlow 1.4 on.
    pub table_status: [Option<u32>; 2],
    /// Mask of requestforward reasons, from OpenFlow 1.4 on.
    pub request_forward: [Option<u32>; 2],
}

/// A message, in either direction.
#[derive(Clone, PartialEq, Debug)]
pub enum Message {
    /// Opens a connection.
    Hello {
        /// The supported versions: bit `n` for wire version `n`.
        versions: u32,
    },
    /// Reports an error.
    Error {
        /// The error.
        code: ErrorCode,
        /// The beginning of the rejected message; for an unknown vendor error, preceded by that error's
        /// additional fields.
        data: Vec<u8>,
    },
    /// An echo request with its data.
    EchoRequest(Vec<u8>),
    /// An echo reply with its data.
    EchoReply(Vec<u8>),
    /// Requests the switch's features.
    FeaturesRequest,
    /// The switch's features.
    FeaturesReply {
        /// Its datapath id.
        datapath_id: DatapathId,
        /// Number of packets it can buffer: 0.
        buffers: u32,
        /// Its number of tables.
        tables: u8,
        /// The connection's auxiliary id (0 for the main connection).
        auxiliary_id: u8,
        /// Its ports; written in OpenFlow 1.0 only.
        ports: Vec<PortDesc>,
    },
    /// Requests the configuration.
    GetConfigRequest,
    /// The configuration.
    GetConfigReply {
        /// Fragment handling, and whether packets with an invalid TTL go to the controller.
        flags: u16,
        /// Most bytes of a missed packet sent to the controller.
        miss_send_len: u16,
    },
    /// Sets the configuration.
    SetConfig {
        /// As in `GetConfigReply`.
        flags: u16,
        /// As in `GetConfigReply`.
        miss_send_len: u16,
    },
    /// A packet sent to the controller.
    PacketIn(PacketIn),
    /// A packet sent by the controller.
    PacketOut(PacketOut),
    /// NXT_RESUME: resumes a paused packet.
    Resume(Box<PacketIn>),
    /// Modifies flows.
    FlowMod(FlowMod),
    /// A flow was removed.
    FlowRemoved {
        /// The flow before its removal.
        flow: FlowStatsEntry,
        /// The reason.
        reason: RemovedReason,
        /// NXT_FLOW_REMOVED, in OpenFlow 1.0.
        nicira: bool,
    },
    /// Modifies a port.
    PortMod {
        /// The port.
        port: OfPort,
        /// Its Ethernet address, which must be correct.
        mac: MacAddr,
        /// New bits.
        config: PortConfig,
        /// The bits to change.
        mask: PortConfig,
    },
    /// A port was added, modified or removed.
    PortStatus {
        /// Which of these.
        reason: PortReason,
        /// The port.
        port: PortDesc,
    },
    /// Modifies groups.
    GroupMod(Box<GroupMod>),
    /// Modifies meters (from OpenFlow 1.3 on).
    MeterMod(MeterMod),
    /// Reports another controller's modification (from 1.4 on, or the ONF's extension in 1.3 and Nicira's
    /// before).
    RequestForward {
        /// The transaction id of the other controller's message.
        xid: u32,
        /// The message: a group-mod or a meter-mod.
        request: Box<Message>,
    },
    /// Modifies tables.
    TableMod(TableMod),
    /// A table's vacancy crossed a threshold (from OpenFlow 1.4 on).
    TableStatus {
        /// The threshold that was crossed.
        reason: TableReason,
        /// The table.
        desc: TableDesc,
    },
    /// Requests statistics.
    StatsRequest(StatsRequest),
    /// Statistics.
    StatsReply(StatsReply),
    /// Cancels the flow monitor with this id.
    FlowMonitorCancel(u32),
    /// Requests a reply after all earlier messages are processed.
    BarrierRequest,
    /// All earlier messages are processed.
    BarrierReply,
    /// Requests a role (OFPT_ROLE_REQUEST or NXT_ROLE_REQUEST).
    RoleRequest {
        /// The role.
        role: Role,
        /// The generation id.
        generation: Option<u64>,
    },
    /// The controller's role.
    RoleReply {
        /// The role.
        role: Role,
        /// The generation id.
        generation: Option<u64>,
    },
    /// The controller's role changed (OFPT_ROLE_STATUS, or the ONF's extension in 1.3).
    RoleStatus {
        /// The role.
        role: Role,
        /// OpenFlow's reason: 0 another controller became primary, 1 the configuration changed.
        reason: u8,
        /// The generation id.
        generation: Option<u64>,
    },
    /// Opens, closes, commits or discards a bundle, or replies to that (1.4, or the ONF's extension in 1.3).
    BundleControl {
        /// The bundle.
        bundle: u32,
        /// OpenFlow's control type: 0 is an open request, 1 an open reply, and so on to 7.
        control: u16,
        /// Flags: 1 atomic, 2 ordered.
        flags: u16,
    },
    /// Adds a message to a bundle.
    BundleAdd {
        /// The bundle.
        bundle: u32,
        /// Flags as in `BundleControl`.
        flags: u16,
        /// The message's transaction id.
        xid: u32,
        /// The message.
        message: Box<Message>,
        /// Its bytes, for errors.
        bytes: Vec<u8>,
    },
    /// NXT_SET_FLOW_FORMAT: accepted without effect, because all formats are understood.
    SetFlowFormat(u32),
    /// NXT_FLOW_MOD_TABLE_ID: whether OpenFlow 1.0 flow-mods contain a table.
    FlowModTableId(bool),
    /// NXT_SET_PACKET_IN_FORMAT
    SetPacketInFormat(PacketInFormat),
    /// NXT_SET_CONTROLLER_ID
    SetControllerId(u16),
    /// NXT_SET_ASYNC_CONFIG or OFPT_SET_ASYNC: sets the asynchronous messages to receive. From 1.4 on `None`
    /// leaves a mask unchanged.
    SetAsync(AsyncMasks),
    /// OFPT_GET_ASYNC_REQUEST (from OpenFlow 1.3 on)
    GetAsyncRequest,
    /// OFPT_GET_ASYNC_REPLY: the masks that [`Message::SetAsync`] sets.
    GetAsyncReply(AsyncMasks),
    /// OFPT_QUEUE_GET_CONFIG_REQUEST, before OpenFlow 1.4.
    QueueConfigRequest {
        /// The port; `NONE` means all.
        port: OfPort,
    },
    /// OFPT_QUEUE_GET_CONFIG_REPLY
    QueueConfigReply {
        /// The port.
        port: OfPort,
        /// Its queues.
        queues: Vec<u32>,
    },
    /// NXT_CT_FLUSH_ZONE
    CtFlushZone(u16),
    /// NXT_CT_FLUSH
    CtFlush(Box<CtFlush>),
    /// NXT_TLV_TABLE_MOD
    TlvTableMod {
        /// The command.
        command: TlvCommand,
        /// The mappings.
        maps: Vec<TlvMap>,
    },
    /// NXT_TLV_TABLE_REQUEST
    TlvTableRequest,
    /// NXT_TLV_TABLE_REPLY
    TlvTableReply {
        /// Space for options, in bytes.
        space: u32,
        /// The number of fields.
        fields: u16,
        /// The mappings, sorted by field.
        maps: Vec<TlvMap>,
    },
}
