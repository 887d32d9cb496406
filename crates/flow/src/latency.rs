//! Times at which an upcall passed each stage of the slow path.

use base::Instant;
use wire::ethertype;

/// The class of a packet that caused an upcall.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum UpcallClass {
    /// ARP.
    Arp,
    /// IPv4, fragments included.
    Ipv4,
    /// IPv6, neighbour discovery included.
    Ipv6,
    /// Everything else.
    Other,
}

impl UpcallClass {
    /// All classes, in the order of their numbers.
    pub const ALL: [UpcallClass; 4] =
        [UpcallClass::Arp, UpcallClass::Ipv4, UpcallClass::Ipv6, UpcallClass::Other];

    /// Returns the class of an Ethernet type.
    pub fn of(eth_type: u16) -> UpcallClass {
        match eth_type {
            ethertype::ARP => UpcallClass::Arp,
            ethertype::IPV4 => UpcallClass::Ipv4,
            ethertype::IPV6 => UpcallClass::Ipv6,
            _ => UpcallClass::Other,
        }
    }

    /// Returns its name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            UpcallClass::Arp => "arp",
            UpcallClass::Ipv4 => "ipv4",
            UpcallClass::Ipv6 => "ipv6",
            UpcallClass::Other => "other",
        }
    }
}

/// The times at which an upcall passed each stage, returned to its worker with the answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stamps {
    /// The class of the packet.
    pub class: UpcallClass,
    /// The handler that translated it.
    pub handler: u16,
    /// When the worker received the batch of the packet.
    pub received: Instant,
    /// When the worker queued the upcall.
    pub queued: Instant,
    /// When a handler dequeued it.
    pub taken: Instant,
    /// When its translation ended.
    pub translated: Instant,
}
