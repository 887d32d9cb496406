//! `tidegate trace`: the processing of some packets of a running switch, step by step.

use crate::ask;
use clap::Args;
use daemon::Directories;
use daemon::unixctl::client::{Client, ClientError};
use load::generate::numbers::whole;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Interval at which traced packets are fetched.
const FETCH_EVERY: Duration = Duration::from_millis(100);

/// Trace single packets through a running switch, step by step
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:
  tidegate trace                                    the next packet
  tidegate trace tcp,nw_dst=10.0.0.2,tp_dst=80 --count 3
  tidegate trace in_port=p0 icmp --json             one JSON object per line
  tidegate trace udp --sample 1/1000 --timeout 60   where millions of packets pass

The filter has the syntax of ovs-ofctl(8) and matches packets as they are received: in_port is a \
port's name, or its number in `ovs-appctl dpctl/show`; the connection tracking state is not known \
yet.

Each packet is shown with every step of its processing: parsing, unified cache, matching flows, \
connection tracking, actions, ports, and the reason why it was dropped. A packet that causes an \
upcall is shown twice, the second time when it returns from the control side. Each line contains the \
duration of the step. A traced packet is processed alone, after the earlier packets of its batch and \
before the later ones: the cache misses of a batch do not overlap then, so its time exceeds its \
share of a batch. The cost of reading the clock is subtracted. Without a trace, no packet is \
examined.")]
pub struct TraceArgs {
    /// The packets to trace, in the syntax of ovs-ofctl(8) [default: any]
    #[arg(value_name = "FILTER")]
    filter: Vec<String>,
    /// Packets to trace
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = whole::<u32>(1..=10_000))]
    count: u32,
    /// Trace one in this many packets, at random
    #[arg(long, value_name = "1/N", default_value = "1/1", value_parser = read_sample)]
    sample: u32,
    /// End after this many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = whole::<u64>(1..=86_400))]
    timeout: u64,
    /// Print one JSON object per line
    #[arg(long)]
    json: bool,
    /// The switch's control socket [default: that of the process in ovs-vswitchd.pid in OVS_RUNDIR, or
    /// the only one there]
    #[arg(long, value_name = "FILE")]
    target: Option<PathBuf>,
}

/// Parses `1/1000`.
fn read_sample(text: &str) -> Result<u32, String> {
    let number =
        text.strip_prefix("1/").ok_or_else(|| "write 1/N, such as 1/1000 or 1/1k".to_owned())?;
    whole::<u32>(1..)(number)
}

/// Runs the verb.
pub fn run(args: &TraceArgs, directories: &Directories) -> ExitCode {
    let shown = Client::connect(args.target.as_deref(), directories)
        .and_then(|mut switch| show(args, &mut switch, &mut io::stdout().lock()));
    match shown {
        Ok(0) => {
            eprintln!(
                "tidegate trace: no such packet came within {} s; see that the filter fits with \
                 `ovs-appctl dpctl/dump-flows`",
                args.timeout
            );
            ExitCode::FAILURE
        }
        other => ask::finish("trace", other.map(drop)),
    }
}

/// Prints traced packets. Returns the number of lines.
fn show(args: &TraceArgs, switch: &mut Client, out: &mut dyn Write) -> Result<usize, ClientError> {
    let form = if args.json { "json" } else { "text" };
    let mut words = ["start", form].map(str::to_owned).to_vec();
    words.extend([args.count.to_string(), args.sample.to_string(), args.filter.join(",")]);
    let number = switch.ask("tidegate/trace", &words)?.trim().to_owned();
    let ask = |what: &str| [what.to_owned(), number.clone()];
    let begun = Instant::now();
    let mut shown = 0;
    loop {
        let answer = switch.ask("tidegate/trace", &ask("next"))?;
        let (state, lines) = answer.split_once('\n').unwrap_or((&answer, ""));
        shown += lines.lines().count();
        out.write_all(lines.as_bytes())?;
        out.flush()?;
        if state == "end" {
            return Ok(shown);
        }
        if begun.elapsed() >= Duration::from_secs(args.timeout) {
            switch.ask("tidegate/trace", &ask("stop"))?;
            return Ok(shown);
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
        args: TraceArgs,
    }

    fn read(line: &str) -> Result<TraceArgs, clap::Error> {
        Line::try_parse_from(line.split(' ')).map(|line| line.args)
    }

    #[test]
    fn packets_are_asked_for_until_the_end_or_the_timeout() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("switch.ctl");
        let answer = |text: &str| json!({"id": 0, "result": text, "error": null});
        let refusal = json!({"id": 0, "result": null, "error": "nosuch is no field\n"});
        for (line, answers, shown, asked) in [
            (
                "trace tcp in_port=p0 --count 2 --sample 1/8",
                vec![answer("7\n"), answer("more\none\n"), answer("end\ntwo\nthree\n")],
                Some("one\ntwo\nthree\n"),
                json!([
                    ["start", "text", "2", "8", "tcp,in_port=p0"],
                    ["next", "7"],
                    ["next", "7"]
                ]),
            ),
            (
                "trace --json --timeout 1",
                std::iter::once(answer("8\n")).chain((0..50).map(|_| answer("more\n"))).collect(),
                Some(""),
                json!([["start", "json", "1", "1", ""], ["next", "8"]]),
            ),
            (
                "trace nosuch=1",
                vec![refusal],
                None,
                json!([["start", "text", "1", "1", "nosuch=1"]]),
            ),
        ] {
            let _ = std::fs::remove_file(&socket);
            let listener = UnixListener::bind(&socket).unwrap();
            let server = serve(listener, answers);
            let directories = Directories::from_environment();
            let mut switch = Client::connect(Some(&socket), &directories).unwrap();
            let mut out = Vec::new();
            let result = show(&read(line).unwrap(), &mut switch, &mut out);
            assert_eq!(result.is_ok(), shown.is_some(), "{line}: {result:?}");
            assert_eq!(String::from_utf8(out).unwrap(), shown.unwrap_or_default(), "{line}");
            drop(switch);
            let seen = server.join().unwrap();
            for (i, expect) in asked.as_array().unwrap().iter().enumerate() {
                assert_eq!(seen[i]["params"], *expect, "{line}");
            }
            if shown == Some("") {
                assert_eq!(seen.last().unwrap()["params"], json!(["stop", "8"]), "{line}");
            }
        }
    }

    #[test]
    fn samples_are_fractions() {
        for (text, expect) in
            [("1/1", Some(1)), ("1/1000", Some(1000)), ("1/0", None), ("2/3", None), ("7", None)]
        {
            assert_eq!(read(&format!("trace --sample {text}")).ok().map(|it| it.sample), expect);
        }
        for line in ["trace --count 0", "trace --count 10001", "trace --timeout 0"] {
            assert!(read(line).is_err(), "{line}");
        }
    }
}
