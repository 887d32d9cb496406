use super::*;
use base::limits::{UPCALLS, UPCALLS_PER_PORT};
use base::{Instant, MacAddr, WorkerId};
use flow::{Field, QueueClass};
use packet::Packet;
use std::collections::BTreeMap;
use wire::ethertype;

fn key(port: u32, eth_type: u16) -> FlowKey {
    let mut key = FlowKey::new();
    key.set_in_port_raw(port);
    key.set_eth_type(eth_type);
    key
}

fn miss(worker: u16, key: FlowKey) -> Upcall {
    Upcall {
        worker: WorkerId(worker),
        kind: UpcallKind::Miss,
        packet: Packet::from_bytes(&[0; 14]),
        key: Box::new(key),
        received: Instant::ZERO,
        queued: Instant::ZERO,
        trace: None,
    }
}

/// Queues an upcall. Returns whether to wake the answering thread, and which port's upcall was evicted.
fn push(queue: &UpcallQueue, port: u32, eth_type: u16) -> Result<(bool, Option<u32>), QueueFull> {
    let key = key(port, eth_type);
    let reserved = queue.reserve(Instant::ZERO, WorkerId(0), &UpcallKind::Miss, &key)?;
    let wake = queue.push(&reserved, miss(0, key));
    Ok((wake, reserved.evicted.map(|upcall| upcall.key.in_port().0)))
}

fn ports(queue: &UpcallQueue, budget: usize) -> Vec<(u32, u16)> {
    let mut out = Vec::new();
    queue.pop(budget, &mut out);
    out.iter().map(|u| (u.key.in_port().0, u.key.eth_type())).collect()
}

#[test]
fn a_storm_takes_only_its_own_share() {
    let queue = UpcallQueue::new();
    for _ in 0..2 * UPCALLS_PER_PORT {
        let _ = push(&queue, 1, 0x806);
    }
    assert_eq!(queue.dropped(), [(PortNo(1), UPCALLS_PER_PORT as u64)]);
    assert_eq!(push(&queue, 1, 0x800), Ok((false, None)));
    assert_eq!(push(&queue, 2, 0x800), Ok((false, None)));
    // The other class has every other turn, shared by its ports.
    let first = ports(&queue, 4);
    assert_eq!(first, [(1, 0x806), (1, 0x800), (1, 0x806), (2, 0x800)]);
}

#[test]
fn sixteen_storms_do_not_keep_another_port_out() {
    let queue = UpcallQueue::new();
    let storms = (UPCALLS / UPCALLS_PER_PORT) as u32;
    for port in 1..=storms {
        for _ in 0..UPCALLS_PER_PORT {
            assert!(push(&queue, port, 0x800).is_ok());
        }
    }
    let Ok((false, Some(loser))) = push(&queue, 99, 0x800) else { panic!("there is no room") };
    assert_eq!(queue.dropped(), [(PortNo(loser), 1)]);
    // The port has its share once it has as many as any other.
    let got = (0..UPCALLS).filter(|_| push(&queue, 99, 0x800).is_ok()).count() + 1;
    let share = UPCALLS / (storms as usize + 1);
    assert!((share - 1..=share + 1).contains(&got), "{got} of {share}");
    // No storm takes that back.
    (1..=storms).for_each(|port| drop(push(&queue, port, 0x800)));
    let all = ports(&queue, UPCALLS);
    assert_eq!((all.len(), all.iter().filter(|(port, _)| *port == 99).count()), (UPCALLS, got));
}

#[test]
fn room_that_is_reserved_counts_and_goes_with_its_port() {
    let queue = UpcallQueue::new();
    let first = key(1, 0x800);
    let reserved: Vec<Reserved> = (0..UPCALLS_PER_PORT)
        .map(|_| queue.reserve(Instant::ZERO, WorkerId(0), &UpcallKind::Miss, &first).unwrap())
        .collect();
    assert!(queue.is_empty());
    assert_eq!(push(&queue, 1, 0x800), Err(QueueFull));
    queue.remove_port(PortNo(1));
    assert_eq!(push(&queue, 1, 0x800), Ok((true, None)));
    drop(reserved);
}

#[test]
fn classes_have_turns_of_their_own() {
    let with = |eth_type, fields: &[(Field, u128)]| {
        let mut key = key(1, eth_type);
        key.set(Field::EthDst, MacAddr([2, 0, 0, 0, 0, 1]).to_u64().into());
        fields.iter().for_each(|(field, value)| key.set(*field, *value));
        QueueClass::of(&UpcallKind::Miss, &key)
    };
    use Field::{EthDst, NwProto, TcpFlags, TpDst, TpSrc};
    let cases = [
        (with(0x8809, &[]), QueueClass::Control),
        (with(0x88cc, &[(EthDst, 0x0180_c200_000e)]), QueueClass::Control),
        (with(0x0800, &[(NwProto, 17), (TpDst, 3784)]), QueueClass::Control),
        (with(0x0806, &[(EthDst, 0xffff_ffff_ffff)]), QueueClass::Neighbour),
        (with(0x86dd, &[(NwProto, 58), (TpSrc, 135)]), QueueClass::Neighbour),
        (with(0x86dd, &[(NwProto, 58), (TpSrc, 128)]), QueueClass::Ip),
        (with(0x0800, &[(NwProto, 6), (TcpFlags, 0x02)]), QueueClass::TcpSyn),
        (with(0x0800, &[(NwProto, 6), (TcpFlags, 0x12)]), QueueClass::Ip),
        (with(0x0800, &[(EthDst, 0x0100_5e00_0001)]), QueueClass::Multicast),
        (with(0x88b5, &[(EthDst, 0xffff_ffff_ffff)]), QueueClass::Multicast),
        (with(0x88b5, &[]), QueueClass::Other),
    ];
    for (index, (got, expect)) in cases.into_iter().enumerate() {
        assert_eq!(got, expect, "case {index}");
    }
}

#[test]
fn says_when_to_wake_and_forgets_ports() {
    let queue = UpcallQueue::new();
    assert_eq!(push(&queue, 1, 0x800), Ok((true, None)));
    assert_eq!(push(&queue, 2, 0x800), Ok((false, None)));
    queue.remove_port(PortNo(1));
    assert_eq!(ports(&queue, 9), [(2, 0x800)]);
    assert!(queue.is_empty());
    assert_eq!(push(&queue, 2, 0x800), Ok((true, None)));
}

/// An upcall of a TCP packet from one host and port to another.
fn of_flow(worker: u16, from: u32, to: u32, ports: (u16, u16)) -> Upcall {
    let mut key = key(1, 0x0800);
    key.set(Field::Ipv4Src, from.into());
    key.set(Field::Ipv4Dst, to.into());
    key.set_nw_proto(6);
    key.set_tp_src(ports.0);
    key.set_tp_dst(ports.1);
    miss(worker, key)
}

#[test]
fn packets_of_one_flow_have_one_handler_and_flows_are_spread() {
    let queue = UpcallQueue::answered_by(Answers::Handlers(4), 1);
    let mut counts = [0; 4];
    for n in 0..64u16 {
        let lists = [of_flow(0, 1, 2, (n, 80)), of_flow(3, 2, 1, (80, n))]
            .map(|upcall| queue.list_for(upcall.worker, &upcall.kind, &upcall.key));
        assert_eq!(lists[0], lists[1]);
        counts[lists[0] - 1] += 1;
    }
    assert!(counts.iter().all(|count| (8..=24).contains(count)), "{counts:?}");
}

#[test]
fn pairs_of_hosts_that_lie_equally_far_apart_are_spread() {
    let queue = UpcallQueue::answered_by(Answers::Handlers(4), 1);
    for (eth_type, [source, destination]) in [
        (ethertype::ARP, [Field::ArpSpa, Field::ArpTpa]),
        (ethertype::IPV4, [Field::Ipv4Src, Field::Ipv4Dst]),
    ] {
        let mut counts = [0; 4];
        for n in 0..64 {
            let mut key = key(1, eth_type);
            key.set(source, 0x0a00_0000 + n);
            key.set(destination, 0x0a00_0100 + n);
            let upcall = miss(0, key);
            counts[queue.list_for(upcall.worker, &upcall.kind, &upcall.key) - 1] += 1;
        }
        assert!(counts.iter().all(|count| (8..=24).contains(count)), "{counts:?}");
    }
}

#[test]
fn a_handler_takes_its_own_and_passes_on_what_only_the_owner_may_answer() {
    let queue = UpcallQueue::answered_by(Answers::Workers(2), 1);
    let put = |worker: u16| {
        let upcall = of_flow(worker, 1, 2, (3, 4));
        let reserved =
            queue.reserve(Instant::ZERO, upcall.worker, &upcall.kind, &upcall.key).unwrap();
        assert!(!queue.push(&reserved, upcall), "the owner has nothing to answer");
    };
    [0, 1, 1].into_iter().for_each(put);
    let mut out = Vec::new();
    queue.pop(9, &mut out);
    assert!(out.is_empty());
    queue.pop_for(1, 9, &mut out);
    assert_eq!(out.iter().map(|it| it.worker.0).collect::<Vec<_>>(), [1, 1]);
    assert!(queue.is_empty_for(1) && !queue.is_empty_for(0) && queue.is_empty());
    assert!(matches!(queue.pass_on(out.remove(0)), (true, None)));
    assert!(!queue.is_empty());
    // A wait returns at once if an upcall is queued or a wake is pending.
    queue.wait(0, Duration::MAX);
    queue.wake();
    queue.wait(1, Duration::MAX);
}

#[test]
fn an_upcall_that_is_passed_on_in_vain_or_evicts_another_gives_back_what_is_dropped() {
    let queue = UpcallQueue::answered_by(Answers::Handlers(1), 1);
    let storms = (UPCALLS / UPCALLS_PER_PORT) as u32;
    let pass_on = |port: u32| {
        let (is_queued, dropped) = queue.pass_on(miss(0, key(port, 0x800)));
        (is_queued, dropped.map(|upcall| upcall.key.in_port().0))
    };
    for port in 1..=storms {
        for _ in 0..UPCALLS_PER_PORT {
            assert_eq!(pass_on(port), (true, None));
        }
    }
    assert_eq!(pass_on(1), (false, Some(1)));
    let (is_queued, evicted) = pass_on(99);
    assert!(is_queued && evicted.is_some_and(|port| port <= storms), "{evicted:?}");
}

#[test]
fn a_control_protocol_goes_before_the_turns_of_others() {
    let queue = UpcallQueue::new();
    for (port, eth_type) in [(1, 0x800), (2, 0x800), (3, 0x806), (1, 0x800)] {
        push(&queue, port, eth_type).unwrap();
    }
    // LACP.
    push(&queue, 4, 0x8809).unwrap();
    push(&queue, 4, 0x8809).unwrap();
    let order = [(4, 0x8809), (3, 0x806), (4, 0x8809), (1, 0x800), (2, 0x800), (1, 0x800)];
    assert_eq!(ports(&queue, 9), order);
}

#[test]
fn a_storm_of_one_class_from_all_ports_leaves_another_class_every_other_turn() {
    let queue = UpcallQueue::new();
    (1..=500).for_each(|port| drop(push(&queue, port, 0x806)));
    push(&queue, 77, 0x800).unwrap();
    assert!(ports(&queue, 2).contains(&(77, 0x800)));
}

#[test]
fn upcalls_are_limited_by_port_and_class() {
    let queue = UpcallQueue::answered_by(Answers::Handlers(2), 1);
    let rates = UpcallRates {
        every_port: [(QueueClass::Neighbour, 50)].into(),
        by_port: [((PortNo(2), QueueClass::Neighbour), 1000), ((PortNo(2), QueueClass::Ip), 10)]
            .into(),
    };
    queue.set_rates(rates.clone());
    // One upcall per millisecond for two seconds, each taken at once.
    let admitted = |port: u32, eth_type: u16, to: fn(u32) -> u32| {
        let let_in = (0..2000u32).filter(|ms| {
            let mut key = key(port, eth_type);
            key.set(Field::Ipv4Dst, to(*ms).into());
            let now = Instant::from_millis(1000 + u64::from(*ms));
            let reserved = queue.reserve(now, WorkerId(0), &UpcallKind::Miss, &key);
            let is_in = reserved.map(|it| queue.push(&it, miss(0, key))).is_ok();
            (0..2).for_each(|handler| queue.pop_for(handler, 9, &mut Vec::new()));
            is_in
        });
        let_in.count()
    };
    // Ten upcalls at the end of these seconds.
    let at_once = |port: u32| {
        let key = key(port, 0x806);
        let now = Instant::from_millis(2999);
        let is_in = || queue.reserve(now, WorkerId(0), &UpcallKind::Miss, &key).is_ok();
        (0..10).filter(|_| is_in()).count()
    };
    // The burst is a tenth of a second's worth; the limit applies to both handlers together.
    assert_eq!(admitted(1, 0x806, |ms| ms), 105);
    assert_eq!(admitted(2, 0x806, |_| 1), 2000);
    assert_eq!(admitted(2, 0x800, |ms| ms), 21);
    assert_eq!(admitted(1, 0x800, |ms| ms), 2000);
    let refused = queue.dropped();
    assert!(
        refused.contains(&(PortNo(1), 1895)) && refused.contains(&(PortNo(2), 1979)),
        "{refused:?}"
    );
    assert_eq!(at_once(3), 5);
    // A new port with the number of a removed one has its burst; a port whose rate is unchanged has no new
    // one.
    queue.set_rates(UpcallRates { by_port: BTreeMap::new(), ..rates });
    queue.remove_port(PortNo(1));
    assert_eq!([1, 3].map(at_once), [5, 0]);
    // Without limits all are admitted.
    queue.set_rates(UpcallRates::default());
    assert_eq!(admitted(1, 0x806, |ms| ms), 2000);
}

#[test]
fn frames_of_protocols_have_a_list_of_their_own() {
    let to = flow::ToProtocol { monitor: flow::MonitorId(3), protocol: flow::Protocol::Bfd };
    for answers in [Answers::Owner, Answers::Handlers(2), Answers::Workers(3)] {
        let queue = UpcallQueue::answered_by(answers, 1);
        // Storms fill all other lists.
        for port in 0..2 * UPCALLS as u32 {
            let _ = push(&queue, port, ethertype::ARP);
        }
        let key = key(1, ethertype::IPV4);
        let kind = UpcallKind::Protocol(to);
        let reserved = queue.reserve(Instant::ZERO, WorkerId(0), &kind, &key).unwrap();
        assert!(reserved.evicted.is_none(), "{answers:?}");
        let upcall = Upcall { kind: kind.clone(), ..miss(0, key) };
        // The owner is not woken for it.
        assert!(!queue.push(&reserved, upcall), "{answers:?}");
        let others = queue.drain();
        assert!(others.iter().all(|upcall| upcall.kind == UpcallKind::Miss), "{answers:?}");
        let mut out = Vec::new();
        queue.pop_protocols(9, &mut out);
        assert_eq!((out.len(), queue.has_no_protocols()), (1, true), "{answers:?}");
        assert_eq!(out[0].kind, kind);
    }
}
