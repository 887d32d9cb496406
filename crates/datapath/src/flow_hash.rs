//! The hash that all packets of a flow or connection share, in both directions.

use base::fold;
use flow::{Field, FlowKey};
use wire::{ethertype, protocol as numbers};

/// The secret key of the hash: senders choose addresses and ports, but cannot provoke collisions.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FlowHash([u64; 6]);

impl FlowHash {
    /// Derives the key from a seed.
    pub fn new(seed: u64) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        // The upper bits of a port's and a protocol's word are zero, so no such word makes a factor zero.
        FlowHash(std::array::from_fn(|_| random.u64(..) | 1 << 63))
    }

    /// Hashes both ends of a packet. For a tracked packet these are the ends of its connection's original
    /// direction, so that NAT makes no difference.
    ///
    /// The result is the hash of the sum of both ends' hashes. An exclusive or of addresses would be equal
    /// for all pairs of hosts at equal distances. ICMP type and code, which stand in for ports, differ by
    /// direction and are left out.
    pub fn of(&self, key: &FlowKey) -> u64 {
        self.of_ends(key, !key.ct_state().is_empty() && key.ct_nw_proto() != 0)
    }

    /// Hashes both ends in the packet's own headers, as if it were not tracked.
    pub fn of_headers(&self, key: &FlowKey) -> u64 {
        self.of_ends(key, false)
    }

    fn of_ends(&self, key: &FlowKey, is_tracked: bool) -> u64 {
        let Ends { addresses, ports, protocol } = Ends::of(key, is_tracked);
        let FlowHash(secrets) = self;
        let end = |address: Field, port: u16| {
            let address = key.get(address);
            let address = fold(address as u64 ^ secrets[0], (address >> 64) as u64 ^ secrets[1]);
            fold(address ^ secrets[2], u64::from(port) ^ secrets[3])
        };
        let [source, destination] = addresses;
        let ends = end(source, ports[0]).wrapping_add(end(destination, ports[1]));
        fold(ends ^ secrets[4], u64::from(protocol) ^ secrets[5])
    }
}

/// The hashed fields.
struct Ends {
    addresses: [Field; 2],
    ports: [u16; 2],
    protocol: u8,
}

impl Ends {
    /// Those of the connection's original direction, or of the packet itself.
    fn of(key: &FlowKey, is_tracked: bool) -> Ends {
        let addresses = match (key.eth_type(), is_tracked) {
            (ethertype::IPV4, true) => [Field::CtNwSrc, Field::CtNwDst],
            (ethertype::IPV4, false) => [Field::Ipv4Src, Field::Ipv4Dst],
            (ethertype::IPV6, true) => [Field::CtIpv6Src, Field::CtIpv6Dst],
            (ethertype::IPV6, false) => [Field::Ipv6Src, Field::Ipv6Dst],
            (ethertype::ARP, _) => [Field::ArpSpa, Field::ArpTpa],
            _ => [Field::EthSrc, Field::EthDst],
        };
        let (protocol, ports) = match is_tracked {
            true => (key.ct_nw_proto(), [key.ct_tp_src(), key.ct_tp_dst()]),
            false => (key.nw_proto(), [key.tp_src(), key.tp_dst()]),
        };
        let ports = match protocol {
            numbers::ICMP | numbers::ICMPV6 => [0, 0],
            _ => ports,
        };
        Ends { addresses, ports, protocol }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flow::CtState;

    /// A packet of a protocol between two hosts and ports.
    fn packet(number: u8, from: (u32, u16), to: (u32, u16)) -> FlowKey {
        let mut key = FlowKey::new();
        key.set_eth_type(ethertype::IPV4);
        key.set(Field::Ipv4Src, from.0.into());
        key.set(Field::Ipv4Dst, to.0.into());
        key.set_nw_proto(number);
        key.set_tp_src(from.1);
        key.set_tp_dst(to.1);
        key
    }

    /// The same packet, tracked as one of a connection.
    fn tracked(mut key: FlowKey, from: (u32, u16), to: (u32, u16)) -> FlowKey {
        key.set_ct_state(CtState::TRK | CtState::EST);
        key.set(Field::CtNwProto, key.nw_proto().into());
        key.set(Field::CtNwSrc, from.0.into());
        key.set(Field::CtNwDst, to.0.into());
        key.set(Field::CtTpSrc, from.1.into());
        key.set(Field::CtTpDst, to.1.into());
        key
    }

    #[test]
    fn packets_of_a_connection_agree_and_others_do_not() {
        let hash = FlowHash::new(1);
        let (client, server, public) = ((1, 1000), (2, 80), (9, 5000));
        let first = packet(6, client, server);
        let check = |other: FlowKey, agrees: bool, what: &str| {
            assert_eq!(hash.of(&first) == hash.of(&other), agrees, "{what}");
        };
        check(packet(6, server, client), true, "a reply");
        check(tracked(first.clone(), client, server), true, "tracked");
        check(tracked(packet(6, server, public), client, server), true, "a reply with NAT");
        check(packet(17, client, server), false, "another protocol");
        check(packet(6, (1, 1001), server), false, "another port");
        check(packet(6, (2, 1000), (1, 80)), false, "the ports exchanged");
        let ping = |kind: u16, from: u32, to: u32| packet(1, (from, kind), (to, 0));
        assert_eq!(hash.of(&ping(8, 1, 2)), hash.of(&ping(0, 2, 1)), "an echo and its reply");
    }

    /// Addresses that collide for one secret do not collide for another.
    #[test]
    fn what_collides_depends_on_the_secret() {
        let buckets = |seed: u64| -> Vec<u64> {
            let hash = FlowHash::new(seed);
            (0..64).map(|n| hash.of(&packet(6, (n, 1000), (1, 80))) % 8).collect()
        };
        let (one, other) = (buckets(1), buckets(2));
        let same = one.iter().zip(&other).filter(|(one, other)| one == other).count();
        // 8 of 64 by chance.
        assert!(same < 32, "{same}");
    }
}
