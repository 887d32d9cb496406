//! The lookup key of a connection: one direction's tuple and the zone, in 40 bytes.

use crate::hash::{End6, Secrets};
use base::Zone;
use flow::{Tuple, TupleL4};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use wire::{icmp, icmpv6, protocol};

/// An IPv6 address, or an IPv4 address in the low 32 bits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(crate) struct Address([u64; 2]);

/// The IP version of an [`Address`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Family {
    V4 = 4,
    V6 = 6,
}

/// One direction of a connection in its zone.
///
/// `l4` holds source and destination port; for an ICMP query its identifier, and type and code in
/// one word; else zeros (ovs: `lib/conntrack-private.h`, `struct conn_key`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Key {
    pub src: Address,
    pub dst: Address,
    pub l4: [u16; 2],
    pub zone: u16,
    pub protocol: u8,
    pub family: Family,
}

const _: () = assert!(size_of::<Key>() == 40);

impl Address {
    /// The address in words, the upper half first.
    pub fn words(self) -> [u64; 2] {
        self.0
    }

    pub fn from_words(words: [u64; 2]) -> Self {
        Address(words)
    }

    pub fn bits(self) -> u128 {
        u128::from(self.0[0]) << 64 | u128::from(self.0[1])
    }

    pub fn from_bits(bits: u128) -> Self {
        Address([(bits >> 64) as u64, bits as u64])
    }

    pub fn ip(self, family: Family) -> IpAddr {
        match family {
            Family::V4 => IpAddr::V4(self.v4()),
            Family::V6 => IpAddr::V6(self.v6()),
        }
    }

    pub fn v4(self) -> Ipv4Addr {
        Ipv4Addr::from_bits(self.0[1] as u32)
    }

    pub fn v6(self) -> Ipv6Addr {
        Ipv6Addr::from_bits(self.bits())
    }
}

impl From<Ipv4Addr> for Address {
    fn from(ip: Ipv4Addr) -> Self {
        Address([0, ip.to_bits().into()])
    }
}

impl From<Ipv6Addr> for Address {
    fn from(ip: Ipv6Addr) -> Self {
        Address::from_bits(ip.to_bits())
    }
}

impl From<IpAddr> for Address {
    fn from(ip: IpAddr) -> Self {
        match ip {
            IpAddr::V4(ip) => ip.into(),
            IpAddr::V6(ip) => ip.into(),
        }
    }
}

impl Key {
    /// Whether the protocol is ICMP over IPv4 or ICMPv6 over IPv6, whose queries have identifiers.
    pub fn is_icmp(&self) -> bool {
        matches!(
            (self.family, self.protocol),
            (Family::V4, protocol::ICMP) | (Family::V6, protocol::ICMPV6)
        )
    }

    /// Whether the protocol has ports that NAT may change.
    pub fn has_nat_ports(&self) -> bool {
        matches!(self.protocol, protocol::TCP | protocol::UDP | protocol::SCTP)
    }

    /// The type of an ICMP query.
    pub fn icmp_type(&self) -> u8 {
        (self.l4[1] >> 8) as u8
    }

    /// The key of packets in the other direction.
    #[must_use]
    pub fn reversed(&self) -> Key {
        let l4 = if self.is_icmp() {
            let reply = reverse_icmp(self.family, self.icmp_type());
            [self.l4[0], u16::from(reply) << 8 | (self.l4[1] & 0xff)]
        } else {
            [self.l4[1], self.l4[0]]
        };
        Key { src: self.dst, dst: self.src, l4, ..*self }
    }

    /// A hash that is the same in both directions (ovs: `lib/conntrack.c`, `conn_key_hash`).
    #[inline]
    pub fn hash(&self, secrets: &Secrets) -> u32 {
        // An ICMP identifier is the same in both directions, the type is not; it stands for both
        // ports.
        let [source, destination] = if self.is_icmp() { [self.l4[0]; 2] } else { self.l4 };
        match self.family {
            Family::V4 => {
                let ports = u32::from(source) << 16 | u32::from(destination);
                secrets.v4(self.addresses_v4(), ports, self.zone_protocol())
            }
            Family::V6 => {
                let from = End6 { address: self.src.0, port: source };
                let to = End6 { address: self.dst.0, port: destination };
                secrets.v6(from, to, self.zone_protocol())
            }
        }
    }

    /// Source and destination of an IPv4 key in one word.
    #[inline]
    pub fn addresses_v4(&self) -> u64 {
        self.src.0[1] << 32 | self.dst.0[1]
    }

    /// Everything but the addresses in one word: `l4`, the zone, the protocol, the IP version.
    #[inline]
    pub fn rest(&self) -> u64 {
        let l4 = u64::from(self.l4[0]) << 48 | u64::from(self.l4[1]) << 32;
        l4 | u64::from(self.zone_protocol())
    }

    /// The part of [`Key::rest`] that both directions share.
    fn zone_protocol(&self) -> u32 {
        zone_protocol(self.zone, self.protocol, self.family)
    }

    /// The IPv4 key with these [`Key::addresses_v4`] and [`Key::rest`].
    pub fn from_words_v4(addresses: u64, rest: u64) -> Key {
        let (src, dst) = (Address([0, addresses >> 32]), Address([0, addresses & 0xffff_ffff]));
        Key::from_rest(src, dst, rest, Family::V4)
    }

    /// The key with these addresses and this [`Key::rest`].
    pub fn from_rest(src: Address, dst: Address, rest: u64, family: Family) -> Key {
        Key {
            src,
            dst,
            l4: [(rest >> 48) as u16, (rest >> 32) as u16],
            zone: (rest >> 16) as u16,
            protocol: (rest >> 8) as u8,
            family,
        }
    }

    /// The key of a tuple, or `None` if its addresses are of two families or its ports do not fit
    /// its protocol.
    pub fn from_tuple(tuple: &Tuple, zone: Zone) -> Option<Key> {
        let family = match (tuple.src, tuple.dst) {
            (IpAddr::V4(_), IpAddr::V4(_)) => Family::V4,
            (IpAddr::V6(_), IpAddr::V6(_)) => Family::V6,
            _ => return None,
        };
        let mut key = Key {
            src: tuple.src.into(),
            dst: tuple.dst.into(),
            l4: [0; 2],
            zone: zone.0,
            protocol: tuple.protocol,
            family,
        };
        key.l4 = match (tuple.l4, key.is_icmp()) {
            (TupleL4::Icmp { id, icmp_type, code }, true) => {
                [id, u16::from(icmp_type) << 8 | u16::from(code)]
            }
            (TupleL4::Ports { src, dst }, false) => [src, dst],
            (TupleL4::None, false) => [0; 2],
            _ => return None,
        };
        Some(key)
    }

    /// The tuple as dumps show it: protocols without ports have the ports 0
    /// (ovs: `lib/ct-dpif.c`, `ct_dpif_format_tuple`).
    pub fn tuple(&self) -> Tuple {
        let l4 = if self.is_icmp() {
            TupleL4::Icmp {
                id: self.l4[0],
                icmp_type: self.icmp_type(),
                code: (self.l4[1] & 0xff) as u8,
            }
        } else {
            TupleL4::Ports { src: self.l4[0], dst: self.l4[1] }
        };
        Tuple {
            src: self.src.ip(self.family),
            dst: self.dst.ip(self.family),
            protocol: self.protocol,
            l4,
        }
    }
}

/// The lower half of [`Key::rest`], which both directions share.
#[inline(always)]
pub(crate) const fn zone_protocol(zone: u16, protocol: u8, family: Family) -> u32 {
    (zone as u32) << 16 | (protocol as u32) << 8 | family as u32
}

/// The ICMP type in the other direction: the reply's for a query and the query's for a reply. Other
/// types, which keys never have, stay the same.
fn reverse_icmp(family: Family, icmp_type: u8) -> u8 {
    const V4_PAIRS: [(u8, u8); 3] = [
        (icmp::ECHO_REQUEST, icmp::ECHO_REPLY),
        (icmp::TIMESTAMP_REQUEST, icmp::TIMESTAMP_REPLY),
        (icmp::INFO_REQUEST, icmp::INFO_REPLY),
    ];
    const V6_PAIRS: [(u8, u8); 1] = [(icmpv6::ECHO_REQUEST, icmpv6::ECHO_REPLY)];
    let pairs: &[(u8, u8)] = match family {
        Family::V4 => &V4_PAIRS,
        Family::V6 => &V6_PAIRS,
    };
    let other = |&(request, reply): &(u8, u8)| match icmp_type {
        of if of == request => Some(reply),
        of if of == reply => Some(request),
        _ => None,
    };
    pairs.iter().find_map(other).unwrap_or(icmp_type)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn keys() -> impl Strategy<Value = Key> {
        let protocols = prop_oneof![Just(6u8), Just(17), Just(1), Just(58), any::<u8>()];
        (any::<bool>(), 0..8u128, 0..8u128, 0..4u16, 0..4u16, protocols, 0..3u16, 0..3usize)
            .prop_map(|(v6, src, dst, a, b, protocol, zone, query)| {
                let family = if v6 { Family::V6 } else { Family::V4 };
                let mut key = Key {
                    src: Address::from_bits(src),
                    dst: Address::from_bits(dst),
                    l4: [a, b],
                    zone,
                    protocol,
                    family,
                };
                if key.is_icmp() {
                    let types = if v6 { [128u8, 129, 128] } else { [8, 0, 13] };
                    key.l4[1] = u16::from(types[query]) << 8;
                }
                key
            })
    }

    proptest! {
        #[test]
        fn both_directions_hash_alike_and_reversing_twice_is_nothing(key in keys(), seed: u64) {
            let secrets = Secrets::seed(seed);
            prop_assert_eq!(key.reversed().reversed(), key);
            prop_assert_eq!(key.hash(&secrets), key.reversed().hash(&secrets));
        }

        #[test]
        fn words_hold_a_whole_key(key in keys()) {
            let back = match key.family {
                Family::V4 => Key::from_words_v4(key.addresses_v4(), key.rest()),
                Family::V6 => {
                    let (src, dst) = (key.src.words(), key.dst.words());
                    let (src, dst) = (Address::from_words(src), Address::from_words(dst));
                    Key::from_rest(src, dst, key.rest(), Family::V6)
                }
            };
            prop_assert_eq!(back, key);
        }

        #[test]
        fn a_key_and_its_tuple_say_the_same(key in keys()) {
            prop_assert_eq!(Key::from_tuple(&key.tuple(), Zone(key.zone)), Some(key));
        }
    }

    #[test]
    fn hashes_depend_on_every_part_and_on_the_seed() {
        let key = Key {
            src: Ipv4Addr::new(10, 0, 0, 1).into(),
            dst: Ipv4Addr::new(10, 0, 0, 2).into(),
            l4: [1, 2],
            zone: 3,
            protocol: 6,
            family: Family::V4,
        };
        let secrets = Secrets::seed(1);
        let others = [
            Key { src: Ipv4Addr::new(10, 0, 0, 3).into(), ..key },
            Key { dst: Ipv4Addr::new(10, 0, 0, 3).into(), ..key },
            Key { l4: [2, 1], ..key },
            Key { zone: 4, ..key },
            Key { protocol: 17, ..key },
            Key { family: Family::V6, ..key },
        ];
        for other in others {
            assert_ne!(other.hash(&secrets), key.hash(&secrets), "{other:?}");
        }
        assert_ne!(key.hash(&Secrets::seed(2)), key.hash(&secrets));
    }
}
