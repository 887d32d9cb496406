//! Packet headers: the fast parse for most packets, the full parse for all, and the original tuple in the key.

pub(crate) mod extract;
pub(crate) mod fast_parse;
pub(crate) mod fast_parse_v6;
pub(crate) mod original_tuple;
pub(crate) mod parsed;
