//! What several fuzz targets share.

#![forbid(unsafe_code)]

pub mod dice;
pub mod json;
pub mod known;
pub mod lines;
pub mod openflow_stream;
pub mod switch;
pub mod tracked;
