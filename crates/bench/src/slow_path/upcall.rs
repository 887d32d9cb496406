//! `tidegate bench upcall`: how long upcalls take when many hosts ask for their neighbours at once, the
//! experiment of "Improve ARP latency" (ovs-discuss, 30 September 2015).
//!
//! The worker and the handler are those of the switch, run in turns by one thread. Each has a clock of its
//! own, which goes on by the processor time that its work takes: as if each had a processor to itself,
//! whatever else this machine does.

use super::hosts::{Counts, Hosts};
use super::seconds;
use crate::progress::Progress;
use crate::{BenchError, Outcome};
use ::conntrack::{Config as ConntrackConfig, Conntrack};
use base::{Instant, WorkerId};
use clap::Args;
use flow::{FlowCommand, UpcallClass};
use load::in_memory::{Cable, Switch};
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;
use switch::latency::{self, Latency, Report, Stage};

/// Handlers that the switch has: its control thread.
const HANDLERS: u16 = 1;
/// When an experiment begins: not at zero, which says "never" in places.
const BEGIN: Instant = Instant::from_millis(1000);
/// When hosts have given up, however slow the switch is.
const LONGEST: Duration = Duration::from_secs(30);

/// Measure how long upcalls take when hosts with empty neighbour caches all start at once
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:
  tidegate bench upcall                       512 hosts, an ARP request and a TCP transfer each
  tidegate bench upcall --hosts 64 --batch 16
  tidegate bench upcall --json                with every stage, class and histogram

Each host has a port in memory, asks for its partner's Ethernet address, opens a TCP connection to it and
sends ten segments, each acknowledged. It repeats an ARP request and a SYN after a second, three times in
all. The bridge is a learning switch. The same is run again with neighbour caches filled and the
transfers spread over the time that the first run took, which shows what IPv4 packets wait without the
ARP requests.

The worker and the handler are the switch's. Each has a clock that goes on by the processor time of its
own work, as if each had a processor to itself. Policies that hand upcalls to one of several handlers
(all ARP to one of them, spreading) are not run: this switch has one handler, which serves a queue for
each port and class in turn.")]
pub struct UpcallArgs {
    /// How many hosts
    #[arg(long, value_name = "N", default_value_t = 512, value_parser = clap::value_parser!(u16).range(2..=4096))]
    hosts: u16,
    /// How many handlers translate
    #[arg(long, value_name = "N", default_value_t = HANDLERS, value_parser = clap::value_parser!(u16).range(1..=64))]
    handlers: u16,
    /// Upcalls that a handler takes at once
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..=1024))]
    batch: u16,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// An experiment's result.
struct Run {
    report: Report,
    counts: Counts,
    took_s: f64,
    refused: u64,
}

/// The switch, and where its threads' clocks stand.
struct Station {
    switch: Switch,
    hosts: Hosts,
    cables: Vec<Cable>,
    latency: Latency,
    worker_at: Instant,
    handler_at: Instant,
    /// Answers, and when the worker can see them.
    answers: VecDeque<(Instant, FlowCommand)>,
    batch: usize,
    next_port: usize,
}

/// Runs the work that the arguments ask for.
pub fn measure(args: &UpcallArgs) -> Result<Outcome, BenchError> {
    if args.handlers > HANDLERS {
        let wrong = format!("this switch has {HANDLERS} handler, not {}", args.handlers);
        return Err(BenchError::WrongWork(wrong));
    }
    let progress = Progress::start("asking for neighbours", 2);
    let storm = run(args, false, Duration::ZERO)?;
    progress.advance(1);
    // As many transfers in the same time.
    let calm = run(args, true, Duration::from_secs_f64(storm.took_s))?;
    drop(progress);
    Ok(report(args, &storm, &calm))
}

fn run(args: &UpcallArgs, is_known: bool, over: Duration) -> Result<Run, BenchError> {
    let conntrack = Arc::new(Conntrack::new(fastrand::u64(..), ConntrackConfig::default()));
    let switch = Switch::with_ports(args.hosts, "actions=normal", WorkerId(0), conntrack)?;
    let hosts = Hosts::start(args.hosts, is_known, BEGIN, over);
    let mut station = Station {
        switch,
        cables: hosts.cables(),
        hosts,
        latency: Latency::default(),
        worker_at: BEGIN,
        handler_at: BEGIN,
        answers: VecDeque::new(),
        batch: args.batch.into(),
        next_port: 0,
    };
    while !station.hosts.are_over() && station.worker_at - BEGIN < LONGEST {
        station.step()?;
    }
    let counts = station.hosts.counts();
    if counts.done == 0 {
        return Err(BenchError::WrongWork("no transfer was completed".into()));
    }
    let refused = station.switch.stats().lost;
    let (report, took_s) = (station.latency.read(), seconds(BEGIN, station.worker_at));
    Ok(Run { report, counts, took_s, refused })
}

/// Does something, and gives how long the thread's processor was at it.
fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let before = clock::thread_time();
    let done = work();
    (done, clock::thread_time().saturating_sub(before))
}

impl Station {
    /// The thread that is behind does the next piece of work.
    fn step(&mut self) -> Result<(), BenchError> {
        if self.switch.has_upcalls() && self.handler_at <= self.worker_at {
            self.handle();
            return Ok(());
        }
        let at = self.worker_at;
        self.hosts.tick(at);
        if let Some((_, command)) = self.answers.pop_front_if(|(ready, _)| *ready <= at) {
            self.carry_out(command);
        } else if let Some(port) = self.port_with_packets() {
            let Station { switch, cables, .. } = self;
            let (received, took) = timed(|| switch.work(at, cables, port));
            received?;
            self.worker_at = self.worker_at + took;
        } else {
            self.rest();
        }
        self.hosts.answer(self.worker_at);
        Ok(())
    }

    /// The worker has nothing to do until something happens.
    fn rest(&mut self) {
        if self.switch.has_upcalls() {
            // The handler is still busy with others.
            self.worker_at = self.worker_at.max(self.handler_at);
            return;
        }
        let answer = self.answers.front().map(|(ready, _)| *ready);
        let next = answer.into_iter().chain(self.hosts.next_timer()).min();
        self.worker_at = self.worker_at.max(next.unwrap_or(self.worker_at + LONGEST));
    }

    fn port_with_packets(&mut self) -> Option<usize> {
        let count = self.cables.len();
        let mut ports = (0..count).map(|step| (self.next_port + step) % count);
        let port = ports.find(|port| self.hosts.has_sent(*port))?;
        self.next_port = (port + 1) % count;
        Some(port)
    }

    /// The handler takes a batch and translates it; the worker sees the answers when the last is done.
    fn handle(&mut self) {
        let mut upcalls = Vec::new();
        let Station { switch, batch, .. } = self;
        let ((), took) = timed(|| switch.take_upcalls(*batch, &mut upcalls));
        // It was woken by the first of them, if it slept.
        let queued = upcalls.iter().map(|upcall| upcall.queued).max().unwrap_or(self.handler_at);
        self.handler_at = self.handler_at.max(queued) + took;
        self.latency.batch(0, upcalls.len());
        let (taken, mut answers) = (self.handler_at, Vec::new());
        for upcall in upcalls {
            let stamps = latency::taken(&upcall, 0, taken);
            let now = self.handler_at;
            let (mut more, took) = timed(|| self.switch.translate(now, upcall));
            self.handler_at = self.handler_at + took;
            latency::translated(stamps, self.handler_at, &mut more);
            answers.append(&mut more);
        }
        let now = self.handler_at;
        let (mut more, took) = timed(|| self.switch.revalidate(now));
        self.handler_at = self.handler_at + took;
        answers.append(&mut more);
        let ready = self.handler_at;
        self.answers.extend(answers.into_iter().map(|(_, command)| (ready, command)));
    }

    fn carry_out(&mut self, command: FlowCommand) {
        let (at, stamps) = (self.worker_at, latency::stamps_of(&command));
        let Station { switch, cables, .. } = self;
        let ((), took) = timed(|| switch.carry_out(at, command, cables));
        self.worker_at = self.worker_at + took;
        if let Some(stamps) = stamps {
            self.latency.recorder(WorkerId(0)).record(&stamps, self.worker_at);
        }
    }
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
            "took_s": self.took_s,
            "latency": self.report.json(),
        })
    }
}

fn report(args: &UpcallArgs, storm: &Run, calm: &Run) -> Outcome {
    let mut text = format!(
        "{} hosts start at once; one handler that takes {} upcalls at most, a queue for each port and \
         class\n\n{:24}{:>11}{:>9}{:>9}{:>9}{:>12}{:>12}{:>12}{:>12}\n",
        args.hosts,
        args.batch,
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
    for (name, run) in [("empty neighbour caches", storm), ("filled neighbour caches", calm)] {
        let [arp, arp_99] = run.round_trips(UpcallClass::Arp);
        let [ipv4, ipv4_99] = run.round_trips(UpcallClass::Ipv4);
        let Counts { done, arp_retransmissions, syn_retransmissions, .. } = run.counts;
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "{name:24}{done:>11}{arp_retransmissions:>9}{syn_retransmissions:>9}{:>9}{arp:>12.1}\
             {arp_99:>12.1}{ipv4:>12.1}{ipv4_99:>12.1}",
            run.refused
        );
    }
    let ratio = storm.round_trips(UpcallClass::Ipv4)[0] / calm.round_trips(UpcallClass::Ipv4)[0];
    let _ = writeln!(
        text,
        "(ARP and SYN: sent again after a second)\nIPv4 average with ARP requests over that without: \
         {ratio:.2}\n\nWith empty neighbour caches:\n\n{}",
        storm.report.text()
    );
    let json = json!({
        "hosts": args.hosts,
        "handlers": args.handlers,
        "batch": args.batch,
        "policy": "a queue for each port and class, served in turn",
        "empty_caches": storm.json(),
        "filled_caches": calm.json(),
        "ipv4_average_ratio": ratio,
        "time": "processor time of the worker and the handler, each by itself",
    });
    Outcome { text, json }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(hosts: u16, handlers: u16) -> UpcallArgs {
        UpcallArgs { hosts, handlers, batch: 64, json: true }
    }

    #[test]
    fn every_host_finds_its_partner_and_sends_all() {
        let Outcome { text, json } = measure(&args(8, 1)).unwrap();
        for caches in ["empty_caches", "filled_caches"] {
            let it = &json[caches];
            assert_eq!((&it["transfers"], &it["failed"]), (&8.into(), &0.into()), "{it}");
            assert_eq!(it["arp_retransmissions"], 0, "{it}");
        }
        let classes = &json["empty_caches"]["latency"]["classes"];
        // A request and an answer of each host.
        assert!(classes["arp"]["rtt"]["count"].as_u64().unwrap() >= 16, "{classes}");
        assert!(classes["ipv4"]["rtt"]["count"].as_u64().unwrap() >= 8, "{classes}");
        assert_eq!(json["filled_caches"]["latency"]["classes"]["arp"]["rtt"]["count"], 0);
        for line in ["ARP packets (microseconds):", "upcall batch size", "IPv4 avg us"] {
            assert!(text.contains(line), "{text}");
        }
    }

    #[test]
    fn handlers_that_the_switch_has_not_are_refused() {
        assert!(measure(&args(8, 2)).unwrap_err().to_string().contains("1 handler"));
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
