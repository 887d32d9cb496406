//! A connection's state: plain data, without pointers, so that it can be written down.

use crate::counters::Counters;
use crate::key::Key;
use crate::limit::Admission;
use crate::query::{Exchange, Query};
use crate::sctp::{Association, Chunks};
use crate::tcp::{Segment, TcpPeers, Update};
use crate::timeout::Timeout;
use base::Instant;
use flow::NatKind;
use wire::protocol;

/// Everything that is known of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Connection {
    /// What packets in the original direction look like before translation.
    pub original: Key,
    /// What packets in the reply direction look like before translation.
    pub reply: Key,
    pub protocol: Protocol,
    label: [u64; 2],
    pub deadline: Instant,
    pub mark: u32,
    pub admission: Admission,
    /// The side that is translated in the original direction.
    pub nat: Option<NatKind>,
    pub helper: Option<Helper>,
    /// A helper expected it: it is related to the connection that announced it.
    pub is_expected: bool,
}

// Beside it, the index has 8 bytes for a connection (16 where it is translated) and the timing
// wheel has 16.
const _: () = assert!(size_of::<Connection>() == 144);

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
            Some(segment) if key.protocol == protocol::TCP => {
                let (peers, timeout) = TcpPeers::new(segment);
                (Protocol::Tcp(peers), timeout)
            }
            _ if matches!(key.protocol, protocol::ICMP | protocol::ICMPV6) => {
                (Protocol::Icmp(Query::First), Query::First.timeout())
            }
            _ => (Protocol::Other(Exchange::First), Exchange::First.timeout()),
        }
    }

    /// Follows a packet. A timeout is given where the connection's time begins anew.
    pub fn update(
        &mut self,
        segment: Option<&Segment>,
        chunks: Option<&Chunks>,
        is_reply: bool,
        check_windows: bool,
        counters: &mut Counters,
    ) -> (Update, Option<Timeout>) {
        match (self, segment) {
            (Protocol::Tcp(peers), Some(segment)) => {
                peers.update(segment, is_reply, check_windows, counters)
            }
            (Protocol::Sctp(association), _) => match chunks {
                Some(chunks) => association.update(chunks, is_reply, counters),
                None => (Update::Invalid, None),
            },
            // A TCP connection's packets all have a segment; without one there is nothing to learn.
            (Protocol::Tcp(_), None) => (Update::Invalid, None),
            (Protocol::Icmp(query), _) => {
                let (update, timeout) = query.update(is_reply);
                (update, Some(timeout))
            }
            (Protocol::Other(exchange), _) => {
                let (update, timeout) = exchange.update(is_reply);
                (update, Some(timeout))
            }
        }
    }
}

impl Connection {
    /// A connection without translation whose replies are the reverse of its packets.
    pub fn new(original: Key, protocol: Protocol) -> Connection {
        Connection {
            original,
            reply: original.reversed(),
            protocol,
            label: [0; 2],
            deadline: Instant::ZERO,
            mark: 0,
            admission: Admission::default(),
            nat: None,
            helper: None,
            is_expected: false,
        }
    }

    pub fn label(&self) -> u128 {
        u128::from(self.label[0]) << 64 | u128::from(self.label[1])
    }

    pub fn set_label(&mut self, label: u128) {
        self.label = [(label >> 64) as u64, label as u64];
    }

    /// Whether its time ran out.
    pub fn has_expired(&self, now: Instant) -> bool {
        now >= self.deadline
    }
}
