//! Runs the program in the kernel on single frames (`BPF_PROG_TEST_RUN`) and compares the results with the
//! rules.

mod parser;
mod vxlan;

use super::*;
use base::PortNo;
use flow::{Action, ConnectionRef, Field, Headers, Match, NatRewrite, SetField};
use std::net::IpAddr;
use std::sync::Arc;

const IN: PortNo = PortNo(1);
const OUT: PortNo = PortNo(2);
const LOOPBACK: u32 = 1;
const IDLE: Duration = Duration::from_secs(60);

/// Runs a test on a thread in a network namespace of its own. Skips it without the privilege.
fn in_namespace(name: &str, test: impl FnOnce(XdpOffload) + Send + 'static) {
    if !XdpOffload::is_built() {
        println!("\nSKIPPED: {name}: built without clang");
        return;
    }
    let name = name.to_owned();
    let run = move || {
        // SAFETY: unshare() takes a number; the new namespace affects only this thread, which ends with the
        // test.
        if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
            println!("\nSKIPPED: {name}: network namespaces take more rights");
            return;
        }
        let mut offload = match XdpOffload::new(16) {
            Ok(offload) => offload,
            Err(error) => {
                // Without the privilege the test cannot run.
                assert!(format!("{error}").contains("Operation not permitted"), "{error}");
                println!("\nSKIPPED: {name}: {error}");
                return;
            }
        };
        offload.add_port(IN, ("lo", LOOPBACK, 1500), true).unwrap();
        offload.add_port(OUT, ("lo", LOOPBACK, 1500), false).unwrap();
        test(offload);
    };
    std::thread::spawn(run).join().unwrap();
}

fn headers(frame: &str) -> Headers {
    let mut headers = Headers::none();
    assert!(headers.read(&wire::text::parse(frame).unwrap(), IN).is_some(), "{frame}");
    headers
}

/// A rule for packets with the headers of this frame.
fn rule(frame: &str, actions: &[Action]) -> OffloadRule {
    let headers = headers(frame);
    let connection = ConnectionRef { id: 7, generation: 1, is_reply: false };
    OffloadRule {
        headers,
        mask: headers.tuple_mask(),
        connection,
        second: None,
        copies_ecn: false,
        mark: None,
        nat_rewrite: None,
        actions: Arc::from(actions),
        tunnel: None,
    }
}

fn to(source: &str, destination: &str, ports: (u16, u16)) -> Option<NatRewrite> {
    let halves = |text: &str| match text.parse().unwrap() {
        IpAddr::V4(ip) => [0, u64::from(ip.to_bits())],
        IpAddr::V6(ip) => [(ip.to_bits() >> 64) as u64, ip.to_bits() as u64],
    };
    let ([a, b], [c, d]) = (halves(source), halves(destination));
    let ports = u32::from(ports.0) << 16 | u32::from(ports.1);
    Some(NatRewrite { addresses: [a, b, c, d], ports })
}

/// Checks the resulting frame, or with `None` that the program passes the frame up.
#[track_caller]
fn becomes(offload: &mut XdpOffload, frame: &str, expect: Option<&str>) {
    let bytes = wire::text::parse(frame).unwrap();
    let (is_forwarded, out) = offload.try_frame(IN, &bytes).unwrap();
    let told =
        format!("{frame}: {:?}", offload.passed().iter().filter(|it| it.1 > 0).collect::<Vec<_>>());
    match expect {
        Some(expect) => {
            assert!(is_forwarded, "{told}");
            let expect = wire::text::parse(expect).unwrap();
            let text = |bytes: &[u8]| wire::text::describe(bytes);
            assert_eq!(out, expect, "{frame}\n{:?}\n{:?}", text(&out), text(&expect));
        }
        None => {
            assert!(!is_forwarded, "{told}");
            assert_eq!(out, bytes, "{frame}: it is passed up as it came");
        }
    }
}

const PLAIN: &str = "10.0.0.1:1000>10.0.0.2:80 . seq=5 ack=6 len=100";

#[test]
fn packets_of_a_rule_go_on_and_all_others_are_passed_up() {
    in_namespace("packets of a rule", |mut offload| {
        becomes(&mut offload, PLAIN, None);
        let id = offload.install(&rule(PLAIN, &[Action::Output(OUT)]), IDLE).unwrap();
        for same in [
            PLAIN,
            "10.0.0.1:1000>10.0.0.2:80 PA seq=9 ack=6 len=1400",
            "10.0.0.1:1000>10.0.0.2:80 . csum=partial len=10",
            "10.0.0.1:1000>10.0.0.2:80 . ttl=3 tos=7",
        ] {
            becomes(&mut offload, same, Some(same));
        }
        for other in [
            "10.0.0.1:1000>10.0.0.2:81 .",
            "10.0.0.2:80>10.0.0.1:1000 .",
            "10.0.0.1:1000>10.0.0.2:80 udp",
            "10.0.0.1:1000>10.0.0.2:80 S",
            "10.0.0.1:1000>10.0.0.2:80 SA",
            "10.0.0.1:1000>10.0.0.2:80 -",
            "10.0.0.1:1000>10.0.0.2:80 . len=100 csum=bad",
            "10.0.0.1:1000>10.0.0.2:80 . len=100 frag=first",
            "10.0.0.1:1000>10.0.0.2:80 . len=1500",
            "[fd00::1]:1000>[fd00::2]:80 .",
            "10.0.0.1>10.0.0.2 arp-request",
        ] {
            becomes(&mut offload, other, None);
        }
        // After a frame that was too large, smaller ones are passed up for a time, so that the order is kept.
        becomes(&mut offload, "10.0.0.1:1000>10.0.0.2:80 . len=1500", None);
        becomes(&mut offload, PLAIN, None);
        std::thread::sleep(Duration::from_millis(150));
        becomes(&mut offload, PLAIN, Some(PLAIN));
        let frame_bytes = |text: &str| wire::text::parse(text).unwrap().len() as u64;
        let status = offload.status(id);
        assert_eq!(status.traffic.packets, 5);
        assert!(status.traffic.bytes > 2 * frame_bytes(PLAIN), "{status:?}");
        assert!(!status.is_ended);
        assert_eq!(offload.remove(id), OffloadTraffic::default());
        becomes(&mut offload, PLAIN, None);
    });
}

#[test]
fn a_fin_or_reset_ends_both_directions_and_no_later_packet_is_forwarded() {
    for control in ["F.", "R"] {
        in_namespace("control packets", move |mut offload| {
            let reply = "10.0.0.2:80>10.0.0.1:1000 .";
            let there = offload.install(&rule(PLAIN, &[Action::Output(OUT)]), IDLE).unwrap();
            let mut back = rule(reply, &[Action::Output(OUT)]);
            back.connection.is_reply = true;
            let back_id = offload.install(&back, IDLE).unwrap();
            becomes(&mut offload, PLAIN, Some(PLAIN));
            becomes(&mut offload, reply, Some(reply));
            becomes(&mut offload, &format!("10.0.0.2:80>10.0.0.1:1000 {control}"), None);
            becomes(&mut offload, PLAIN, None);
            becomes(&mut offload, reply, None);
            assert!(offload.status(there).is_ended && offload.status(back_id).is_ended);
            assert_eq!(offload.install(&back, IDLE), Err(Refusal::Ended.into()));
            offload.remove(there);
            offload.remove(back_id);
            // The slot is reused for a connection after all its rules were removed.
            offload.install(&back, IDLE).unwrap();
            becomes(&mut offload, reply, Some(reply));
            becomes(&mut offload, PLAIN, None);
        });
    }
}

#[test]
fn packets_are_rewritten_as_the_switch_would() {
    let set = |field, value: u128, mask: u128| Action::Set(SetField { field, value, mask });
    let mac = |last: u8| u128::from(u64::from_be_bytes([0, 0, 2, 0, 0, 0, 0, last]));
    let address = 0xffff_ffff_ffff;
    let routed = [
        set(Field::EthSrc, mac(7), address),
        set(Field::EthDst, mac(8), address),
        set(Field::NwTtl, 63, 0xff),
        Action::Output(OUT),
    ];
    let push = |vid: u16| Action::PushVlan { tpid: 0x8100, tci: vid | 0x1000 };
    let out = Action::Output(OUT);
    let nat4 = to("192.168.7.9", "10.0.0.2", (2000, 80));
    let nat6 = to("fd00::9", "fd00::2", (2000, 53));
    let cases: Vec<(&str, Option<NatRewrite>, Vec<Action>, &str)> = vec![
        (
            "10.0.0.1:1000>10.0.0.2:80 . len=9",
            None,
            routed.to_vec(),
            "10.0.0.1:1000>10.0.0.2:80 . len=9 ttl=63 eth=02:00:00:00:00:07>02:00:00:00:00:08",
        ),
        (
            "[fd00::1]:1000>[fd00::2]:80 . len=9",
            None,
            routed.to_vec(),
            "[fd00::1]:1000>[fd00::2]:80 . len=9 ttl=63 eth=02:00:00:00:00:07>02:00:00:00:00:08",
        ),
        (
            "10.0.0.1:1>10.0.0.2:53 udp len=1 tos=3",
            None,
            vec![set(Field::NwTos, 0xb8, 0xfc), out.clone()],
            "10.0.0.1:1>10.0.0.2:53 udp len=1 tos=0xbb",
        ),
        (
            "[fd00::1]:1>[fd00::2]:53 udp len=1 tos=3",
            None,
            vec![set(Field::NwTos, 0xb8, 0xfc), out.clone()],
            "[fd00::1]:1>[fd00::2]:53 udp len=1 tos=0xbb",
        ),
        (
            "10.0.0.1:1>10.0.0.2:53 udp len=30",
            None,
            vec![push(5), out.clone()],
            "10.0.0.1:1>10.0.0.2:53 udp len=30 vlan=5",
        ),
        (
            "10.0.0.1:1>10.0.0.2:53 udp len=30 vlan=6",
            None,
            vec![Action::PopVlan, out.clone()],
            "10.0.0.1:1>10.0.0.2:53 udp len=30",
        ),
        (
            "10.0.0.1:1>10.0.0.2:53 udp len=30 vlan=6",
            None,
            vec![Action::PopVlan, push(9), out.clone()],
            "10.0.0.1:1>10.0.0.2:53 udp len=30 vlan=9",
        ),
        (
            "10.0.0.1:1>10.0.0.2:53 udp len=30",
            None,
            vec![push(9), Action::PopVlan, out.clone()],
            "10.0.0.1:1>10.0.0.2:53 udp len=30",
        ),
        (
            "10.0.0.1:1000>10.0.0.2:80 . len=33",
            nat4,
            vec![out.clone()],
            "192.168.7.9:2000>10.0.0.2:80 . len=33 eth=02:00:00:00:00:01>02:00:00:00:00:02",
        ),
        (
            "10.0.0.1:1000>10.0.0.2:80 . len=33 csum=partial",
            nat4,
            vec![out.clone()],
            "192.168.7.9:2000>10.0.0.2:80 . len=33 csum=partial eth=02:00:00:00:00:01>02:00:00:00:00:02",
        ),
        (
            "10.0.0.1:1000>10.0.0.2:80 udp len=1200",
            nat4,
            vec![out.clone()],
            "192.168.7.9:2000>10.0.0.2:80 udp len=1200 eth=02:00:00:00:00:01>02:00:00:00:00:02",
        ),
        (
            "10.0.0.1:1000>10.0.0.2:80 udp len=12 csum=zero",
            nat4,
            vec![out.clone()],
            "192.168.7.9:2000>10.0.0.2:80 udp len=12 csum=zero eth=02:00:00:00:00:01>02:00:00:00:00:02",
        ),
        (
            "[fd00::1]:1000>[fd00::2]:53 udp len=131",
            nat6,
            vec![out.clone()],
            "[fd00::9]:2000>[fd00::2]:53 udp len=131 eth=02:00:00:00:00:01>02:00:00:00:00:02",
        ),
        (
            "[fd00::1]:1000>[fd00::2]:53 . len=256 csum=partial",
            nat6,
            vec![push(5), out.clone()],
            "[fd00::9]:2000>[fd00::2]:53 . len=256 csum=partial vlan=5 eth=02:00:00:00:00:01>02:00:00:00:00:02",
        ),
        (
            "10.0.0.1:1000>10.0.0.2:80 . len=33 vlan=3",
            nat4,
            vec![Action::PopVlan, set(Field::NwTtl, 9, 0xff), out],
            "192.168.7.9:2000>10.0.0.2:80 . len=33 ttl=9 eth=02:00:00:00:00:01>02:00:00:00:00:02",
        ),
    ];
    in_namespace("rewriting", move |mut offload| {
        for (frame, nat_rewrite, actions, expect) in cases {
            let rule = OffloadRule { nat_rewrite, ..rule(frame, &actions) };
            let id = offload.install(&rule, IDLE).unwrap();
            becomes(&mut offload, frame, Some(expect));
            assert_eq!(offload.remove(id).packets, 1, "{frame}");
        }
    });
}

#[test]
fn header_bits_of_the_mask_are_compared() {
    let frame = "10.0.0.1:1000>10.0.0.2:80 udp vlan=5 ttl=9 tos=4";
    in_namespace("masks", move |mut offload| {
        let mut rule = rule(frame, &[Action::Output(OUT)]);
        rule.mask = rule.headers.exact_mask();
        // The program does not look at TCP flags, and they are refused.
        assert_eq!(offload.install(&rule, IDLE), Err(Refusal::Match.into()));
        let fields = [Field::EthSrc, Field::EthDst, Field::VlanTci, Field::VlanTpid, Field::NwTtl];
        let matching = fields.iter().fold(Match::any(), |it, field| it.with(*field, 0));
        let mask = rule.headers.mask_of(matching.with(Field::NwTos, 0).mask());
        rule.mask = rule.headers.tuple_mask().union(&mask);
        offload.install(&rule, IDLE).unwrap();
        becomes(&mut offload, frame, Some(frame));
        for (other, wanted) in [
            ("10.0.0.1:1000>10.0.0.2:80 udp ttl=9 tos=4", None),
            ("10.0.0.1:1000>10.0.0.2:80 udp vlan=6 ttl=9 tos=4", None),
            ("10.0.0.1:1000>10.0.0.2:80 udp svlan=5 ttl=9 tos=4", None),
            ("10.0.0.1:1000>10.0.0.2:80 udp vlan=5 ttl=8 tos=4", None),
            ("10.0.0.1:1000>10.0.0.2:80 udp vlan=5 ttl=9 tos=0", None),
            (
                "10.0.0.1:1000>10.0.0.2:80 udp vlan=5 ttl=9 tos=4 eth=02:00:00:00:00:03>02:00:00:00:00:02",
                None,
            ),
            (frame, Some(frame)),
        ] {
            becomes(&mut offload, other, wanted);
        }
    });
}

#[test]
fn a_full_device_and_ports_that_are_not_there_are_refused() {
    in_namespace("refusals", |mut offload| {
        let out = [Action::Output(OUT)];
        let nowhere = rule(PLAIN, &[Action::Output(PortNo(9))]);
        assert_eq!(offload.install(&nowhere, IDLE), Err(Refusal::OutPort.into()));
        let back = rule(PLAIN, &[Action::Output(IN)]);
        assert_eq!(offload.install(&back, IDLE), Err(Refusal::OutPort.into()));
        let two = rule(PLAIN, &[Action::Output(OUT), Action::Output(OUT)]);
        assert_eq!(offload.install(&two, IDLE), Err(Refusal::Actions.into()));
        for id in 0..16 {
            let mut rule = rule(&format!("10.0.0.1:{}>10.0.0.2:80 udp", 100 + id), &out);
            rule.connection.id = id;
            offload.install(&rule, IDLE).unwrap();
            assert_eq!(offload.install(&rule, IDLE), Err(Refusal::Twice.into()));
        }
        let mut more = rule(PLAIN, &out);
        more.connection.id = 99;
        assert_eq!(offload.install(&more, IDLE), Err(Refusal::Full.into()));
        offload.remove(OffloadId(3));
        let id = offload.install(&more, IDLE).unwrap();
        becomes(&mut offload, PLAIN, Some(PLAIN));
        // A rule does not forward to a removed port, even while it is installed.
        offload.remove_port(OUT);
        becomes(&mut offload, PLAIN, None);
        offload.remove(id);
        offload.remove_port(IN);
        assert_eq!(offload.install(&more, IDLE), Err(Refusal::InPort.into()));
    });
}

#[test]
fn a_connection_whose_flows_drop_is_dropped_and_counted() {
    const XDP_DROP: u32 = 1;
    const XDP_PASS: u32 = 2;
    let set = |field, value| Action::Set(SetField { field, value, mask: 0xff });
    let drop = || Action::Drop(flow::DropReason::NoAction);
    let cases = [vec![], vec![drop()], vec![set(Field::NwTtl, 9), drop()]];
    in_namespace("drops", move |mut offload| {
        for actions in cases {
            let rule = OffloadRule {
                nat_rewrite: to("192.168.7.9", "10.0.0.2", (2000, 80)),
                ..rule(PLAIN, &actions)
            };
            let id = offload.install(&rule, IDLE).unwrap();
            // Without an output port, the length is not limited.
            for (frame, verdict) in [
                (PLAIN, XDP_DROP),
                ("10.0.0.1:1000>10.0.0.2:80 . len=1500", XDP_DROP),
                ("10.0.0.1:1000>10.0.0.2:80 . len=100 csum=bad", XDP_PASS),
                ("10.0.0.1:1000>10.0.0.2:81 .", XDP_PASS),
            ] {
                let bytes = wire::text::parse(frame).unwrap();
                assert_eq!(offload.verdict(IN, &bytes).unwrap(), (verdict, bytes), "{frame}");
            }
            assert_eq!(offload.remove(id).packets, 2);
        }
    });
}

#[test]
fn a_connection_without_packets_for_its_time_is_passed_up() {
    in_namespace("idle connections", |mut offload| {
        let rule = rule(PLAIN, &[Action::Output(OUT)]);
        // A second, which a slow machine does not need for the first packet.
        offload.install(&rule, Duration::from_secs(1)).unwrap();
        becomes(&mut offload, PLAIN, Some(PLAIN));
        std::thread::sleep(Duration::from_millis(1100));
        becomes(&mut offload, PLAIN, None);
    });
}

#[test]
fn a_tag_does_not_count_for_the_mtu() {
    let (out, push) = (Action::Output(OUT), Action::PushVlan { tpid: 0x8100, tci: 0x1009 });
    let cases = [
        (" vlan=6", vec![out.clone()]),
        (" vlan=6", vec![Action::PopVlan, out.clone()]),
        (" vlan=6", vec![Action::PopVlan, push.clone(), out.clone()]),
        ("", vec![push, out.clone()]),
        ("", vec![out]),
    ];
    in_namespace("frames of the longest", move |mut offload| {
        for (n, (tag, actions)) in cases.into_iter().enumerate() {
            // A connection of its own, since a frame that is too long holds the others up.
            let packet = |bytes: usize| {
                let text = format!("10.0.0.1:10{n}>10.0.0.2:53 udp len={}{tag}", bytes - 28);
                wire::text::parse(&text).unwrap()
            };
            let mut rule = rule(&format!("10.0.0.1:10{n}>10.0.0.2:53 udp{tag}"), &actions);
            rule.connection.id = n as u32;
            offload.install(&rule, IDLE).unwrap();
            let (is_forwarded, _) = offload.try_frame(IN, &packet(1500)).unwrap();
            assert!(is_forwarded, "{tag} {actions:?}: {:?}", offload.passed());
            let (is_forwarded, _) = offload.try_frame(IN, &packet(1501)).unwrap();
            assert!(!is_forwarded, "{tag} {actions:?}");
        }
    });
}
