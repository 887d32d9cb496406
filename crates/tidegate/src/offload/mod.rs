//! `tidegate why-not-offloaded`: why a flow's packets are forwarded by the switch.

use crate::ask;
use clap::Args;
use daemon::Directories;
use daemon::unixctl::client::Client;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

/// Show why packets of a flow are forwarded by the switch and not by a device
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:
  tidegate why-not-offloaded ufid:00000000-0000-0000-0000-00000000002a
  tidegate why-not-offloaded --json \"$(ovs-appctl dpctl/dump-flows -m | grep -o -m1 'ufid:[0-9a-f-]*')\"

The answer contains the number of rules that the device has for connections of the flow, the traffic \
that it forwarded, and each reason why it has no more rules, with the number of refused offers. \
Flows and their identifiers are those of `ovs-appctl dpctl/dump-flows -m`. `ovs-appctl \
tidegate/why-not-offloaded` prints the same answer.")]
pub struct WhyNotOffloadedArgs {
    /// The flow: its ufid, or the key of its packets, as dpctl/dump-flows -m prints it
    #[arg(value_name = "FLOW")]
    flow: String,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// The switch's control socket [default: that of the process in ovs-vswitchd.pid in OVS_RUNDIR, or
    /// the only one there]
    #[arg(long, value_name = "FILE")]
    target: Option<PathBuf>,
}

/// Runs the verb.
pub fn run(args: &WhyNotOffloadedArgs, directories: &Directories) -> ExitCode {
    let form = if args.json { "json" } else { "text" };
    let words = [form.to_owned(), args.flow.clone()];
    let shown = Client::connect(args.target.as_deref(), directories).and_then(|mut switch| {
        let answer = switch.ask("tidegate/why-not-offloaded", &words)?;
        Ok(io::stdout().lock().write_all(answer.as_bytes())?)
    });
    ask::finish("why-not-offloaded", shown)
}
