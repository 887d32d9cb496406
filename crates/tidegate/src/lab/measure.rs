//! The measurements: requests on persistent and on new connections, from two guests at once.

use super::LabArgs;
use super::hypervisor::Hypervisor;
use serde_json::{Value, json};
use std::fs;
use std::process::Child;
use std::thread::sleep;
use std::time::{Duration, Instant};
use testbed::namespaces::FOLDER;
use testbed::stock::{Stock, end_of};
use testbed::switch::number_after;
use testbed::{Check, TestbedError};

/// The server's address.
const SERVER: &str = "10.0.1.1";
/// The guests that send requests.
const CLIENTS: [usize; 2] = [2, 3];

/// How connections are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Traffic {
    /// Several requests per connection.
    Kept,
    /// One connection per request.
    Closed,
}

impl Traffic {
    /// Returns its name in tables and the JSON object.
    pub fn name(self) -> &'static str {
        match self {
            Traffic::Kept => "kept",
            Traffic::Closed => "close",
        }
    }
}

/// The result of one measurement.
#[derive(Clone, Debug)]
pub struct Measured {
    /// The use of connections.
    pub traffic: Traffic,
    /// Answered requests, or connections if each has its own.
    pub requests: u64,
    /// Requests that failed.
    pub errors: u64,
    /// Packets through the physical port of the server's hypervisor, in both directions.
    pub packets: u64,
    /// Duration in seconds.
    pub took_s: f64,
    /// Processor time of all three switches, in seconds.
    pub processor_s: f64,
}

impl Measured {
    /// Returns requests per second.
    pub fn rate(&self) -> f64 {
        self.requests as f64 / self.took_s
    }

    /// Returns packets per second.
    pub fn packet_rate(&self) -> f64 {
        self.packets as f64 / self.took_s
    }

    /// Returns requests per second of the switches' processor time.
    pub fn efficiency(&self) -> f64 {
        self.requests as f64 / self.processor_s.max(0.01)
    }

    /// Returns the result as one line of text.
    pub fn line(&self) -> String {
        let what = match self.traffic {
            Traffic::Kept => "kept connections:       requests",
            Traffic::Closed => "Connection: Close:   connections",
        };
        format!(
            "{what} {:>8.0} per second, {:>8.0} packets per second; {:>8.0} per second of the \
             switches' processor time; {} errors",
            self.rate(),
            self.packet_rate(),
            self.efficiency(),
            self.errors
        )
    }

    /// Returns the result as JSON.
    pub fn to_json(&self) -> Value {
        json!({
            "traffic": self.traffic.name(),
            "requests": self.requests,
            "errors": self.errors,
            "packets": self.packets,
            "seconds": self.took_s,
            "processor_seconds": self.processor_s,
            "requests_per_s": self.rate(),
            "packets_per_s": self.packet_rate(),
            "requests_per_processor_s": self.efficiency(),
        })
    }
}

/// Checks that a guest can fetch the server's page through the tunnel.
pub fn reaches(guest: usize) -> Result<Check, TestbedError> {
    let host = format!("guest{guest}");
    let line = format!("curl -sS --noproxy * --connect-timeout 2 -m 4 http://{SERVER}/");
    let mut said = String::new();
    // The first packets trigger neighbour resolution on the underlay, and are lost.
    for _ in 0..10 {
        let answer = Stock::new(&line).on(&host).ask()?;
        if answer.ok() && answer.stdout == "hello" {
            let text = format!("{host} -> guest1 through VXLAN: the page says \"hello\"");
            return Ok(Check::new("guests_reach_the_server", true, text));
        }
        said = answer.stderr.trim().to_owned();
        sleep(Duration::from_millis(300));
    }
    Ok(Check::new("guests_reach_the_server", false, format!("{host} -> guest1: {said}")))
}

/// Checks that the switches contain exactly the published rules.
pub fn rules_read_back(hypervisors: &[Hypervisor]) -> Result<Check, TestbedError> {
    for hypervisor in hypervisors {
        for bridge in ["br-phy0", "br-int0"] {
            let file = hypervisor.rules_file(bridge);
            let line = format!("ovs-ofctl --names diff-flows {bridge} {file}");
            let answer = hypervisor.tool(&line).ask()?;
            if !answer.ok() {
                let text = format!("rules of {bridge}: {} {}", answer.stdout, answer.stderr);
                return Ok(Check::new("rules_read_back", false, text));
            }
        }
    }
    let text = "the published rules are in all three switches, and read back as they were";
    Ok(Check::new("rules_read_back", true, text))
}

/// Checks that the device forwarded packets in each hypervisor.
pub fn is_offloaded(hypervisors: &[Hypervisor]) -> Result<Check, TestbedError> {
    let (mut forwarded, mut all) = (Vec::new(), true);
    for hypervisor in hypervisors {
        let text = hypervisor.tool("ovs-appctl -T 10 dpctl/offload-stats-show").run()?;
        let packets = forwarded_packets(&text);
        all &= packets > 0;
        forwarded.push(packets.to_string());
    }
    let text = format!("packets that XDP forwarded, by hypervisor: {}", forwarded.join(", "));
    Ok(Check::new("connections_are_offloaded", all, text))
}

/// Parses the packets in `dpctl/offload-stats-show`.
fn forwarded_packets(text: &str) -> u64 {
    let line = text.lines().find(|line| line.contains("Forwarded packets:")).unwrap_or_default();
    line.rsplit(' ').next().and_then(|number| number.parse().ok()).unwrap_or(0)
}

/// Counters of all hypervisors at one moment.
struct Reading {
    packets: u64,
    processor_s: f64,
    at: Instant,
}

fn read(hypervisors: &[Hypervisor]) -> Result<Reading, TestbedError> {
    let mut reading = Reading { packets: 0, processor_s: 0.0, at: Instant::now() };
    for (index, hypervisor) in hypervisors.iter().enumerate() {
        reading.processor_s += hypervisor.processor_s()?;
        if index == 0 {
            let text = hypervisor.tool("ovs-ofctl dump-ports br-phy0 eth2").run()?;
            let count = |key| number_after(&text, key).unwrap_or(0);
            reading.packets = count("rx pkts=") + count("tx pkts=");
        }
    }
    Ok(reading)
}

/// Measures one kind of traffic.
pub fn run(
    args: &LabArgs,
    hypervisors: &mut [Hypervisor],
    traffic: Traffic,
) -> Result<Measured, TestbedError> {
    let before = read(hypervisors)?;
    let mut processes = Vec::new();
    for guest in CLIENTS {
        let line = format!("wrk -t {} -c {} -d {}s", args.threads, args.connections, args.seconds);
        let mut wrk = Stock::new(&line);
        if traffic == Traffic::Closed {
            wrk = wrk.word("-H").word("Connection: Close");
        }
        let printed = format!("{FOLDER}/wrk{guest}.printed");
        let wrk = wrk.word(format!("http://{SERVER}/")).on(&format!("guest{guest}"));
        processes.push((wrk.start(&printed)?, printed));
    }
    let (mut requests, mut errors) = (0, 0);
    for (process, printed) in processes {
        let (asked, failed) = end_of_wrk(process, &printed)?;
        requests += asked;
        errors += failed;
    }
    let after = read(hypervisors)?;
    Ok(Measured {
        traffic,
        requests,
        errors,
        packets: after.packets.saturating_sub(before.packets),
        took_s: (after.at - before.at).as_secs_f64(),
        processor_s: after.processor_s - before.processor_s,
    })
}

fn end_of_wrk(mut process: Child, printed: &str) -> Result<(u64, u64), TestbedError> {
    let status = process.wait().map_err(TestbedError::io("wait for wrk"))?;
    let text = fs::read_to_string(printed).map_err(TestbedError::io("read what wrk printed"))?;
    let counts = counts(&text).filter(|_| status.success());
    counts.ok_or_else(|| TestbedError::Daemon {
        what: format!("wrk failed ({status})"),
        log: end_of(printed),
    })
}

/// Parses requests and errors in wrk's output.
fn counts(text: &str) -> Option<(u64, u64)> {
    let line = text.lines().find(|line| line.contains(" requests in "))?;
    let requests = line.split_whitespace().next()?.parse().ok()?;
    let errors = ["connect ", "read ", "write ", "timeout "];
    let sockets = text.lines().find(|line| line.contains("Socket errors:")).unwrap_or_default();
    let failed: u64 = errors.iter().filter_map(|key| number_after(sockets, key)).sum();
    let refused = number_after(text, "Non-2xx or 3xx responses: ").unwrap_or(0);
    Some((requests, failed + refused))
}

#[cfg(test)]
mod tests {
    use super::{counts, forwarded_packets};

    #[test]
    fn reads_what_wrk_says() {
        let check = |text: &str, expect| assert_eq!(counts(text), expect, "{text}");
        check("  1234 requests in 5.00s, 1MB read\nRequests/sec: 246\n", Some((1234, 0)));
        let errors = "  9 requests in 1.00s, 1MB read\n  Socket errors: connect 1, read 2, write 0, \
                      timeout 4\n  Non-2xx or 3xx responses: 3\n";
        check(errors, Some((9, 10)));
        check("unable to connect", None);
    }
    #[test]
    fn reads_how_many_packets_were_forwarded() {
        let line = "     Total                 Forwarded packets:";
        for (text, expect) in [
            (format!("HW Offload stats:\n{line}   1234\n     Total  Forwarded bytes: 9\n"), 1234),
            (format!("{line}      0\n"), 0),
            ("HW Offload stats:\n".to_owned(), 0),
        ] {
            assert_eq!(forwarded_packets(&text), expect, "{text}");
        }
    }
}
