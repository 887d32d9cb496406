//! Bundles: atomicity and errors.

use super::bench::{Bench, add_flow};
use crate::connection::{ConnId, Settings};
use base::{MacAddr, OfPort, TableId};
use flow::{Field, Match};
use openflow::ErrorCode;
use openflow::action::Action;
use openflow::message::{FlowMod, Message, PacketOut, PortConfig, Version};

const OPEN: u16 = 0;
const CLOSE: u16 = 2;
const COMMIT: u16 = 4;
const DISCARD: u16 = 6;
const ATOMIC: u16 = 1;

fn control(control: u16) -> Message {
    Message::BundleControl { bundle: 1, control, flags: ATOMIC }
}

fn done(control: u16) -> Vec<Message> {
    vec![Message::BundleControl { bundle: 1, control: control + 1, flags: 0 }]
}

fn add(message: Message) -> Message {
    let (message, bytes) = (Box::new(message), Vec::new());
    Message::BundleAdd { bundle: 1, flags: ATOMIC, xid: 7, message, bytes }
}

fn codes(messages: &[Message]) -> Vec<ErrorCode> {
    let code = |message: &Message| match message {
        Message::Error { code, .. } => *code,
        other => panic!("{other:?}"),
    };
    messages.iter().map(code).collect()
}

fn sessions() -> [(Bench, ConnId); 3] {
    [Version::V13, Version::V14, Version::V15].map(|version| {
        let mut bench = Bench::new(1);
        let id = bench.connect(Settings::service(), version);
        (bench, id)
    })
}

#[test]
fn a_bundle_is_carried_out_when_it_is_committed() {
    for (mut bench, id) in sessions() {
        assert_eq!(bench.ask(id, &control(OPEN)), done(OPEN));
        for priority in 1..=5 {
            assert_eq!(bench.ask(id, &add(Message::FlowMod(add_flow(priority)))), []);
        }
        assert_eq!(bench.ask(id, &control(CLOSE)), done(CLOSE));
        assert_eq!(bench.flows(), 0);
        assert_eq!(bench.ask(id, &control(COMMIT)), done(COMMIT));
        assert_eq!(bench.flows(), 5);
        assert_eq!(codes(&bench.ask(id, &control(COMMIT))), [ErrorCode::BundleBadId]);
    }
}

#[test]
fn a_bundle_of_which_one_message_fails_leaves_nothing_behind() {
    for (mut bench, id) in sessions() {
        bench.tell(id, &Message::FlowMod(add_flow(1)));
        let before = bench.core.flows(bench.bridge, &everything(), bench.now);
        let other = vec![Action::Output { port: OfPort::FLOOD, max_len: 0 }];
        let packet = PacketOut {
            buffer_id: None,
            metadata: Match::any().with(Field::InPort, OfPort::CONTROLLER.0.into()),
            actions: vec![Action::Output { port: OfPort(1), max_len: 0 }],
            data: vec![2; 60],
        };
        let check = openflow::message::FlowFlags::CHECK_OVERLAP;
        let overlapping = FlowMod { matching: Match::any(), flags: check, ..add_flow(2) };
        for message in [
            Message::FlowMod(add_flow(2)),
            Message::FlowMod(FlowMod { actions: other, ..add_flow(1) }),
            Message::PacketOut(packet),
            Message::FlowMod(overlapping),
            Message::FlowMod(add_flow(3)),
        ] {
            assert_eq!(bench.ask(id, &add(message)), []);
        }
        let refused = bench.ask(id, &control(COMMIT));
        assert_eq!(codes(&refused), [ErrorCode::Overlap, ErrorCode::BundleMessageFailed]);
        let after = bench.core.flows(bench.bridge, &everything(), bench.now);
        assert_eq!(before, after);
        assert!(bench.out.commands.is_empty(), "no packet leaves");
    }
}

fn everything() -> openflow::message::FlowStatsRequest {
    let any = Match::any();
    let (cookie, cookie_mask) = (0, 0);
    let out_port = OfPort::NONE;
    openflow::message::FlowStatsRequest {
        matching: any,
        table: None,
        out_port,
        out_group: None,
        cookie,
        cookie_mask,
    }
}

#[test]
fn what_can_be_wrong_with_a_bundle() {
    use ErrorCode as E;
    let flow = || add(Message::FlowMod(add_flow(1)));
    let flags = |message: Message| match message {
        Message::BundleControl { bundle, control, .. } => {
            Message::BundleControl { bundle, control, flags: 0 }
        }
        Message::BundleAdd { bundle, xid, message, bytes, .. } => {
            Message::BundleAdd { bundle, flags: 0, xid, message, bytes }
        }
        other => other,
    };
    let other_xid = || {
        let message = Box::new(Message::FlowMod(add_flow(1)));
        Message::BundleAdd { bundle: 1, flags: ATOMIC, xid: 8, message, bytes: Vec::new() }
    };
    let buffered = FlowMod { buffer_id: Some(3), ..add_flow(1) };
    let backwards = FlowMod { actions: vec![Action::GotoTable(TableId(0))], ..add_flow(1) };
    let (config, mask) = (PortConfig::empty(), PortConfig::NO_FWD);
    let port_mod = Message::PortMod { port: OfPort(1), mac: MacAddr::ZERO, config, mask };
    let cases: Vec<(Vec<Message>, Message, Vec<ErrorCode>)> = vec![
        (vec![], control(CLOSE), vec![E::BundleBadId]),
        (vec![], control(DISCARD), vec![E::BundleBadId]),
        (vec![], control(COMMIT), vec![E::BundleBadId]),
        (vec![], control(1), vec![E::BundleBadType]),
        (vec![], control(77), vec![E::BundleBadType]),
        (vec![control(OPEN)], control(OPEN), vec![E::BundleBadId]),
        (vec![control(OPEN), control(OPEN)], control(CLOSE), vec![E::BundleBadId]),
        (vec![control(OPEN), control(CLOSE)], control(CLOSE), vec![E::BundleClosed]),
        (vec![control(OPEN), control(CLOSE)], flow(), vec![E::BundleClosed]),
        (vec![control(OPEN)], flags(flow()), vec![E::BundleBadFlags]),
        (vec![control(OPEN)], flags(control(CLOSE)), vec![E::BundleBadFlags]),
        (vec![control(OPEN)], flags(control(COMMIT)), vec![E::BundleBadFlags]),
        (vec![], add(Message::BarrierRequest), vec![E::BundleMessageUnsupported]),
        (vec![], other_xid(), vec![E::BundleMessageBadXid]),
        (vec![], add(Message::FlowMod(buffered)), vec![E::BufferUnknown]),
        (vec![], add(Message::FlowMod(backwards)), vec![E::InstructionBadTableId]),
        (
            vec![add(port_mod)],
            control(COMMIT),
            vec![E::BundleMessageFailed, E::BundleMessageFailed],
        ),
    ];
    for (before, last, expect) in cases {
        for (mut bench, id) in sessions() {
            before.iter().for_each(|message| bench.tell(id, message));
            bench.take(id);
            assert_eq!(codes(&bench.ask(id, &last)), expect, "{last:?}");
        }
    }
}

#[test]
fn port_mods_are_checked_before_anything_is_done() {
    let (mut bench, id) = sessions().into_iter().next().unwrap();
    let plain = |message| match add(message) {
        Message::BundleAdd { bundle, xid, message, bytes, .. } => {
            Message::BundleAdd { bundle, flags: 0, xid, message, bytes }
        }
        other => other,
    };
    let commit = Message::BundleControl { bundle: 1, control: COMMIT, flags: 0 };
    let mac = bench.core.bridge(bench.bridge).unwrap().port(OfPort(1)).unwrap().spec.mac;
    let (config, mask) = (PortConfig::NO_FWD, PortConfig::NO_FWD);
    let good = Message::PortMod { port: OfPort(1), mac, config, mask };
    let bad = Message::PortMod { port: OfPort(77), mac, config, mask };
    bench.tell(id, &plain(good.clone()));
    bench.tell(id, &plain(bad));
    let refused = codes(&bench.ask(id, &commit));
    assert_eq!(refused, [ErrorCode::PortModBadPort, ErrorCode::BundleMessageFailed]);
    let config = |bench: &Bench| bench.core.port_descs(bench.bridge, OfPort(1))[0].config;
    assert_eq!(config(&bench), PortConfig::empty());
    bench.tell(id, &plain(good));
    assert_eq!(bench.ask(id, &commit), done(COMMIT));
    assert_eq!(config(&bench), PortConfig::NO_FWD);
}

#[test]
fn a_forgotten_bundle_is_discarded() {
    for (mut bench, id) in sessions() {
        bench.ask(id, &control(OPEN));
        bench.pass(9_000);
        bench.tell(id, &add(Message::FlowMod(add_flow(1))));
        bench.pass(9_999);
        assert!(!bench.connections.has_output(id));
        bench.pass(1);
        let [Message::Error { code, data }] = &bench.heard(id)[..] else { panic!() };
        assert_eq!(*code, ErrorCode::BundleTimeout);
        assert!(!data.is_empty());
        assert_eq!(codes(&bench.ask(id, &control(COMMIT))), [ErrorCode::BundleBadId]);
    }
}

#[test]
fn how_long_a_bundle_may_be_forgotten_is_configured() {
    let (mut bench, id) = sessions().into_iter().next().unwrap();
    let config = crate::Config { bundle_idle_timeout_s: 20, ..bench.core.config().clone() };
    bench.core.set_config(config);
    bench.ask(id, &control(OPEN));
    bench.pass(19_999);
    assert!(!bench.connections.has_output(id));
    bench.pass(1);
    assert_eq!(codes(&bench.heard(id)), [ErrorCode::BundleTimeout]);
}

#[test]
fn thousands_of_bundles_are_open_at_once_and_expire() {
    const COUNT: u32 = 5000;
    for (mut bench, id) in sessions() {
        let open = |bundle, control| Message::BundleControl { bundle, control, flags: 0 };
        for bundle in 0..COUNT {
            assert_eq!(bench.ask(id, &open(bundle, OPEN)), [open(bundle, OPEN + 1)]);
        }
        bench.pass(5_000);
        // Whatever is used stays.
        assert_eq!(bench.ask(id, &open(7, CLOSE)), [open(7, CLOSE + 1)]);
        bench.pass(5_000);
        let mut expired = codes(&bench.heard(id));
        assert!(expired.len() < 300, "a bounded number in one step: {}", expired.len());
        while bench.connections.next_tick().is_some_and(|due| due <= bench.now) {
            bench.pass(0);
            expired.extend(codes(&bench.heard(id)));
        }
        assert_eq!(expired.len(), COUNT as usize - 1);
        assert!(expired.iter().all(|code| *code == ErrorCode::BundleTimeout));
        assert_eq!(bench.ask(id, &open(7, COMMIT)), [open(7, COMMIT + 1)]);
    }
}

fn large_message() -> Message {
    add(Message::PacketOut(PacketOut {
        buffer_id: None,
        metadata: Match::any().with(Field::InPort, OfPort::CONTROLLER.0.into()),
        actions: Vec::new(),
        data: vec![0; 60_000],
    }))
}

/// Adds large messages to a bundle until it is refused. Returns how many it took.
fn fill(bench: &mut Bench, id: ConnId) -> usize {
    let message = large_message();
    for count in 0..10_000 {
        let answers = bench.ask(id, &message);
        if !answers.is_empty() {
            assert_eq!(codes(&answers), [ErrorCode::BundleMessageTooMany]);
            return count;
        }
    }
    panic!("it takes everything");
}

#[test]
fn bundles_hold_so_much_of_a_connection_and_so_much_of_all() {
    let mut bench = Bench::new(1);
    let [a, b, c] = [(); 3].map(|()| bench.connect(Settings::controller(), Version::V14));
    let of_one = fill(&mut bench, a);
    assert!((2100..2240).contains(&of_one), "{of_one}");
    // The bundle was discarded, so the same amount fits again.
    assert_eq!(fill(&mut bench, a), of_one);
    let message = large_message();
    for id in [a, b] {
        (0..of_one).for_each(|_| assert!(bench.ask(id, &message).is_empty()));
    }
    // The connections share 256 MiB.
    let left = fill(&mut bench, c);
    assert!(left < 20, "{left}");
    bench.connections.close(a, &mut bench.core);
    assert_eq!(fill(&mut bench, c), of_one);
}

/// Otherwise the error would come with the commit only.
#[test]
fn a_flow_mod_for_a_read_only_table_is_refused_when_it_is_put_into_a_bundle() {
    for (mut bench, id) in sessions() {
        bench.ask(id, &control(OPEN));
        let flow = FlowMod { table: Some(TableId(254)), ..add_flow(1) };
        let refused = bench.ask(id, &add(Message::FlowMod(flow)));
        assert_eq!(codes(&refused), [ErrorCode::RequestEperm]);
        bench.ask(id, &add(Message::FlowMod(add_flow(2))));
        assert_eq!(bench.ask(id, &control(COMMIT)), done(COMMIT));
        assert_eq!(bench.flows(), 1);
    }
}
