//! NAT rewrites of cached packets: the addresses and ports that their connection gives them.

use flow::{FlowKey, Frame, Headers};
use packet::Checksum;
use std::net::{Ipv4Addr, Ipv6Addr};
use wire::ethertype;
use wire::protocol::{TCP, UDP};
use wire::rewrite::{self as bytes, TupleV4};

/// Addresses and ports, laid out as in a [`FlowKey`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Tuple {
    addresses: [u64; 4],
    ports: u32,
}

/// The addresses and ports that NAT gives a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NatRewrite {
    /// UDP and TCP over IPv4, with the change of the checksums.
    V4(TupleV4),
    /// Any packet: a [`Tuple`], with its fields inlined so that it takes no more space.
    Any { addresses: [u64; 4], ports: u32 },
    /// ICMP queries and replies: addresses and identifier.
    Icmp { addresses: [u64; 4], id: u16 },
}

impl Tuple {
    pub const NONE: Tuple = Tuple { addresses: [0; 4], ports: 0 };

    /// The addresses and ports in a key.
    pub fn of(key: &FlowKey) -> Tuple {
        Tuple { addresses: key.addresses(), ports: key.ports() }
    }

    /// The addresses and ports of a received packet.
    pub fn of_headers(headers: &Headers) -> Tuple {
        let mut key = FlowKey::new();
        headers.write_key(&mut key);
        Tuple::of(&key)
    }

    /// The same for a device that applies NAT.
    pub fn nat_rewrite(&self) -> flow::NatRewrite {
        flow::NatRewrite { addresses: self.addresses, ports: self.ports }
    }

    /// Writes these into a key.
    fn write(&self, key: &mut FlowKey) {
        key.set_addresses(&self.addresses);
        key.set_ports(self.ports);
    }
}

impl NatRewrite {
    /// The rewrite from a packet's addresses and ports to others.
    pub fn new(headers: &Headers, to: &Tuple) -> NatRewrite {
        if headers.is_ipv6() || !matches!(headers.protocol(), TCP | UDP) {
            return NatRewrite::Any { addresses: to.addresses, ports: to.ports };
        }
        let [_, source, _, destination] = to.addresses;
        let addresses = source << 32 | destination & 0xffff_ffff;
        let from = (headers.ipv4_addresses(), headers.ports());
        NatRewrite::V4(TupleV4::new(from, (addresses, to.ports)))
    }

    /// The rewrite of an ICMP packet to these addresses and this identifier.
    pub fn of_icmp(to: &Tuple, id: u16) -> NatRewrite {
        NatRewrite::Icmp { addresses: to.addresses, id }
    }

    /// Rewrites the bytes of a packet with these headers. It ignores the key, which may be wrong afterwards:
    /// see [`NatRewrite::write_key`].
    #[inline]
    pub fn write(&self, headers: &Headers, frame: &mut Frame) {
        match self {
            NatRewrite::V4(tuple) => {
                let partial = frame.packet.offload.checksum == Checksum::Partial;
                let l3 = usize::from(frame.layers.l3);
                let l4 = usize::from(frame.layers.l4.unwrap_or(0)).saturating_sub(l3);
                tuple.write(frame.l3_mut(), l4, partial);
            }
            &NatRewrite::Any { addresses, ports } => {
                headers.write_packet_fields(&mut frame.key);
                write_any(frame, &Tuple { addresses, ports });
            }
            &NatRewrite::Icmp { addresses, id } => {
                headers.write_packet_fields(&mut frame.key);
                let ports = Tuple::of(&frame.key).ports;
                write_any(frame, &Tuple { addresses, ports });
                let partial = frame.packet.offload.checksum == Checksum::Partial;
                bytes::set_icmp_id(frame.l3_mut(), id, partial);
            }
        }
    }

    /// Writes the new addresses and ports into a packet's key.
    pub fn write_key(&self, key: &mut FlowKey) {
        match self {
            NatRewrite::V4(tuple) => {
                let (addresses, ports) = tuple.to();
                let addresses = [0, addresses >> 32, 0, addresses & 0xffff_ffff];
                Tuple { addresses, ports }.write(key);
            }
            &NatRewrite::Any { addresses, ports } => Tuple { addresses, ports }.write(key),
            &NatRewrite::Icmp { addresses, .. } => {
                let ports = Tuple::of(key).ports;
                Tuple { addresses, ports }.write(key);
            }
        }
    }
}

/// Rewrites a frame's bytes from the addresses and ports in its key to these.
fn write_any(frame: &mut Frame, to: &Tuple) {
    let partial = frame.packet.offload.checksum == Checksum::Partial;
    let from = Tuple::of(&frame.key);
    let [source_high, source, destination_high, destination] = to.addresses;
    let is_ipv6 = frame.key.eth_type() == ethertype::IPV6;
    let l3 = frame.l3_mut();
    if from.addresses[..2] != to.addresses[..2] {
        match is_ipv6 {
            true => bytes::set_ipv6_src(l3, v6(source_high, source), partial),
            false => bytes::set_ipv4_src(l3, Ipv4Addr::from(source as u32), partial),
        };
    }
    if from.addresses[2..] != to.addresses[2..] {
        match is_ipv6 {
            true => bytes::set_ipv6_dst(l3, v6(destination_high, destination), partial),
            false => bytes::set_ipv4_dst(l3, Ipv4Addr::from(destination as u32), partial),
        };
    }
    if from.ports >> 16 != to.ports >> 16 {
        bytes::set_tp_src(l3, (to.ports >> 16) as u16, partial);
    }
    if from.ports as u16 != to.ports as u16 {
        bytes::set_tp_dst(l3, to.ports as u16, partial);
    }
}

fn v6(high: u64, low: u64) -> Ipv6Addr {
    Ipv6Addr::from_bits(u128::from(high) << 64 | u128::from(low))
}
