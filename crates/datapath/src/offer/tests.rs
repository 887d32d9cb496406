//! Which traffic is offered.

use super::*;
use crate::bench::Bench;
use crate::worker::WorkerConfig;
use base::{PortNo, RecircId, WorkerId, Zone};
use conntrack::{Config, Conntrack};
use flow::{CtAction, CtState, Field, FlowCommand, Match, Nat, NatKind, NatRange, Refusal};
use packet::Packet;

const NOW: Instant = Instant::from_millis(1000);

/// A worker that tracks TCP and UDP packets in zone 1 and then executes these actions.
fn tracked(offers: bool, nat: Option<Nat>, steps: &[Action]) -> Bench {
    let conntrack = Arc::new(Conntrack::new(1, Config::default()));
    let mut bench = Bench::with(&conntrack, 3, WorkerConfig { offers, ..WorkerConfig::default() });
    let ct = |commit, nat| {
        Action::Ct(Box::new(CtAction { commit, nat, zone: Zone(1), ..CtAction::default() }))
    };
    let first = Match::any().with(Field::RecircId, 0).with(Field::EthType, 0x0800);
    let restore = nat.as_ref().map(|_| Nat::Restore);
    bench.put(10, first, vec![ct(false, restore), Action::Recirc(RecircId(1))]);
    let state = |state: CtState| {
        let bits = u128::from(state.bits());
        let matching = Match::any().with(Field::RecircId, 1).with(Field::EthType, 0x0800);
        matching.with_masked(Field::CtState, bits, bits)
    };
    let new = [&[ct(true, nat)][..], steps].concat();
    bench.put(11, state(CtState::TRK | CtState::NEW), new);
    bench.put(12, state(CtState::TRK | CtState::EST), steps);
    bench
}

/// Sends a packet. Returns the offers.
fn send(bench: &mut Bench, port: u32, text: &str) -> Vec<OffloadOffer> {
    send_frame(bench, port, &wire::text::parse(text).unwrap())
}

fn send_frame(bench: &mut Bench, port: u32, frame: &[u8]) -> Vec<OffloadOffer> {
    bench.receive(port, [Packet::from_bytes(frame)]);
    bench.take_sent();
    bench.worker.take_offers().unwrap_or_default()
}

fn handshake(bench: &mut Bench) -> Vec<OffloadOffer> {
    let mut offers = send(bench, 1, "10.0.0.1:1000>10.0.0.2:80 S");
    offers.extend(send(bench, 2, "10.0.0.2:80>10.0.0.1:1000 SA seq=9 ack=1"));
    offers
}

#[test]
fn each_direction_of_an_established_connection_is_offered_once() {
    let mut tracked = tracked(true, None, &[Action::Output(PortNo(2))]);
    assert_eq!(handshake(&mut tracked), []);
    let [there] =
        send(&mut tracked, 1, "10.0.0.1:1000>10.0.0.2:80 . seq=1 ack=10").try_into().unwrap();
    assert_eq!((there.worker, there.flows), (WorkerId(3), vec![FlowId(10), FlowId(12)]));
    assert_eq!(there.rule.in_port(), PortNo(1));
    assert_eq!(*there.rule.actions, [Action::Output(PortNo(2))]);
    assert_eq!((there.rule.second, there.rule.nat_rewrite), (None, None));
    let [back] =
        send(&mut tracked, 2, "10.0.0.2:80>10.0.0.1:1000 . seq=10 ack=1").try_into().unwrap();
    assert_eq!(back.rule.connection.id, there.rule.connection.id);
    assert!(back.rule.connection.is_reply && !there.rule.connection.is_reply);
    assert_eq!(send(&mut tracked, 1, "10.0.0.1:1000>10.0.0.2:80 . seq=1 ack=10 len=5"), []);
    let idle = tracked.conntrack.with_offloaded(NOW, |it| it.check(there.rule.connection));
    assert!(idle.is_ok());
    // A flow whose actions change is offered anew.
    let est = Match::any().with(Field::RecircId, 1).with(Field::EthType, 0x0800).with_masked(
        Field::CtState,
        0x22,
        0x22,
    );
    tracked.put(12, est, vec![Action::Output(PortNo(7))]);
    let [anew] =
        send(&mut tracked, 1, "10.0.0.1:1000>10.0.0.2:80 . seq=6 ack=10").try_into().unwrap();
    assert_eq!(*anew.rule.actions, [Action::Output(PortNo(7))]);
    assert_eq!(anew.rule.connection, there.rule.connection);
}

#[test]
fn nothing_is_offered_where_that_is_off_nor_of_what_is_new_or_a_query() {
    let mut off = tracked(false, None, &[Action::Output(PortNo(2))]);
    handshake(&mut off);
    assert_eq!(send(&mut off, 1, "10.0.0.1:1000>10.0.0.2:80 . seq=1 ack=10"), []);
    let mut on = tracked(true, None, &[Action::Output(PortNo(2))]);
    for _ in 0..3 {
        assert_eq!(send(&mut on, 1, "10.0.0.1:5>10.0.0.2:53 udp"), [], "no answer came yet");
        assert_eq!(send(&mut on, 1, "10.0.0.1>10.0.0.2 icmp-echo id=1"), []);
    }
    let [reply] = send(&mut on, 2, "10.0.0.2:53>10.0.0.1:5 udp").try_into().unwrap();
    assert!(on.conntrack.with_offloaded(NOW, |it| it.check(reply.rule.connection)).is_ok());
    assert_eq!(send(&mut on, 1, "10.0.0.1:5>10.0.0.2:53 udp").len(), 1);
    send(&mut on, 2, "10.0.0.2>10.0.0.1 icmp-reply id=1");
    assert_eq!(send(&mut on, 1, "10.0.0.1>10.0.0.2 icmp-echo id=1"), []);
    let other = flow::ConnectionRef { generation: 99, ..reply.rule.connection };
    let refused = on.conntrack.with_offloaded(NOW, |it| it.check(other));
    assert_eq!(refused, Err(Refusal::Ended));
}

#[test]
fn a_rewrite_says_to_what() {
    let range = NatRange {
        kind: NatKind::Src,
        addresses: Some(("192.168.0.9".parse().unwrap(), "192.168.0.9".parse().unwrap())),
        ports: Some((7000, 7000)),
        ..NatRange {
            kind: NatKind::Src,
            addresses: None,
            ports: None,
            selection: flow::PortSelection::Default,
            persistent: false,
        }
    };
    let mut tracked = tracked(true, Some(Nat::Rewrite(range)), &[Action::Output(PortNo(2))]);
    send(&mut tracked, 1, "10.0.0.1:1000>10.0.0.2:80 S");
    send(&mut tracked, 2, "10.0.0.2:80>192.168.0.9:7000 SA seq=9 ack=1");
    let [there] =
        send(&mut tracked, 1, "10.0.0.1:1000>10.0.0.2:80 . seq=1 ack=10").try_into().unwrap();
    let rewrite = there.rule.nat_rewrite.unwrap();
    assert_eq!(rewrite.addresses, [0, 0xc0a8_0009, 0, 0x0a00_0002]);
    assert_eq!(rewrite.ports, 7000 << 16 | 80);
    let [back] =
        send(&mut tracked, 2, "10.0.0.2:80>192.168.0.9:7000 . seq=10 ack=1").try_into().unwrap();
    assert_eq!(back.rule.nat_rewrite.unwrap().addresses, [0, 0x0a00_0002, 0, 0x0a00_0001]);
    assert_eq!(back.rule.nat_rewrite.unwrap().ports, 80 << 16 | 1000);
}

/// A frame of the tunnel with VNI 101.
fn in_vxlan(text: &str) -> Vec<u8> {
    let inner = wire::text::parse(text).unwrap();
    let outer = format!("172.31.1.2:5>172.31.1.1:4789 udp csum=zero len={}", 8 + inner.len());
    let mut frame = wire::text::parse(&outer).unwrap();
    frame[42..50].copy_from_slice(&[8, 0, 0, 0, 0, 0, 101, 0]);
    frame[50..].copy_from_slice(&inner);
    frame
}

#[test]
fn packets_out_of_a_tunnel_are_offered_with_what_their_flows_matched_of_the_outer_headers() {
    let mut tracked = tracked(true, None, &[Action::Output(PortNo(2))]);
    tracked.delete(10);
    let (outside, inside) = (5, 9);
    let from = |port: u32| {
        let matching = Match::any().with(Field::RecircId, 0).with(Field::EthType, 0x0800);
        matching.with(Field::InPort, port.into())
    };
    let kind = flow::TunnelKind::Vxlan;
    let end = kind.into();
    let pop = Action::TunnelPop { port: PortNo(inside), end };
    tracked.put(20, from(outside).with(Field::TpDst, 4789), vec![pop]);
    let zone = CtAction { zone: Zone(1), ..CtAction::default() };
    let track = vec![Action::Ct(Box::new(zone)), Action::Recirc(RecircId(1))];
    tracked.put(21, from(inside).with(Field::TunId, 101), track.clone());
    tracked.put(22, from(1), track);
    send(&mut tracked, 1, "10.0.0.1:1000>10.0.0.2:80 S");
    send_frame(&mut tracked, outside, &in_vxlan("10.0.0.2:80>10.0.0.1:1000 SA seq=9 ack=1"));
    send(&mut tracked, 1, "10.0.0.1:1000>10.0.0.2:80 . seq=1 ack=10");
    let packet = in_vxlan("10.0.0.2:80>10.0.0.1:1000 . seq=10 ack=1");
    let [offer] = send_frame(&mut tracked, outside, &packet).try_into().unwrap();
    assert_eq!(offer.flows, [20, 21, 12].map(FlowId));
    assert_eq!(offer.rule.in_port(), PortNo(outside));
    assert_eq!(offer.rule.ports().collect::<Vec<_>>(), [inside, outside, 2].map(PortNo));
    assert_eq!(offer.rule.headers.ipv4_addresses(), 0x0a00_0002_0a00_0001);
    let tunnel = offer.rule.tunnel.unwrap();
    assert_eq!((tunnel.kind, tunnel.has_checksum, tunnel.header_bytes), (kind, false, 50));
    assert_eq!(tunnel.word, 0x0800_0000_0000_6500);
    assert!(offer.rule.mark.is_some_and(|mark| mark != 0), "the worker finds its entry by it");
    assert_eq!(tunnel.headers.ipv4_addresses(), 0xac1f_0102_ac1f_0101);
    assert_eq!(tunnel.mask.ports(), 0xffff, "the flow matched the destination port");
    assert_eq!(send_frame(&mut tracked, outside, &packet), []);
}

/// Encapsulates, and sends by port 2.
fn into_tunnel(copies_ecn: bool) -> [Action; 2] {
    let to = Arc::new(flow::TunnelPush {
        port: PortNo(9),
        out_port: PortNo(5),
        kind: flow::TunnelKind::Vxlan,
        strips_ethernet: false,
        source_ports: (32_768, 61_000),
        header: Box::new([0; 50]),
        frame_max: 1500,
        answer: flow::FlowKey::new(),
        copies_ecn,
        sequence: flow::TunnelSequence::default(),
    });
    [Action::TunnelPush(to), Action::Output(PortNo(2))]
}

#[test]
fn packets_into_a_tunnel_are_offered_with_their_outer_headers() {
    let steps = into_tunnel(false);
    let mut tracked = tracked(true, None, &steps);
    handshake(&mut tracked);
    let [there] =
        send(&mut tracked, 1, "10.0.0.1:1000>10.0.0.2:80 . seq=1 ack=10").try_into().unwrap();
    assert_eq!((&*there.rule.actions, there.rule.tunnel.as_ref()), (&steps[..], None));
    assert_eq!(there.rule.ports().collect::<Vec<_>>(), [1, 9, 2].map(PortNo));
}

#[test]
fn ecn_bits_that_only_the_flow_into_a_tunnel_matches_are_offered_as_copied() {
    for (push_copies, first_matches, expect) in
        [(true, false, true), (true, true, false), (false, false, false)]
    {
        let steps = into_tunnel(push_copies);
        let mut tracked = tracked(true, None, &steps);
        handshake(&mut tracked);
        let matching =
            |recirc: u128| Match::any().with(Field::RecircId, recirc).with(Field::EthType, 0x0800);
        let ecn = |matching: Match| matching.with_masked(Field::NwTos, 0, 3);
        if first_matches {
            tracked.delete(10);
            let ct = CtAction { zone: Zone(1), ..CtAction::default() };
            let track = vec![Action::Ct(Box::new(ct)), Action::Recirc(RecircId(1))];
            tracked.put(20, ecn(matching(0)), track);
        }
        tracked.delete(12);
        let established = matching(1).with_masked(Field::CtState, 0x22, 0x22);
        tracked.put(21, ecn(established), steps.to_vec());
        let packet = "10.0.0.1:1000>10.0.0.2:80 . seq=1 ack=10";
        let [there] = send(&mut tracked, 1, packet).try_into().unwrap();
        assert_eq!(there.rule.copies_ecn, expect, "{push_copies} {first_matches}");
        assert_eq!(there.rule.mask.words()[3] >> 48 & 3, 3, "the mask has them nevertheless");
    }
}

#[test]
fn what_a_device_forwarded_is_credited_to_the_flow() {
    let mut tracked = tracked(true, None, &[Action::Output(PortNo(2))]);
    let stats = FlowStats { packets: 1000, bytes: 64_000, used: None, tcp_flags: 0x10 };
    tracked.worker.credit_offloaded(NOW, FlowId(12), stats);
    tracked.worker.credit_offloaded(NOW, FlowId(99), stats);
    tracked.command(FlowCommand::Collect);
    let dump = tracked.out.dumps.pop().unwrap();
    let told = FlowStats { used: Some(NOW), ..stats };
    assert_eq!(dump.flows, [(FlowId(12), told)]);
}
