//! The real DPDK, without huge pages, with devices that need no hardware. All tests share the one DPDK of the
//! process.

mod guests;

use super::*;
use packet::{Batch, Checksum, Gso, GsoKind, Packet, Pool};
use port::pcap::{Capture, PcapTx};
use port::{PortError, RxQueue, TxQueue};
use port_vhost::VhostRole;
use std::path::Path;
use std::time::Duration;
use wire::builder::PacketBuilder;

/// Starts DPDK, or prints why the test `name` is skipped.
pub(crate) fn dpdk(name: &str) -> bool {
    let extra = Some("--no-huge -m 512 --no-pci".to_owned());
    match start(&EalOptions { extra, ..EalOptions::default() }, 0) {
        Ok(version) => {
            assert!(version.starts_with("DPDK "), "{version}");
            true
        }
        Err(error) => {
            println!("\nSKIPPED: {name}: {error}");
            false
        }
    }
}

pub(crate) fn open(name: &str, devargs: &str) -> DpdkPort {
    DpdkPort::open(name, &DpdkConfig::new(devargs), 1).unwrap()
}

fn refusal(config: &DpdkConfig) -> String {
    match DpdkPort::open("p", config, 1) {
        Err(PortError::Invalid { reason, .. }) => reason,
        other => panic!("{other:?}"),
    }
}

fn udp(payload: usize) -> Vec<u8> {
    let mac = base::MacAddr([2, 0, 0, 0, 0, 1]);
    let there = PacketBuilder::eth(mac, mac).ipv4([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
    there.udp(1, 2).payload(vec![7; payload]).build()
}

fn receive(rx: &mut dyn RxQueue, pool: &mut Pool) -> Vec<Packet> {
    let mut all = Vec::new();
    loop {
        let mut batch = Batch::new();
        rx.receive(pool, &mut batch).unwrap();
        if batch.is_empty() {
            return all;
        }
        all.extend(batch);
    }
}

fn send(tx: &mut dyn TxQueue, pool: &mut Pool, packets: Vec<Packet>) -> port::TxCounters {
    let mut batch: Batch = packets.into_iter().collect();
    let counters = tx.send(pool, &mut batch);
    assert!(batch.is_empty());
    counters
}

fn write(path: &Path, frames: &[Vec<u8>]) {
    let mut file = PcapTx::create(path, || Duration::ZERO).unwrap();
    frames.iter().for_each(|frame| file.record(Duration::ZERO, frame).unwrap());
}

#[test]
fn frames_are_read_from_a_file_and_written_to_another() {
    if !dpdk("frames_are_read_from_a_file_and_written_to_another") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (from, to) = (folder.path().join("from.pcap"), folder.path().join("to.pcap"));
    // The longest needs several of the device's buffers.
    let frames: Vec<_> = [18, 19, 100, 1472, 8000].map(udp).into();
    write(&from, &frames);
    let args = format!("net_pcap_a,rx_pcap={},tx_pcap={}", from.display(), to.display());
    let config = DpdkConfig { mtu: None, ..DpdkConfig::new(args) };
    let port = DpdkPort::open("files", &config, 1).unwrap();
    let facts = port.facts().unwrap();
    assert_eq!((facts.driver.as_str(), facts.bus.as_str()), ("net_pcap", "vdev"));
    assert_eq!((facts.rx_queues, facts.tx_queues, facts.link_up), (1, 1, true));
    let (mut rx, mut tx, mut pool) = (port.rx(0).unwrap(), port.tx().unwrap(), Pool::new(64));
    assert!(port.rx(0).is_err() && port.rx(1).is_err());
    assert_eq!(rx.wake_fd(), None);
    let got = receive(&mut rx, &mut pool);
    assert_eq!(got.iter().map(|p| p.data().to_vec()).collect::<Vec<_>>(), frames);
    let sent = send(&mut tx, &mut pool, got);
    // The last is longer than the MTU.
    assert_eq!((sent.packets, sent.errors, sent.dropped), (4, 1, 0));
    assert_eq!(sent.bytes, frames[..4].iter().map(|f| f.len() as u64).sum::<u64>());
    let counted = port.statistics().unwrap();
    assert_eq!((counted.rx_packets, counted.tx_packets, counted.tx_errors), (5, 4, 1));
    drop((rx, tx, port));
    let written = Capture::open(&to).unwrap();
    let written: Vec<_> = (0..4).map(|i| written.frame(i).unwrap().1.to_vec()).collect();
    assert_eq!(written, frames[..4]);
    // After closing, it can be opened again.
    open("again", &config.devargs);
}

#[test]
fn what_the_device_cannot_do_is_done_in_software() {
    if !dpdk("what_the_device_cannot_do_is_done_in_software") {
        return;
    }
    // Packets sent into a ring are received from it.
    let port = open("ring", "net_ring_tidegate");
    let (mut rx, mut tx, mut pool) = (port.rx(0).unwrap(), port.tx().unwrap(), Pool::new(64));
    let facts = port.facts().unwrap();
    assert!(!facts.sends_checksums && !facts.cuts_tcp);

    let whole = udp(100);
    let mut partial = Packet::from_bytes(&whole);
    let pseudo = wire::checksum::combine(
        wire::checksum::sum(&whole[26..34]),
        wire::checksum::combine(17, 108),
    );
    partial.data_mut()[40..42].copy_from_slice(&pseudo.to_be_bytes());
    partial.offload.checksum = Checksum::Partial;

    let mut large = Packet::from_bytes(&udp(5000));
    large.offload.checksum = Checksum::Partial;
    large.offload.gso = Some(Gso { kind: GsoKind::UdpL4, segment_bytes: 1400, ecn: false });
    let mut lying = Packet::from_bytes(&[0; 60]);
    lying.offload.gso = large.offload.gso;
    let plain = Packet::from_bytes(&udp(18));
    let sent = send(&mut tx, &mut pool, vec![plain, partial, large, lying]);
    assert_eq!((sent.packets, sent.errors, sent.dropped), (6, 1, 0));

    let got = receive(&mut rx, &mut pool);
    let lengths: Vec<_> = got.iter().map(Packet::len).collect();
    assert_eq!(lengths, [60, 142, 1442, 1442, 1442, 842]);
    assert_eq!(got[1].data(), whole);
    for segment in &got[2..] {
        assert_eq!(
            wire::checksum::verify_ipv4_header(&segment.data()[14..34]),
            wire::checksum::Verdict::Good
        );
    }
}

#[test]
fn a_full_ring_drops_and_counts() {
    if !dpdk("a_full_ring_drops_and_counts") {
        return;
    }
    let port = open("full", "net_ring_full");
    let (mut tx, mut pool) = (port.tx().unwrap(), Pool::new(64));
    let mut total = port::TxCounters::default();
    for _ in 0..100 {
        let burst = (0..32).map(|_| Packet::from_bytes(&[1; 60])).collect();
        total += send(&mut tx, &mut pool, burst);
    }
    assert_eq!(total.packets + total.dropped, 3200);
    assert!(total.dropped > 0, "{total:?}");
    assert_eq!(port.statistics().unwrap().tx_dropped, total.dropped);
    port.set_up(false).unwrap();
    assert!(!port.facts().unwrap().link_up);
    let down = send(&mut tx, &mut pool, vec![Packet::from_bytes(&[1; 60])]);
    assert_eq!((down.packets, down.dropped), (0, 1));
}

#[test]
fn queues_are_as_many_as_asked_or_as_there_are() {
    if !dpdk("queues_are_as_many_as_asked_or_as_there_are") {
        return;
    }
    let config = DpdkConfig { rx_queues: 3, ..DpdkConfig::new("net_null_q") };
    let mut port = DpdkPort::open("null", &config, 2).unwrap();
    let facts = port.facts().unwrap();
    assert_eq!((facts.rx_queues, facts.tx_queues), (3, 2));
    let threads: Vec<_> = (0..3)
        .map(|queue| {
            let (mut rx, mut tx) = (port.rx(queue).unwrap(), port.tx().unwrap());
            std::thread::spawn(move || {
                let (mut pool, mut sent) = (Pool::new(64), 0);
                for _ in 0..1000 {
                    let mut batch = Batch::new();
                    rx.receive(&mut pool, &mut batch).unwrap();
                    sent += tx.send(&mut pool, &mut batch).packets;
                }
                sent
            })
        })
        .collect();
    assert!(port.set_tx_queues(1).is_err(), "queues are in use");
    let sent: u64 = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
    assert_eq!(sent, 96_000);
    assert_eq!(port.statistics().unwrap().tx_packets, sent);
    port.set_tx_queues(5).unwrap();
    assert_eq!((port.facts().unwrap().tx_queues, port.rx_queues()), (5, 3));
    assert!(port.rx(2).is_ok());

    let config = DpdkConfig { rx_queues: 99, ..DpdkConfig::new("net_ring_q") };
    let facts = DpdkPort::open("ring", &config, 99).unwrap().facts().unwrap();
    assert_eq!((facts.rx_queues, facts.tx_queues), (facts.max_rx_queues, facts.max_tx_queues));
}

#[test]
fn what_cannot_be_opened_is_told_in_words() {
    if !dpdk("what_cannot_be_opened_is_told_in_words") {
        return;
    }
    let cases = [
        ("", "'p' is missing 'options:dpdk-devargs'"),
        ("net_nosuch0", "Error attaching device 'net_nosuch0' to DPDK"),
        ("0000:ff:1f.7", "Error attaching device '0000:ff:1f.7' to DPDK"),
        ("net_pcap9,rx_pcap=/nosuch", "Error attaching device"),
        ("net_af_packet9,iface=nosuch0", "Error attaching device"),
        ("net_pcap9,nonsense=1", "Error attaching device"),
        ("class=eth,mac=02:00:00:00:00:99", "Error attaching device"),
        ("class=eth,mac=x", "Invalid argument"),
        ("nul\0l", "zero byte"),
    ];
    for (devargs, expect) in cases {
        let reason = refusal(&DpdkConfig::new(devargs));
        assert!(reason.contains(expect), "{devargs}: {reason}");
    }
    let taken = open("first", "net_ring_taken");
    let reason = refusal(&DpdkConfig::new("net_ring_taken"));
    assert!(reason.contains("which is already in use by 'first'"), "{reason}");
    let mac = taken.facts().unwrap().mac;
    if mac != base::MacAddr::ZERO {
        let reason = refusal(&DpdkConfig::new(format!("class=eth,mac={mac}")));
        assert!(reason.contains("already in use by"), "{reason}");
    }
    let long = DpdkConfig { mtu: Some(70_000), ..DpdkConfig::new("net_null_mtu") };
    let reason = refusal(&long);
    assert!(reason.contains("an MTU of 70000 bytes is not one of its own"), "{reason}");
    // The device attached for it was detached again.
    open("short", "net_null_mtu");
}

#[test]
fn a_device_that_waits_for_somebody_keeps_nobody_else_waiting() {
    if !dpdk("a_device_that_waits_for_somebody_keeps_nobody_else_waiting") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("guest.sock");
    let args = format!("net_virtio_user_waits,path={},server=1", path.display());
    let config = DpdkConfig::new(args.clone());
    let opened = || DpdkPort::open_or_wait("guest", &config, 1);
    let waits = || match opened() {
        Err(PortError::Invalid { reason, .. }) => {
            assert!(reason.contains("waits until another program connects to"), "{reason}");
        }
        other => panic!("{other:?}"),
    };
    waits();
    waits();
    assert!(!look_at_awaited(&[&args]), "no guest came");
    // Other devices are opened meanwhile.
    open("other", "net_ring_other");
    // When given up, it leaves no socket that blocks the next.
    assert!(!look_at_awaited(&[]) && !path.exists());
    // Nor does a killed switch.
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    waits();

    // A guest connects.
    let (far, _queues) = guests::port(&path, VhostRole::Client, 1);
    let end = std::time::Instant::now() + Duration::from_secs(10);
    while !look_at_awaited(&[&args]) {
        assert!(std::time::Instant::now() < end, "the other side does not come");
        std::thread::sleep(Duration::from_millis(20));
    }
    let port = opened().unwrap();
    assert_eq!(port.facts().unwrap().driver, "net_virtio_user");
    assert!(refusal(&config).contains("already in use by 'guest'"));
    drop((port, far));

    // An immediate failure is reported at once: the socket cannot be created there.
    let nowhere = DpdkConfig::new("net_virtio_user_nowhere,path=/nosuch/a,server=1");
    let reason = match DpdkPort::open_or_wait("nowhere", &nowhere, 1) {
        Err(PortError::Invalid { reason, .. }) => reason,
        other => panic!("{other:?}"),
    };
    assert!(reason.contains("Error attaching device"), "{reason}");
}
