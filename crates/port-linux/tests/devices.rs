//! Real devices that appear, change and disappear, and frames that they carry.

mod namespace;

use namespace::Namespace;
use packet::{Batch, Checksum, Gso, GsoKind, Offload, Packet, Pool};
use port::{PortError, RxQueue, TxCounters, TxQueue};
use port_linux::{Duplex, LinkEvent, LinkMonitor, Links, PacketPort, TapKind, TapPort, Waiter};
use std::os::fd::{AsFd, AsRawFd};
use std::time::{Duration, Instant};

/// No device has this address, so frames from it are the test's.
const SOURCE: [u8; 6] = [2, 0x77, 0x6f, 0x72, 0x74, 1];

/// Brings both ends up and waits until frames pass: the kernel assigns a device its queue some time after the
/// carrier is up, and silently drops frames until then.
fn bring_up(links: &mut Links) {
    links.set_up("tport0", true).unwrap();
    links.set_up("tport1", true).unwrap();
    let mut tx = PacketPort::open("tport0").unwrap().tx().unwrap();
    let mut rx = PacketPort::open("tport1").unwrap().rx().unwrap();
    let (mut pool, mut batch) = (Pool::new(64), Batch::new());
    let start = Instant::now();
    let probe = [0x77; 60];
    while !batch.iter().any(|packet| packet.data() == probe) {
        assert!(start.elapsed() < Duration::from_secs(20), "no frame crosses the veth");
        batch.clear();
        batch.push(Packet::from_bytes(&probe));
        let _ = tx.send(&mut pool, &mut batch);
        std::thread::sleep(Duration::from_millis(5));
        rx.receive(&mut pool, &mut batch).unwrap();
    }
}

/// Waits for this many frames from [`SOURCE`]. Returns fewer only if they do not arrive in the time that a very
/// slow machine takes.
fn receive(rx: &mut dyn RxQueue, count: usize) -> Vec<Packet> {
    receive_within(Duration::from_secs(20), rx, count)
}

/// Whether a frame from [`SOURCE`] arrives, in the time that it usually takes.
fn arrives(rx: &mut dyn RxQueue) -> bool {
    !receive_within(Duration::from_millis(500), rx, 1).is_empty()
}

fn receive_within(patience: Duration, rx: &mut dyn RxQueue, count: usize) -> Vec<Packet> {
    let (mut pool, mut ours) = (Pool::new(64), Vec::new());
    let mut waiter = Waiter::new().unwrap();
    waiter.watch(rx.wake_fd().unwrap(), 0).unwrap();
    let start = Instant::now();
    while ours.len() < count && start.elapsed() < patience {
        waiter.wait(Some(Duration::from_millis(50))).unwrap();
        let mut batch = Batch::new();
        rx.receive(&mut pool, &mut batch).unwrap();
        ours.extend(batch.into_iter().filter(|p| p.data().get(6..12) == Some(&SOURCE)));
    }
    ours
}

/// Returns an IPv4 Ethernet frame with these tags and a TCP payload of `payload_bytes`, and the offset of
/// TCP.
fn tcp_frame(tags: &[[u8; 4]], payload_bytes: usize) -> (Vec<u8>, u16) {
    let mut f = vec![2, 0x77, 0, 0, 0, 9];
    f.extend(SOURCE);
    f.extend(tags.concat());
    f.extend([0x08, 0, 0x45, 0]);
    f.extend((40 + payload_bytes as u16).to_be_bytes());
    f.extend([0, 1, 0x40, 0, 64, 6, 0x25, 0, 10, 77, 0, 1, 10, 77, 0, 2]);
    let start = f.len() as u16;
    f.extend([0x12, 0x34, 0, 80, 0, 0, 0, 1, 0, 0, 0, 1, 0x50, 0x10, 1, 0, 0, 0, 0, 0]);
    f.extend((0..payload_bytes).map(|i| i as u8));
    (f, start)
}

#[test]
fn tags_checksums_and_segmentation_cross_a_veth_unchanged() {
    let Some(switch) = Namespace::new() else { return };
    switch.ip("link add tport0 type veth peer name tport1");
    switch.run(|| {
        bring_up(&mut Links::open().unwrap());
        let port0 = PacketPort::open("tport0").unwrap();
        let (mut echo, mut tx) = (port0.rx().unwrap(), port0.tx().unwrap());
        let port1 = PacketPort::open("tport1").unwrap();
        let mut rx = port1.rx().unwrap();
        let mut pool = Pool::new(64);
        let (customer, service, priority) =
            ([0x81, 0, 0x20, 5], [0x88, 0xa8, 0, 9], [0x81, 0, 0xe0, 0]);
        let tags: [&[[u8; 4]]; 5] =
            [&[], &[customer], &[service], &[service, customer], &[priority]];
        for tags in tags {
            for (partial, large) in [(false, false), (true, false), (true, true)] {
                let (bytes, _) = tcp_frame(tags, if large { 4000 } else { 100 });
                let offload = Offload {
                    checksum: if partial { Checksum::Partial } else { Checksum::Unverified },
                    gso: large.then_some(Gso {
                        kind: GsoKind::TcpV4,
                        segment_bytes: 1400,
                        ecn: false,
                    }),
                };
                let mut batch = Batch::new();
                let mut packet = Packet::from_bytes(&bytes);
                packet.offload = offload;
                batch.push(packet);
                let sent = tx.send(&mut pool, &mut batch);
                assert_eq!((sent.packets, sent.errors), (1, 0), "{tags:x?} {offload:?}");
                assert_eq!(sent.bytes, bytes.len() as u64);
                let arrived = receive(&mut rx, 1);
                assert_eq!(arrived.len(), 1, "{tags:x?} {offload:?}");
                assert_eq!(arrived[0].data(), bytes, "{tags:x?} {offload:?}");
                assert_eq!(arrived[0].offload.gso, offload.gso, "{tags:x?}");
                if partial {
                    assert_eq!(arrived[0].offload.checksum, offload.checksum, "{tags:x?}");
                }
            }
        }
        // The receive queue does not get the frames that the transmit queue of its port sent.
        assert!(!arrives(&mut echo));
        assert_eq!(port1.rx_drops(), Default::default());
    });
}

/// Sends TCP segments in one batch. Returns what the queue counted, the segments, and the frames that arrived.
fn send_segments(tx: &mut dyn TxQueue, rx: &mut dyn RxQueue) -> (TxCounters, [Vec<Vec<u8>>; 2]) {
    let (bytes, _) = tcp_frame(&[], 5000);
    let mut large = Packet::from_bytes(&bytes);
    large.offload.gso = Some(Gso { kind: GsoKind::TcpV4, segment_bytes: 1400, ecn: false });
    let (mut pool, mut batch) = (Pool::new(64), Batch::new());
    assert!(port::offload::segment(&large, &mut pool, |mut piece| {
        piece.offload = Offload::default();
        batch.push(piece);
    }));
    let segments = batch.iter().map(|packet| packet.data().to_vec()).collect();
    let sent = tx.send(&mut pool, &mut batch);
    let (mut arrived, mut cut) = (receive(rx, 1), Vec::new());
    if sent.errors == 0 {
        assert_eq!(arrived.len(), 1);
        assert_eq!(arrived[0].len(), bytes.len());
        assert_eq!(arrived[0].offload.gso, large.offload.gso);
    }
    for packet in arrived.drain(..) {
        assert!(port::offload::segment(&packet, &mut pool, |piece| cut.push(piece.data().to_vec())));
    }
    (sent, [segments, cut])
}

#[test]
fn segments_leave_as_one_large_frame() {
    let Some(switch) = Namespace::new() else { return };
    switch.ip("link add tport0 type veth peer name tport1");
    switch.run(|| {
        let mut links = Links::open().unwrap();
        bring_up(&mut links);
        let mut tx = PacketPort::open("tport0").unwrap().tx().unwrap();
        let mut rx = PacketPort::open("tport1").unwrap().rx().unwrap();
        let (sent, [segments, cut]) = send_segments(&mut tx, &mut rx);
        assert_eq!(sent, TxCounters { packets: 4, bytes: 5000 + 4 * 54, ..TxCounters::default() });
        assert_eq!(cut, segments);
        // Segments that exceed the MTU are refused, as they are alone; the last one is shorter.
        links.set_mtu("tport0", 1439).unwrap();
        let (sent, [segments, cut]) = send_segments(&mut tx, &mut rx);
        assert_eq!((sent.packets, sent.errors), (1, 3));
        assert_eq!(cut, segments[3..]);
        links.set_mtu("tport0", 1440).unwrap();
        let (sent, [segments, cut]) = send_segments(&mut tx, &mut rx);
        assert_eq!((sent.packets, sent.errors), (4, 0));
        assert_eq!(cut, segments);
        if namespace::has_tun() {
            let tap = TapPort::open("tporttap", TapKind::Tap).unwrap();
            links.set_up("tporttap", true).unwrap();
            let mut rx = PacketPort::open("tporttap").unwrap().rx().unwrap();
            let (sent, [segments, cut]) = send_segments(&mut tap.tx().unwrap(), &mut rx);
            assert_eq!((sent.packets, sent.bytes), (4, 5000 + 4 * 54));
            assert_eq!(cut, segments);
        }
    });
}

#[test]
fn bad_frames_are_counted_and_a_whole_batch_goes_round_them() {
    let Some(switch) = Namespace::new() else { return };
    switch.ip("link add tport0 type veth peer name tport1");
    switch.run(|| {
        bring_up(&mut Links::open().unwrap());
        let mut tx = PacketPort::open("tport0").unwrap().tx().unwrap();
        let mut rx = PacketPort::open("tport1").unwrap().rx().unwrap();
        let mut pool = Pool::new(64);
        let mut batch = Batch::new();
        for i in 0..32 {
            let mut packet = Packet::from_bytes(&tcp_frame(&[], 100).0);
            match i {
                3 => packet = Packet::from_bytes(&[]),
                7 => packet = Packet::from_bytes(&[1, 2, 3]),
                // Longer than the MTU and without segmentation.
                17 => packet = Packet::from_bytes(&tcp_frame(&[], 9000).0),
                _ => {}
            }
            batch.push(packet);
        }
        let sent = tx.send(&mut pool, &mut batch);
        assert_eq!((sent.packets, sent.errors, sent.dropped), (29, 3, 0));
        assert!(batch.is_empty());
        assert_eq!(receive(&mut rx, 29).len(), 29);
    });
}

#[test]
fn frames_that_exceed_the_receive_queue_are_counted() {
    const FRAMES: u64 = 60_000;
    let Some(switch) = Namespace::new() else { return };
    switch.ip("link add tport0 type veth peer name tport1");
    switch.run(|| {
        bring_up(&mut Links::open().unwrap());
        let mut tx = PacketPort::open("tport0").unwrap().tx().unwrap();
        let port = PacketPort::open("tport1").unwrap();
        let mut rx = port.rx().unwrap();
        let (mut pool, mut batch) = (Pool::new(64), Batch::new());
        let mut sent = 0;
        while sent < FRAMES {
            while !batch.is_full() {
                batch.push(Packet::from_bytes(&tcp_frame(&[], 1400).0));
            }
            sent += tx.send(&mut pool, &mut batch).packets;
        }
        // On a busy machine it takes a while to read what the queue holds. The time is read before the queue,
        // so that a pause of the thread between the two ends nothing.
        let (mut received, mut last) = (0, Instant::now());
        loop {
            let is_late = last.elapsed() >= Duration::from_millis(500);
            rx.receive(&mut pool, &mut batch).unwrap();
            if !batch.is_empty() {
                last = Instant::now();
            } else if is_late {
                break;
            }
            let is_ours = |packet: &Packet| packet.data().get(6..12) == Some(&SOURCE);
            received += batch.drain(..).filter(is_ours).count() as u64;
        }
        let drops = port.rx_drops();
        let lost = sent - received;
        // The drops may include a few frames of the kernel's IPv6.
        assert!(received > 0 && lost > 0, "{received} of {sent} received");
        assert!((lost..lost + 100).contains(&drops.queue_full), "{drops:?}, {lost} lost");
        assert_eq!(drops.total(), drops.queue_full);
        // The counter of the kernel restarts with each reading, but the sum does not.
        assert_eq!(port.rx_drops(), drops);
    });
}

#[test]
fn a_device_that_goes_down_comes_back_and_one_that_is_removed_is_gone() {
    let Some(switch) = Namespace::new() else { return };
    switch.ip("link add tport0 type veth peer name tport1");
    switch.run(|| {
        // Opened while the device is down.
        let port = PacketPort::open("tport1").unwrap();
        let mut rx = port.rx().unwrap();
        let mut tx = PacketPort::open("tport0").unwrap().tx().unwrap();
        let mut links = Links::open().unwrap();
        let (mut pool, mut batch) = (Pool::new(8), Batch::new());
        for _ in 0..2 {
            rx.receive(&mut pool, &mut batch).unwrap();
            batch.push(Packet::from_bytes(&tcp_frame(&[], 10).0));
            assert_eq!(tx.send(&mut pool, &mut batch).errors, 1);
            bring_up(&mut links);
            batch.push(Packet::from_bytes(&tcp_frame(&[], 10).0));
            assert_eq!(tx.send(&mut pool, &mut batch).packets, 1);
            assert_eq!(receive(&mut rx, 1).len(), 1);
            links.set_up("tport0", false).unwrap();
            links.set_up("tport1", false).unwrap();
        }
        let deleted = std::process::Command::new("ip").args(["link", "del", "tport1"]).status();
        assert!(deleted.unwrap().success());
        let end = rx.receive(&mut pool, &mut batch).unwrap_err();
        assert!(matches!(end, PortError::Gone { .. }), "{end}");
        batch.push(Packet::from_bytes(&tcp_frame(&[], 10).0));
        assert_eq!(tx.send(&mut pool, &mut batch).errors, 1);
        assert!(matches!(PacketPort::open("tport1"), Err(PortError::Gone { .. })));
        let lo = PacketPort::open("lo").unwrap_err().to_string();
        assert_eq!(lo, "lo: not an Ethernet device; attach one that is");
    });
}

#[test]
fn taps_persist_or_vanish_by_kind() {
    if !namespace::has_tun() {
        return;
    }
    let Some(switch) = Namespace::new() else { return };
    switch.ip("link add tport0 type veth peer name tport1");
    switch.run(|| {
        let mut links = Links::open().unwrap();
        let internal = TapPort::open("tportbr", TapKind::Internal).unwrap();
        let busy = TapPort::open("tportbr", TapKind::Internal).unwrap_err().to_string();
        assert_eq!(busy, "tportbr: the TAP device is in use by another program");
        drop(internal);
        links.by_name("tportbr").unwrap();
        let internal = TapPort::open("tportbr", TapKind::Internal).unwrap();
        let (mut rx, mut tx) = (internal.rx().unwrap(), internal.tx().unwrap());
        let info = links.by_name("tportbr").unwrap();
        assert_eq!(info.driver().unwrap().name, "tun");
        assert!(!info.admin_up);
        // Down: frames are dropped, without an error.
        let (mut pool, mut batch) = (Pool::new(8), Batch::new());
        batch.push(Packet::from_bytes(&tcp_frame(&[], 10).0));
        assert_eq!(tx.send(&mut pool, &mut batch).dropped, 1);
        rx.receive(&mut pool, &mut batch).unwrap();
        links.set_up("tportbr", true).unwrap();
        batch.push(Packet::from_bytes(&tcp_frame(&[], 10).0));
        assert_eq!(tx.send(&mut pool, &mut batch).packets, 1);
        assert_eq!(links.by_name("tportbr").unwrap().statistics.rx_packets, 1);
        internal.remove().unwrap();
        drop((rx, tx));
        assert!(matches!(links.by_name("tportbr"), Err(PortError::Gone { .. })));

        let tap = TapPort::open("tporttap", TapKind::Tap).unwrap();
        let mut rx = tap.rx().unwrap();
        drop(tap);
        links.by_name("tporttap").unwrap();
        let deleted = std::process::Command::new("ip").args(["link", "del", "tporttap"]).status();
        assert!(deleted.unwrap().success());
        let end = rx.receive(&mut pool, &mut batch).unwrap_err();
        assert!(matches!(end, PortError::Gone { .. }), "{end}");
        drop(TapPort::open("tporttap", TapKind::Tap).unwrap());
        assert!(links.by_name("tporttap").is_err());

        let wrong = TapPort::open("tport0", TapKind::Tap).unwrap_err().to_string();
        assert_eq!(wrong, "tport0: a device of this name exists and is not a TAP device");
    });
}

#[test]
fn facts_and_settings_of_a_device() {
    let Some(switch) = Namespace::new() else { return };
    switch.ip("link add tport0 type veth peer name tport1");
    switch.run(|| {
        let mut links = Links::open().unwrap();
        let mac = "02:77:00:00:00:42".parse().unwrap();
        links.set_mac("tport0", mac).unwrap();
        links.set_mtu("tport0", 1400).unwrap();
        links.set_up("tport0", true).unwrap();
        let before = links.by_name("tport0").unwrap();
        assert_eq!((before.mac, before.mtu), (mac, 1400));
        assert!(before.is_ethernet && before.admin_up && !before.carrier);
        assert_eq!(before.driver().unwrap().name, "veth");
        assert_eq!(before.speed_and_duplex(), (Some(10_000), Some(Duplex::Full)));
        bring_up(&mut links);
        assert!(links.by_name("tport0").unwrap().carrier);

        let refused = links.set_mtu("tport0", 70_000).unwrap_err().to_string();
        assert!(refused.starts_with("tport0: could not set the MTU: "), "{refused}");

        let mut tx = PacketPort::open("tport0").unwrap().tx().unwrap();
        let (mut pool, mut batch) = (Pool::new(8), Batch::new());
        let at_start = links.by_name("tport1").unwrap().statistics;
        batch.push(Packet::from_bytes(&tcp_frame(&[], 100).0));
        assert_eq!(tx.send(&mut pool, &mut batch).packets, 1);
        let now = links.by_name("tport1").unwrap().statistics;
        assert!(now.rx_packets > at_start.rx_packets);
        assert!(now.rx_bytes >= at_start.rx_bytes + 154);
        assert_eq!(now.seen_from_switch().tx_packets, now.rx_packets);
    });
}

#[test]
fn the_monitor_tells_what_happened_also_when_announcements_were_lost() {
    let Some(switch) = Namespace::new() else { return };
    let monitor = switch.run(|| {
        let mut monitor = LinkMonitor::open().unwrap();
        let first = monitor.events().unwrap();
        assert!(first.iter().any(|e| matches!(e, LinkEvent::Appeared(l) if l.name == "lo")));
        monitor
    });
    switch.ip("link add tport0 type veth peer name tport1");
    switch.ip("link set tport0 name tport2");
    let mut monitor = switch.run(move || {
        let mut monitor = monitor;
        let mut waiter = Waiter::new().unwrap();
        waiter.watch(monitor.as_fd().as_raw_fd(), 5).unwrap();
        assert_eq!(waiter.wait(None).unwrap().ready, [5]);
        let events = monitor.events().unwrap();
        let names = |events: &[LinkEvent]| {
            let each = events.iter().filter_map(|event| match event {
                LinkEvent::Appeared(link) => Some(format!("+{}", link.name)),
                LinkEvent::Vanished { name, .. } => Some(format!("-{name}")),
                LinkEvent::Renamed { was, .. } => Some(format!("{was} has another name")),
                LinkEvent::Changed(_) => None,
            });
            let mut names: Vec<_> = each.collect();
            names.sort();
            names
        };
        assert_eq!(names(&events), ["+tport0", "+tport1", "+tport2", "tport0 has another name"]);
        assert_eq!(monitor.events().unwrap(), []);

        // More changes than fit into the socket, without a reader.
        let mut links = Links::open().unwrap();
        for i in 0..2000 {
            links.set_mtu("tport2", 1400 + i % 2).unwrap();
        }
        monitor
    });
    switch.ip("link del tport2");
    switch.ip("link add tport3 type veth peer name tport4");
    switch.run(move || {
        let events = monitor.events().unwrap();
        let changes = events.iter().filter(|e| matches!(e, LinkEvent::Changed(_))).count();
        assert!(changes < 2000, "nothing was lost, so this tested nothing");
        for (name, appeared) in
            [("tport1", false), ("tport2", false), ("tport3", true), ("tport4", true)]
        {
            let found = events.iter().any(|event| match event {
                LinkEvent::Appeared(link) => appeared && link.name == name,
                LinkEvent::Vanished { name: gone, .. } => !appeared && gone == name,
                LinkEvent::Changed(_) | LinkEvent::Renamed { .. } => false,
            });
            assert!(found, "{name}");
        }
    });
}
