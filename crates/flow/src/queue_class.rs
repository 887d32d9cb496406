//! The classes of upcalls. Each class is queued and rate-limited separately.

use crate::key::FlowKey;
use crate::upcall::UpcallKind;
use wire::{ethertype, protocol};

/// The class of an upcall. Each port has one queue per class.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum QueueClass {
    /// Control protocols: LACP, CFM, the spanning tree protocols and the like, and BFD.
    Control,
    /// ARP and IPv6 neighbour discovery.
    Neighbour,
    /// The first packet of a TCP connection.
    TcpSyn,
    /// Other IP packets for one host.
    Ip,
    /// Multicast and broadcast packets.
    Multicast,
    /// Packets that are neither IP nor of another class.
    Other,
    /// Packets that a flow sends to a controller.
    Controller,
}

impl QueueClass {
    /// All classes.
    pub const ALL: [QueueClass; 7] = [
        QueueClass::Control,
        QueueClass::Neighbour,
        QueueClass::TcpSyn,
        QueueClass::Ip,
        QueueClass::Multicast,
        QueueClass::Other,
        QueueClass::Controller,
    ];

    /// Returns the name of the class in settings.
    pub fn name(self) -> &'static str {
        match self {
            QueueClass::Control => "control",
            QueueClass::Neighbour => "neighbor",
            QueueClass::TcpSyn => "tcp-syn",
            QueueClass::Ip => "ip",
            QueueClass::Multicast => "multicast",
            QueueClass::Other => "other",
            QueueClass::Controller => "controller",
        }
    }

    /// The class of an upcall.
    pub fn of(kind: &UpcallKind, key: &FlowKey) -> QueueClass {
        /// TCP flags of a first packet: SYN without ACK.
        const SYN: u16 = 0x02;
        const SYN_ACK: u16 = 0x12;
        match kind {
            UpcallKind::Controller(_) => return QueueClass::Controller,
            UpcallKind::Protocol(_) => return QueueClass::Control,
            UpcallKind::Miss => {}
        }
        let (destination, protocol) = (key.eth_dst(), key.nw_proto());
        match key.eth_type() {
            _ if destination.is_reserved() => QueueClass::Control,
            ethertype::SLOW | ethertype::CFM => QueueClass::Control,
            ethertype::ARP | ethertype::RARP => QueueClass::Neighbour,
            ethertype::IPV6
                if protocol == protocol::ICMPV6 && (133..=137).contains(&key.tp_src()) =>
            {
                QueueClass::Neighbour
            }
            ethertype::IPV4 | ethertype::IPV6 => match (protocol, key.tp_dst()) {
                (protocol::UDP, 3784 | 3785 | 4784) => QueueClass::Control,
                _ if destination.is_multicast() => QueueClass::Multicast,
                (protocol::TCP, _) if key.tcp_flags() & SYN_ACK == SYN => QueueClass::TcpSyn,
                _ => QueueClass::Ip,
            },
            _ if destination.is_multicast() => QueueClass::Multicast,
            _ => QueueClass::Other,
        }
    }
}
