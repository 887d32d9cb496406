//! The protocols' state machines.

pub(crate) mod connection;
pub(crate) mod icmp_error;
pub(crate) mod query;
pub(crate) mod sctp;
pub(crate) mod tcp;
