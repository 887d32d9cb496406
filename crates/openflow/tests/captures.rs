//! Recorded conversations between Open vSwitch 3.1's `ovs-ofctl` and `ovs-vswitchd`
//! (`testdata/openflow/*.txt`): each message is decoded, and encoded again to the same bytes.

use openflow::message::{PacketInFormat, StatsReply};
use openflow::{
    DecodeOptions, EncodeOptions, ErrorCode, Message, OfError, Version, decode, encode,
};
use std::path::PathBuf;

/// One message of a conversation.
struct Line {
    file: String,
    number: usize,
    from_client: bool,
    bytes: Vec<u8>,
    version: Version,
    table_id: bool,
}

fn hex(text: &str) -> Vec<u8> {
    let digit = |c: u8| (c as char).to_digit(16).expect("a hexadecimal digit") as u8;
    text.as_bytes().chunks(2).map(|pair| digit(pair[0]) << 4 | digit(pair[1])).collect()
}

fn version(wire: u8) -> Option<Version> {
    Version::ALL.into_iter().find(|version| *version as u8 == wire)
}

fn lines() -> Vec<Line> {
    let dir = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../testdata/openflow");
    let mut files: Vec<_> =
        std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let mut out = Vec::new();
    for path in files.iter().filter(|path| path.extension().is_some_and(|ext| ext == "txt")) {
        let mut table_id = false;
        for (number, line) in std::fs::read_to_string(path).unwrap().lines().enumerate() {
            if line.starts_with("# connection") {
                table_id = false;
            }
            let Some((mark @ (">" | "<"), text)) = line.split_once(' ') else { continue };
            let bytes = hex(text);
            let Some(version) = version(bytes[0]) else { continue };
            let file = path.file_name().unwrap().to_string_lossy().into_owned();
            out.push(Line {
                file,
                number: number + 1,
                from_client: mark == ">",
                bytes: bytes.clone(),
                version,
                table_id,
            });
            // NXT_FLOW_MOD_TABLE_ID
            if bytes.get(1) == Some(&4)
                && bytes.get(8..16) == Some(&[0, 0, 0x23, 0x20, 0, 0, 0, 15][..])
            {
                table_id = bytes[16] != 0;
            }
        }
    }
    out
}

#[test]
fn captured_messages_are_read_and_written_back() {
    let lines = lines();
    assert!(lines.len() > 500, "only {} messages were found", lines.len());
    let (mut same, mut refused, mut wrong) = (0, 0, Vec::new());
    for line in &lines {
        let place = format!("{}:{}", line.file, line.number);
        let options = DecodeOptions { flow_mod_table_id: line.table_id };
        let (xid, message) = match decode(line.version, &line.bytes, &options) {
            Ok(read) => read,
            Err(error) => {
                if !is_refused_on_purpose(&error) {
                    wrong.push(format!("{place}: {error}"));
                }
                refused += 1;
                continue;
            }
        };
        let options = EncodeOptions {
            flow_mod_table_id: line.table_id,
            packet_in_format: PacketInFormat::Standard,
        };
        let written = encode(line.version, xid, &message, &options);
        let back = written.first().cloned().unwrap_or_default();
        // In OpenFlow 1.0 ovs-ofctl writes all flows of a file in Nicira's format if one of them needs it.
        let is_flow_mod = line.version == Version::V10 && matches!(message, Message::FlowMod(_));
        let decoded = DecodeOptions { flow_mod_table_id: line.table_id };
        let same_flow =
            is_flow_mod && decode(line.version, &back, &decoded) == Ok((xid, message.clone()));
        if written.len() == 1 && (back == line.bytes || same_flow) {
            same += 1;
        } else if !is_answered_differently(&message) {
            wrong.push(format!(
                "{place} from client {}: {message:?}\n  was {}\n  is  {}",
                line.from_client,
                show(&line.bytes),
                show(&back)
            ));
        }
    }
    for wrong in &wrong {
        println!("{wrong}");
    }
    println!("{same} of {} are the same, {refused} are refused", lines.len());
    assert!(wrong.is_empty());
    // Bounds the number of exceptions below.
    assert!(same * 100 > lines.len() * 95 && refused * 100 < lines.len() * 3);
}

/// Meters and `learn` are not supported.
fn is_refused_on_purpose(error: &OfError) -> bool {
    match error.code {
        ErrorCode::MeterOutOfMeters => true,
        ErrorCode::ActionBadVendorType => error.reason.contains("learn"),
        _ => false,
    }
}

/// Replies in which this switch reports less than Open vSwitch: groups support fewer actions, there are no
/// meters and queues, and no port statistics by packet size.
fn is_answered_differently(message: &Message) -> bool {
    match message {
        Message::FeaturesReply { .. } => true,
        Message::StatsReply(reply) => matches!(
            reply,
            StatsReply::GroupFeatures
                | StatsReply::MeterFeatures
                | StatsReply::MeterConfig(_)
                | StatsReply::MeterStats(_)
                | StatsReply::Port(_)
        ),
        _ => false,
    }
}

fn show(bytes: &[u8]) -> String {
    bytes.iter().take(600).map(|byte| format!("{byte:02x}")).collect()
}
