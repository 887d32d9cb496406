//! Refusals of rules. `device/tests.rs` tests the effect of rules on packets.

use super::*;
use flow::{ConnectionRef, DropReason, Headers, Match};
use std::sync::Arc;

const OUT: PortNo = PortNo(2);

fn rule(frame: &str, actions: &[Action]) -> OffloadRule {
    let mut headers = Headers::none();
    assert!(headers.read(&wire::text::parse(frame).unwrap(), PortNo(1)).is_some());
    OffloadRule {
        headers,
        mask: headers.tuple_mask(),
        connection: ConnectionRef { id: 1, generation: 1, is_reply: false },
        second: None,
        copies_ecn: false,
        mark: None,
        nat_rewrite: None,
        actions: Arc::from(actions),
        tunnel: None,
    }
}

fn set(field: Field, value: u128, mask: u128) -> Action {
    Action::Set(SetField { field, value, mask })
}

#[test]
fn what_the_program_cannot_do_is_refused_by_its_reason() {
    let (udp, output) = ("10.0.0.1:1>10.0.0.2:2 udp", || Action::Output(OUT));
    let tagged = "10.0.0.1:1>10.0.0.2:2 udp vlan=5";
    let push = || Action::PushVlan { tpid: 0x8100, tci: 0x1005 };
    let cases: [(&str, Vec<Action>, Result<(), Refusal>); 15] = [
        (udp, vec![output()], Ok(())),
        ("10.0.0.1:1>10.0.0.2:2 sctp", vec![output()], Err(Refusal::Protocol)),
        ("10.0.0.1>10.0.0.2 icmp-echo", vec![output()], Err(Refusal::Protocol)),
        (udp, vec![], Ok(())),
        (udp, vec![set(Field::NwTtl, 1, 0xff), Action::Drop(DropReason::NoAction)], Ok(())),
        (
            udp,
            vec![Action::Clone(Arc::new([])), Action::Drop(DropReason::NoAction)],
            Err(Refusal::Actions),
        ),
        (udp, vec![output(), push()], Err(Refusal::Actions)),
        (udp, vec![output(), output()], Err(Refusal::Actions)),
        (udp, vec![Action::PopVlan, output()], Err(Refusal::Actions)),
        (tagged, vec![push(), output()], Err(Refusal::Actions)),
        (tagged, vec![Action::PopVlan, push(), output()], Ok(())),
        (udp, vec![set(Field::EthDst, 1, 0xff), output()], Err(Refusal::Actions)),
        (udp, vec![set(Field::PktMark, 1, 0xffff_ffff), output()], Err(Refusal::Actions)),
        (udp, vec![set(Field::NwTtl, 1, 0xff), output()], Ok(())),
        (udp, vec![Action::Clone(Arc::new([])), output()], Err(Refusal::Actions)),
    ];
    for (frame, actions, expect) in cases {
        let got = device_rule(&rule(frame, &actions)).map(drop);
        assert_eq!(got, expect, "{frame} {actions:?}");
    }
}

#[test]
fn what_the_program_does_not_look_at_is_refused() {
    let mut rule = rule("10.0.0.1:1>10.0.0.2:2 .", &[Action::Output(OUT)]);
    let plain = rule.mask;
    for (field, expect) in [
        (Field::TcpFlags, Err(Refusal::Match)),
        (Field::NwTtl, Ok(())),
        (Field::EthSrc, Ok(())),
        (Field::InPort, Ok(())),
    ] {
        let mask = rule.headers.mask_of(Match::any().with(field, 0).mask());
        rule.mask = plain.union(&mask);
        assert_eq!(device_rule(&rule).map(drop), expect, "{field:?}");
    }
    // A rule that matches several connections.
    rule.mask = Headers::none();
    assert_eq!(device_rule(&rule).map(drop), Err(Refusal::Match));
}
