//! `tidegate lab`: a published testbed, in namespaces on this machine. `akraino` is that of the SmartNIC
//! measurements: three hypervisors on one underlay, VXLAN between them, connection tracking on each, `nginx`
//! in a guest of the first and `wrk` in guests of the others.
//!
//! As with `tidegate demo`, the program runs twice, and the kernel removes everything with the second
//! process.

mod chart;
mod hypervisor;
mod measure;
mod outcome;

use clap::{Args, ValueEnum};
use hypervisor::Switch;
use load::generate::numbers::whole;
use load::provenance::Provenance;
use measure::Traffic;
use outcome::{Outcome, Round};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use testbed::namespaces::{self, Place};
use testbed::{Check, Screen, TestbedError, programs};

/// Path of Open vSwitch's daemon in Debian.
const PEER: &str = "/usr/sbin/ovs-vswitchd";

/// Build a published testbed in namespaces and measure in it.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:
  tidegate lab akraino                         one round of the published measurements
  tidegate lab akraino --peer ovs --rounds 3   compared with Open vSwitch's own daemon
  tidegate lab akraino --seconds 5 --json      shorter, for a script
  tidegate lab akraino --peer ovs --svg l.svg  and a drawing of the table
  tidegate lab akraino --offload               and with connections offloaded to the kernel (XDP)
  tidegate lab akraino --threads 32 --connections 640   wrk as published
  tidegate lab akraino --seconds 1 --shell     and then a shell in the testbed")]
pub struct LabArgs {
    /// The testbed
    #[arg(value_enum)]
    pub testbed: Testbed,
    /// Seconds that each measurement takes
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = whole::<u32>(1..=3600))]
    pub seconds: u32,
    /// Connections that each wrk keeps open at a time
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = whole::<u32>(1..=4000))]
    pub connections: u32,
    /// How many threads each wrk has
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = whole::<u32>(1..=256))]
    pub threads: u32,
    /// Rounds of all measurements
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = whole::<u32>(1..=100))]
    pub rounds: u32,
    /// Measure another switch in the same testbed, alternating with ours
    #[arg(long, value_enum)]
    pub peer: Option<Peer>,
    /// Measure the switch also with connections offloaded to the kernel (XDP), in turns
    #[arg(long)]
    pub offload: bool,
    /// The switch to measure, started with ovs-vswitchd's own options [default: this program]
    #[arg(long, value_name = "PROGRAM")]
    pub switch: Option<PathBuf>,
    /// Print one JSON object at the end; everything else goes to standard error
    #[arg(long)]
    pub json: bool,
    /// Draw the table into a file
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// Open a shell in the testbed at the end, with all programs still running
    #[arg(long, conflicts_with = "json")]
    pub shell: bool,
}

/// A testbed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Testbed {
    /// Three hypervisors with VXLAN and connection tracking
    Akraino,
}

/// Another switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Peer {
    /// Debian's ovs-vswitchd with its userspace datapath
    Ovs,
}

/// Runs the lab. The exit status is 0 if every check passed and every measurement had answered requests.
/// Failed requests are counted and shown, for they are a result of the comparison.
pub fn run(args: &LabArgs, provenance: &Provenance) -> ExitCode {
    let screen = Screen::of("lab", args.json);
    let needed = args.switch.as_deref().or(args.peer.map(|_| Path::new(PEER)));
    let result = match namespaces::place() {
        Place::Inside => inside(args, &screen, provenance),
        Place::Outside => {
            programs::check(needed).and_then(|()| namespaces::run_again_inside(&screen))
        }
    };
    result.unwrap_or_else(|error| {
        screen.problem(&error.to_string());
        ExitCode::FAILURE
    })
}

fn inside(
    args: &LabArgs,
    screen: &Screen,
    provenance: &Provenance,
) -> Result<ExitCode, TestbedError> {
    namespaces::make_private()?;
    screen.title("Three hypervisors on one underlay, a guest on each");
    // Open vSwitch 3.1 forwards partial checksums unchanged, so with a peer the guests complete theirs.
    hypervisor::build_hosts(args.peer.is_none())?;
    let _nginx = hypervisor::start_nginx()?;
    screen.say(
        "guest1 10.0.1.1 (nginx), guest2 10.0.1.2 (wrk), guest3 10.0.1.3 (wrk); VXLAN, key 101",
    );
    let mut outcome = Outcome::default();
    let switches = switches(args);
    for round in 1..=args.rounds {
        for switch in &switches {
            screen.title(&format!("Round {round} of {}: {}", args.rounds, switch.name));
            let last = round == args.rounds && Some(switch) == switches.last();
            measure_round(args, screen, (round, switch), &mut outcome, last)?;
        }
    }
    outcome.finish(screen, args, provenance);
    if let Some(file) = &args.svg {
        outcome.draw(file)?;
    }
    Ok(if outcome.all_true() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Returns the switches to measure in each round.
fn switches(args: &LabArgs) -> Vec<Switch<'_>> {
    let program = args.switch.as_deref();
    let mut switches = vec![Switch { name: "tidegate", program, offloads: false }];
    if args.offload {
        switches.push(Switch { name: "tidegate-xdp", program, offloads: true });
    }
    let peer = Some(Path::new(PEER));
    switches.extend(args.peer.map(|_| Switch { name: "ovs", program: peer, offloads: false }));
    switches
}

/// Measures one switch once. The last one keeps running for the shell.
fn measure_round(
    args: &LabArgs,
    screen: &Screen,
    (round, switch): (u32, &Switch<'_>),
    outcome: &mut Outcome,
    last: bool,
) -> Result<(), TestbedError> {
    let mut hypervisors = hypervisor::start_all(switch)?;
    let mut check = |check: Check| {
        screen.check(check.is_true(), check.text());
        outcome.checks.push(check);
    };
    for guest in [2, 3] {
        check(measure::reaches(guest)?);
    }
    check(measure::rules_read_back(&hypervisors)?);
    for traffic in [Traffic::Kept, Traffic::Closed] {
        let measured = measure::run(args, &mut hypervisors, traffic)?;
        screen.say(&measured.line());
        outcome.rounds.push(Round { round, name: switch.name, measured });
    }
    if switch.offloads {
        check(measure::is_offloaded(&hypervisors)?);
    }
    if last && args.shell {
        let hosts = "hosts: ip netns exec hv1|hv2|hv3|guest1|guest2|guest3 COMMAND; tools: \
                     OVS_RUNDIR=/run/tidegate/hv1 ovs-vsctl show";
        namespaces::open_shell(screen, hosts)?;
    }
    hypervisors.into_iter().try_for_each(hypervisor::Hypervisor::stop)
}
