//! Actions of `rte_flow` (DPDK's programmer's guide, "Generic flow API", "Actions").

use super::connection::ObjectHandle;
use super::item::Ipv4;
use base::MacAddr;
use std::net::{Ipv4Addr, Ipv6Addr};

/// One action. A rule's actions are carried out in order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RuleAction {
    /// `COUNT`: packets and bytes of the rule are counted, as they came in.
    Count,
    /// `AGE`: the device notes when the rule had no packet for this time.
    Age {
        /// At most 2^24 - 1.
        timeout_s: u32,
    },
    /// `VXLAN_DECAP`: takes all headers up to VXLAN's away.
    VxlanDecap,
    /// `VXLAN_ENCAP`: puts these headers in front, with the packet's lengths and checksums.
    VxlanEncap(Box<VxlanEncap>),
    /// `OF_POP_VLAN`.
    PopVlan,
    /// `OF_PUSH_VLAN`, a tag of this Ethernet type.
    PushVlan(u16),
    /// `OF_SET_VLAN_VID`, of the outermost tag.
    SetVlanVid(u16),
    /// `OF_SET_VLAN_PCP`, of the outermost tag.
    SetVlanPcp(u8),
    /// `SET_MAC_SRC`.
    SetMacSource(MacAddr),
    /// `SET_MAC_DST`.
    SetMacDestination(MacAddr),
    /// `SET_IPV4_SRC`.
    SetIpv4Source(Ipv4Addr),
    /// `SET_IPV4_DST`.
    SetIpv4Destination(Ipv4Addr),
    /// `SET_IPV6_SRC`.
    SetIpv6Source(Ipv6Addr),
    /// `SET_IPV6_DST`.
    SetIpv6Destination(Ipv6Addr),
    /// `SET_TP_SRC`, of TCP or UDP.
    SetPortSource(u16),
    /// `SET_TP_DST`, of TCP or UDP.
    SetPortDestination(u16),
    /// `SET_TTL`: the time to live or hop limit.
    SetTtl(u8),
    /// `SET_IPV4_DSCP`.
    SetIpv4Dscp(u8),
    /// `SET_IPV6_DSCP`.
    SetIpv6Dscp(u8),
    /// `REPRESENTED_PORT`: sends the packet to what this port of DPDK represents. Ends the list.
    RepresentedPort(u16),
    /// `DROP`. Ends the list.
    Drop,
    /// `MARK`: the packet is delivered with this number, which is not 0.
    Mark(u32),
    /// `INDIRECT`: a connection object checks the packet.
    Check(ObjectHandle),
    /// `JUMP`: the rules of another group say what becomes of the packet. Ends the list.
    Jump(u32),
    /// `PORT_REPRESENTOR`: this port of DPDK receives the packet. Ends the list.
    PortRepresentor(u16),
    /// `RSS`: the port receives the packet, on the queue on which it does without the rule. Ends the list.
    Rss,
}

/// The headers that VXLAN encapsulation puts in front.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct VxlanEncap {
    /// Ethernet source.
    pub mac_source: MacAddr,
    /// Ethernet destination.
    pub mac_destination: MacAddr,
    /// The IP header. UDP over IPv6 has a checksum, which `VXLAN_ENCAP` is not said to compute.
    pub ip: Ipv4,
    /// UDP source port.
    pub udp_source: u16,
    /// UDP destination port.
    pub udp_destination: u16,
    /// VXLAN's network identifier.
    pub vni: u32,
}
