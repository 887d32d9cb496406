//! Management: dumps, filters, flushes, limits, timeouts, statistics, events, and offloaded connections.

pub(crate) mod change;
pub(crate) mod cursor;
pub(crate) mod entry;
pub(crate) mod filter;
pub mod flush;
pub(crate) mod limit;
pub(crate) mod offloaded;
pub(crate) mod settings;
pub(crate) mod stats;
pub mod text;
pub(crate) mod windows;
