//! Protocol numbers of IEEE and IANA.

/// Ethernet types (IEEE 802 numbers).
pub mod ethertype {
    /// Values below this are 802.3 lengths, not types.
    pub const MIN: u16 = 0x0600;
    /// The type of a frame with a length and no SNAP header (ovs: `include/openvswitch/packets.h`,
    /// `FLOW_DL_TYPE_NONE`).
    pub const NONE: u16 = 0x05ff;
    /// IPv4.
    pub const IPV4: u16 = 0x0800;
    /// ARP.
    pub const ARP: u16 = 0x0806;
    /// Reverse ARP.
    pub const RARP: u16 = 0x8035;
    /// An 802.1Q customer tag.
    pub const VLAN: u16 = 0x8100;
    /// IPv6.
    pub const IPV6: u16 = 0x86dd;
    /// An 802.1ad service tag.
    pub const SERVICE_VLAN: u16 = 0x88a8;
    /// MPLS unicast.
    pub const MPLS: u16 = 0x8847;
    /// MPLS multicast, since RFC 5332 a label that the downstream node did not assign.
    pub const MPLS_MULTICAST: u16 = 0x8848;
    /// NSH, a service function chain's header (RFC 8300).
    pub const NSH: u16 = 0x894f;
    /// LLDP.
    pub const LLDP: u16 = 0x88cc;
    /// Slow protocols, such as LACP (IEEE 802.3 annex 57A).
    pub const SLOW: u16 = 0x8809;
    /// Connectivity fault management (IEEE 802.1ag).
    pub const CFM: u16 = 0x8902;
    /// A whole Ethernet frame within a tunnel.
    pub const TRANSPARENT_ETHERNET: u16 = 0x6558;
    /// ERSPAN type II within GRE, which Open vSwitch calls version 1.
    pub const ERSPAN_II: u16 = 0x88be;
    /// ERSPAN type III within GRE, which Open vSwitch calls version 2.
    pub const ERSPAN_III: u16 = 0x22eb;

    /// Returns whether this is the type of a VLAN tag. As in Open vSwitch (ovs: `lib/packets.h`), these are
    /// 0x8100 and 0x88a8, but not the 0x9100 of some vendors.
    pub const fn is_vlan(ethertype: u16) -> bool {
        matches!(ethertype, VLAN | SERVICE_VLAN)
    }

    /// Whether an MPLS label stack follows.
    pub const fn is_mpls(ethertype: u16) -> bool {
        matches!(ethertype, MPLS | MPLS_MULTICAST)
    }
}

/// IP protocol numbers and IPv6 next headers (IANA).
pub mod protocol {
    /// IPv6 hop-by-hop options.
    pub const HOP_BY_HOP: u8 = 0;
    /// ICMP for IPv4.
    pub const ICMP: u8 = 1;
    /// IGMP.
    pub const IGMP: u8 = 2;
    /// TCP.
    pub const TCP: u8 = 6;
    /// UDP.
    pub const UDP: u8 = 17;
    /// IPv4 within IP.
    pub const IPV4: u8 = 4;
    /// IPv6 within IP.
    pub const IPV6: u8 = 41;
    /// GRE.
    pub const GRE: u8 = 47;
    /// IPv6 routing header.
    pub const ROUTING: u8 = 43;
    /// IPv6 fragment header; also the protocol of later IPv6 fragments, as in Open vSwitch.
    pub const FRAGMENT: u8 = 44;
    /// IPsec authentication header.
    pub const AUTHENTICATION: u8 = 51;
    /// ICMPv6.
    pub const ICMPV6: u8 = 58;
    /// IPv6 destination options.
    pub const DESTINATION_OPTIONS: u8 = 60;
    /// DCCP.
    pub const DCCP: u8 = 33;
    /// SCTP.
    pub const SCTP: u8 = 132;
    /// UDP-Lite.
    pub const UDPLITE: u8 = 136;
}
