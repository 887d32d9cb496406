//! The switch configuration, and differences of OpenFlow 1.1 and 1.2.

use super::bench::{Bench, add_flow};
use crate::connection::Settings;
use base::{OfPort, TableId};
use flow::{Field, Match};
use openflow::message::{FlowMod, FlowModCommand, Message, PacketOut, Role, Version};
use openflow::{Action, ErrorCode};

fn config(flags: u16) -> Message {
    Message::SetConfig { flags, miss_send_len: 128 }
}

fn in_force(flags: u16) -> Message {
    Message::GetConfigReply { flags, miss_send_len: 128 }
}

#[test]
fn what_is_set_is_told() {
    // Flags set, flags in force; 2 (reassembly) is not supported and changes nothing.
    let old = [(0, 0), (4, 4), (1, 1), (7, 7), (6, 7), (0, 0)];
    let new = [(0, 0), (1, 1), (3, 3), (2, 3), (0, 0)];
    for version in Version::ALL {
        let mut bench = Bench::new(0);
        let id = bench.connect(Settings::service(), version);
        let cases = if version < Version::V13 { &old[..] } else { &new };
        for (set, told) in cases {
            // Fragments that stay as they were; the flag for the TTL is set alone.
            let answer = bench.ask(id, &config(*set));
            assert_eq!(answer, [], "{version:?} {set}");
            assert_eq!(bench.ask(id, &Message::GetConfigRequest), [in_force(*told)], "{version:?}");
        }
        if version > Version::V10 {
            let refused = bench.ask(id, &config(if version < Version::V13 { 8 } else { 4 }));
            let code = ErrorCode::ConfigBadFlags;
            assert!(matches!(&refused[..], [Message::Error { code: c, .. }] if *c == code));
        }
    }
}

#[test]
fn a_packet_whose_ttl_runs_out_goes_to_who_asked_for_it() {
    for (flags, packets) in [(0, 0), (4, 1)] {
        let mut bench = Bench::new(0);
        let [sender, asked] = [(); 2].map(|()| bench.connect(Settings::controller(), Version::V10));
        bench.tell(asked, &config(flags));
        let dec_ttl = PacketOut {
            buffer_id: None,
            metadata: Match::any().with(Field::InPort, 1),
            actions: vec![Action::DecTtl(vec![0])],
            data: udp_with_ttl(1),
        };
        bench.tell(sender, &Message::PacketOut(dec_ttl));
        let commands = std::mem::take(&mut bench.out.commands);
        let reasons: Vec<u8> = commands
            .iter()
            .filter_map(|(_, command)| match command {
                flow::FlowCommand::Execute(execute) => Some(&execute.actions),
                _ => None,
            })
            .flat_map(|actions| actions.iter())
            .filter_map(|action| match action {
                flow::Action::Controller(to) => Some(to.reason),
                _ => None,
            })
            .collect();
        assert_eq!(reasons, [2], "one packet-in for an invalid TTL");
        let event = crate::Event::PacketIn {
            bridge: bench.bridge,
            packet_in: Box::new(openflow::message::PacketIn {
                data: udp_with_ttl(1),
                total_len: 42,
                reason: 2,
                table: None,
                cookie: u64::MAX,
                metadata: Match::any().with(Field::InPort, 1),
                userdata: vec![],
                continuation: None,
            }),
            controller_id: 0,
            is_miss: false,
        };
        bench.core.events.push(event);
        bench.with(|connections, switch| connections.deliver(switch.core, switch.now));
        assert_eq!(bench.heard(asked).len(), packets, "flags {flags}");
        assert_eq!(bench.heard(sender).len(), 0);
    }
}

fn udp_with_ttl(ttl: u8) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0];
    frame.extend([0x45, 0, 0, 28, 0, 0, 0, 0, ttl, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    frame.extend([0, 1, 0, 2, 0, 8, 0, 0]);
    frame
}

#[test]
fn a_secondary_does_not_change_fragments() {
    let mut bench = Bench::new(0);
    let id = bench.connect(Settings::controller(), Version::V13);
    bench.ask(id, &Message::RoleRequest { role: Role::Secondary, generation: Some(1) });
    bench.tell(id, &config(1));
    assert_eq!(bench.ask(id, &Message::GetConfigRequest), [in_force(0)]);
}

#[test]
fn a_modification_adds_a_flow_and_sets_the_cookie_by_version() {
    let modify = |cookie| FlowMod {
        command: FlowModCommand::Modify,
        new_cookie: cookie,
        modify_cookie: true,
        ..add_flow(1)
    };
    // The flow that a modification adds if there is none, and the cookie after a modification with cookie 2.
    let cases = [
        (Version::V10, 1, Some(2)),
        (Version::V11, 1, Some(1)),
        (Version::V12, 0, None),
        (Version::V13, 0, None),
    ];
    for (version, added, cookie) in cases {
        let mut bench = Bench::new(0);
        let id = bench.connect(Settings::service(), version);
        assert_eq!(bench.ask(id, &Message::FlowMod(modify(1))), []);
        assert_eq!(bench.flows(), added, "{version:?}");
        assert_eq!(bench.ask(id, &Message::FlowMod(modify(2))), []);
        let bridge = bench.core.bridge(bench.bridge).unwrap();
        let rule = bridge.tables.all().first().and_then(|&id| bench.core.rules().get(id));
        assert_eq!(rule.map(|rule| rule.cookie), cookie, "{version:?}");
    }
}

#[test]
fn openflow_1_1_names_a_table_where_it_deletes() {
    for (version, refused) in [(Version::V11, true), (Version::V12, false)] {
        let mut bench = Bench::new(0);
        let id = bench.connect(Settings::service(), version);
        let delete = |table| {
            let command = FlowModCommand::Delete;
            Message::FlowMod(FlowMod { command, table, out_port: OfPort::NONE, ..add_flow(1) })
        };
        assert_eq!(bench.ask(id, &delete(Some(TableId(0)))), []);
        assert_eq!(bench.ask(id, &delete(None)).len(), usize::from(refused), "{version:?}");
    }
}
