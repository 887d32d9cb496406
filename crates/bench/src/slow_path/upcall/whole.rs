//! The experiment with real hosts: a network namespace each, with the kernel's ARP and TCP, through our switch
//! in a process of its own, and through Open vSwitch's userspace datapath. Times are those of a clock.

use super::UpcallArgs;
use super::real_hosts::{Host, retransmissions};
use crate::progress::Progress;
use crate::slow_path::daemon::{self, Kind, Peer, UnderTest};
use crate::slow_path::{Chart, Line, seconds};
use crate::summary::Summary;
use crate::{BenchError, Outcome};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Barrier;
use std::thread;

/// Maximum number of hosts: each needs a namespace, a veth and two threads.
const HOSTS_MAX: u16 = 512;
/// ARP requests of hosts that look for an address, not those that confirm one. A rule for each host counts them.
const REQUESTS: &str = "arp,arp_op=1,dl_dst=ff:ff:ff:ff:ff:ff";

/// The results of the transfers of one experiment.
struct Run {
    switch: &'static str,
    version: String,
    caches: &'static str,
    /// How long each connection took to open, the search for the address included, in milliseconds.
    connects_ms: Vec<f64>,
    done: usize,
    failed: usize,
    took_s: f64,
    arp_requests: u64,
    /// Requests beyond the first of each host.
    arp_again: u64,
    syn_retransmissions: u64,
    refused: u64,
    /// Of upcalls; null where the switch does not say it.
    latency: Value,
}

/// Measures our switch, and the peer, between real hosts.
pub fn measure(args: &UpcallArgs) -> Result<Outcome, BenchError> {
    if args.hosts > HOSTS_MAX {
        let wrong =
            format!("with --namespaces there are no more than {HOSTS_MAX} hosts: use --hosts");
        return Err(BenchError::WrongWork(wrong));
    }
    let (kinds, missing) = Peer::kinds(args.peer);
    // Open vSwitch runs without DPDK here, and needs no huge pages.
    daemon::enter("bench upcall", args.json, &[Kind::Tidegate])?;
    let progress = Progress::start("hosts and transfers", 1 + 2 * kinds.len() as u64);
    let hosts: Vec<Host> = (0..args.hosts).map(Host::new).collect();
    hosts.iter().try_for_each(|host| host.build(args.peer.is_none()))?;
    progress.advance(1);
    let mut runs = Vec::new();
    for kind in kinds {
        let mut switch = start(args, &hosts, kind)?;
        hosts.iter().try_for_each(|host| host.clear_cache(&hosts))?;
        runs.push(run(&mut switch, &hosts, (kind, "empty"))?);
        progress.advance(1);
        hosts.iter().try_for_each(|host| host.fill_cache(&hosts))?;
        runs.push(run(&mut switch, &hosts, (kind, "filled"))?);
        progress.advance(1);
        switch.stop()?;
    }
    drop(progress);
    let line = |run: &Run| Line { name: run.name(), points: run.points() };
    let lines: Vec<Line> = runs.iter().map(line).collect();
    let title = "Connections that took no longer to open";
    Chart { title, y_name: "connections", lines: &lines }.write(args.svg.as_deref())?;
    Ok(report(args, &runs, missing))
}

/// Starts a switch between the hosts.
fn start(args: &UpcallArgs, hosts: &[Host], kind: Kind) -> Result<UnderTest, BenchError> {
    let mut switch = UnderTest::start_sleeping(kind)?;
    switch.set_handlers(args.handlers)?;
    switch.add_rule("priority=1,actions=normal")?;
    for host in hosts {
        let requests = format!("{REQUESTS},arp_spa={}", host.address());
        switch.add_rule(&format!("priority=2,{requests},actions=normal"))?;
        switch.add_device(&host.device())?;
    }
    Ok(switch)
}

/// All hosts start a transfer at once.
fn run(
    switch: &mut UnderTest,
    hosts: &[Host],
    (kind, caches): (Kind, &'static str),
) -> Result<Run, BenchError> {
    switch.forget()?;
    let (before, again) = (switch.packets_of_each(REQUESTS)?, retransmissions(hosts)?);
    let latency = switch.latency()?;
    let refused_before = refused(switch, &latency)?;
    // All threads of hosts, and this one, which reads the clock.
    let barrier = Barrier::new(2 * hosts.len() + 1);
    let (connects_ms, took_s) = thread::scope(|scope| {
        let (barrier, mut clients) = (&barrier, Vec::new());
        for host in hosts {
            scope.spawn(move || host.serve(barrier));
            let peer = host.peer(hosts.len());
            clients.push(scope.spawn(move || host.send(peer, barrier)));
        }
        barrier.wait();
        let begun = clock::now();
        let done = clients.into_iter().filter_map(|client| client.join().ok().flatten());
        let done: Vec<f64> = done.collect();
        // Servers whose clients failed still wait for them.
        (done, seconds(begun, clock::now()))
    });
    let done = connects_ms.len();
    let mut latency = switch.latency()?;
    let refused = refused(switch, &latency)?.saturating_sub(refused_before);
    if !latency.is_null() {
        latency["refused"] = refused.into();
    }
    if done == 0 {
        return Err(BenchError::WrongWork("no transfer was completed".into()));
    }
    let requests = since(&before, &switch.packets_of_each(REQUESTS)?);
    Ok(Run {
        switch: kind.name(),
        version: switch.version()?,
        caches,
        connects_ms,
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

/// The counts of each rule since an earlier reading of the same rules.
fn since(before: &BTreeMap<String, u64>, now: &BTreeMap<String, u64>) -> Vec<u64> {
    let earlier = |rule: &String| before.get(rule).copied().unwrap_or(0);
    now.iter().map(|(rule, packets)| packets.saturating_sub(earlier(rule))).collect()
}

/// Requests beyond the first of each host.
fn beyond_the_first(requests: &[u64]) -> u64 {
    requests.iter().map(|requests| requests.saturating_sub(1)).sum()
}

/// Upcalls that were refused since the switch started: `tidegate/latency-clear` leaves their number.
fn refused(switch: &mut UnderTest, latency: &Value) -> Result<u64, BenchError> {
    match latency["refused"].as_u64() {
        Some(refused) => Ok(refused),
        None => Ok(switch.misses()?.refused),
    }
}

impl Run {
    fn name(&self) -> String {
        format!("{}, {}", self.switch, self.caches)
    }

    /// Seconds, and how many connections took no longer to open.
    fn points(&self) -> Vec<(f64, f64)> {
        let mut sorted = self.connects_ms.clone();
        sorted.sort_by(f64::total_cmp);
        (1..).zip(sorted).map(|(count, ms)| (ms / 1e3, f64::from(count))).collect()
    }

    fn json(&self) -> Value {
        json!({
            "switch": self.switch,
            "version": self.version,
            "caches": self.caches,
            "connect_ms": Summary::of(&self.connects_ms),
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

fn report(args: &UpcallArgs, runs: &[Run], missing: Option<String>) -> Outcome {
    let mut text = format!(
        "{} hosts in namespaces start at once; {} handlers; milliseconds until connections are open, \
         microseconds of upcalls\n\n\
         {:18}{:>10}{:>8}{:>10}{:>10}{:>9}{:>10}{:>9}{:>11}{:>11}{:>12}{:>12}\n",
        args.hosts,
        args.handlers,
        "switch, caches",
        "transfers",
        "failed",
        "ARP again",
        "TCP again",
        "refused",
        "open avg",
        "open p99",
        "ARP avg us",
        "ARP p99 us",
        "IPv4 avg us",
        "IPv4 p99 us"
    );
    for run in runs {
        let of = |class: &str, key: &str| {
            let time = run.latency["classes"][class]["rtt"][key].as_f64();
            time.map_or("-".to_owned(), |us| format!("{us:.0}"))
        };
        let open = Summary::of(&run.connects_ms);
        let open_of = |it: fn(&Summary) -> f64| open.as_ref().map_or(0.0, it);
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "{:18}{:>10}{:>8}{:>10}{:>10}{:>9}{:>10.1}{:>9.1}{:>11}{:>11}{:>12}{:>12}",
            run.name(),
            run.done,
            run.failed,
            run.arp_again,
            run.syn_retransmissions,
            run.refused,
            open_of(|it| it.mean),
            open_of(|it| it.p99),
            of("arp", "average"),
            of("arp", "p99"),
            of("ipv4", "average"),
            of("ipv4", "p99"),
        );
    }
    if let Some(why) = &missing {
        let _ = writeln!(text, "Open vSwitch is not measured: {why}");
    }
    let json = json!({
        "hosts": args.hosts,
        "handlers": args.handlers,
        "ports": "namespaces",
        "runs": runs.iter().map(Run::json).collect::<Value>(),
        "time": "a clock's",
        "not_measured": missing,
    });
    Outcome { text, json }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sent_again_is_what_exceeds_the_first_request_of_each_host() {
        let counts = |counts: &[(&str, u64)]| -> BTreeMap<String, u64> {
            counts.iter().map(|(rule, count)| ((*rule).to_owned(), *count)).collect()
        };
        let before = counts(&[("a", 2), ("b", 0)]);
        // One host sent three requests, one sent one, and one sent none, which does not compensate for the
        // others.
        let requests = since(&before, &counts(&[("a", 5), ("b", 0), ("c", 1)]));
        assert_eq!((requests.iter().sum::<u64>(), beyond_the_first(&requests)), (4, 2));
        let latency = json!({"classes": {"all": {"rtt": {"log2": [[0, 3], [4, 2]]}}}});
        let run = Run {
            switch: "tidegate",
            version: "x".into(),
            caches: "empty",
            connects_ms: vec![2.0, 1.0, 9.0],
            done: 7,
            failed: 1,
            took_s: 1.0,
            arp_requests: 11,
            arp_again: 3,
            syn_retransmissions: 2,
            refused: 0,
            latency: latency.clone(),
        };
        assert_eq!(run.points(), [(0.001, 1.0), (0.002, 2.0), (0.009, 3.0)]);
        let args = UpcallArgs {
            hosts: 8,
            handlers: 2,
            batch: 64,
            namespaces: true,
            peer: Some(Peer::Ovs),
            svg: None,
            json: true,
        };
        let Outcome { text, json } = report(&args, &[run], Some("it is not there".into()));
        assert_eq!(
            (&json["runs"][0]["arp_retransmissions"], &json["ports"]),
            (&3.into(), &"namespaces".into())
        );
        assert_eq!(json["runs"][0]["connect_ms"]["p99"], 9.0);
        for piece in ["ARP again", "tidegate, empty", "Open vSwitch is not measured: it is not"] {
            assert!(text.contains(piece), "{text}");
        }
    }
}
