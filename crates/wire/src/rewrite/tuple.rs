//! The NAT rewrite of one direction of a connection over IPv4, computed once.

use crate::checksum::{Change, udp_nonzero};
use crate::numbers::protocol;
use crate::octets::{put, u16_at};
use crate::{ipv4, tcp, udp};

/// New addresses and ports for packets of UDP or TCP over IPv4, with the changes of checksums. The same value
/// applies to all packets with the same addresses and ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TupleV4 {
    /// Source and destination.
    addresses: u64,
    /// Source and destination.
    ports: u32,
    /// The change of the addresses.
    header: Change,
    /// The change of addresses and ports.
    transport: Change,
}

impl TupleV4 {
    /// Rewrites addresses and ports `from` to `to`, each with the source in its upper half.
    pub fn new(from: (u64, u32), to: (u64, u32)) -> Self {
        let address = |shift: u32| change((from.0 >> shift) as u32, (to.0 >> shift) as u32);
        let header = address(32).and(address(0));
        let transport = header.and(change(from.1, to.1));
        TupleV4 { addresses: to.0, ports: to.1, header, transport }
    }

    /// Returns the new addresses and the new ports.
    #[inline]
    pub fn to(&self) -> (u64, u32) {
        (self.addresses, self.ports)
    }

    /// Rewrites a UDP or TCP packet, which begins with its IP header and has its transport header at `l4`.
    /// Updates checksums as the parent module describes. Returns false if it is not a complete UDP or TCP
    /// packet.
    #[inline]
    pub fn write(&self, packet: &mut [u8], l4: usize, l4_partial: bool) -> bool {
        let ([.., protocol, _, _], Some(segment)) =
            (packet.first_chunk::<12>().copied().unwrap_or_default(), packet.get_mut(l4..))
        else {
            return false;
        };
        let at = match protocol {
            protocol::UDP => udp::field::CHECKSUM,
            protocol::TCP => tcp::field::CHECKSUM,
            _ => return false,
        };
        if segment.len() < at + 2 {
            return false;
        }
        let old = u16_at(segment, at);
        let new = match (l4_partial, protocol) {
            (true, _) => self.header.sum(old),
            (false, protocol::UDP) if old == 0 => 0,
            (false, protocol::UDP) => udp_nonzero(self.transport.checksum(old)),
            (false, _) => self.transport.checksum(old),
        };
        put(segment, at, new.to_be_bytes());
        put(segment, tcp::field::SOURCE, self.ports.to_be_bytes());
        let header_sum = self.header.checksum(u16_at(packet, ipv4::field::CHECKSUM));
        put(packet, ipv4::field::CHECKSUM, header_sum.to_be_bytes());
        put(packet, ipv4::field::SOURCE, self.addresses.to_be_bytes())
    }
}

/// The change of both words of a value. Words that are equal do not change the sum, not even from one
/// representation of zero to the other.
fn change(from: u32, to: u32) -> Change {
    let half = |shift: u32| {
        let (from, to) = ((from >> shift) as u16, (to >> shift) as u16);
        if from == to { Change::NONE } else { Change::u16(from, to) }
    };
    half(16).and(half(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rewrite::{set_ipv4_dst, set_ipv4_src, set_tp_dst, set_tp_src};
    use proptest::prelude::*;

    const LEADING: usize = 14;

    fn one_by_one(packet: &mut [u8], from: (u64, u32), to: (u64, u32), partial: bool) {
        let halves = |it: (u64, u32)| ((it.0 >> 32) as u32, it.0 as u32, it.1 >> 16, it.1 & 0xffff);
        let (from, to) = (halves(from), halves(to));
        if from.0 != to.0 {
            set_ipv4_src(packet, to.0.into(), partial);
        }
        if from.1 != to.1 {
            set_ipv4_dst(packet, to.1.into(), partial);
        }
        if from.2 != to.2 {
            set_tp_src(packet, to.2 as u16, partial);
        }
        if from.3 != to.3 {
            set_tp_dst(packet, to.3 as u16, partial);
        }
    }

    proptest! {
        #[test]
        fn all_at_once_is_the_same_as_one_by_one(
            source in prop::sample::select(vec![0x0a00_0001, 0xffff_ffff, 0, 0x1234_ffff]),
            destination: u32, ports: u32, to_source: u32,
            to_destination in prop::option::of(any::<u32>()), to_ports in prop::option::of(any::<u32>()),
            kind in 0..3usize, partial: bool, sums in prop::option::of(prop::sample::select(vec![0u16, 1, 0xfffe, 0xffff])),
            len in 0..20usize,
        ) {
            let from = (u64::from(source) << 32 | u64::from(destination), ports);
            let to_destination = to_destination.unwrap_or(destination);
            let to = (u64::from(to_source) << 32 | u64::from(to_destination), to_ports.unwrap_or(ports));
            let (a, b) = (std::net::Ipv4Addr::from(source), std::net::Ipv4Addr::from(destination));
            let (p, q) = (ports >> 16, ports & 0xffff);
            let what = ["udp", "A seq=1 ack=2 win=3", "sctp tag=9"][kind];
            let bytes = crate::text::parse(&format!("{a}:{p}>{b}:{q} {what} len={len}")).unwrap();
            let mut packet = bytes[LEADING..].to_vec();
            let at = 20 + if kind == 1 { 16 } else { 6 };
            if let Some(sum) = sums {
                packet[10..12].copy_from_slice(&sum.to_be_bytes());
                packet[at..at + 2].copy_from_slice(&sum.to_be_bytes());
            }
            let (mut expect, before) = (packet.clone(), packet.clone());
            one_by_one(&mut expect, from, to, partial);
            let written = TupleV4::new(from, to).write(&mut packet, 20, partial);
            prop_assert_eq!(written, kind < 2);
            prop_assert_eq!(&packet, if written { &expect } else { &before });
            for cut in 0..packet.len() {
                let mut short = before[..cut].to_vec();
                let _ = TupleV4::new(from, to).write(&mut short, 20, partial);
            }
        }
    }
}
