//! DPDK's virtio device as the guest behind a vhost-user port.

use super::{dpdk, open, receive, send};
use crate::{DpdkConfig, DpdkPort};
use packet::{Batch, Packet, Pool};
use port::{RxQueue, TxQueue};
use port_vhost::{Clocks, VhostConfig, VhostPort, VhostRole, VhostRx};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Both formats of rings, with and without what changes them.
const RINGS: [&str; 4] = [
    "packed_vq=0,mrg_rxbuf=1",
    "packed_vq=0,mrg_rxbuf=0,in_order=0",
    "packed_vq=1,mrg_rxbuf=1",
    "packed_vq=1,mrg_rxbuf=0,in_order=0",
];

/// A vhost-user port.
pub fn port(socket: &Path, role: VhostRole, rx_queues: u16) -> (VhostPort, Vec<VhostRx>) {
    let socket = socket.to_owned();
    let config = VhostConfig { socket, role, rx_queues, mtu: None, tx_retries: 8 };
    VhostPort::open("switch", config, Clocks::STILL, Box::new(|| ())).unwrap()
}

/// Waits until a guest is connected or disconnected.
fn wait_for_link(port: &VhostPort, is_up: bool) {
    let end = Instant::now() + Duration::from_secs(10);
    while port.is_link_up() != is_up {
        assert!(Instant::now() < end, "the link does not change: {:?}", port.problem());
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn guest_at(number: u32, socket: &Path, options: &str) -> DpdkPort {
    let path = socket.display();
    open("guest", &format!("net_virtio_user{number},path={path},queues=1,{options}"))
}

#[test]
fn what_a_guest_sends_can_be_sent_back_and_is_counted() {
    const ROUNDS: u64 = 2_000;
    if !dpdk("what_a_guest_sends_can_be_sent_back_and_is_counted") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    for (number, ring) in (30..).zip(RINGS) {
        let socket = folder.path().join(number.to_string());
        let (switch, mut queues) = port(&socket, VhostRole::Server, 1);
        let guest = guest_at(number, &socket, ring);
        wait_for_link(&switch, true);
        let (rx, mut tx) = (&mut queues[0], switch.tx(0));
        let (mut guest_rx, mut guest_tx) = (guest.rx(0).unwrap(), guest.tx().unwrap());
        let mut pool = Pool::new(64);
        // More packets than buffers: each buffer must return, and only once.
        for round in 0..ROUNDS {
            let numbered = |i| Packet::from_bytes(&[[round as u8, i], [7; 2]].concat().repeat(20));
            let sent = send(&mut guest_tx, &mut pool, (0..32).map(numbered).collect());
            assert_eq!(sent.packets, 32);
            let got = receive(rx, &mut pool);
            let sent = send(&mut tx, &mut pool, got);
            assert_eq!((sent.packets, sent.bytes), (32, 32 * 80), "{ring} in round {round}");
            let back = receive(&mut guest_rx, &mut pool);
            let back: Vec<_> = back.iter().map(|packet| packet.data().to_vec()).collect();
            let expect: Vec<_> = (0..32).map(|i| numbered(i).data().to_vec()).collect();
            assert_eq!(back, expect, "{ring} in round {round}");
        }
        let [(received, sent)] = switch.ring_counts()[..] else { panic!("one pair") };
        assert_eq!((received.packets, received.bytes), (ROUNDS * 32, ROUNDS * 32 * 80));
        assert_eq!((sent.packets, sent.sizes[1]), (ROUNDS * 32, ROUNDS * 32));

        // A guest that does not read gets what its ring holds; the rest is dropped.
        let mut lost = 0;
        for _ in 0..200 {
            let burst = (0..32).map(|i| Packet::from_bytes(&[i; 60])).collect();
            let sent = send(&mut tx, &mut pool, burst);
            assert_eq!(sent.packets + sent.dropped, 32);
            lost += sent.dropped;
        }
        assert!(lost > 5_000, "{lost}");
        assert_eq!(switch.lost().tx_full, lost);
        assert_eq!(switch.problem(), None);
    }
}

#[test]
fn a_guest_may_have_several_queues_or_fewer_or_more_than_its_port() {
    if !dpdk("a_guest_may_have_several_queues_or_fewer_or_more_than_its_port") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("a");
    let (switch, rx) = port(&socket, VhostRole::Server, 2);
    let mut queues: Vec<_> = rx.into_iter().zip([switch.tx(0), switch.tx(1)]).collect();
    let mut pool = Pool::new(64);
    for (number, has) in [(21, 2), (22, 1), (23, 4)] {
        let args = format!("net_virtio_user{number},path={},queues={has}", socket.display());
        let config = DpdkConfig { rx_queues: has, ..DpdkConfig::new(args) };
        let guest = DpdkPort::open("guest", &config, has).unwrap();
        wait_for_link(&switch, true);
        let end = Instant::now() + Duration::from_secs(10);
        while switch.ring_counts().len() < usize::from(has) {
            assert!(Instant::now() < end, "its other queues do not come up");
        }
        let mut guest_rx: Vec<_> = (0..has).map(|queue| guest.rx(queue).unwrap()).collect();
        let packet = |number: usize| vec![Packet::from_bytes(&[number as u8; 60])];
        // What each queue of the switch sends arrives, and what the guest sends through any of its queues.
        for (queue, (_, tx)) in queues.iter_mut().enumerate() {
            assert_eq!(send(tx, &mut pool, packet(queue)).packets, 1);
            let place = queue % usize::from(has);
            assert_eq!(receive(&mut guest_rx[place], &mut pool)[0].data(), [queue as u8; 60]);
        }
        for _ in 0..has {
            let mut guest_tx = guest.tx().unwrap();
            assert_eq!(send(&mut guest_tx, &mut pool, packet(9)).packets, 1);
        }
        for (queue, (rx, _)) in queues.iter_mut().enumerate() {
            let mine = (0..has).filter(|of_guest| usize::from(of_guest % 2) == queue).count();
            assert_eq!(receive(rx, &mut pool).len(), mine, "queue {queue} of a guest with {has}");
        }
        drop((guest_rx, guest));
        wait_for_link(&switch, false);
    }
}

#[test]
fn guests_come_and_go_while_a_worker_is_at_their_rings() {
    if !dpdk("guests_come_and_go_while_a_worker_is_at_their_rings") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("a");
    let (switch, mut queues) = port(&socket, VhostRole::Server, 1);
    let (mut rx, mut tx, over) = (queues.remove(0), switch.tx(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut pool = Pool::new(64);
            while !over.load(Ordering::Relaxed) {
                let mut batch = Batch::new();
                rx.receive(&mut pool, &mut batch).unwrap();
                // A guest that disconnects takes the packets in flight.
                let _ = tx.send(&mut pool, &mut batch);
            }
        });
        for number in 0..20 {
            let guest = guest_at(20, &socket, RINGS[number % RINGS.len()]);
            wait_for_link(&switch, true);
            let (mut guest_rx, mut guest_tx) = (guest.rx(0).unwrap(), guest.tx().unwrap());
            let (mut pool, mut back) = (Pool::new(64), 0);
            while back < 100 {
                let _ = send(&mut guest_tx, &mut pool, vec![Packet::from_bytes(&[5; 60])]);
                back += receive(&mut guest_rx, &mut pool).len();
            }
            drop((guest_rx, guest_tx, guest));
            wait_for_link(&switch, false);
        }
        over.store(true, Ordering::Relaxed);
    });
    assert_eq!(switch.problem(), None);
}
