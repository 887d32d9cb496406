//! The hash that all packets of a flow or connection share, in both directions.

use flow::{Field, FlowKey};
use wire::{ethertype, protocol};

/// Hashes both ends of a packet. Of a tracked packet these are the ends of its connection's original direction,
/// so that address translation makes no difference.
///
/// The hash is the sum of the hashes of both ends. An exclusive or of addresses would be the same for all
/// pairs of hosts that lie equally far apart. The ports of ICMP, type and code, differ by direction and are
/// left out.
pub(crate) fn flow_hash(key: &FlowKey) -> u64 {
    let tracked = key.ct_nw_proto();
    let is_tracked = !key.ct_state().is_empty() && tracked != 0;
    let [source, destination] = match (key.eth_type(), is_tracked) {
        (ethertype::IPV4, true) => [Field::CtNwSrc, Field::CtNwDst],
        (ethertype::IPV4, false) => [Field::Ipv4Src, Field::Ipv4Dst],
        (ethertype::IPV6, true) => [Field::CtIpv6Src, Field::CtIpv6Dst],
        (ethertype::IPV6, false) => [Field::Ipv6Src, Field::Ipv6Dst],
        (ethertype::ARP, _) => [Field::ArpSpa, Field::ArpTpa],
        _ => [Field::EthSrc, Field::EthDst],
    };
    let (number, ports) = match is_tracked {
        true => (tracked, [key.ct_tp_src(), key.ct_tp_dst()]),
        false => (key.nw_proto(), [key.tp_src(), key.tp_dst()]),
    };
    let ports = match number {
        protocol::ICMP | protocol::ICMPV6 => [0, 0],
        _ => ports,
    };
    let mix = |hash: u64, word: u64| {
        let mixed = (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed ^ mixed >> 32
    };
    let end = |address: Field, port: u16| {
        let address = key.get(address);
        [address as u64, (address >> 64) as u64, port.into()].into_iter().fold(1, mix)
    };
    let ends = end(source, ports[0]).wrapping_add(end(destination, ports[1]));
    mix(ends, number.into())
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
        let (client, server, public) = ((1, 1000), (2, 80), (9, 5000));
        let first = packet(6, client, server);
        let check = |other: FlowKey, agrees: bool, what: &str| {
            assert_eq!(flow_hash(&first) == flow_hash(&other), agrees, "{what}");
        };
        check(packet(6, server, client), true, "a reply");
        check(tracked(first.clone(), client, server), true, "tracked");
        check(tracked(packet(6, server, public), client, server), true, "a translated reply");
        check(packet(17, client, server), false, "another protocol");
        check(packet(6, (1, 1001), server), false, "another port");
        check(packet(6, (2, 1000), (1, 80)), false, "the ports exchanged");
        let ping = |kind: u16, from: u32, to: u32| packet(1, (from, kind), (to, 0));
        assert_eq!(flow_hash(&ping(8, 1, 2)), flow_hash(&ping(0, 2, 1)), "an echo and its reply");
    }
}
