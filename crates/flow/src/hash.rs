//! Hashes of packets' headers, for load balancing.

use crate::field::Field;
use crate::key::{FRAG_ANY, FlowKey};
use wire::ethertype;
use wire::protocol;

/// The fields of a hash (ovs: `include/linux/openvswitch.h`, `enum ovs_hash_alg`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum HashAlgorithm {
    /// Addresses, protocol and ports. The two directions of a connection have different hashes.
    #[default]
    L4,
    /// Symmetric: both directions of a connection have the same hash. UDP ports are not included, since a
    /// reply may come from another port.
    SymmetricL4,
}

impl HashAlgorithm {
    /// Returns its number in the text of datapath actions.
    pub fn number(self) -> u32 {
        match self {
            HashAlgorithm::L4 => 0,
            HashAlgorithm::SymmetricL4 => 1,
        }
    }

    /// Returns the algorithm with this number.
    pub fn from_number(number: u32) -> Option<Self> {
        match number {
            0 => Some(HashAlgorithm::L4),
            1 => Some(HashAlgorithm::SymmetricL4),
            _ => None,
        }
    }

    /// Returns the hash of a packet. It is never 0, which means "no hash". It equals that of Open vSwitch on
    /// processors without CRC instructions (ovs: `lib/flow.c`, `flow_hash_5tuple`,
    /// `flow_hash_symmetric_l3l4`), so that packets select the same bucket of a group.
    pub fn hash(self, key: &FlowKey, basis: u32) -> u32 {
        let (is_v4, is_v6) = (key.eth_type() == ethertype::IPV4, key.eth_type() == ethertype::IPV6);
        let mut words = Words::new(basis);
        if !is_v4 && !is_v6 {
            // There are only Ethernet addresses.
            let (from, to) = (key.get(Field::EthSrc), key.get(Field::EthDst));
            match self {
                HashAlgorithm::L4 => words.add(from).add(to),
                HashAlgorithm::SymmetricL4 => words.add(from ^ to),
            };
            return words.add(key.eth_type().into()).finish(basis).max(1);
        }
        let (from, to) = match is_v4 {
            true => (key.get(Field::Ipv4Src), key.get(Field::Ipv4Dst)),
            false => (key.get(Field::Ipv6Src), key.get(Field::Ipv6Dst)),
        };
        let addresses: &[u128] = match self {
            HashAlgorithm::L4 => &[from, to],
            HashAlgorithm::SymmetricL4 => &[from ^ to],
        };
        for &address in addresses {
            match is_v4 {
                true => words.add_word((address as u32).swap_bytes()),
                false => words.add(address.swap_bytes()),
            };
        }
        let proto = key.nw_proto();
        words.add_word(proto.into());
        let (from_port, to_port) = (key.tp_src().swap_bytes(), key.tp_dst().swap_bytes());
        match self {
            HashAlgorithm::L4 => {
                if matches!(
                    proto,
                    protocol::ICMP
                        | protocol::TCP
                        | protocol::UDP
                        | protocol::ICMPV6
                        | protocol::SCTP
                ) {
                    words.add_word(u32::from(to_port) << 16 | u32::from(from_port));
                }
                words.finish(42).max(1)
            }
            HashAlgorithm::SymmetricL4 => {
                if key.nw_frag() & FRAG_ANY == 0 && matches!(proto, protocol::TCP | protocol::SCTP)
                {
                    words.add_word((from_port ^ to_port).into());
                }
                words.finish(basis).max(1)
            }
        }
    }
}

/// An incremental hash of words (MurmurHash3, 32 bits, as in ovs: `lib/hash.h`).
#[derive(Clone, Copy, Debug)]
pub struct Words(u32);

impl Words {
    /// Starts with a basis.
    pub fn new(basis: u32) -> Self {
        Words(basis)
    }

    /// Adds 32 bits.
    pub fn add_word(&mut self, word: u32) -> &mut Self {
        let mixed = word.wrapping_mul(0xcc9e_2d51).rotate_left(15).wrapping_mul(0x1b87_3593);
        let hash = (self.0 ^ mixed).rotate_left(13);
        self.0 = hash.wrapping_mul(5).wrapping_add(0xe654_6b64);
        self
    }

    /// Adds a value, its low bits first.
    pub fn add(&mut self, value: u128) -> &mut Self {
        for i in 0..4 {
            self.add_word((value >> (32 * i)) as u32);
        }
        self
    }

    /// Returns the hash.
    pub fn finish(self, last: u32) -> u32 {
        let mut hash = self.0 ^ last;
        hash = (hash ^ hash >> 16).wrapping_mul(0x85eb_ca6b);
        hash = (hash ^ hash >> 13).wrapping_mul(0xc2b2_ae35);
        hash ^ hash >> 16
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn tcp(from: u128, to: u128, ports: [u128; 2]) -> FlowKey {
        let mut key = FlowKey::new();
        key.set_eth_type(0x0800);
        let fields = [Field::Ipv4Src, Field::Ipv4Dst, Field::NwProto, Field::TpSrc, Field::TpDst];
        for (field, value) in fields.into_iter().zip([from, to, 6, ports[0], ports[1]]) {
            key.set(field, value);
        }
        key
    }

    #[test]
    fn a_symmetric_hash_is_that_of_the_other_direction() {
        let (there, back) = (tcp(1, 2, [1000, 80]), tcp(2, 1, [80, 1000]));
        let hash = |algorithm: HashAlgorithm, key| algorithm.hash(key, 7);
        assert_eq!(
            hash(HashAlgorithm::SymmetricL4, &there),
            hash(HashAlgorithm::SymmetricL4, &back)
        );
        assert_ne!(hash(HashAlgorithm::L4, &there), hash(HashAlgorithm::L4, &back));
        assert_ne!(
            HashAlgorithm::L4.hash(&there, 1),
            HashAlgorithm::L4.hash(&there, 2),
            "the basis counts"
        );
    }

    #[test]
    fn neighbours_spread_over_all_values_of_the_low_bits() {
        for algorithm in [HashAlgorithm::L4, HashAlgorithm::SymmetricL4] {
            let mut counts = [0u32; 16];
            for i in 0..1600u128 {
                let key = tcp(0x0a00_0001 + i % 40, 0x0a01_0001 + i / 40, [1000 + i % 7, 80]);
                counts[(algorithm.hash(&key, 0) & 15) as usize] += 1;
            }
            assert!(counts.iter().all(|count| (60..150).contains(count)), "{counts:?}");
        }
        let seen: BTreeSet<u32> =
            (0..100).map(|i| HashAlgorithm::SymmetricL4.hash(&tcp(i, 0, [1, 1]), 0)).collect();
        assert_eq!(seen.len(), 100);
    }
}
