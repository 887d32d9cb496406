//! Connections as dumps show them.

use crate::key::Key;
use crate::protocols::connection::Protocol;
use crate::protocols::sctp::SctpState;
use crate::protocols::tcp::{Scale, TcpPeers, TcpState};
use crate::record::{Record, passed_ms};
use base::{Instant, Zone};
use flow::Tuple;

/// A connection at the time of the dump.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// The tuple of the original direction, before NAT.
    pub original: Tuple,
    /// The tuple of the reply direction, before NAT.
    pub reply: Tuple,
    /// Its zone.
    pub zone: Zone,
    /// Its mark.
    pub mark: u32,
    /// Its label.
    pub label: u128,
    /// Whole seconds until the connection expires.
    pub timeout_s: u32,
    /// The states of both ends, for TCP.
    pub tcp: Option<TcpEntry>,
    /// The association's state, for SCTP.
    pub sctp: Option<SctpEntry>,
    /// The ALG that it was committed with.
    pub helper: Option<&'static str>,
    /// The original direction of the connection that announced this one to an ALG. Only in dumps.
    pub parent: Option<Tuple>,
    /// Traffic of the original direction; zero while counting is switched off.
    pub original_traffic: Traffic,
    /// Traffic of the reply direction.
    pub reply_traffic: Traffic,
    /// Whole seconds since it began.
    pub age_s: u64,
}

/// Packets and bytes of one direction of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Traffic {
    /// Number of packets.
    pub packets: u64,
    /// Number of bytes, from the Ethernet header on.
    pub bytes: u64,
}

/// The TCP part of an [`Entry`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TcpEntry {
    /// The client, which began the connection.
    pub original: TcpSide,
    /// The server.
    pub reply: TcpSide,
}

/// The SCTP part of an [`Entry`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SctpEntry {
    /// The state of the association.
    pub state: SctpState,
    /// The verification tag of packets in the original direction; 0 if unknown.
    pub tag_original: u32,
    /// The verification tag of packets in the reply direction; 0 if unknown.
    pub tag_reply: u32,
}

/// One end of a TCP connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TcpSide {
    /// The state of this end.
    pub state: TcpState,
    /// The shift of its windows (RFC 7323 section 2).
    pub window_scale: u8,
    /// Whether its SYN was seen and had the window scale option.
    pub scaling_known: bool,
    /// Whether its SYN was not seen, so that its windows are checked loosely.
    pub is_liberal: bool,
}

impl TcpEntry {
    /// The connection's state, one for both ends.
    #[must_use]
    pub fn state(&self) -> TcpState {
        TcpState::of_connection(self.original.state, self.reply.state)
    }
}

impl Entry {
    /// Returns the entry of a connection, or `None` if it has ended.
    pub(crate) fn new(record: &Record<'_>, parent: Option<&Key>, now: Instant) -> Option<Entry> {
        (!record.life().is_over(passed_ms(now))).then(|| Entry::of(record, parent, now))
    }

    /// Returns the entry of a connection, whether or not it has ended.
    pub(crate) fn of(record: &Record<'_>, parent: Option<&Key>, now: Instant) -> Entry {
        let life = record.life();
        let protocol = record.protocol();
        let tcp = match &protocol {
            Protocol::Tcp(peers) => Some(tcp_entry(peers)),
            _ => None,
        };
        let sctp = match &protocol {
            Protocol::Sctp(association) => {
                let [tag_original, tag_reply] = association.tags();
                Some(SctpEntry { state: association.state, tag_original, tag_reply })
            }
            _ => None,
        };
        let left = Instant::from_millis(life.deadline_ms()).saturating_since(now);
        let state = record.state();
        let [high, low] = record.label();
        let traffic = |index| {
            let (packets, bytes) = record.counts(index);
            Traffic { packets, bytes }
        };
        Entry {
            original: record.original().tuple(),
            reply: record.reply().tuple(),
            zone: Zone(record.zone()),
            mark: state.mark(),
            label: u128::from(high) << 64 | u128::from(low),
            timeout_s: u32::try_from(left.as_secs()).unwrap_or(u32::MAX),
            tcp,
            sctp,
            helper: state.helper().map(|helper| helper.name()),
            parent: parent.map(Key::tuple),
            original_traffic: traffic(0),
            reply_traffic: traffic(1),
            age_s: now.saturating_since(record.birth().start).as_secs(),
        }
    }
}

fn tcp_entry(peers: &TcpPeers) -> TcpEntry {
    let side = |peer: &crate::protocols::tcp::Peer| TcpSide {
        state: peer.state,
        window_scale: peer.scale.shift(),
        scaling_known: peer.scale.is_known(),
        is_liberal: peer.scale == Scale::UNKNOWN,
    };
    TcpEntry { original: side(&peers.original), reply: side(&peers.reply) }
}
