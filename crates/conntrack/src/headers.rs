//! Packet headers: the fast parse for most packets, the full parse for all, and writing the results.

pub(crate) mod extract;
pub(crate) mod fast_parse;
pub(crate) mod fast_parse_v6;
pub(crate) mod original_tuple;
pub(crate) mod parsed;
pub(crate) mod write;
