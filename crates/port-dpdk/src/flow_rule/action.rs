//! Actions of `rte_flow` (DPDK's programmer's guide, "Generic flow API", "Actions").

use super::connection::ObjectHandle;
use super::item::Ipv4;
use base::MacAddr;
use std::net::{Ipv4Addr, Ipv6Addr};

/// An action. The actions of a rule are executed in order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RuleAction {
    /// `COUNT`: counts packets and bytes of the rule, as received.
    Count,
    /// `AGE`: the device reports when the rule had no packet for this time.
    Age {
        /// At most 2^24 - 1.
        timeout_s: u32,
    },
    /// `VXLAN_DECAP`: removes all headers up to and including VXLAN's.
    VxlanDecap,
    /// `VXLAN_ENCAP`: adds these headers, with lengths and checksums.
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
    /// `REPRESENTED_PORT`: sends the packet to the entity that this DPDK port represents. Ends the list.
    RepresentedPort(u16),
    /// `DROP`. Ends the list.
    Drop,
    /// `MARK`: delivers the packet with this non-zero number.
    Mark(u32),
    /// `INDIRECT`: a connection object checks the packet.
    Check(ObjectHandle),
    /// `JUMP`: continues with the rules of another group. Ends the list.
    Jump(u32),
    /// `PORT_REPRESENTOR`: this DPDK port receives the packet. Ends the list.
    PortRepresentor(u16),
    /// `RSS`: the port receives the packet, on the same queue as without the rule. Ends the list.
    Rss,
}

/// The headers that VXLAN encapsulation adds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct VxlanEncap {
    /// Ethernet source.
    pub mac_source: MacAddr,
    /// Ethernet destination.
    pub mac_destination: MacAddr,
    /// The IP header. UDP over IPv6 needs a checksum, which `VXLAN_ENCAP` is not documented to compute.
    pub ip: Ipv4,
    /// UDP source port.
    pub udp_source: u16,
    /// UDP destination port.
    pub udp_destination: u16,
    /// VXLAN's network identifier.
    pub vni: u32,
}
