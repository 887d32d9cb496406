//! `tidegate bench failover`: the connections of a zone are flushed and re-created under full traffic, while
//! the waits of packets of other zones are measured; the use case of "conntrack: Key connections by zone"
//! (ovs-dev, 24 April 2024).

mod waits;
mod whole;

use super::daemon::Peer;
use super::round_robin::{Allowance, RoundRobin};
use super::{Chart, Line};
use crate::packets::{self, TEMPLATE};
use crate::progress::Progress;
use crate::summary::Summary;
use crate::{BenchError, Outcome};
use ::conntrack::{Config, Conntrack, CtFlush};
use base::{Instant, PortNo, WorkerId, Zone};
use clap::Args;
use load::generate::numbers::whole;
use load::in_memory::{Cable, Discard, OwnTime, Switch};
use serde_json::json;
use std::fmt::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

/// The zone that fails over; the others have higher numbers.
const FAILING: u16 = 1;
/// Connections of a zone differ in their ports.
const CONNECTIONS: u32 = 10_000;
/// Interval of the flushes.
const EVERY: Duration = Duration::from_millis(50);
/// The last two octets of a server's address are its zone.
const SERVERS: [u8; 2] = [10, 2];
const CLIENT: [u8; 4] = [10, 1, 0, 1];
const SERVER_PORT: u16 = 80;
/// The last two octets of the destination select the zone; for replies, those of the source.
const RULES: &str = "table=0,priority=2,ip,nw_dst=10.2.0.0/16,\
actions=move:NXM_OF_IP_DST[0..15]->NXM_NX_REG0[0..15],ct(table=1,zone=NXM_NX_REG0[0..15])
table=0,priority=1,ip,actions=move:NXM_OF_IP_SRC[0..15]->NXM_NX_REG0[0..15],\
ct(table=1,zone=NXM_NX_REG0[0..15])
table=1,priority=2,ip,ct_state=+trk+new,nw_dst=10.2.0.0/16,actions=ct(commit,zone=NXM_NX_REG0[0..15]),output:p2
table=1,priority=1,ip,ct_state=+trk+est,actions=output:p2
table=1,priority=0,actions=drop";

/// Measure how long packets wait while connections of other zones are flushed and re-created
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:
  tidegate bench failover                      20 zones of 10,000 connections, one of them fails over
  tidegate bench failover --zones 100 --failovers 200 --json
  tidegate bench failover --svg waits.svg      the longest waits over time
  tidegate bench failover --zones 10 --peer ovs    whole switches, ours and Open vSwitch's

A whole switch in memory tracks connections of all zones. The packets of one zone come through one \
port, those of all others through another, alternating, as fast as the worker takes them. First \
nothing is flushed; then the zone is flushed every 50 ms by another thread, which frees its memory, \
as the control thread does, and its connections are made again by its next packets. A wait is the \
time from one batch of the other zones to the next, by the processor time of the worker's thread.

With --peer whole switches in processes and namespaces of their own, each with one worker, play pcap files
(Open vSwitch: DPDK's net_pcap) as fast as they take them. The zone is flushed by dpctl/flush-conntrack;
what the other zones' packets per second are meanwhile is compared with before. Both switches record one
in 32 of their packets with its time: a wait is the time from one recorded packet to the next, by a clock.
Needs ovsdb-server, the stock tools, root and huge pages.")]
pub struct FailoverArgs {
    /// Number of zones, including the failing one
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = whole::<u16>(2..=1000))]
    zones: u16,
    /// Number of failovers
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = whole::<u32>(1..=100_000))]
    failovers: u32,
    /// Measure whole switches: ours and a peer
    #[arg(long, value_enum, value_name = "SWITCH")]
    peer: Option<Peer>,
    /// Draw the longest waits over time
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// The switch with its traffic: the failing zone's comes through the first port, the others' through the
/// second.
struct Station {
    switch: Switch,
    conntrack: Arc<Conntrack>,
    cables: Vec<Cable>,
    allowances: [Allowance; 2],
    time: OwnTime,
}

/// Measurements of the flushing thread.
#[derive(Clone, Debug, Default)]
struct Flushes {
    /// The number of connections of each flush.
    flushed: Vec<f64>,
    /// Duration of each flush, and of returning its memory, in microseconds of processor time.
    flush_us: Vec<f64>,
    drain_us: Vec<f64>,
}

/// Runs the work that the arguments ask for.
pub fn measure(args: &FailoverArgs) -> Result<Outcome, BenchError> {
    if args.peer.is_some() {
        return whole::measure(args);
    }
    let mut station = Station::new(args.zones)?;
    station.fill(args.zones)?;
    let progress = Progress::start("failing over", 2);
    let end = station.time.now() + EVERY * args.failovers;
    let before = station.play(|now| now >= end)?;
    progress.advance(1);
    let conntrack = Arc::clone(&station.conntrack);
    let passed = AtomicU64::new(station.time.now().as_nanos());
    let (during, flushes) = thread::scope(|scope| {
        let flusher = scope.spawn(|| fail_over(&conntrack, &passed, args.failovers));
        let during = station.play(|now| {
            passed.store(now.as_nanos(), Relaxed);
            flusher.is_finished()
        });
        // This value ends the other thread, which waits for time to pass.
        passed.store(u64::MAX, Relaxed);
        (during, flusher.join())
    });
    drop(progress);
    let ended = |_| BenchError::WrongWork("the thread that flushes ended".into());
    let during = during?;
    let lines = [("no failover", &before), ("failovers", &during)]
        .map(|(name, waits)| Line { name: name.to_owned(), points: longest_over_time(waits) });
    let title = "Longest waits of other zones' packets";
    Chart { title, y_name: "microseconds", lines: &lines }.write(args.svg.as_deref())?;
    report(args, &before, &during, &flushes.map_err(ended)?)
}

/// Returns the longest wait in each interval of the time: seconds, and microseconds.
fn longest_over_time(waits_us: &[f64]) -> Vec<(f64, f64)> {
    const PARTS: f64 = 200.0;
    let part_us = waits_us.iter().sum::<f64>() / PARTS;
    let (mut points, mut at_us, mut longest) = (Vec::new(), 0.0, 0.0f64);
    for wait in waits_us {
        at_us += wait;
        longest = longest.max(*wait);
        if at_us >= part_us * (points.len() + 1) as f64 {
            points.push((at_us / 1e6, longest));
            longest = 0.0;
        }
    }
    points
}

/// Flushes the failing zone repeatedly, and returns its memory.
fn fail_over(conntrack: &Conntrack, passed: &AtomicU64, failovers: u32) -> Flushes {
    let mut flushes = Flushes::default();
    let now = || Instant::from_nanos(passed.load(Relaxed));
    let us = |from: Duration| (clock::thread_time() - from).as_nanos() as f64 / 1e3;
    for _ in 0..failovers {
        let next = now() + EVERY;
        while now() < next {
            thread::sleep(Duration::from_millis(1));
        }
        let begun = clock::thread_time();
        // Only a flush of one tuple can find nothing.
        let flushed = conntrack.flush(now(), &CtFlush::zone(Zone(FAILING))).unwrap_or_default();
        flushes.flush_us.push(us(begun));
        let begun = clock::thread_time();
        while conntrack.drain() {}
        flushes.drain_us.push(us(begun));
        flushes.flushed.push(flushed.into());
    }
    flushes
}

impl Station {
    fn new(zones: u16) -> Result<Station, BenchError> {
        let connections_max = 2 * CONNECTIONS * u32::from(zones);
        let config = Config { connections_max, ..Config::default() };
        let conntrack = Arc::new(Conntrack::new(fastrand::u64(..), config));
        let switch = Switch::with_ports(3, RULES, WorkerId(0), Arc::clone(&conntrack))?;
        let allowances = [Allowance::default(), Allowance::default()];
        let mut frame = vec![0; 60];
        frame[..TEMPLATE.len()].copy_from_slice(&TEMPLATE);
        let port = |of: fn(&mut [u8], u32), allowance: &Allowance| {
            RoundRobin::new(frame.clone(), of, allowance.clone())
        };
        let silent = RoundRobin::new(Vec::new(), |_, _| {}, Allowance::default());
        let queues = [port(of_failing, &allowances[0]), port(of_others, &allowances[1]), silent];
        let cable = |(rx, number)| -> Cable {
            Cable { port: PortNo(number), rx: Box::new(rx), tx: Box::new(Discard) }
        };
        let cables = queues.into_iter().zip(1..).map(cable).collect();
        let packets = u64::from(2 * CONNECTIONS);
        allowances[0].set_flows(0, packets);
        allowances[1].set_flows(0, packets * u64::from(zones - 1));
        Ok(Station { switch, conntrack, cables, allowances, time: OwnTime::start() })
    }

    /// Makes all connections.
    fn fill(&mut self, zones: u16) -> Result<(), BenchError> {
        let packets = u64::from(2 * CONNECTIONS);
        self.allowances[0].add(packets);
        self.allowances[1].add(packets * u64::from(zones - 1));
        for port in 0..self.allowances.len() {
            while self.switch.iterate(self.time.now(), &mut self.cables, port)? > 0 {}
        }
        let (have, want) = (self.conntrack.connections(), CONNECTIONS * u32::from(zones));
        if have != want {
            let wrong = format!("there are {have} connections, not {want}");
            return Err(BenchError::WrongWork(wrong));
        }
        Ok(())
    }

    /// Plays a batch of each port in turn. Returns the waits of the other zones' packets, in microseconds.
    fn play(&mut self, mut is_over: impl FnMut(Instant) -> bool) -> Result<Vec<f64>, BenchError> {
        let (mut waits, mut last) = (Vec::new(), self.time.now());
        loop {
            for port in 0..self.allowances.len() {
                self.allowances[port].add(base::limits::BATCH_SIZE as u64);
                let received = self.switch.iterate(self.time.now(), &mut self.cables, port)?;
                self.switch.expire_own(self.time.now(), received);
            }
            let now = self.time.now();
            waits.push((now - last).as_nanos() as f64 / 1e3);
            last = now;
            if is_over(now) {
                return Ok(waits);
            }
        }
    }
}

/// A packet of the failing zone: of each connection, one each way.
fn of_failing(frame: &mut [u8], number: u32) {
    set(frame, FAILING, number);
}

/// A packet of the other zones.
fn of_others(frame: &mut [u8], number: u32) {
    let packets = 2 * CONNECTIONS;
    set(frame, FAILING + 1 + (number / packets) as u16, number % packets);
}

fn set(frame: &mut [u8], zone: u16, number: u32) {
    let [high, low] = zone.to_be_bytes();
    let server = [SERVERS[0], SERVERS[1], high, low];
    let port = 1024 + (number / 2) as u16;
    let is_reply = number % 2 == 1;
    let (from, to) = if is_reply { (server, CLIENT) } else { (CLIENT, server) };
    let ports = if is_reply { (SERVER_PORT, port) } else { (port, SERVER_PORT) };
    packets::set_source(frame, from);
    packets::set_destination(frame, to);
    packets::set_ports(frame, ports.0, ports.1);
}

fn report(
    args: &FailoverArgs,
    before: &[f64],
    during: &[f64],
    flushes: &Flushes,
) -> Result<Outcome, BenchError> {
    let of = |samples: &[f64]| {
        let none = || BenchError::WrongWork("nothing was sampled".into());
        Summary::of(samples).ok_or_else(none)
    };
    let (before, during) = (of(before)?, of(during)?);
    let (flush, drain) = (of(&flushes.flush_us)?, of(&flushes.drain_us)?);
    let flushed = of(&flushes.flushed)?;
    if flushed.median == 0.0 {
        return Err(BenchError::WrongWork("flushes found no connection".into()));
    }
    let mut text = format!(
        "{} zones of {CONNECTIONS} connections, one of them flushed {} times and made again; \
         microseconds of processor time\n{:34}{:>10}{:>10}{:>10}{:>10}{:>10}{:>10}\n",
        args.zones, args.failovers, "", "min", "median", "95%", "99%", "max", "mean"
    );
    for (name, it) in [
        ("wait of other zones, no failover", before),
        ("wait of other zones, failovers", during),
        ("flush", flush),
        ("handing its memory back", drain),
        ("connections that a flush took", flushed),
    ] {
        // Writing to a string cannot fail.
        let _ = write!(text, "{name:34}");
        for number in [it.min, it.median, it.p95, it.p99, it.max, it.mean] {
            let _ = write!(text, "{number:>10.2}");
        }
        text.push('\n');
    }
    text.push_str(
        "Open vSwitch does not run in this process; --peer ovs measures whole switches\n",
    );
    let json = json!({
        "zones": args.zones,
        "connections_per_zone": CONNECTIONS,
        "failovers": args.failovers,
        "wait_us_without": before,
        "wait_us": during,
        "wait_mean_ratio": during.mean / before.mean,
        "flush_us": flush,
        "drain_us": drain,
        "flushed": flushed,
        "time": "processor time of each thread",
    });
    Ok(Outcome { text, json })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_zone_fails_over_and_others_go_on() {
        let folder = tempfile::tempdir().unwrap();
        let svg = folder.path().join("waits.svg");
        let args =
            FailoverArgs { zones: 2, failovers: 2, peer: None, svg: Some(svg.clone()), json: true };
        let Outcome { text, json } = measure(&args).unwrap();
        assert!(json["flushed"]["max"].as_f64().unwrap() <= 10_000.0, "{json}");
        assert!(json["flushed"]["min"].as_f64().unwrap() > 0.0, "{json}");
        for waits in ["wait_us", "wait_us_without"] {
            assert!(json[waits]["median"].as_f64().unwrap() > 0.0, "{json}");
        }
        assert!(text.contains("wait of other zones, failovers"), "{text}");
        assert!(std::fs::read_to_string(svg).unwrap().contains(">no failover<"));
    }

    #[test]
    fn the_longest_wait_of_each_part_is_drawn() {
        let mut waits = vec![1.0; 400];
        waits[399] = 9.0;
        let points = longest_over_time(&waits);
        assert!((100..=200).contains(&points.len()), "{}", points.len());
        assert_eq!((points[0].1, points.last().unwrap().1), (1.0, 9.0));
        assert!((points.last().unwrap().0 - 408e-6).abs() < 1e-9, "{points:?}");
        assert_eq!(longest_over_time(&[]), []);
    }

    #[test]
    fn packets_are_of_their_zone_and_each_has_its_answer() {
        let mut frame = [0; 60];
        frame[..TEMPLATE.len()].copy_from_slice(&TEMPLATE);
        let mut check = |of: fn(&mut [u8], u32), number, ends: [u8; 8], ports: [u8; 4]| {
            of(&mut frame, number);
            assert_eq!(frame[26..34], ends, "{number}");
            assert_eq!(frame[34..38], ports, "{number}");
            let good = wire::checksum::Verdict::Good;
            assert_eq!(wire::checksum::verify_ipv4_header(&frame[14..34]), good, "{number}");
        };
        check(of_failing, 0, [10, 1, 0, 1, 10, 2, 0, 1], [4, 0, 0, 80]);
        check(of_failing, 1, [10, 2, 0, 1, 10, 1, 0, 1], [0, 80, 4, 0]);
        check(of_others, 19_998, [10, 1, 0, 1, 10, 2, 0, 2], [0x2b, 0x0f, 0, 80]);
        check(of_others, 20_000, [10, 1, 0, 1, 10, 2, 0, 3], [4, 0, 0, 80]);
    }
}
