//! AF_XDP on a veth pair: frames in both directions in each mode, errors with advice, clean shutdown.

#[path = "../../port-linux/tests/namespace/mod.rs"]
mod namespace;

use namespace::Namespace;
use packet::{Batch, Checksum, Gso, GsoKind, Offload, Packet, Pool};
use port::{PortError, RxQueue, TxQueue};
use port_afxdp::{XdpMode, XdpOptions, XdpPort};
use port_linux::{Links, PacketPort, Waiter};
use std::io::Write;
use std::process::Command;
use std::time::{Duration, Instant};

/// No device has this address, so frames from it are the test's.
const SOURCE: [u8; 6] = [2, 0x78, 0x64, 0x70, 0, 1];

/// Returns a namespace with a veth pair that is up, or `None`, after printing why, if AF_XDP is not
/// available.
fn veth(queues: u32) -> Option<Namespace> {
    let namespace = Namespace::new()?;
    namespace.ip(&format!(
        "link add txdp0 numrxqueues {queues} numtxqueues {queues} type veth \
         peer name txdp1 numrxqueues {queues} numtxqueues {queues}"
    ));
    namespace.ip("link set txdp0 up");
    namespace.ip("link set txdp1 up");
    let tried = namespace.run(|| XdpPort::open("txdp0", XdpOptions::default()).map(drop));
    match tried {
        Ok(()) => Some(namespace),
        Err(error) => {
            // Written past the test harness, which would capture it.
            let _ = writeln!(std::io::stderr(), "SKIPPED: {error}");
            None
        }
    }
}

fn frame(number: u8, bytes: usize) -> Vec<u8> {
    let mut frame = vec![2, 0x78, 0, 0, 0, 9];
    frame.extend(SOURCE);
    frame.extend([0x88, 0xb5]);
    frame.resize(bytes, number);
    frame
}

/// The longest wait for what must happen: a very slow machine takes that long.
const PATIENCE: Duration = Duration::from_secs(20);

/// Waits for this many frames from [`SOURCE`]. Returns fewer only if they do not arrive.
fn receive(rx: &mut dyn RxQueue, count: usize) -> Vec<Packet> {
    receive_from(&mut [rx], count)
}

/// The same from several queues.
fn receive_from(queues: &mut [&mut dyn RxQueue], count: usize) -> Vec<Packet> {
    let (mut pool, mut ours) = (Pool::new(64), Vec::new());
    let mut waiter = Waiter::new().unwrap();
    for rx in queues.iter() {
        waiter.watch(rx.wake_fd().unwrap(), 0).unwrap();
    }
    let start = Instant::now();
    while ours.len() < count && start.elapsed() < PATIENCE {
        waiter.wait(Some(Duration::from_millis(50))).unwrap();
        for rx in queues.iter_mut() {
            let mut batch = Batch::new();
            rx.receive(&mut pool, &mut batch).unwrap();
            ours.extend(batch.into_iter().filter(|p| p.data().get(6..12) == Some(&SOURCE)));
        }
    }
    ours
}

fn send(tx: &mut dyn TxQueue, frames: impl Iterator<Item = Vec<u8>>) -> u64 {
    let (mut pool, mut batch, mut sent) = (Pool::new(64), Batch::new(), 0);
    for frame in frames {
        batch.push(Packet::from_bytes(&frame));
        if batch.is_full() {
            sent += tx.send(&mut pool, &mut batch).packets;
        }
    }
    sent + tx.send(&mut pool, &mut batch).packets
}

/// Returns whether the program is detached, which happens a moment after the last descriptor is closed.
fn detaches() -> bool {
    let start = Instant::now();
    while is_attached() && start.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(2));
    }
    !is_attached()
}

fn is_attached() -> bool {
    let out = Command::new("ip").args(["link", "show", "txdp0"]).output().unwrap();
    String::from_utf8_lossy(&out.stdout).contains("prog/xdp")
}

/// Sends until one frame has arrived, because a device takes a moment to be ready.
fn settle(tx: &mut dyn TxQueue, rx: &mut dyn RxQueue) {
    let start = Instant::now();
    loop {
        send(tx, std::iter::once(frame(0, 60)));
        let (mut pool, mut batch) = (Pool::new(64), Batch::new());
        std::thread::sleep(Duration::from_millis(5));
        rx.receive(&mut pool, &mut batch).unwrap();
        if batch.iter().any(|p| p.data().get(6..12) == Some(&SOURCE)) {
            return;
        }
        assert!(start.elapsed() < PATIENCE, "no frame crosses the veth");
    }
}

#[test]
fn frames_cross_in_both_directions_in_every_mode() {
    let Some(namespace) = veth(1) else { return };
    namespace.run(|| {
        let modes = [None, Some(XdpMode::Native), Some(XdpMode::Generic)];
        for (mode, need_wakeup) in modes.into_iter().flat_map(|mode| [(mode, true), (mode, false)])
        {
            let options = XdpOptions { mode, queues: 1, need_wakeup };
            let (port, mut queues) = XdpPort::open("txdp0", options).unwrap();
            assert!(is_attached());
            // A veth has no zero-copy mode.
            assert_eq!(port.mode(), mode.unwrap_or(XdpMode::Native));
            let peer = PacketPort::open("txdp1").unwrap();
            let (mut peer_rx, mut peer_tx) = (peer.rx().unwrap(), peer.tx().unwrap());
            let (rx, mut tx) = (&mut queues[0], port.tx(0));
            settle(&mut peer_tx, rx);
            settle(&mut tx, &mut peer_rx);
            // More than there are frames, so that every buffer is used more than once.
            for round in 0..40u8 {
                let lengths = (0..128).map(|i| 60 + usize::from(round) * 36 + i % 3);
                let frames: Vec<_> = lengths.map(|bytes| frame(round, bytes)).collect();
                assert_eq!(send(&mut peer_tx, frames.iter().cloned()), 128);
                let came: Vec<_> = receive(rx, 128).iter().map(|p| p.data().to_vec()).collect();
                assert_eq!(came, frames, "in, mode {mode:?}, round {round}");
                assert_eq!(send(&mut tx, frames.iter().cloned()), 128);
                let came: Vec<_> =
                    receive(&mut peer_rx, 128).iter().map(|p| p.data().to_vec()).collect();
                assert_eq!(came, frames, "out, mode {mode:?}, round {round}");
            }
            drop((port, queues, tx));
            assert!(detaches(), "mode {mode:?}");
        }
    });
}

#[test]
fn what_a_device_cannot_carry_is_finished_or_counted() {
    let Some(namespace) = veth(1) else { return };
    namespace.run(|| {
        let (port, mut queues) = XdpPort::open("txdp0", XdpOptions::default()).unwrap();
        let peer = PacketPort::open("txdp1").unwrap();
        let (mut peer_rx, mut peer_tx) = (peer.rx().unwrap(), peer.tx().unwrap());
        let mut tx = port.tx(7);
        settle(&mut peer_tx, &mut queues[0]);
        settle(&mut tx, &mut peer_rx);

        // A UDP datagram as a veth's peer sends it: with the pseudo header's sum only.
        let mut undone = frame(0, 12);
        undone.extend([0x08, 0, 0x45, 0, 0, 46, 0, 1, 0x40, 0, 64, 17, 0, 0]);
        undone.extend([10, 0, 0, 1, 10, 0, 0, 2, 0, 7, 0, 9, 0, 26, 0x14, 0x2e]);
        undone.extend([0x5a; 18]);
        send(&mut peer_tx, std::iter::once(undone));
        let came = receive(&mut queues[0], 1);
        assert_eq!(came[0].offload.checksum, Checksum::Partial);

        // It is sent with a complete checksum, and a large one in segments.
        let (mut pool, mut batch) = (Pool::new(64), Batch::new());
        batch.extend(came);
        let mut large = frame(0, 12);
        large.extend([0x08, 0, 0x45, 0, 0x13, 0x88, 0, 1, 0x40, 0, 64, 6, 0, 0]);
        large.extend([10, 0, 0, 1, 10, 0, 0, 2, 0, 7, 0, 9, 0, 0, 0, 1, 0, 0, 0, 1]);
        large.extend([0x50, 0x10, 1, 0, 0, 0, 0, 0]);
        large.resize(14 + 5000, 0x77);
        let mut large = Packet::from_bytes(&large);
        let gso = Gso { kind: GsoKind::TcpV4, segment_bytes: 1000, ecn: false };
        let checksum = Checksum::Partial;
        large.offload = Offload { checksum, gso: Some(gso) };
        batch.push(large);
        for bytes in [5000, 13, 0] {
            batch.push(Packet::from_bytes(&frame(1, 5000)[..bytes]));
        }
        let sent = tx.send(&mut pool, &mut batch);
        assert_eq!((sent.packets, sent.dropped, sent.errors), (1 + 5, 0, 3));
        let came = receive(&mut peer_rx, 6);
        let lengths: Vec<usize> = came.iter().map(Packet::len).collect();
        assert_eq!(lengths, [60, 1054, 1054, 1054, 1054, 14 + 40 + 960]);
        // Addresses, protocol and length, then the datagram: the sum is all ones if the checksum is correct.
        let words = came[0].data()[26..].chunks(2).map(|w| u32::from(w[0]) << 8 | u32::from(w[1]));
        let sum: u32 = words.sum::<u32>() + 17 + 26;
        assert_eq!((sum & 0xffff) + (sum >> 16), 0xffff);
    });
}

#[test]
fn every_queue_is_a_port_of_its_own() {
    let Some(namespace) = veth(2) else { return };
    namespace.run(|| {
        let options = XdpOptions { queues: 2, ..XdpOptions::default() };
        let (port, mut queues) = XdpPort::open("txdp0", options).unwrap();
        assert_eq!((queues.len(), port.unused_queues(), port.counts().len()), (2, None, 2));
        let peer = PacketPort::open("txdp1").unwrap();
        let (mut peer_rx, mut peer_tx) = (peer.rx().unwrap(), peer.tx().unwrap());
        for worker in 0..3 {
            settle(&mut port.tx(worker), &mut peer_rx);
        }
        send(&mut peer_tx, (0..64).map(|i| frame(i, 60)));
        let (first, second) = queues.split_at_mut(1);
        assert_eq!(receive_from(&mut [&mut first[0], &mut second[0]], 64).len(), 64);
        drop((port, queues));
        assert!(detaches());

        let (port, _queues) = XdpPort::open("txdp0", XdpOptions::default()).unwrap();
        assert_eq!(port.unused_queues(), Some(1));
    });
}

#[test]
fn refusals_say_what_is_wrong() {
    let Some(namespace) = veth(1) else { return };
    namespace.run(|| {
        let refused = |name: &str, options, expect: &str| {
            let error = XdpPort::open(name, options).expect_err("an error").to_string();
            assert!(error.contains(expect), "{error:?} lacks {expect:?}");
        };
        let plain = XdpOptions::default();
        refused("txdp9", plain, "txdp9: no such device");
        refused("a/b", plain, "not a device name");
        refused("lo", XdpOptions { mode: Some(XdpMode::Native), ..plain }, "lo: its");
        let zerocopy = Some(XdpMode::NativeWithZerocopy);
        refused("txdp0", XdpOptions { mode: zerocopy, ..plain }, "no zero-copy AF_XDP");
        refused("txdp0", XdpOptions { queues: 2, ..plain }, "options:n_rxq is 2, and it has 1");
        Links::open().unwrap().set_mtu("txdp0", 9000).unwrap();
        refused("txdp0", plain, "txdp0: its MTU is 9000, and AF_XDP takes at most 3818");
        Links::open().unwrap().set_mtu("txdp0", 1500).unwrap();
        let (port, queues) = XdpPort::open("txdp0", plain).unwrap();
        refused("txdp0", plain, "another XDP program is attached already");
        drop((port, queues));
        assert!(detaches());
        assert!(XdpPort::open("txdp0", plain).is_ok());
    });
}

#[test]
fn a_device_that_goes_takes_its_queue_along() {
    let Some(namespace) = veth(1) else { return };
    let mut queues = namespace.run(|| XdpPort::open("txdp0", XdpOptions::default()).unwrap().1);
    namespace.ip("link del txdp0");
    let (mut pool, mut batch) = (Pool::new(8), Batch::new());
    let start = Instant::now();
    let error = loop {
        assert!(start.elapsed() < PATIENCE, "it was not noticed");
        if let Err(error) = queues[0].receive(&mut pool, &mut batch) {
            break error;
        }
    };
    assert!(matches!(error, PortError::Gone { .. }), "{error}");
}

#[test]
fn a_device_that_is_down_drops_and_works_again_when_it_is_up() {
    let Some(namespace) = veth(1) else { return };
    namespace.run(|| {
        let (port, mut queues) = XdpPort::open("txdp0", XdpOptions::default()).unwrap();
        let peer = PacketPort::open("txdp1").unwrap();
        let (mut peer_rx, mut peer_tx) = (peer.rx().unwrap(), peer.tx().unwrap());
        let mut tx = port.tx(0);
        settle(&mut tx, &mut peer_rx);
        let mut links = Links::open().unwrap();
        links.set_up("txdp0", false).unwrap();
        let (mut pool, mut batch, mut dropped) = (Pool::new(64), Batch::new(), 0);
        for _ in 0..100 {
            batch.extend((0..32).map(|i| Packet::from_bytes(&frame(i, 60))));
            dropped += tx.send(&mut pool, &mut batch).dropped;
        }
        // Some wait for the device; the others did not fit.
        assert!(dropped >= 3200 - 1024, "{dropped}");
        links.set_up("txdp0", true).unwrap();
        settle(&mut tx, &mut peer_rx);
        settle(&mut peer_tx, &mut queues[0]);
    });
}
