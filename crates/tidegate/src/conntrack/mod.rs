//! `tidegate conntrack`: the connections of a running switch, or their events, one per line.
//!
//! Requests are made to the switch's control socket part by part, so that a table of any size neither delays
//! the switch nor has to fit into memory.

use clap::Args;
use load::generate::numbers::whole;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use crate::ask;
use daemon::Directories;
use daemon::unixctl::client::{Client, ClientError};

/// Interval at which events are fetched.
const FETCH_EVERY: Duration = Duration::from_millis(200);

/// Show the connections of a running switch, or their events
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:
  tidegate conntrack                                   all connections
  tidegate conntrack --zone 5 --protocol tcp --state established
  tidegate conntrack --source 10.0.0.0/8 --port 443 --mark 0x1/0xff --json
  tidegate conntrack zone=5 port=443                   conditions without dashes
  tidegate conntrack --events --json                   new, updated, destroyed; JSON

A connection must meet all conditions. Events are not filtered. Events that occur faster than they \
are fetched are lost, and a line contains their number.")]
pub struct ConntrackArgs {
    #[command(flatten)]
    choice: Choice,
    /// Conditions, named as the options without dashes: zone=5, source=10.0.0.0/8
    #[arg(value_name = "NAME=VALUE", conflicts_with = "events")]
    filters: Vec<String>,
    /// Show events of connections from now on
    #[arg(long)]
    events: bool,
    /// Print one JSON object per line
    #[arg(long)]
    json: bool,
    /// With --events, end after this many seconds
    #[arg(long, value_name = "SECONDS", requires = "events", value_parser = whole::<u64>(..))]
    seconds: Option<u64>,
    /// The switch's control socket [default: that of the process in ovs-vswitchd.pid in OVS_RUNDIR, or
    /// the only one there]
    #[arg(long, value_name = "FILE")]
    target: Option<PathBuf>,
}

/// The selection of connections.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Which connections")]
struct Choice {
    /// In this zone
    #[arg(long, value_name = "N", conflicts_with = "events")]
    zone: Option<String>,
    /// One of the addresses, before or after translation, is in this network
    #[arg(long, value_name = "ADDRESS[/PREFIX]", conflicts_with = "events")]
    network: Option<String>,
    /// The first packet came from this network
    #[arg(long, value_name = "ADDRESS[/PREFIX]", conflicts_with = "events")]
    source: Option<String>,
    /// The first packet was sent to this network
    #[arg(long, value_name = "ADDRESS[/PREFIX]", conflicts_with = "events")]
    destination: Option<String>,
    /// One of the ports is this one
    #[arg(long, value_name = "N", conflicts_with = "events")]
    port: Option<String>,
    /// Of this protocol: tcp, udp, icmp, icmpv6, sctp or a number
    #[arg(long, value_name = "NAME", conflicts_with = "events")]
    protocol: Option<String>,
    /// The mark is this, in the bits of the mask
    #[arg(long, value_name = "VALUE[/MASK]", conflicts_with = "events")]
    mark: Option<String>,
    /// The label is this, in the bits of the mask
    #[arg(long, value_name = "VALUE[/MASK]", conflicts_with = "events")]
    label: Option<String>,
    /// TCP or SCTP in this state, such as established or time_wait
    #[arg(long, value_name = "NAME", conflicts_with = "events")]
    state: Option<String>,
}

impl Choice {
    /// Returns the words of the request.
    fn words(&self) -> impl Iterator<Item = String> {
        let given = [
            ("zone", &self.zone),
            ("network", &self.network),
            ("source", &self.source),
            ("destination", &self.destination),
            ("port", &self.port),
            ("protocol", &self.protocol),
            ("mark", &self.mark),
            ("label", &self.label),
            ("state", &self.state),
        ];
        given.into_iter().filter_map(|(name, value)| Some(format!("{name}={}", value.as_ref()?)))
    }
}

/// Runs the verb.
pub fn run(args: &ConntrackArgs, directories: &Directories) -> ExitCode {
    let shown = Client::connect(args.target.as_deref(), directories).and_then(|mut switch| {
        let mut out = io::stdout().lock();
        if args.events {
            show_events(args, &mut switch, &mut out)
        } else {
            list(args, &mut switch, &mut out)
        }
    });
    ask::finish("conntrack", shown)
}

fn form(args: &ConntrackArgs) -> &'static str {
    if args.json { "json" } else { "text" }
}

fn list(args: &ConntrackArgs, switch: &mut Client, out: &mut dyn Write) -> Result<(), ClientError> {
    let mut cursor = "0:0".to_owned();
    while cursor != "end" {
        let mut words = vec![form(args).to_owned(), cursor];
        words.extend(args.choice.words().chain(args.filters.iter().cloned()));
        let answer = switch.ask("tidegate/conntrack", &words)?;
        let (next, lines) = answer.split_once('\n').unwrap_or(("end", ""));
        out.write_all(lines.as_bytes())?;
        cursor = next.to_owned();
    }
    Ok(())
}

fn show_events(
    args: &ConntrackArgs,
    switch: &mut Client,
    out: &mut dyn Write,
) -> Result<(), ClientError> {
    let begun = Instant::now();
    let is_over = || args.seconds.is_some_and(|it| begun.elapsed() >= Duration::from_secs(it));
    loop {
        let lines = switch.ask("tidegate/conntrack-events", &[form(args).to_owned()])?;
        out.write_all(lines.as_bytes())?;
        out.flush()?;
        if is_over() {
            return Ok(());
        }
        std::thread::sleep(FETCH_EVERY);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ask::tests::serve;
    use clap::Parser;
    use serde_json::json;
    use std::os::unix::net::UnixListener;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: ConntrackArgs,
    }

    fn args(line: &str) -> ConntrackArgs {
        Line::try_parse_from(line.split(' ')).map(|line| line.args).unwrap()
    }

    #[test]
    fn parts_are_asked_for_until_the_end() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("ovs-vswitchd.pid"), "77\n").unwrap();
        let listener = UnixListener::bind(folder.path().join("ovs-vswitchd.77.ctl")).unwrap();
        let server = serve(
            listener,
            vec![
                json!({"id": 1, "result": "3:128\none\n", "error": null}),
                json!({"id": 2, "result": "end\ntwo\n", "error": null}),
                json!({"id": 3, "result": null, "error": "failed to parse field port\n"}),
            ],
        );
        let run = folder.path().to_owned();
        let directories = Directories { run, ..Directories::from_environment() };
        let mut switch = Client::connect(None, &directories).unwrap();
        let mut out = Vec::new();
        list(&args("conntrack zone=3 --json --source ::/0"), &mut switch, &mut out).unwrap();
        assert_eq!(out, b"one\ntwo\n");
        let error = list(&args("conntrack port=x"), &mut switch, &mut out).unwrap_err();
        assert_eq!(error.to_string(), "failed to parse field port");
        let asked = server.join().unwrap();
        assert_eq!(asked[0]["params"], json!(["json", "0:0", "source=::/0", "zone=3"]));
        assert_eq!(asked[1]["params"], json!(["json", "3:128", "source=::/0", "zone=3"]));
        assert_eq!(asked[2]["params"], json!(["text", "0:0", "port=x"]));
    }
}
