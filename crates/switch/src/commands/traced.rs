//! A traced packet as text and as JSON.

use super::connections;
use crate::tracing::{Origin, Traced};
use base::PortNo;
use conntrack::Entry;
use datapath::{FoundBy, Step};
use flow::{DropReason, FlowKey};
use ofproto::text::{PortNames, format_actions, format_flow, format_key, format_ufid};
use serde_json::{Map, Value, json};
use std::fmt::Write;
use std::time::Duration;

/// The format of traced packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// One line per step.
    Text,
    /// One JSON object per line.
    Json,
}

/// Names for numbers.
#[derive(Clone, Copy)]
pub struct Names<'a> {
    /// Returns the name of a datapath port.
    pub device: &'a dyn Fn(PortNo) -> Option<String>,
    /// The worker that processed the packet.
    pub worker: &'a str,
}

/// A step: its name, its details as text, and the same as JSON.
struct Told {
    name: &'static str,
    text: String,
    fields: Value,
}

/// Writes a packet and its steps. `since` is the time since its first step, for a packet that returns after
/// an upcall.
pub fn write(out: &mut String, form: Form, traced: &Traced, since: Duration, names: Names<'_>) {
    // Writing to a string cannot fail.
    _ = match form {
        Form::Json => writeln!(out, "{}", to_json(traced, since, names)),
        Form::Text => write_text(out, traced, since, names),
    };
}

fn write_text(
    out: &mut String,
    traced: &Traced,
    since: Duration,
    names: Names<'_>,
) -> std::fmt::Result {
    let ports = ports(names);
    let (number, bytes) = (traced.id.0, traced.bytes);
    match traced.origin {
        Origin::Received { port, queue, batch, ns } => {
            let port = ports.device(port);
            write!(out, "packet {number}: {bytes} bytes from {port}, queue {queue}, ")?;
            writeln!(out, "in a batch of {batch}; {}", names.worker)?;
            writeln!(out, "  {}", packet(&traced.key, names))?;
            line(out, ns, "receive", "its share of the batch")?;
        }
        Origin::Answered => {
            write!(
                out,
                "packet {number}: back from the control side with a flow's actions after "
            )?;
            writeln!(out, "{} us; {}", since.as_micros(), names.worker)?;
        }
    }
    for (step, ns) in &traced.steps {
        let Told { name, text, .. } = tell(step, &traced.key, ports);
        line(out, *ns, name, &text)?;
    }
    let sent = &traced.sent;
    if sent.packets > 0 || !sent.dropped.is_empty() {
        let mut text = format!("{} taken by ports", sent.packets);
        for (reason, count) in &sent.dropped {
            write!(text, ", {count} dropped: {}", reason.name())?;
        }
        line(out, sent.ns, "send", &text)?;
    }
    writeln!(out, "{:>9} ns  in all\n", total_ns(traced))
}

fn line(out: &mut String, ns: u64, name: &str, text: &str) -> std::fmt::Result {
    let text = format!("{ns:>9} ns  {name:<11}{text}");
    writeln!(out, "{}", text.trim_end())
}

fn to_json(traced: &Traced, since: Duration, names: Names<'_>) -> Value {
    let ports = ports(names);
    let mut steps = Vec::new();
    for (step, ns) in &traced.steps {
        let Told { name, fields, .. } = tell(step, &traced.key, ports);
        let mut object = Map::from_iter([("step".into(), name.into()), ("ns".into(), json!(ns))]);
        object.extend(fields.as_object().cloned().unwrap_or_default());
        steps.push(Value::Object(object));
    }
    let dropped = traced.sent.dropped.iter().map(|(why, count)| (why.name().into(), json!(count)));
    let mut object = json!({
        "packet": traced.id.0,
        "flow": packet(&traced.key, names),
        "bytes": traced.bytes,
        "worker": names.worker,
        "steps": steps,
        "sent": {
            "packets": traced.sent.packets,
            "ns": traced.sent.ns,
            "dropped": Map::from_iter(dropped),
        },
        "total_ns": total_ns(traced),
    });
    object["received"] = match traced.origin {
        Origin::Received { port, queue, batch, ns } => {
            json!({"port": ports.device(port), "queue": queue, "batch": batch, "ns": ns})
        }
        Origin::Answered => Value::Null,
    };
    object["answered_after_ns"] = match traced.origin {
        Origin::Received { .. } => Value::Null,
        Origin::Answered => json!(since.as_nanos() as u64),
    };
    object
}

fn total_ns(traced: &Traced) -> u64 {
    let received_ns = match traced.origin {
        Origin::Received { ns, .. } => ns,
        Origin::Answered => 0,
    };
    received_ns + traced.steps.iter().map(|(_, ns)| ns).sum::<u64>() + traced.sent.ns
}

fn ports(names: Names<'_>) -> PortNames<'_> {
    PortNames { device: Some(names.device), ..PortNames::default() }
}

fn packet(key: &FlowKey, names: Names<'_>) -> String {
    let device = |port: base::OfPort| (names.device)(PortNo(port.0.into()));
    format_key(key, PortNames { bridge: Some(&device), ..ports(names) })
}

fn tell(step: &Step, key: &FlowKey, ports: PortNames<'_>) -> Told {
    match step {
        Step::Parsed => told("parse", String::new(), json!({})),
        Step::Probed { is_known } => {
            let text = if *is_known { "known" } else { "not known" };
            told("cache", text.to_owned(), json!({"known": is_known}))
        }
        Step::Followed { is_as_known, connection } => followed(*is_as_known, connection.as_deref()),
        Step::Hit { flow, matching, actions, by } => {
            let id = format_ufid(*flow);
            let matching = format_flow(matching.key(), matching.mask(), false, ports);
            let actions = format_actions(actions, key, ports);
            let (by, name) = found_by(*by);
            told(
                "flow",
                format!("{matching}, actions:{actions} ({by})"),
                json!({"ufid": id, "match": matching, "actions": actions, "found_in": name}),
            )
        }
        Step::Missed { recirc_id, is_queued } => {
            let asked = if *is_queued { "the control side is asked" } else { "the queue is full" };
            told(
                "miss",
                format!("recirc_id({:#x}) matches no flow: {asked}", recirc_id.0),
                json!({"recirc_id": recirc_id.0, "queued": is_queued}),
            )
        }
        Step::Tracked { zone, state, mark, label, connection } => {
            let connection = connection.as_deref();
            let text = format!("zone {}: {state}", zone.0) + &behind(connection);
            let fields = json!({
                "zone": zone.0,
                "state": state.to_string(),
                "mark": mark,
                "label": format!("{label:#x}"),
                "connection": connection.map(connections::to_json),
            });
            told("ct", text, fields)
        }
        Step::Held => told("hold", "a fragment, until the others are here".to_owned(), json!({})),
        Step::Done(action) => {
            let action = format_actions(std::slice::from_ref(action), key, ports);
            told("action", action.clone(), json!({"action": action}))
        }
        Step::NatRewritten => told("nat", "as its connection says".to_owned(), json!({})),
        Step::Copied => told("copy", "for what follows".to_owned(), json!({})),
        Step::Recirculated(id) => {
            told("recirc", format!("recirc_id({:#x})", id.0), json!({"recirc_id": id.0}))
        }
        Step::Output(port) => {
            let port = ports.device(*port);
            told("output", port.clone(), json!({"port": port}))
        }
        Step::Offered => told("remember", "its way, for the cache".to_owned(), json!({})),
        Step::Dropped(reason) => dropped(*reason),
    }
}

fn told(name: &'static str, text: String, fields: Value) -> Told {
    Told { name, text, fields }
}

fn dropped(reason: DropReason) -> Told {
    told("drop", reason.name().to_owned(), json!({"reason": reason.name()}))
}

fn followed(is_as_known: bool, connection: Option<&Entry>) -> Told {
    let text = match (is_as_known, connection) {
        (true, None) => "none, and the flows are as known".to_owned(),
        (true, Some(_)) => format!("as known{}", behind(connection)),
        (false, _) => "not as known: the packet takes the whole walk".to_owned(),
    };
    let connection = connection.map(connections::to_json);
    told("connection", text, json!({"as_known": is_as_known, "connection": connection}))
}

fn behind(connection: Option<&Entry>) -> String {
    connection.map(|entry| format!(", {entry}")).unwrap_or_default()
}

fn found_by(by: FoundBy) -> (String, &'static str) {
    match by {
        FoundBy::Unified => ("unified cache".to_owned(), "unified"),
        FoundBy::Exact => ("exact-match cache".to_owned(), "exact"),
        FoundBy::Table { subtables } => (format!("table, subtable {subtables}"), "table"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::{Instant, RecircId, WorkerId};
    use flow::{Action, Field, FlowId, Match, TraceId};
    use std::sync::Arc;

    fn traced(origin: Origin) -> Traced {
        let bytes = wire::text::parse("10.0.0.1:1000>10.0.0.2:53 udp").unwrap();
        let packet = packet::Packet::from_bytes(&bytes);
        let frame = flow::Frame::parse(packet, PortNo(1)).unwrap();
        let matching = Match::any().with(Field::RecircId, 0).with(Field::InPort, 1);
        let hit = Step::Hit {
            flow: FlowId(7),
            matching: Box::new(matching),
            actions: Arc::new([Action::Output(PortNo(2))]),
            by: FoundBy::Table { subtables: 3 },
        };
        let missed = Step::Missed { recirc_id: RecircId(5), is_queued: true };
        Traced {
            id: TraceId(4),
            worker: WorkerId(0),
            began: Instant::ZERO,
            origin,
            key: frame.key,
            bytes: bytes.len(),
            steps: vec![
                (Step::Parsed, 20),
                (hit, 30),
                (Step::Output(PortNo(2)), 10),
                (missed, 200),
                (Step::Dropped(DropReason::NoAction), 0),
            ],
            sent: crate::tracing::Sent {
                packets: 1,
                ns: 40,
                dropped: vec![(DropReason::TxQueueFull, 2)],
            },
        }
    }

    fn written(form: Form, origin: Origin) -> String {
        let device = |port: PortNo| Some(format!("p{port}"));
        let names = Names { device: &device, worker: "main thread" };
        let mut out = String::new();
        write(&mut out, form, &traced(origin), Duration::from_micros(250), names);
        out
    }

    const RECEIVED: Origin = Origin::Received { port: PortNo(1), queue: 0, batch: 2, ns: 100 };

    #[test]
    fn a_line_a_step() {
        let text = written(Form::Text, RECEIVED);
        let mut lines = text.lines();
        let length = traced(RECEIVED).bytes;
        let first =
            format!("packet 4: {length} bytes from p1, queue 0, in a batch of 2; main thread");
        assert_eq!(lines.next(), Some(first.as_str()));
        assert!(lines.next().unwrap().starts_with("  udp,in_port=p1,"), "{text}");
        let expect = "\
\x20     100 ns  receive    its share of the batch
       20 ns  parse
       30 ns  flow       recirc_id(0),in_port(p1),packet_type(ns=0,id=0), actions:p2 (table, subtable 3)
       10 ns  output     p2
      200 ns  miss       recirc_id(0x5) matches no flow: the control side is asked
        0 ns  drop       drop_action_of_pipeline
       40 ns  send       1 taken by ports, 2 dropped: ovs_tx_failure_drops
      400 ns  in all
";
        assert_eq!(
            lines.map(|line| format!("{line}\n")).collect::<String>(),
            expect.to_owned() + "\n"
        );
        let text = written(Form::Text, Origin::Answered);
        let first = "packet 4: back from the control side with a flow's actions after 250 us; main";
        assert!(text.starts_with(first), "{text}");
    }

    #[test]
    fn an_object_a_line() {
        let text = written(Form::Json, RECEIVED);
        let value: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(text.lines().count(), 1);
        assert_eq!(value["received"], json!({"port": "p1", "queue": 0, "batch": 2, "ns": 100}));
        assert_eq!((&value["packet"], &value["total_ns"]), (&json!(4), &json!(400)));
        let names: Vec<_> = value["steps"]
            .as_array()
            .unwrap()
            .iter()
            .map(|step| step["step"].as_str().unwrap())
            .collect();
        assert_eq!(names, ["parse", "flow", "output", "miss", "drop"]);
        assert_eq!(value["steps"][1]["found_in"], "table");
        assert_eq!(value["steps"][2], json!({"step": "output", "port": "p2", "ns": 10}));
        assert_eq!(value["sent"]["dropped"]["ovs_tx_failure_drops"], 2);
        let value: Value = serde_json::from_str(&written(Form::Json, Origin::Answered)).unwrap();
        assert_eq!(
            (&value["received"], &value["answered_after_ns"]),
            (&Value::Null, &json!(250_000))
        );
    }
}
