//! Protocols whose connections have no handshake: UDP and all others but TCP, and ICMP queries
//! (ovs: `lib/conntrack-other.c`, `lib/conntrack-icmp.c`).

use crate::counters::Event;
use crate::key::{Family, Key};
use crate::protocols::tcp::Update;
use crate::timeout::Timeout;
use wire::{icmp, icmpv6};

/// The state of a connection without handshake.
///
/// Its first packet has a timeout of its own, but needs no state: it is the packet that creates the
/// connection. So the second packet changes only the deadline.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Exchange {
    /// Packets were seen in the original direction only.
    Single,
    /// Packets were seen in both directions.
    Multiple,
}

impl Exchange {
    /// The state and timeout that a first packet begins with.
    pub const FIRST: (Exchange, Timeout) = (Exchange::Single, Timeout::UdpFirst);

    /// Updates the state for a packet after the first.
    pub fn update(&mut self, is_reply: bool) -> (Update, Timeout) {
        if is_reply {
            *self = Exchange::Multiple;
        }
        match self {
            Exchange::Single => (Update::ValidNew, Timeout::UdpSingle),
            Exchange::Multiple => (Update::Valid, Timeout::UdpMultiple),
        }
    }
}

/// Whether an ICMP query was answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Query {
    /// The query is not answered.
    First,
    /// The query is answered.
    Reply,
}

impl Query {
    /// Updates the state for a packet.
    pub fn update(&mut self, is_reply: bool) -> (Update, Timeout) {
        if is_reply {
            *self = Query::Reply;
        }
        let update = if *self == Query::Reply { Update::Valid } else { Update::ValidNew };
        (update, self.timeout())
    }

    /// The timeout of the query.
    pub fn timeout(self) -> Timeout {
        match self {
            Query::First => Timeout::IcmpFirst,
            Query::Reply => Timeout::IcmpReply,
        }
    }

    /// Whether a connection may begin with this message; a reply may not.
    pub fn begins(key: &Key) -> Result<(), Event> {
        let is_request = match key.family {
            Family::V4 => matches!(
                key.icmp_type(),
                icmp::ECHO_REQUEST | icmp::TIMESTAMP_REQUEST | icmp::INFO_REQUEST
            ),
            Family::V6 => key.icmp_type() == icmpv6::ECHO_REQUEST,
        };
        if is_request { Ok(()) } else { Err(Event::IcmpNewReply) }
    }
}
