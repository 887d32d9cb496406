//! The fast path: finds connections, updates them and writes keys, in batches.

pub(crate) mod follow;
pub(crate) mod lookahead;
pub(crate) mod track;
pub(crate) mod track_v6;
pub(crate) mod update;
