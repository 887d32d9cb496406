//! OpenFlow 1.0 to 1.5 with the Nicira extensions: encoding and decoding of messages, and parsing and
//! formatting of the flow syntax of `ovs-ofctl`.
//!
//! The types are the same for all versions; [`Version`] selects the encoding. No sockets.

#![forbid(unsafe_code)]

pub mod action;
mod actions;
mod bytes;
mod codec;
mod continuation;
mod ct_flush;
mod duration;
pub mod error;
mod error_codes;
mod flow_mod;
mod flow_removed;
mod framer;
mod group_mod;
mod header;
mod hello;
pub mod message;
mod meter_mod;
mod of10_match;
mod of11_match;
mod options;
mod oxm;
mod oxs;
mod packet_in;
mod packet_out;
mod port;
mod queue;
mod stats;
mod table_mod;
pub mod text;
mod tlv_table;
mod vendor;
mod version;

pub use action::Action;
pub use actions::{Place, check, check_bucket};
pub use codec::{decode, encode};
pub use error::{ErrorCode, OfError};
pub use framer::{Framer, HEADER_LEN};
pub use header::{DecodeOptions, EncodeOptions, Header, Xid};
pub use message::{FlowMod, Message};
pub use options::{option_fields, place_options, unmapped};
pub use oxm::packet_type_to_wire;
pub use stats::{has_more, set_more};
pub use table_mod::EVICTION_FLAGS;
pub use version::Version;
