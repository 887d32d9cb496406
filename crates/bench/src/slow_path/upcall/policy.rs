//! Distribution of upcalls to handlers.

use flow::{Field, FlowKey};
use wire::ethertype;

/// The policies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Policy {
    /// One list per handler, in order of arrival. Packets are distributed by a flow hash that ignores ARP, so
    /// all ARP goes to the first handler; the kernels of that time behaved so.
    OneForArp,
    /// The same, but ARP goes to the handlers in turn, as in the proposed patch.
    ArpSpread,
    /// This switch's policy: by flow, including ARP's addresses; each handler has a queue per port and class,
    /// served in turn.
    Ours,
}

impl Policy {
    /// In the order of a report.
    pub const ALL: [Policy; 3] = [Policy::OneForArp, Policy::ArpSpread, Policy::Ours];

    /// Its name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Policy::OneForArp => "arp_to_one_handler",
            Policy::ArpSpread => "arp_spread_in_turn",
            Policy::Ours => "tidegate",
        }
    }

    /// Its title in text.
    pub fn title(self) -> &'static str {
        match self {
            Policy::OneForArp => "all ARP to one handler",
            Policy::ArpSpread => "ARP to each in turn",
            Policy::Ours => "queues by port and class",
        }
    }
}

/// The handler of an upcall under a policy with one list per handler.
pub fn handler_of(policy: Policy, key: &FlowKey, handlers: u16, arp_turn: &mut u16) -> u16 {
    const ARP: u16 = ethertype::ARP;
    const MIX: u64 = 0x9e37_79b9_7f4a_7c15;
    if key.eth_type() == ARP {
        if policy == Policy::ArpSpread {
            *arp_turn = (*arp_turn + 1) % handlers;
            return *arp_turn;
        }
        return 0;
    }
    let addresses = (key.get(Field::Ipv4Src) << 32 | key.get(Field::Ipv4Dst)) as u64;
    let ports = u64::from(key.tp_src()) << 16 | u64::from(key.tp_dst());
    let hash = (addresses.wrapping_mul(MIX) ^ ports).wrapping_mul(MIX) >> 32;
    (hash % u64::from(handlers)) as u16
}
