//! `tidegate latency`: how long the upcalls of a running switch take.

use crate::ask;
use clap::Args;
use daemon::Directories;
use daemon::unixctl::client::{Client, ClientError};
use load::generate::numbers::whole;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Interval of requests with --watch.
const WATCH_EVERY: Duration = Duration::from_secs(1);
/// Clears a terminal and moves to its first line (ECMA-48, ED and CUP).
const CLEAR: &str = "\x1b[2J\x1b[H";

/// Show how long the upcalls of a running switch take, stage by stage
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:
  tidegate latency                        round trips of upcalls: ARP, IPv4, IPv6, others
  tidegate latency --watch                the same every second, from now on
  tidegate latency --json                 one JSON object, with the stages of each handler
  tidegate latency --clear                clear the records

Times are microseconds, from a packet's receipt by a worker (K) to a handler (OVS) and back until \
the worker has installed the flow and executed the packet. Percentiles are within one part in 32. \
Upcalls that were refused because the queue was full are counted at the end. The same report comes \
from `ovs-appctl tidegate/latency-show`.")]
pub struct LatencyArgs {
    /// Clear the records, then show the report every second
    #[arg(long, conflicts_with = "clear")]
    watch: bool,
    /// Clear the records, and show nothing
    #[arg(long, conflicts_with = "json")]
    clear: bool,
    /// Print one JSON object; with --watch one per second and line
    #[arg(long)]
    json: bool,
    /// With --watch, end after this many seconds
    #[arg(long, value_name = "SECONDS", requires = "watch", value_parser = whole::<u64>(..))]
    seconds: Option<u64>,
    /// The switch's control socket [default: that of the process in ovs-vswitchd.pid in OVS_RUNDIR, or
    /// the only one there]
    #[arg(long, value_name = "FILE")]
    target: Option<PathBuf>,
}

/// Runs the verb.
pub fn run(args: &LatencyArgs, directories: &Directories) -> ExitCode {
    let shown = Client::connect(args.target.as_deref(), directories)
        .and_then(|mut switch| show(args, &mut switch, &mut io::stdout().lock()));
    ask::finish("latency", shown)
}

fn show(args: &LatencyArgs, switch: &mut Client, out: &mut dyn Write) -> Result<(), ClientError> {
    if args.clear || args.watch {
        switch.ask("tidegate/latency-clear", &[])?;
    }
    if args.clear {
        return Ok(());
    }
    let form = if args.json { "json" } else { "text" };
    let begun = Instant::now();
    loop {
        if args.watch {
            std::thread::sleep(WATCH_EVERY);
        }
        let report = switch.ask("tidegate/latency-show", &[form.to_owned()])?;
        if args.watch && !args.json {
            out.write_all(CLEAR.as_bytes())?;
        }
        out.write_all(report.as_bytes())?;
        out.flush()?;
        let is_over = args.seconds.is_some_and(|it| begun.elapsed() >= Duration::from_secs(it));
        if !args.watch || is_over {
            return Ok(());
        }
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
        args: LatencyArgs,
    }

    /// Compares the requests to the switch, and the output for its answers.
    fn check(line: &str, answers: &[&str], asked: &[(&str, &[&str])], printed: &str) {
        let args = Line::try_parse_from(line.split(' ')).map(|line| line.args).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("x.ctl");
        let listener = UnixListener::bind(&socket).unwrap();
        let answer =
            |(id, text): (usize, &&str)| json!({"id": id + 1, "result": text, "error": null});
        let server = serve(listener, answers.iter().enumerate().map(answer).collect());
        let directories = Directories::from_environment();
        let mut switch = Client::connect(Some(&socket), &directories).unwrap();
        let mut out = Vec::new();
        show(&args, &mut switch, &mut out).unwrap();
        drop(switch);
        assert_eq!(String::from_utf8(out).unwrap(), printed, "{line}");
        let requests: Vec<_> = server.join().unwrap();
        assert_eq!(requests.len(), asked.len(), "{line}");
        for (request, (method, words)) in requests.iter().zip(asked) {
            assert_eq!(request["method"], *method, "{line}");
            assert_eq!(request["params"], json!(words), "{line}");
        }
    }

    #[test]
    fn a_switch_is_asked_once_or_every_second() {
        let (show, clear) = ("tidegate/latency-show", "tidegate/latency-clear");
        check("latency", &["one\n"], &[(show, &["text"])], "one\n");
        check("latency --json", &["{}\n"], &[(show, &["json"])], "{}\n");
        check("latency --clear", &[""], &[(clear, &[])], "");
        let asked: &[(&str, &[&str])] = &[(clear, &[]), (show, &["json"])];
        check("latency --watch --json --seconds 1", &["", "{}\n"], asked, "{}\n");
        let asked: &[(&str, &[&str])] = &[(clear, &[]), (show, &["text"])];
        check("latency --watch --seconds 1", &["", "x\n"], asked, &format!("{CLEAR}x\n"));
    }
}
