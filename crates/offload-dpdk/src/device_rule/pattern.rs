//! Headers and their masks as pattern items.

use base::MacAddr;
use flow::{Headers, OffloadRule, OffloadTunnel, Refusal, TunnelKind, VLAN_PRESENT};
use port_dpdk::flow_rule::{Eth, Ipv4, Ipv6, Item, Spec, Tcp, Udp, Vlan};
use wire::protocol::{TCP, UDP};
use wire::vxlan;

/// TCP's FIN, SYN, RST and ACK. Only a segment with ACK alone of these does not change a connection's state.
const CONTROL: u8 = 0x17;
const ACK: u8 = 0x10;
/// A tag's VLAN identifier.
const VID: u16 = 0xfff;
/// "More fragments" and the offset.
const FRAGMENT: u16 = 0x3fff;

/// The items of the packets of a connection.
///
/// # Errors
/// The packets are neither TCP nor UDP, or differ in headers that decide what becomes of them.
pub fn connection(from: &OffloadRule, items: &mut Vec<Item>) -> Result<(), Refusal> {
    let headers = &from.headers;
    if !matches!(headers.protocol(), TCP | UDP) {
        return Err(Refusal::Protocol);
    }
    if !from.mask.is_of_one_tuple(headers.is_ipv6()) {
        return Err(Refusal::Match);
    }
    network(headers, &from.mask, items);
    items.push(transport(headers, &from.mask)?);
    Ok(())
}

/// The items of a tunnel's outer packets. Both ends, the UDP port and the VNI are compared whole: a packet with
/// other ones belongs to other tunnels.
///
/// # Errors
/// It is no tunnel that a device opens, or its UDP checksum would have to be verified.
pub fn outer(from: &OffloadTunnel, items: &mut Vec<Item>) -> Result<(), Refusal> {
    if from.kind != TunnelKind::Vxlan || from.headers.protocol() != UDP {
        return Err(Refusal::Tunnel);
    }
    if from.has_checksum || from.word & !vxlan::VNI_MASK != vxlan::VNI_ALONE {
        return Err(Refusal::Tunnel);
    }
    let mask = from.mask.union(&from.headers.tuple_mask());
    network(&from.headers, &mask, items);
    let destination = from.headers.ports() as u16;
    let value = Udp { source: 0, destination };
    items.push(Item::Udp(Spec { value, mask: Udp { source: 0, destination: u16::MAX } }));
    let vni = (from.word >> 8) as u32 & 0xff_ffff;
    items.push(Item::Vxlan { vni, compares_flags: true });
    Ok(())
}

/// Reduces an item to addresses, ports, protocols and a VNI.
pub fn loosen(item: &mut Item) {
    match item {
        Item::Ipv4(ip) => (ip.value.fragment, ip.mask.fragment) = (0, 0),
        Item::Ipv6(ip) => (ip.value.has_fragment, ip.mask.has_fragment) = (false, false),
        Item::Tcp(tcp) => (tcp.value.flags, tcp.mask.flags) = (0, 0),
        Item::Vxlan { compares_flags, .. } => *compares_flags = false,
        _ => {}
    }
}

/// Reduces an item to fields that all packets of a connection share: addresses, ports, protocols, the VLAN,
/// and that it is not a fragment.
pub fn widen(item: &mut Item) {
    match item {
        Item::Eth(Spec { value, mask }) => {
            for eth in [value, mask] {
                (eth.destination, eth.source) = (MacAddr::default(), MacAddr::default());
            }
        }
        Item::Vlan(Spec { value, mask }) => {
            (value.tci, mask.tci) = (value.tci & VID, mask.tci & VID);
        }
        Item::Ipv4(Spec { value, mask }) => {
            [value, mask].into_iter().for_each(|ip| (ip.tos, ip.ttl) = (0, 0));
        }
        Item::Ipv6(Spec { value, mask }) => {
            for ip in [value, mask] {
                (ip.class, ip.label, ip.hop_limit) = (0, 0, 0);
            }
        }
        Item::Tcp(tcp) => (tcp.value.flags, tcp.mask.flags) = (0, 0),
        _ => {}
    }
}

/// Adds Ethernet, a tag if there is one, and IP.
fn network(headers: &Headers, mask: &Headers, items: &mut Vec<Item>) {
    let seen = headers.masked(mask);
    let mut eth = Spec {
        value: Eth { destination: seen.eth_dst(), source: seen.eth_src(), ..Eth::default() },
        mask: Eth { destination: mask.eth_dst(), source: mask.eth_src(), ..Eth::default() },
    };
    if let Some(tag_type) = headers.tag_type() {
        if mask.has_tag_type() {
            (eth.value.ethertype, eth.mask.ethertype) = (tag_type, u16::MAX);
        }
        items.push(Item::Eth(eth));
        // The presence bit is not one of the tag's.
        let mask = Vlan { tci: mask.vlan_tci() & !VLAN_PRESENT };
        let value = Vlan { tci: headers.vlan_tci() & mask.tci };
        items.push(Item::Vlan(Spec { value, mask }));
    } else {
        eth.mask.has_vlan = mask.vlan_tci() & VLAN_PRESENT != 0;
        items.push(Item::Eth(eth));
    }
    // A fragment does not show what it is of.
    items.push(if headers.is_ipv6() {
        Item::Ipv6(Spec { value: ipv6(&seen, false), mask: ipv6(mask, true) })
    } else {
        Item::Ipv4(Spec { value: ipv4(&seen, 0), mask: ipv4(mask, FRAGMENT) })
    });
}

fn ipv4(headers: &Headers, fragment: u16) -> Ipv4 {
    let [source, destination] = headers.ipv4_ends();
    let (protocol, tos, ttl) = (headers.protocol(), headers.tos(), headers.ttl());
    Ipv4 { protocol, tos, ttl, fragment, source, destination }
}

fn ipv6(headers: &Headers, has_fragment: bool) -> Ipv6 {
    let [source, destination] = headers.ipv6_ends();
    Ipv6 {
        class: headers.tos(),
        label: headers.flow_label(),
        hop_limit: headers.ttl(),
        next_header: headers.protocol(),
        has_fragment,
        source,
        destination,
    }
}

fn transport(headers: &Headers, mask: &Headers) -> Result<Item, Refusal> {
    let ports = headers.ports();
    let (source, destination) = ((ports >> 16) as u16, ports as u16);
    if headers.protocol() == UDP {
        let mask = Udp { source: u16::MAX, destination: u16::MAX };
        return Ok(Item::Udp(Spec { value: Udp { source, destination }, mask }));
    }
    let looked_at = mask.tcp_flags();
    let seen = headers.tcp_flags() & looked_at;
    // The item has eight flags, and the control flags are the rule's own.
    if looked_at > 0xff || (seen as u8 ^ ACK) & CONTROL & looked_at as u8 != 0 {
        return Err(Refusal::Match);
    }
    let mask = Tcp { source: u16::MAX, destination: u16::MAX, flags: looked_at as u8 | CONTROL };
    Ok(Item::Tcp(Spec { value: Tcp { source, destination, flags: seen as u8 | ACK }, mask }))
}
