//! The views read back the packets that the builder makes.

use proptest::prelude::*;

use super::*;
use crate::checksum::Verdict;
use crate::fragment::Fragment;
use crate::numbers::protocol;
use crate::tcp::{TcpFlags, TcpOption};
use crate::{Arp, Ethernet, Icmp, Icmpv6, Ipv4, Ipv6, Tcp, Udp, Vlan};

const A: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
const B: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);

fn verdict(packet: &[u8]) -> Verdict {
    UpperLayer::find(packet).unwrap().verify(packet)
}

#[test]
fn arp_and_tags() {
    let frame = PacketBuilder::eth(A, B)
        .tag(ethertype::SERVICE_VLAN, Tci::new(5, 0))
        .vlan(Tci::new(7, 3))
        .arp_request([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
    let eth = Ethernet::new_checked(&frame[..]).unwrap();
    assert_eq!((eth.source(), eth.destination(), eth.ethertype()), (A, B, 0x88a8));
    let outer = Vlan::new_checked(eth.payload()).unwrap();
    assert_eq!((outer.tci(), outer.ethertype()), (Tci(5), 0x8100));
    let inner = Vlan::new_checked(outer.payload()).unwrap();
    assert_eq!((inner.tci().vid(), inner.tci().pcp(), inner.ethertype()), (7, 3, ethertype::ARP));
    let arp = Arp::new_checked(inner.payload()).unwrap();
    assert_eq!((arp.operation(), arp.sender_mac(), arp.target_mac()), (1, A, MacAddr::ZERO));
    assert_eq!((arp.sender_ip(), arp.target_ip()), ([10, 0, 0, 1].into(), [10, 0, 0, 2].into()));
    for (at, wrong) in [(1, 6), (3, 1), (4, 8), (5, 16)] {
        let mut lying = inner.payload().to_vec();
        lying[at] = wrong;
        assert!(Arp::new_checked(lying).is_err(), "byte {at}");
    }
    assert!(Arp::new_checked(&inner.payload()[..27]).is_err());
}

#[test]
fn icmp_error_quotes_the_packet() {
    let (a, b) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2));
    let inner = PacketBuilder::bare().ipv4(a, b).udp(1, 2).payload([7; 1000]).build();
    let error = PacketBuilder::bare().ipv4(b, a).icmp_error(3, 1, 0, &inner).build();
    assert_eq!(error.len(), 576);
    let ip = Ipv4::new_checked(&error[..]).unwrap();
    let icmp = Icmp::new_checked(ip.payload()).unwrap();
    assert!(icmp.is_error());
    assert_eq!(verdict(&error), Verdict::Good);
    assert!(UpperLayer::find(icmp.payload()).is_err(), "the quoted packet is cut");
    let upper = UpperLayer::find_quoted(icmp.payload()).unwrap();
    assert_eq!(upper.ports(icmp.payload()), Some((1, 2)));
}

#[test]
fn neighbour_discovery() {
    let (a, b) = (Ipv6Addr::LOCALHOST, Ipv6Addr::from_bits(2));
    let solicit = PacketBuilder::eth(A, B).ipv6(a, b).neighbour_solicit(b).build();
    let ip = Ipv6::new_checked(&solicit[14..]).unwrap();
    let nd = Icmpv6::new_checked(ip.payload()).unwrap();
    assert_eq!((ip.hop_limit(), nd.nd_target(), nd.nd_source_link()), (255, Some(b), Some(A)));
    assert_eq!(verdict(&solicit[14..]), Verdict::Good);
    let advert = PacketBuilder::eth(B, A).ipv6(b, a).neighbour_advert(b).build();
    let ip = Ipv6::new_checked(&advert[14..]).unwrap();
    let nd = Icmpv6::new_checked(ip.payload()).unwrap();
    assert_eq!(
        (nd.nd_target(), nd.nd_source_link(), nd.nd_target_link()),
        (Some(b), None, Some(B))
    );
}

#[test]
fn fragments() {
    for (offset, more, expect) in
        [(0, true, Fragment::First), (8, true, Fragment::Later), (16, false, Fragment::Later)]
    {
        let v4 = PacketBuilder::bare().ipv4([1, 1, 1, 1].into(), [2, 2, 2, 2].into());
        let v6 = PacketBuilder::bare().ipv6(Ipv6Addr::LOCALHOST, Ipv6Addr::from_bits(2));
        for ip in [v4, v6] {
            let packet = ip.fragment(offset, more).id(9).raw(protocol::UDP, &[0; 16]);
            let upper = UpperLayer::find(&packet).unwrap();
            assert_eq!((upper.fragment, upper.segment(&packet)), (expect, &[0u8; 16][..]));
            assert_eq!(upper.ports(&packet).is_some(), expect == Fragment::First);
            assert_eq!(upper.verify(&packet), Verdict::Absent);
        }
    }
}

#[test]
fn too_much_payload_is_cut() {
    let v4 = PacketBuilder::bare().ipv4([1, 1, 1, 1].into(), [2, 2, 2, 2].into());
    let v6 = PacketBuilder::bare().ipv6(Ipv6Addr::LOCALHOST, Ipv6Addr::LOCALHOST).fragment(0, true);
    for ip in [v4, v6] {
        let udp = ip.clone().udp(1, 2).payload(vec![0; 70_000]).build();
        assert!(UpperLayer::find(&udp).is_ok());
        assert!(UpperLayer::find(&ip.tcp(1, 2).payload(vec![0; 70_000]).build()).is_ok());
    }
}

proptest! {
    #[test]
    fn tcp_comes_back(
        a: [u8; 16], b: [u8; 16], v6: bool, ports: (u16, u16), flags in 0u16..0x1000, seq: u32,
        ack: u32, window: u16, mss: Option<u16>, wscale: Option<u8>, sack: bool,
        stamps: Option<(u32, u32)>, ttl: u8, tos: u8,
        payload in prop::collection::vec(any::<u8>(), 0..50),
    ) {
        let ip = ip(a, b, v6).ttl(ttl).tos(tos);
        let mut tcp = ip.tcp(ports.0, ports.1).flags(TcpFlags(flags)).seq(seq).ack(ack);
        let mut options = Vec::new();
        if let Some(mss) = mss {
            tcp = tcp.mss(mss);
            options.push(TcpOption::MaxSegmentSize(mss));
        }
        if sack {
            tcp = tcp.sack_permitted();
            options.push(TcpOption::SackPermitted);
        }
        if let Some((value, echo)) = stamps {
            tcp = tcp.timestamps(value, echo);
            options.push(TcpOption::Timestamps { value, echo });
        }
        if let Some(shift) = wscale {
            tcp = tcp.wscale(shift);
            options.push(TcpOption::WindowScale(shift));
        }
        let packet = tcp.window(window).payload(payload.clone()).build();
        let upper = UpperLayer::find(&packet).unwrap();
        prop_assert_eq!(upper.verify(&packet), Verdict::Good);
        prop_assert_eq!(upper.addresses, ip_addresses(a, b, v6));
        let tcp = Tcp::new_checked(upper.segment(&packet)).unwrap();
        prop_assert_eq!((tcp.source_port(), tcp.destination_port()), ports);
        prop_assert_eq!((tcp.flags().0, tcp.seq(), tcp.ack()), (flags, seq, ack));
        prop_assert_eq!((tcp.window(), tcp.window_scale()), (window, wscale));
        prop_assert_eq!(tcp.options().collect::<Vec<_>>(), options);
        prop_assert_eq!(tcp.payload(), &payload[..]);
        if v6 {
            let ip = Ipv6::new_checked(&packet[..]).unwrap();
            prop_assert_eq!((ip.hop_limit(), ip.traffic_class()), (ttl, tos));
        } else {
            let ip = Ipv4::new_checked(&packet[..]).unwrap();
            prop_assert_eq!((ip.ttl(), ip.tos()), (ttl, tos));
            prop_assert_eq!(checksum::verify_ipv4_header(ip.header()), Verdict::Good);
        }
    }

    #[test]
    fn udp_and_echo_come_back(
        a: [u8; 16], b: [u8; 16], v6: bool, ports: (u16, u16),
        payload in prop::collection::vec(any::<u8>(), 0..50),
    ) {
        let packet = ip(a, b, v6).udp(ports.0, ports.1).payload(payload.clone()).build();
        let upper = UpperLayer::find(&packet).unwrap();
        prop_assert_eq!(upper.verify(&packet), Verdict::Good);
        let udp = Udp::new_checked(upper.segment(&packet)).unwrap();
        prop_assert_eq!((udp.source_port(), udp.destination_port()), ports);
        prop_assert_eq!(udp.payload(), &payload[..]);

        let packet = ip(a, b, v6).echo_request(ports.0, ports.1).payload(payload.clone()).build();
        let upper = UpperLayer::find(&packet).unwrap();
        prop_assert_eq!(upper.verify(&packet), Verdict::Good);
        let echo = Icmp::new_checked(upper.segment(&packet)).unwrap();
        prop_assert_eq!((echo.echo_id(), echo.echo_seq()), ports);
        prop_assert_eq!(echo.payload(), &payload[..]);
    }

    /// A partial checksum that is completed as a network card does equals the full one.
    #[test]
    fn partial_finishes_to_full(
        a: [u8; 16], b: [u8; 16], v6: bool,
        payload in prop::collection::vec(any::<u8>(), 0..50),
    ) {
        let partial = ip(a, b, v6).checksum(Checksum::Partial);
        let mut tcp = partial.clone().tcp(1, 2).payload(payload.clone()).build();
        let mut udp = partial.udp(1, 2).payload(payload).build();
        for (packet, offset) in [(&mut tcp, 16), (&mut udp, 6)] {
            let upper = UpperLayer::find(packet).unwrap();
            let mut filled = packet.clone();
            prop_assert!(fill_checksums(&mut filled));
            prop_assert!(checksum::finish_partial(packet, upper.start, offset));
            prop_assert_eq!(upper.verify(packet), Verdict::Good);
            prop_assert_eq!(upper.verify(&filled), Verdict::Good);
        }
    }

    #[test]
    fn wrong_checksums_are_found(a: [u8; 16], b: [u8; 16], v6: bool) {
        let bad = ip(a, b, v6).checksum(Checksum::Bad);
        prop_assert_eq!(verdict(&bad.clone().tcp(1, 2).build()), Verdict::Bad);
        prop_assert_eq!(verdict(&bad.echo_reply(1, 2).build()), Verdict::Bad);
        let zero = ip(a, b, v6).checksum(Checksum::Zero).udp(1, 2).build();
        prop_assert_eq!(verdict(&zero), if v6 { Verdict::Bad } else { Verdict::Absent });
    }
}

fn ip(a: [u8; 16], b: [u8; 16], v6: bool) -> IpBuilder {
    IpBuilder::new(PacketBuilder::bare(), ip_addresses(a, b, v6))
}

fn ip_addresses(a: [u8; 16], b: [u8; 16], v6: bool) -> Addresses {
    let v4 = |a: [u8; 16]| Ipv4Addr::new(a[0], a[1], a[2], a[3]);
    if v6 {
        Addresses::V6 { source: a.into(), destination: b.into() }
    } else {
        Addresses::V4 { source: v4(a), destination: v4(b) }
    }
}
