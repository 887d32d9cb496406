//! Properties of NAT, over random connections.

use crate::support;
use base::Instant;
use flow::{CtAction, CtState, Frame, Tuple, TupleL4};
use proptest::prelude::*;
use std::collections::HashSet;
use std::net::IpAddr;
use support::Tracked;

#[derive(Clone, Debug)]
struct Flow {
    v6: bool,
    kind: u8,
    client: u8,
    server: u8,
    source_port: u16,
    nat: usize,
}

const RANGES: [(&str, &str); 7] = [
    ("src=30.0.0.1", "src=[fd03::1]"),
    ("src=30.0.0.1-30.0.0.3:7000-7003", "src=[fd03::1]-[fd03::3]:7000-7003"),
    ("src=30.0.0.1:7000-7010,random", "src=[fd03::1]:7000-7010,random"),
    ("dst=20.0.0.1", "dst=[fd02::1]"),
    ("dst=20.0.0.1-20.0.0.2:80-82", "dst=[fd02::1]-[fd02::2]:80-82"),
    ("src", "src"),
    ("restore", "restore"),
];

fn flows() -> impl Strategy<Value = Vec<Flow>> {
    let flow = (any::<bool>(), 0..3u8, 1..4u8, 1..4u8, 5000..5004u16, 0..RANGES.len()).prop_map(
        |(v6, kind, client, server, source_port, nat)| Flow {
            v6,
            kind,
            client,
            server,
            source_port,
            nat,
        },
    );
    proptest::collection::vec(flow, 1..60)
}

fn text(flow: &Flow) -> String {
    let Flow { client, server, source_port, .. } = flow;
    let (client, server) = match flow.v6 {
        false => (format!("10.0.0.{client}"), format!("20.0.0.{server}")),
        true => (format!("[fd01::{client}]"), format!("[fd02::{server}]")),
    };
    match flow.kind {
        0 => format!("{client}:{source_port}>{server}:80 udp len=9"),
        1 => format!("{client}:{source_port}>{server}:80 S seq=100 win=1000"),
        _ => format!("{client}>{server} icmp-echo id={source_port} seq=1 len=8"),
    }
}

/// The reply to a received packet.
fn answer(arrived: &Frame) -> String {
    let key = &arrived.key;
    let (from, to): (IpAddr, IpAddr) = match key.eth_type() {
        0x0800 => (key.ipv4_dst().into(), key.ipv4_src().into()),
        _ => (key.ipv6_dst().into(), key.ipv6_src().into()),
    };
    let bracketed = |ip: IpAddr| match ip {
        IpAddr::V4(ip) => ip.to_string(),
        IpAddr::V6(ip) => format!("[{ip}]"),
    };
    let (from, to) = (bracketed(from), bracketed(to));
    let (source, destination) = (key.tp_dst(), key.tp_src());
    match key.nw_proto() {
        17 => format!("{from}:{source}>{to}:{destination} udp len=9"),
        6 => format!("{from}:{source}>{to}:{destination} SA seq=900 ack=101 win=1000"),
        _ => {
            let l4 = arrived.l4().unwrap();
            let id = u16::from_be_bytes([l4[4], l4[5]]);
            format!("{from}>{to} icmp-reply id={id} seq=1 len=8")
        }
    }
}

/// Source, destination and ports of a frame.
fn ends(frame: &Frame) -> (u128, u128, u16, u16) {
    use flow::Field::{Ipv4Dst, Ipv4Src, Ipv6Dst, Ipv6Src};
    let v4 = frame.key.eth_type() == 0x0800;
    let (src, dst) = if v4 { (Ipv4Src, Ipv4Dst) } else { (Ipv6Src, Ipv6Dst) };
    let has_ports = matches!(frame.key.nw_proto(), 6 | 17);
    let ports = if has_ports { (frame.key.tp_src(), frame.key.tp_dst()) } else { (0, 0) };
    (frame.key.get(src), frame.key.get(dst), ports.0, ports.1)
}

fn send(tracker: &Tracked, action: &CtAction, text: &str) -> Frame {
    let mut frame = support::frame(text);
    tracker.execute(Instant::from_millis(1), action, std::slice::from_mut(&mut frame));
    support::check_frame(&frame);
    frame
}

fn assert_tuples_are_unique(tracker: &Tracked) {
    let mut seen: HashSet<(u16, Tuple)> = HashSet::new();
    for entry in support::dump(tracker, Instant::from_millis(2), None) {
        assert!(seen.insert((entry.zone.0, entry.original)), "{entry}");
        // If a host sends to itself, both directions are equal.
        if entry.reply != entry.original {
            assert!(seen.insert((entry.zone.0, entry.reply)), "{entry}");
        }
        let is_icmp = matches!(entry.original.l4, TupleL4::Icmp { .. });
        assert_eq!(is_icmp, matches!(entry.original.protocol, 1 | 58));
    }
}

proptest! {
    #[test]
    fn answers_come_back_to_who_asked_and_tuples_are_nobody_elses(flows in flows()) {
        let tracker = support::tracker();
        let restore = CtAction { nat: Some(support::nat("restore")), ..support::look(3) };
        for flow in &flows {
            let (v4, v6) = RANGES[flow.nat];
            let nat = support::nat(if flow.v6 { v6 } else { v4 });
            let action = CtAction { nat: Some(nat), ..support::commit(3) };
            let before = support::frame(&text(flow));
            let connections = tracker.connections();
            let frame = send(&tracker, &action, &text(flow));
            let state = frame.key.ct_state();
            prop_assert!(state.contains(CtState::TRK) && !state.contains(CtState::INV));
            assert_tuples_are_unique(&tracker);
            let is_new = tracker.connections() > connections;
            let is_known = state.contains(CtState::EST);
            if !is_new && !is_known && !state.intersects(CtState::SNAT | CtState::DNAT) {
                // Refused: the packet is unchanged. The same applies to a repeated packet without NAT.
                prop_assert_eq!(ends(&frame), ends(&before));
                continue;
            }
            let back = send(&tracker, &restore, &answer(&frame));
            let state = back.key.ct_state();
            prop_assert!(state.contains(CtState::EST | CtState::RPL | CtState::TRK), "{}", state);
            let (src, dst, source_port, destination_port) = ends(&before);
            prop_assert_eq!(ends(&back), (dst, src, destination_port, source_port));
            // And the original direction gets the same addresses again.
            let again = send(&tracker, &restore, &text(flow));
            prop_assert_eq!(ends(&again), ends(&frame));
        }
    }
}

/// A packet whose tuple was rewritten after NAT is still found by the original tuple in its key.
#[test]
fn the_original_tuple_finds_what_was_rewritten() {
    use flow::Field::{CtNwDst, CtNwSrc};
    let tracker = support::tracker();
    let action = CtAction { nat: Some(support::nat("src=30.0.0.1")), ..support::commit(3) };
    let first = send(&tracker, &action, "10.0.0.1:5000>20.0.0.1:80 udp len=9");
    let mut rewritten = support::frame("30.0.0.1:5000>99.0.0.1:80 udp len=9");
    let key = &mut rewritten.key;
    key.set_ct_state(first.key.ct_state());
    key.set_ct_zone(first.key.ct_zone());
    key.set_ct_nw_proto(first.key.ct_nw_proto());
    key.set_ct_tp_src(first.key.ct_tp_src());
    key.set_ct_tp_dst(first.key.ct_tp_dst());
    for field in [CtNwSrc, CtNwDst] {
        key.set(field, first.key.get(field));
    }
    let now = Instant::from_millis(1);
    tracker.execute(now, &support::look(3), std::slice::from_mut(&mut rewritten));
    assert_eq!(rewritten.key.ct_state().to_string(), "new|trk|snat");
    assert_eq!(rewritten.key.get(CtNwSrc), first.key.get(CtNwSrc));
    assert_eq!(rewritten.key.get(CtNwDst), first.key.get(CtNwDst));
}

/// Returns the source ports of the packets of 60 clients after NAT, in a process with this seed.
fn rewritten(seed: u64, range: &str) -> Vec<String> {
    let tracked = Tracked::new(seed, conntrack::Config::default());
    let action = CtAction { nat: Some(support::nat(range)), ..support::commit(1) };
    let send = |client: u8| {
        let text = format!("10.0.0.{client}:5000>20.0.0.1:80 udp len=9");
        let mut frame = support::frame(&text);
        tracked.execute(Instant::from_millis(1), &action, std::slice::from_mut(&mut frame));
        // In the frame: the source address, and behind the IP header the port.
        let [a, b, c, d] = frame.packet.data()[26..30] else { panic!("{text}") };
        format!("{a}.{b}.{c}.{d}:{}", frame.key.tp_src())
    };
    (1..=60).map(send).collect()
}

#[test]
fn persistent_choices_outlive_the_process_and_others_do_not() {
    let cases = [
        ("src=30.0.0.1-30.0.0.9,persistent", true),
        ("src=30.0.0.1-30.0.0.9:7000-9000,hash,persistent", true),
        ("src=30.0.0.1-30.0.0.9", false),
        ("src=30.0.0.1-30.0.0.9:7000-9000,hash", false),
        ("src=30.0.0.1-30.0.0.9:7000-9000,random", false),
    ];
    for (range, is_same) in cases {
        let (first, second) = (rewritten(1, range), rewritten(2, range));
        assert_eq!(first == second, is_same, "{range}");
        let used: HashSet<&str> = first.iter().filter_map(|end| end.split(':').next()).collect();
        assert!(used.len() >= 8, "{range}: of nine addresses only {used:?}");
    }
}
