//! Hellos, roles, asynchronous messages and idle peers.

use super::bench::{Bench, add_flow};
use crate::connection::{CloseReason, Rate, Settings};
use crate::{Event, PortDevice, PortSpec};
use base::{MacAddr, OfPort, PortNo, TableId};
use flow::{Field, Match};
use openflow::ErrorCode;
use openflow::message::{
    AsyncMasks, CtFlush, FlowFlags, FlowMod, FlowModCommand, Message, PacketIn, PacketInFormat,
    PortConfig, PortReason, QueueRequest, RemovedReason, Role, StatsReply, StatsRequest, Version,
};

#[test]
fn the_highest_common_version_is_spoken() {
    use Version::{V10, V11, V12, V13, V14, V15};
    let bits = |versions: &[Version]| versions.iter().map(|v| 1u32 << *v as u8).sum::<u32>();
    let bitmap = |version: u8, bits: u32| {
        let mut hello = vec![version, 0, 0, 16, 0, 0, 0, 1, 0, 1, 0, 8];
        hello.extend(bits.to_be_bytes());
        hello
    };
    let plain = |version: u8| vec![version, 0, 0, 8, 0, 0, 0, 1];
    let all = Settings::SPOKEN;
    let cases = [
        (plain(1), all, Some(V10)),
        (plain(2), all, Some(V11)),
        (plain(3), all, Some(V12)),
        (plain(4), all, Some(V13)),
        (plain(6), all, Some(V15)),
        (plain(9), all, Some(V15)),
        (bitmap(6, 1 << 4), all, Some(V13)),
        (bitmap(4, 1 << 5 | 1 << 1), all, Some(V14)),
        (bitmap(9, 1 << 9 | 1 << 6), all, Some(V15)),
        (plain(6), bits(&[V10, V13]), Some(V13)),
        (plain(1), bits(&[V13, V15]), None),
        (bitmap(3, 1 << 3), bits(&[V10, V13]), None),
        (bitmap(0x20, 0), all, None),
    ];
    for (hello, versions, expect) in cases {
        let mut bench = Bench::new(0);
        let id = bench.open(Settings { versions, ..Settings::service() });
        bench.take(id);
        bench.send(id, &hello);
        assert_eq!(bench.connections.status(id).unwrap().version, expect, "{hello:x?}");
        let closing = bench.connections.is_closing(id);
        match (expect, closing) {
            (Some(_), None) => {}
            (None, Some(CloseReason::NoCommonVersion { .. })) => {
                let refusal = bench.take(id).remove(0);
                // OFPT_ERROR, OFPHFC_INCOMPATIBLE.
                assert_eq!((refusal[1], &refusal[8..12]), (1, &[0, 0, 0, 0][..]));
            }
            other => panic!("{hello:x?}: {other:?}"),
        }
    }
}

#[test]
fn our_hello_names_our_versions() {
    let mut bench = Bench::new(0);
    let some = 1 << Version::V10 as u8 | 1 << Version::V13 as u8;
    for versions in [Settings::SPOKEN, some] {
        let id = bench.open(Settings { versions, ..Settings::service() });
        assert_eq!(bench.heard(id), [Message::Hello { versions }]);
    }
}

#[test]
fn what_is_not_openflow_closes_the_connection() {
    let cases: [&[u8]; 4] =
        [b"GET / HTTP/1.1\r\n\r\n", &[4, 2, 0, 8, 0, 0, 0, 0], &[1, 0, 0, 7, 0, 0, 0, 0], &[0; 9]];
    for bytes in cases {
        let mut bench = Bench::new(0);
        let id = bench.open(Settings::service());
        bench.take(id);
        bench.send(id, bytes);
        assert!(bench.connections.is_closing(id).is_some(), "{bytes:x?}");
        bench.send(id, &[1, 0, 0, 8, 0, 0, 0, 0]);
        assert!(!bench.connections.has_output(id) && !bench.connections.wants_input(id));
    }
}

#[test]
fn another_version_is_refused_but_for_echoes() {
    let mut bench = Bench::new(0);
    let id = bench.connect(Settings::service(), Version::V13);
    bench.send(id, &[6, 20, 0, 8, 0, 0, 0, 9]);
    assert_eq!(bench.take(id), [[6, 1, 0, 20, 0, 0, 0, 9, 0, 1, 0, 0, 6, 20, 0, 8, 0, 0, 0, 9]]);
    bench.send(id, &[2, 2, 0, 9, 0, 0, 0, 9, 77]);
    assert_eq!(bench.take(id), [[2, 3, 0, 9, 0, 0, 0, 9, 77]]);
    assert!(bench.connections.is_closing(id).is_none());
}

#[test]
fn a_new_primary_makes_the_old_one_secondary() {
    let mut bench = Bench::new(0);
    let [a, b] =
        [Version::V13, Version::V15].map(|version| bench.connect(Settings::controller(), version));
    let ask = |role, generation| Message::RoleRequest { role, generation: Some(generation) };
    let reply = |role, generation| Message::RoleReply { role, generation: Some(generation) };
    assert_eq!(bench.ask(a, &ask(Role::Primary, 5)), [reply(Role::Primary, 5)]);
    let stale = bench.ask(b, &ask(Role::Primary, 4));
    assert!(matches!(&stale[..], [Message::Error { code: ErrorCode::RoleStale, .. }]), "{stale:?}");
    assert_eq!(bench.ask(b, &ask(Role::Primary, 5)), [reply(Role::Primary, 5)]);
    assert_eq!(bench.connections.status(a).unwrap().role, Role::Secondary);
    let (role, generation) = (Role::Secondary, Some(5));
    assert_eq!(bench.heard(a), [Message::RoleStatus { role, reason: 0, generation }]);
    assert_eq!(bench.ask(a, &ask(Role::NoChange, 0)), [reply(Role::Secondary, 5)]);

    let no_port = (PortConfig::empty(), PortConfig::empty());
    let changes = [
        Message::FlowMod(add_flow(1)),
        Message::PortMod {
            port: OfPort(1),
            mac: MacAddr::ZERO,
            config: no_port.0,
            mask: no_port.1,
        },
        Message::BundleControl { bundle: 1, control: 0, flags: 0 },
    ];
    for change in changes {
        let refused = bench.ask(a, &change);
        let code = ErrorCode::IsSecondary;
        assert!(matches!(&refused[..], [Message::Error { code: c, .. }] if *c == code));
    }
    assert_eq!(bench.flows(), 0);
    assert_eq!(bench.ask(a, &Message::BarrierRequest), [Message::BarrierReply]);
    assert_eq!(bench.ask(b, &Message::FlowMod(add_flow(1))), []);
    assert_eq!(bench.flows(), 1);
    // Generation ids wrap: the difference decides.
    let last = u64::MAX - 1;
    bench.ask(b, &ask(Role::Secondary, 0x7fff_ffff_ffff_ffff));
    assert_eq!(bench.ask(b, &ask(Role::Secondary, last)), [reply(Role::Secondary, last)]);
    assert_eq!(bench.ask(b, &ask(Role::Secondary, 3)), [reply(Role::Secondary, 3)]);
}

#[test]
fn an_old_primary_is_told_that_it_is_secondary_from_openflow_1_3_on() {
    for version in Version::ALL {
        let mut bench = Bench::new(0);
        // Also for a peer that wants no other asynchronous messages.
        let old = bench.connect(Settings { is_async: false, ..Settings::controller() }, version);
        let [equal, new] = [(); 2].map(|()| bench.connect(Settings::controller(), Version::V13));
        let primary = |generation| Message::RoleRequest { role: Role::Primary, generation };
        bench.ask(old, &primary(Some(1)));
        bench.ask(new, &primary(Some(2)));
        let status = Message::RoleStatus { role: Role::Secondary, reason: 0, generation: Some(2) };
        let told = version >= Version::V13;
        assert_eq!(bench.heard(old), Vec::from_iter(told.then_some(status)), "{version:?}");
        assert_eq!(bench.heard(equal), []);
        // The current primary stays primary.
        bench.ask(new, &primary(Some(3)));
        assert_eq!(bench.heard(old), []);
    }
}

/// The messages that peers receive when a port is added and a flow is deleted.
fn happenings(bench: &mut Bench, n: u32) {
    let spec =
        PortSpec::new(format!("new{n}"), MacAddr([2; 6]), PortDevice::Datapath(PortNo(100 + n)));
    let (id, now) = (bench.bridge, bench.now);
    bench.core.add_port(id, spec, now).unwrap();
    let flow = FlowMod { flags: FlowFlags::SEND_FLOW_REM, ..add_flow(9) };
    bench.core.flow_mod(id, &flow, now).unwrap();
    let delete = FlowMod { command: FlowModCommand::DeleteStrict, ..add_flow(9) };
    bench.core.flow_mod(id, &delete, now).unwrap();
    bench.settle();
}

fn kinds(messages: &[Message]) -> Vec<&'static str> {
    let kind = |message: &Message| match message {
        Message::PortStatus { reason: PortReason::Add, .. } => "port added",
        Message::PortStatus { reason: PortReason::Modify, .. } => "port changed",
        Message::FlowRemoved { reason: RemovedReason::Delete, nicira: true, .. } => "NXT deleted",
        Message::FlowRemoved { reason: RemovedReason::Delete, .. } => "flow deleted",
        Message::PacketIn(_) => "packet",
        _ => "something else",
    };
    messages.iter().map(kind).collect()
}

#[test]
fn asynchronous_messages_go_to_those_who_want_them() {
    let mut bench = Bench::new(0);
    let controller = bench.connect(Settings::controller(), Version::V13);
    let service = bench.connect(Settings::service(), Version::V13);
    let silent = bench.open(Settings::controller());
    bench.take(silent);
    happenings(&mut bench, 1);
    let new_port = ["port added", "port changed"];
    let all = [new_port[0], new_port[1], "flow deleted"];
    assert_eq!(kinds(&bench.heard(controller)), all, "it can forward once it is there");
    assert_eq!(kinds(&bench.heard(service)), [""; 0]);
    assert!(!bench.connections.has_output(silent), "no version is agreed on yet");

    bench.tell(service, &Message::SetConfig { flags: 0, miss_send_len: 100 });
    let config = Message::GetConfigReply { flags: 0, miss_send_len: 100 };
    assert_eq!(bench.ask(service, &Message::GetConfigRequest), [config]);
    let secondary = Message::RoleRequest { role: Role::Secondary, generation: Some(1) };
    bench.ask(controller, &secondary);
    happenings(&mut bench, 2);
    assert_eq!(kinds(&bench.heard(controller)), new_port);
    assert_eq!(kinds(&bench.heard(service)), all);

    let (packet_in, port_status, flow_removed) = ([Some(0); 2], [Some(0); 2], [Some(0), Some(4)]);
    let only = AsyncMasks { packet_in, port_status, flow_removed, ..AsyncMasks::default() };
    let only = Message::SetAsync(only);
    bench.tell(controller, &only);
    bench.tell(service, &only);
    happenings(&mut bench, 3);
    assert_eq!(kinds(&bench.heard(controller)), ["flow deleted"]);
    assert_eq!(kinds(&bench.heard(service)), [""; 0]);

    let nicira = bench.connect(Settings::controller(), Version::V10);
    bench.tell(nicira, &Message::SetFlowFormat(2));
    happenings(&mut bench, 4);
    assert_eq!(kinds(&bench.heard(nicira)), ["port added", "NXT deleted"]);
}

#[test]
fn from_1_4_on_what_is_not_said_stays() {
    for version in [Version::V14, Version::V15] {
        let mut bench = Bench::new(0);
        let id = bench.connect(Settings::controller(), version);
        let flow_removed = [Some(0), None];
        bench.tell(id, &Message::SetAsync(AsyncMasks { flow_removed, ..AsyncMasks::default() }));
        happenings(&mut bench, 1);
        assert_eq!(kinds(&bench.heard(id)), ["port added", "port changed"]);
        // OFPACPT_ROLE_STATUS and the like are accepted, others refused.
        bench.send(id, &[version as u8, 28, 0, 16, 0, 0, 0, 1, 0, 12, 0, 8, 0, 0, 0, 0]);
        let code = ErrorCode::AsyncUnsupported;
        assert!(matches!(&bench.heard(id)[..], [Message::Error { code: c, .. }] if *c == code));
    }
}

#[test]
fn ports_go_down_and_up_as_controllers_say() {
    let mut bench = Bench::new(0);
    let id = bench.connect(Settings::controller(), Version::V13);
    let mac = bench.core.bridge(bench.bridge).unwrap().port(OfPort(1)).unwrap().spec.mac;
    let mask = PortConfig::PORT_DOWN;
    for (config, expect) in [(mask, Some(false)), (mask, None), (PortConfig::empty(), Some(true))] {
        bench.tell(id, &Message::PortMod { port: OfPort(1), mac, config, mask });
        let asked = std::mem::take(&mut bench.out.port_admin);
        assert_eq!(asked, Vec::from_iter(expect.map(|up| (PortNo(2), up))));
        let port = bench.core.bridge(bench.bridge).unwrap().port(OfPort(1)).unwrap();
        assert_eq!(port.describe().config.contains(mask), config == mask);
    }
}

#[test]
fn queues_are_those_that_ports_have() {
    for version in Version::ALL {
        let mut bench = Bench::new(0);
        let id = bench.connect(Settings::service(), version);
        let port = bench.core.bridge(bench.bridge).unwrap().port(OfPort(1)).unwrap();
        let spec = PortSpec { queues: vec![0, 3], ..port.spec.clone() };
        bench.core.set_port(bench.bridge, OfPort(1), spec).unwrap();
        let (bad_port, bad_queue) = (ErrorCode::QueueBadPort, ErrorCode::QueueBadQueue);
        let cases = [
            (OfPort::NONE, None, Ok(vec![0, 3])),
            (OfPort(1), None, Ok(vec![0, 3])),
            (OfPort(1), Some(3), Ok(vec![3])),
            (OfPort(2), None, Ok(vec![])),
            (OfPort(77), Some(1), Err(bad_port)),
            (OfPort(1), Some(1), Err(bad_queue)),
            (OfPort::NONE, Some(1), Err(bad_queue)),
        ];
        for (port, queue, expect) in cases {
            let request = QueueRequest { port, queue };
            let mut ask = |request| match &bench.ask(id, &request)[..] {
                [Message::StatsReply(StatsReply::Queue(queues))] => {
                    Ok(queues.iter().map(|it| it.id.queue).collect())
                }
                [Message::StatsReply(StatsReply::QueueDesc(queues))] => {
                    Ok(queues.iter().map(|it| it.queue).collect())
                }
                [Message::QueueConfigReply { queues, .. }] => Ok(queues.clone()),
                [Message::Error { code, .. }] => Err(*code),
                other => panic!("{other:?}"),
            };
            let got = ask(Message::StatsRequest(StatsRequest::Queue(request)));
            assert_eq!(got, expect, "{version:?} {port} {queue:?}");
            let got = match queue {
                _ if version >= Version::V14 => {
                    ask(Message::StatsRequest(StatsRequest::QueueDesc(request)))
                }
                None => ask(Message::QueueConfigRequest { port }),
                Some(_) => continue,
            };
            assert_eq!(got, expect, "{version:?} {port} {queue:?}");
        }
    }
}

#[test]
fn connections_are_forgotten_as_controllers_say() {
    let mut bench = Bench::new(0);
    let id = bench.connect(Settings::service(), Version::V10);
    let flush = CtFlush { protocol: Some(6), ..CtFlush::default() };
    bench.tell(id, &Message::CtFlushZone(5));
    let zone = CtFlush { zone: Some(base::Zone(6)), ..CtFlush::default() };
    bench.tell(id, &Message::CtFlush(Box::new(zone)));
    assert_eq!(bench.out.conntrack_flush, [5, 6].map(base::Zone));
    bench.tell(id, &Message::CtFlush(Box::new(flush)));
    assert_eq!(bench.out.conntrack_flush_tuples, [(id, flush)]);
    // Later requests of this peer wait until it is done; those of others do not.
    let marked =
        CtFlush { mark: Some(flow::Masked { value: 1, mask: 1 }), zone: flush.zone, ..zone };
    assert!(bench.ask(id, &Message::BarrierRequest).is_empty());
    bench.tell(id, &Message::CtFlush(Box::new(marked)));
    let other = bench.connect(Settings::service(), Version::V13);
    assert_eq!(bench.ask(other, &Message::BarrierRequest), [Message::BarrierReply]);
    bench.pass(10_000);
    assert_eq!(bench.out.conntrack_flush_tuples, [(id, flush)]);
    bench.with(|sessions, switch| sessions.flushed(id, switch));
    assert_eq!(bench.heard(id), [Message::BarrierReply]);
    assert_eq!(bench.out.conntrack_flush_tuples, [(id, flush), (id, marked)]);
}

#[test]
fn before_1_5_nobody_hears_of_his_own_port_mod() {
    let mut bench = Bench::new(0);
    let all = [Version::V10, Version::V13, Version::V15]
        .map(|version| bench.connect(Settings::controller(), version));
    let mac = bench.core.bridge(bench.bridge).unwrap().port(OfPort(1)).unwrap().spec.mac;
    for (n, own) in all.into_iter().enumerate() {
        let config = if n % 2 == 0 { PortConfig::NO_FWD } else { PortConfig::empty() };
        let mask = PortConfig::NO_FWD;
        bench.tell(own, &Message::PortMod { port: OfPort(1), mac, config, mask });
        for peer in all {
            let told = kinds(&bench.heard(peer)) == ["port changed"];
            assert_eq!(told, peer != own || n == 2, "{n}");
        }
    }
}

#[test]
fn a_slow_peer_loses_messages_and_they_are_counted() {
    let mut bench = Bench::new(0);
    let id = bench.connect(Settings { queue: 3, ..Settings::controller() }, Version::V13);
    for n in 0..4 {
        happenings(&mut bench, n);
    }
    assert_eq!(bench.heard(id).len(), 3);
    assert_eq!(bench.connections.status(id).unwrap().dropped, 9);
    happenings(&mut bench, 5);
    assert_eq!(bench.heard(id).len(), 3);
}

#[test]
fn misses_are_wanted_by_openflow_1_0_alone() {
    let mut bench = Bench::new(0);
    let bridge = bench.bridge;
    bench.connect(Settings::controller(), Version::V13);
    bench.connect(Settings::service(), Version::V10);
    assert!(!bench.connections.wants_misses(bridge));
    let old = bench.connect(Settings::controller(), Version::V10);
    assert!(bench.connections.wants_misses(bridge));
    bench.tell(old, &Message::SetControllerId(3));
    assert!(!bench.connections.wants_misses(bridge));
}

#[test]
fn silence_is_answered_with_an_echo_request_and_then_the_end() {
    let mut bench = Bench::new(0);
    let id = bench.connect(Settings::controller(), Version::V13);
    let mute = bench.open(Settings::controller());
    bench.pass(4999);
    assert!(!bench.connections.has_output(id));
    assert_eq!(bench.connections.next_tick().unwrap().as_millis(), 1_005_000);
    bench.pass(1);
    assert_eq!(bench.heard(id), [Message::EchoRequest(Vec::new())]);
    assert!(matches!(bench.connections.is_closing(mute), Some(CloseReason::Silent(_))));
    bench.tell(id, &Message::EchoReply(Vec::new()));
    bench.pass(5000);
    assert_eq!(bench.heard(id), [Message::EchoRequest(Vec::new())]);
    bench.pass(5000);
    assert!(matches!(bench.connections.is_closing(id), Some(CloseReason::Silent(_))));
    assert_eq!(bench.connections.next_tick(), None);
}

#[test]
fn bytes_that_a_peer_takes_show_that_it_is_alive() {
    let mut bench = Bench::new(0);
    let id = bench.connect(Settings::controller(), Version::V13);
    bench.pass(4000);
    bench.connections.note_written(id, bench.now);
    bench.pass(4999);
    assert!(!bench.connections.has_output(id));
    bench.pass(1);
    assert_eq!(bench.heard(id), [Message::EchoRequest(Vec::new())]);
    // It may take an echo request without an answer.
    bench.pass(4000);
    bench.connections.note_written(id, bench.now);
    bench.pass(1000);
    assert!(matches!(bench.connections.is_closing(id), Some(CloseReason::Silent(_))));
    // A snooper that takes nothing is closed, one that has nothing to take is not.
    let [deaf, idle] = [(); 2].map(|()| bench.connect(Settings::snoop(), Version::V13));
    bench.connections.sessions.get_mut(&deaf).unwrap().write_copy(&[4, 2, 0, 8, 0, 0, 0, 1]);
    bench.pass(60_000);
    assert!(matches!(bench.connections.is_closing(deaf), Some(CloseReason::Silent(_))));
    assert_eq!(bench.connections.is_closing(idle), None);
}

#[test]
fn a_removed_bridge_closes_its_connections() {
    let mut bench = Bench::new(0);
    let id = bench.connect(Settings::service(), Version::V13);
    bench.connections.remove_bridge(bench.bridge);
    assert_eq!(bench.connections.is_closing(id), Some(&CloseReason::BridgeGone));
    bench.connections.close(id, &mut bench.core);
    assert_eq!(bench.connections.status(id), None);
}

#[test]
fn packet_ins_go_to_their_controllers_whole_and_in_their_form() {
    // Version, controller id, packet-in format, whether it is secondary; then what it receives of a packet
    // for controller 0, one for controller 5, one that missed and one with an expired TTL.
    use PacketInFormat::{Nxt, Nxt2, Standard};
    let cases = [
        (Version::V10, 0, Standard, false, [true, false, true, false]),
        (Version::V10, 0, Nxt, false, [true, false, true, false]),
        (Version::V13, 0, Standard, false, [true, false, false, false]),
        (Version::V13, 5, Nxt2, false, [false, true, false, false]),
        (Version::V15, 0, Nxt2, false, [true, false, false, false]),
        (Version::V15, 0, Standard, true, [false; 4]),
    ];
    // Controller id, reason and whether no flow matched.
    let packets = [(0, 1, false), (5, 1, false), (0, 0, true), (0, 2, false)];
    for (version, controller, format, is_secondary, expect) in cases {
        let mut bench = Bench::new(0);
        let id = bench.connect(Settings::controller(), version);
        bench.tell(id, &Message::SetControllerId(controller));
        bench.tell(id, &Message::SetPacketInFormat(format));
        if is_secondary {
            bench.ask(id, &Message::RoleRequest { role: Role::Secondary, generation: Some(1) });
        }
        for ((controller_id, reason, is_miss), expect) in packets.into_iter().zip(expect) {
            let packet_in = PacketIn {
                data: vec![7; 100],
                total_len: 100,
                reason,
                table: Some(TableId(3)),
                cookie: 9,
                metadata: Match::any().with(Field::InPort, 1),
                userdata: Vec::new(),
                continuation: None,
            };
            let (bridge, packet_in) = (bench.bridge, Box::new(packet_in));
            let event = Event::PacketIn { bridge, packet_in, controller_id, is_miss };
            bench.core.events.push(event);
            bench.connections.deliver(&mut bench.core, bench.now);
            let heard = bench.heard(id);
            let data = match &heard[..] {
                [] => None,
                [Message::PacketIn(packet_in)] => Some((&packet_in.data[..], packet_in.total_len)),
                other => panic!("{other:?}"),
            };
            assert_eq!(data, expect.then_some((&[7; 100][..], 100)), "{version:?} {controller_id}");
        }
    }
}

#[test]
fn a_snooper_hears_both_sides_of_the_primary_controller() {
    let mut bench = Bench::new(1);
    let [first, second] = [(); 2].map(|()| bench.connect(Settings::controller(), Version::V13));
    let service = bench.connect(Settings::service(), Version::V13);
    let snooper = bench.connect(Settings::snoop(), Version::V13);
    let types = |messages: Vec<Vec<u8>>| messages.iter().map(|m| m[1]).collect::<Vec<_>>();
    const ECHO: (u8, u8) = (2, 3);
    const BARRIER: (u8, u8) = (20, 21);
    for id in [first, second, service] {
        bench.ask(id, &Message::EchoRequest(Vec::new()));
    }
    assert_eq!(types(bench.take(snooper)), [ECHO.0, ECHO.1]);
    bench.ask(second, &Message::RoleRequest { role: Role::Primary, generation: Some(1) });
    bench.take(snooper);
    for id in [first, second] {
        bench.ask(id, &Message::BarrierRequest);
    }
    assert_eq!(types(bench.take(snooper)), [BARRIER.0, BARRIER.1]);
    // Messages from snoopers are ignored.
    assert!(bench.ask(snooper, &Message::BarrierRequest).is_empty());
    bench.pass(600_000);
    assert_eq!(bench.connections.is_closing(snooper), None);
}

/// A packet for the bridge's controllers.
fn packet_in_event(bench: &Bench) -> Event {
    let packet_in = Box::new(PacketIn {
        data: vec![0; 60],
        total_len: 60,
        reason: 1,
        table: Some(TableId(0)),
        cookie: 0,
        metadata: Match::any().with(Field::InPort, 1),
        userdata: Vec::new(),
        continuation: None,
    });
    let (bridge, controller_id, is_miss) = (bench.bridge, 0, false);
    Event::PacketIn { bridge, packet_in, controller_id, is_miss }
}

#[test]
fn packet_ins_are_sent_at_the_configured_rate_and_a_change_counts_at_once() {
    let mut bench = Bench::new(1);
    let rate = Some(Rate { per_s: 100, burst: 25 });
    let limited = Settings { rate, ..Settings::controller() };
    let id = bench.connect(limited, Version::V13);
    let send = |bench: &mut Bench, count: usize| {
        let events = (0..count).map(|_| packet_in_event(bench)).collect::<Vec<_>>();
        bench.connections.tell(&events, bench.now);
        bench.take(id).len()
    };
    assert_eq!(send(&mut bench, 100), 25);
    assert_eq!(bench.connections.status(id).unwrap().dropped, 50);
    bench.pass(200);
    assert_eq!(bench.take(id).len(), 20);
    bench.connections.reconfigure(id, Settings::controller());
    assert_eq!(send(&mut bench, 90), 90);
}

#[test]
fn a_controller_without_asynchronous_messages_gets_those_that_it_asks_for() {
    let mut bench = Bench::new(1);
    let quiet = Settings { is_async: false, ..Settings::controller() };
    let id = bench.connect(quiet, Version::V13);
    let event = packet_in_event(&bench);
    bench.connections.tell(std::slice::from_ref(&event), bench.now);
    assert!(bench.take(id).is_empty());
    let packet_in = [Some(2), None];
    bench.tell(id, &Message::SetAsync(AsyncMasks { packet_in, ..AsyncMasks::default() }));
    bench.connections.tell(&[event], bench.now);
    assert_eq!(bench.take(id).len(), 1);
}

#[test]
fn a_changed_probe_interval_counts_for_connections_that_are_there() {
    let mut bench = Bench::new(1);
    let id = bench.connect(Settings::controller(), Version::V13);
    let probe = Some(std::time::Duration::from_secs(20));
    bench.connections.reconfigure(id, Settings { probe, ..Settings::controller() });
    bench.pass(19_000);
    assert!(bench.take(id).is_empty());
    bench.pass(1_000);
    assert_eq!(bench.take(id).len(), 1);
}
