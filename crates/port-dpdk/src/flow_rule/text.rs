//! Rules as `dpdk-testpmd` commands ("Testpmd Application User Guide", "Flow rules management"), so that a
//! rule can be tried on a card without the switch.

use super::FlowRule;
use super::action::{RuleAction, VxlanEncap};
use super::item::{Eth, Ipv4, Ipv6, Item, Spec, Tcp, Udp, Vlan};
use base::MacAddr;
use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

/// The empty and the full mask of an address.
const NONE_ALL_MAC: (MacAddr, MacAddr) = (MacAddr([0; 6]), MacAddr::BROADCAST);
const NONE_ALL_V4: (Ipv4Addr, Ipv4Addr) = (Ipv4Addr::UNSPECIFIED, Ipv4Addr::BROADCAST);
const NONE_ALL_V6: (Ipv6Addr, Ipv6Addr) = (Ipv6Addr::UNSPECIFIED, Ipv6Addr::from_bits(u128::MAX));

/// A rule, with the number of the port of its packets.
pub struct Commands<'a>(pub u16, pub &'a FlowRule);

impl fmt::Display for Commands<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Commands(port, rule) = self;
        for action in &rule.actions {
            if let RuleAction::VxlanEncap(encap) = action {
                writeln!(f, "{encap}")?;
            }
        }
        write!(f, "flow create {port} {rule}")
    }
}

impl fmt::Display for FlowRule {
    /// The rule as in a command, starting with its attribute.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.group != 0 {
            write!(f, "group {} priority {} ", self.group, self.priority)?;
        }
        write!(f, "{} pattern", if self.transfers { "transfer" } else { "ingress" })?;
        self.items.iter().try_for_each(|item| write!(f, " {item} /"))?;
        f.write_str(" end actions")?;
        self.actions.iter().try_for_each(|action| write!(f, " {action} /"))?;
        f.write_str(" end")
    }
}

impl fmt::Display for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Item::RepresentedPort(port) => write!(f, "represented_port ethdev_port_id is {port}"),
            Item::Eth(eth) => eth_text(f, eth),
            Item::Vlan(Spec { value: Vlan { tci }, mask: Vlan { tci: mask } }) => {
                f.write_str("vlan")?;
                hex(f, "tci", *tci, *mask, u16::MAX)
            }
            Item::Ipv4(ip) => ipv4_text(f, ip),
            Item::Ipv6(ip) => ipv6_text(f, ip),
            Item::Tcp(tcp) => tcp_text(f, tcp),
            Item::Udp(Spec { value, mask }) => {
                f.write_str("udp")?;
                ports_text(f, value, mask)
            }
            // The grammar has no syntax for flags.
            Item::Vxlan { vni, .. } => write!(f, "vxlan vni is {vni}"),
            Item::Integrity { level, bits } => {
                write!(f, "integrity level is {level} value spec {bits:#x} value mask {bits:#x}")
            }
            Item::Connection(flags) => write!(f, "conntrack is {flags}"),
        }
    }
}

fn eth_text(f: &mut fmt::Formatter<'_>, Spec { value, mask }: &Spec<Eth>) -> fmt::Result {
    f.write_str("eth")?;
    field(f, "dst", value.destination, mask.destination, NONE_ALL_MAC)?;
    field(f, "src", value.source, mask.source, NONE_ALL_MAC)?;
    hex(f, "type", value.ethertype, mask.ethertype, u16::MAX)?;
    field(f, "has_vlan", u8::from(value.has_vlan), u8::from(mask.has_vlan), (0, 1))
}

fn ipv4_text(f: &mut fmt::Formatter<'_>, Spec { value, mask }: &Spec<Ipv4>) -> fmt::Result {
    f.write_str("ipv4")?;
    hex(f, "tos", value.tos, mask.tos, u8::MAX)?;
    field(f, "ttl", value.ttl, mask.ttl, (0, u8::MAX))?;
    field(f, "proto", value.protocol, mask.protocol, (0, u8::MAX))?;
    hex(f, "fragment_offset", value.fragment, mask.fragment, u16::MAX)?;
    field(f, "src", value.source, mask.source, NONE_ALL_V4)?;
    field(f, "dst", value.destination, mask.destination, NONE_ALL_V4)
}

fn ipv6_text(f: &mut fmt::Formatter<'_>, Spec { value, mask }: &Spec<Ipv6>) -> fmt::Result {
    f.write_str("ipv6")?;
    hex(f, "tc", value.class, mask.class, u8::MAX)?;
    hex(f, "flow", value.label, mask.label, 0xf_ffff)?;
    field(f, "proto", value.next_header, mask.next_header, (0, u8::MAX))?;
    field(f, "hop", value.hop_limit, mask.hop_limit, (0, u8::MAX))?;
    field(f, "src", value.source, mask.source, NONE_ALL_V6)?;
    field(f, "dst", value.destination, mask.destination, NONE_ALL_V6)?;
    field(f, "has_frag_ext", u8::from(value.has_fragment), u8::from(mask.has_fragment), (0, 1))
}

fn tcp_text(f: &mut fmt::Formatter<'_>, Spec { value, mask }: &Spec<Tcp>) -> fmt::Result {
    f.write_str("tcp")?;
    let udp = |tcp: &Tcp| Udp { source: tcp.source, destination: tcp.destination };
    ports_text(f, &udp(value), &udp(mask))?;
    hex(f, "flags", value.flags, mask.flags, u8::MAX)
}

fn ports_text(f: &mut fmt::Formatter<'_>, value: &Udp, mask: &Udp) -> fmt::Result {
    field(f, "src", value.source, mask.source, (0, u16::MAX))?;
    field(f, "dst", value.destination, mask.destination, (0, u16::MAX))
}

/// A field's value, if its mask is not empty; with the mask, if that is not `all`.
fn field<T: fmt::Display + PartialEq>(
    f: &mut fmt::Formatter<'_>,
    name: &str,
    value: T,
    mask: T,
    (none, all): (T, T),
) -> fmt::Result {
    if mask == none {
        return Ok(());
    }
    if mask == all {
        return write!(f, " {name} is {value}");
    }
    write!(f, " {name} spec {value} {name} mask {mask}")
}

/// The same in hexadecimal.
fn hex<T: fmt::LowerHex + PartialEq + Default>(
    f: &mut fmt::Formatter<'_>,
    name: &str,
    value: T,
    mask: T,
    all: T,
) -> fmt::Result {
    if mask == T::default() {
        return Ok(());
    }
    if mask == all {
        return write!(f, " {name} is {value:#x}");
    }
    write!(f, " {name} spec {value:#x} {name} mask {mask:#x}")
}

impl fmt::Display for RuleAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RuleAction::Count => f.write_str("count"),
            RuleAction::Age { timeout_s } => write!(f, "age timeout {timeout_s}"),
            RuleAction::VxlanDecap => f.write_str("vxlan_decap"),
            RuleAction::VxlanEncap(_) => f.write_str("vxlan_encap"),
            RuleAction::PopVlan => f.write_str("of_pop_vlan"),
            RuleAction::PushVlan(tpid) => write!(f, "of_push_vlan ethertype {tpid:#x}"),
            RuleAction::SetVlanVid(vid) => write!(f, "of_set_vlan_vid vlan_vid {vid}"),
            RuleAction::SetVlanPcp(pcp) => write!(f, "of_set_vlan_pcp vlan_pcp {pcp}"),
            RuleAction::SetMacSource(mac) => write!(f, "set_mac_src mac_addr {mac}"),
            RuleAction::SetMacDestination(mac) => write!(f, "set_mac_dst mac_addr {mac}"),
            RuleAction::SetIpv4Source(ip) => write!(f, "set_ipv4_src ipv4_addr {ip}"),
            RuleAction::SetIpv4Destination(ip) => write!(f, "set_ipv4_dst ipv4_addr {ip}"),
            RuleAction::SetIpv6Source(ip) => write!(f, "set_ipv6_src ipv6_addr {ip}"),
            RuleAction::SetIpv6Destination(ip) => write!(f, "set_ipv6_dst ipv6_addr {ip}"),
            RuleAction::SetPortSource(port) => write!(f, "set_tp_src port {port}"),
            RuleAction::SetPortDestination(port) => write!(f, "set_tp_dst port {port}"),
            RuleAction::SetTtl(ttl) => write!(f, "set_ttl ttl_value {ttl}"),
            RuleAction::SetIpv4Dscp(dscp) => write!(f, "set_ipv4_dscp dscp_value {dscp}"),
            RuleAction::SetIpv6Dscp(dscp) => write!(f, "set_ipv6_dscp dscp_value {dscp}"),
            RuleAction::RepresentedPort(port) => {
                write!(f, "represented_port ethdev_port_id {port}")
            }
            RuleAction::Drop => f.write_str("drop"),
            RuleAction::Mark(mark) => write!(f, "mark id {mark}"),
            RuleAction::Rss => f.write_str("rss"),
            RuleAction::Check(object) => write!(f, "indirect {}", object.0),
            RuleAction::Jump(group) => write!(f, "jump group {group}"),
            RuleAction::PortRepresentor(port) => write!(f, "port_representor port_id {port}"),
        }
    }
}

impl fmt::Display for VxlanEncap {
    /// The command that sets the headers for `vxlan_encap` in the next rule.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Ipv4 { source, destination, tos, ttl, .. } = self.ip;
        write!(
            f,
            "set vxlan-tos-ttl ip-version ipv4 vni {} udp-src {} udp-dst {} ip-tos {tos} ip-ttl \
             {ttl} ip-src {source} ip-dst {destination} eth-src {} eth-dst {}",
            self.vni, self.udp_source, self.udp_destination, self.mac_source, self.mac_destination
        )
    }
}
