//! Statistics requests and replies.

use super::queue::{QueueId, QueueRequest, QueueStats};
use super::{
    FlowFlags, FlowMonitor, FlowUpdate, GroupDesc, GroupStats, MeterDesc, MeterStats, PortDesc,
    TableDesc, TableFeatures, TableMiss,
};
use crate::action::Action;
use base::{OfPort, TableId};
use flow::Match;

/// A statistics (multipart) request.
#[derive(Clone, PartialEq, Debug)]
pub enum StatsRequest {
    /// Description of the switch.
    Desc,
    /// Flows.
    Flow {
        /// The flows.
        request: FlowStatsRequest,
        /// NXST_FLOW.
        nicira: bool,
    },
    /// Sums over flows.
    Aggregate {
        /// The flows.
        request: FlowStatsRequest,
        /// NXST_AGGREGATE.
        nicira: bool,
    },
    /// All tables.
    Table,
    /// Statistics of one port, or of all (`NONE`).
    Port(OfPort),
    /// Description of one port, or of all (`NONE`).
    PortDesc(OfPort),
    /// Features of each table.
    TableFeatures {
        /// Features to set first; empty to change none.
        tables: Vec<TableFeatures>,
        /// More of them follow in another message.
        more: bool,
    },
    /// Descriptions of all tables (1.4).
    TableDesc,
    /// Features of groups.
    GroupFeatures,
    /// Description of one group, or of all ([`super::GROUP_ALL`]).
    GroupDesc(u32),
    /// Statistics of one group, or of all.
    GroupStats(u32),
    /// Features of meters.
    MeterFeatures,
    /// Configuration of one meter, or of all.
    MeterConfig(u32),
    /// Statistics of one meter, or of all.
    MeterStats(u32),
    /// Statistics of queues.
    Queue(QueueRequest),
    /// Descriptions of queues (1.4).
    QueueDesc(QueueRequest),
    /// Adds, modifies or deletes flow monitors.
    FlowMonitor(Vec<FlowMonitor>),
}

/// The selection of flows in a statistics request.
#[derive(Clone, PartialEq, Debug)]
pub struct FlowStatsRequest {
    /// Flows within this match.
    pub matching: Match,
    /// Flows in this table; `None` means all.
    pub table: Option<TableId>,
    /// Flows that output to this port; `NONE` matches all.
    pub out_port: OfPort,
    /// Flows that output to this group.
    pub out_group: Option<u32>,
    /// Flows with this cookie.
    pub cookie: u64,
    /// The bits of the cookie that are compared.
    pub cookie_mask: u64,
}

/// Selects all flows.
impl Default for FlowStatsRequest {
    fn default() -> Self {
        FlowStatsRequest {
            matching: Match::any(),
            table: None,
            out_port: OfPort::NONE,
            out_group: None,
            cookie: 0,
            cookie_mask: 0,
        }
    }
}

/// A statistics reply. A long one is encoded as several messages.
#[derive(Clone, PartialEq, Debug)]
pub enum StatsReply {
    /// Manufacturer, hardware, software, serial number, description of the datapath.
    Desc([String; 5]),
    /// Flows.
    Flow {
        /// The flows.
        flows: Vec<FlowStatsEntry>,
        /// NXST_FLOW.
        nicira: bool,
    },
    /// Sums.
    Aggregate {
        /// Packets.
        packets: u64,
        /// Bytes.
        bytes: u64,
        /// Flows.
        flows: u32,
        /// NXST_AGGREGATE.
        nicira: bool,
    },
    /// Tables.
    Table(Vec<TableStats>),
    /// Ports.
    Port(Vec<PortStats>),
    /// Descriptions of ports.
    PortDesc(Vec<PortDesc>),
    /// Features of each table.
    TableFeatures(Vec<TableStats>),
    /// Descriptions of tables.
    TableDesc(Vec<TableDesc>),
    /// Features of groups.
    GroupFeatures,
    /// Descriptions of groups.
    GroupDesc(Vec<GroupDesc>),
    /// Statistics of groups.
    GroupStats(Vec<GroupStats>),
    /// Features of meters.
    MeterFeatures,
    /// Configurations of meters.
    MeterConfig(Vec<MeterDesc>),
    /// Statistics of meters.
    MeterStats(Vec<MeterStats>),
    /// Statistics of queues.
    Queue(Vec<QueueStats>),
    /// Descriptions of queues.
    QueueDesc(Vec<QueueId>),
    /// Updates of flow monitors: first as the reply to a request, then with transaction id 0.
    FlowMonitor(Vec<FlowUpdate>),
}

/// A flow with its statistics.
#[derive(Clone, PartialEq, Debug)]
pub struct FlowStatsEntry {
    /// Its table.
    pub table: TableId,
    /// Its match.
    pub matching: Match,
    /// Priority.
    pub priority: u16,
    /// Cookie.
    pub cookie: u64,
    /// Time since its creation, in nanoseconds.
    pub duration_ns: u64,
    /// Idle timeout in seconds.
    pub idle_timeout_s: u16,
    /// Hard timeout in seconds.
    pub hard_timeout_s: u16,
    /// Seconds since the last packet.
    pub idle_age_s: u64,
    /// Seconds since it was last modified.
    pub hard_age_s: u64,
    /// Importance for eviction.
    pub importance: u16,
    /// Flags.
    pub flags: FlowFlags,
    /// Packets.
    pub packets: u64,
    /// Bytes.
    pub bytes: u64,
    /// Its actions.
    pub actions: Vec<Action>,
}

/// Statistics of a port; `None` means "not counted".
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PortStats {
    /// Its number, as raw 16 bits.
    pub port: OfPort,
    /// rx_packets, tx_packets, rx_bytes, tx_bytes, rx_dropped, tx_dropped, rx_errors, tx_errors,
    /// rx_frame_err, rx_over_err, rx_crc_err, collisions: in OpenFlow's order.
    pub counters: [Option<u64>; 12],
    /// Time since the port was added, in nanoseconds.
    pub duration_ns: u64,
}

/// Statistics of a table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TableStats {
    /// The table.
    pub table: TableId,
    /// Its name; empty for none.
    pub name: String,
    /// Number of flows.
    pub active: u32,
    /// Maximum number of flows.
    pub max_entries: u32,
    /// Packets looked up.
    pub lookups: u64,
    /// Packets that matched a flow.
    pub matched: u64,
    /// The treatment of other packets, in OpenFlow 1.1 and 1.2.
    pub miss: TableMiss,
}
