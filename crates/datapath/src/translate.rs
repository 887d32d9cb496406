//! Rewrites a packet as its connection did with earlier ones.

use crate::unified::Translation;
use flow::Frame;
use packet::Checksum;
use std::net::{Ipv4Addr, Ipv6Addr};
use wire::rewrite as bytes;

const ETH_IPV6: u16 = 0x86dd;

/// Gives a frame, bytes and key, these addresses and ports.
pub(crate) fn translate(frame: &mut Frame, to: &Translation) {
    let partial = matches!(frame.packet.offload.checksum, Checksum::Partial { .. });
    let words = *frame.key.words();
    let [source_high, source, destination_high, destination] = to.addresses;
    let is_ipv6 = frame.key.eth_type() == ETH_IPV6;
    let l3 = frame.l3_mut();
    if words[12..14] != to.addresses[..2] {
        match is_ipv6 {
            true => bytes::set_ipv6_src(l3, v6(source_high, source), partial),
            false => bytes::set_ipv4_src(l3, Ipv4Addr::from(source as u32), partial),
        };
    }
    if words[14..16] != to.addresses[2..] {
        match is_ipv6 {
            true => bytes::set_ipv6_dst(l3, v6(destination_high, destination), partial),
            false => bytes::set_ipv4_dst(l3, Ipv4Addr::from(destination as u32), partial),
        };
    }
    let ports = (words[17] >> 32) as u32;
    if ports >> 16 != to.ports >> 16 {
        bytes::set_tp_src(l3, (to.ports >> 16) as u16, partial);
    }
    if ports as u16 != to.ports as u16 {
        bytes::set_tp_dst(l3, to.ports as u16, partial);
    }
    let words = frame.key.words_mut();
    words[12..16].copy_from_slice(&to.addresses);
    words[17] = u64::from(to.ports) << 32 | words[17] & 0xffff_ffff;
}

fn v6(high: u64, low: u64) -> Ipv6Addr {
    Ipv6Addr::from_bits(u128::from(high) << 64 | u128::from(low))
}
