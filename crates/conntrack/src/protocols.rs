//! The state machines: what each protocol makes of a packet of its connection.

pub(crate) mod connection;
pub(crate) mod icmp_error;
pub(crate) mod query;
pub(crate) mod sctp;
pub(crate) mod tcp;
