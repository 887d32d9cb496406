//! Packets of connections that are known: found, followed and written down in batches.

pub(crate) mod follow;
pub(crate) mod lookahead;
pub(crate) mod track;
pub(crate) mod track_v6;
pub(crate) mod update;
