//! After headers are added and removed, keys agree with bytes.

use super::*;
use crate::bench::Bench;
use crate::rewrite::set_field;
use crate::worker::WorkerConfig;
use base::PortNo;
use flow::SetField;
use packet::{Gso, GsoKind};
use std::sync::Arc;

fn worker() -> Worker {
    Bench::new(WorkerConfig::default()).worker
}

fn frame(text: &str) -> Frame {
    let bytes = wire::text::parse(text).unwrap();
    Frame::parse(Packet::from_bytes(&bytes), PortNo(1)).unwrap()
}

fn after(worker: &mut Worker, frame: &mut Frame, actions: &[Action]) {
    for action in actions {
        let cut = carry_out(worker, std::slice::from_mut(frame), action, &mut ());
        assert!(cut.is_empty());
        if !frame.packet.is_empty() {
            check_agrees(frame);
        }
    }
}

/// The key equals that of parsing the bytes again, except for the packet type.
fn check_agrees(frame: &Frame) {
    let bytes = Packet::from_bytes(frame.packet.data());
    let mut copy = Frame::parse_as(bytes, &frame.key).unwrap();
    copy.key.set(Field::PacketType, frame.key.get(Field::PacketType));
    assert_eq!(copy.key, frame.key);
    assert_eq!(copy.layers, frame.layers);
}

fn label(label: u32, is_bottom: bool) -> LabelEntry {
    LabelEntry::new(label, 3, is_bottom, 64)
}

fn push(entry: LabelEntry) -> Action {
    Action::PushMpls { ethertype: ethertype::MPLS, entry }
}

const PACKETS: [&str; 4] = [
    "10.0.0.1:1000>10.0.0.2:80 PA len=20",
    "10.0.0.1:1000>10.0.0.2:53 udp len=20 vlan=5",
    "[fd00::1]:1000>[fd00::2]:80 PA len=9",
    "[fe80::1]>[ff02::1:ff00:2] nd-solicit target=[fe80::2]",
];

#[test]
fn labels_stand_behind_tags_and_leave_the_packet_as_it_was() {
    let mut worker = worker();
    for text in PACKETS {
        let mut frame = frame(text);
        let (plain, behind) = (frame.packet.data().to_vec(), frame.key.eth_type());
        after(&mut worker, &mut frame, &[push(label(5, true)), push(label(6, false))]);
        let l3 = usize::from(frame.layers.l3);
        assert_eq!(
            frame.packet.data()[l3 - 2..l3 + 8],
            [0x88, 0x47, 0, 0, 0x66, 64, 0, 0, 0x57, 64]
        );
        assert_eq!(frame.packet.len(), plain.len() + 8);
        let stack = [label(6, false), label(5, true), LabelEntry::default()];
        assert_eq!(frame.key.label_stack(), stack);
        let pop = |ethertype| Action::PopMpls { ethertype };
        after(&mut worker, &mut frame, &[pop(ethertype::MPLS), pop(behind)]);
        assert_eq!(frame.packet.data(), plain);
        after(&mut worker, &mut frame, &[pop(ethertype::IPV4)]);
        assert_eq!(frame.packet.data(), plain, "a packet without a label stays as it is");
    }
}

#[test]
fn whole_frames_get_behind_labels_and_service_headers() {
    let mut worker = worker();
    let nsh: Arc<[u8]> = Nsh::build(2, &[1, 2, 3, 4]).unwrap().into_inner().into();
    let add = |entry| Action::AddMpls { ethertype: ethertype::MPLS_MULTICAST, entry };
    let teb = Action::PopMpls { ethertype: ethertype::TRANSPARENT_ETHERNET };
    let inner = Action::PopMpls { ethertype: ethertype::MPLS_MULTICAST };
    for text in PACKETS {
        let mut frame = frame(text);
        let (plain, key) = (frame.packet.data().to_vec(), frame.key.clone());
        after(&mut worker, &mut frame, &[add(label(5, true)), add(label(6, false))]);
        let expect = [0; 12].into_iter().chain([0x88, 0x48, 0, 0, 0x66, 64, 0, 0, 0x57, 64]);
        assert_eq!(frame.packet.data(), [expect.collect(), plain.clone()].concat());
        assert_eq!(frame.key.get(Field::PacketType), ethertype::MPLS_MULTICAST.into());
        after(&mut worker, &mut frame, &[inner.clone(), teb.clone()]);
        assert_eq!((frame.packet.data(), &frame.key), (&plain[..], &key));
        after(
            &mut worker,
            &mut frame,
            &[Action::PushNsh(nsh.clone()), Action::PushNsh(nsh.clone())],
        );
        assert_eq!(frame.packet.len(), plain.len() + 14 + 24);
        let next = |frame: &Frame| frame.key.get(Field::NshNp) as u8;
        assert_eq!(next(&frame), next_protocol::NSH);
        after(&mut worker, &mut frame, &[Action::PopNsh]);
        assert_eq!(next(&frame), next_protocol::ETHERNET);
        after(&mut worker, &mut frame, &[Action::PopNsh]);
        assert_eq!((frame.packet.data(), &frame.key), (&plain[..], &key));
    }
}

#[test]
fn packets_without_an_ethernet_header_say_what_they_are() {
    let mut worker = worker();
    let nsh: Arc<[u8]> = Nsh::build(1, &[0; 16]).unwrap().into_inner().into();
    for (text, next, kind) in
        [(PACKETS[0], next_protocol::IPV4, 0x0800), (PACKETS[2], next_protocol::IPV6, 0x86dd)]
    {
        let mut frame = frame(text);
        crate::rewrite::pop_ethernet(&mut frame);
        let plain = frame.packet.data().to_vec();
        after(&mut worker, &mut frame, &[Action::PushNsh(nsh.clone())]);
        assert_eq!(frame.key.get(Field::NshNp), next.into());
        assert_eq!(frame.packet.len(), plain.len() + 24);
        after(&mut worker, &mut frame, &[Action::PopNsh]);
        assert_eq!((frame.packet.data(), frame.key.get(Field::PacketType)), (&plain[..], kind));
    }
    // The content behind an unknown protocol is not a packet.
    let mut frame = frame(PACKETS[0]);
    after(&mut worker, &mut frame, &[Action::PushNsh(nsh)]);
    frame.packet.data_mut()[14 + 3] = 9;
    after(&mut worker, &mut frame, &[Action::PopNsh]);
    assert!(frame.packet.is_empty());
    assert_eq!(worker.stats().drops.get(DropReason::Malformed), 1);
}

#[test]
fn fields_are_written_into_the_bytes() {
    let mut worker = worker();
    let set = |frame: &mut Frame, field: Field, value: u128| {
        set_field(frame, &SetField { field, value, mask: field.all_ones() });
        check_agrees(frame);
        frame.key.get(field) == value
    };
    let mut labelled = frame(PACKETS[1]);
    after(&mut worker, &mut labelled, &[push(label(5, true)), push(label(6, false))]);
    for (field, value) in [
        (Field::MplsLabel, 0xf_ffff),
        (Field::MplsTc, 7),
        (Field::MplsTtl, 9),
        (Field::MplsLse0, 0x1e01),
    ] {
        assert!(set(&mut labelled, field, value), "{field:?}");
    }
    assert!(!set(&mut labelled, Field::MplsBos, 1));
    assert!(!set(&mut labelled, Field::NshTtl, 1));
    assert!(!set(&mut labelled, Field::NdTarget, 1));
    assert_eq!(labelled.key.label_stack()[1], label(5, true));
    for (md_type, has_context) in [(1, true), (2, false)] {
        let nsh = Nsh::build(md_type, &[0; 16]).unwrap().into_inner().into();
        let mut frame = frame(PACKETS[0]);
        after(&mut worker, &mut frame, &[Action::PushNsh(nsh)]);
        for (field, value) in [
            (Field::NshFlags, 2),
            (Field::NshTtl, 63),
            (Field::NshSpi, 0x12_3456),
            (Field::NshSi, 254),
        ] {
            assert!(set(&mut frame, field, value), "{field:?}");
        }
        for field in [Field::NshC1, Field::NshC2, Field::NshC3, Field::NshC4] {
            assert_eq!(set(&mut frame, field, 0xdead_beef), has_context);
        }
        assert!(!set(&mut frame, Field::NshTtl, 64), "the TTL has 6 bits");
        assert!(!set(&mut frame, Field::NshNp, 1));
    }
}

#[test]
fn what_a_device_would_cut_is_cut_before() {
    let mut worker = worker();
    let mut large = frame("10.0.0.1:1000>10.0.0.2:80 PA len=250");
    large.packet.offload.gso = Some(Gso { kind: GsoKind::TcpV4, segment_bytes: 100, ecn: false });
    let small = frame("10.0.0.1:1001>10.0.0.2:80 PA len=5");
    let mut frames = [small, large];
    let cut = carry_out(&mut worker, &mut frames, &push(label(5, true)), &mut ());
    assert!(frames.iter().all(|frame| frame.packet.is_empty()));
    let lens: Vec<usize> = cut.iter().map(|frame| frame.packet.len()).collect();
    assert_eq!(lens, [63, 158, 158, 108]);
    for frame in &cut {
        check_agrees(frame);
        assert_eq!((frame.key.count_labels(), frame.packet.offload.gso), (1, None));
    }
}

#[test]
fn a_packet_without_headroom_moves_to_another_buffer() {
    let mut worker = worker();
    let mut frame = frame(PACKETS[0]);
    let len = frame.packet.len();
    let mut labels = 0;
    while !frame.packet.is_empty() {
        assert_eq!(frame.packet.len(), len + labels * ENTRY_LEN);
        after(&mut worker, &mut frame, &[push(label(5, labels == 0))]);
        labels += 1;
    }
    assert!(labels > 300, "{labels}");
    assert_eq!(worker.stats().drops.get(DropReason::NoHeadroom), 1);
}
