//! Counters as the database has them.

use std::collections::BTreeMap;

/// Returns counters with owned names, in the database's range of numbers.
pub fn named<const N: usize>(counters: [(&str, u64); N]) -> BTreeMap<String, i64> {
    let within = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
    counters.into_iter().map(|(name, value)| (name.to_owned(), within(value))).collect()
}
