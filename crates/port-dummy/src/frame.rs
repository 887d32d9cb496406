//! A frame with the fields of a flow key (ovs: `lib/flow.c`, `flow_compose`, whose lengths tests rely on).

use flow::{ETH_TYPE_NONE, FRAG_ANY, FRAG_LATER, Field, FlowKey, VLAN_PRESENT};
use wire::{Addresses, checksum, ethertype, icmp, icmpv6, protocol};

/// Bytes of payload if the flow key does not determine the length.
pub const PAYLOAD_BYTES: usize = 64;
/// Offset of a later fragment, in units of eight bytes.
const LATER_OFFSET: u16 = 100;
const MORE_FRAGMENTS: u16 = 0x2000;
const LLC_SNAP: u16 = 14;

/// Builds the frame. With `bytes` the payload fills the frame to that length; `None` if the headers are
/// longer.
#[must_use]
pub fn compose(key: &FlowKey, bytes: Option<usize>) -> Option<Vec<u8>> {
    let Some(bytes) = bytes else { return Some(compose_with(key, &payload(PAYLOAD_BYTES))) };
    let short = compose_with(key, &[]);
    let mut frame = compose_with(key, &payload(bytes.checked_sub(short.len())?));
    // A frame without payload is padded, as in Ethernet.
    frame.resize(bytes, 0);
    Some(frame)
}

/// The payload of this length.
#[must_use]
pub fn payload(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| at as u8).collect()
}

/// Builds the frame with this payload, if its protocol has one.
#[must_use]
pub fn compose_with(key: &FlowKey, payload: &[u8]) -> Vec<u8> {
    let mut frame = Vec::with_capacity(256);
    frame.extend(key.eth_dst().0);
    frame.extend(key.eth_src().0);
    if key.eth_type() == ETH_TYPE_NONE {
        frame.extend(LLC_SNAP.to_be_bytes());
        return frame;
    }
    for (tci, tpid) in [(Field::VlanTci, Field::VlanTpid), (Field::VlanTci1, Field::VlanTpid1)] {
        let tag = key.get(tci) as u16;
        if tag & VLAN_PRESENT != 0 {
            let tpid = key.get(tpid) as u16;
            frame.extend(if tpid == 0 { ethertype::VLAN } else { tpid }.to_be_bytes());
            frame.extend((tag & !VLAN_PRESENT).to_be_bytes());
        }
    }
    frame.extend(key.eth_type().to_be_bytes());
    match key.eth_type() {
        ethertype::IPV4 => ipv4(key, payload, &mut frame),
        ethertype::IPV6 => ipv6(key, payload, &mut frame),
        ethertype::ARP | ethertype::RARP => arp(key, &mut frame),
        ethertype::MPLS | ethertype::MPLS_MULTICAST => {
            for entry in key.label_stack() {
                frame.extend(entry.0.to_be_bytes());
                if entry.is_bottom() {
                    break;
                }
            }
        }
        _ => {}
    }
    frame
}

fn ipv4(key: &FlowKey, payload: &[u8], frame: &mut Vec<u8>) {
    let (source, destination) = (key.ipv4_src(), key.ipv4_dst());
    let addresses = Addresses::V4 { source, destination };
    let l4 = transport(key, payload, &addresses);
    let mut header = [0; 20];
    header[0] = 0x45;
    header[1] = key.nw_tos();
    header[2..4].copy_from_slice(&(20 + l4.len() as u16).to_be_bytes());
    let fragment = match key.nw_frag() {
        0 => 0,
        frag if frag & FRAG_LATER != 0 => MORE_FRAGMENTS | LATER_OFFSET,
        _ => MORE_FRAGMENTS,
    };
    header[6..8].copy_from_slice(&fragment.to_be_bytes());
    header[8] = key.nw_ttl();
    header[9] = key.nw_proto();
    header[12..16].copy_from_slice(&source.octets());
    header[16..20].copy_from_slice(&destination.octets());
    let sum = checksum::checksum(&header);
    header[10..12].copy_from_slice(&sum.to_be_bytes());
    frame.extend(header);
    frame.extend(l4);
}

fn ipv6(key: &FlowKey, payload: &[u8], frame: &mut Vec<u8>) {
    let (source, destination) = (key.ipv6_src(), key.ipv6_dst());
    let l4 = transport(key, payload, &Addresses::V6 { source, destination });
    let first = 6 << 28 | u32::from(key.nw_tos()) << 20 | key.ipv6_label();
    frame.extend(first.to_be_bytes());
    frame.extend((l4.len() as u16).to_be_bytes());
    frame.extend([key.nw_proto(), key.nw_ttl()]);
    frame.extend(source.octets());
    frame.extend(destination.octets());
    frame.extend(l4);
}

fn arp(key: &FlowKey, frame: &mut Vec<u8>) {
    let operation = key.nw_proto();
    frame.extend([0, 1, 8, 0, 6, 4, 0, operation]);
    let mut body = [0; 20];
    if matches!(operation, 1 | 2) {
        body[..6].copy_from_slice(&key.get(Field::ArpSha).to_be_bytes()[10..]);
        body[6..10].copy_from_slice(&key.ipv4_src().octets());
        body[10..16].copy_from_slice(&key.get(Field::ArpTha).to_be_bytes()[10..]);
        body[16..].copy_from_slice(&key.ipv4_dst().octets());
    }
    frame.extend(body);
}

/// Returns the part after the IP header, with a correct checksum.
fn transport(key: &FlowKey, payload: &[u8], addresses: &Addresses) -> Vec<u8> {
    if key.nw_frag() & (FRAG_ANY | FRAG_LATER) == FRAG_ANY | FRAG_LATER {
        return Vec::new();
    }
    let ports = [key.tp_src().to_be_bytes(), key.tp_dst().to_be_bytes()].concat();
    let type_code = [key.tp_src() as u8, key.tp_dst() as u8];
    let mut l4 = Vec::new();
    let (mut has_payload, mut checksum_at) = (true, None);
    match key.nw_proto() {
        protocol::TCP => {
            l4.extend(&ports);
            l4.resize(20, 0);
            let flags = key.tcp_flags() & 0xfff;
            l4[12..14].copy_from_slice(&(5 << 12 | flags).to_be_bytes());
            // SYN, FIN and RST have no data.
            has_payload = flags & 0x7 == 0;
            checksum_at = Some(16);
        }
        protocol::UDP => {
            l4.extend(&ports);
            l4.extend((8 + payload.len() as u16).to_be_bytes());
            l4.extend([0, 0]);
            checksum_at = Some(6);
        }
        protocol::SCTP => {
            l4.extend(&ports);
            l4.resize(12, 0);
            has_payload = false;
        }
        protocol::ICMP => {
            l4.extend(type_code);
            l4.resize(8, 0);
            has_payload = matches!(type_code, [icmp::ECHO_REQUEST | icmp::ECHO_REPLY, 0]);
            checksum_at = Some(2);
        }
        protocol::IGMP => {
            l4.extend(type_code);
            l4.resize(8, 0);
            has_payload = false;
            checksum_at = Some(2);
        }
        protocol::ICMPV6 => {
            l4.extend(type_code);
            l4.resize(8, 0);
            has_payload = matches!(type_code, [icmpv6::ECHO_REQUEST | icmpv6::ECHO_REPLY, 0]);
            if matches!(type_code, [135 | 136, 0]) {
                neighbour_discovery(key, &mut l4);
            }
            checksum_at = Some(2);
        }
        _ => has_payload = false,
    }
    if has_payload {
        l4.extend(payload);
    }
    if let Some(at) = checksum_at {
        let has_pseudo = !matches!(key.nw_proto(), protocol::ICMP | protocol::IGMP);
        let pseudo = match has_pseudo {
            true => addresses.pseudo_sum(key.nw_proto(), l4.len()),
            false => 0,
        };
        let value = !checksum::combine(pseudo, checksum::sum(&l4));
        let value =
            if key.nw_proto() == protocol::UDP { checksum::udp_nonzero(value) } else { value };
        l4[at..at + 2].copy_from_slice(&value.to_be_bytes());
    }
    l4
}

/// Appends the target of a solicitation or advertisement, and the link-layer addresses that are not zero.
fn neighbour_discovery(key: &FlowKey, l4: &mut Vec<u8>) {
    l4.extend(key.get(Field::NdTarget).to_be_bytes());
    for (kind, field) in [(1, Field::NdSll), (2, Field::NdTll)] {
        let address = key.get(field);
        if address != 0 {
            l4.extend([kind, 1]);
            l4.extend(&address.to_be_bytes()[10..]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::PortNo;
    use flow::Frame;
    use packet::Packet;

    type Fields<'a> = &'a [(Field, u128)];

    fn key(fields: Fields<'_>) -> FlowKey {
        let mut key = FlowKey::new();
        fields.iter().for_each(|&(field, value)| key.set(field, value));
        key
    }

    /// Parsing the frame yields the flow key, and its length is that of Open vSwitch's frame.
    #[test]
    fn frames_have_the_fields_that_they_were_made_of() {
        use Field::{EthDst, EthSrc, EthType, Ipv4Dst, Ipv4Src, Ipv6Dst, Ipv6Src, NwProto, NwTtl};
        let eth = [(EthSrc, 0x5054_0000_0009), (EthDst, 0x5054_0000_000a)];
        let v4 = [(EthType, 0x800), (Ipv4Src, 0x0a00_0001), (Ipv4Dst, 0x0a00_0002), (NwTtl, 64)];
        let v6 = [(EthType, 0x86dd), (Ipv6Src, 1), (Ipv6Dst, 2), (NwTtl, 128)];
        let ports = [(Field::TpSrc, 80), (Field::TpDst, 443)];
        let cases: &[(&[Fields<'_>], usize)] = &[
            (&[&v4, &ports, &[(NwProto, 6), (Field::TcpFlags, 0x10)]], 118),
            (&[&v4, &ports, &[(NwProto, 6), (Field::TcpFlags, 2)]], 54),
            (&[&v4, &ports, &[(NwProto, 17)]], 106),
            (&[&v4, &[(NwProto, 1), (Field::TpSrc, 8)]], 106),
            (&[&v4, &[(NwProto, 17), (Field::NwFrag, 3)]], 34),
            (&[&v6, &ports, &[(NwProto, 17)]], 126),
            (
                &[
                    &v6,
                    &[(NwProto, 58), (Field::TpSrc, 135), (Field::NdTarget, 7), (Field::NdSll, 9)],
                ],
                86,
            ),
            (
                &[&[
                    (EthType, 0x806),
                    (NwProto, 1),
                    (Ipv4Src, 1),
                    (Ipv4Dst, 2),
                    (Field::ArpSha, 5),
                ]],
                42,
            ),
            (&[&[(EthType, 0x1234)]], 14),
            (&[&[(EthType, 0x8847), (Field::MplsLse0, 0x1_4720)]], 18),
            (&[&[(EthType, 0x8848), (Field::MplsLse0, 0x1_4620), (Field::MplsLse1, 0x120)]], 22),
        ];
        for (fields, len) in cases {
            let mut expect = key(&[&eth[..], &fields.concat()].concat());
            let bytes = compose(&expect, None).unwrap();
            assert_eq!(bytes.len(), *len, "{fields:?}");
            let frame = Frame::parse(Packet::from_bytes(&bytes), PortNo(0)).unwrap();
            expect.set(Field::InPort, 0);
            for &field in Field::BASIC {
                if field != Field::NdReserved && field != Field::NdOptionsType {
                    assert_eq!(frame.key.get(field), expect.get(field), "{field:?} of {fields:?}");
                }
            }
        }
    }

    #[test]
    fn a_length_is_met_or_refused() {
        let key = key(&[(Field::EthType, 0x800), (Field::NwProto, 17)]);
        assert_eq!(compose(&key, Some(128)).map(|it| it.len()), Some(128));
        assert_eq!(compose(&key, Some(20)), None);
    }
}
