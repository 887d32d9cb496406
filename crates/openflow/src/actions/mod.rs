//! Encoding and decoding of actions and instructions.

mod check;
mod choice;
mod encap;
mod learn;
mod length;
mod list;
mod mpls;
mod nicira;
mod nicira_out;
mod order;
mod sample;
mod set;
mod standard;
mod standard_out;

pub(crate) use check::ct_nesting;
pub use check::{Place, check, check_bucket};
pub(crate) use learn::with_protocol as learn_specs;
pub(crate) use list::{
    ActionForm, fits_action_set, put_actions, put_flow_actions, take_actions, take_flow_actions,
};
pub(crate) use nicira::MAX_LEN_MIN;
pub(crate) use order::check_flow as check_order;
pub(crate) use set::{assignable, segments};
