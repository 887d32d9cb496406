//! The kernel's own TCP as the peer, in both roles, behind a TAP device in a network namespace. The test runs
//! itself again inside the namespace, which ends with that process.

mod namespace;

use base::{Instant, MacAddr};
use generator::{Close, Host, HostConfig, Profile, Role, Statistics};
use namespace::{inside, ip};
use port_linux::{TapKind, TapPort};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread::JoinHandle;
use std::time::Duration;

const DEVICE: &str = "tgentap0";
const PATIENCE: Duration = Duration::from_secs(20);

/// A device with the kernel at 10.88.0.1 and fd88::1 behind it.
fn device() -> TapPort {
    let tap = TapPort::open(DEVICE, TapKind::Tap).unwrap();
    ip(&format!("addr add 10.88.0.1/24 dev {DEVICE}"));
    ip(&format!("-6 addr add fd88::1/64 dev {DEVICE} nodad"));
    ip(&format!("link set {DEVICE} up"));
    ip("link set lo up");
    tap
}

fn host(role: Role, profile: &Profile) -> Host {
    let config = HostConfig {
        role,
        mac: MacAddr([2, 0x74, 0x67, 0x65, 0x6e, 1]),
        vlan: None,
        gateway: None,
        profile: profile.clone(),
        seed: 0x7467_656e,
        capacity: 1000,
    };
    Host::new(config, Instant::ZERO).unwrap()
}

/// Drives the host at its port until `done`.
fn drive(tap: &TapPort, host: &mut Host, done: impl FnMut(&mut Host) -> bool) {
    namespace::drive((tap.rx().unwrap(), tap.tx().unwrap()), PATIENCE, host, done);
}

/// Echoes everything received over `count` successive connections, and returns what each received.
fn echo(address: &str, count: usize) -> JoinHandle<Vec<Vec<u8>>> {
    let listener = TcpListener::bind(address).unwrap();
    std::thread::spawn(move || {
        let serve = |mut stream: TcpStream| {
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            let (mut all, mut piece) = (Vec::new(), [0; 4096]);
            loop {
                let bytes = stream.read(&mut piece).unwrap();
                if bytes == 0 {
                    return all;
                }
                stream.write_all(&piece[..bytes]).unwrap();
                all.extend(&piece[..bytes]);
            }
        };
        let threads: Vec<_> = (0..count)
            .map(|_| {
                let (stream, _) = listener.accept().unwrap();
                std::thread::spawn(move || serve(stream))
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

/// Opens `count` connections to the kernel and exchanges the messages; all must complete.
fn call_kernel(tap: &TapPort, v6: bool, count: usize, messages: u32, bytes: u32) -> Statistics {
    let (listen, server, clients) = match v6 {
        false => ("10.88.0.1:7000", "10.88.0.1", "10.88.0.100-10.88.0.119"),
        true => ("[fd88::1]:7000", "fd88::1", "fd88::100-fd88::113"),
    };
    let profile = Profile {
        messages,
        request_bytes: bytes,
        reply_bytes: bytes,
        connections_at_once: 50,
        time_wait_ms: 20,
        clients: clients.parse().unwrap(),
        servers: server.parse().unwrap(),
        tcp_ports: "7000".parse().unwrap(),
        window_bytes: 262_144,
        ..Profile::default()
    };
    let serving = echo(listen, count);
    let mut client = host(Role::Client, &profile);
    client.stop_opening_after(count as u64);
    drive(tap, &mut client, |client| {
        client.statistics().opened as usize == count && client.alive() == 0
    });
    let served = serving.join().unwrap();
    assert_eq!(served.len(), count);
    let stream = served[0].clone();
    assert_eq!(stream.len() as u32, messages * bytes);
    assert!(served.iter().all(|other| *other == stream), "the kernel saw different streams");
    client.statistics().clone()
}

#[test]
fn the_kernel_serves_our_clients() {
    if !inside("the_kernel_serves_our_clients") {
        return;
    }
    let tap = device();
    for v6 in [false, true] {
        for (count, messages, bytes) in [(200, 1, 20), (50, 3, 7000), (50, 1, 200_000)] {
            let s = call_kernel(&tap, v6, count, messages, bytes);
            let count = count as u64;
            assert_eq!((s.completed, s.failed.total()), (count, 0), "{:?}", s.failed);
            let stream = count * u64::from(messages * bytes);
            assert_eq!((s.rx_payload_bytes, s.acknowledged_bytes), (stream, stream));
            assert_eq!((s.rx_malformed, s.rx_bad_checksum, s.rx_unacceptable), (0, 0, 0));
            assert_eq!(s.handshake_ns.count(), count);
        }
    }
}

#[test]
fn a_closed_port_of_the_kernel_refuses() {
    if !inside("a_closed_port_of_the_kernel_refuses") {
        return;
    }
    let tap = device();
    let profile = Profile {
        connections_at_once: 20,
        clients: "10.88.0.100".parse().unwrap(),
        servers: "10.88.0.1".parse().unwrap(),
        tcp_ports: "7999".parse().unwrap(),
        ..Profile::default()
    };
    let mut client = host(Role::Client, &profile);
    client.stop_opening_after(20);
    drive(&tap, &mut client, |client| client.statistics().opened == 20 && client.alive() == 0);
    assert_eq!(client.statistics().failed.refused, 20);
}

#[test]
fn our_servers_serve_the_kernel() {
    if !inside("our_servers_serve_the_kernel") {
        return;
    }
    const COUNT: usize = 200;
    let tap = device();
    for (v6, close, reply) in [
        (false, Close::ServerFin, 20),
        (false, Close::ServerFin, 100_000),
        (false, Close::ClientFin, 1000),
        (true, Close::ServerFin, 100_000),
    ] {
        let range = if v6 { "fd88::200-fd88::202" } else { "10.88.0.200-10.88.0.202" };
        let clients = if v6 { "fd88::1" } else { "10.88.0.1" };
        let profile = Profile {
            reply_bytes: reply,
            close,
            time_wait_ms: 20,
            clients: clients.parse().unwrap(),
            servers: range.parse().unwrap(),
            // The kernel's requests do not follow the pattern.
            verify_payload: false,
            ..Profile::default()
        };
        let calling = std::thread::spawn(move || {
            let call = |index: usize| {
                let to = match v6 {
                    false => format!("10.88.0.{}:8080", 200 + index % 3),
                    true => format!("[fd88::20{}]:8080", index % 3),
                };
                let mut stream = TcpStream::connect(to).unwrap();
                stream.set_read_timeout(Some(PATIENCE)).unwrap();
                stream.write_all(&[0x42; 20]).unwrap();
                let mut all = vec![0; reply as usize];
                stream.read_exact(&mut all).unwrap();
                if close == Close::ServerFin {
                    assert_eq!(stream.read(&mut [0; 10]).unwrap(), 0, "more than the reply came");
                }
                all
            };
            let first = call(0);
            (1..COUNT).all(|index| call(index) == first)
        });
        let mut server = host(Role::Server, &profile);
        drive(&tap, &mut server, |server| {
            server.statistics().accepted as usize == COUNT && server.alive() == 0
        });
        assert!(calling.join().unwrap(), "the kernel read different replies");
        let s = server.statistics();
        assert_eq!((s.completed, s.failed.total()), (COUNT as u64, 0), "{:?}", s.failed);
        assert_eq!(s.rx_payload_bytes, 20 * COUNT as u64);
        assert_eq!(s.acknowledged_bytes, u64::from(reply) * COUNT as u64);
        assert_eq!((s.rx_malformed, s.rx_bad_checksum), (0, 0));
    }
}
