//! `tidegate bench offload`: the processor time of forwarding tracked packets between veths, by the switch,
//! by the switch with offload, and by the kernel's forwarding and connection tracking.

mod place;
mod sender;

use crate::progress::Progress;
use crate::summary::Summary;
use crate::{BenchError, Outcome};
use clap::Args;
use load::dut::Inside;
use load::generate::numbers::whole;
use place::Place;
use sender::Sent;
use serde_json::{Value, json};
use std::fmt::Write;
use std::time::Duration;
use testbed::Screen;

/// Measure what forwarding costs in software, offloaded, and by the kernel
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:
  tidegate bench offload                          64-byte frames of one UDP connection, three rounds
  tidegate bench offload --rate 200000 --rounds 5
  tidegate bench offload --seconds 1 --json

A host sends datagrams to another one through veths, in namespaces of their own. Four forwarders \
alternate: a veth from host to host, with nothing between (direct); the switch with a rule set that \
tracks (switch); the same with other_config:hw-offload (offload); and the kernel's IP forwarding \
with an nftables rule set that tracks (kernel).

cpu_ns_per_packet is the time that the sending thread and the switch's process had on processors, \
for each packet that arrived: on veths the kernel forwards in the sender's context. \
forwarding_ns_per_packet is without what the direct path costs, and packets_per_cpu_second is its \
inverse. Time is counted by thread, so that other programs on the machine change it little. Needs \
ovsdb-server, the stock tools and nftables, and for offload the rights to load an XDP program.")]
pub struct OffloadArgs {
    /// Packets sent per second
    #[arg(long, value_name = "N", default_value_t = 50_000, value_parser = whole::<u32>(1000..=1_000_000))]
    rate: u32,
    /// Seconds per measurement
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = whole::<u32>(1..=600))]
    seconds: u32,
    /// Number of rounds; each measures all forwarders in turn
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = whole::<u32>(1..=100))]
    rounds: u32,
    /// Bytes of a frame
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = whole::<u32>(64..=1514))]
    frame: u32,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// What forwards packets between the hosts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Forwarder {
    /// A veth.
    Direct,
    /// The switch.
    Switch,
    /// The switch, which offloads connections to the kernel.
    Offload,
    /// IP forwarding with nftables.
    Kernel,
}

impl Forwarder {
    const ALL: [Forwarder; 4] =
        [Forwarder::Direct, Forwarder::Switch, Forwarder::Offload, Forwarder::Kernel];

    fn name(self) -> &'static str {
        match self {
            Forwarder::Direct => "direct",
            Forwarder::Switch => "switch",
            Forwarder::Offload => "offload",
            Forwarder::Kernel => "kernel",
        }
    }
}

/// What was measured of a forwarder.
#[derive(Default)]
struct Measured {
    cpu_ns: Vec<f64>,
    arrived: Vec<f64>,
    offloaded: Vec<f64>,
}

/// Runs the work that the arguments ask for.
pub fn measure(args: &OffloadArgs) -> Result<Outcome, BenchError> {
    let screen = Screen::of("bench offload", args.json);
    let inside = Inside::enter(&screen, 0).map_err(|error| BenchError::Load(Box::new(error)))?;
    if let Inside::Ended(code) = inside {
        return Err(BenchError::Ended(code));
    }
    let progress =
        Progress::start("forwarding", u64::from(args.rounds) * Forwarder::ALL.len() as u64);
    let mut measured: [Measured; Forwarder::ALL.len()] = Default::default();
    let mut missing = Vec::new();
    for round in 0..args.rounds {
        for (forwarder, measured) in Forwarder::ALL.into_iter().zip(&mut measured) {
            if !missing.iter().any(|(known, _)| *known == forwarder) {
                match one(args, forwarder) {
                    Ok(sent) => measured.add(&sent),
                    // Forwarders that are not available are reported beside the results of the others.
                    Err(BenchError::WrongWork(why)) if round == 0 => missing.push((forwarder, why)),
                    Err(error) => return Err(error),
                }
            }
            progress.advance(1);
        }
    }
    drop(progress);
    outcome(args, &measured, &missing)
}

/// One forwarder in one round.
fn one(args: &OffloadArgs, forwarder: Forwarder) -> Result<Sent, BenchError> {
    let mut place = Place::build(forwarder)?;
    let payload = args.frame as usize - 42;
    let sent =
        sender::run(&mut place, (args.rate, payload), Duration::from_secs(args.seconds.into()));
    place.remove()?;
    sent
}

impl Measured {
    fn add(&mut self, sent: &Sent) {
        let arrived = sent.arrived.max(1) as f64;
        self.cpu_ns.push(sent.cpu.as_nanos() as f64 / arrived);
        self.arrived.push(sent.arrived as f64 / sent.sent.max(1) as f64);
        self.offloaded.push(sent.offloaded as f64 / arrived);
    }
}

fn outcome(
    args: &OffloadArgs,
    measured: &[Measured],
    missing: &[(Forwarder, String)],
) -> Result<Outcome, BenchError> {
    let median = |samples: &[f64]| Summary::of(samples).map(|it| it.median);
    let Some(direct) = median(&measured[0].cpu_ns) else {
        let why = missing.first().map_or("nothing was measured", |(_, why)| why);
        return Err(BenchError::WrongWork(why.to_owned()));
    };
    let mut text = format!(
        "{} packets per second of {} bytes, {} s, {} rounds, medians (least to most)\n\
         {:<9} {:>24} {:>14} {:>16} {:>9} {:>10}\n",
        args.rate,
        args.frame,
        args.seconds,
        args.rounds,
        "forwarder",
        "ns of CPU per packet",
        "forwarding ns",
        "packets per CPU s",
        "arrived",
        "offloaded"
    );
    let mut forwarders = Vec::new();
    for (forwarder, it) in Forwarder::ALL.into_iter().zip(measured) {
        let Some(cpu) = Summary::of(&it.cpu_ns) else { continue };
        let forwarding = (cpu.median - direct).max(0.0);
        let per_second = if forwarding > 0.0 { 1e9 / forwarding } else { 0.0 };
        let share = |samples: &[f64]| median(samples).unwrap_or(0.0);
        let (arrived, offloaded) = (share(&it.arrived), share(&it.offloaded));
        let spread = format!("{:.0} ({:.0} to {:.0})", cpu.median, cpu.min, cpu.max);
        let is_direct = forwarder == Forwarder::Direct;
        let shown = |value: f64| if is_direct { "-".to_owned() } else { format!("{value:.0}") };
        let _ = writeln!(
            text,
            "{:<9} {spread:>24} {:>14} {:>17} {:>8.2}% {:>9.2}%",
            forwarder.name(),
            shown(forwarding),
            shown(per_second),
            arrived * 100.0,
            offloaded * 100.0,
        );
        let figure = |value: f64| if is_direct { Value::Null } else { json!(value) };
        forwarders.push(json!({
            "forwarder": forwarder.name(),
            "cpu_ns_per_packet": cpu.median,
            "cpu_ns_per_packet_samples": it.cpu_ns,
            "forwarding_ns_per_packet": figure(forwarding),
            "packets_per_cpu_second": figure(per_second),
            "arrived_ratio": arrived,
            "offloaded_ratio": offloaded,
        }));
    }
    for (forwarder, why) in missing {
        let _ = writeln!(text, "{}: not measured: {why}", forwarder.name());
    }
    let missing: Vec<Value> =
        missing.iter().map(|it| json!({"forwarder": it.0.name(), "why": it.1})).collect();
    let json = json!({
        "rate": args.rate,
        "frame_bytes": args.frame,
        "seconds": args.seconds,
        "rounds": args.rounds,
        "forwarders": forwarders,
        "not_measured": missing,
    });
    Ok(Outcome { text, json })
}
