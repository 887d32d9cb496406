//! The protocol state of a connection: plain data, independent of how records store it.

use crate::key::Key;
use crate::protocols::query::{Exchange, Query};
use crate::protocols::sctp::{Association, Chunks};
use crate::protocols::tcp::{Segment, TcpPeers};
use crate::timeout::Timeout;
use wire::protocol;

/// The state of a connection, by protocol.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Protocol {
    Tcp(TcpPeers),
    Sctp(Association),
    Icmp(Query),
    Other(Exchange),
}

/// The ALG that a connection was committed with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Helper {
    Ftp,
    Tftp,
}

impl Helper {
    pub fn from_name(name: &str) -> Option<Helper> {
        match name {
            "ftp" => Some(Helper::Ftp),
            "tftp" => Some(Helper::Tftp),
            _ => None,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Helper::Ftp => "ftp",
            Helper::Tftp => "tftp",
        }
    }
}

impl Protocol {
    /// Returns the state and timeout of the connection that a packet begins.
    pub fn new(
        key: &Key,
        segment: Option<&Segment>,
        chunks: Option<&Chunks>,
    ) -> (Protocol, Timeout) {
        if let Some(chunks) = chunks {
            let (association, timeout) = Association::new(chunks);
            return (Protocol::Sctp(association), timeout);
        }
        match segment {
            Some(_) if key.protocol == protocol::TCP => Protocol::of_segment(segment),
            _ if matches!(key.protocol, protocol::ICMP | protocol::ICMPV6) => {
                (Protocol::Icmp(Query::First), Query::First.timeout())
            }
            _ => Protocol::of_segment(None),
        }
    }

    /// [`Self::new`] for a packet of TCP, if it has a segment, or of a protocol without state other
    /// than ICMP.
    #[inline]
    pub fn of_segment(segment: Option<&Segment>) -> (Protocol, Timeout) {
        match segment {
            Some(segment) => {
                let (peers, timeout) = TcpPeers::new(segment);
                (Protocol::Tcp(peers), timeout)
            }
            None => {
                let (exchange, timeout) = Exchange::FIRST;
                (Protocol::Other(exchange), timeout)
            }
        }
    }
}
