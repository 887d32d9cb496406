//! What a connection follows, by protocol: plain data that knows nothing of where it is kept.

use crate::key::Key;
use crate::query::{Exchange, Query};
use crate::sctp::{Association, Chunks};
use crate::tcp::{Segment, TcpPeers};
use crate::timeout::Timeout;
use wire::protocol;

/// What there is to follow, by protocol.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Protocol {
    Tcp(TcpPeers),
    Sctp(Association),
    Icmp(Query),
    Other(Exchange),
}

/// An application-layer helper that the connection was committed with.
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
    /// What a first packet sets up, and how long that is remembered.
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

    /// The same of a packet that is TCP's if it has a segment, and no ICMP.
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
