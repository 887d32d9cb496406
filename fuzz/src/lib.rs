//! What several fuzz targets share.

#![forbid(unsafe_code)]

pub mod openflow_stream;
pub mod switch;
