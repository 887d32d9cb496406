//! `tidegate bench datapath`: traffic through whole workers, from port to port in memory.

mod workers;

use super::dpdk::{self, DpdkPorts};
use super::flame::PerfArgs;
use super::measured::{Counted, Measured, Played, PortKind};
use super::progress::Progress;
use super::traffic::{self, Traffic};
use super::tunnel::{OUTER_BYTES, Tunnel};
use super::{BenchError, Outcome};
use ::conntrack::{Config, Conntrack};
use clap::{ArgGroup, Args};
use load::generate::numbers::whole;
use load::in_memory::Stages;
use load::in_memory::{Cable, Discard, PORTS, Switch};
use packet::{Batch, Pool};
use port::pcap::{Capture, PcapRx, Play};
use port::{TxCounters, TxQueue};
use serde_json::json;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The name of a flame graph.
const TITLE: &str = "tidegate bench datapath";
/// Rounds after which every packet must hit.
const SETTLING_ROUNDS: usize = 8;
/// Duration of the traffic before the measurement, as a fraction of it.
pub const WARM_PART: u32 = 5;
/// Default size of a frame in a tunnel: 64 bytes inside.
const TUNNELLED_BYTES: usize = 114;
/// Interval of the expiry of connections, as in the switch.
const SWEEP_EVERY: Duration = Duration::from_millis(100);

/// The flows. The comparison in `bench/peers/` uses them for Open vSwitch, too.
const PLAIN: &str = include_str!("flows/plain.flows");
const TRACKED: &str = include_str!("flows/tracked.flows");
const NAT: &str = include_str!("flows/nat.flows");

/// Measure the datapath: packets from port to port in memory, through whole workers
#[derive(Args, Clone, Debug)]
#[command(group(ArgGroup::new("answers").args(["rev", "nat"]).multiple(true)))]
#[command(after_help = "Examples:
  tidegate bench datapath                                   forwarding, 1,000 connections
  tidegate bench datapath --ct --connections 100000         through connection tracking
  tidegate bench datapath --nat --json                      and NAT
  tidegate bench datapath --rules r.flows --fwd a.pcap --rev b.pcap
  tidegate bench datapath --port dpdk --ct                  through DPDK's ports
  tidegate bench datapath --tunnel vxlan --frame 114 --ct   behind VXLAN, 64 bytes inside
  tidegate bench datapath --ct --workers 2                  two workers against one

With --port dpdk the packets come through DPDK's net_pcap (infinite_rx=1), as they come to Open \
vSwitch in bench/peers/. DPDK needs 1 GB of huge pages (vm.nr_hugepages=512), or, to try it without \
them, --dpdk-extra '--no-pci --no-huge -m 1024'.

With several workers each has a processor, two ports, flows and connections of its own, in one table \
of connections. Worker 0 is measured alone first, and then all at once: `ratio` is their rate \
together over that of one alone. --fwd and --rev given once are every worker's; or give one for \
each.

The two ports are called p0 and p1 in flows; --fwd is played into p0, --rev into p1. Generated \
packets are UDP of 60 bytes, one per connection and direction. With --tunnel, flows' p1 is a tunnel \
whose outer packets pass a bridge of their own on their way to and from p1, and --rev has outer \
packets. Each packet is copied once, on receipt, as from a network card that writes into the \
switch's buffers. UDP timeouts are the defaults (60 s, 30 s once answered); all connections are \
established and in use.")]
pub struct DatapathArgs {
    /// Connections per worker in the traffic
    #[arg(long, value_name = "N", default_value_t = 1000, conflicts_with = "fwd", value_parser = whole::<u32>(1..=10_000_000))]
    connections: u32,
    /// Track connections; only p0 may open them
    #[arg(long)]
    ct: bool,
    /// Track connections with source NAT
    #[arg(long)]
    nat: bool,
    /// Flows to use instead, in the syntax of ovs-ofctl
    #[arg(long, value_name = "FILE", conflicts_with_all = ["ct", "nat"])]
    rules: Option<PathBuf>,
    /// Put the servers behind a tunnel: p1 is then a tunnel port
    #[arg(long, value_enum, value_name = "KIND")]
    tunnel: Option<Tunnel>,
    /// Bytes of each frame on the servers' side, including tunnel headers: 60, or 114 in a tunnel
    #[arg(long, value_name = "BYTES", conflicts_with = "fwd", value_parser = whole::<u16>(60..=1514))]
    frame: Option<u16>,
    /// Number of workers
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = whole::<u16>(1..=64))]
    pub workers: u16,
    /// A pcap file to play into p0 in a loop
    #[arg(long, value_name = "FILE", requires = "answers")]
    fwd: Vec<PathBuf>,
    /// A pcap file to play into p1 in a loop; with --nat, made from what p1 sent if it is not given
    #[arg(long, value_name = "FILE", requires = "fwd")]
    rev: Vec<PathBuf>,
    /// The kind of ports
    #[arg(long, value_enum, value_name = "KIND", default_value = "memory")]
    pub port: PortKind,
    /// Further words for DPDK's command line
    #[arg(long, value_name = "WORDS", default_value = "--no-pci", allow_hyphen_values = true)]
    dpdk_extra: String,
    /// Seconds to measure
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = whole::<u32>(1..=3600))]
    seconds: u32,
    #[command(flatten)]
    perf: PerfArgs,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// Runs the work that the arguments ask for.
pub fn measure(args: &DatapathArgs) -> Result<Outcome, BenchError> {
    run(args, Duration::from_secs(args.seconds.into()))
}

fn run(args: &DatapathArgs, time: Duration) -> Result<Outcome, BenchError> {
    args.start_dpdk()?;
    let conntrack = args.conntrack()?;
    if args.workers > 1 {
        let looking = args.perf.start()?;
        let mut outcome = workers::run(args, time, &conntrack)?;
        looking.stop(TITLE)?.add_to(&mut outcome);
        return Ok(outcome);
    }
    let mut station = Station::prepare(args, 0, &conntrack)?;
    station.play(time / WARM_PART, None)?;
    let progress = Progress::start("forwarding", time.as_millis() as u64);
    let looking = args.perf.start()?;
    let played = station.play(time, Some(&progress))?;
    let seen = looking.stop(TITLE)?;
    drop(progress);
    let stages = Stages::measure(&mut station.switch, &mut station.cables)?;
    let (connections, flows) = (conntrack.connections(), station.switch.flow_count());
    let mut outcome = report(args.port, &Measured { played, connections, flows, stages });
    outcome.json["tunnel"] = json!(args.tunnel.map(Tunnel::name));
    seen.add_to(&mut outcome);
    Ok(outcome)
}

/// A worker with its ports, and traffic that hits its flows.
pub struct Station {
    pub switch: Switch,
    pub cables: [Cable; 2],
    _dpdk: Option<DpdkPorts>,
}

impl Station {
    pub fn prepare(
        args: &DatapathArgs,
        worker: u16,
        conntrack: &Arc<Conntrack>,
    ) -> Result<Station, BenchError> {
        let mut traffic = args.traffic(worker)?;
        let (id, shared) = (base::WorkerId(worker), Arc::clone(conntrack));
        let mut switch = match args.tunnel {
            Some(tunnel) => Switch::with_tunnel(tunnel.kind(), &args.flows()?, id, shared)?,
            None => Switch::sharing(&args.flows()?, id, shared)?,
        };
        if args.nat && args.rev.is_empty() {
            traffic.reverse = answers_after_nat(&mut switch, &traffic.forward, args.tunnel)?;
        }
        settle(&mut switch, &traffic)?;
        let dpdk = args.dpdk_ports(worker, &traffic)?;
        let cables = match &dpdk {
            Some(ports) => ports.cables()?,
            None => cables(&traffic),
        };
        Ok(Station { switch, cables, _dpdk: dpdk })
    }

    /// Plays both sides in turn for this time.
    pub fn play(
        &mut self,
        time: Duration,
        progress: Option<&Progress>,
    ) -> Result<Played, BenchError> {
        let (before, processor) = (self.switch.stats().clone(), clock::thread_time());
        let elapsed = play(&mut self.switch, &mut self.cables, time, progress)?;
        let processor = clock::thread_time().saturating_sub(processor);
        let counted = Counted::between(&before, self.switch.stats());
        if counted.packets == 0 {
            return Err(BenchError::WrongWork("no packet was received".into()));
        }
        Ok(Played { elapsed, processor, counted })
    }
}

/// Returns the file of this worker, or the only one.
fn file_of(files: &[PathBuf], worker: u16) -> Option<&Path> {
    let at = if files.len() == 1 { 0 } else { usize::from(worker) };
    files.get(at).map(PathBuf::as_path)
}

impl DatapathArgs {
    fn flows(&self) -> Result<String, BenchError> {
        match &self.rules {
            Some(file) => std::fs::read_to_string(file)
                .map_err(|source| BenchError::ReadRules { file: file.clone(), source }),
            None if self.nat => Ok(NAT.into()),
            None if self.ct => Ok(TRACKED.into()),
            None => Ok(PLAIN.into()),
        }
    }

    /// Returns the number of connections of all workers.
    fn conntrack(&self) -> Result<Arc<Conntrack>, BenchError> {
        let mut packets = 0;
        for worker in 0..self.workers {
            let traffic = self.traffic(worker)?;
            packets += traffic.forward.len().max(traffic.reverse.len()) as u32;
        }
        let connections_max = packets.saturating_mul(2).max(1 << 20);
        let config = Config { connections_max, ..Config::default() };
        Ok(Arc::new(Conntrack::new(fastrand::u64(..), config)))
    }

    fn start_dpdk(&self) -> Result<(), BenchError> {
        match self.port {
            PortKind::Memory => Ok(()),
            PortKind::Dpdk => dpdk::start(&self.dpdk_extra),
        }
    }

    /// The ports, if they are DPDK's.
    fn dpdk_ports(&self, worker: u16, traffic: &Traffic) -> Result<Option<DpdkPorts>, BenchError> {
        if self.port == PortKind::Memory {
            return Ok(None);
        }
        let given = file_of(&self.fwd, worker).zip(file_of(&self.rev, worker));
        DpdkPorts::open(worker, traffic, given.map(<[&Path; 2]>::from)).map(Some)
    }

    /// Returns the size of the clients' frames.
    fn inner_frame_bytes(&self) -> Result<usize, BenchError> {
        let outer = if self.tunnel.is_some() { OUTER_BYTES } else { 0 };
        let default = if self.tunnel.is_some() { TUNNELLED_BYTES } else { traffic::FRAME_BYTES };
        let bytes = self.frame.map_or(default, usize::from);
        let least = outer + traffic::FRAME_BYTES;
        if bytes < least {
            let wrong = format!("--frame {bytes}: a frame in a tunnel has at least {least} bytes");
            return Err(BenchError::WrongWork(wrong));
        }
        Ok(bytes - outer)
    }

    fn traffic(&self, worker: u16) -> Result<Traffic, BenchError> {
        for (option, files) in [("--fwd", &self.fwd), ("--rev", &self.rev)] {
            if files.len() > 1 && files.len() != usize::from(self.workers) {
                let (files, workers) = (files.len(), self.workers);
                let wrong = format!("{option} names {files} files for {workers} workers");
                return Err(BenchError::WrongWork(wrong));
            }
        }
        match (file_of(&self.fwd, worker), file_of(&self.rev, worker)) {
            (Some(fwd), Some(rev)) => {
                Ok(Traffic { forward: Capture::open(fwd)?, reverse: Capture::open(rev)? })
            }
            // Replies to packets after NAT can be made only when these are known.
            (Some(fwd), None) => {
                Ok(Traffic { forward: Capture::open(fwd)?, reverse: traffic::capture(&[])? })
            }
            _ => {
                let first = u32::from(worker) * self.connections;
                let bytes = self.inner_frame_bytes()?;
                Ok(Traffic::generate(first, self.connections, bytes, self.tunnel)?)
            }
        }
    }
}

/// The peers of the two ports, which play from the beginning.
fn cables(traffic: &Traffic) -> [Cable; 2] {
    let [forward, reverse] = [&traffic.forward, &traffic.reverse]
        .map(|capture| Box::new(PcapRx::new(capture.clone(), Play::Loop)));
    let [client, server] = PORTS.map(|(_, port)| port);
    [
        Cable { port: client, rx: forward, tx: Box::new(Discard) },
        Cable { port: server, rx: reverse, tx: Box::new(Discard) },
    ]
}

/// Records what is sent.
#[derive(Clone, Default)]
struct Record(Arc<Mutex<Vec<Vec<u8>>>>);

impl TxQueue for Record {
    fn send(&mut self, pool: &mut Pool, batch: &mut Batch) -> TxCounters {
        let mut frames = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        frames.extend(batch.iter().map(|packet| packet.data().to_vec()));
        Discard.send(pool, batch)
    }
}

/// Returns the servers' replies to the clients' packets after NAT. The servers do not know the clients' own
/// addresses.
fn answers_after_nat(
    switch: &mut Switch,
    forward: &Capture,
    tunnel: Option<Tunnel>,
) -> Result<Capture, BenchError> {
    let record = Record::default();
    let nothing = traffic::capture(&[])?;
    let mut cables = cables(&Traffic { forward: forward.clone(), reverse: nothing });
    cables[0].rx = Box::new(PcapRx::new(forward.clone(), Play::Once));
    cables[1].tx = Box::new(record.clone());
    while switch.iterate(clock::now(), &mut cables, 0)? > 0 {}
    let frames = record.0.lock().unwrap_or_else(PoisonError::into_inner);
    if frames.len() != forward.len() {
        let wrong = format!("{} of {} first packets came out of NAT", frames.len(), forward.len());
        return Err(BenchError::WrongWork(wrong));
    }
    let answer = |frame: &Vec<u8>| match tunnel {
        Some(tunnel) => tunnel.wrap(&traffic::answer(tunnel.unwrap(frame))),
        None => traffic::answer(frame),
    };
    let answers: Vec<_> = frames.iter().map(answer).collect();
    Ok(traffic::capture(&answers)?)
}

/// Plays all traffic repeatedly until every packet hits.
fn settle(switch: &mut Switch, traffic: &Traffic) -> Result<(), BenchError> {
    for _ in 0..SETTLING_ROUNDS {
        let missed = switch.stats().misses + switch.stats().lost;
        let mut cables = cables(traffic);
        cables[0].rx = Box::new(PcapRx::new(traffic.forward.clone(), Play::Once));
        cables[1].rx = Box::new(PcapRx::new(traffic.reverse.clone(), Play::Once));
        loop {
            let now = clock::now();
            let received =
                switch.iterate(now, &mut cables, 0)? + switch.iterate(now, &mut cables, 1)?;
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

/// Plays both sides in turn for this time. Returns the actual duration.
fn play(
    switch: &mut Switch,
    cables: &mut [Cable; 2],
    time: Duration,
    progress: Option<&Progress>,
) -> Result<Duration, BenchError> {
    let start = clock::now();
    let mut swept = start;
    loop {
        let now = clock::now();
        if now - start >= time {
            return Ok(now - start);
        }
        switch.iterate(now, cables, 0)?;
        switch.iterate(now, cables, 1)?;
        if now - swept >= SWEEP_EVERY {
            if let Some(progress) = progress {
                progress.advance((now - swept).as_millis() as u64);
            }
            swept = now;
            switch.tick(now);
        }
    }
}

fn report(port: PortKind, it: &Measured) -> Outcome {
    let Counted { packets, sent, dropped, misses } = it.played.counted;
    let rate = it.played.rate();
    let mut text =
        format!("{:.2} million packets per second, {:.1} ns per packet\n", rate / 1e6, 1e9 / rate);
    // Writing to a string cannot fail.
    let _ = writeln!(
        text,
        "{packets} packets received, {sent} sent, {dropped} dropped, {misses} missed; \
         {} connections, {} flows",
        it.connections, it.flows
    );
    it.write_stages(&mut text);
    let mut json = it.played.json();
    it.describe(port, &mut json);
    json["workers"] = json!(1);
    Outcome { text, json }
}

#[cfg(test)]
mod tests;
