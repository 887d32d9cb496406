//! "Packet too big": the ICMP error that reports a smaller MTU to the sender of a packet (RFC 1191 section 4,
//! RFC 4443 section 3.2).

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::checksum::{checksum, combine, pseudo_v6, sum};
use crate::octets::{put, put_u16, put_u32, range, u8_at, u16_at};
use crate::upper::{Addresses, UpperLayer};
use crate::{Ipv4, ethernet, ethertype, icmp, icmpv6, ipv4, ipv6, protocol};

/// The maximum length of an error in bytes (RFC 1812 section 4.3.2.3; RFC 4443 section 3.2).
const ICMP_PACKET_MAX: usize = 576;
const ICMPV6_PACKET_MAX: usize = 1280;
/// "Fragmentation needed and DF set".
const FRAGMENTATION_NEEDED: u8 = 4;
const TTL: u8 = 64;

/// Writes the error for a frame that is too large, from its receiver to its sender, with the same VLAN tags.
/// `frame_max` is the maximum length of a frame in bytes. Returns the length of the error, or `None` if none
/// may be sent (RFC 1812 section 4.3.2.7, RFC 4443 section 2.4): for IPv4 without DF, ICMP errors, later
/// fragments, multicast and broadcast, and frames that are not IP.
pub fn too_big(frame: &[u8], frame_max: u32, out: &mut [u8]) -> Option<usize> {
    let network = network(frame)?;
    let mtu = frame_max.saturating_sub(u32::try_from(network).ok()?);
    let packet = frame.get(network..)?;
    let is_group = |mac: usize| u8_at(frame, mac) & 1 != 0;
    if is_group(0) || is_group(6) {
        return None;
    }
    let upper = UpperLayer::find(packet).ok()?;
    if !upper.fragment.has_transport_header() || is_error(&upper, packet) {
        return None;
    }
    let (head, body) = out.split_at_mut_checked(network)?;
    head.copy_from_slice(&frame[..network]);
    head[..6].copy_from_slice(&frame[6..12]);
    head[6..12].copy_from_slice(&frame[..6]);
    let written = match upper.addresses {
        Addresses::V4 { source, destination } => {
            answer_v4(packet, (source, destination), mtu, body)
        }
        Addresses::V6 { source, destination } => {
            answer_v6(packet, upper.end, (source, destination), mtu, body)
        }
    };
    Some(network + written?)
}

/// Returns the offset of the network header, after all VLAN tags.
fn network(frame: &[u8]) -> Option<usize> {
    let mut at = ethernet::HEADER_LEN;
    while ethertype::is_vlan(u16_at(frame, at - 2)) {
        at += 4;
    }
    let kind = u16_at(frame, at - 2);
    matches!(kind, ethertype::IPV4 | ethertype::IPV6).then_some(at)
}

fn is_error(upper: &UpperLayer, packet: &[u8]) -> bool {
    let kind = u8_at(packet, upper.start);
    match upper.protocol {
        protocol::ICMP => icmp::is_error(kind),
        // The high bit is set in messages that are not errors (RFC 4443 section 2.1).
        protocol::ICMPV6 => kind < 0x80,
        _ => false,
    }
}

fn answer_v4(
    packet: &[u8],
    (source, destination): (Ipv4Addr, Ipv4Addr),
    mtu: u32,
    out: &mut [u8],
) -> Option<usize> {
    let ip = Ipv4::new_checked(packet).ok()?;
    let is_one = |ip: Ipv4Addr| !(ip.is_unspecified() || ip.is_multicast() || ip.is_broadcast());
    if !ip.dont_fragment() || !is_one(source) || !is_one(destination) || source.is_loopback() {
        return None;
    }
    let headers = ipv4::HEADER_LEN + icmp::HEADER_LEN;
    let quoted = range(packet, 0, ip.total_len().min(ICMP_PACKET_MAX - headers));
    let total = headers + quoted.len();
    let out = out.get_mut(..total)?;
    out[..headers].fill(0);
    put(out, ipv4::field::VERSION_IHL, [0x45]);
    put_u16(out, ipv4::field::TOTAL_LEN, u16::try_from(total).ok()?);
    put_u16(out, ipv4::field::FRAGMENT, ipv4::DONT_FRAGMENT);
    put(out, ipv4::field::TTL, [TTL, protocol::ICMP]);
    put(out, ipv4::field::SOURCE, destination.octets());
    put(out, ipv4::field::DESTINATION, source.octets());
    let computed = checksum(&out[..ipv4::HEADER_LEN]);
    put_u16(out, ipv4::field::CHECKSUM, computed);
    let message = &mut out[ipv4::HEADER_LEN..];
    message[icmp::HEADER_LEN..].copy_from_slice(quoted);
    put(message, icmp::field::TYPE, [icmp::UNREACHABLE, FRAGMENTATION_NEEDED]);
    put_u32(message, icmp::field::REST, mtu.min(u32::from(u16::MAX)));
    let computed = checksum(message);
    put_u16(message, icmp::field::CHECKSUM, computed);
    Some(total)
}

fn answer_v6(
    packet: &[u8],
    end: usize,
    (source, destination): (Ipv6Addr, Ipv6Addr),
    mtu: u32,
    out: &mut [u8],
) -> Option<usize> {
    let is_one = |ip: Ipv6Addr| !ip.is_unspecified() && !ip.is_multicast();
    if !is_one(source) || !is_one(destination) || source.is_loopback() {
        return None;
    }
    let headers = ipv6::HEADER_LEN + icmpv6::HEADER_LEN;
    let quoted = range(packet, 0, end.min(ICMPV6_PACKET_MAX - headers));
    let len = icmpv6::HEADER_LEN + quoted.len();
    let out = out.get_mut(..ipv6::HEADER_LEN + len)?;
    out[..headers].fill(0);
    put(out, 0, [0x60]);
    put_u16(out, ipv6::field::PAYLOAD_LEN, u16::try_from(len).ok()?);
    put(out, ipv6::field::NEXT_HEADER, [protocol::ICMPV6, TTL]);
    put(out, ipv6::field::SOURCE, destination.octets());
    put(out, ipv6::field::DESTINATION, source.octets());
    let message = &mut out[ipv6::HEADER_LEN..];
    message[icmpv6::HEADER_LEN..].copy_from_slice(quoted);
    put(message, icmpv6::field::TYPE, [icmpv6::PACKET_TOO_BIG]);
    put_u32(message, icmpv6::field::REST, mtu);
    let pseudo = pseudo_v6(destination, source, protocol::ICMPV6, len);
    let computed = !combine(pseudo, sum(message));
    put_u16(message, icmpv6::field::CHECKSUM, computed);
    Some(ipv6::HEADER_LEN + len)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Icmp, Icmpv6, PacketBuilder, Tci};
    use base::MacAddr;

    const NEAR: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
    const FAR: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);

    fn answer(frame: &[u8]) -> Option<Vec<u8>> {
        let mut out = [0xee; 2000];
        let len = too_big(frame, 1414, &mut out)?;
        assert!(out[len..].iter().all(|byte| *byte == 0xee));
        Some(out[..len].to_vec())
    }

    fn v4(change: fn(&mut Ipv4<&mut [u8]>)) -> Vec<u8> {
        let (near, far) = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
        let frame = PacketBuilder::eth(NEAR, FAR).ipv4(near, far).udp(5, 6);
        let mut frame = frame.payload(vec![7; 1600]).build();
        let mut ip = Ipv4::new_checked(&mut frame[14..]).unwrap();
        ip.set_fragment_field(ipv4::DONT_FRAGMENT);
        change(&mut ip);
        frame
    }

    #[test]
    fn the_sender_of_ipv4_is_told_the_mtu_and_what_it_sent() {
        let frame = v4(|_| ());
        let answer = answer(&frame).unwrap();
        assert_eq!(answer.len(), 14 + ICMP_PACKET_MAX);
        assert_eq!((&answer[..6], &answer[6..12]), (&NEAR.0[..], &FAR.0[..]));
        let ip = Ipv4::new_checked(&answer[14..]).unwrap();
        assert_eq!((ip.source(), ip.destination()), ([10, 0, 0, 2].into(), [10, 0, 0, 1].into()));
        assert_eq!(sum(ip.header()), 0xffff);
        let upper = UpperLayer::find(&answer[14..]).unwrap();
        assert_eq!(upper.verify(&answer[14..]), crate::checksum::Verdict::Good);
        let icmp = Icmp::new_checked(ip.payload()).unwrap();
        assert_eq!((icmp.icmp_type(), icmp.code(), icmp.rest()), (3, 4, 1400));
        assert_eq!(icmp.payload(), &frame[14..14 + ICMP_PACKET_MAX - 28]);
    }

    #[test]
    fn the_sender_of_ipv6_too_through_its_vlan() {
        let (near, far): (Ipv6Addr, Ipv6Addr) =
            ("fd00::1".parse().unwrap(), "fd00::2".parse().unwrap());
        let frame = PacketBuilder::eth(NEAR, FAR).vlan(Tci::new(5, 0)).ipv6(near, far).udp(5, 6);
        let frame = frame.payload(vec![7; 1600]).build();
        let answer = answer(&frame).unwrap();
        assert_eq!((answer.len(), &answer[12..18]), (18 + ICMPV6_PACKET_MAX, &frame[12..18]));
        let upper = UpperLayer::find(&answer[18..]).unwrap();
        assert_eq!(upper.verify(&answer[18..]), crate::checksum::Verdict::Good);
        assert_eq!(upper.addresses, Addresses::V6 { source: far, destination: near });
        let icmp = Icmpv6::new_checked(upper.segment(&answer[18..])).unwrap();
        assert_eq!((icmp.icmp_type(), icmp.code(), icmp.rest()), (2, 0, 1396));
    }

    #[test]
    fn what_must_not_be_answered_is_not() {
        assert!(answer(&v4(|_| ())).is_some());
        assert_eq!(answer(&v4(|ip| ip.set_fragment_field(0))), None, "it may be fragmented");
        assert_eq!(answer(&v4(|ip| ip.set_fragment_field(0x4001))), None, "a later fragment");
        assert_eq!(answer(&v4(|ip| ip.set_destination([224, 0, 0, 1].into()))), None, "a group");
        assert_eq!(
            answer(&v4(|ip| ip.set_source([0; 4].into()))),
            None,
            "a sender without address"
        );
        let mut error = v4(|_| ());
        error[23] = protocol::ICMP;
        error[34] = icmp::TIME_EXCEEDED;
        assert_eq!(answer(&error), None, "an error");
        error[34] = icmp::ECHO_REQUEST;
        assert!(answer(&error).is_some());
        let mut group = v4(|_| ());
        group[0] |= 1;
        assert_eq!(answer(&group), None, "a group's frame");
        let mut arp = v4(|_| ());
        arp[12..14].copy_from_slice(&[8, 6]);
        assert_eq!(answer(&arp), None, "not IP");
        let whole = v4(|_| ());
        for len in 0..60 {
            assert_eq!(answer(&whole[..len]), None, "{len} bytes");
            assert_eq!(too_big(&whole, 1414, &mut vec![0; len]), None, "no room");
        }
    }
}
