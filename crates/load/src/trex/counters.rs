//! TRex's counters by name, converted to this program's counters.
//!
//! Names are those of trex-core's `src/44bsd/tcp_var.h` and of its flow table. Counters of connections
//! restart with each start of the traffic, which their epoch shows; counters of ports do not. The server
//! updates its copies of both at intervals: a reading may be half a second old, and contains the time of the
//! traffic at which it was made.

use base::Instant;
use generator::Failures;
use generator::search::{Direction, Sample, Window};
use serde_json::Value;
use std::collections::HashMap;

/// Counter names by the number under which their values are sent.
#[derive(Clone, Debug, Default)]
pub struct Names(HashMap<String, String>);

impl Names {
    /// Parses the answer to `get_counter_desc`.
    pub fn read(answer: &Value) -> Option<Names> {
        let all = answer.get("data")?.as_array()?;
        let named = |it: &Value| {
            Some((it.get("id")?.as_u64()?.to_string(), it.get("name")?.as_str()?.to_owned()))
        };
        let names: HashMap<_, _> = all.iter().filter_map(named).collect();
        // Without these no rate can be computed.
        let needed = ["tcps_connattempt", "tcps_closed", "tcps_drops"];
        let has = |name: &&str| names.values().any(|known| known == name);
        needed.iter().all(has).then_some(Names(names))
    }
}

/// Counters of one side.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Side(HashMap<String, f64>);

impl Side {
    fn read(values: &Value, names: &Names) -> Side {
        let all = values.as_object().into_iter().flatten();
        let named = all.filter_map(|(id, value)| Some((names.0.get(id)?.clone(), value.as_f64()?)));
        Side(named.collect())
    }

    fn get(&self, name: &str) -> u64 {
        self.0.get(name).map_or(0, |value| value.max(0.0) as u64)
    }

    fn sum(&self, names: &[&str]) -> u64 {
        names.iter().map(|name| self.get(name)).sum()
    }

    fn since(&self, before: &Side) -> Side {
        let part = |(name, now): (&String, &f64)| {
            let then = before.0.get(name).copied().unwrap_or(0.0);
            (name.clone(), now - then)
        };
        Side(self.0.iter().map(part).collect())
    }
}

/// Packets and bytes of the ports of one side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ports {
    /// Packets sent.
    pub tx_packets: u64,
    /// Their bytes.
    pub tx_bytes: u64,
    /// Packets received.
    pub rx_packets: u64,
    /// Their bytes.
    pub rx_bytes: u64,
    /// Packets that could not be sent.
    pub tx_errors: u64,
}

impl Ports {
    /// Adds one port's answer to `get_port_stats`.
    pub fn add(&mut self, answer: &Value) {
        let count = |name: &str| answer.get(name).and_then(Value::as_f64).unwrap_or(0.0) as u64;
        self.tx_packets += count("opackets");
        self.tx_bytes += count("obytes");
        self.rx_packets += count("ipackets");
        self.rx_bytes += count("ibytes");
        self.tx_errors += count("oerrors");
    }

    fn since(&self, before: &Ports) -> Ports {
        let part = |now: u64, then: u64| if now < then { now } else { now - then };
        Ports {
            tx_packets: part(self.tx_packets, before.tx_packets),
            tx_bytes: part(self.tx_bytes, before.tx_bytes),
            rx_packets: part(self.rx_packets, before.rx_packets),
            rx_bytes: part(self.rx_bytes, before.rx_bytes),
            tx_errors: part(self.tx_errors, before.tx_errors),
        }
    }
}

/// All counters at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reading {
    /// When it was requested.
    pub at: Instant,
    /// Differs for each start of the traffic.
    epoch: u64,
    /// Seconds for which the traffic had run, by the server's clock, when the connection counters were
    /// copied.
    pub clock: f64,
    /// Clients.
    pub client: Side,
    /// Servers.
    pub server: Side,
    /// The clients' ports: the even ones.
    pub client_ports: Ports,
    /// The servers' ports: the odd ones.
    pub server_ports: Ports,
    /// Connections alive.
    pub active: u64,
    /// Packets that TRex could not send in time and dropped.
    pub queue_dropped: u64,
    /// Load of TRex's cores, 0 to 1.
    pub busy: f64,
}

impl Reading {
    /// Parses the answers to `get_counter_values` and `get_global_stats`; ports are added later.
    pub fn read(values: &Value, global: &Value, names: &Names) -> Reading {
        let number = |name: &str| global.get(name).and_then(Value::as_f64).unwrap_or(0.0);
        let client = Side::read(&values["client"], names);
        Reading {
            epoch: values["epoch"].as_u64().unwrap_or_default(),
            clock: client.0.get("m_traffic_duration").copied().unwrap_or_default(),
            client,
            server: Side::read(&values["server"], names),
            active: number("m_active_flows") as u64,
            queue_dropped: number("m_total_queue_drop") as u64,
            busy: number("m_cpu_util") / 100.0,
            ..Reading::default()
        }
    }

    fn since(&self, before: &Reading) -> Reading {
        let same = self.epoch == before.epoch;
        let part = |now: &Side, then: &Side| if same { now.since(then) } else { now.clone() };
        Reading {
            at: self.at,
            epoch: self.epoch,
            clock: if same { self.clock - before.clock } else { self.clock },
            client: part(&self.client, &before.client),
            server: part(&self.server, &before.server),
            client_ports: self.client_ports.since(&before.client_ports),
            server_ports: self.server_ports.since(&before.server_ports),
            queue_dropped: self.queue_dropped.saturating_sub(before.queue_dropped),
            active: self.active,
            busy: self.busy,
        }
    }

    fn opened(&self) -> u64 {
        self.client.sum(&["tcps_connattempt", "udps_connects"])
    }

    fn closed(&self) -> u64 {
        self.client.sum(&["tcps_closed", "udps_closed"])
    }

    /// Returns the seconds for which the traffic that began after `start` had run; 0 if the copies are older.
    pub fn clock_since(&self, start: &Reading) -> f64 {
        if self.epoch == start.epoch { 0.0 } else { self.clock }
    }

    /// Returns whether all counted connections have ended.
    pub fn is_at_rest(&self) -> bool {
        self.client.get("m_active_flows") == 0
    }

    /// Returns the difference between two readings of one sample, in the server's time.
    pub fn window(&self, before: &Reading) -> Window {
        let part = self.since(before);
        let failed = part.failures().total();
        let (one, other) = (part.client_ports, part.server_ports);
        // The ports' counters are read at other moments, at the same distance.
        let apart = (self.at - before.at).as_secs_f64();
        let scale = if apart > 0.0 { part.clock / apart } else { 1.0 };
        let scaled = |count: u64| (count as f64 * scale) as u64;
        Window {
            seconds: part.clock,
            opened: part.opened(),
            completed: part.closed().saturating_sub(failed),
            active: self.active,
            tx_packets: scaled(one.tx_packets + other.tx_packets),
            tx_bytes: scaled(one.tx_bytes + other.tx_bytes),
            rx_packets: scaled(one.rx_packets + other.rx_packets),
            rx_bytes: scaled(one.rx_bytes + other.rx_bytes),
            payload_bytes: part.client.sum(&[
                "tcps_sndbyte_ok",
                "tcps_rcvbyte",
                "udps_sndbyte",
                "udps_rcvbyte",
            ]),
            client_packets: scaled(one.tx_packets + one.rx_packets),
            busy: self.busy,
            behind: None,
        }
    }

    /// Counts each failed connection once: `tcps_conndrops` before it was established, `tcps_drops`
    /// afterwards. Expired timers are counted in addition to one of these.
    fn failures(&self) -> Failures {
        let client = &self.client;
        let (opening, dropped) = (client.get("tcps_conndrops"), client.get("tcps_drops"));
        let timers = client.sum(&["tcps_timeoutdrop", "tcps_keepdrops"]);
        let timed_out = timers.saturating_sub(opening).min(dropped);
        Failures {
            timed_out_opening: opening,
            timed_out: timed_out + client.get("udps_keepdrops"),
            reset: dropped - timed_out,
            ..Failures::default()
        }
    }

    /// Returns the sample of the whole trial, from its first connection until no packet is under way.
    pub fn sample(&self, start: &Reading, offered: f64, window: Window) -> Sample {
        let part = self.since(start);
        let failed = part.failures();
        let (opened, closed) = (part.opened(), part.closed());
        let both = |names: &[&str]| part.client.sum(names) + part.server.sum(names);
        Sample {
            offered,
            window,
            opened,
            completed: closed.saturating_sub(failed.total()),
            failed,
            unfinished: opened.saturating_sub(closed.max(failed.total())),
            at_limit: both(&["err_flow_overflow", "err_c_nf_throttled"]),
            tuples_exhausted: both(&["err_c_tuple_err", "err_dct"]),
            server_full: both(&["err_s_nf_throttled", "err_no_memory"]),
            port_errors: part.client_ports.tx_errors
                + part.server_ports.tx_errors
                + part.queue_dropped
                + both(&["tcps_nombuf", "udps_nombuf"]),
            forth: Direction {
                sent: part.client_ports.tx_packets,
                received: part.server_ports.rx_packets,
            },
            back: Direction {
                sent: part.server_ports.tx_packets,
                received: part.client_ports.rx_packets,
            },
            retransmitted: both(&["tcps_sndrexmitpack", "tcps_rexmttimeo_syn"]),
            duplicates: both(&["tcps_rcvduppack"]),
            garbage: both(&["tcps_rcvbadsum", "tcps_rcvbadoff", "tcps_rcvshort"])
                + both(&["err_l3_cs", "err_l4_cs"]),
            no_connection: both(&["err_cwf", "err_no_syn"]),
            // The counters do not show whether the server's ports are connected to the device.
            nothing_is_loss: true,
            ..Sample::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use generator::search::{Allowance, judge};
    use serde_json::json;

    fn names() -> Names {
        let all = ["tcps_connattempt", "tcps_closed", "tcps_drops", "tcps_conndrops"];
        let more = ["udps_connects", "err_flow_overflow", "tcps_keepdrops", "m_traffic_duration"];
        let all = all.into_iter().chain(more);
        let data: Vec<Value> =
            all.enumerate().map(|(id, name)| json!({ "id": id, "name": name })).collect();
        Names::read(&json!({ "data": data })).unwrap()
    }

    fn reading(epoch: u64, client: &Value, ports: [u64; 4]) -> Reading {
        let values = json!({ "epoch": epoch, "client": client, "server": {} });
        let global = json!({ "m_active_flows": 7.0, "m_cpu_util": 40.5 });
        let mut it = Reading::read(&values, &global, &names());
        it.client_ports.add(&json!({ "opackets": ports[0], "ipackets": ports[3] }));
        it.server_ports.add(&json!({ "ipackets": ports[1], "opackets": ports[2], "oerrors": 0 }));
        it
    }

    #[test]
    fn counters_become_a_sample() {
        let start = reading(1, &json!({ "0": 100, "1": 100 }), [10, 10, 10, 10]);
        let end = reading(
            1,
            // 1,100 opened, 1,095 ended; 3 dropped while opening, all by a timer, and 2 afterwards, 1 of them
            // by a timer.
            &json!({ "0": 1100, "1": 1095, "2": 2, "3": 3, "5": 0, "6": 4, "7": 1.25 }),
            [4010, 4000, 3010, 3010],
        );
        let sample = end.sample(&start, 1000.0, end.window(&start));
        assert_eq!((sample.opened, sample.completed, sample.unfinished), (1000, 990, 5));
        let Failures { timed_out_opening, timed_out, reset, .. } = sample.failed;
        assert_eq!((timed_out_opening, timed_out, reset), (3, 1, 1));
        assert_eq!(sample.window.seconds, 1.25);
        let counted = sample.completed + sample.failed.total() + sample.unfinished;
        assert_eq!(counted, sample.opened);
        assert_eq!((sample.forth.lost(), sample.back.lost()), (10, 0));
        assert_eq!((sample.window.opened, sample.window.active), (1000, 7));
        assert!((sample.window.busy - 0.405).abs() < 1e-9);
    }

    /// The counters of a second sample at the rate of the first.
    #[test]
    fn counters_begin_again_with_each_start_and_ports_do_not() {
        let start = reading(10, &json!({ "0": 10_180, "1": 10_180, "3": 318 }), [500; 4]);
        let stale = reading(10, &json!({ "0": 10_180, "1": 10_180, "3": 318 }), [510; 4]);
        assert_eq!(
            (stale.clock_since(&start), stale.sample(&start, 1.0, stale.window(&start)).opened),
            (0.0, 0)
        );
        let all = json!({ "0": 10_180, "1": 10_180, "3": 318, "6": 318, "7": 19.9 });
        let end = reading(11, &all, [9000, 9000, 8000, 8000]);
        let sample = end.sample(&start, 750.0, end.window(&start));
        assert_eq!((sample.opened, sample.completed, sample.failed.total()), (10_180, 9862, 318));
        assert_eq!((sample.forth.sent, sample.unfinished), (8500, 0));
        assert_eq!((end.clock_since(&start), sample.window.seconds), (19.9, 19.9));
    }

    #[test]
    fn a_device_that_drops_everything_has_failed() {
        let start = reading(1, &json!({}), [0; 4]);
        let end =
            reading(2, &json!({ "0": 500, "1": 500, "3": 500, "6": 500, "7": 1 }), [2500, 0, 0, 0]);
        let sample = end.sample(&start, 500.0, end.window(&start));
        let allowed = Allowance { loss: 0.0, shortfall: Allowance::SHORTFALL };
        assert_eq!((sample.broken(), judge(&sample, &allowed).word()), (None, "fail"));
    }

    #[test]
    fn what_lacks_the_counters_that_are_needed_is_no_answer() {
        assert!(Names::read(&json!({})).is_none());
        assert!(Names::read(&json!({ "data": [{ "id": 1, "name": "tcps_closed" }] })).is_none());
    }
}
