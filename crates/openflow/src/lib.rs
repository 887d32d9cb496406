//! OpenFlow 1.0, 1.3 and 1.5 with the Nicira extensions: bytes to types and back, and the flow
//! syntax of `ovs-ofctl` to types and back.
//!
//! The types are the same for all versions; [`Version`] says how they are written. No sockets.

#![forbid(unsafe_code)]

pub mod action;
pub mod error;
pub mod message;

pub use action::Action;
pub use error::{ErrorCode, OfError};
pub use message::{FlowMod, Message, Version};
