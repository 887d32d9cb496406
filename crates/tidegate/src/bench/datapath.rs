//! `tidegate bench datapath`: traffic through one whole worker, from port to port in memory.

use super::dpdk::DpdkPorts;
use super::flame::PerfArgs;
use super::progress::Progress;
use super::stages::Stages;
use super::switch::{Cable, Discard, PORTS, Switch};
use super::traffic::{self, Traffic};
use super::{BenchError, Outcome};
use crate::clock;
use ::datapath::WorkerStats;
use clap::{ArgGroup, Args, ValueEnum};
use packet::{Batch, Pool};
use port::pcap::{Capture, PcapRx, Play};
use port::{TxCounters, TxQueue};
use serde_json::json;
use std::fmt::Write;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Rounds after which no packet may miss any more.
const SETTLING_ROUNDS: usize = 8;
/// Traffic before the measured time, as a part of it.
const WARM_PART: u32 = 5;
/// How often connections are looked through whose time ran out, as the switch does it.
const SWEEP_EVERY: Duration = Duration::from_millis(100);

/// The flows, which the comparison in `bench/peers/` gives to Open vSwitch too.
const PLAIN: &str = include_str!("flows/plain.flows");
const TRACKED: &str = include_str!("flows/tracked.flows");
const TRANSLATED: &str = include_str!("flows/translated.flows");

/// Measure the datapath: packets from port to port in memory, through one worker
#[derive(Args, Clone, Debug)]
#[command(group(ArgGroup::new("answers").args(["rev", "nat"]).multiple(true)))]
#[command(after_help = "Examples:
  tidegate bench datapath                                   forwarding, 1,000 connections
  tidegate bench datapath --ct --connections 100000         through connection tracking
  tidegate bench datapath --nat --json                      and address translation
  tidegate bench datapath --rules r.flows --fwd a.pcap --rev b.pcap
  tidegate bench datapath --port dpdk --ct                  through DPDK's ports

With --port dpdk the packets come through DPDK's net_pcap (infinite_rx=1), as they come to Open
vSwitch in bench/peers/. DPDK wants 1 GB of huge pages (vm.nr_hugepages=512), or for a try
--dpdk-extra '--no-pci --no-huge -m 1024'.

The two ports are called p0 and p1 in flows; --fwd is played into p0, --rev into p1. Generated
packets are UDP of 60 bytes, one a connection and direction. Each packet is copied once, on
receipt, as from a network card that writes into the switch's buffers. UDP timeouts are the
defaults (60 s, 30 s once answered); all connections are established and in use.")]
pub struct DatapathArgs {
    /// How many connections the traffic is of
    #[arg(long, value_name = "N", default_value_t = 1000, conflicts_with = "fwd", value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    connections: u32,
    /// Track connections: from p0 to p1 they may begin
    #[arg(long)]
    ct: bool,
    /// Track connections and translate their source addresses
    #[arg(long)]
    nat: bool,
    /// Flows to use instead, in the syntax of ovs-ofctl
    #[arg(long, value_name = "FILE", conflicts_with_all = ["ct", "nat"])]
    rules: Option<PathBuf>,
    /// A pcap file to play into p0 in a loop
    #[arg(long, value_name = "FILE", requires = "answers")]
    fwd: Option<PathBuf>,
    /// A pcap file to play into p1 in a loop; with --nat, made from what p1 sent if it is not given
    #[arg(long, value_name = "FILE", requires = "fwd")]
    rev: Option<PathBuf>,
    /// What the packets come through
    #[arg(long, value_enum, value_name = "KIND", default_value = "memory")]
    port: PortKind,
    /// Words of DPDK's command line
    #[arg(long, value_name = "WORDS", default_value = "--no-pci", allow_hyphen_values = true)]
    dpdk_extra: String,
    /// How long to measure
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=3600))]
    seconds: u32,
    #[command(flatten)]
    perf: PerfArgs,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// What the packets come through.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum PortKind {
    /// Ports in memory
    Memory,
    /// DPDK's net_pcap
    Dpdk,
}

/// Runs the work that the arguments ask for.
pub fn measure(args: &DatapathArgs) -> Result<Outcome, BenchError> {
    run(args, Duration::from_secs(args.seconds.into()))
}

fn run(args: &DatapathArgs, time: Duration) -> Result<Outcome, BenchError> {
    let mut traffic = args.traffic()?;
    let connections_max = 2 * traffic.forward.len().max(traffic.reverse.len()) as u32;
    let mut switch = Switch::new(&args.flows()?, connections_max.max(1 << 20))?;
    if args.nat && args.rev.is_none() {
        traffic.reverse = translated_answers(&mut switch, &traffic.forward)?;
    }
    settle(&mut switch, &traffic)?;
    let dpdk = args.dpdk_ports(&traffic)?;
    let mut cables = match &dpdk {
        Some(ports) => ports.cables()?,
        None => cables(&traffic),
    };
    play(&mut switch, &mut cables, time / WARM_PART)?;
    let progress = Progress::start("forwarding", time.as_millis() as u64);
    let looking = args.perf.start()?;
    let (before, processor) = (switch.stats().clone(), clock::thread_time());
    let elapsed = play_watched(&mut switch, &mut cables, time, &progress)?;
    let processor = clock::thread_time().saturating_sub(processor);
    let seen = looking.stop("tidegate bench datapath")?;
    drop(progress);
    let counted = Counted::between(&before, switch.stats());
    if counted.packets == 0 {
        return Err(BenchError::WrongWork("no packet was received".into()));
    }
    let connections = switch.conntrack().connections();
    let stages = Stages::measure(&mut switch, &mut cables)?;
    let flows = switch.flows().len();
    let port = args.port;
    let measured = Measured { port, elapsed, processor, counted, connections, flows, stages };
    let mut outcome = report(&measured);
    seen.add_to(&mut outcome);
    Ok(outcome)
}

impl DatapathArgs {
    fn flows(&self) -> Result<String, BenchError> {
        match &self.rules {
            Some(file) => std::fs::read_to_string(file)
                .map_err(|source| BenchError::ReadRules { file: file.clone(), source }),
            None if self.nat => Ok(TRANSLATED.into()),
            None if self.ct => Ok(TRACKED.into()),
            None => Ok(PLAIN.into()),
        }
    }

    /// The ports, where they are DPDK's.
    fn dpdk_ports(&self, traffic: &Traffic) -> Result<Option<DpdkPorts>, BenchError> {
        if self.port == PortKind::Memory {
            return Ok(None);
        }
        let given = self.fwd.as_deref().zip(self.rev.as_deref()).map(|(fwd, rev)| [fwd, rev]);
        DpdkPorts::open(traffic, given, &self.dpdk_extra).map(Some)
    }

    fn traffic(&self) -> Result<Traffic, BenchError> {
        match (&self.fwd, &self.rev) {
            (Some(fwd), Some(rev)) => {
                Ok(Traffic { forward: Capture::open(fwd)?, reverse: Capture::open(rev)? })
            }
            // The answers to translated packets are made when these are known.
            (Some(fwd), None) => {
                Ok(Traffic { forward: Capture::open(fwd)?, reverse: traffic::capture(&[])? })
            }
            _ => Ok(Traffic::generate(self.connections)?),
        }
    }
}

/// The ports' two ends, playing from the beginning.
fn cables(traffic: &Traffic) -> [Cable; 2] {
    let [forward, reverse] = [&traffic.forward, &traffic.reverse]
        .map(|capture| Box::new(PcapRx::new(capture.clone(), Play::Loop)));
    let [client, server] = PORTS.map(|(_, port)| port);
    [
        Cable { port: client, rx: forward, tx: Box::new(Discard) },
        Cable { port: server, rx: reverse, tx: Box::new(Discard) },
    ]
}

/// Keeps a copy of what is sent.
#[derive(Clone, Default)]
struct Record(Arc<Mutex<Vec<Vec<u8>>>>);

impl TxQueue for Record {
    fn send(&mut self, pool: &mut Pool, batch: &mut Batch) -> TxCounters {
        let mut frames = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        frames.extend(batch.iter().map(|packet| packet.data().to_vec()));
        Discard.send(pool, batch)
    }
}

/// The servers' answers to the clients' packets as the switch has translated them. The servers
/// know nothing of the clients' own addresses.
fn translated_answers(switch: &mut Switch, forward: &Capture) -> Result<Capture, BenchError> {
    let record = Record::default();
    let nothing = traffic::capture(&[])?;
    let mut cables = cables(&Traffic { forward: forward.clone(), reverse: nothing });
    cables[0].rx = Box::new(PcapRx::new(forward.clone(), Play::Once));
    cables[1].tx = Box::new(record.clone());
    while switch.turn(clock::now(), &mut cables, 0)? > 0 {}
    let frames = record.0.lock().unwrap_or_else(PoisonError::into_inner);
    if frames.len() != forward.len() {
        let wrong = format!("{} of {} first packets were translated", frames.len(), forward.len());
        return Err(BenchError::WrongWork(wrong));
    }
    let answers: Vec<_> = frames.iter().map(|frame| traffic::answer(frame)).collect();
    Ok(traffic::capture(&answers)?)
}

/// Plays all of the traffic once and again until no packet misses a flow.
fn settle(switch: &mut Switch, traffic: &Traffic) -> Result<(), BenchError> {
    for _ in 0..SETTLING_ROUNDS {
        let missed = switch.stats().misses + switch.stats().lost;
        let mut cables = cables(traffic);
        cables[0].rx = Box::new(PcapRx::new(traffic.forward.clone(), Play::Once));
        cables[1].rx = Box::new(PcapRx::new(traffic.reverse.clone(), Play::Once));
        loop {
            let now = clock::now();
            let received = switch.turn(now, &mut cables, 0)? + switch.turn(now, &mut cables, 1)?;
            if received == 0 {
                break;
            }
        }
        if switch.stats().misses + switch.stats().lost == missed {
            return Ok(());
        }
    }
    Err(BenchError::WrongWork("packets still miss after every one was played several times".into()))
}

fn play(switch: &mut Switch, cables: &mut [Cable; 2], time: Duration) -> Result<(), BenchError> {
    let silent = Progress::start("warming up", time.as_millis() as u64);
    play_watched(switch, cables, time, &silent).map(|_| ())
}

/// Plays both sides in turn for so long; gives how long it took in the end.
fn play_watched(
    switch: &mut Switch,
    cables: &mut [Cable; 2],
    time: Duration,
    progress: &Progress,
) -> Result<Duration, BenchError> {
    let start = clock::now();
    let mut swept = start;
    loop {
        let now = clock::now();
        if now - start >= time {
            return Ok(now - start);
        }
        switch.turn(now, cables, 0)?;
        switch.turn(now, cables, 1)?;
        if now - swept >= SWEEP_EVERY {
            progress.advance((now - swept).as_millis() as u64);
            swept = now;
            switch.tick(now);
        }
    }
}

/// What the worker counted in the measured time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Counted {
    packets: u64,
    sent: u64,
    dropped: u64,
    misses: u64,
}

impl Counted {
    fn between(before: &WorkerStats, after: &WorkerStats) -> Counted {
        Counted {
            packets: after.received - before.received,
            sent: after.sent - before.sent,
            dropped: after.drops.total() - before.drops.total(),
            misses: after.misses - before.misses,
        }
    }
}

struct Measured {
    port: PortKind,
    elapsed: Duration,
    /// Of this, what the worker had of a processor.
    processor: Duration,
    counted: Counted,
    connections: u32,
    flows: usize,
    stages: Stages,
}

fn report(it: &Measured) -> Outcome {
    let Counted { packets, sent, dropped, misses } = it.counted;
    let ns = it.elapsed.as_nanos() as f64 / packets as f64;
    let rate = packets as f64 / it.elapsed.as_secs_f64();
    let mut text = format!("{:.2} million packets a second, {ns:.1} ns a packet\n", rate / 1e6);
    // Writing to a string cannot fail.
    let _ = writeln!(
        text,
        "{packets} packets received, {sent} sent, {dropped} dropped, {misses} missed; \
         {} connections, {} flows",
        it.connections, it.flows
    );
    for (name, share) in it.stages.shares() {
        let _ = writeln!(text, "  {name:11}{:5.1}%", share * 100.0);
    }
    let _ = writeln!(
        text,
        "(stages by the clock, played a second time: {:.1} ns a packet with its looks at the clock)",
        it.stages.total()
    );
    let shares: std::collections::BTreeMap<&str, f64> = it.stages.shares().into_iter().collect();
    let json = json!({
        "packets_per_second": rate,
        "ns_per_packet": ns,
        "packets": packets,
        "sent": sent,
        "dropped": dropped,
        "missed": misses,
        "connections": it.connections,
        "flows": it.flows,
        "workers": 1,
        "port": match it.port {
            PortKind::Memory => "memory",
            PortKind::Dpdk => "dpdk",
        },
        "elapsed_ms": it.elapsed.as_nanos() as f64 / 1e6,
        "processor_ms": it.processor.as_nanos() as f64 / 1e6,
        "stages": shares,
        "stages_ns_per_packet": it.stages,
        "udp_timeouts_s": {"first": 60, "single": 60, "multiple": 30},
    });
    Outcome { text, json }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: DatapathArgs,
    }

    fn read(line: &str) -> Result<DatapathArgs, clap::Error> {
        let words = std::iter::once("datapath").chain(line.split_whitespace());
        Line::try_parse_from(words).map(|line| line.args)
    }

    fn short(line: &str) -> Result<Outcome, BenchError> {
        run(&read(line).unwrap(), Duration::from_millis(50))
    }

    #[test]
    fn what_cannot_be_measured_is_refused() {
        let lines = [
            "--connections 0",
            "--seconds 0",
            "--fwd x",
            "--rev x",
            "--fwd x --rev y --connections 5",
            "--rules x --ct",
            "--rules x --nat",
            "--port x",
            "x",
        ];
        for line in lines {
            assert!(read(line).is_err(), "{line}");
        }
    }

    #[test]
    fn a_short_run_sends_every_packet_on() {
        let cases = [
            ("--connections 100", 0),
            ("--connections 100 --ct", 100),
            ("--connections 100 --nat", 100),
        ];
        for (line, connections) in cases {
            let Outcome { text, json } = short(line).unwrap();
            let number = |name: &str| json[name].as_u64().unwrap();
            assert!(number("packets") > 0, "{line}: {json}");
            assert_eq!(number("packets"), number("sent"), "{line}: {json}");
            assert_eq!((number("dropped"), number("missed")), (0, 0), "{line}: {json}");
            assert_eq!(number("connections"), connections, "{line}: {json}");
            assert!(json["ns_per_packet"].as_f64().unwrap() > 0.0);
            let shares = json["stages"].as_object().unwrap();
            let sum: f64 = shares.values().map(|share| share.as_f64().unwrap()).sum();
            assert!((sum - 1.0).abs() < 1e-9, "{line}: {json}");
            assert!(shares["lookup"].as_f64().unwrap() > 0.0, "{line}: {json}");
            assert!(text.contains("million packets a second"), "{text}");
        }
    }

    #[test]
    fn dpdk_ports_carry_the_same_traffic_or_there_are_none() {
        let line = "--connections 100 --ct --port dpdk";
        let mut args = read(line).unwrap();
        args.dpdk_extra = "--no-pci --no-huge -m 512".to_owned();
        let measured = run(&args, Duration::from_millis(50));
        if port_dpdk::version().is_none() {
            return assert!(measured.unwrap_err().to_string().contains("has no DPDK"));
        }
        let json = match measured {
            Ok(Outcome { json, .. }) => json,
            Err(BenchError::Dpdk(why)) => {
                println!("\nSKIPPED: dpdk_ports_carry_the_same_traffic: {why}");
                return;
            }
            Err(error) => panic!("{error}"),
        };
        let number = |name: &str| json[name].as_u64().unwrap();
        assert!(number("packets") > 0, "{json}");
        assert_eq!(number("packets"), number("sent"), "{json}");
        assert_eq!((number("missed"), number("connections")), (0, 100), "{json}");
        assert_eq!(json["port"], "dpdk");
    }

    #[test]
    fn files_are_played_and_flows_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).display().to_string();
        let frame = |byte: u8| vec![byte; 60];
        for (name, byte) in [("a.pcap", 1), ("b.pcap", 2)] {
            let mut file =
                port::PcapTx::create(folder.path().join(name).as_path(), || Duration::ZERO)
                    .unwrap();
            file.record(Duration::ZERO, &frame(byte)).unwrap();
        }
        let flows = "# one way only\n\nin_port=p0 actions=mod_dl_src:02:00:00:00:00:09,p1\n";
        std::fs::write(path("rules"), flows).unwrap();
        let line =
            format!("--fwd {} --rev {} --rules {}", path("a.pcap"), path("b.pcap"), path("rules"));
        let Outcome { json, .. } = short(&line).unwrap();
        let number = |name: &str| json[name].as_u64().unwrap();
        assert_eq!(number("sent") * 2, number("packets"), "{json}");
        assert_eq!(number("dropped") * 2, number("packets"), "{json}");
        assert!(json["stages"]["actions"].as_f64().unwrap() > 0.0, "{json}");

        std::fs::write(path("rules"), "in_port=p0 actions=p1\nin_port=p9 actions=drop\n").unwrap();
        let error = short(&line).map(|_| ()).unwrap_err().to_string();
        assert!(error.starts_with("line 2: \"in_port=p9 actions=drop\""), "{error}");
        let error = short("--rules /nonexistent/x").map(|_| ()).unwrap_err().to_string();
        assert!(error.starts_with("/nonexistent/x: No such file"), "{error}");
    }
}
