//! TRex's counters by name, and what they say in this program's terms.
//!
//! Names are those of trex-core's `src/44bsd/tcp_var.h` and of its flow table. Each counter counts
//! on over several starts, or begins again with one: either way a reading has what came since.

use generator::Failures;
use generator::search::{Direction, Sample, Window};
use serde_json::Value;
use std::collections::HashMap;

/// Names of counters by the number under which their values come.
#[derive(Clone, Debug, Default)]
pub struct Names(HashMap<String, String>);

impl Names {
    /// Of the answer to `get_counter_desc`.
    pub fn read(answer: &Value) -> Option<Names> {
        let all = answer.get("data")?.as_array()?;
        let named = |it: &Value| {
            Some((it.get("id")?.as_u64()?.to_string(), it.get("name")?.as_str()?.to_owned()))
        };
        let names: HashMap<_, _> = all.iter().filter_map(named).collect();
        // Without these nothing could be said of a rate.
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
            // Less than before: it began again.
            (name.clone(), if *now < then { *now } else { now - then })
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
    /// Adds the answer to `get_port_stats` of one port.
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

/// Everything at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reading {
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
    /// How busy TRex's cores are, 0 to 1.
    pub busy: f64,
}

impl Reading {
    /// Of the answers to `get_counter_values` and `get_global_stats`; ports are added.
    pub fn read(values: &Value, global: &Value, names: &Names) -> Reading {
        let number = |name: &str| global.get(name).and_then(Value::as_f64).unwrap_or(0.0);
        Reading {
            client: Side::read(&values["client"], names),
            server: Side::read(&values["server"], names),
            active: number("m_active_flows") as u64,
            queue_dropped: number("m_total_queue_drop") as u64,
            busy: number("m_cpu_util") / 100.0,
            ..Reading::default()
        }
    }

    fn since(&self, before: &Reading) -> Reading {
        Reading {
            client: self.client.since(&before.client),
            server: self.server.since(&before.server),
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

    /// What came between two readings of one sample.
    pub fn window(&self, before: &Reading, seconds: f64) -> Window {
        let part = self.since(before);
        let failed = part.failures().total();
        let (one, other) = (part.client_ports, part.server_ports);
        Window {
            seconds,
            opened: part.opened(),
            completed: part.closed().saturating_sub(failed),
            active: self.active,
            tx_packets: one.tx_packets + other.tx_packets,
            tx_bytes: one.tx_bytes + other.tx_bytes,
            rx_packets: one.rx_packets + other.rx_packets,
            rx_bytes: one.rx_bytes + other.rx_bytes,
            payload_bytes: part.client.sum(&[
                "tcps_sndbyte_ok",
                "tcps_rcvbyte",
                "udps_sndbyte",
                "udps_rcvbyte",
            ]),
            client_packets: one.tx_packets + one.rx_packets,
            busy: self.busy,
            behind: None,
        }
    }

    fn failures(&self) -> Failures {
        let client = &self.client;
        let opening = client.get("tcps_conndrops");
        let timed_out = client.sum(&["tcps_timeoutdrop", "tcps_keepdrops"]);
        Failures {
            timed_out_opening: opening,
            timed_out: timed_out + client.get("udps_keepdrops"),
            // All drops, those for a reason of their own among them.
            reset: client.get("tcps_drops").saturating_sub(opening + timed_out),
            ..Failures::default()
        }
    }

    /// The whole trial, from its first connection until nothing is on its way.
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
            ..Sample::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn names() -> Names {
        let all = ["tcps_connattempt", "tcps_closed", "tcps_drops", "tcps_conndrops"];
        let all = all.into_iter().chain(["udps_connects", "err_flow_overflow", "tcps_keepdrops"]);
        let data: Vec<Value> =
            all.enumerate().map(|(id, name)| json!({ "id": id, "name": name })).collect();
        Names::read(&json!({ "data": data })).unwrap()
    }

    fn reading(client: &Value, ports: [u64; 4]) -> Reading {
        let values = json!({ "epoch": 1, "client": client, "server": {} });
        let global = json!({ "m_active_flows": 7.0, "m_cpu_util": 40.5 });
        let mut it = Reading::read(&values, &global, &names());
        it.client_ports.add(&json!({ "opackets": ports[0], "ipackets": ports[3] }));
        it.server_ports.add(&json!({ "ipackets": ports[1], "opackets": ports[2], "oerrors": 0 }));
        it
    }

    #[test]
    fn counters_become_a_sample() {
        let start = reading(&json!({ "0": 100, "1": 100 }), [10, 10, 10, 10]);
        let end = reading(
            // 1,100 opened, 1,095 ended; 5 dropped, of which 3 while opening and 1 in silence.
            &json!({ "0": 1100, "1": 1095, "2": 5, "3": 3, "5": 0, "6": 1 }),
            [4010, 4000, 3010, 3010],
        );
        let sample = end.sample(&start, 1000.0, end.window(&start, 1.0));
        assert_eq!((sample.opened, sample.completed, sample.unfinished), (1000, 990, 5));
        let Failures { timed_out_opening, timed_out, reset, .. } = sample.failed;
        assert_eq!((timed_out_opening, timed_out, reset), (3, 1, 1));
        let counted = sample.completed + sample.failed.total() + sample.unfinished;
        assert_eq!(counted, sample.opened);
        assert_eq!((sample.forth.lost(), sample.back.lost()), (10, 0));
        assert_eq!((sample.window.opened, sample.window.active), (1000, 7));
        assert!((sample.window.busy - 0.405).abs() < 1e-9);
    }

    #[test]
    fn counters_that_began_again_count_from_nothing() {
        let start = reading(&json!({ "0": 100, "1": 100 }), [500; 4]);
        let end = reading(&json!({ "0": 30, "1": 30 }), [90; 4]);
        let sample = end.sample(&start, 30.0, end.window(&start, 1.0));
        assert_eq!((sample.opened, sample.forth.sent), (30, 90));
    }

    #[test]
    fn what_lacks_the_counters_that_are_needed_is_no_answer() {
        assert!(Names::read(&json!({})).is_none());
        assert!(Names::read(&json!({ "data": [{ "id": 1, "name": "tcps_closed" }] })).is_none());
    }
}
