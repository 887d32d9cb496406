//! Packets into a tunnel whose underlay is too small for some of them.

use super::*;
use crate::WorkerConfig;
use crate::bench::Bench;
use crate::error_limit::{ERROR_EVERY, ERRORS_AT_ONCE};
use base::{MacAddr, PortNo};
use flow::{Action, Field, FlowKey, Match, TunnelKind};
use packet::{Checksum, Gso, GsoKind};
use std::sync::Arc;
use tunnel::{Outer, TunnelConfig};
use wire::{Icmp, PacketBuilder, UpperLayer};

const NEAR: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
const FAR: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);
/// The guest's port, the port of outer packets, and the tunnel's.
const GUEST: u32 = 1;
const WIRE: u32 = 2;
const TUNNEL: u32 = 8;
const OUTER_MTU: usize = 1500;
/// Bytes of the outer headers behind the Ethernet header.
const OVERHEAD: usize = 36;

/// A worker with two flows: from the guest into a VXLAN tunnel, and from the tunnel's key 5 to the guest.
fn bench(dont_fragment: bool) -> Bench {
    let mut bench = Bench::new(WorkerConfig::default());
    let from = |port: u32| Match::any().with(Field::InPort, port.into()).with(Field::RecircId, 0);
    let into = Action::TunnelPush(Arc::new(push(dont_fragment)));
    bench.put(1, from(GUEST), vec![into, Action::Output(PortNo(WIRE))]);
    let back = from(TUNNEL).with(Field::TunId, 5).with(Field::TunIpv6Src, 0xac1f_0102);
    bench.put(2, back, vec![Action::Output(PortNo(GUEST))]);
    bench
}

fn push(dont_fragment: bool) -> TunnelPush {
    let options = [("remote_ip", "172.31.1.2"), ("key", "5")];
    let options = options.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    let config = TunnelConfig::parse(TunnelKind::Vxlan, "t", &options).config.unwrap();
    let outer = Outer {
        ethernet: (NEAR, FAR),
        source: [172, 31, 1, 1].into(),
        destination: [172, 31, 1, 2].into(),
        tos: 0,
        ttl: 64,
        dont_fragment,
        checksum: true,
        oam: false,
        key: 5,
        options: &[],
        group: (0, 0),
        erspan: (0, 0, 0, 0),
        gtpu: (0, 0),
        packet: None,
    };
    let mut answer = FlowKey::new();
    answer.set(Field::TunId, 5);
    answer.set(Field::TunIpv6Src, 0xac1f_0102);
    TunnelPush {
        port: PortNo(TUNNEL),
        out_port: PortNo(3),
        kind: TunnelKind::Vxlan,
        strips_ethernet: false,
        source_ports: tunnel::SOURCE_PORTS,
        header: tunnel::build(&config, &outer).unwrap(),
        frame_max: (OUTER_MTU - OVERHEAD) as u32,
        answer,
        copies_ecn: false,
        sequence: flow::TunnelSequence::default(),
    }
}

/// Sends a batch from the guest. Returns the output to the guest and to the wire.
fn send(bench: &mut Bench, packets: Vec<Packet>) -> [Vec<Vec<u8>>; 2] {
    bench.receive(GUEST, packets);
    let mut sent = [Vec::new(), Vec::new()];
    for (port, bytes) in bench.sent_bytes() {
        sent[usize::from(port != PortNo(GUEST))].push(bytes);
    }
    sent
}

fn dropped(bench: &Bench) -> u64 {
    bench.worker.stats().drops.get(DropReason::TunnelTooBig)
}

/// UDP within IP packets of this many bytes.
fn packet(bytes: usize) -> Packet {
    let frame = PacketBuilder::eth(NEAR, FAR).ipv4([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
    let body: Vec<u8> = (0..bytes - 28).map(|at| at as u8).collect();
    Packet::from_bytes(&frame.dont_fragment().udp(5, 6).payload(body).build())
}

#[test]
fn the_sender_is_told_on_the_walk_and_where_packets_are_known() {
    let mut bench = bench(true);
    let most = OUTER_MTU - OVERHEAD - 14;
    for round in 1..=4 {
        let [guest, wire] = send(&mut bench, vec![packet(most), packet(most + 1), packet(100)]);
        assert_eq!(wire.len(), 2, "round {round}");
        assert_eq!(wire[0].len(), 14 + OUTER_MTU);
        let [answer] = guest.try_into().unwrap();
        assert_eq!((&answer[..6], &answer[6..12]), (&NEAR.0[..], &FAR.0[..]));
        let upper = UpperLayer::find(&answer[14..]).unwrap();
        let icmp = Icmp::new_checked(upper.segment(&answer[14..])).unwrap();
        assert_eq!((icmp.icmp_type(), icmp.code()), (3, 4));
        assert_eq!(icmp.rest() as usize, most);
        assert_eq!(dropped(&bench), round);
    }
    assert!(bench.worker.stats.unified_hits > 0, "some packets were known");
}

#[test]
fn a_large_frame_is_answered_once_and_dropped_whole() {
    let large = |segment_bytes| {
        let frame = PacketBuilder::eth(NEAR, FAR).ipv4([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
        let frame = frame.dont_fragment().tcp(5, 6).payload(vec![7; 9000]).build();
        let mut packet = Packet::from_bytes(&frame);
        let gso = Gso { kind: GsoKind::TcpV4, segment_bytes, ecn: false };
        let checksum = Checksum::Partial;
        packet.offload = Offload { checksum, gso: Some(gso) };
        packet
    };
    let mut bench = bench(true);
    let most = (OUTER_MTU - OVERHEAD - 54) as u16;
    for round in 1..=3 {
        let [guest, wire] = send(&mut bench, vec![large(most + 1)]);
        assert_eq!((guest.len(), wire.len(), dropped(&bench)), (1, 0, round));
        let [guest, wire] = send(&mut bench, vec![large(most)]);
        assert_eq!((guest.len(), wire.len(), dropped(&bench)), (0, 7, round));
    }
}

#[test]
fn outer_packets_are_fragmented_where_that_is_allowed() {
    let mut bench = bench(false);
    let mut ids = Vec::new();
    for _ in 0..3 {
        let [guest, wire] = send(&mut bench, vec![packet(3000), packet(1450), packet(4000)]);
        assert!(guest.is_empty());
        let counts: Vec<usize> = wire.iter().map(Vec::len).collect();
        assert_eq!(counts.len(), 3 + 1 + 3);
        for (range, bytes) in [(0..3, 3000), (4..7, 4000)] {
            let mut whole = wire[range.start][..34].to_vec();
            for (index, piece) in wire[range.clone()].iter().enumerate() {
                assert!(piece.len() <= 14 + OUTER_MTU);
                let ip = Ipv4::new_checked(&piece[14..]).unwrap();
                assert_eq!(wire::checksum::sum(ip.header()), 0xffff);
                assert_eq!(ip.fragment_offset(), whole.len() - 34);
                assert_eq!(ip.more_fragments(), index + 1 < range.len());
                whole.extend_from_slice(ip.payload());
            }
            ids.push(Ipv4::new_checked(&wire[range.start][14..]).unwrap().id());
            let total = (whole.len() - 14) as u16;
            let mut ip = Ipv4::new_checked(&mut whole[14..]).unwrap();
            ip.set_fragment_field(0);
            ip.set_total_len(total);
            ip.set_checksum(0);
            let computed = checksum(ip.header());
            ip.set_checksum(computed);
            // The outer UDP checksum is over the whole datagram.
            let found = tunnel::decapsulate(TunnelKind::Vxlan, &whole, false).unwrap();
            assert_eq!(&whole[found.header_len..found.end], packet(bytes).data());
        }
    }
    ids.dedup();
    assert_eq!((ids.len(), dropped(&bench)), (6, 0), "each datagram has an identification");
}

#[test]
fn errors_are_bounded_in_number() {
    let mut bench = bench(true);
    let sent = |bench: &mut Bench| {
        let batches = (0..10).map(|_| send(bench, (0..30).map(|_| packet(1490)).collect()));
        batches.map(|[guest, _]| guest.len()).sum::<usize>()
    };
    assert_eq!(sent(&mut bench), ERRORS_AT_ONCE as usize);
    assert_eq!(sent(&mut bench), 0);
    bench.now = bench.now + ERROR_EVERY * 10;
    assert_eq!(sent(&mut bench), 10);
    assert_eq!(dropped(&bench), 900);
}

#[test]
fn an_mtu_without_room_for_data_fragments_nothing() {
    let mut pool = Pool::new(4);
    for mtu in [0, 19, 20, 27] {
        assert!(!fragment(&mut pool, &packet(200), (mtu, 1), |_| panic!("MTU {mtu}")));
    }
    let mut sizes = Vec::new();
    assert!(fragment(&mut pool, &packet(200), (100, 1), |it| sizes.push(it.len() - 14)));
    assert_eq!(sizes, [100, 100, 40]);
}
