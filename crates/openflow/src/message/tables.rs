//! Configuration and status of flow tables.

use base::TableId;

/// The treatment of packets that match no flow of a table, as OpenFlow 1.1 and 1.2 configure it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TableMiss {
    /// They go to the controller.
    Controller,
    /// They are looked up in the next table.
    Continue,
    /// They are dropped.
    Drop,
}

/// Thresholds of vacancy events, as percentages of free entries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct VacancyEvents {
    /// An event is sent when less than this is free.
    pub down: u8,
    /// An event is sent when more than this is free.
    pub up: u8,
}

/// Modifies tables (OFPT_TABLE_MOD). `None` leaves a setting unchanged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TableMod {
    /// The table; `None` means all.
    pub table: Option<TableId>,
    /// The treatment of packets that match no flow (OpenFlow 1.1 and 1.2).
    pub miss: Option<TableMiss>,
    /// Whether flows are evicted when the table is full (from OpenFlow 1.4 on).
    pub evicts: Option<bool>,
    /// The criteria of eviction (OFPTMPEF14_*).
    pub eviction_flags: Option<u32>,
    /// Vacancy events, enabled or disabled (from OpenFlow 1.4 on).
    pub vacancy: Option<Option<VacancyEvents>>,
}

/// The configuration of a table (from OpenFlow 1.4 on).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TableDesc {
    /// The table.
    pub table: TableId,
    /// Whether a controller enabled eviction.
    pub evicts: bool,
    /// The thresholds of vacancy events, and the current vacancy in percent.
    pub vacancy: Option<(VacancyEvents, u8)>,
}

/// The reason of a table-status message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TableReason {
    /// The vacancy fell below its threshold.
    VacancyDown,
    /// The vacancy rose above its threshold.
    VacancyUp,
}

/// The features that a controller requests for a table (OFPMP_TABLE_FEATURES).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TableFeatures {
    /// The table.
    pub table: TableId,
    /// Whether tables that are not named are to be disabled; otherwise they stay unchanged.
    pub replaces: bool,
    /// The name; empty for none.
    pub name: String,
    /// Maximum number of flows.
    pub max_entries: u32,
    /// Whether it requests features that the switch's tables do not have.
    pub exceeds: bool,
}
