//! The load: `wrk` on the client, one line per second, and its result.

use std::time::{Duration, Instant};
use std::{fs, process::Child, thread::sleep};

use serde_json::{Value, json};

use super::DemoArgs;
use super::hosts::{CLIENT, SERVER, Servers};
use testbed::Check;
use testbed::Screen;
use testbed::TestbedError;
use testbed::namespaces::FOLDER;
use testbed::stock::{Stock, end_of};
use testbed::switch::{Reading, Switch};

/// Lines of the connection table that are kept for display.
const SHOWN_CONNECTIONS: usize = 5;

/// The figures of one second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Second {
    /// Seconds since the start of wrk.
    pub at_s: f64,
    /// Connections per second that nginx accepted.
    pub connections_per_s: f64,
    /// Packets per second that the switch received.
    pub packets_per_s: f64,
    /// Connections in the table at the end of that second.
    pub tracked: u64,
    /// Packets dropped by ports or in the upcall queue, since the start of the load.
    pub drops: u64,
}

/// The result that wrk prints.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WrkResult {
    /// Requests that were answered.
    pub requests: u64,
    /// Refused connections, failed reads and writes, timeouts, and answers other than a page.
    pub errors: u64,
    /// Requests per second.
    pub requests_per_s: f64,
    /// Latency as wrk prints it: mean, then the quantiles 50, 75, 90 and 99 %.
    pub latency: Vec<(String, String)>,
}

/// The whole load.
#[derive(Clone, Debug)]
pub struct Load {
    /// wrk's result.
    pub wrk: WrkResult,
    /// One entry per second.
    pub seconds: Vec<Second>,
    /// Connections that nginx accepted in total.
    pub accepted: u64,
    /// Packets that the switch received in total.
    pub packets: u64,
    /// Packets dropped in total.
    pub drops: u64,
    /// Duration in seconds.
    pub took_s: f64,
    /// The first lines of the connection table during the load.
    pub connections: Vec<String>,
    /// Lines of that table, and how many of them the client had opened.
    pub table: (usize, usize),
}

/// Runs wrk and follows it.
pub fn run(
    args: &DemoArgs,
    switch: &mut Switch,
    servers: &Servers,
    screen: &Screen,
) -> Result<Load, TestbedError> {
    let line = format!("wrk -t 1 -c {} -d {}s --latency -H", args.connections, args.seconds);
    let wrk = Stock::new(&line).word("Connection: Close").word(format!("http://{SERVER}/"));
    let quoted = "\"Connection: Close\"";
    screen.say(&format!("$ {line} {quoted} http://{SERVER}/"));
    let printed = format!("{FOLDER}/wrk.printed");
    let mut watch = Watch::begin(switch, servers)?;
    let mut process = wrk.on("client").start(&printed)?;
    screen.say("second  connections/s  packets/s  table size  drops");
    let mut seconds = Vec::new();
    let mut table = String::new();
    for second in 1..=args.seconds {
        sleep(watch.until(second));
        // The table is read during the load: closed connections are removed after a second.
        if second == args.seconds.div_ceil(2) {
            table = switch.connections()?;
        }
        let now = watch.second(switch, servers)?;
        screen.say(&live_line(&now));
        seconds.push(now);
    }
    end_of_wrk(&mut process, &printed)?;
    let text = fs::read_to_string(&printed).map_err(TestbedError::io("read what wrk printed"))?;
    let wrk = wrk_result(&text).ok_or_else(|| TestbedError::Unreadable {
        line: line.clone(),
        answer: text.chars().take(600).collect(),
    })?;
    let mut load = watch.end(switch, servers)?;
    let by_client = table.lines().filter(|line| line.contains(&format!("orig=(src={CLIENT},")));
    load.table = (table.lines().count(), by_client.count());
    load.connections = table.lines().take(SHOWN_CONNECTIONS).map(str::to_owned).collect();
    Ok(Load { wrk, seconds, ..load })
}

/// wrk ends by itself; ten more seconds mean that it hangs.
fn end_of_wrk(process: &mut Child, printed: &str) -> Result<(), TestbedError> {
    for _ in 0..100 {
        let ended = process.try_wait().map_err(TestbedError::io("wait for wrk"))?;
        match ended {
            Some(status) if status.success() => return Ok(()),
            Some(status) => {
                let what = format!("wrk failed ({status})");
                return Err(TestbedError::Daemon { what, log: end_of(printed) });
            }
            None => sleep(Duration::from_millis(100)),
        }
    }
    Err(TestbedError::Daemon { what: "wrk does not end".to_owned(), log: end_of(printed) })
}

fn live_line(second: &Second) -> String {
    format!(
        "{:6.0}  {:13.0}  {:9.0}  {:10}  {:5}",
        second.at_s, second.connections_per_s, second.packets_per_s, second.tracked, second.drops
    )
}

/// Counters of the switch and of nginx at the previous reading.
struct Watch {
    began: Instant,
    first: (Reading, u64),
    last: (Reading, u64),
    last_at: Instant,
    asked: u64,
}

impl Watch {
    fn begin(switch: &mut Switch, servers: &Servers) -> Result<Watch, TestbedError> {
        let first = (switch.read()?, servers.accepted()?);
        let began = Instant::now();
        Ok(Watch { began, first, last: first, last_at: began, asked: 0 })
    }

    /// Returns the time until `second` seconds after the start.
    fn until(&self, second: u32) -> Duration {
        Duration::from_secs(second.into()).saturating_sub(self.began.elapsed())
    }

    fn now(
        &mut self,
        switch: &mut Switch,
        servers: &Servers,
    ) -> Result<(Reading, u64), TestbedError> {
        // nginx counts the demo's own requests as connections too.
        self.asked += 1;
        Ok((switch.read()?, servers.accepted()?.saturating_sub(self.asked)))
    }

    fn second(&mut self, switch: &mut Switch, servers: &Servers) -> Result<Second, TestbedError> {
        let now = self.now(switch, servers)?;
        let at = Instant::now();
        let passed_s = at.duration_since(self.last_at).as_secs_f64().max(0.001);
        let rate = |now: u64, before: u64| now.saturating_sub(before) as f64 / passed_s;
        let second = Second {
            at_s: at.duration_since(self.began).as_secs_f64(),
            connections_per_s: rate(now.1, self.last.1),
            packets_per_s: rate(now.0.packets, self.last.0.packets),
            tracked: now.0.tracked,
            drops: now.0.drops.saturating_sub(self.first.0.drops),
        };
        (self.last, self.last_at) = (now, at);
        Ok(second)
    }

    fn end(&mut self, switch: &mut Switch, servers: &Servers) -> Result<Load, TestbedError> {
        let took_s = self.began.elapsed().as_secs_f64();
        let now = self.now(switch, servers)?;
        Ok(Load {
            wrk: WrkResult::default(),
            seconds: Vec::new(),
            accepted: now.1.saturating_sub(self.first.1),
            packets: now.0.packets.saturating_sub(self.first.0.packets),
            drops: now.0.drops.saturating_sub(self.first.0.drops),
            took_s,
            connections: Vec::new(),
            table: (0, 0),
        })
    }
}

/// Parses the output of `wrk --latency`; `None` if required lines are missing.
pub fn wrk_result(text: &str) -> Option<WrkResult> {
    let mut result = WrkResult::default();
    let mut complete = false;
    for line in text.lines().map(str::trim) {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            ["Latency", "Distribution"] => {}
            ["Latency", average, ..] => {
                result.latency.push(("average".to_owned(), (*average).to_owned()));
            }
            [quantile, value] if quantile.ends_with('%') => {
                result.latency.push(((*quantile).to_owned(), (*value).to_owned()));
            }
            [count, "requests", "in", ..] => result.requests = count.parse().ok()?,
            ["Socket", "errors:", rest @ ..] => {
                let numbers = rest.iter().map(|word| word.trim_matches(',').parse::<u64>());
                result.errors += numbers.flatten().sum::<u64>();
            }
            ["Non-2xx", "or", "3xx", "responses:", count] => {
                result.errors += count.parse::<u64>().ok()?;
            }
            ["Requests/sec:", rate] => {
                result.requests_per_s = rate.parse().ok()?;
                complete = true;
            }
            _ => {}
        }
    }
    complete.then_some(result)
}

impl Load {
    /// Returns the checks of the load.
    pub fn checks(&self) -> Vec<Check> {
        let WrkResult { requests, errors, .. } = self.wrk;
        let (lines, by_client) = self.table;
        let http = format!("{requests} requests answered, {errors} errors");
        let each = format!("nginx accepted {} connections, one for a request", self.accepted);
        let table = format!("{lines} connections in the table, {by_client} begun by the client");
        vec![
            Check::new("http_without_errors", requests > 0 && errors == 0, http),
            Check::new("connection_for_each_request", self.accepted >= requests.max(1), each),
            Check::new("connections_tracked", lines > 0 && lines == by_client, table),
        ]
    }

    /// Returns its figures as JSON.
    pub fn to_json(&self) -> Value {
        let second = |second: &Second| {
            json!({
                "at_s": second.at_s,
                "connections_per_s": second.connections_per_s,
                "packets_per_s": second.packets_per_s,
                "tracked": second.tracked,
                "drops": second.drops,
            })
        };
        let latency = self.wrk.latency.iter().map(|(name, value)| (name.clone(), json!(value)));
        json!({
            "requests": self.wrk.requests,
            "errors": self.wrk.errors,
            "requests_per_s": self.wrk.requests_per_s,
            "latency": Value::Object(latency.collect()),
            "connections": self.accepted,
            "connections_per_s": self.per_second(self.accepted),
            "packets": self.packets,
            "packets_per_s": self.per_second(self.packets),
            "drops": self.drops,
            "tracked_max": self.seconds.iter().map(|second| second.tracked).max(),
            "took_s": self.took_s,
            "seconds": self.seconds.iter().map(second).collect::<Vec<_>>(),
            "conntrack": self.connections,
        })
    }

    /// Returns a count as a rate.
    pub fn per_second(&self, count: u64) -> f64 {
        count as f64 / self.took_s.max(0.001)
    }
}
