//! The fast path: finds connections, updates them and writes keys, in batches. The slow path is below it.

pub(crate) mod follow;
pub(crate) mod lookahead;
pub(crate) mod track;
pub(crate) mod track_v6;
