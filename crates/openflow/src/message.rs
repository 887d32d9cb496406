//! Messages, the same for every version of OpenFlow.

mod flow_mod;
mod flow_monitor;
mod group;
mod meter;
mod packet_in;
mod port;
mod queue;
mod statistics;
mod tables;
mod version;

pub use crate::packet_in::reason;
pub use crate::tlv_table::{TlvCommand, TlvMap};
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
pub use version::Version;

use crate::action::Action;
use crate::error::ErrorCode;
use base::{DatapathId, MacAddr, OfPort};
use flow::Match;

/// The state of the rest of a packet that a controller gets or gives, besides its bytes: registers,
/// metadata, port and connection fields, as a match with everything known exact.
pub type PacketMetadata = Match;

/// A packet from a controller.
#[derive(Clone, PartialEq, Debug)]
pub struct PacketOut {
    /// A buffered packet, in place of `data`.
    pub buffer_id: Option<u32>,
    /// Port and pipeline fields that the packet starts with.
    pub metadata: PacketMetadata,
    /// What to do with it.
    pub actions: Vec<Action>,
    /// The bytes.
    pub data: Vec<u8>,
}

/// Why a flow went.
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
    /// Only asks which role it has.
    NoChange,
    /// One of equals.
    Equal,
    /// The only one that may change the switch.
    Primary,
    /// May only read.
    Secondary,
}

/// Which asynchronous messages a controller wants: bits of their reasons, where it is primary or equal and
/// where it is secondary.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct AsyncMasks {
    /// Bits of packet-in reasons.
    pub packet_in: [Option<u32>; 2],
    /// Bits of port-status reasons.
    pub port_status: [Option<u32>; 2],
    /// Bits of flow-removed reasons.
    pub flow_removed: [Option<u32>; 2],
    /// Bits of table-status reasons, from OpenFlow 1.4 on.
    pub table_status: [Option<u32>; 2],
    /// Bits of the reasons of forwarded requests, from OpenFlow 1.4 on.
    pub request_forward: [Option<u32>; 2],
}

/// One message, either way.
#[derive(Clone, PartialEq, Debug)]
pub enum Message {
    /// Opens a connection; the versions that the sender speaks, bit `n` for wire version `n`.
    Hello {
        /// The versions.
        versions: u32,
    },
    /// Refuses a message.
    Error {
        /// Why.
        code: ErrorCode,
        /// The start of the message that is refused; in front of it, what a vendor's error that is
        /// not known has besides its numbers.
        data: Vec<u8>,
    },
    /// Asks for an echo.
    EchoRequest(Vec<u8>),
    /// The echo.
    EchoReply(Vec<u8>),
    /// Asks what the switch is.
    FeaturesRequest,
    /// What the switch is.
    FeaturesReply {
        /// Its number.
        datapath_id: DatapathId,
        /// Packets it can buffer: none.
        buffers: u32,
        /// How many tables it has.
        tables: u8,
        /// The connection's number among those of the switch (0 for the main one).
        auxiliary_id: u8,
        /// Its ports; written in OpenFlow 1.0 only.
        ports: Vec<PortDesc>,
    },
    /// Asks for the configuration.
    GetConfigRequest,
    /// The configuration.
    GetConfigReply {
        /// Fragment handling, and whether invalid TTLs go to the controller.
        flags: u16,
        /// Bytes of a missed packet that go to the controller.
        miss_send_len: u16,
    },
    /// Sets the configuration.
    SetConfig {
        /// As above.
        flags: u16,
        /// As above.
        miss_send_len: u16,
    },
    /// A packet for the controller.
    PacketIn(PacketIn),
    /// A packet from the controller.
    PacketOut(PacketOut),
    /// NXT_RESUME: goes on with a packet that was paused.
    Resume(Box<PacketIn>),
    /// Changes flows.
    FlowMod(FlowMod),
    /// A flow went.
    FlowRemoved {
        /// The flow as it was.
        flow: FlowStatsEntry,
        /// Why.
        reason: RemovedReason,
        /// Nicira's form (NXT_FLOW_REMOVED), in OpenFlow 1.0.
        nicira: bool,
    },
    /// Changes a port.
    PortMod {
        /// Which.
        port: OfPort,
        /// Its address, as a check.
        mac: MacAddr,
        /// New bits.
        config: PortConfig,
        /// Which.
        mask: PortConfig,
    },
    /// A port came, changed or went.
    PortStatus {
        /// Which of them.
        reason: PortReason,
        /// The port.
        port: PortDesc,
    },
    /// Changes groups.
    GroupMod(Box<GroupMod>),
    /// Changes meters (from OpenFlow 1.3 on).
    MeterMod(MeterMod),
    /// A controller tells what another one changed (from 1.4 on, or ONF's extension in 1.3 and Nicira's
    /// before).
    RequestForward {
        /// The transaction id of the other's message.
        xid: u32,
        /// The message: a group-mod or a meter-mod.
        request: Box<Message>,
    },
    /// Changes how tables behave.
    TableMod(TableMod),
    /// A table tells how much room it has (from OpenFlow 1.4 on).
    TableStatus {
        /// Whether little is left.
        reason: TableReason,
        /// The table.
        desc: TableDesc,
    },
    /// Asks for statistics.
    StatsRequest(StatsRequest),
    /// Statistics.
    StatsReply(StatsReply),
    /// Ends the flow monitor of this id.
    FlowMonitorCancel(u32),
    /// Asks to be told when all before is done.
    BarrierRequest,
    /// All before is done.
    BarrierReply,
    /// Asks for a role (OFPT_ROLE_REQUEST or NXT_ROLE_REQUEST).
    RoleRequest {
        /// The role.
        role: Role,
        /// Number of the election.
        generation: Option<u64>,
    },
    /// The role.
    RoleReply {
        /// The role.
        role: Role,
        /// Number of the election.
        generation: Option<u64>,
    },
    /// A controller has another role now (OFPT_ROLE_STATUS, or ONF's extension in 1.3).
    RoleStatus {
        /// The role.
        role: Role,
        /// OpenFlow's reason: 0 another controller became primary, 1 the configuration changed.
        reason: u8,
        /// Number of the election.
        generation: Option<u64>,
    },
    /// Opens, closes, commits or discards a bundle (1.4, or ONF's extension in 1.3); `reply`
    /// tells requests from answers.
    BundleControl {
        /// The bundle.
        bundle: u32,
        /// OpenFlow's control type: 0 open request, 1 open reply, and so on to 7.
        control: u16,
        /// 1 atomic, 2 ordered.
        flags: u16,
    },
    /// Puts a message into a bundle.
    BundleAdd {
        /// The bundle.
        bundle: u32,
        /// As in control.
        flags: u16,
        /// The message's transaction id.
        xid: u32,
        /// The message.
        message: Box<Message>,
        /// Its bytes, for errors.
        bytes: Vec<u8>,
    },
    /// NXT_SET_FLOW_FORMAT: accepted; all formats are always understood.
    SetFlowFormat(u32),
    /// NXT_FLOW_MOD_TABLE_ID: whether OpenFlow 1.0 flow-mods carry a table.
    FlowModTableId(bool),
    /// NXT_SET_PACKET_IN_FORMAT
    SetPacketInFormat(PacketInFormat),
    /// NXT_SET_CONTROLLER_ID
    SetControllerId(u16),
    /// NXT_SET_ASYNC_CONFIG or OFPT_SET_ASYNC: which asynchronous messages are wanted. From 1.4 on what
    /// is `None` stays as it is.
    SetAsync(AsyncMasks),
    /// OFPT_GET_ASYNC_REQUEST (from OpenFlow 1.3 on)
    GetAsyncRequest,
    /// OFPT_GET_ASYNC_REPLY: which asynchronous messages are wanted, as [`Message::SetAsync`] sets them.
    GetAsyncReply(AsyncMasks),
    /// OFPT_QUEUE_GET_CONFIG_REQUEST, before OpenFlow 1.4.
    QueueConfigRequest {
        /// The port; `NONE` is all.
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
        /// What to do.
        command: TlvCommand,
        /// With which mappings.
        maps: Vec<TlvMap>,
    },
    /// NXT_TLV_TABLE_REQUEST
    TlvTableRequest,
    /// NXT_TLV_TABLE_REPLY
    TlvTableReply {
        /// Room for options, in bytes.
        space: u32,
        /// How many fields there are.
        fields: u16,
        /// The mappings, by field.
        maps: Vec<TlvMap>,
    },
}
