//! What is read from a packet's headers, fast for most packets and slowly for any, and what is written of it.

pub(crate) mod extract;
pub(crate) mod fast_parse;
pub(crate) mod fast_parse_v6;
pub(crate) mod original_tuple;
pub(crate) mod parsed;
pub(crate) mod write;
