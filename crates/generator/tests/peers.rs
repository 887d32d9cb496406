//! Real peers, through AF_PACKET and veth in a network namespace: nginx answers the generator's clients, wrk
//! sends requests to its servers. tshark checks a conversation between both of its sides, over a bad network
//! too.

mod namespace;

use base::{Instant, MacAddr};
use generator::{Close, Host, HostConfig, Profile, Role};
use namespace::{inside, ip};
use packet::{Batch, Pool};
use port::fault::{FaultRates, FaultyTx, Prng};
use port::{MemoryPort, PcapTx, RxQueue, TxQueue};
use port_linux::PacketPort;
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// How long a test waits for an expected result.
const PATIENCE: Duration = Duration::from_secs(25);

/// A process that ends with the test.
struct Peer(Child);

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns whether a program is installed, and prints why the test is skipped otherwise.
fn installed(program: &str, name: &str) -> bool {
    let found = ["/usr/sbin", "/usr/bin", "/sbin", "/bin"]
        .iter()
        .any(|folder| Path::new(folder).join(program).exists());
    if !found {
        let _ = writeln!(std::io::stderr(), "SKIPPED: {name}: {program} is not installed");
    }
    found
}

/// A cable with the kernel at 10.89.0.1 on one end and `tggen0` on the other.
fn cable() -> PacketPort {
    ip("link add tggen0 type veth peer name tggen1");
    ip("addr add 10.89.0.1/24 dev tggen1");
    for device in ["tggen0", "tggen1", "lo"] {
        ip(&format!("link set {device} up"));
    }
    PacketPort::open("tggen0").unwrap()
}

fn host(role: Role, profile: &Profile) -> Host {
    let config = HostConfig {
        role,
        mac: MacAddr([2, 0x74, 0x67, 0x65, 0x6e, 2]),
        vlan: None,
        gateway: None,
        profile: profile.clone(),
        seed: 3,
        capacity: 2000,
    };
    Host::new(config, Instant::ZERO).unwrap()
}

/// Drives the host at its port until `done`.
fn drive(port: &PacketPort, host: &mut Host, done: impl FnMut(&mut Host) -> bool) {
    namespace::drive((port.rx().unwrap(), port.tx().unwrap()), PATIENCE, host, done);
}

const ASK: &str = "GET / HTTP/1.1\r\nHost: 10.89.0.1\r\nConnection: close\r\n\r\n";

#[test]
fn nginx_answers_our_clients() {
    const NAME: &str = "nginx_answers_our_clients";
    if !installed("nginx", NAME) || !inside(NAME) {
        return;
    }
    let port = cable();
    let folder = std::env::temp_dir().join(format!("tggen-nginx-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let config = folder.join("nginx.conf");
    let at = folder.display();
    let text = format!(
        "daemon off; master_process off; pid {at}/pid; error_log {at}/error;\n\
         events {{ worker_connections 4096; }}\n\
         http {{ access_log off; client_body_temp_path {at}/b; proxy_temp_path {at}/p;\n\
         fastcgi_temp_path {at}/f; uwsgi_temp_path {at}/u; scgi_temp_path {at}/s;\n\
         server {{ listen 10.89.0.1:80 backlog=4096; location / {{ return 200 \"hello\"; }} }} }}\n"
    );
    std::fs::write(&config, text).unwrap();
    let nginx =
        Command::new("/usr/sbin/nginx").arg("-c").arg(&config).stderr(Stdio::null()).spawn();
    let nginx = Peer(nginx.unwrap());
    // The length of the answer, which the generator's clients must know in advance.
    let mut answer = Vec::new();
    for _ in 0..50 {
        std::thread::sleep(Duration::from_millis(100));
        if let Ok(mut stream) = std::net::TcpStream::connect("10.89.0.1:80") {
            stream.write_all(ASK.as_bytes()).unwrap();
            std::io::Read::read_to_end(&mut stream, &mut answer).unwrap();
            break;
        }
    }
    assert!(answer.ends_with(b"hello"), "{}", String::from_utf8_lossy(&answer));
    let profile = Profile {
        request_text: Some(ASK.to_owned()),
        request_bytes: ASK.len() as u32,
        reply_bytes: answer.len() as u32,
        verify_payload: false,
        close: Close::ServerFin,
        connections_at_once: 100,
        clients: "10.89.0.100-10.89.0.120".parse().unwrap(),
        servers: "10.89.0.1".parse().unwrap(),
        tcp_ports: "80".parse().unwrap(),
        ..Profile::default()
    };
    let mut client = host(Role::Client, &profile);
    client.stop_opening_after(2000);
    drive(&port, &mut client, |client| client.statistics().opened == 2000 && client.alive() == 0);
    drop(nginx);
    let _ = std::fs::remove_dir_all(&folder);
    let s = client.statistics();
    assert_eq!((s.completed, s.failed.total()), (2000, 0), "{:?}", s.failed);
    assert_eq!(s.rx_payload_bytes, 2000 * answer.len() as u64);
    assert_eq!((s.rx_malformed, s.rx_bad_checksum, s.rx_unacceptable), (0, 0, 0));
}

#[test]
fn wrk_asks_our_servers() {
    const NAME: &str = "wrk_asks_our_servers";
    if !installed("wrk", NAME) || !inside(NAME) {
        return;
    }
    let port = cable();
    let ask = "GET / HTTP/1.1\r\nHost: 10.89.0.50:8080\r\nConnection: close\r\n\r\n";
    let reply = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello";
    let profile = Profile {
        request_bytes: ask.len() as u32,
        reply_text: Some(reply.to_owned()),
        reply_bytes: reply.len() as u32,
        verify_payload: false,
        close: Close::ServerFin,
        time_wait_ms: 20,
        clients: "10.89.0.1".parse().unwrap(),
        servers: "10.89.0.50".parse().unwrap(),
        ..Profile::default()
    };
    let mut wrk = Command::new("/usr/bin/wrk")
        .args(["-t1", "-c8", "-d2s", "-H", "Connection: close", "http://10.89.0.50:8080/"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut server = host(Role::Server, &profile);
    drive(&port, &mut server, |_| wrk.try_wait().unwrap().is_some());
    let mut said = String::new();
    std::io::Read::read_to_string(&mut wrk.stdout.take().unwrap(), &mut said).unwrap();
    let requests = said.lines().find_map(|line| line.trim().split_once(" requests in "));
    let requests: u64 = requests.unwrap().0.parse().unwrap();
    assert!(requests > 100, "{said}");
    assert!(!said.contains("Socket errors") && !said.contains("Non-2xx"), "{said}");
    let s = server.statistics();
    // wrk stops in the middle of its last requests.
    let ended = s.completed + server.alive() as u64;
    assert!((requests..=requests + 16).contains(&ended), "{requests} asked, {ended} answered");
    // Its eight connections at the end, and one that it opens and closes before it begins.
    assert!(s.failed.total() <= 9, "{:?}", s.failed);
    assert_eq!((s.rx_malformed, s.rx_bad_checksum), (0, 0));
}

/// Writes the conversation of both sides over this network to a file. Returns the number of completed
/// connections.
fn conversation(profile: &Profile, rates: FaultRates, file: &Path) -> u64 {
    let (near, far) = MemoryPort::pair(100_000);
    let mut out = PcapTx::create(file, || Duration::ZERO).unwrap();
    let profile = Profile { connections_at_once: 50, initial_rto_ms: 200, ..profile.clone() };
    let mut client = host(Role::Client, &profile);
    let mut server = host(Role::Server, &profile);
    client.stop_opening_after(300);
    let mut ends = [(&mut client, &near, 1), (&mut server, &far, 2)].map(|(host, port, seed)| {
        (host, port.rx(), FaultyTx::new(port.tx(), rates, Prng::new(seed)))
    });
    let (mut pool, mut batch) = (Pool::new(256), Batch::new());
    for step in 1..2_000_000u64 {
        let now = Instant::from_nanos(step * 50_000);
        for (host, rx, tx) in &mut ends {
            rx.receive(&mut pool, &mut batch).unwrap();
            host.receive(&mut pool, &mut batch, now);
            host.tick(now);
            host.transmit(&mut pool, &mut batch, now);
            for packet in &batch {
                out.record(Duration::from_nanos(now.as_nanos()), packet.data()).unwrap();
            }
            let _ = tx.send(&mut pool, &mut batch);
        }
        if ends[0].0.statistics().opened == 300 && ends.iter().all(|end| end.0.alive() == 0) {
            break;
        }
    }
    ends[0].0.statistics().completed
}

#[test]
fn tshark_reads_what_we_say_without_complaint() {
    const NAME: &str = "tshark_reads_what_we_say_without_complaint";
    if !installed("tshark", NAME) {
        return;
    }
    let file = std::env::temp_dir().join(format!("tggen-{}.pcap", std::process::id()));
    let bad =
        FaultRates { lose_ppm: 20_000, duplicate_ppm: 20_000, reorder_ppm: 50_000, corrupt_ppm: 0 };
    let v6 = |profile: Profile| Profile {
        clients: "fd89::100-fd89::120".parse().unwrap(),
        servers: "fd89::1-fd89::3".parse().unwrap(),
        ..profile
    };
    // Ports for which tshark expects no known protocol, because the payload is of none.
    let short = || Profile {
        time_wait_ms: 50,
        tcp_ports: "7777".parse().unwrap(),
        udp_ports: "7778".parse().unwrap(),
        client_ports: "50000-50100".parse().unwrap(),
        ..Profile::default()
    };
    let big = || Profile { messages: 3, reply_bytes: 20_000, window_bytes: 262_144, ..short() };
    let udp = || Profile { udp_percent: 100.0, messages: 4, ..short() };
    // The severities that tshark may not report: over a good network not even notes.
    let (warn, error) = (0x60_0000, 0x80_0000);
    for (profile, rates, severity) in [
        (short(), FaultRates::default(), warn),
        (v6(short()), FaultRates::default(), warn),
        (big(), FaultRates::default(), warn),
        (udp(), FaultRates::default(), warn),
        (Profile { close: Close::ServerFin, ..big() }, bad, error),
        (v6(big()), bad, error),
        (short(), bad, error),
        (udp(), bad, error),
    ] {
        let completed = conversation(&profile, rates, &file);
        assert!(completed >= 290, "{completed} of 300 completed over {rates:?}");
        let filter = format!(
            "_ws.malformed || _ws.expert.severity >= {severity} || ip.checksum.status == 0 || \
             tcp.checksum.status == 0 || udp.checksum.status == 0"
        );
        let out = Command::new("/usr/bin/tshark")
            .args(["-o", "tcp.check_checksum:TRUE", "-o", "ip.check_checksum:TRUE"])
            .args(["-o", "udp.check_checksum:TRUE", "-n", "-Y", &filter, "-r"])
            .arg(&file)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&out.stdout);
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        let first: Vec<_> = said.lines().take(5).collect();
        assert!(said.is_empty(), "{} complaints over {rates:?}: {first:#?}", said.lines().count());
    }
    let _ = std::fs::remove_file(&file);
}
