//! Rate limits for crates that read no clock. Everything that they log, another party can cause, such as a controller's
//! requests, so each place in their code has a limit.

use super::{RateLimit, lock};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// The crates.
const CRATES: [&str; 2] = ["ofproto", "openflow"];
/// Messages per minute, and at once (ovs: `ofproto/connmgr.c`, `ofconn_send_error`).
const PER_MINUTE: u32 = 10;

/// The limits of places that have logged.
#[derive(Debug, Default)]
pub struct Places(Mutex<BTreeMap<(String, u32), Arc<RateLimit>>>);

impl Places {
    /// Returns the limit of a record's place, if it has one. Messages for debugging have none.
    pub fn limit(&self, record: &log::Record<'_>) -> Option<Arc<RateLimit>> {
        let of_crate = record.module_path()?.split("::").next()?;
        if !CRATES.contains(&of_crate) || record.level() > log::Level::Info {
            return None;
        }
        let place = (record.file()?.to_owned(), record.line()?);
        let limit = || Arc::new(RateLimit::new(PER_MINUTE, PER_MINUTE));
        Some(Arc::clone(lock(&self.0).entry(place).or_insert_with(limit)))
    }
}
