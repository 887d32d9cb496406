//! What a connection is looked up by: one direction's tuple and the zone, in 40 bytes.

use base::Zone;
use flow::{Tuple, TupleL4};
use rapidhash::v3::{RapidSecrets, rapidhash_v3_nano_inline};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use wire::{icmp, icmpv6, protocol};

/// An IPv6 address, or an IPv4 address in the low 32 bits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(crate) struct Address([u64; 2]);

/// Which IP version an [`Address`] is of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Family {
    V4 = 4,
    V6 = 6,
}

/// One direction of a connection in its zone.
///
/// `l4` holds source and destination port, or of an ICMP query its identifier and then type and
/// code in one word, or zeros (ovs: `lib/conntrack-private.h`, `struct conn_key`).
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
    /// Whether the protocol is ICMP or ICMPv6 in its own IP version, whose queries are told apart
    /// by identifiers.
    pub fn is_icmp(&self) -> bool {
        matches!(
            (self.family, self.protocol),
            (Family::V4, protocol::ICMP) | (Family::V6, protocol::ICMPV6)
        )
    }

    /// Whether the protocol has ports that are known here, which address translation may change.
    pub fn has_translated_ports(&self) -> bool {
        matches!(self.protocol, protocol::TCP | protocol::UDP | protocol::SCTP)
    }

    /// The type of an ICMP query.
    pub fn icmp_type(&self) -> u8 {
        (self.l4[1] >> 8) as u8
    }

    /// The key of packets the other way.
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

    /// A hash that is the same in both directions, so that one serves a packet whichever way its
    /// connection lies (ovs: `lib/conntrack.c`, `conn_key_hash`).
    #[inline]
    pub fn hash(&self, secrets: &RapidSecrets) -> u32 {
        let forward = self.words();
        let backward = self.reversed().words();
        let words = if forward <= backward { forward } else { backward };
        let mut bytes = [0; 40];
        for (chunk, word) in bytes.chunks_exact_mut(8).zip(words) {
            chunk.copy_from_slice(&word.to_le_bytes());
        }
        let hash = rapidhash_v3_nano_inline::<true, false>(&bytes, secrets);
        (hash ^ (hash >> 32)) as u32
    }

    fn words(&self) -> [u64; 5] {
        let l4 = u64::from(self.l4[0]) << 48 | u64::from(self.l4[1]) << 32;
        let rest = u64::from(self.zone) << 16
            | u64::from(self.protocol) << 8
            | u64::from(self.family as u8);
        [self.src.0[0], self.src.0[1], self.dst.0[0], self.dst.0[1], l4 | rest]
    }

    /// The key of a tuple given in words, or `None` where its addresses are of two families or
    /// its parts do not fit its protocol.
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

/// The type of the message that answers a query, and of the query that an answer is to. Others,
/// which never get into a key, stay as they are.
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

#[cfg(test)]
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
            let secrets = RapidSecrets::seed(seed);
            prop_assert_eq!(key.reversed().reversed(), key);
            prop_assert_eq!(key.hash(&secrets), key.reversed().hash(&secrets));
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
        let secrets = RapidSecrets::seed(1);
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
        assert_ne!(key.hash(&RapidSecrets::seed(2)), key.hash(&secrets));
    }
}
