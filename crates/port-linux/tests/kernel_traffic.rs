//! The kernel's own TCP and UDP, with all offloads enabled, through two ports.

mod namespace;

use namespace::{Forwarder, Namespace, Queues, Seen};
use port::fault::Prng;
use port_linux::{Links, PacketPort, TapKind, TapPort};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsRawFd;
use std::time::Duration;

const UPLOAD_BYTES: usize = 20 << 20;
const DOWNLOAD_BYTES: usize = 5 << 20;
const PATIENCE: Option<Duration> = Some(Duration::from_secs(20));

fn packet_queues(device: &str) -> Queues {
    let port = PacketPort::open(device).unwrap();
    (Box::new(port.rx().unwrap()), Box::new(port.tx().unwrap()))
}

/// Bytes of which no lost, duplicated or swapped part goes unnoticed.
fn pattern(seed: u64, bytes: usize) -> Vec<u8> {
    let mut prng = Prng::new(seed);
    (0..bytes / 8).flat_map(|_| prng.next_u64().to_ne_bytes()).collect()
}

/// Sends 20 MB up and 5 MB down over one TCP connection.
fn carry_tcp(client: &Namespace, server: &Namespace, address: &'static str) {
    let listener = server.run(move || TcpListener::bind(address).unwrap());
    let serving = server.spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.set_read_timeout(PATIENCE).unwrap();
        stream.set_write_timeout(PATIENCE).unwrap();
        let mut received = vec![0; UPLOAD_BYTES];
        stream.read_exact(&mut received).unwrap();
        stream.write_all(&pattern(2, DOWNLOAD_BYTES)).unwrap();
        received == pattern(1, UPLOAD_BYTES)
    });
    let downloaded = client.run(move || {
        let to = address.parse().unwrap();
        let mut stream = TcpStream::connect_timeout(&to, PATIENCE.unwrap()).unwrap();
        stream.set_read_timeout(PATIENCE).unwrap();
        stream.set_write_timeout(PATIENCE).unwrap();
        stream.write_all(&pattern(1, UPLOAD_BYTES)).unwrap();
        let mut received = Vec::new();
        stream.read_to_end(&mut received).unwrap();
        received == pattern(2, DOWNLOAD_BYTES)
    });
    assert!(serving.join().unwrap(), "the upload arrived changed");
    assert!(downloaded, "the download arrived changed");
}

/// One send of 10 KB, which the kernel passes in one piece and the receiver gets as ten datagrams.
fn carry_segmented_udp(client: &Namespace, server: &Namespace, address: &'static str) {
    let receiver = server.run(move || UdpSocket::bind(address).unwrap());
    receiver.set_read_timeout(PATIENCE).unwrap();
    let sent = pattern(3, 10_000);
    let to_send = sent.clone();
    client.run(move || {
        let sender = UdpSocket::bind("0.0.0.0:0").unwrap();
        let segment_bytes = 1000i32;
        // SAFETY: setsockopt() reads an integer from a local that lives until it returns.
        let rc = unsafe {
            libc::setsockopt(
                sender.as_raw_fd(),
                libc::SOL_UDP,
                libc::UDP_SEGMENT,
                (&raw const segment_bytes).cast(),
                4,
            )
        };
        assert_eq!(rc, 0);
        sender.send_to(&to_send, address).unwrap();
    });
    let mut received = Vec::<u8>::new();
    for _ in 0..10 {
        let mut datagram = [0; 2000];
        let bytes = receiver.recv(&mut datagram).unwrap();
        assert_eq!(bytes, 1000);
        received.extend(&datagram[..bytes]);
    }
    assert!(received == sent, "the datagrams arrived changed");
}

fn address(namespace: &Namespace, device: &str, host: u8) {
    namespace.ip(&format!("addr add 10.77.0.{host}/24 dev {device}"));
    namespace.ip(&format!("link set {device} up"));
    namespace.ip(&format!("-6 addr add fd77::{host}/64 dev {device} nodad"));
}

fn veth(switch: &Namespace, port: &str, host: &Namespace) {
    switch.ip(&format!("link add {port} type veth peer name tporteth0 netns {}", host.thread_id));
    switch.ip(&format!("link set {port} up"));
}

fn report(name: &str, seen: &Seen) {
    println!("{name}: {seen:?}");
    assert!(seen.partial > 0, "no frame had a partial checksum: offloads are off?");
    assert!(seen.large_tcp4 > 0 && seen.large_tcp6 > 0, "no large TCP frame was seen");
    assert!(seen.longest > 32_768, "the longest frame had {} bytes", seen.longest);
    assert_eq!(seen.sent.errors, 0, "the device refused frames");
}

#[test]
fn tcp_and_udp_cross_two_packet_ports_with_offloads_on() {
    let (Some(switch), Some(client), Some(server)) =
        (Namespace::new(), Namespace::new(), Namespace::new())
    else {
        return;
    };
    veth(&switch, "tportc", &client);
    veth(&switch, "tports", &server);
    address(&client, "tporteth0", 1);
    address(&server, "tporteth0", 2);
    let forwarder =
        switch.run(|| Forwarder::start([packet_queues("tportc"), packet_queues("tports")]));
    carry_tcp(&client, &server, "10.77.0.2:7777");
    carry_tcp(&client, &server, "[fd77::2]:7777");
    carry_segmented_udp(&client, &server, "10.77.0.2:7778");
    let seen = forwarder.stop();
    report("packet ports", &seen);
    assert!(seen.large_udp > 0, "no large UDP frame was seen");
}

#[test]
fn tcp_crosses_a_tap_port_and_a_packet_port_with_offloads_on() {
    if !namespace::has_tun() {
        return;
    }
    let (Some(switch), Some(client), Some(server)) =
        (Namespace::new(), Namespace::new(), Namespace::new())
    else {
        return;
    };
    veth(&switch, "tports", &server);
    let tap = client.run(|| {
        let tap = TapPort::open("tporttap", TapKind::Internal).unwrap();
        let mut links = Links::open().unwrap();
        links.set_mac("tporttap", "02:00:00:00:77:01".parse().unwrap()).unwrap();
        links.set_mtu("tporttap", 1500).unwrap();
        tap
    });
    address(&client, "tporttap", 1);
    address(&server, "tporteth0", 2);
    let tap_queues: Queues = (Box::new(tap.rx().unwrap()), Box::new(tap.tx().unwrap()));
    let forwarder = switch.run(move || Forwarder::start([tap_queues, packet_queues("tports")]));
    carry_tcp(&client, &server, "10.77.0.2:7777");
    carry_tcp(&client, &server, "[fd77::2]:7777");
    report("TAP port", &forwarder.stop());
}
