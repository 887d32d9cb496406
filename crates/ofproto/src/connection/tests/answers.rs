//! Flow-mods with every action, and what Open vSwitch 3.7.1 answered to them (`testdata/openflow-answers`).

use super::bench::Bench;
use crate::connection::{ConnId, Settings};
use openflow::message::{FlowStatsRequest, Message, RemovedReason, StatsRequest, Version};
use openflow::text;
use std::collections::BTreeMap;
use std::fmt::Write as _;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/openflow-answers/");

/// What the daemon answered to one flow-mod.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Answer {
    /// The actions or instructions of the dump.
    Flow(Vec<u8>),
    /// The beginning of the error.
    Error(Vec<u8>),
}

struct Asked {
    flow_mod: Vec<u8>,
    answer: Answer,
    /// Dumps in other versions.
    dumps: Vec<(u8, Vec<u8>)>,
    /// Answers to faulty copies: a number of [`Recorded::errors`] from 1, or 0 for none.
    faulty: Vec<usize>,
}

struct Case {
    flow: String,
    asked: Vec<Asked>,
    /// The flow as text, if a version accepts it.
    text: Option<String>,
}

struct Recorded {
    cases: Vec<Case>,
    errors: Vec<Vec<u8>>,
}

fn bytes(hex: &str) -> Vec<u8> {
    let octet = |n| u8::from_str_radix(&hex[n..n + 2], 16).unwrap();
    (0..hex.len()).step_by(2).map(octet).collect()
}

/// `0*3 2` is `0 0 0 2`.
fn numbers(text: &str) -> Vec<usize> {
    let run = |part: &str| {
        let (number, count) = part.split_once('*').unwrap_or((part, "1"));
        std::iter::repeat_n(number.parse().unwrap(), count.parse().unwrap())
    };
    text.split_whitespace().flat_map(run).collect()
}

fn recorded(file: &str, bench: &mut Bench, setup: ConnId) -> Recorded {
    let all = std::fs::read_to_string(format!("{FOLDER}{file}")).unwrap();
    let (mut cases, mut errors) = (Vec::<Case>::new(), Vec::new());
    let mut is_end = false;
    for line in all.lines().filter(|line| !line.is_empty()) {
        let (mark, rest) = line.split_once(' ').unwrap();
        is_end |= rest == "errors";
        match mark {
            "s" => bench.send(setup, &bytes(rest)),
            "#" if is_end => {}
            "#" => cases.push(Case { flow: rest.to_owned(), asked: Vec::new(), text: None }),
            "e" if is_end => errors.push(bytes(rest)),
            "=" => cases.last_mut().unwrap().text = Some(rest.to_owned()),
            "!" => {}
            mark => {
                let asked = &mut cases.last_mut().unwrap().asked;
                match mark {
                    ">" => {
                        let flow_mod = bytes(rest);
                        let answer = Answer::Flow(flow_mod[behind_match(&flow_mod)..].to_vec());
                        let (dumps, faulty) = (Vec::new(), Vec::new());
                        asked.push(Asked { flow_mod, answer, dumps, faulty });
                    }
                    "<" => asked.last_mut().unwrap().answer = Answer::Flow(bytes(rest)),
                    "e" => asked.last_mut().unwrap().answer = Answer::Error(bytes(rest)),
                    "~" => asked.last_mut().unwrap().faulty = numbers(rest),
                    mark => {
                        let version = mark.strip_prefix('d').unwrap().parse().unwrap();
                        asked.last_mut().unwrap().dumps.push((version, bytes(rest)));
                    }
                }
            }
        }
    }
    Recorded { cases, errors }
}

fn padded(bytes: &[u8], at: usize) -> usize {
    usize::from(u16::from_be_bytes([bytes[at], bytes[at + 1]])).next_multiple_of(8)
}

/// The offset of a flow-mod's actions or instructions.
fn behind_match(flow_mod: &[u8]) -> usize {
    /// OFPT_FLOW_MOD; otherwise it is NXT_FLOW_MOD.
    const FLOW_MOD: u8 = 14;
    match flow_mod[0] {
        1 if flow_mod[1] == FLOW_MOD => 72,
        1 => 48 + padded(flow_mod, 42),
        2 => 48 + 88,
        _ => 48 + padded(flow_mod, 50),
    }
}

/// The offset of the actions or instructions in a reply with one flow.
fn behind_statistics(reply: &[u8]) -> usize {
    match reply[0] {
        1 => 24 + 48 + padded(reply, 24 + 18),
        6 => {
            let statistics = 16 + 24 + padded(reply, 16 + 24 + 2);
            statistics + padded(reply, statistics + 2)
        }
        _ => 16 + 48 + padded(reply, 16 + 48 + 2),
    }
}

/// The bridge of the recording, with a connection of each version.
struct Peers {
    bench: Bench,
    connections: BTreeMap<u8, ConnId>,
}

impl Peers {
    fn new() -> Self {
        let mut bench = Bench::new(0);
        bench.core.features.debug_actions = true;
        let connect = |version| (version as u8, bench.connect(Settings::service(), version));
        let connections = Version::ALL.map(connect).into();
        Peers { bench, connections }
    }

    /// The beginning of an error, if it is the answer.
    fn error(&mut self, flow_mod: &[u8]) -> Option<Vec<u8>> {
        let id = self.connections[&flow_mod[0]];
        self.bench.send(id, flow_mod);
        let answers = self.bench.take(id);
        assert!(answers.len() <= 1);
        let error = answers.first()?;
        let len = match (error[8], error[9]) {
            (0xff, 0xff) => 8,
            (0xb0, 0xc2) => 12,
            _ => 4,
        };
        Some(error[8..8 + len].to_vec())
    }

    fn answer(&mut self, flow_mod: &[u8]) -> Answer {
        if let Some(error) = self.error(flow_mod) {
            return Answer::Error(error);
        }
        Answer::Flow(self.dump(flow_mod[0]))
    }

    /// The actions or instructions of the bridge's only flow.
    fn dump(&mut self, version: u8) -> Vec<u8> {
        let id = self.connections[&version];
        let request = FlowStatsRequest::default();
        let nicira = version == Version::V10 as u8;
        self.bench.tell(id, &Message::StatsRequest(StatsRequest::Flow { request, nicira }));
        let replies = self.bench.take(id);
        let reply = replies.first().unwrap();
        reply[behind_statistics(reply)..].to_vec()
    }

    fn text(&self) -> String {
        let all = FlowStatsRequest::default();
        let flows = self.bench.core.flows(self.bench.bridge, &all, self.bench.now);
        let flow = flows.first().unwrap();
        let matching = text::format_match(&flow.matching, Some(flow.priority));
        format!("{matching},actions={}", text::format_actions(&flow.actions, &flow.matching))
    }

    fn clear(&mut self) {
        let bridge = self.bench.bridge;
        for rule in self.bench.core.bridge(bridge).unwrap().tables.all() {
            self.bench.core.delete_rule(rule, RemovedReason::Delete, self.bench.now);
        }
        self.bench.core.take_events();
    }
}

/// Compares all answers. `differs` lists flows, or the beginnings of several, with other answers on purpose, and why.
fn check(file: &str, differs: &[(&str, &str)]) {
    let mut peers = Peers::new();
    let setup = peers.connections[&(Version::V13 as u8)];
    let Recorded { cases, errors } = recorded(file, &mut peers.bench, setup);
    assert!(peers.bench.take(setup).is_empty());
    let mut wrong = String::new();
    let (mut copies, mut others) = (0, 0);
    for case in &cases {
        let may_differ = differs.iter().any(|(flow, _)| case.flow == *flow);
        peers.check(case, &mut wrong, may_differ);
        for asked in &case.asked {
            copies += asked.faulty.len();
            others += peers.other_errors(&case.flow, asked, &errors);
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    // Mostly of two errors in one message the other is told: 458 of 73,920 copies of all actions.
    assert!(others * 160 < copies, "{others} of {copies} faulty copies get other answers");
}

impl Peers {
    fn check(&mut self, case: &Case, wrong: &mut String, may_differ: bool) {
        let flow = &case.flow;
        let mut text = None;
        let mut tell = |what: &str, got: &Answer, wanted: &Answer| {
            if got != wanted && !may_differ {
                let (got, wanted) = (short(got), short(wanted));
                let _ = writeln!(wrong, "{flow}, {what}\n   got {got}\n  not {wanted}");
            }
        };
        for asked in &case.asked {
            let version = asked.flow_mod[0];
            self.clear();
            let answer = self.answer(&asked.flow_mod);
            if matches!(answer, Answer::Flow(_)) {
                text = text.or_else(|| Some(self.text()));
            }
            tell(&format!("version {version}"), &answer, &asked.answer);
            for (other, wanted) in &asked.dumps {
                let got = Answer::Flow(self.dump(*other));
                tell(&format!("{version} as {other}"), &got, &Answer::Flow(wanted.clone()));
            }
        }
        if text != case.text && !may_differ {
            let _ = writeln!(wrong, "{flow}\n   got {text:?}\n  not {:?}", case.text);
        }
    }

    /// How many faulty copies get an answer that does not go with Open vSwitch's.
    fn other_errors(&mut self, flow: &str, asked: &Asked, errors: &[Vec<u8>]) -> usize {
        let mut others = 0;
        for (copy, &wanted) in faulty(&asked.flow_mod).zip(&asked.faulty) {
            let answer = self.error(&copy);
            if answer.is_none() {
                self.clear();
            }
            let wanted = wanted.checked_sub(1).map(|number| &errors[number]);
            others += usize::from(!is_alike(flow, answer.as_ref(), wanted));
        }
        others
    }
}

/// Whether two answers are the same, or differ for a known reason.
fn is_alike(flow: &str, got: Option<&Vec<u8>>, wanted: Option<&Vec<u8>>) -> bool {
    /// OFPBAC_BAD_SET_TYPE, and its number before OpenFlow 1.2. That of OFPBAC_BAD_SET_LEN is the next.
    const SET_TYPES: [&[u8]; 2] =
        [&[0, 2, 0, 13], &[0xb0, 0xc2, 0, 0, 0, 0, 0x23, 0x20, 0, 1, 2, 11]];
    const BAD_ARGUMENT: &[u8] = &[0, 2, 0, 5];
    match (got, wanted) {
        // Open vSwitch calls an unknown field's length wrong if its table of hashes has a field of another length
        // close by (`lib/nx-match.c`, `nxm_field_by_header`).
        (Some(got), Some(wanted)) if got != wanted => SET_TYPES.iter().any(|set_type| {
            let mut set_len = set_type.to_vec();
            set_len.iter_mut().last().into_iter().for_each(|last| *last += 1);
            got == set_type && *wanted == set_len
        }),
        // It does not check the other parts of bundle_load (`lib/ofp-actions.c`, `decode_bundle`), and ends with them.
        (Some(got), None) => flow.contains("bundle_load") && got == BAD_ARGUMENT,
        (got, wanted) => got == wanted,
    }
}

#[test]
fn names_of_fields_may_have_the_bit_of_a_mask_where_open_vswitch_ignores_it() {
    check("masks.flows.answers", &[]);
}

#[test]
fn actions_get_the_answers_that_open_vswitch_gives() {
    let lost = "a dump for OpenFlow 1.0 loses the mask there";
    let present = "OpenFlow 1.5 requires the bit for the tag, which is missing there";
    let order = "no action may stand behind write_metadata, which is assigned here";
    check(
        "actions.flows.answers",
        &[
            ("ip,actions=dec_ttl(0)", "it is written as dec_ttl, which does the same"),
            (
                "actions=sample(probability=1,obs_domain_id=nsh_c1[])",
                "ovs-ofctl cannot write this field: it is the constant 0, in a shorter form here",
            ),
            ("ip,actions=set_field:10.0.0.1/255.0.0.255->ip_dst", lost),
            ("actions=set_field:0x0005/0x0fff->vlan_tci", lost),
            ("actions=set_field:00:00:00:00:00:05/00:00:00:00:00:ff->eth_src", lost),
            ("actions=load:5->NXM_OF_VLAN_TCI[0..11]", lost),
            ("dl_vlan=1,actions=set_field:4101/0xfff->vlan_vid", present),
            ("dl_vlan=1,actions=load:5->OXM_OF_VLAN_VID[]", present),
            (
                "actions=output:1,clear_actions,write_actions(output:2),write_metadata:5,goto_table:3",
                order,
            ),
            (
                "actions=meter:1,output:1,clear_actions,write_actions(output:2),write_metadata:5,\
                 goto_table:3",
                order,
            ),
        ],
    );
}

fn short(answer: &Answer) -> String {
    let (mark, bytes) = match answer {
        Answer::Flow(bytes) => ("flow", bytes),
        Answer::Error(bytes) => ("error", bytes),
    };
    bytes.iter().fold(format!("{mark} "), |mut out, byte| {
        let _ = write!(out, "{byte:02x}");
        out
    })
}

/// Copies of a flow-mod with one byte changed, in the order of the recording.
fn faulty(flow_mod: &[u8]) -> impl Iterator<Item = Vec<u8>> + '_ {
    let places = behind_match(flow_mod)..flow_mod.len();
    places.flat_map(move |at| {
        [0x01, 0xff].map(|change| {
            let mut copy = flow_mod.to_vec();
            copy[at] ^= change;
            copy
        })
    })
}
