//! OpenFlow messages, tried over a connection to a bridge.

use super::flows::{NOW, bridge};
use super::{Row, note_of};
use base::PortNo;
use ofproto::Outbox;
use ofproto::connection::{Connections, Settings, Switch};
use openflow::message::{Message, Version};
use openflow::{DecodeOptions, ErrorCode, Framer, decode};

/// The position of a message's number.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Standard,
    Statistics,
    Nicira,
    NiciraStatistics,
    Onf,
    OnfStatistics,
}
use Kind::{Nicira, NiciraStatistics, Onf, OnfStatistics, Standard, Statistics};

/// A message: the position of its number, the number, its name, and the first and last wire version that has
/// it.
type Listed = (Kind, u32, &'static str, u8, u8);

/// Messages that a controller may send to Open vSwitch 3.1 (ovs: `include/openvswitch/ofp-msgs.h`).
const MESSAGES: &[Listed] = &[
    (Standard, 0, "OFPT_HELLO", 1, 6),
    (Standard, 1, "OFPT_ERROR", 1, 6),
    (Standard, 2, "OFPT_ECHO_REQUEST", 1, 6),
    (Standard, 3, "OFPT_ECHO_REPLY", 1, 6),
    (Standard, 5, "OFPT_FEATURES_REQUEST", 1, 6),
    (Standard, 7, "OFPT_GET_CONFIG_REQUEST", 1, 6),
    (Standard, 9, "OFPT_SET_CONFIG", 1, 6),
    (Standard, 13, "OFPT_PACKET_OUT", 1, 6),
    (Standard, 14, "OFPT_FLOW_MOD", 1, 6),
    (Standard, 15, "OFPT_GROUP_MOD", 2, 6),
    (Standard, 15, "OFPT_PORT_MOD", 1, 1),
    (Standard, 16, "OFPT_PORT_MOD", 2, 6),
    (Standard, 17, "OFPT_TABLE_MOD", 2, 6),
    (Standard, 18, "OFPT_BARRIER_REQUEST", 1, 1),
    (Standard, 20, "OFPT_BARRIER_REQUEST", 2, 6),
    (Standard, 20, "OFPT_QUEUE_GET_CONFIG_REQUEST", 1, 1),
    (Standard, 22, "OFPT_QUEUE_GET_CONFIG_REQUEST", 2, 4),
    (Standard, 24, "OFPT_ROLE_REQUEST", 3, 6),
    (Standard, 26, "OFPT_GET_ASYNC_REQUEST", 4, 6),
    (Standard, 28, "OFPT_SET_ASYNC", 4, 6),
    (Standard, 29, "OFPT_METER_MOD", 4, 6),
    (Standard, 33, "OFPT_BUNDLE_CONTROL", 5, 6),
    (Standard, 34, "OFPT_BUNDLE_ADD_MESSAGE", 5, 6),
    (Statistics, 0, "OFPST_DESC", 1, 6),
    (Statistics, 1, "OFPST_FLOW", 1, 6),
    (Statistics, 2, "OFPST_AGGREGATE", 1, 6),
    (Statistics, 3, "OFPST_TABLE", 1, 6),
    (Statistics, 4, "OFPST_PORT", 1, 6),
    (Statistics, 5, "OFPST_QUEUE", 1, 6),
    (Statistics, 6, "OFPST_GROUP", 2, 6),
    (Statistics, 7, "OFPST_GROUP_DESC", 2, 6),
    (Statistics, 8, "OFPST_GROUP_FEATURES", 3, 6),
    (Statistics, 9, "OFPST_METER", 4, 6),
    (Statistics, 10, "OFPST_METER_CONFIG", 4, 6),
    (Statistics, 11, "OFPST_METER_FEATURES", 4, 6),
    (Statistics, 12, "OFPST_TABLE_FEATURES", 4, 6),
    (Statistics, 13, "OFPST_PORT_DESC", 1, 6),
    (Statistics, 14, "OFPST_TABLE_DESC", 5, 6),
    (Statistics, 15, "OFPST_QUEUE_DESC", 5, 6),
    (Statistics, 16, "OFPST_FLOW_MONITOR", 5, 6),
    (Nicira, 10, "NXT_ROLE_REQUEST", 1, 6),
    (Nicira, 12, "NXT_SET_FLOW_FORMAT", 1, 1),
    (Nicira, 13, "NXT_FLOW_MOD", 1, 6),
    (Nicira, 15, "NXT_FLOW_MOD_TABLE_ID", 1, 6),
    (Nicira, 16, "NXT_SET_PACKET_IN_FORMAT", 1, 6),
    (Nicira, 18, "NXT_FLOW_AGE", 1, 6),
    (Nicira, 19, "NXT_SET_ASYNC_CONFIG", 1, 6),
    (Nicira, 20, "NXT_SET_CONTROLLER_ID", 1, 6),
    (Nicira, 21, "NXT_FLOW_MONITOR_CANCEL", 1, 3),
    (Nicira, 24, "NXT_TLV_TABLE_MOD", 1, 6),
    (Nicira, 25, "NXT_TLV_TABLE_REQUEST", 1, 6),
    (Nicira, 27, "NXT_SET_ASYNC_CONFIG2", 1, 4),
    (Nicira, 28, "NXT_RESUME", 1, 6),
    (Nicira, 29, "NXT_CT_FLUSH_ZONE", 1, 6),
    (Nicira, 31, "NXT_GROUP_MOD", 1, 1),
    (Nicira, 32, "NXT_CT_FLUSH", 1, 6),
    (NiciraStatistics, 0, "NXST_FLOW", 1, 1),
    (NiciraStatistics, 1, "NXST_AGGREGATE", 1, 1),
    (NiciraStatistics, 2, "NXST_FLOW_MONITOR", 1, 3),
    (NiciraStatistics, 3, "NXST_IPFIX_BRIDGE", 1, 6),
    (NiciraStatistics, 4, "NXST_IPFIX_FLOW", 1, 6),
    (NiciraStatistics, 7, "NXST_GROUP", 1, 1),
    (NiciraStatistics, 8, "NXST_GROUP_DESC", 1, 1),
    (NiciraStatistics, 9, "NXST_GROUP_FEATURES", 1, 2),
    (Onf, 1870, "ONFT_FLOW_MONITOR_CANCEL", 4, 4),
    (Onf, 2300, "ONFT_BUNDLE_CONTROL", 4, 4),
    (Onf, 2301, "ONFT_BUNDLE_ADD_MESSAGE", 4, 4),
    (OnfStatistics, 1870, "ONFST_FLOW_MONITOR", 4, 4),
];

/// Messages that only Open vSwitch 3.1 sends.
const SENT: &[Listed] = &[
    (Standard, 6, "OFPT_FEATURES_REPLY", 1, 6),
    (Standard, 8, "OFPT_GET_CONFIG_REPLY", 1, 6),
    (Standard, 10, "OFPT_PACKET_IN", 1, 6),
    (Standard, 11, "OFPT_FLOW_REMOVED", 1, 6),
    (Standard, 12, "OFPT_PORT_STATUS", 1, 6),
    (Standard, 19, "OFPT_BARRIER_REPLY", 1, 1),
    (Standard, 21, "OFPT_BARRIER_REPLY", 2, 6),
    (Standard, 21, "OFPT_QUEUE_GET_CONFIG_REPLY", 1, 1),
    (Standard, 23, "OFPT_QUEUE_GET_CONFIG_REPLY", 2, 4),
    (Standard, 25, "OFPT_ROLE_REPLY", 3, 6),
    (Standard, 27, "OFPT_GET_ASYNC_REPLY", 4, 6),
    (Standard, 30, "OFPT_ROLE_STATUS", 5, 6),
    (Standard, 31, "OFPT_TABLE_STATUS", 5, 6),
    (Standard, 32, "OFPT_REQUESTFORWARD", 5, 6),
    (Nicira, 11, "NXT_ROLE_REPLY", 1, 6),
    (Nicira, 14, "NXT_FLOW_REMOVED", 1, 6),
    (Nicira, 17, "NXT_PACKET_IN", 1, 6),
    (Nicira, 22, "NXT_FLOW_MONITOR_PAUSED", 1, 3),
    (Nicira, 23, "NXT_FLOW_MONITOR_RESUMED", 1, 3),
    (Nicira, 26, "NXT_TLV_TABLE_REPLY", 1, 6),
    (Nicira, 30, "NXT_PACKET_IN2", 1, 6),
    (Nicira, 132, "NXT_REQUESTFORWARD", 1, 3),
    (Onf, 1871, "ONFT_FLOW_MONITOR_PAUSED", 4, 4),
    (Onf, 1872, "ONFT_FLOW_MONITOR_RESUMED", 4, 4),
    (Onf, 1911, "ONFT_ROLE_STATUS", 4, 4),
    (Onf, 2350, "ONFT_REQUESTFORWARD", 4, 4),
];

const MESSAGE_NOTES: &[(&str, &str)] = &[
    ("NXST_IPFIX*", "there is no sampling of flows"),
    ("NXT_SET_FLOW_FORMAT NXT_FLOW_AGE", "not known in Open vSwitch 3.1 either, or withdrawn"),
];

/// A meter-mod is sent with a valid body: meter 1 in kilobits per second with a drop band.
const METER_MOD: &str = "OFPT_METER_MOD";
const ADD_METER: [u8; 24] =
    [0, 0, 0, 1, 0, 0, 0, 1, 0, 1, 0, 16, 0, 0, 3, 232, 0, 0, 0, 0, 0, 0, 0, 0];

const VERSIONS: [&str; 6] = ["1.0", "1.1", "1.2", "1.3", "1.4", "1.5"];

/// Returns the bytes of a message, with an empty body by default.
fn bytes(version: Version, (kind, number, name, ..): Listed) -> Vec<u8> {
    let number16 = (number as u16).to_be_bytes();
    let statistics = if version == Version::V10 { 16 } else { 18 };
    let padding: &[u8] = if version == Version::V10 { &[] } else { &[0; 4] };
    let of_vendor = |vendor: u32| [&vendor.to_be_bytes()[..], &number.to_be_bytes()].concat();
    let statistics_of = |vendor: u32| {
        let head = [&[0xff_u8, 0xff, 0, 0][..], padding].concat();
        // OpenFlow 1.0 has no padding before the vendor, and Nicira's number is followed by some.
        let tail = if version == Version::V10 { vec![0; 4] } else { Vec::new() };
        [head, of_vendor(vendor), tail].concat()
    };
    let (kind, body) = match kind {
        Standard if name == METER_MOD => (number as u8, ADD_METER.to_vec()),
        Standard => (number as u8, Vec::new()),
        Statistics => (statistics, [&number16[..], &[0, 0], padding].concat()),
        Nicira => (4, of_vendor(0x2320)),
        Onf => (4, of_vendor(0x4f4e_4600)),
        NiciraStatistics => (statistics, statistics_of(0x2320)),
        OnfStatistics => (statistics, statistics_of(0x4f4e_4600)),
    };
    let length = (8 + body.len() as u16).to_be_bytes();
    [&[version as u8, kind, length[0], length[1], 0, 0, 0, 7][..], &body].concat()
}

/// Returns whether the switch knows a message of a version. One with an empty body may still be rejected, but
/// not because of its number.
fn is_known(version: Version, listed: Listed) -> bool {
    let (mut core, bridge) = bridge();
    let (mut connections, mut out) = (Connections::new(), Outbox::default());
    let id = connections.open(bridge, Settings::controller(), NOW);
    let hello = [version as u8, 0, 0, 8, 0, 0, 0, 1];
    let message = bytes(version, listed);
    // A connection has only one hello, so a hello is sent alone.
    let count = if message[1] == 0 { 1 } else { 2 };
    for message in &[&hello[..], &message][..count] {
        let _ = connections.take_output(id, &core);
        let counters = &mut |_: PortNo| [None; 12];
        let mut switch = Switch { core: &mut core, now: NOW, out: &mut out, counters };
        connections.receive(id, message, &mut switch);
    }
    if connections.status(id).and_then(|status| status.version) != Some(version) {
        return false;
    }
    let is_whole = listed.2 == METER_MOD;
    let mut framer = Framer::new();
    framer.push(&connections.take_output(id, &core));
    while let Ok(Some(reply)) = framer.next_message() {
        if let Ok((_, Message::Error { code, .. })) =
            decode(version, &reply, &DecodeOptions::default())
            && (is_whole
                || matches!(
                    code,
                    ErrorCode::BadType
                        | ErrorCode::BadStat
                        | ErrorCode::BadVendor
                        | ErrorCode::BadSubtype
                ))
        {
            return false;
        }
    }
    true
}

pub fn messages() -> Vec<Row> {
    let mut rows = Vec::new();
    for &listed in MESSAGES {
        let (_, _, name, first, last) = listed;
        let versions = Version::ALL.into_iter().filter(|it| (first..=last).contains(&(*it as u8)));
        let (known, unknown): (Vec<_>, Vec<_>) = versions.partition(|it| is_known(*it, listed));
        for (state, versions) in [("supported", known), ("error", unknown)] {
            let (Some(first), Some(last)) = (versions.first(), versions.last()) else { continue };
            let note = if state == "error" { note_of(MESSAGE_NOTES, name) } else { "" };
            rows.push(Row { names: shown(name, *first as u8, *last as u8), state, note });
        }
    }
    for &(_, _, name, first, last) in SENT {
        rows.push(Row { names: shown(name, first, last), state: "sent", note: "" });
    }
    rows
}

/// Returns a name with its versions, unless these are all.
fn shown(name: &str, first: u8, last: u8) -> String {
    let (from, to) = (VERSIONS[usize::from(first) - 1], VERSIONS[usize::from(last) - 1]);
    match (first, last) {
        (1, 6) => name.to_owned(),
        _ if first == last => format!("{name} ({from})"),
        (_, 6) => format!("{name} (from {from})"),
        _ => format!("{name} ({from} to {to})"),
    }
}
