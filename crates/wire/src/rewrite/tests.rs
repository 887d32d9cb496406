//! After any rewrite, a computed checksum agrees with the one in the packet. No rewrite panics, whatever the
//! bytes are.

use proptest::prelude::*;

use super::*;
use crate::builder::{Checksum, IpBuilder, PacketBuilder, fill_checksums};
use crate::checksum::{self, Verdict};

/// One rewrite with its new value.
#[derive(Debug, Clone, Copy)]
enum Rewrite {
    V4Src(u32),
    V4Dst(u32),
    V6Src(u128),
    V6Dst(u128),
    Ttl(u8),
    Tos(u8),
    HopLimit(u8),
    Class(u8),
    Label(u32),
    TpSrc(u16),
    TpDst(u16),
    IcmpId(u16),
    IcmpTypeCode(u8, u8),
    NdTarget(u128),
    NdLink(u64),
    NdReserved(u32),
    NdOptionKind(u8),
}

impl Rewrite {
    fn apply(self, packet: &mut [u8], partial: bool) -> bool {
        match self {
            Rewrite::V4Src(a) => set_ipv4_src(packet, a.into(), partial),
            Rewrite::V4Dst(a) => set_ipv4_dst(packet, a.into(), partial),
            Rewrite::V6Src(a) => set_ipv6_src(packet, a.into(), partial),
            Rewrite::V6Dst(a) => set_ipv6_dst(packet, a.into(), partial),
            Rewrite::Ttl(v) => set_ttl(packet, v),
            Rewrite::Tos(v) => set_tos(packet, v),
            Rewrite::HopLimit(v) => set_hop_limit(packet, v),
            Rewrite::Class(v) => set_traffic_class(packet, v),
            Rewrite::Label(v) => set_flow_label(packet, v),
            Rewrite::TpSrc(v) => set_tp_src(packet, v, partial),
            Rewrite::TpDst(v) => set_tp_dst(packet, v, partial),
            Rewrite::IcmpId(v) => set_icmp_id(packet, v, partial),
            Rewrite::IcmpTypeCode(t, c) => set_icmp_type_code(packet, t, c, partial),
            Rewrite::NdTarget(a) => set_nd_target(packet, a.into(), partial),
            Rewrite::NdReserved(v) => set_nd_reserved(packet, v, partial),
            Rewrite::NdOptionKind(v) => set_nd_option_kind(packet, v, partial),
            Rewrite::NdLink(m) => {
                let mac = MacAddr::from_u64(m);
                set_nd_sll(packet, mac, partial) | set_nd_tll(packet, mac, partial)
            }
        }
    }
}

fn rewrite() -> impl Strategy<Value = Rewrite> {
    prop_oneof![
        any::<u32>().prop_map(Rewrite::V4Src),
        any::<u32>().prop_map(Rewrite::V4Dst),
        any::<u128>().prop_map(Rewrite::V6Src),
        any::<u128>().prop_map(Rewrite::V6Dst),
        any::<u8>().prop_map(Rewrite::Ttl),
        any::<u8>().prop_map(Rewrite::Tos),
        any::<u8>().prop_map(Rewrite::HopLimit),
        any::<u8>().prop_map(Rewrite::Class),
        any::<u32>().prop_map(Rewrite::Label),
        any::<u16>().prop_map(Rewrite::TpSrc),
        any::<u16>().prop_map(Rewrite::TpDst),
        any::<u16>().prop_map(Rewrite::IcmpId),
        any::<(u8, u8)>().prop_map(|(t, c)| Rewrite::IcmpTypeCode(t, c)),
        any::<u128>().prop_map(Rewrite::NdTarget),
        any::<u64>().prop_map(Rewrite::NdLink),
        any::<u32>().prop_map(Rewrite::NdReserved),
        any::<u8>().prop_map(Rewrite::NdOptionKind),
    ]
}

fn ip(v6: bool) -> IpBuilder {
    let start = PacketBuilder::bare();
    if v6 {
        start.ipv6(Ipv6Addr::LOCALHOST, Ipv6Addr::from_bits(2))
    } else {
        start.ipv4([10, 0, 0, 1].into(), [10, 0, 0, 2].into())
    }
}

/// Every kind of packet that carries a transport checksum.
fn packets(v6: bool, payload: &[u8], checksum: Checksum) -> Vec<Vec<u8>> {
    let ip = ip(v6).checksum(checksum);
    let mut packets = vec![
        ip.clone().tcp(1000, 80).payload(payload).build(),
        ip.clone().udp(1000, 53).payload(payload).build(),
    ];
    // The checksums of ICMP and SCTP cover no pseudo-header, so they have no partial form.
    if checksum == Checksum::Full {
        packets.push(ip.clone().echo_request(1, 2).payload(payload).build());
        packets.push(ip.clone().sctp(1000, 80, 7).payload(payload).build());
    }
    if v6 {
        packets.push(ip.clone().neighbour_solicit(Ipv6Addr::from_bits(3)).build());
        packets.push(ip.neighbour_advert(Ipv6Addr::from_bits(3)).build());
    }
    packets
}

fn good(packet: &[u8]) -> bool {
    let header = Ipv4::new_checked(packet)
        .map_or(Verdict::Good, |ip| checksum::verify_ipv4_header(ip.header()));
    let upper = UpperLayer::find(packet).unwrap();
    header == Verdict::Good && upper.verify(packet) == Verdict::Good
}

#[test]
fn each_rewrite_does_what_it_says() {
    let mac = MacAddr([2, 0, 0, 0, 0, 9]);
    let mut frame = PacketBuilder::eth(mac, mac).raw(0x0800, &[]);
    assert!(set_eth_src(&mut frame, MacAddr::ZERO) && set_eth_dst(&mut frame, MacAddr::BROADCAST));
    assert_eq!(frame[..12], [[0xff; 6], [0; 6]].concat());
    assert!(!set_eth_src(&mut frame[..13], mac));

    let mut packet = ip(false).tcp(1, 2).build();
    assert!(set_ipv4_src(&mut packet, [1, 2, 3, 4].into(), false));
    assert!(set_ipv4_dst(&mut packet, [5, 6, 7, 8].into(), false));
    assert!(set_ttl(&mut packet, 9) && set_tos(&mut packet, 0xb8));
    assert!(set_tp_src(&mut packet, 11, false) && set_tp_dst(&mut packet, 12, false));
    assert!(!set_icmp_id(&mut packet, 1, false) && !set_hop_limit(&mut packet, 1));
    let want = PacketBuilder::bare().ipv4([1, 2, 3, 4].into(), [5, 6, 7, 8].into());
    assert_eq!(packet, want.ttl(9).tos(0xb8).tcp(11, 12).build());

    let (a, b) = (Ipv6Addr::from_bits(7), Ipv6Addr::from_bits(u128::MAX));
    let mut packet = ip(true).echo_request(1, 2).build();
    assert!(set_ipv6_src(&mut packet, a, false) && set_ipv6_dst(&mut packet, b, false));
    assert!(set_hop_limit(&mut packet, 3) && set_traffic_class(&mut packet, 0x55));
    assert!(set_flow_label(&mut packet, 0xfff1_2345) && set_icmp_id(&mut packet, 77, false));
    let want = PacketBuilder::bare().ipv6(a, b).ttl(3).tos(0x55).label(0x1_2345);
    assert_eq!(packet, want.echo_request(77, 2).build());
}

#[test]
fn udp_without_checksum_stays_without() {
    let mut packet = ip(false).checksum(Checksum::Zero).udp(1, 2).build();
    assert!(set_tp_src(&mut packet, 9, false));
    assert!(set_ipv4_src(&mut packet, [9, 9, 9, 9].into(), false));
    assert_eq!(packet[26..28], [0, 0]);
}

#[test]
fn later_fragments_have_no_ports() {
    for v6 in [false, true] {
        let mut packet = ip(v6).fragment(1480, true).raw(protocol::TCP, &[7; 40]);
        let before = packet.clone();
        assert!(!set_tp_src(&mut packet, 1, false) && !set_icmp_id(&mut packet, 1, false));
        assert_eq!(packet, before);
        assert!(
            set_ipv4_src(&mut packet, [9, 9, 9, 9].into(), false)
                | set_ipv6_src(&mut packet, Ipv6Addr::from_bits(9), false)
        );
        assert_eq!(packet[packet.len() - 40..], [7; 40]);
    }
}

/// If segments are left, the pseudo-header does not contain the destination in the packet.
#[test]
fn routing_header_shields_the_checksum_from_the_destination() {
    for (segments_left, covered) in [(0, true), (1, false)] {
        let tcp = ip(true).tcp(1, 2).build()[40..].to_vec();
        let routed = [&[protocol::TCP, 0, 0, segments_left, 0, 0, 0, 0], &tcp[..]].concat();
        let mut packet = ip(true).raw(protocol::ROUTING, &routed);
        let before = packet.clone();
        assert!(set_ipv6_dst(&mut packet, Ipv6Addr::from_bits(99), false));
        assert_eq!(packet[48..] != before[48..], covered);
        let before = packet.clone();
        assert!(set_ipv6_src(&mut packet, Ipv6Addr::from_bits(99), false));
        assert_ne!(packet[48..], before[48..]);
    }
}

/// Truncated SCTP packets do not change. A wrong CRC stays wrong.
#[test]
fn sctp_ports_come_with_their_crc() {
    type Build = fn(IpBuilder) -> Vec<u8>;
    let build: Build = |ip| ip.sctp(1000, 80, 7).payload([1, 2, 3, 4, 5]).build();
    let want: Build = |ip| ip.sctp(1000, 8080, 7).payload([1, 2, 3, 4, 5]).build();
    for v6 in [false, true] {
        for checksum in [Checksum::Full, Checksum::Bad] {
            let mut packet = build(ip(v6).checksum(checksum));
            // Padding of short frames is not part of the packet.
            packet.extend([9; 7]);
            assert!(set_tp_dst(&mut packet, 8080, false));
            let len = packet.len() - 7;
            assert_eq!(packet[..len], want(ip(v6).checksum(checksum)), "{checksum:?}");
            assert_eq!(packet[len..], [9; 7]);
        }
        let mut partial = build(ip(v6).checksum(Checksum::Partial));
        assert!(set_tp_dst(&mut partial, 8080, true));
        assert_eq!(partial, want(ip(v6).checksum(Checksum::Partial)));

        // The CRC of the datagram is unknown; the change is that of the first fragment's bytes.
        let first = ip(v6).fragment(0, true);
        let mut packet = build(first.clone());
        assert!(set_tp_dst(&mut packet, 8080, false));
        assert_eq!(packet, want(first));

        let mut cut = build(ip(v6));
        cut.truncate(cut.len() - 1);
        let later = ip(v6).fragment(1480, true).raw(protocol::SCTP, &[7; 40]);
        let short = ip(v6).raw(protocol::SCTP, &[7; 11]);
        for mut packet in [cut, later, short] {
            let before = packet.clone();
            assert!(!set_tp_src(&mut packet, 1, false) && !set_tp_dst(&mut packet, 1, false));
            assert_eq!(packet, before);
        }
    }
}

/// ICMP errors quote eight bytes of TCP: the ports change; there is no checksum.
#[test]
fn quoted_packets_change_as_far_as_they_go() {
    let mut quote = ip(false).tcp(1000, 80).build();
    quote.truncate(28);
    assert!(set_tp_src(&mut quote, 1, false));
    assert!(set_ipv4_src(&mut quote, [9, 9, 9, 9].into(), false));
    assert_eq!(UpperLayer::find_quoted(&quote).unwrap().ports(&quote), Some((1, 80)));
    assert_eq!(checksum::verify_ipv4_header(&quote[..20]), Verdict::Good);
    quote.truncate(21);
    assert!(!set_tp_src(&mut quote, 1, false));
}

proptest! {
    #[test]
    fn full_checksums_agree(
        v6: bool, payload in prop::collection::vec(any::<u8>(), 0..40),
        rewrites in prop::collection::vec(rewrite(), 1..8),
    ) {
        for mut packet in packets(v6, &payload, Checksum::Full) {
            prop_assert!(good(&packet));
            for rewrite in &rewrites {
                let before = packet.clone();
                if !rewrite.apply(&mut packet, false) {
                    prop_assert_eq!(&before, &packet, "said no, and changed");
                }
                prop_assert!(good(&packet), "{:?}", rewrite);
            }
            let incremental = packet.clone();
            prop_assert!(fill_checksums(&mut packet));
            prop_assert_eq!(incremental, packet);
        }
    }

    /// A partial checksum remains the sum of the pseudo-header, so that its completion is correct.
    #[test]
    fn partial_checksums_stay_partial(
        v6: bool, payload in prop::collection::vec(any::<u8>(), 0..40),
        rewrites in prop::collection::vec(rewrite(), 1..8),
    ) {
        for mut packet in packets(v6, &payload, Checksum::Partial) {
            for rewrite in &rewrites {
                rewrite.apply(&mut packet, true);
            }
            let upper = UpperLayer::find(&packet).unwrap();
            let at = upper.checksum_at().unwrap();
            prop_assert!(checksum::finish_partial(&mut packet, upper.start, at - upper.start));
            prop_assert!(good(&packet));
        }
    }

    #[test]
    fn no_bytes_panic(
        start in prop::sample::select(vec![vec![], vec![0x45], vec![0x4f], vec![0x60]]),
        bytes in prop::collection::vec(any::<u8>(), 0..120), partial: bool, rewrite in rewrite(),
    ) {
        let mut packet = [start, bytes].concat();
        rewrite.apply(&mut packet, partial);
        set_eth_src(&mut packet, MacAddr::ZERO);
        set_eth_dst(&mut packet, MacAddr::ZERO);
        fill_checksums(&mut packet);
    }

    /// Real packets, truncated anywhere and with some bytes changed.
    #[test]
    fn damaged_packets_do_not_panic(
        v6: bool, kind in 0usize..4, cut in 0usize..120,
        damage in prop::collection::vec((0usize..80, any::<u8>()), 0..4), rewrite in rewrite(),
    ) {
        let mut packet = packets(v6, &[1, 2, 3], Checksum::Full).swap_remove(kind);
        packet.truncate(cut);
        for (at, value) in damage {
            if let Some(byte) = packet.get_mut(at) {
                *byte = value;
            }
        }
        let before = packet.clone();
        if !rewrite.apply(&mut packet, false) {
            prop_assert_eq!(before, packet, "said no, and changed");
        }
    }
}
