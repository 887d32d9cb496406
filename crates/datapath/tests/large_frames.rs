//! A large frame and its segments go through the same rules: what each receiver gets is the same, and so are the
//! packets that a controller gets.

#[path = "support/bench.rs"]
mod bench;
#[path = "support/unfinished.rs"]
mod unfinished;

use base::{PortNo, RecircId, Zone};
use bench::Bench;
use datapath::WorkerConfig;
use flow::{
    Action, CheckLen, ControllerAction, CtAction, Field, Match, SetField, TunnelKind, UpcallKind,
};
use packet::{Checksum, Gso, GsoKind, Packet, Pool};
use port::offload;
use proptest::prelude::*;
use std::sync::Arc;
use wire::{LabelEntry, ethertype};

const FROM: u32 = 1;
const SEGMENT_BYTES: u16 = 200;

/// Large frames whose segments are all equally long.
const LARGE: [(&str, GsoKind); 5] = [
    ("10.1.1.1:1000>10.1.1.2:80 PA len=1000", GsoKind::TcpV4),
    ("[fd00::1]:1000>[fd00::2]:80 PA len=1000", GsoKind::TcpV6),
    ("10.1.1.1:1000>10.1.1.2:80 udp len=1000", GsoKind::UdpL4),
    ("[fd00::1]:1000>[fd00::2]:80 udp len=1000", GsoKind::UdpL4),
    // One segment: only the checksum is unfinished.
    ("10.1.1.1:1000>10.1.1.2:80 PA len=200", GsoKind::TcpV4),
];

/// With the pseudo header's sum in the checksum field, as the kernel leaves it.
fn large(text: &str, kind: GsoKind) -> Packet {
    let bytes = wire::text::parse(text).unwrap();
    let mut packet = Packet::from_bytes(&bytes);
    let (l4, addresses, protocol) = match kind {
        GsoKind::TcpV6 => (54, 22..54, 6u16),
        GsoKind::TcpV4 => (34, 26..34, 6),
        GsoKind::UdpL4 if bytes[12] == 0x86 => (54, 22..54, 17),
        GsoKind::UdpL4 => (34, 26..34, 17),
    };
    let field = l4 + if protocol == 6 { 16 } else { 6 };
    let numbers = wire::checksum::combine(protocol, (bytes.len() - l4) as u16);
    let sum = wire::checksum::combine(wire::checksum::sum(&bytes[addresses]), numbers);
    packet.data_mut()[field..field + 2].copy_from_slice(&sum.to_be_bytes());
    packet.offload.checksum = Checksum::Partial;
    let gso = Gso { kind, segment_bytes: SEGMENT_BYTES, ecn: false };
    packet.offload.gso = (bytes.len() > 400).then_some(gso);
    packet
}

fn finished(packet: Packet) -> Vec<Packet> {
    let mut pieces = Vec::new();
    assert!(offload::finish(packet, &mut Pool::new(8), |piece| pieces.push(piece)));
    pieces
}

/// An action, of which `choice` is the kind and `value` a length or port.
fn action(choice: u8, value: u32, depth: u8) -> Action {
    let port = PortNo(2 + value % 3);
    let lists = |n: u32| -> Arc<[Action]> {
        if depth > 1 {
            return [Action::Output(port)].into();
        }
        let then = action((value.wrapping_mul(n) >> 3) as u8, value.wrapping_mul(n), depth + 1);
        [then, Action::Output(PortNo(2 + n))].into()
    };
    let controller = ControllerAction {
        reason: 1,
        recirc_id: RecircId(1),
        rule_cookie: 0,
        controller_id: 0,
        max_len: u16::MAX,
        pauses: value.is_multiple_of(2),
    };
    match choice % 12 {
        0 => Action::Output(port),
        1 => Action::OutputCut { port, max_len: 14 + value % 1200 },
        2 => Action::CloneCut { max_len: 14 + value % 1200, actions: lists(3) },
        3 => Action::CheckLen(Arc::new(CheckLen {
            bytes: (value % 1300) as u16,
            greater: lists(5).to_vec().into(),
            less_equal: lists(7).to_vec().into(),
        })),
        4 => Action::PushVlan { tpid: ethertype::VLAN, tci: value as u16 & 0xefff },
        5 => Action::PopVlan,
        6 => set(Field::TpDst, value as u16 as u128),
        7 => set(Field::NwTtl, u128::from(value % 200 + 1)),
        8 => Action::Controller(controller),
        9 => Action::Clone(lists(11)),
        10 => Action::PushMpls {
            ethertype: ethertype::MPLS,
            entry: LabelEntry::new(value & 0xffff, 0, true, 9),
        },
        _ => Action::Ct(Box::new(CtAction {
            commit: true,
            zone: Zone(value as u16 % 4),
            ..CtAction::default()
        })),
    }
}

fn set(field: Field, value: u128) -> Action {
    Action::Set(SetField { field, value, mask: field.all_ones() })
}

/// What leaves by each port, and what a controller gets.
type Left = (Vec<(u32, Vec<u8>)>, Vec<Vec<u8>>);

fn through(actions: &[Action], packets: Vec<Packet>) -> Left {
    let mut bench = Bench::new(WorkerConfig::default());
    bench.put(1, Match::any().with(Field::InPort, FROM.into()), actions);
    bench.receive(FROM, packets);
    let sent = bench.take_sent().into_iter();
    let mut sent: Vec<_> = sent
        .flat_map(|(port, packet)| {
            finished(packet).into_iter().map(move |it| (port.0, it.data().to_vec()))
        })
        .collect();
    let told = bench.misses().into_iter().map(|upcall| {
        assert!(matches!(upcall.kind, UpcallKind::Controller(_)));
        assert!(upcall.packet.offload.gso.is_none());
        assert_ne!(upcall.packet.offload.checksum, Checksum::Partial);
        upcall.packet.data().to_vec()
    });
    let mut told: Vec<_> = told.collect();
    sent.sort();
    told.sort();
    (sent, told)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]
    #[test]
    fn receivers_get_what_the_segments_alone_would_have_given_them(
        which in 0..LARGE.len(), tunnel in 0..4u8,
        choices in proptest::collection::vec((any::<u8>(), any::<u32>()), 1..6),
    ) {
        let (text, kind) = LARGE[which];
        let mut actions: Vec<Action> =
            choices.iter().map(|(choice, value)| action(*choice, *value, 0)).collect();
        if tunnel == 0 {
            actions.push(Action::TunnelPush(Arc::new(unfinished::push())));
        }
        actions.push(Action::Output(PortNo(3)));
        let large = large(text, kind);
        let segments = finished(large.compact_copy());
        prop_assert_eq!(through(&actions, vec![large]), through(&actions, segments));
    }
}

/// A host sends packets of a tunnel of its own with UDP segmentation.
#[test]
fn each_datagram_of_a_large_frame_is_decapsulated() {
    let mut bytes = wire::text::parse("10.1.1.1:1000>10.1.1.2:4789 udp len=1000").unwrap();
    let inner = wire::text::parse("10.2.2.1:1000>10.2.2.2:80 udp len=150").unwrap();
    let inside = [&[8, 0, 0, 0, 0, 0, 5, 0][..], &inner].concat();
    assert_eq!(inside.len(), usize::from(SEGMENT_BYTES));
    (0..5).for_each(|i| bytes[42 + i * 200..242 + i * 200].copy_from_slice(&inside));
    let mut packet = Packet::from_bytes(&bytes);
    let gso = Gso { kind: GsoKind::UdpL4, segment_bytes: SEGMENT_BYTES, ecn: false };
    packet.offload.gso = Some(gso);
    let mut bench = Bench::new(WorkerConfig::default());
    let pop = Action::TunnelPop { port: PortNo(9), end: TunnelKind::Vxlan.into() };
    bench.put(1, Match::any().with(Field::InPort, FROM.into()), [pop]);
    bench.put(2, Match::any().with(Field::InPort, 9), [Action::Output(PortNo(2))]);
    bench.receive(FROM, [packet]);
    let sent = bench.sent_bytes();
    assert_eq!(sent, vec![(PortNo(2), inner); 5]);
}
