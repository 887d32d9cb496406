//! What actions do with a frame.

use super::Fate;
use super::bytes::{Places, u16_at};
use port_dpdk::flow_rule::{RuleAction, VxlanEncap};

/// Carries actions out, and says what becomes of the frame.
pub fn carry_out(actions: &[RuleAction], frame: &[u8]) -> Fate {
    let mut frame = frame.to_vec();
    let mut delivered = Fate::Switch;
    for action in actions {
        match action {
            RuleAction::Mark(mark) => delivered = Fate::Marked(*mark),
            RuleAction::Rss | RuleAction::PortRepresentor(_) => return delivered,
            RuleAction::Drop => return Fate::Dropped,
            RuleAction::RepresentedPort(port) => return Fate::Sent(*port, frame),
            _ => step(action, &mut frame),
        }
    }
    panic!("{actions:?} do not end");
}

fn step(action: &RuleAction, frame: &mut Vec<u8>) {
    match action {
        RuleAction::Count | RuleAction::Age { .. } => {}
        RuleAction::VxlanDecap => {
            let outer = Places::of(frame, 0).expect("the pattern says so");
            frame.truncate(outer.end);
            drop(frame.drain(..outer.l4 + 16));
        }
        RuleAction::VxlanEncap(encap) => *frame = encapsulated(encap, frame),
        RuleAction::PopVlan => drop(frame.drain(12..16)),
        RuleAction::PushVlan(tpid) => {
            let [high, low] = tpid.to_be_bytes();
            frame.splice(12..12, [high, low, 0, 0]);
        }
        RuleAction::SetVlanVid(vid) => put_bits(frame, 14, 0x0fff, *vid),
        RuleAction::SetVlanPcp(pcp) => put_bits(frame, 14, 0xe000, u16::from(*pcp) << 13),
        RuleAction::SetMacSource(mac) => frame[6..12].copy_from_slice(&mac.0),
        RuleAction::SetMacDestination(mac) => frame[..6].copy_from_slice(&mac.0),
        _ => in_ip(action, frame),
    }
}

fn put(frame: &mut [u8], at: usize, value: u16) {
    frame[at..at + 2].copy_from_slice(&value.to_be_bytes());
}

/// Sets some bits of two bytes.
fn put_bits(frame: &mut [u8], at: usize, bits: u16, value: u16) {
    let others = u16_at(frame, at) & !bits;
    put(frame, at, others | value);
}

/// Steps within IP and its transport, whose checksums are right afterwards if they were before.
fn in_ip(action: &RuleAction, frame: &mut [u8]) {
    let places = Places::of(frame, 0).expect("the pattern says so");
    let lacks = places.lacks_checksum(frame);
    let was_right = places.right_checksum(frame) == u16_at(frame, places.checksum());
    let (l3, l4) = (places.l3, places.l4);
    match action {
        RuleAction::SetIpv4Source(ip) => frame[l3 + 12..l3 + 16].copy_from_slice(&ip.octets()),
        RuleAction::SetIpv4Destination(ip) => frame[l3 + 16..l3 + 20].copy_from_slice(&ip.octets()),
        RuleAction::SetIpv6Source(ip) => frame[l3 + 8..l3 + 24].copy_from_slice(&ip.octets()),
        RuleAction::SetIpv6Destination(ip) => frame[l3 + 24..l3 + 40].copy_from_slice(&ip.octets()),
        RuleAction::SetPortSource(port) => put(frame, l4, *port),
        RuleAction::SetPortDestination(port) => put(frame, l4 + 2, *port),
        RuleAction::SetTtl(ttl) => frame[l3 + if places.is_ipv6 { 7 } else { 8 }] = *ttl,
        RuleAction::SetIpv4Dscp(dscp) => frame[l3 + 1] = frame[l3 + 1] & 3 | dscp << 2,
        RuleAction::SetIpv6Dscp(dscp) => put_bits(frame, l3, 0x0fc0, u16::from(*dscp) << 6),
        _ => panic!("{action} is not one of IP"),
    }
    if !places.is_ipv6 {
        put(frame, l3 + 10, 0);
        let right = wire::checksum::checksum(&frame[l3..l4]);
        put(frame, l3 + 10, right);
    }
    if !lacks && was_right {
        let right = places.right_checksum(frame);
        put(frame, places.checksum(), right);
    }
}

fn encapsulated(encap: &VxlanEncap, inner: &[u8]) -> Vec<u8> {
    let mut frame = [encap.mac_destination.0, encap.mac_source.0].concat();
    let udp_bytes = inner.len() as u16 + 16;
    let ip = encap.ip;
    frame.extend([8, 0, 0x45, ip.tos]);
    frame.extend((udp_bytes + 20).to_be_bytes());
    let [high, low] = ip.fragment.to_be_bytes();
    frame.extend([0, 0, high, low, ip.ttl, ip.protocol, 0, 0]);
    frame.extend(ip.source.octets());
    frame.extend(ip.destination.octets());
    let right = wire::checksum::checksum(&frame[14..34]);
    put(&mut frame, 24, right);
    for word in [encap.udp_source, encap.udp_destination, udp_bytes, 0] {
        frame.extend(word.to_be_bytes());
    }
    frame.extend([8, 0, 0, 0]);
    frame.extend((encap.vni << 8).to_be_bytes());
    frame.extend(inner);
    frame
}
