//! `tidegate bench upcall`: the latency of upcalls when many hosts resolve their neighbours at once, the
//! experiment of "Improve ARP latency" (ovs-discuss, 30 September 2015), under three policies.

mod policy;
mod real_hosts;
mod station;
mod whole;

use self::policy::Policy;
use self::station::{BEGIN, Station};
use super::daemon::Peer;
use super::hosts::{Counts, Hosts};
use super::{Chart, Line};
use crate::progress::Progress;
use crate::{BenchError, Outcome};
use clap::Args;
use flow::UpcallClass;
use load::generate::numbers::whole;
use serde_json::{Value, json};
use std::fmt::Write;
use std::path::PathBuf;
use std::time::Duration;
use switch::latency::{Report, Stage};

/// Measure how long upcalls take when hosts with empty neighbour caches all start at once
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:
  tidegate bench upcall                       512 hosts, an ARP request and a TCP transfer each
  tidegate bench upcall --handlers 4 --batch 16
  tidegate bench upcall --json                with every stage, class and histogram
  tidegate bench upcall --svg upcalls.svg     how many round trips took how long at most
  tidegate bench upcall --namespaces --hosts 64    real hosts
  tidegate bench upcall --namespaces --hosts 64 --peer ovs    through Open vSwitch, too

Each host has a port in memory, asks for its partner's Ethernet address, opens a TCP connection to \
it and sends ten segments, each acknowledged. It repeats an ARP request and a SYN after a second, \
three times in all. The bridge is a learning switch. The same is run again with neighbour caches \
filled and the transfers spread over the time that the first run took, which shows how long IPv4 \
packets wait without the ARP requests.

Three policies hand upcalls to handlers: all ARP to one handler and the rest by flow, as kernels did \
before the patch; ARP to each handler in turn, as the patch does; and this switch's, by flow with a \
queue for each port and class at each handler.

With --namespaces each host is a network namespace of the kernel's, with a veth to a port of our switch in a
process of its own, and connects, sends and retransmits as kernels do. Only this switch's policy is measured
then, by a clock, with --handlers threads. The caches are empty first, and permanent entries afterwards.
With --peer the same hosts then talk through Open vSwitch's userspace datapath, whose main thread forwards and
answers misses for ports like these; what can be compared is how long connections take to open, and what is sent
again. Needs ovsdb-server and the stock tools.

The worker, the handlers and the control thread are the switch's. Each has a clock that goes on by \
the processor time of its own work, as if each had a processor of its own and never waited for a \
lock.")]
pub struct UpcallArgs {
    /// Number of hosts
    #[arg(long, value_name = "N", default_value_t = 512, value_parser = whole::<u16>(2..=4096))]
    hosts: u16,
    /// Number of handlers; 0, with --namespaces: the worker answers its own misses
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = whole::<u16>(0..=64))]
    handlers: u16,
    /// Upcalls that a handler takes at a time
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = whole::<u16>(1..=1024))]
    batch: u16,
    /// Use real hosts: network namespaces with the kernel's ARP and TCP, through our whole switch
    #[arg(long, conflicts_with = "batch")]
    namespaces: bool,
    /// With --namespaces, measure another switch beside ours
    #[arg(long, value_enum, value_name = "SWITCH", requires = "namespaces")]
    peer: Option<Peer>,
    /// Draw how many upcalls, or with --namespaces connections, took how long at most
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// The result of an experiment.
struct Run {
    report: Report,
    counts: Counts,
    took: Duration,
    refused: u64,
}

/// The two experiments of a policy.
struct Pair {
    policy: Policy,
    storm: Run,
    calm: Run,
}

/// Runs the work that the arguments ask for.
pub fn measure(args: &UpcallArgs) -> Result<Outcome, BenchError> {
    if args.namespaces {
        return whole::measure(args);
    }
    if args.handlers == 0 {
        let wrong = "--handlers 0, with which workers answer their own misses, needs --namespaces";
        return Err(BenchError::WrongWork(wrong.into()));
    }
    let progress = Progress::start("asking for neighbours", 2 * Policy::ALL.len() as u64);
    let mut pairs = Vec::new();
    for policy in Policy::ALL {
        let storm = run(args, policy, false, Duration::ZERO)?;
        progress.advance(1);
        // The same number of transfers in the same time.
        let calm = run(args, policy, true, storm.took)?;
        progress.advance(1);
        pairs.push(Pair { policy, storm, calm });
    }
    drop(progress);
    draw(args, &pairs)?;
    Ok(report(args, &pairs))
}

/// Draws, for each policy, the cumulative distribution of the round trips of ARP packets.
fn draw(args: &UpcallArgs, pairs: &[Pair]) -> Result<(), BenchError> {
    let line = |pair: &Pair| {
        let stages = pair.storm.report.stages(Some(UpcallClass::Arp), None);
        let points = stages.of(Stage::Total).cumulative_us();
        let points = points.map(|(us, count)| (us / 1e6, count as f64)).collect();
        Line { name: pair.policy.title().to_owned(), points }
    };
    let lines: Vec<Line> = pairs.iter().map(line).collect();
    let title = "Round trips of ARP packets that took no longer";
    Chart { title, y_name: "upcalls", lines: &lines }.write(args.svg.as_deref())
}

fn run(
    args: &UpcallArgs,
    policy: Policy,
    is_known: bool,
    over: Duration,
) -> Result<Run, BenchError> {
    let hosts = Hosts::start(args.hosts, is_known, BEGIN, over);
    let mut station = Station::new(hosts, args.hosts, (policy, args.handlers), args.batch)?;
    station.run()?;
    let counts = station.hosts.counts();
    if counts.done == 0 {
        return Err(BenchError::WrongWork("no transfer was completed".into()));
    }
    let refused = station.switch.stats().lost;
    Ok(Run { report: station.latency.read(), counts, took: station.took(), refused })
}

impl Run {
    /// Average and 99th percentile of round trips, in microseconds.
    fn round_trips(&self, class: UpcallClass) -> [f64; 2] {
        let stages = self.report.stages(Some(class), None);
        let it = stages.of(Stage::Total).summary_us();
        [it.average, it.percentiles[2]]
    }

    fn json(&self) -> Value {
        let Counts { done, failed, arp_retransmissions, syn_retransmissions } = self.counts;
        json!({
            "transfers": done,
            "failed": failed,
            "arp_retransmissions": arp_retransmissions,
            "syn_retransmissions": syn_retransmissions,
            "refused": self.refused,
            "took_s": self.took.as_secs_f64(),
            "latency": self.report.json(),
        })
    }
}

impl Pair {
    /// The IPv4 average with ARP requests over that without.
    fn ipv4_ratio(&self) -> f64 {
        let [storm, calm] = [&self.storm, &self.calm].map(|run| run.round_trips(UpcallClass::Ipv4));
        storm[0] / calm[0]
    }

    fn json(&self) -> Value {
        json!({
            "policy": self.policy.name(),
            "empty_caches": self.storm.json(),
            "filled_caches": self.calm.json(),
            "ipv4_average_ratio": self.ipv4_ratio(),
        })
    }
}

fn report(args: &UpcallArgs, pairs: &[Pair]) -> Outcome {
    let UpcallArgs { hosts, handlers, batch, .. } = args;
    let mut text = format!(
        "{hosts} hosts start at once; {handlers} handlers that take {batch} upcalls at most\n\n\
         {:36}{:>10}{:>6}{:>6}{:>9}{:>11}{:>11}{:>12}{:>11}\n",
        "",
        "transfers",
        "ARP",
        "SYN",
        "refused",
        "ARP avg us",
        "ARP 99th",
        "IPv4 avg us",
        "IPv4 99th"
    );
    for pair in pairs {
        for (caches, run) in [("empty", &pair.storm), ("filled", &pair.calm)] {
            let [arp, arp_99] = run.round_trips(UpcallClass::Arp);
            let [ipv4, ipv4_99] = run.round_trips(UpcallClass::Ipv4);
            let Counts { done, arp_retransmissions, syn_retransmissions, .. } = run.counts;
            let name = format!("{}, {caches}", pair.policy.title());
            // Writing to a string cannot fail.
            let _ = writeln!(
                text,
                "{name:36}{done:>10}{arp_retransmissions:>6}{syn_retransmissions:>6}{:>9}{arp:>11.1}\
                 {arp_99:>11.1}{ipv4:>12.1}{ipv4_99:>11.1}",
                run.refused
            );
        }
    }
    text += "(empty, filled: the hosts' neighbour caches; ARP, SYN: sent again after a second)\n\n\
             IPv4 average with ARP requests over that without:\n";
    for pair in pairs {
        let _ = writeln!(text, "  {:34}{:>6.2}", pair.policy.title(), pair.ipv4_ratio());
    }
    for pair in pairs {
        let (title, report) = (pair.policy.title(), pair.storm.report.text());
        let _ = writeln!(text, "\nWith empty neighbour caches, {title}:\n\n{report}");
    }
    let json = json!({
        "hosts": hosts,
        "handlers": handlers,
        "batch": batch,
        "policies": pairs.iter().map(Pair::json).collect::<Value>(),
        "time": "processor time of the worker, each handler and the control thread, each by itself",
    });
    Outcome { text, json }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(hosts: u16, handlers: u16) -> UpcallArgs {
        UpcallArgs {
            hosts,
            handlers,
            batch: 64,
            namespaces: false,
            peer: None,
            svg: None,
            json: true,
        }
    }

    fn check(json: &Value) {
        for caches in ["empty_caches", "filled_caches"] {
            let it = &json[caches];
            assert_eq!((&it["transfers"], &it["failed"]), (&8.into(), &0.into()), "{it}");
            assert_eq!(it["arp_retransmissions"], 0, "{it}");
        }
        let classes = &json["empty_caches"]["latency"]["classes"];
        // A request and a reply per host.
        assert!(classes["arp"]["rtt"]["count"].as_u64().unwrap() >= 16, "{classes}");
        assert!(classes["ipv4"]["rtt"]["count"].as_u64().unwrap() >= 8, "{classes}");
        assert_eq!(json["filled_caches"]["latency"]["classes"]["arp"]["rtt"]["count"], 0);
    }

    #[test]
    fn every_host_finds_its_partner_and_sends_all() {
        for handlers in [1, 3] {
            let Outcome { json, .. } = measure(&args(8, handlers)).unwrap();
            assert_eq!(json["policies"].as_array().unwrap().len(), 3);
            json["policies"].as_array().unwrap().iter().for_each(check);
        }
        let folder = tempfile::tempdir().unwrap();
        let svg = folder.path().join("upcalls.svg");
        let drawn = UpcallArgs { svg: Some(svg.clone()), ..args(8, 2) };
        let Outcome { text, .. } = measure(&drawn).unwrap();
        assert!(std::fs::read_to_string(svg).unwrap().contains("queues by port and class"));
        for line in ["ARP packets (microseconds):", "upcall batch size", "IPv4 avg us"] {
            assert!(text.contains(line), "{text}");
        }
    }

    #[test]
    fn policies_differ_in_where_arp_goes() {
        let handlers_of = |policy, eth_type: u16| {
            let mut turn = 0;
            let of = |n: u16| {
                let mut key = flow::FlowKey::new();
                key.set_eth_type(eth_type);
                key.set_tp_src(n);
                policy::handler_of(policy, &key, 4, &mut turn)
            };
            let mut all: Vec<u16> = (0..64).map(of).collect();
            all.sort_unstable();
            all.dedup();
            all
        };
        for (policy, arp) in [(Policy::OneForArp, &[0][..]), (Policy::ArpSpread, &[0, 1, 2, 3])] {
            assert_eq!(handlers_of(policy, 0x0806), arp);
            assert_eq!(handlers_of(policy, 0x0800), [0, 1, 2, 3]);
        }
    }

    #[test]
    fn what_is_not_answered_is_sent_again_and_counted() {
        let mut hosts = Hosts::start(4, false, BEGIN, Duration::ZERO);
        let drain = |hosts: &Hosts| {
            let (mut pool, mut sent) = (packet::Pool::new(64), 0);
            for mut cable in hosts.cables() {
                let mut batch = packet::Batch::new();
                cable.rx.receive(&mut pool, &mut batch).unwrap();
                sent += batch.len();
            }
            sent
        };
        assert_eq!(drain(&hosts), 4);
        for (after_ms, sent, again) in [(500, 0, 0), (1000, 4, 4), (2000, 4, 8), (3000, 0, 8)] {
            hosts.tick(BEGIN + Duration::from_millis(after_ms));
            assert_eq!(drain(&hosts), sent, "{after_ms}");
            assert_eq!(hosts.counts().arp_retransmissions, again, "{after_ms}");
        }
        assert_eq!(hosts.counts().failed, 4);
        assert!(hosts.are_over());
    }
}
