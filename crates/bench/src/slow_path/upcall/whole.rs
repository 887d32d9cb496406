//! The experiment with real hosts: a network namespace each, with the kernel's ARP and TCP, through our switch
//! in a process of its own. Times are those of a clock.

use super::UpcallArgs;
use crate::progress::Progress;
use crate::slow_path::daemon::{self, Kind, UnderTest};
use crate::slow_path::{Chart, Line, seconds};
use crate::{BenchError, Outcome};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{File, read_to_string};
use std::io::{Read, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::Barrier;
use std::thread;
use std::time::Duration;
use testbed::stock::Stock;

/// The most hosts: each is a namespace, a veth and two threads.
const HOSTS_MAX: u16 = 512;
const PORT: u16 = 5001;
/// Bytes of a transfer.
const BYTES: usize = 10_000;
/// A transfer that takes longer has failed: what a kernel's three ARP requests and SYNs take together.
const PATIENCE: Duration = Duration::from_secs(8);
/// ARP requests of hosts that look for an address, not those that confirm one. A rule for each host counts them.
const REQUESTS: &str = "arp,arp_op=1,dl_dst=ff:ff:ff:ff:ff:ff";

/// The results of the transfers of one experiment.
struct Run {
    caches: &'static str,
    done: usize,
    failed: usize,
    took_s: f64,
    arp_requests: u64,
    /// Those beyond the first of their host.
    arp_again: u64,
    syn_retransmissions: u64,
    refused: u64,
    latency: Value,
}

/// Measures our switch between real hosts.
pub fn measure(args: &UpcallArgs) -> Result<Outcome, BenchError> {
    if args.hosts > HOSTS_MAX {
        let wrong =
            format!("with --namespaces there are no more than {HOSTS_MAX} hosts: use --hosts");
        return Err(BenchError::WrongWork(wrong));
    }
    daemon::enter("bench upcall", args.json, &[Kind::Tidegate])?;
    let progress = Progress::start("hosts and transfers", 3);
    let mut switch = UnderTest::start_sleeping()?;
    switch.set_handlers(args.handlers)?;
    switch.add_rule("priority=1,actions=normal")?;
    let hosts: Vec<Host> = (0..args.hosts).map(Host::new).collect();
    for host in &hosts {
        host.build()?;
        let requests = format!("{REQUESTS},arp_spa={}", host.address());
        switch.add_rule(&format!("priority=2,{requests},actions=normal"))?;
        switch.add_device(&host.device())?;
    }
    progress.advance(1);
    let empty = run(&mut switch, &hosts, "empty")?;
    progress.advance(1);
    hosts.iter().try_for_each(|host| host.fill_cache(&hosts))?;
    let filled = run(&mut switch, &hosts, "filled")?;
    drop(progress);
    let version = switch.version()?;
    switch.stop()?;
    let runs = [empty, filled];
    let line = |run: &Run| Line { name: format!("{} caches", run.caches), points: run.points() };
    let lines: Vec<Line> = runs.iter().map(line).collect();
    let title = "Round trips of packets that took no longer";
    Chart { title, y_name: "upcalls", lines: &lines }.write(args.svg.as_deref())?;
    Ok(report(args, &version, &runs))
}

/// All hosts start a transfer at once.
fn run(switch: &mut UnderTest, hosts: &[Host], caches: &'static str) -> Result<Run, BenchError> {
    switch.forget()?;
    let (before, again) = (switch.packets_of_each(REQUESTS)?, retransmissions(hosts)?);
    let refused_before = refused(&switch.latency()?);
    // All threads of hosts, and this one, which reads the clock.
    let barrier = Barrier::new(2 * hosts.len() + 1);
    let (done, took_s) = thread::scope(|scope| {
        let (barrier, mut clients) = (&barrier, Vec::new());
        for host in hosts {
            scope.spawn(move || host.serve(barrier));
            let peer = host.peer(hosts.len());
            clients.push(scope.spawn(move || host.send(peer, barrier)));
        }
        barrier.wait();
        let begun = clock::now();
        let done = clients.into_iter().map(|client| client.join().unwrap_or(false));
        let done = done.filter(|done| *done).count();
        // Servers whose clients failed still wait for them.
        (done, seconds(begun, clock::now()))
    });
    let mut latency = switch.latency()?;
    let refused = refused_since(&mut latency, refused_before);
    if done == 0 {
        return Err(BenchError::WrongWork("no transfer was completed".into()));
    }
    let requests = since(&before, &switch.packets_of_each(REQUESTS)?);
    Ok(Run {
        caches,
        done,
        failed: hosts.len() - done,
        took_s,
        arp_requests: requests.iter().sum(),
        arp_again: beyond_the_first(&requests),
        syn_retransmissions: retransmissions(hosts)? - again,
        refused,
        latency,
    })
}

/// What each rule counted since an earlier look at the same rules.
fn since(before: &BTreeMap<String, u64>, now: &BTreeMap<String, u64>) -> Vec<u64> {
    let earlier = |rule: &String| before.get(rule).copied().unwrap_or(0);
    now.iter().map(|(rule, packets)| packets.saturating_sub(earlier(rule))).collect()
}

/// Requests beyond the first of each host.
fn beyond_the_first(requests: &[u64]) -> u64 {
    requests.iter().map(|requests| requests.saturating_sub(1)).sum()
}

/// Upcalls that were refused since the switch started: `tidegate/latency-clear` leaves their number.
fn refused(latency: &Value) -> u64 {
    latency["refused"].as_u64().unwrap_or(0)
}

/// Replaces the number of refused upcalls by that of one run, and returns it.
fn refused_since(latency: &mut Value, before: u64) -> u64 {
    let refused = refused(latency).saturating_sub(before);
    latency["refused"] = refused.into();
    refused
}

/// TCP segments that the hosts' kernels sent again.
fn retransmissions(hosts: &[Host]) -> Result<u64, BenchError> {
    let each = hosts.iter().map(|host| {
        host.inside(|| read_to_string("/proc/thread-self/net/snmp").ok())
            .flatten()
            .and_then(|text| segments_sent_again(&text))
    });
    let unreadable = || BenchError::WrongWork("/proc/thread-self/net/snmp cannot be read".into());
    each.sum::<Option<u64>>().ok_or_else(unreadable)
}

/// `RetransSegs` of the two lines `Tcp:` with names and numbers.
fn segments_sent_again(text: &str) -> Option<u64> {
    let mut lines = text.lines().filter(|line| line.starts_with("Tcp:"));
    let (names, numbers) = (lines.next()?, lines.next()?);
    let at = names.split_whitespace().position(|name| name == "RetransSegs")?;
    numbers.split_whitespace().nth(at)?.parse().ok()
}

/// A host by its number.
#[derive(Clone, Copy)]
struct Host(u16);

impl Host {
    fn new(number: u16) -> Host {
        Host(number)
    }

    fn name(self) -> String {
        format!("h{}", self.0)
    }

    /// The switch's end of its veth.
    fn device(self) -> String {
        format!("v{}", self.0)
    }

    fn address(self) -> Ipv4Addr {
        Ipv4Addr::from(0x0a00_0001 + u32::from(self.0))
    }

    fn mac(self) -> String {
        let [high, low] = self.0.to_be_bytes();
        format!("02:00:00:01:{high:02x}:{low:02x}")
    }

    /// The host that its transfer goes to.
    fn peer(self, hosts: usize) -> Host {
        Host(((usize::from(self.0) + hosts / 2) % hosts) as u16)
    }

    fn build(self) -> Result<(), BenchError> {
        let (name, device) = (self.name(), self.device());
        let on = |line: String| Stock::new(&format!("ip -n {name} {line}")).run().map(drop);
        Stock::new(&format!("ip netns add {name}")).run()?;
        Stock::new(&format!("ip link add {device} type veth peer name eth0 netns {name}")).run()?;
        let quiet = format!("sysctl -qw net.ipv6.conf.{device}.disable_ipv6=1");
        // Without IPv6 in the kernel there is nothing to turn off.
        Stock::new(&quiet).ask()?;
        Stock::new("sysctl -qw net.ipv6.conf.all.disable_ipv6=1").on(&name).ask()?;
        Stock::new(&format!("ip link set {device} up")).run()?;
        on("link set lo up".into())?;
        on(format!("link set eth0 address {} up", self.mac()))?;
        on(format!("addr add {}/16 dev eth0", self.address()))?;
        Ok(())
    }

    /// Gives it the addresses of the hosts that it talks to, for good.
    fn fill_cache(self, hosts: &[Host]) -> Result<(), BenchError> {
        for other in hosts.iter().filter(|other| {
            other.0 == self.peer(hosts.len()).0 || other.peer(hosts.len()).0 == self.0
        }) {
            let (name, address, mac) = (self.name(), other.address(), other.mac());
            let line =
                format!("ip -n {name} neigh replace {address} lladdr {mac} dev eth0 nud permanent");
            Stock::new(&line).run()?;
        }
        Ok(())
    }

    /// Does something on a thread in the host's namespace; none where that cannot be entered.
    fn inside<T: Send>(self, work: impl FnOnce() -> T + Send) -> Option<T> {
        let run = move || {
            let place = File::open(format!("/run/netns/{}", self.name())).ok()?;
            let kind = Some(LinkNameSpaceType::Network);
            move_into_link_name_space(place.as_fd(), kind).ok()?;
            Some(work())
        };
        thread::scope(|scope| scope.spawn(run).join().ok().flatten())
    }

    /// Reads one transfer to its end. The thread waits at the barrier once it listens.
    fn serve(self, barrier: &Barrier) {
        let listener =
            self.inside(|| TcpListener::bind(SocketAddr::from((Ipv4Addr::UNSPECIFIED, PORT))));
        barrier.wait();
        let Some(Ok(listener)) = listener else { return };
        // A socket stays in the namespace in which it was made. Its peer may give up.
        let begun = clock::now();
        if listener.set_nonblocking(true).is_err() {
            return;
        }
        while clock::now() - begun < PATIENCE {
            let Ok((mut stream, _)) = listener.accept() else {
                thread::sleep(Duration::from_millis(5));
                continue;
            };
            let _ = stream.set_nonblocking(false);
            let _ = stream.set_read_timeout(Some(PATIENCE));
            let mut bytes = Vec::new();
            let _ = stream.read_to_end(&mut bytes);
            let _ = stream.write_all(&(bytes.len() as u32).to_be_bytes());
            return;
        }
    }

    /// Sends a transfer. Returns whether all of it arrived.
    fn send(self, to: Host, barrier: &Barrier) -> bool {
        barrier.wait();
        let transfer = || -> std::io::Result<bool> {
            let mut stream = TcpStream::connect_timeout(&(to.address(), PORT).into(), PATIENCE)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            stream.write_all(&[0; BYTES])?;
            stream.shutdown(std::net::Shutdown::Write)?;
            let mut came = [0; 4];
            stream.read_exact(&mut came)?;
            Ok(u32::from_be_bytes(came) as usize == BYTES)
        };
        matches!(self.inside(transfer), Some(Ok(true)))
    }
}

impl Run {
    /// Seconds, and how many round trips were in a power of two that ends there or below.
    fn points(&self) -> Vec<(f64, f64)> {
        let bars = self.latency["classes"]["all"]["rtt"]["log2"].as_array();
        let mut sum = 0.0;
        let point = |bar: &Value| {
            sum += bar[1].as_f64().unwrap_or(0.0);
            (bar[0].as_f64().unwrap_or(0.0).max(0.5) * 2e-6, sum)
        };
        bars.into_iter().flatten().map(point).collect()
    }

    fn json(&self) -> Value {
        json!({
            "caches": self.caches,
            "transfers": self.done,
            "failed": self.failed,
            "arp_requests": self.arp_requests,
            "arp_retransmissions": self.arp_again,
            "tcp_retransmissions": self.syn_retransmissions,
            "refused": self.refused,
            "took_s": self.took_s,
            "latency": self.latency,
        })
    }
}

fn report(args: &UpcallArgs, version: &str, runs: &[Run]) -> Outcome {
    let mut text = format!(
        "{} hosts in namespaces start at once; {version}, {} handlers\n\n\
         {:10}{:>10}{:>8}{:>10}{:>10}{:>9}{:>12}{:>12}{:>13}{:>12}\n",
        args.hosts,
        args.handlers,
        "caches",
        "transfers",
        "failed",
        "ARP again",
        "TCP again",
        "refused",
        "ARP avg us",
        "ARP p99 us",
        "IPv4 avg us",
        "IPv4 p99 us"
    );
    for run in runs {
        let of = |class: &str, key: &str| {
            run.latency["classes"][class]["rtt"][key].as_f64().unwrap_or(0.0)
        };
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "{:10}{:>10}{:>8}{:>10}{:>10}{:>9}{:>12.0}{:>12.0}{:>13.0}{:>12.0}",
            run.caches,
            run.done,
            run.failed,
            run.arp_again,
            run.syn_retransmissions,
            run.refused,
            of("arp", "average"),
            of("arp", "p99"),
            of("ipv4", "average"),
            of("ipv4", "p99"),
        );
    }
    let json = json!({
        "hosts": args.hosts,
        "handlers": args.handlers,
        "ports": "namespaces",
        "version": version,
        "runs": runs.iter().map(Run::json).collect::<Value>(),
        "time": "a clock's",
    });
    Outcome { text, json }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_that_were_sent_again_are_read() {
        let text =
            "Ip: Forwarding\nIp: 1\nTcp: RtoMin OutSegs RetransSegs InErrs\nTcp: 200 7 3 0\n";
        assert_eq!(segments_sent_again(text), Some(3));
        assert_eq!(segments_sent_again("Tcp: OutSegs\nTcp: 7\n"), None);
        assert_eq!(segments_sent_again(""), None);
    }

    #[test]
    fn refusals_of_earlier_runs_do_not_count() {
        let mut latency = json!({"refused": 12, "classes": {}});
        assert_eq!(refused_since(&mut latency, 5), 7);
        assert_eq!(latency["refused"], 7);
    }

    #[test]
    fn each_host_has_another_one_to_send_to() {
        for hosts in [2u16, 3, 8] {
            let mut peers: Vec<u16> = (0..hosts).map(|n| Host(n).peer(hosts.into()).0).collect();
            assert!((0..hosts).zip(&peers).all(|(n, peer)| n != *peer));
            peers.sort_unstable();
            assert_eq!(peers, (0..hosts).collect::<Vec<_>>());
        }
        assert_eq!(Host(258).mac(), "02:00:00:01:01:02");
        assert_eq!(Host(258).address().to_string(), "10.0.1.3");
    }

    #[test]
    fn what_is_sent_again_is_what_exceeds_the_first_request_of_each_host() {
        let counts = |counts: &[(&str, u64)]| -> BTreeMap<String, u64> {
            counts.iter().map(|(rule, count)| ((*rule).to_owned(), *count)).collect()
        };
        let before = counts(&[("a", 2), ("b", 0)]);
        // One host asked three times, one once, and one that never asked does not make up for others.
        let requests = since(&before, &counts(&[("a", 5), ("b", 0), ("c", 1)]));
        assert_eq!((requests.iter().sum::<u64>(), beyond_the_first(&requests)), (4, 2));
        let latency = json!({"classes": {"all": {"rtt": {"log2": [[0, 3], [4, 2]]}}}});
        let run = Run {
            caches: "empty",
            done: 7,
            failed: 1,
            took_s: 1.0,
            arp_requests: 11,
            arp_again: 3,
            syn_retransmissions: 2,
            refused: 0,
            latency: latency.clone(),
        };
        assert_eq!(run.points(), [(1e-6, 3.0), (8e-6, 5.0)]);
        let args = UpcallArgs {
            hosts: 8,
            handlers: 2,
            batch: 64,
            namespaces: true,
            svg: None,
            json: true,
        };
        let Outcome { text, json } = report(&args, "x", &[run]);
        assert_eq!(
            (&json["runs"][0]["arp_retransmissions"], &json["ports"]),
            (&3.into(), &"namespaces".into())
        );
        assert!(text.contains("ARP again"), "{text}");
    }
}
