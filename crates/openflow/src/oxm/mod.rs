//! Fields on the wire: NXM (Nicira's) and OXM (OpenFlow's) type-length-value entries.
//!
//! Both have the same format; they differ in class and field numbers and in the width of `in_port`.

mod entry;
mod headers;
mod matching;
mod packet_type;
mod prerequisite;
mod table;
mod tunnel;

pub(crate) use entry::{
    hashed_bits, put_entry, put_field_id, put_hashed, put_header, put_option, take_entry,
    take_header, take_id,
};
pub(crate) use headers::is_of_nsh;
pub(crate) use matching::{
    Cookie, MatchForm, put_nxm_match, put_oxm_match, put_raw, take_nxm_match, take_oxm_match,
    take_raw,
};
pub use packet_type::to_wire as packet_type_to_wire;
pub(crate) use packet_type::{leave_out_default, to_key as packet_type_to_key};
pub(crate) use prerequisite::{Prerequisite, Proto, eth_type};
pub(crate) use table::{Spec, by_name, for_field, specs};
pub(crate) use tunnel::{is_tunnel_ipv4, tunnel_address};
