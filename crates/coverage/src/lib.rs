//! Counters of what happens beside the packets, by the names of Open vSwitch, which exporters of metrics know.
//!
//! They are global, as it is only their sums that matter: no code reads them but the command that prints them. What
//! happens to packets is counted where it happens, per worker, and never here.

#![forbid(unsafe_code)]

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

macro_rules! events {
    ($($(#[$doc:meta])* $name:ident = $text:literal,)*) => {
        /// A counted event.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[repr(u8)]
        pub enum Event {
            $($(#[$doc])* $name,)*
        }

        impl Event {
            /// All of them, in the order of their numbers.
            pub const ALL: &[Event] = &[$(Event::$name,)*];

            /// The counter's name (ovs: `lib/coverage.h`, `COVERAGE_DEFINE`).
            pub const fn name(self) -> &'static str {
                match self {
                    $(Event::$name => $text,)*
                }
            }
        }
    };
}

events! {
    /// The configuration was applied.
    BridgeReconfigure = "bridge_reconfigure",
    /// A port was added to the datapath.
    PortAdd = "dpif_port_add",
    /// A port was removed from the datapath.
    PortDel = "dpif_port_del",
    /// A datapath flow was installed or replaced.
    FlowPut = "dpif_flow_put",
    /// A datapath flow was deleted.
    FlowDel = "dpif_flow_del",
    /// The datapath was told to execute actions on a packet.
    Execute = "dpif_execute",
    /// A packet was translated.
    Translate = "xlate_actions",
    /// An OpenFlow flow expired.
    Expired = "ofproto_dpif_expired",
    /// A controller sent a packet.
    PacketOut = "ofproto_packet_out",
    /// A controller sent a message.
    ReceiveOpenflow = "ofproto_recv_openflow",
    /// An OpenFlow port changed.
    UpdatePort = "ofproto_update_port",
    /// A packet for a controller was dropped, since too many wait.
    PacketInOverflow = "packet_in_overflow",
    /// A connection to a controller was begun.
    VconnOpen = "vconn_open",
    /// An OpenFlow message was received.
    VconnReceived = "vconn_received",
    /// An OpenFlow message was sent.
    VconnSent = "vconn_sent",
    /// An OpenFlow message was put into the output of a connection.
    RconnQueued = "rconn_queued",
    /// An OpenFlow message in the output of a connection was sent.
    RconnSent = "rconn_sent",
    /// A connection was begun, of OpenFlow or to the database.
    StreamOpen = "stream_open",
    /// A socket was opened that listens for connections.
    PstreamOpen = "pstream_open",
    /// A transaction with the database was sent.
    TransactionIncomplete = "txn_incomplete",
    /// A transaction with the database succeeded.
    TransactionSuccess = "txn_success",
    /// A transaction with the database was refused.
    TransactionError = "txn_error",
    /// The status had nothing new for the database.
    TransactionUnchanged = "txn_unchanged",
    /// A command of the control socket was received.
    UnixctlReceived = "unixctl_received",
    /// A command of the control socket was answered.
    UnixctlReplied = "unixctl_replied",
    /// A netlink message was sent.
    NetlinkSent = "netlink_sent",
    /// A netlink message was received.
    NetlinkReceived = "netlink_received",
    /// The kernel had more netlink messages than the socket holds.
    NetlinkOverflow = "netlink_overflow",
    /// The kernel told of changed links, addresses or routes.
    LinksChanged = "nln_changed",
    /// All routes were read.
    RoutesDump = "route_table_dump",
    /// A device's statistics were read.
    StatisticsRead = "netdev_get_stats",
    /// A device's speed, duplex mode or driver was read.
    EthtoolRead = "netdev_get_ethtool",
}

static COUNTS: [AtomicU64; Event::ALL.len()] = [const { AtomicU64::new(0) }; Event::ALL.len()];

/// Counts an event.
pub fn count(event: Event) {
    add(event, 1);
}

/// Counts several events of a kind.
pub fn add(event: Event, events: u64) {
    if let Some(counter) = COUNTS.get(event as usize) {
        counter.fetch_add(events, Relaxed);
    }
}

/// All counters with their values.
pub fn counts() -> impl Iterator<Item = (Event, u64)> {
    Event::ALL.iter().zip(&COUNTS).map(|(event, counter)| (*event, counter.load(Relaxed)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_event_has_a_counter_and_a_name_of_its_own() {
        for (at, event) in Event::ALL.iter().enumerate() {
            assert_eq!(*event as usize, at);
            let same = Event::ALL.iter().filter(|other| other.name() == event.name());
            assert_eq!(same.count(), 1, "{}", event.name());
        }
        add(Event::PortAdd, 2);
        count(Event::PortAdd);
        assert_eq!(counts().find(|(event, _)| *event == Event::PortAdd), Some((Event::PortAdd, 3)));
    }
}
