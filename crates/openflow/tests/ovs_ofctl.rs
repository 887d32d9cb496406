//! Messages of all types, decoded by the real `ovs-ofctl`. Without it the test is skipped.

mod generate;

use generate::Generate;
use openflow::message::{
    FlowStatsEntry, PacketInFormat, StatsReply, TableDesc, TableStats, VacancyEvents,
};
use openflow::{DecodeOptions, EncodeOptions, ErrorCode, Message, Place, Version, decode, encode};
use std::process::Command;

/// Returns `ovs-ofctl`'s output for a message; `None` if `ovs-ofctl` is not installed.
fn ofp_print(bytes: &[u8]) -> Option<String> {
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let output = Command::new("ovs-ofctl").args(["ofp-print", &hex]).output().ok()?;
    let errors = String::from_utf8_lossy(&output.stderr);
    Some(format!("{}{errors}", String::from_utf8_lossy(&output.stdout)))
}

/// Returns whether `ovs-ofctl` is installed. It must decode the message, or reject it for the reason for
/// which [`openflow::check`] rejects the flow. It prints undecodable messages as a hexadecimal dump.
fn check(version: Version, message: &Message, options: &EncodeOptions) -> bool {
    for bytes in encode(version, 77, message, options) {
        let Some(text) = ofp_print(&bytes) else {
            println!("SKIPPED: comparison with ovs-ofctl, which is not installed");
            return false;
        };
        if let Some(name) = refused(version, message) {
            assert!(text.contains(name), "not {name}: {version:?} {message:?}:\n{text}");
            continue;
        }
        let bad = ["00000000  ", "decode error", "unknown", "|WARN|"];
        assert!(!bad.iter().any(|bad| text.contains(bad)), "{version:?} {message:?}:\n{text}");
    }
    true
}

/// Returns the name of the error with which a flow-mod, alone or in a bundle, must be rejected.
fn refused(version: Version, message: &Message) -> Option<&'static str> {
    let flow = match message {
        Message::FlowMod(flow) => flow,
        Message::BundleAdd { message, .. } => return refused(version, message),
        _ => return None,
    };
    // Flow-mods contain the table only from 1.3 on.
    let table = flow.table.filter(|_| version != Version::V10);
    let place = Place { version, table, tables: 255 };
    let error = openflow::check(&flow.actions, &flow.matching, place).err()?;
    Some(match error.code {
        ErrorCode::ActionMatchInconsistent => "OFPBAC_MATCH_INCONSISTENT",
        ErrorCode::InstructionBadTableId => "OFPBIC_BAD_TABLE_ID",
        other => panic!("{other:?}"),
    })
}

#[test]
fn ovs_ofctl_reads_messages_of_all_kinds() {
    for version in Version::ALL {
        for seed in 0..150 {
            let message = Generate::new(seed, version).known_to_3_1().message();
            // A continuation is internal to Open vSwitch, and the data of these errors is not a message.
            let opaque = match &message {
                Message::PacketIn(packet) => packet.continuation.is_some(),
                Message::Error { .. } => true,
                _ => false,
            };
            let format = match &message {
                Message::PacketIn(_) if version == Version::V10 => PacketInFormat::Nxt,
                _ => PacketInFormat::Standard,
            };
            let options = EncodeOptions { flow_mod_table_id: false, packet_in_format: format };
            if !opaque && !check(version, &message, &options) {
                return;
            }
        }
    }
}

#[test]
fn ovs_ofctl_decodes_an_accepted_flow_from_a_dump_of_any_version() {
    for version in Version::ALL {
        let flow_mods =
            (0..150).map(|seed| Generate::new(seed, version).known_to_3_1().unordered_flow_mod());
        let flows: Vec<_> =
            flow_mods.filter_map(|flow_mod| generate::accepted(version, &flow_mod)).collect();
        assert!(flows.len() > 20, "{version:?}: {} flows were accepted", flows.len());
        for dump in Version::ALL {
            let reply = |flows| {
                Message::StatsReply(StatsReply::Flow { flows, nicira: dump == Version::V10 })
            };
            // Neither decoder accepts `encap` and `decap` in a dump of an older version.
            let bytes = |flow: &FlowStatsEntry| {
                encode(dump, 77, &reply(vec![flow.clone()]), &EncodeOptions::default()).concat()
            };
            let (known, unknown): (Vec<_>, Vec<_>) = flows.iter().cloned().partition(|flow| {
                decode(dump, &bytes(flow), &DecodeOptions { flow_mod_table_id: false }).is_ok()
            });
            assert!(unknown.is_empty() || dump < Version::V13, "{dump:?}: {unknown:?}");
            if !check(dump, &reply(known), &EncodeOptions::default()) {
                return;
            }
            for flow in unknown {
                let text = ofp_print(&bytes(&flow)).unwrap_or_default();
                assert!(text.contains("OFPBAC_BAD_VENDOR_TYPE"), "{dump:?} {flow:?}:\n{text}");
            }
        }
    }
}

#[test]
fn ovs_ofctl_reads_tables_features() {
    let tables: Vec<TableStats> = (0..3)
        .map(|id| TableStats {
            table: base::TableId(id),
            name: String::new(),
            active: 1,
            max_entries: 1_000_000,
            lookups: 7,
            matched: 5,
            miss: openflow::message::TableMiss::Continue,
        })
        .collect();
    for version in Version::ALL {
        let mut replies = vec![
            StatsReply::Table(tables.clone()),
            StatsReply::GroupFeatures,
            StatsReply::GroupDesc(vec![]),
            StatsReply::Queue(vec![]),
        ];
        replies.push(StatsReply::Desc(["a", "b", "c", "d", "e"].map(str::to_owned)));
        if version >= Version::V13 {
            replies.extend([
                StatsReply::TableFeatures(tables.clone()),
                StatsReply::MeterFeatures,
                StatsReply::MeterConfig(vec![]),
                StatsReply::MeterStats(vec![]),
            ]);
        }
        if version >= Version::V14 {
            let vacancy = Some((VacancyEvents { down: 20, up: 80 }, 100));
            let tables = [None, vacancy].map(|vacancy| TableDesc {
                table: base::TableId(3),
                evicts: vacancy.is_some(),
                vacancy,
            });
            replies.push(StatsReply::TableDesc(tables.to_vec()));
        }
        for reply in replies {
            if !check(version, &Message::StatsReply(reply), &EncodeOptions::default()) {
                return;
            }
        }
    }
}

#[test]
fn ovs_ofctl_knows_the_errors() {
    let cases = [
        (ErrorCode::ActionMatchInconsistent, "OFPBAC_MATCH_INCONSISTENT"),
        (ErrorCode::MatchBadPrereq, "OFPBMC_BAD_PREREQ"),
        (ErrorCode::ActionBadVendorType, "OFPBAC_BAD_VENDOR_TYPE"),
        (ErrorCode::Overlap, "OFPFMFC_OVERLAP"),
        (ErrorCode::BadFlags, "OFPFMFC_BAD_FLAGS"),
        (ErrorCode::ActionBadSetArgument, "OFPBAC_BAD_SET_ARGUMENT"),
        (ErrorCode::MatchDuplicateField, "OFPBMC_DUP_FIELD"),
        (ErrorCode::RoleBad, "OFPRRFC_BAD_ROLE"),
        (ErrorCode::BadStat, "OFPBRC_BAD_STAT"),
        (ErrorCode::MustBeZero, "NXBRC_MUST_BE_ZERO"),
        (ErrorCode::NxmInvalid, "NXBRC_NXM_INVALID"),
        (ErrorCode::PortModBadPort, "OFPPMFC_BAD_PORT"),
        (ErrorCode::HelloIncompatible, "OFPHFC_INCOMPATIBLE"),
        (ErrorCode::MonitorExists, "OFPMOFC_MONITOR_EXISTS"),
        (ErrorCode::MonitorUnknown, "OFPMOFC_UNKNOWN_MONITOR"),
        (ErrorCode::MonitorBadFlags, "OFPMOFC_BAD_FLAGS"),
    ];
    let later = [
        (ErrorCode::BundleBadId, "OFPBFC_BAD_ID"),
        (ErrorCode::BundleMessageFailed, "OFPBFC_MSG_FAILED"),
        (ErrorCode::InstructionDuplicate, "OFPBIC_DUP_INST"),
        (ErrorCode::ActionBadSetMask, "OFPBAC_BAD_SET_MASK"),
        (ErrorCode::GroupExists, "OFPGMFC_GROUP_EXISTS"),
        (ErrorCode::GroupInvalid, "OFPGMFC_INVALID_GROUP"),
        (ErrorCode::GroupBadBucket, "OFPGMFC_BAD_BUCKET"),
        (ErrorCode::MeterOutOfMeters, "OFPMMFC_OUT_OF_METERS"),
        (ErrorCode::FlowModBadTableId, "OFPFMFC_BAD_TABLE_ID"),
    ];
    for version in Version::ALL {
        let also = if version < Version::V13 { &[][..] } else { &later };
        for (code, name) in cases.iter().chain(also) {
            let message =
                Message::Error { code: *code, data: vec![version as u8, 0, 0, 8, 0, 0, 0, 1] };
            let bytes = encode(version, 1, &message, &EncodeOptions::default()).concat();
            let Some(text) = ofp_print(&bytes) else {
                println!("SKIPPED: comparison with ovs-ofctl, which is not installed");
                return;
            };
            assert!(text.contains(name), "{version:?} {code:?}: {text}");
        }
    }
}
