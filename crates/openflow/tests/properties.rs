//! Properties: encoding and decoding, and formatting and parsing, are inverse; arbitrary bytes yield an error
//! or a message, never a panic.

mod generate;

use base::TableId;
use flow::{Field, Match};
use generate::Generate;
use openflow::message::{
    FlowMod, FlowModCommand, FlowStatsEntry, PacketIn, PacketInFormat, StatsReply, StatsRequest,
};
use openflow::text::{format_actions, format_match, parse_flow};
use openflow::{
    Action, DecodeOptions, EncodeOptions, ErrorCode, Framer, Message, Version, decode, encode,
};
use proptest::prelude::*;

fn versions() -> impl Strategy<Value = Version> {
    (0..6usize).prop_map(|i| Version::ALL[i])
}

const DECODE: DecodeOptions = DecodeOptions { flow_mod_table_id: true };

fn options(format: PacketInFormat) -> EncodeOptions {
    EncodeOptions { flow_mod_table_id: true, packet_in_format: format }
}

fn round_trip(version: Version, message: &Message, format: PacketInFormat) {
    let written = encode(version, 77, message, &options(format));
    assert_eq!(written.len(), 1, "{message:?}");
    let (xid, back) = decode(version, &written[0], &DECODE)
        .unwrap_or_else(|error| panic!("{version:?} {error}: {message:?}"));
    assert_eq!(xid, 77);
    assert_eq!(&back, message, "{version:?}");
}

#[test]
fn write_metadata_before_other_actions_is_refused() {
    let metadata = Action::WriteMetadata { value: 1, mask: u64::MAX };
    let base = Generate::new(1, Version::V10).unordered_flow_mod();
    let cases = [
        (vec![metadata.clone(), Action::Exit], Err(ErrorCode::ActionUnsupportedOrder)),
        (vec![metadata.clone(), metadata.clone()], Err(ErrorCode::ActionUnsupportedOrder)),
        (vec![Action::Exit, metadata.clone()], Ok(())),
        (vec![Action::Clone(vec![metadata])], Err(ErrorCode::InstructionUnsupported)),
    ];
    for (actions, expect) in cases {
        let message = Message::FlowMod(FlowMod { actions, ..base.clone() });
        let bytes = encode(Version::V10, 1, &message, &options(Default::default()));
        let got = decode(Version::V10, &bytes[0], &DECODE);
        assert_eq!(got.map(|_| ()).map_err(|error| error.code), expect, "{message:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn messages_read_back_as_they_were(version in versions(), seed: u64) {
        let mut generate = Generate::new(seed, version);
        let message = generate.message();
        // The format that can express every packet-in.
        round_trip(version, &message, PacketInFormat::Nxt2);
    }

    #[test]
    fn an_accepted_flow_is_decoded_from_a_dump_of_any_version(version in versions(), seed: u64) {
        let flow_mod = Generate::new(seed, version).unordered_flow_mod();
        let Some(flow) = generate::accepted(version, &flow_mod) else { return Ok(()) };
        for dump in Version::ALL {
            for nicira in [false, true] {
                let reply = StatsReply::Flow { flows: vec![flow.clone()], nicira };
                let parts = encode(dump, 9, &Message::StatsReply(reply), &EncodeOptions::default());
                let back = decode(dump, &parts[0], &DECODE);
                // Versions before OpenFlow 1.3 have no `encap` and `decap`.
                let code = back.as_ref().err().map(|error| error.code);
                let is_too_old = dump < Version::V13 && version >= Version::V13;
                let refused = is_too_old && code == Some(ErrorCode::ActionBadVendorType);
                prop_assert!(
                    back.is_ok() || refused,
                    "{version:?} to {dump:?}: {flow:?}: {back:?}"
                );
            }
        }
    }

    #[test]
    fn flows_are_printed_and_read_back(seed: u64) {
        let mut generate = Generate::new(seed, Version::V13);
        let flow = generate.flow_mod();
        let text = format!(
            "{},actions={}",
            format_match(&flow.matching, Some(flow.priority)),
            format_actions(&flow.actions, &flow.matching)
        );
        let back = parse_flow(&text, FlowModCommand::Add, &|_| None)
            .unwrap_or_else(|error| panic!("{text}: {error}"));
        prop_assert_eq!(&back.matching, &flow.matching, "{}", text);
        prop_assert_eq!(back.priority, flow.priority);
        let again = format_actions(&back.actions, &back.matching);
        prop_assert_eq!(again, format_actions(&flow.actions, &flow.matching));
    }

    #[test]
    fn truncated_and_damaged_messages_never_panic(
        version in versions(), seed: u64, cut: u16, at: u16, byte: u8,
    ) {
        let mut generate = Generate::new(seed, version);
        let message = generate.message();
        let mut bytes = encode(version, 1, &message, &options(PacketInFormat::Nxt2)).remove(0);
        let at = usize::from(at) % bytes.len();
        bytes[at] = byte;
        let _ = decode(version, &bytes, &DECODE);
        bytes.truncate(usize::from(cut) % bytes.len());
        prop_assert!(decode(version, &bytes, &DECODE).is_err());
        // The same with a correct length.
        if bytes.len() >= 8 {
            let len = (bytes.len() as u16).to_be_bytes();
            bytes[2..4].copy_from_slice(&len);
            let _ = decode(version, &bytes, &DECODE);
        }
    }

    #[test]
    fn random_bytes_never_panic(
        version in versions(),
        kind in 0u8..36,
        mut body in proptest::collection::vec(any::<u8>(), 0..300),
    ) {
        let mut framer = Framer::new();
        framer.push(&body);
        let _ = framer.next_message();
        let mut bytes = vec![version as u8, kind];
        bytes.extend((body.len() as u16 + 8).to_be_bytes());
        bytes.extend([0; 4]);
        bytes.append(&mut body);
        let _ = decode(version, &bytes, &DECODE);
    }

    #[test]
    fn random_text_never_panics(text in "[ -~]{0,80}", words in "(ip,|tcp,|actions=|ct\\(|nat\\(|exec\\(|set_field:|load:|->|reg0|\\[|\\.\\.|\\]|\\)|,|=|:|/|1|0x|-|\\+|resubmit|note|€){0,20}") {
        for text in [text, words] {
            let _ = parse_flow(&text, FlowModCommand::Add, &|_| None);
            let _ = parse_flow(&text, FlowModCommand::Delete, &|_| None);
        }
    }
}

#[test]
fn long_replies_are_cut_into_messages_of_less_than_64_kb() {
    for version in Version::ALL {
        let mut generate = Generate::new(5, version);
        let flows: Vec<_> = (0..3000).map(|_| generate.flow()).collect();
        let reply = StatsReply::Flow { flows: flows.clone(), nicira: version == Version::V10 };
        let parts = encode(version, 9, &Message::StatsReply(reply), &EncodeOptions::default());
        assert!(parts.len() > 3);
        let mut back = Vec::new();
        for (i, part) in parts.iter().enumerate() {
            assert_eq!(openflow::has_more(part), i + 1 < parts.len());
            match decode(version, part, &DECODE).unwrap() {
                (9, Message::StatsReply(StatsReply::Flow { flows, .. })) => back.extend(flows),
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(back, flows, "{version:?}");
    }
}

#[test]
fn a_flow_that_fits_no_message_is_left_out_of_the_reply() {
    let mut generate = Generate::new(5, Version::V10);
    let (small, resubmit) = (generate.flow(), Action::CtClear);
    let of = |count| FlowStatsEntry { actions: vec![resubmit.clone(); count], ..small.clone() };
    // The room in 65,535 bytes besides the flow's other parts, in actions of 16 bytes.
    for (count, fits) in [(4000, true), (4090, false), (5000, false)] {
        for (version, nicira) in Version::ALL.map(|version| (version, version == Version::V10)) {
            let flows = vec![of(1), of(count), of(2)];
            let expect = if fits { vec![1, count, 2] } else { vec![1, 2] };
            let reply = Message::StatsReply(StatsReply::Flow { flows, nicira });
            let mut back = Vec::new();
            for part in encode(version, 9, &reply, &EncodeOptions::default()) {
                match decode(version, &part, &DECODE).unwrap() {
                    (9, Message::StatsReply(StatsReply::Flow { flows, .. })) => back.extend(flows),
                    other => panic!("{other:?}"),
                }
            }
            let counts: Vec<usize> = back.iter().map(|flow| flow.actions.len()).collect();
            assert_eq!(counts, expect, "{version:?}");
        }
    }
}

#[test]
fn packet_ins_read_back_in_every_form() {
    let metadata = Match::any().with(Field::InPort, 0xfffe);
    let packet = PacketIn {
        data: vec![7; 60],
        total_len: 1500,
        reason: 2,
        table: None,
        cookie: u64::MAX,
        metadata: metadata.clone(),
        userdata: vec![],
        continuation: None,
    };
    let more = PacketIn {
        table: Some(TableId(4)),
        cookie: 99,
        metadata: metadata.with(Field::Reg3, 5).with_masked(Field::CtState, 0x21, 0xff),
        ..packet.clone()
    };
    for version in Version::ALL {
        for format in [PacketInFormat::Standard, PacketInFormat::Nxt, PacketInFormat::Nxt2] {
            round_trip(version, &Message::PacketIn(packet.clone()), format);
            // Before 1.3 OpenFlow's own format has no cookie, and in 1.0 and 1.1 no registers.
            if version >= Version::V13 || format != PacketInFormat::Standard {
                round_trip(version, &Message::PacketIn(more.clone()), format);
            }
        }
    }
}

#[test]
fn an_empty_table_is_asked_for_and_answered_in_one_message() {
    for version in Version::ALL {
        for request in [StatsRequest::Desc, StatsRequest::Table, StatsRequest::GroupFeatures] {
            round_trip(version, &Message::StatsRequest(request), PacketInFormat::Standard);
        }
        let reply = StatsReply::Flow { flows: vec![], nicira: false };
        round_trip(version, &Message::StatsReply(reply), PacketInFormat::Standard);
    }
}
