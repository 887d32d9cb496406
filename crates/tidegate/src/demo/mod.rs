//! `tidegate demo`: the switch with real traffic, on any Linux machine, with one command.
//!
//! A client and a server in network namespaces of their own communicate through the switch: real `nginx` and
//! `wrk`, the stock `ovs-*` tools, and published stateful rules. Every claim on the screen is checked, and
//! the exit status reports whether all were true.
//!
//! The program runs twice: [`testbed::namespaces`] starts it again inside private namespaces, and the second
//! process runs the demo. When that process ends, in whatever way, the kernel removes its processes, devices
//! and files.

mod hosts;
mod load;
mod report;
#[cfg(test)]
mod tests;

use ::load::generate::numbers::whole;
use std::path::PathBuf;
use std::process::ExitCode;

use ::load::provenance::Provenance;
use clap::{Args, ValueEnum};

use report::Report;
use testbed::{Screen, Switch, TestbedError, namespaces, programs, switch};

/// Show the switch at work: real traffic through connection tracking, in namespaces of its own.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:
  tidegate demo                                      ten seconds of real traffic
  tidegate demo --seconds 3 --json                   the same, shorter, for a script
  tidegate demo --shell                              and then a shell in the testbed
  tidegate demo --switch /usr/sbin/ovs-vswitchd      the same with Open vSwitch's own daemon")]
pub struct DemoArgs {
    /// Seconds that wrk runs
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = whole::<u32>(1..=3600))]
    pub seconds: u32,
    /// Connections that wrk keeps open at a time
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = whole::<u32>(1..=400))]
    pub connections: u32,
    /// The switch to show, started with ovs-vswitchd's own options [default: this program]
    #[arg(long, value_name = "PROGRAM")]
    pub switch: Option<PathBuf>,
    /// Checksum and segmentation offloads of the client and the server
    #[arg(long, value_enum, default_value_t = Offloads::Auto)]
    pub offloads: Offloads,
    /// Print one JSON object at the end; everything else goes to standard error
    #[arg(long)]
    pub json: bool,
    /// Open a shell in the testbed at the end, with all programs still running
    #[arg(long, conflicts_with = "json")]
    pub shell: bool,
}

/// The offloads of the hosts' devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Offloads {
    /// On for this program; off for another, as Open vSwitch 3.1 forwards partial checksums as
    /// they are, which no receiver accepts
    Auto,
    /// As the kernel sets them: partial checksums and frames of up to 64 KB reach the switch
    On,
    /// Off: the hosts complete their checksums themselves
    Off,
}

impl DemoArgs {
    /// Returns whether the hosts keep the kernel's offloads.
    fn offloads_stay_on(&self) -> bool {
        match self.offloads {
            Offloads::Auto => self.switch.is_none(),
            Offloads::On => true,
            Offloads::Off => false,
        }
    }
}

/// Runs the demo. The exit status is 0 if every claim was true.
pub fn run(args: &DemoArgs, provenance: &Provenance) -> ExitCode {
    let screen = Screen::new(args.json);
    let result = match namespaces::place() {
        namespaces::Place::Inside => inside(args, &screen, provenance),
        namespaces::Place::Outside => programs::check(args.switch.as_deref())
            .and_then(|()| namespaces::run_again_inside(&screen)),
    };
    result.unwrap_or_else(|error| {
        screen.problem(&error.to_string());
        ExitCode::FAILURE
    })
}

/// Runs the demo inside the namespaces.
fn inside(
    args: &DemoArgs,
    screen: &Screen,
    provenance: &Provenance,
) -> Result<ExitCode, TestbedError> {
    namespaces::make_private()?;
    let mut report = Report::new(args, provenance);

    screen.title("A client, a switch and a server, in network namespaces of their own");
    hosts::build(args.offloads_stay_on())?;
    let mut switch = Switch::start(args.switch.as_deref())?;
    screen.say(&format!("client 10.0.0.1 -- br0 ({}) -- server 10.0.0.2", switch.version()?));
    switch.configure()?;
    screen.text(&format!("$ ovs-ofctl add-flows br0 {}\n{}", switch::RULES_FILE, switch::RULES));
    report.checked(screen, switch.rules_read_back()?);
    report.checked(screen, switch.timeouts_read_back()?);
    let servers = hosts::start_servers()?;

    screen.title("What the client starts goes through, both ways");
    report.checked(screen, hosts::ping_from_client()?);
    report.checked(screen, hosts::fetch_from_client()?);

    screen.title("What the server starts by itself is refused");
    report.checked(screen, hosts::client_listens()?);
    report.checked(screen, hosts::connect_from_server()?);
    report.checked(screen, hosts::ping_from_server()?);

    if !report.all_true() {
        // If a basic check failed, the load would prove nothing.
        report.finish(screen, None);
        return Ok(report.exit_code());
    }
    screen.title(&format!("{} seconds of wrk, a new connection for every request", args.seconds));
    let load = load::run(args, &mut switch, &servers, screen)?;
    for check in load.checks() {
        report.checked(screen, check);
    }
    report.checked(screen, switch.drops_counted()?);
    report.checked(screen, switch.still_runs()?);
    report.finish(screen, Some(&load));
    if args.shell {
        let hosts = "hosts: ip netns exec client COMMAND, ip netns exec server COMMAND";
        namespaces::open_shell(screen, hosts)?;
    }
    Ok(report.exit_code())
}
