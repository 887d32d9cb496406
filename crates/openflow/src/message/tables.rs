//! What controllers may set of flow tables, and what tables tell of themselves.

use base::TableId;

/// What becomes of packets that no flow of a table matches, as OpenFlow 1.1 and 1.2 configure it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TableMiss {
    /// They go to the controller.
    Controller,
    /// They are looked up in the next table.
    Continue,
    /// They are dropped.
    Drop,
}

/// When a table tells how much room it has, in percent of its size that is free.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct VacancyEvents {
    /// Once less than this is free.
    pub down: u8,
    /// Once more than this is free.
    pub up: u8,
}

/// Changes how tables behave (OFPT_TABLE_MOD). `None` stays as it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TableMod {
    /// The table; `None` is all.
    pub table: Option<TableId>,
    /// What becomes of packets without a flow (OpenFlow 1.1 and 1.2).
    pub miss: Option<TableMiss>,
    /// Whether flows give way to others when the table is full (from OpenFlow 1.4 on).
    pub evicts: Option<bool>,
    /// By what flows are to be chosen then (OFPTMPEF14_*).
    pub eviction_flags: Option<u32>,
    /// Whether the table tells how much room it has (from OpenFlow 1.4 on).
    pub vacancy: Option<Option<VacancyEvents>>,
}

/// How a table behaves (from OpenFlow 1.4 on).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TableDesc {
    /// The table.
    pub table: TableId,
    /// Whether a controller wants flows to give way to others.
    pub evicts: bool,
    /// When the table tells how much room it has, and how much that is, in percent.
    pub vacancy: Option<(VacancyEvents, u8)>,
}

/// Why a table tells how much room it has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TableReason {
    /// Little is left.
    VacancyDown,
    /// There is room again.
    VacancyUp,
}

/// What a controller wants a table to be (in a request for OFPMP_TABLE_FEATURES).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TableFeatures {
    /// The table.
    pub table: TableId,
    /// Whether tables that are not named are to go; otherwise they stay as they are.
    pub replaces: bool,
    /// The name, empty for none.
    pub name: String,
    /// How many flows it takes.
    pub max_entries: u32,
    /// Whether it is to do more than our tables do.
    pub exceeds: bool,
}
