//! The offload state of flows, and the counters of all offers.

use flow::{OffloadId, OffloadTraffic, Refusal};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The offload state of a flow.
#[derive(Debug, Default)]
pub struct FlowOffloads {
    /// Rules that depend on it.
    pub rules: Vec<OffloadId>,
    /// Traffic that the device forwarded for it.
    pub traffic: OffloadTraffic,
    /// Offers that were refused.
    pub refused: BTreeMap<Refusal, Refused>,
}

/// Offers of a flow's packets that were refused for the same reason.
#[derive(Debug, Default)]
pub struct Refused {
    /// The number of offers.
    pub count: u64,
    /// The device's message about the last one, if there is any.
    pub words: Option<Arc<str>>,
}

/// Counters of all offers.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    /// Installed rules.
    pub installed: u64,
    /// Removed rules.
    pub removed: u64,
    /// Traffic that the device forwarded.
    pub traffic: OffloadTraffic,
    /// Offers that were refused.
    pub refused: BTreeMap<Refusal, u64>,
}
