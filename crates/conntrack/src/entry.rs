//! Connections as dumps show them.

use crate::connection::Protocol;
use crate::key::Key;
use crate::record::{Record, passed_ms};
use crate::sctp::SctpState;
use crate::tcp::{Scale, TcpPeers, TcpState};
use base::{Instant, Zone};
use flow::Tuple;

/// A connection, as it was when it was looked at.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Its packets in the original direction, before translation.
    pub original: Tuple,
    /// Its packets in the reply direction, before translation.
    pub reply: Tuple,
    /// Its zone.
    pub zone: Zone,
    /// Its mark.
    pub mark: u32,
    /// Its label.
    pub label: u128,
    /// Whole seconds until it goes if nothing comes.
    pub timeout_s: u32,
    /// How far it is, of TCP.
    pub tcp: Option<TcpEntry>,
    /// How far it is, of SCTP.
    pub sctp: Option<SctpEntry>,
    /// The application-layer helper that it was committed with.
    pub helper: Option<&'static str>,
    /// The connection that announced it, where a helper expected it: its original direction. Only in
    /// dumps.
    pub parent: Option<Tuple>,
    /// What passed in the original direction; nothing where counting is switched off.
    pub original_traffic: Traffic,
    /// What passed in the reply direction.
    pub reply_traffic: Traffic,
    /// Whole seconds since it began.
    pub age_s: u64,
}

/// Packets of one direction of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Traffic {
    /// How many.
    pub packets: u64,
    /// Their bytes, from the Ethernet header on.
    pub bytes: u64,
}

/// What dumps say of a TCP connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TcpEntry {
    /// The side that began.
    pub original: TcpSide,
    /// The other side.
    pub reply: TcpSide,
}

/// What dumps say of an SCTP association.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SctpEntry {
    /// Where it is.
    pub state: SctpState,
    /// The verification tag of packets in the original direction; 0 if not known.
    pub tag_original: u32,
    /// And of those in the reply direction.
    pub tag_reply: u32,
}

/// What dumps say of one side of a TCP connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TcpSide {
    /// Where it is.
    pub state: TcpState,
    /// How far its windows are shifted.
    pub window_scale: u8,
    /// Its SYN was seen and offered window scaling.
    pub scaling_known: bool,
    /// Its SYN was not seen.
    pub is_liberal: bool,
}

impl TcpEntry {
    /// The one state that the connection is shown in.
    #[must_use]
    pub fn state(&self) -> TcpState {
        TcpState::of_connection(self.original.state, self.reply.state)
    }
}

impl Entry {
    /// What is shown of a connection that lives, or `None` if it does not.
    pub(crate) fn new(record: &Record<'_>, parent: Option<&Key>, now: Instant) -> Option<Entry> {
        (!record.life().is_over(passed_ms(now))).then(|| Entry::of(record, parent, now))
    }

    /// What is shown of a connection, be it over or not.
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
    let side = |peer: &crate::tcp::Peer| TcpSide {
        state: peer.state,
        window_scale: peer.scale.shift(),
        scaling_known: peer.scale.is_known(),
        is_liberal: peer.scale == Scale::UNKNOWN,
    };
    TcpEntry { original: side(&peers.original), reply: side(&peers.reply) }
}
