//! The classes of upcalls.

use flow::{FlowKey, UpcallKind};

/// What kind of upcall: each kind gets its own turns.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Class {
    /// LACP, CFM, spanning tree and their like, and BFD.
    Control,
    /// ARP and IPv6 neighbor discovery.
    Neighbor,
    /// The first packet of a TCP connection.
    TcpSyn,
    /// Other IP packets for one host.
    Ip,
    /// What goes to many.
    Multicast,
    Other,
    /// What a flow sends to a controller.
    Controller,
}

impl Class {
    pub fn of(kind: &UpcallKind, key: &FlowKey) -> Class {
        /// SYN without ACK.
        const SYN: u16 = 0x02;
        const SYN_ACK: u16 = 0x12;
        if matches!(kind, UpcallKind::Controller(_)) {
            return Class::Controller;
        }
        let (destination, protocol) = (key.eth_dst(), key.nw_proto());
        match key.eth_type() {
            _ if destination.is_reserved() => Class::Control,
            0x8809 | 0x8902 => Class::Control,
            0x0806 | 0x8035 => Class::Neighbor,
            0x86dd if protocol == 58 && (133..=137).contains(&key.tp_src()) => Class::Neighbor,
            0x0800 | 0x86dd => match (protocol, key.tp_dst()) {
                (17, 3784 | 3785 | 4784) => Class::Control,
                _ if destination.is_multicast() => Class::Multicast,
                (6, _) if key.tcp_flags() & SYN_ACK == SYN => Class::TcpSyn,
                _ => Class::Ip,
            },
            _ if destination.is_multicast() => Class::Multicast,
            _ => Class::Other,
        }
    }
}
