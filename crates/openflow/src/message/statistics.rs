//! What statistics requests ask, and what their replies hold.

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
    /// Flows; `nicira` says that NXST_FLOW was asked, and is answered.
    Flow {
        /// Which.
        request: FlowStatsRequest,
        /// Nicira's form.
        nicira: bool,
    },
    /// Sums over flows; `nicira` as above.
    Aggregate {
        /// Which.
        request: FlowStatsRequest,
        /// Nicira's form.
        nicira: bool,
    },
    /// All tables.
    Table,
    /// One port, or all (`NONE`).
    Port(OfPort),
    /// Descriptions of one port, or all (`NONE`).
    PortDesc(OfPort),
    /// What each table can do.
    TableFeatures {
        /// What tables are to be before that; none are changed where it is empty.
        tables: Vec<TableFeatures>,
        /// More of them come in another message.
        more: bool,
    },
    /// Short description of all tables (1.4).
    TableDesc,
    /// What groups can be.
    GroupFeatures,
    /// One group, or all ([`super::GROUP_ALL`]).
    GroupDesc(u32),
    /// Statistics of one group, or of all.
    GroupStats(u32),
    /// What meters can be.
    MeterFeatures,
    /// One meter, or all.
    MeterConfig(u32),
    /// What one meter, or all, have seen.
    MeterStats(u32),
    /// Queues' statistics.
    Queue(QueueRequest),
    /// Queues' descriptions (1.4).
    QueueDesc(QueueRequest),
    /// Begins, changes or ends flow monitors.
    FlowMonitor(Vec<FlowMonitor>),
}

/// Which flows statistics are asked of.
#[derive(Clone, PartialEq, Debug)]
pub struct FlowStatsRequest {
    /// Within this match.
    pub matching: Match,
    /// In this table; `None` is all.
    pub table: Option<TableId>,
    /// That output to this port; `NONE` is any.
    pub out_port: OfPort,
    /// That send to this group.
    pub out_group: Option<u32>,
    /// With these cookie bits.
    pub cookie: u64,
    /// Which bits.
    pub cookie_mask: u64,
}

/// All flows.
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

/// The answer to a statistics request. A long one is written as several messages.
#[derive(Clone, PartialEq, Debug)]
pub enum StatsReply {
    /// Manufacturer, hardware, software, serial number, description of the datapath.
    Desc([String; 5]),
    /// Flows.
    Flow {
        /// The flows.
        flows: Vec<FlowStatsEntry>,
        /// Nicira's form.
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
        /// Nicira's form.
        nicira: bool,
    },
    /// Tables.
    Table(Vec<TableStats>),
    /// Ports.
    Port(Vec<PortStats>),
    /// Descriptions of ports.
    PortDesc(Vec<PortDesc>),
    /// What each table can do.
    TableFeatures(Vec<TableStats>),
    /// Short description of tables.
    TableDesc(Vec<TableDesc>),
    /// What groups can be.
    GroupFeatures,
    /// Groups.
    GroupDesc(Vec<GroupDesc>),
    /// What groups have carried.
    GroupStats(Vec<GroupStats>),
    /// What meters can be.
    MeterFeatures,
    /// Meters.
    MeterConfig(Vec<MeterDesc>),
    /// What meters have seen.
    MeterStats(Vec<MeterStats>),
    /// What queues have sent.
    Queue(Vec<QueueStats>),
    /// Which queues there are.
    QueueDesc(Vec<QueueId>),
    /// What flow monitors report: at first as the answer to a request, then with transaction id 0.
    FlowMonitor(Vec<FlowUpdate>),
}

/// A flow with its statistics.
#[derive(Clone, PartialEq, Debug)]
pub struct FlowStatsEntry {
    /// Its table.
    pub table: TableId,
    /// Which packets.
    pub matching: Match,
    /// Priority.
    pub priority: u16,
    /// Cookie.
    pub cookie: u64,
    /// How long it exists, in nanoseconds.
    pub duration_ns: u64,
    /// Seconds without packets after which it goes.
    pub idle_timeout_s: u16,
    /// Seconds after which it goes.
    pub hard_timeout_s: u16,
    /// Seconds since the last packet.
    pub idle_age_s: u64,
    /// Seconds since it was last modified.
    pub hard_age_s: u64,
    /// Eviction order.
    pub importance: u16,
    /// Flags.
    pub flags: FlowFlags,
    /// Packets.
    pub packets: u64,
    /// Bytes.
    pub bytes: u64,
    /// What it does.
    pub actions: Vec<Action>,
}

/// Statistics of a port; `None` is "not counted".
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PortStats {
    /// Its number, as raw 16 bits.
    pub port: OfPort,
    /// rx_packets, tx_packets, rx_bytes, tx_bytes, rx_dropped, tx_dropped, rx_errors, tx_errors,
    /// rx_frame_err, rx_over_err, rx_crc_err, collisions: in OpenFlow's order.
    pub counters: [Option<u64>; 12],
    /// How long the port exists, in nanoseconds.
    pub duration_ns: u64,
}

/// What one table says of itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TableStats {
    /// The table.
    pub table: TableId,
    /// Its name, empty for none.
    pub name: String,
    /// Flows in it.
    pub active: u32,
    /// Flows it takes at most.
    pub max_entries: u32,
    /// Packets looked up.
    pub lookups: u64,
    /// Packets that found a flow.
    pub matched: u64,
    /// What becomes of the others, as OpenFlow 1.1 and 1.2 tell it.
    pub miss: TableMiss,
}
