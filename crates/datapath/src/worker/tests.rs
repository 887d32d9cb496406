//! A worker from packets in to packets out.

use super::*;
use crate::bench::Bench;
use base::limits::{UPCALLS, UPCALLS_PER_PORT};
use base::{PortNo, RecircId, Zone};
use flow::{Action, CtAction, CtState, Field, Nat, NatKind, NatRange, PortSelection, SetField};
use packet::{Batch, Packet};

mod waiting;

fn bench(exact_insert_inverse: u32) -> Bench {
    Bench::new(WorkerConfig { exact_insert_inverse, ..WorkerConfig::default() })
}

fn from_port(port: u32) -> Match {
    Match::any().with(Field::InPort, port.into()).with(Field::RecircId, 0)
}

const SYN: &str = "10.0.0.1:1000>10.0.0.2:80 S";
const SYN_ACK: &str = "10.0.0.2:80>10.0.0.1:1000 SA ack=1";

#[test]
fn what_no_flow_matches_goes_up_and_is_counted() {
    let mut bench = bench(1);
    bench.send(1, &[SYN, SYN]);
    assert_eq!((bench.worker.stats().misses, bench.out.wake_control), (2, true));
    let mut upcalls = bench.misses();
    let upcall = upcalls.remove(0);
    assert_eq!((upcall.key.in_port(), upcall.key.tp_dst()), (PortNo(1), 80));
    bench.answer(upcall, vec![Action::Output(PortNo(2)), Action::Output(PortNo(3))]);
    assert_eq!(bench.sent().iter().map(|(port, _)| *port).collect::<Vec<_>>(), [2, 3]);
    // No flow was installed: the second packet is an upcall now.
    assert_eq!(bench.misses().len(), 1);
}

#[test]
fn a_connection_passes_and_the_other_side_may_not_open_one() {
    let mut bench = bench(1);
    let ip = |port| from_port(port).with(Field::EthType, 0x800);
    let state = |port: u32, state: CtState, of: CtState| {
        Match::any().with(Field::InPort, port.into()).with(Field::RecircId, 7).with_masked(
            Field::CtState,
            state.bits().into(),
            of.bits().into(),
        )
    };
    let (new, est) = (CtState::NEW, CtState::EST);
    let ct = |commit| Action::Ct(Box::new(CtAction { commit, ..CtAction::default() }));
    bench.put(1, ip(1), vec![ct(false), Action::Recirc(RecircId(7))]);
    bench.put(2, ip(2), vec![ct(false), Action::Recirc(RecircId(7))]);
    bench.put(3, state(1, new, new | est), vec![ct(true), Action::Output(PortNo(2))]);
    bench.put(4, state(1, est, new | est), vec![Action::Output(PortNo(2))]);
    bench.put(5, state(2, est, new | est), vec![Action::Output(PortNo(1))]);
    bench.put(6, state(2, new, new | est), vec![]);
    bench.send(2, &["10.0.0.2:99>10.0.0.1:1000 S"]);
    assert_eq!(bench.sent(), []);
    assert_eq!(bench.worker.stats().drops.get(DropReason::NoAction), 1);
    bench.send(1, &[SYN]);
    assert_eq!(bench.sent().len(), 1);
    bench.send(2, &[SYN_ACK]);
    assert_eq!(bench.sent().iter().map(|(port, _)| *port).collect::<Vec<_>>(), [1]);
    let mut dump = bench.dump();
    dump.sort_unstable();
    assert_eq!(dump, [(1, 1), (2, 2), (3, 1), (5, 1), (6, 1)]);
    assert_eq!(bench.dump(), [], "nothing was hit since");
    assert_eq!(bench.conntrack.connections(), 1);
}

#[test]
fn packets_that_go_round_for_ever_are_dropped() {
    let mut bench = bench(1);
    bench.put(1, Match::any(), vec![Action::Recirc(RecircId(1))]);
    bench.send(1, &[SYN; 32]);
    assert_eq!(bench.worker.stats().drops.get(DropReason::RecircDepth), 32);
    assert_eq!(bench.sent(), []);
}

#[test]
fn copies_do_not_see_what_later_steps_change() {
    let mut bench = bench(1);
    let ttl = |value| Action::Set(SetField { field: Field::NwTtl, value, mask: 0xff });
    bench.put(
        1,
        from_port(1),
        vec![
            Action::Output(PortNo(2)),
            Action::Clone(Arc::new([ttl(9), Action::Output(PortNo(3))])),
            Action::PushVlan { tpid: 0x8100, tci: 0x100a },
            Action::Output(PortNo(4)),
            Action::Drop(DropReason::NoAction),
        ],
    );
    bench.send(1, &[SYN]);
    let sent = bench.sent();
    assert_eq!(sent.len(), 3);
    assert!(!sent[0].1.contains("ttl=9") && !sent[0].1.contains("vlan"), "{sent:?}");
    assert!(sent[1].1.contains("ttl=9") && !sent[1].1.contains("vlan"), "{sent:?}");
    assert!(sent[2].1.contains("vlan=10") && !sent[2].1.contains("ttl=9"), "{sent:?}");
}

#[test]
fn a_copy_is_cut_and_the_packet_is_not() {
    let mut bench = bench(1);
    let cut = |port, max_len| Action::OutputCut { port: PortNo(port), max_len };
    bench.put(
        1,
        from_port(1),
        vec![cut(2, 20), cut(3, 1000), Action::Output(PortNo(4)), cut(2, 7)],
    );
    bench.send(1, &[SYN]);
    let mut lens = Vec::new();
    for (port, packets) in bench.out.batches_mut() {
        lens.extend(packets.drain(..).map(|packet| (port.0, packet.len())));
    }
    lens.sort_unstable();
    let whole = lens[3].1;
    assert!(whole > 20);
    assert_eq!(lens, [(2, 7), (2, 20), (3, whole), (4, whole)]);
}

#[test]
fn flows_replaced_and_deleted_keep_their_counts() {
    for exact in [0, 1, 100] {
        let mut bench = bench(exact);
        bench.put(1, from_port(1), vec![Action::Output(PortNo(2))]);
        bench.send(1, &[SYN; 3]);
        bench.put(1, from_port(1), vec![Action::Output(PortNo(3))]);
        bench.send(1, &[SYN; 2]);
        assert_eq!(bench.sent().iter().filter(|(port, _)| *port == 3).count(), 2);
        assert_eq!(bench.dump(), [(1, 5)]);
        bench.put(2, from_port(1), vec![]);
        bench.send(1, &[SYN; 4]);
        bench.delete(2);
        bench.send(1, &[SYN]);
        assert_eq!(bench.worker.stats().misses, 1);
        let mut dump = bench.dump();
        dump.sort_unstable();
        assert_eq!(dump, [(1, 5), (2, 4)]);
        assert_eq!(bench.worker.flow_count(), 0);
    }
}

#[test]
fn runts_are_counted_and_every_buffer_comes_back() {
    let mut bench = bench(1);
    bench.put(1, Match::any(), vec![Action::Output(PortNo(2))]);
    let mut batch: Batch =
        [0usize, 1, 13].iter().map(|n| Packet::from_bytes(&vec![0; *n])).collect();
    bench.worker.receive(bench.now, PortNo(1), &mut batch, &mut bench.out);
    assert_eq!(bench.worker.stats().drops.get(DropReason::Malformed), 3);
    assert_eq!((bench.worker.stats().received, bench.sent().len()), (3, 0));
}

/// Both directions of conversations; repeated packets hit the cache.
#[test]
fn packets_of_one_zone_or_two_are_known_whatever_their_protocol() {
    let protocols = ["udp", "A ack=1", "sctp tag=7 chunks=data"];
    for (zones, protocol) in protocols.into_iter().flat_map(|it| [(1, it), (2, it)]) {
        for [a, b] in [["10.0.0.1:1000", "10.0.0.2:80"], ["[fd00::1]:1000", "[fd00::2]:80"]] {
            let mut bench = bench(0);
            track_in_zones(&mut bench, zones);
            let there = format!("{a}>{b} {protocol}");
            let back = format!("{b}>{a} {protocol}");
            if protocol.starts_with('A') {
                bench.send(1, &[&format!("{a}>{b} S")]);
                bench.send(2, &[&format!("{b}>{a} SA ack=1")]);
            }
            for _ in 0..3 {
                bench.send(1, &[&there]);
                bench.send(2, &[&back]);
            }
            bench.sent();
            let before = bench.worker.stats().unified_hits;
            let [packets, again] = [1, 2].map(|port| {
                let text = if port == 1 { &there } else { &back };
                bench.send(port, &[text]);
                bench.sent()
            });
            let case = format!("{zones} {there}");
            assert_eq!((packets.len(), again.len()), (1, 1), "{case}");
            assert_eq!((packets[0].0, again[0].0), (2, 1), "{case}");
            let passes = bench.worker.stats().unified_hits - before;
            assert_eq!(passes, 2 * (1 + zones), "{case}");
            let all = conntrack::Filter::default();
            let entries = bench.conntrack.entries(bench.now, &all);
            let counts: Vec<_> = entries.map(|entry| entry.original_traffic.packets).collect();
            let begins = u64::from(protocol.starts_with('A'));
            assert_eq!(counts, vec![4 + begins; zones as usize], "{case}");
        }
    }
}

/// If no sender sends twice the cache is hardly probed; it is again once flows are long-lived.
#[test]
fn who_sends_on_is_known_after_many_who_did_not() {
    let mut bench = bench(0);
    track_in_zones(&mut bench, 1);
    for number in 0..2_000 {
        let client = format!("10.0.{}.{}", number / 250, number % 250 + 1);
        bench.send(1, &[&format!("{client}:1000>10.9.0.1:80 udp")]);
        if number % 100 == 0 {
            bench.worker.tick_alone();
        }
    }
    assert!(bench.worker.cache_policy.probes_seldom());
    let one = ["10.1.0.1:1000>10.9.0.1:80 udp"; 2];
    for number in 0..2_000 {
        bench.send(1, &one);
        if number % 1_000 == 999 {
            bench.worker.tick_alone();
        }
    }
    assert!(!bench.worker.cache_policy.probes_seldom());
    let before = bench.worker.stats().unified_hits;
    (0..10).for_each(|_| bench.send(1, &one));
    assert_eq!(bench.worker.stats().unified_hits - before, 2 * 20);
    assert_eq!(bench.sent().len(), 2_000 + 2 * 2_010);
}

/// Flows that track in zones 1 and 2, or only in the first, and forward between ports 1 and 2.
fn track_in_zones(bench: &mut Bench, zones: u64) {
    let mut id = 0;
    for (port, to) in [(1u32, 2), (2, 1)] {
        for pass in 0..=zones {
            for eth_type in [0x800, 0x86dd] {
                let matching = Match::any()
                    .with(Field::InPort, port.into())
                    .with(Field::RecircId, pass.into())
                    .with(Field::EthType, eth_type);
                let zone = base::Zone(pass as u16 + 1);
                let ct = CtAction { commit: port == 1, zone, ..CtAction::default() };
                let again = Action::Recirc(RecircId(pass as u32 + 1));
                let actions = match pass == zones {
                    true => vec![Action::Output(PortNo(to))],
                    false => vec![Action::Ct(Box::new(ct)), again],
                };
                id += 1;
                bench.put(id, matching, actions);
            }
        }
    }
}
