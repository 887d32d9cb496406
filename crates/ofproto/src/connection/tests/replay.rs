//! Recorded sessions of Open vSwitch's tools with Debian's switch: the replies must be the same.

use super::bench::{Bench, first_flow, read};
use crate::connection::Settings;
use openflow::message::{Message, StatsReply, Version};
use openflow::{Header, has_more};

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/openflow-sessions/");

/// One recorded connection.
#[derive(Default)]
struct Recorded {
    /// The name of the case.
    case: String,
    /// Messages to the switch.
    sent: Vec<Vec<u8>>,
    /// The replies of Debian's switch.
    answers: Vec<Answer>,
}

/// A reply, normalised in what differs by nature: hellos, times, counters.
#[derive(Clone, PartialEq, Debug)]
enum Answer {
    Message {
        xid: u32,
        text: String,
    },
    /// Contains something that our codec does not support.
    Beyond {
        xid: u32,
    },
    TableFeatures,
    TableStatistics,
    Closed,
}

fn bytes(hex: &str) -> Vec<u8> {
    let octet = |n| u8::from_str_radix(&hex[n..n + 2], 16).unwrap();
    (0..hex.len()).step_by(2).map(octet).collect()
}

fn recorded(file: &str) -> Vec<Recorded> {
    let text = std::fs::read_to_string(format!("{FOLDER}{file}")).unwrap();
    let mut all: Vec<Recorded> = Vec::new();
    let mut case = String::new();
    for line in text.lines() {
        let Some((mark, rest)) = line.split_once(' ') else { continue };
        match (mark, rest) {
            ("##", name) => {
                case = name.to_owned();
                all.push(Recorded { case: case.clone(), ..Recorded::default() });
            }
            ("#", "connection") => {
                all.push(Recorded { case: case.clone(), ..Recorded::default() });
            }
            (">", hex) => all.last_mut().unwrap().sent.push(bytes(hex)),
            ("<", answer) => {
                let answer = match answer {
                    "table features" => Some(Answer::TableFeatures),
                    "table statistics" => Some(Answer::TableStatistics),
                    "closed" => Some(Answer::Closed),
                    hex => comparable(&bytes(hex)),
                };
                all.last_mut().unwrap().answers.extend(answer);
            }
            _ => {}
        }
    }
    all.retain(|recorded| !recorded.sent.is_empty());
    all
}

fn comparable(bytes: &[u8]) -> Option<Answer> {
    let Header { version, xid, .. } = Header::read(bytes)?;
    if !Version::ALL.into_iter().any(|known| known as u8 == version) {
        return Some(Answer::Message { xid, text: format!("{bytes:02x?}") });
    }
    let Ok(mut message) = read(bytes) else { return Some(Answer::Beyond { xid }) };
    match &mut message {
        Message::Hello { .. } => return None,
        Message::StatsReply(StatsReply::TableFeatures(_)) => return Some(Answer::TableFeatures),
        Message::StatsReply(StatsReply::Flow { flows, .. }) => {
            for flow in flows.iter_mut() {
                (flow.duration_ns, flow.idle_age_s, flow.hard_age_s) = (0, 0, 0);
            }
            flows.sort_by_cached_key(|flow| format!("{flow:?}"));
        }
        Message::StatsReply(StatsReply::Port(ports)) => {
            for port in ports.iter_mut() {
                port.duration_ns = 0;
                port.counters = port.counters.map(|counter| counter.map(|_| 0));
            }
            ports.sort_by_key(|port| port.port);
        }
        Message::StatsReply(StatsReply::Table(tables)) => {
            for table in tables.iter_mut() {
                (table.lookups, table.matched) = (0, 0);
            }
        }
        Message::StatsReply(StatsReply::PortDesc(ports)) => ports.sort_by_key(|port| port.port),
        Message::FeaturesReply { ports, .. } => ports.sort_by_key(|port| port.port),
        _ => {}
    }
    Some(Answer::Message { xid, text: format!("{version} {message:?}") })
}

/// All messages of one file.
pub fn sent(file: &str) -> Vec<Vec<u8>> {
    recorded(file).into_iter().flat_map(|recorded| recorded.sent).collect()
}

/// The replies of our switch.
fn answers(messages: &[Vec<u8>]) -> Vec<Answer> {
    let mut answers = Vec::new();
    let mut in_parts = false;
    for bytes in messages {
        let is_part = std::mem::replace(&mut in_parts, has_more(bytes));
        match comparable(bytes) {
            // A switch may split table features into any number of parts.
            Some(Answer::TableFeatures) if is_part => {}
            answer => answers.extend(answer),
        }
    }
    answers
}

fn is_same(got: &Answer, wanted: &Answer) -> bool {
    match (got, wanted) {
        (Answer::Message { text, .. }, Answer::TableStatistics) => text.contains("Table("),
        _ => got == wanted,
    }
}

/// The replies that differ, and why. All others must be equal.
const OTHER_ANSWERS: &[(&str, &str)] = &[
    ("add-flow-fields:", "learn is not supported: an error"),
    ("dump-flows-after:", "holds the flow that was refused"),
    ("dump-aggregate:", "counts the flow that was refused"),
    ("dump-group-stats:", "the group has another age"),
    ("set-frags:", "fragments are always treated as other packets are"),
    ("set-frags-normal:", "as above"),
    ("add-meter:", "meters are not supported: an error"),
    ("dump-meters:", "the meter was refused"),
    ("meter-stats:", "the meter was refused"),
    ("table 255 stats", "the bridge had other flows"),
    ("flow stats table 99 empty", "the bridge had other flows"),
    ("match type 0", "the length is right, the type is not"),
    ("goto_table 255", "there is no table 255: an error"),
    ("meter missing", "meters are not supported: another error"),
    ("group desc", "the bridge had a group"),
    ("group modify", "the bridge had a group"),
    ("meter add", "meters are not supported: another error"),
    ("meter modify", "meters are not supported: another error"),
    ("port_mod unknown port", "OpenFlow 1.5's property is not asked for"),
    ("port_mod wrong hw addr", "OpenFlow 1.5's property is not asked for"),
    ("get async", "not supported: an error"),
    ("table_mod", "not supported: an error"),
    ("packet_out bad in_port 0", "port 0 is an error, and in 1.5 the match's type"),
    ("packet_out short frame", "a frame that is no frame is an error"),
    ("packet_out unknown buffer", "in 1.5 the match's type is wrong first"),
];

fn plays(bench: &mut Bench, file: &str, hello: Option<Version>) {
    let mut wrong = Vec::new();
    let all = recorded(file);
    assert!(!all.is_empty());
    for Recorded { case, sent, answers: wanted } in all {
        let id = bench.open(Settings::service());
        let greets = case.starts_with("hello") || case.starts_with("non-hello");
        if let Some(version) = hello.filter(|_| !greets) {
            bench.send(id, &[version as u8, 0, 0, 8, 0, 0, 0, 1]);
        }
        sent.iter().for_each(|bytes| bench.send(id, bytes));
        let mut got = answers(&bench.take(id));
        if bench.connections.is_closing(id).is_some() {
            got.push(Answer::Closed);
        }
        bench.connections.close(id, &mut bench.core);
        let same = got.len() == wanted.len()
            && got.iter().zip(&wanted).all(|(got, wanted)| is_same(got, wanted));
        let may_differ = OTHER_ANSWERS.iter().any(|(name, _)| case.starts_with(name));
        if !same && !may_differ {
            wrong.push(format!("{case}\n   got {got:?}\nwanted {wanted:?}\n"));
        }
    }
    assert!(wrong.is_empty(), "{file}\n{}", wrong.join("\n"));
}

/// A bridge with the initial flow of the tools' sessions.
fn bridge() -> Bench {
    let mut bench = Bench::new(0);
    let now = bench.now;
    bench.core.flow_mod(bench.bridge, &first_flow(), now).unwrap();
    bench
}

#[test]
fn tools_get_the_answers_that_debians_switch_gives() {
    for file in ["tools-10.txt", "tools-13.txt", "tools-14.txt", "tools-15.txt"] {
        plays(&mut bridge(), file, None);
    }
}

#[test]
fn odd_messages_get_the_errors_that_debians_switch_gives() {
    // All sessions use one bridge: generation ids carry over.
    let mut bench = bridge();
    plays(&mut bench, "errors-1.txt", Some(Version::V10));
    plays(&mut bench, "errors-4.txt", Some(Version::V13));
    plays(&mut bench, "errors-6.txt", Some(Version::V15));
}
