//! The load side: connections through a device under test, at a given rate (`generate`) or in search of the
//! highest rate (`cps-ndr`), made by the generator or a TRex server.
#![forbid(unsafe_code)]

pub mod cps_ndr;
pub mod dut;
pub mod endpoints;
pub mod error;
pub mod generate;
pub mod in_memory;
pub mod link;
mod machine;
pub mod provenance;
mod trex;
pub mod trial;
