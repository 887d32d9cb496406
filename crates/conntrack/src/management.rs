//! What management reads and sets: entries and filters of dumps, changes, limits, settings, statistics, and
//! their texts.

pub(crate) mod change;
pub(crate) mod cursor;
pub(crate) mod entry;
pub(crate) mod filter;
pub(crate) mod limit;
pub(crate) mod settings;
pub(crate) mod stats;
pub mod text;
