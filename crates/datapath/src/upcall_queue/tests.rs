use super::*;
use base::limits::{UPCALLS, UPCALLS_PER_PORT};
use base::{Instant, MacAddr, WorkerId};
use flow::Field;
use packet::Packet;

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
        key,
        received: Instant::ZERO,
        queued: Instant::ZERO,
        trace: None,
    }
}

/// Puts an upcall into the queue; gives whether to wake those who answer, and which port's upcall had
/// to go.
fn push(queue: &UpcallQueue, port: u32, eth_type: u16) -> Result<(bool, Option<u32>), QueueFull> {
    let key = key(port, eth_type);
    let reserved = queue.reserve(WorkerId(0), &UpcallKind::Miss, &key)?;
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
    let first = ports(&queue, 3);
    assert!(first.contains(&(1, 0x800)) && first.contains(&(2, 0x800)), "{first:?}");
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
    // The port has its share as soon as it has as many as any other.
    let got = (0..UPCALLS).filter(|_| push(&queue, 99, 0x800).is_ok()).count() + 1;
    let share = UPCALLS / (storms as usize + 1);
    assert!((share - 1..=share + 1).contains(&got), "{got} of {share}");
    // No storm gets that back from it.
    (1..=storms).for_each(|port| drop(push(&queue, port, 0x800)));
    let all = ports(&queue, UPCALLS);
    assert_eq!((all.len(), all.iter().filter(|(port, _)| *port == 99).count()), (UPCALLS, got));
}

#[test]
fn room_that_is_reserved_counts_and_goes_with_its_port() {
    let queue = UpcallQueue::new();
    let first = key(1, 0x800);
    let reserved: Vec<Reserved> = (0..UPCALLS_PER_PORT)
        .map(|_| queue.reserve(WorkerId(0), &UpcallKind::Miss, &first).unwrap())
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
        Class::of(&UpcallKind::Miss, &key)
    };
    use Field::{EthDst, NwProto, TcpFlags, TpDst, TpSrc};
    let cases = [
        (with(0x8809, &[]), Class::Control),
        (with(0x88cc, &[(EthDst, 0x0180_c200_000e)]), Class::Control),
        (with(0x0800, &[(NwProto, 17), (TpDst, 3784)]), Class::Control),
        (with(0x0806, &[(EthDst, 0xffff_ffff_ffff)]), Class::Neighbor),
        (with(0x86dd, &[(NwProto, 58), (TpSrc, 135)]), Class::Neighbor),
        (with(0x86dd, &[(NwProto, 58), (TpSrc, 128)]), Class::Ip),
        (with(0x0800, &[(NwProto, 6), (TcpFlags, 0x02)]), Class::TcpSyn),
        (with(0x0800, &[(NwProto, 6), (TcpFlags, 0x12)]), Class::Ip),
        (with(0x0800, &[(EthDst, 0x0100_5e00_0001)]), Class::Multicast),
        (with(0x88b5, &[(EthDst, 0xffff_ffff_ffff)]), Class::Multicast),
        (with(0x88b5, &[]), Class::Other),
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
    let queue = UpcallQueue::answered_by(Answers::Handlers(4));
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
    let queue = UpcallQueue::answered_by(Answers::Handlers(4));
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
    let queue = UpcallQueue::answered_by(Answers::Workers(2));
    let put = |worker: u16| {
        let upcall = of_flow(worker, 1, 2, (3, 4));
        let reserved = queue.reserve(upcall.worker, &upcall.kind, &upcall.key).unwrap();
        assert!(!queue.push(&reserved, upcall), "the owner has nothing to answer");
    };
    [0, 1, 1].into_iter().for_each(put);
    let mut out = Vec::new();
    queue.pop(9, &mut out);
    assert!(out.is_empty());
    queue.pop_for(1, 9, &mut out);
    assert_eq!(out.iter().map(|it| it.worker.0).collect::<Vec<_>>(), [1, 1]);
    assert!(queue.is_empty_for(1) && !queue.is_empty_for(0) && queue.is_empty());
    queue.pass_on(out.remove(0)).unwrap();
    assert!(!queue.is_empty());
    // What waits, or was woken before, does not wait.
    queue.wait(0, Duration::MAX);
    queue.wake();
    queue.wait(1, Duration::MAX);
}
