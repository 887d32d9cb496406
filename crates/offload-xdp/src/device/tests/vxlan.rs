//! VXLAN: compares the program with the switch's own encapsulation.

use super::*;
use flow::{FlowKey, OffloadTunnel, TunnelKind, TunnelPush};
use tunnel::{Outer, TunnelConfig};

const VNI: u32 = 101;

fn outer(far: &str, near: &str) -> Outer<'static> {
    let mac = |last| base::MacAddr([2, 0, 0, 0, 0, last]);
    Outer {
        ethernet: (mac(0xaa), mac(0xbb)),
        source: far.parse().unwrap(),
        destination: near.parse().unwrap(),
        tos: 0x20,
        ttl: 9,
        dont_fragment: true,
        // The default of UDP over IPv6.
        checksum: far.contains(':'),
        oam: false,
        key: VNI.into(),
        options: &[],
        group: (0, 0),
        erspan: (0, 0, 0, 0),
        gtpu: (0, 0),
        packet: None,
    }
}

fn built(kind: TunnelKind, outer: &Outer<'_>) -> Box<[u8]> {
    tunnel::build(&TunnelConfig::new(kind), outer).unwrap()
}

/// Returns a frame that the switch encapsulated.
fn within(header: &[u8], source_port: u16, inner: &str) -> Vec<u8> {
    let mut frame = [header, &wire::text::parse(inner).unwrap()].concat();
    tunnel::finish(
        &mut frame,
        TunnelKind::Vxlan,
        source_port,
        &flow::TunnelSequence::default(),
        base::Instant::ZERO,
    )
    .unwrap();
    frame
}

pub fn vxlan(inner: &str) -> Vec<u8> {
    vxlan_with(false, inner)
}

/// Returns an encapsulated packet. An outer UDP checksum requires a complete inner one, since a partial one
/// would change later.
pub fn vxlan_with(checksum: bool, inner: &str) -> Vec<u8> {
    let outer = Outer { checksum, ..outer("172.31.1.2", "172.31.1.1") };
    within_completed(&built(TunnelKind::Vxlan, &outer), 40_000, inner)
}

/// Returns a packet encapsulated over IPv6.
pub fn vxlan_v6(inner: &str) -> Vec<u8> {
    let outer = outer("fd00:31::2", "fd00:31::1");
    within_completed(&built(TunnelKind::Vxlan, &outer), 40_000, inner)
}

fn within_completed(header: &[u8], source_port: u16, inner: &str) -> Vec<u8> {
    let mut frame = within(header, source_port, &inner.replace(" csum=partial", ""));
    frame[header.len()..].copy_from_slice(&wire::text::parse(inner).unwrap());
    frame
}

/// A rule for inner packets like this one out of the tunnel.
fn out_of_tunnel(inner: &str, actions: &[Action]) -> OffloadRule {
    out_of(&vxlan(inner), inner, actions)
}

pub fn out_of(bytes: &[u8], inner: &str, actions: &[Action]) -> OffloadRule {
    let mut headers = Headers::none();
    assert!(headers.read(bytes, IN).is_some());
    let matching = Match::any().with(Field::EthDst, 0).with(Field::TpDst, 0);
    let mask = headers.mask_of(matching.mask());
    let udp = if headers.is_ipv6() { 54 } else { 34 };
    let tunnel = OffloadTunnel {
        kind: TunnelKind::Vxlan,
        headers,
        mask,
        word: u64::from_be_bytes(bytes[udp + 8..udp + 16].try_into().unwrap()),
        has_checksum: bytes[udp + 6..udp + 8] != [0, 0],
        header_bytes: udp + 16,
    };
    OffloadRule { tunnel: Some(tunnel), ..rule(inner, actions) }
}

fn push() -> TunnelPush {
    TunnelPush {
        port: PortNo(9),
        out_port: PortNo(8),
        kind: TunnelKind::Vxlan,
        strips_ethernet: false,
        source_ports: (32_768, 61_000),
        header: built(TunnelKind::Vxlan, &outer("172.31.1.1", "172.31.1.9")),
        frame_max: 1464,
        answer: FlowKey::new(),
        copies_ecn: false,
        sequence: flow::TunnelSequence::default(),
    }
}

#[track_caller]
fn bytes_become(offload: &mut XdpOffload, frame: &[u8], expect: Option<&[u8]>) {
    let (is_forwarded, out) = offload.try_frame(IN, frame).unwrap();
    let passed = offload.passed();
    let told: Vec<_> = passed.iter().filter(|it| it.1 > 0).collect();
    assert_eq!(is_forwarded, expect.is_some(), "{told:?}");
    assert_eq!(out, expect.unwrap_or(frame), "{told:?}");
}

const INNERS: [&str; 5] = [
    "10.0.0.1:1000>10.0.0.2:80 . seq=5 ack=6 len=100",
    "10.0.0.1:1000>10.0.0.2:80 udp len=22",
    "10.0.0.1:1000>10.0.0.2:80 udp len=23 csum=partial",
    "[fd00::1]:1000>[fd00::2]:80 . len=9",
    "10.0.0.1:1000>10.0.0.2:80 udp len=9 csum=zero",
];

#[test]
fn packets_are_encapsulated_as_the_switch_would() {
    in_namespace("encapsulation", |mut offload| {
        let with = Outer { checksum: true, ..outer("172.31.1.1", "172.31.1.9") };
        let with = TunnelPush { header: built(TunnelKind::Vxlan, &with), ..push() };
        let nat = to("192.168.7.9", "10.0.0.2", (2000, 80));
        let v6 = built(TunnelKind::Vxlan, &outer("fd00:31::1", "fd00:31::9"));
        let v6 = TunnelPush { header: v6, ..push() };
        let tunnels = [push(), with.clone(), v6];
        for (inner, to) in INNERS.iter().flat_map(|inner| tunnels.iter().map(move |to| (inner, to)))
        {
            let actions = [Action::TunnelPush(Arc::new(to.clone())), Action::Output(OUT)];
            let rule = rule(inner, &actions);
            let headers = &rule.headers;
            let (addresses, ports) = (headers.key_addresses(), headers.key_ports());
            let source_port = to.source_port(addresses, ports, headers.protocol());
            let expect = within_completed(&to.header, source_port, inner);
            let id = offload.install(&rule, IDLE).unwrap();
            bytes_become(&mut offload, &wire::text::parse(inner).unwrap(), Some(&expect));
            let expect =
                OffloadTraffic { packets: 1, bytes: (expect.len() - to.header.len()) as u64 };
            assert_eq!(offload.remove(id), expect);
        }
        for frame in ["", " csum=partial"] {
            let rewritten = |text: &str| {
                let expect = "192.168.7.9:2000>10.0.0.2:80 . len=33";
                format!("{expect}{text} eth=02:00:00:00:00:01>02:00:00:00:00:02")
            };
            let inner = format!("10.0.0.1:1000>10.0.0.2:80 . len=33{frame}");
            let actions = [Action::TunnelPush(Arc::new(with.clone())), Action::Output(OUT)];
            let rule = OffloadRule { nat_rewrite: nat, ..rule(&inner, &actions) };
            let NatRewrite { addresses, ports } = nat.unwrap();
            let source_port = with.source_port(addresses, ports, wire::protocol::TCP);
            let expect = within_completed(&with.header, source_port, &rewritten(frame));
            let id = offload.install(&rule, IDLE).unwrap();
            bytes_become(&mut offload, &wire::text::parse(&inner).unwrap(), Some(&expect));
            offload.remove(id);
        }
        let actions = [Action::TunnelPush(Arc::new(push())), Action::Output(OUT)];
        // An inner packet of 1,450 bytes fits the MTU of 1,500, with its Ethernet header.
        let [fits, too_large] = [1464 - 42, 1465 - 42].map(|payload| {
            wire::text::parse(&format!("10.0.0.1:1>10.0.0.2:2 udp len={payload}")).unwrap()
        });
        offload.install(&rule("10.0.0.1:1>10.0.0.2:2 udp", &actions), IDLE).unwrap();
        let (is_forwarded, out) = offload.try_frame(IN, &fits).unwrap();
        assert!(is_forwarded && out.len() == 1514, "{}", out.len());
        bytes_become(&mut offload, &too_large, None);
        // A tag that stays is carried within the tunnel, one that is taken away is not.
        for (pops, fits) in [(true, 1464 - 42), (false, 1464 - 46)] {
            let tagged = |bytes: usize| {
                let port = 10 + u8::from(pops);
                format!("10.0.0.1:{port}>10.0.0.2:2 udp len={bytes} vlan=6")
            };
            let actions = &[&[Action::PopVlan], &actions[..]].concat()[usize::from(!pops)..];
            let mut rule = rule(&tagged(fits), actions);
            rule.connection.id = 8 + u32::from(pops);
            offload.install(&rule, IDLE).unwrap();
            let frame = wire::text::parse(&tagged(fits)).unwrap();
            let (is_forwarded, out) = offload.try_frame(IN, &frame).unwrap();
            assert!(is_forwarded && out.len() == 1514, "{pops} {}", out.len());
            let frame = wire::text::parse(&tagged(fits + 1)).unwrap();
            bytes_become(&mut offload, &frame, None);
        }
    });
}

#[test]
fn outer_headers_have_the_ecn_bits_of_each_packet() {
    in_namespace("ECN", |mut offload| {
        for (far, set_tos) in
            [("172.31.1.9", None), ("fd00:31::9", None), ("172.31.1.9", Some(0xb8))]
        {
            let near = if far.contains(':') { "fd00:31::1" } else { "172.31.1.1" };
            let header =
                |tos| built(TunnelKind::Vxlan, &Outer { tos: 0x20 | tos, ..outer(near, far) });
            for (copies_ecn, first) in [(true, 0), (true, 2), (false, 0), (false, 2)] {
                let to = TunnelPush { header: header(first), copies_ecn, ..push() };
                let set = set_tos.map(|tos| {
                    Action::Set(SetField { field: Field::NwTos, value: tos, mask: 0xfc })
                });
                let last = [Action::TunnelPush(Arc::new(to.clone())), Action::Output(OUT)];
                let actions: Vec<_> = set.into_iter().chain(last).collect();
                let inner = |tos: u8| format!("10.0.0.1:1000>10.0.0.2:80 . len=33 tos={tos:#x}");
                let mut rule = OffloadRule { copies_ecn, ..rule(&inner(first), &actions) };
                let mut ecn = flow::Mask::new();
                ecn.add_bits(Field::NwTos, 3);
                rule.mask = rule.mask.union(&rule.headers.mask_of(&ecn));
                let source_port = rule.source_port(&to);
                let id = offload.install(&rule, IDLE).unwrap();
                for tos in [0, 1, 2, 3] {
                    let sent = inner(tos | set_tos.unwrap_or(0) as u8);
                    let expect = within_completed(&header(tos), source_port, &sent);
                    let is_forwarded = copies_ecn || tos == first;
                    let frame = wire::text::parse(&inner(tos)).unwrap();
                    bytes_become(&mut offload, &frame, is_forwarded.then_some(&expect[..]));
                }
                offload.remove(id);
            }
        }
    });
}

#[test]
fn packets_are_decapsulated_and_then_treated_as_any() {
    let set = |field, value: u128, mask: u128| Action::Set(SetField { field, value, mask });
    in_namespace("decapsulation", move |mut offload| {
        for inner in INNERS {
            let rule = out_of_tunnel(inner, &[Action::Output(OUT)]);
            let id = offload.install(&rule, IDLE).unwrap();
            let (frame, expect) = (vxlan(inner), wire::text::parse(inner).unwrap());
            bytes_become(&mut offload, &frame, Some(&expect));
            // The same packet outside the tunnel.
            bytes_become(&mut offload, &expect, None);
            let traffic = OffloadTraffic { packets: 1, bytes: frame.len() as u64 };
            assert_eq!(offload.remove(id), traffic);
            bytes_become(&mut offload, &frame, None);
        }
        let frames: [fn(&str) -> Vec<u8>; 2] = [|inner| vxlan_with(true, inner), vxlan_v6];
        for frame_of in frames {
            for inner in INNERS {
                let frame = frame_of(inner);
                let udp = if frame[12..14] == [8, 0] { 34 } else { 54 };
                let rule = out_of(&frame, inner, &[Action::Output(OUT)]);
                let id = offload.install(&rule, IDLE).unwrap();
                bytes_become(&mut offload, &frame, Some(&wire::text::parse(inner).unwrap()));
                bytes_become(&mut offload, &vxlan(inner), None);
                // A wrong checksum, and a partial one, which contains only the sum of the pseudo-header.
                let mut bad = frame.clone();
                bad[udp + 7] ^= 1;
                bytes_become(&mut offload, &bad, None);
                let (protocol, len) = (wire::protocol::UDP, frame.len() - udp);
                let pseudo = match udp {
                    34 => wire::checksum::pseudo_v4(
                        [172, 31, 1, 2].into(),
                        [172, 31, 1, 1].into(),
                        protocol,
                        len,
                    ),
                    _ => wire::checksum::pseudo_v6(
                        "fd00:31::2".parse().unwrap(),
                        "fd00:31::1".parse().unwrap(),
                        protocol,
                        len,
                    ),
                };
                bad[udp + 6..udp + 8].copy_from_slice(&pseudo.to_be_bytes());
                bytes_become(&mut offload, &bad, None);
                offload.remove(id);
            }
        }
        let inner = "10.0.0.1:1000>10.0.0.2:80 udp len=33 vlan=3";
        let actions = [Action::PopVlan, set(Field::NwTtl, 9, 0xff), Action::Output(OUT)];
        let rule = OffloadRule {
            nat_rewrite: to("192.168.7.9", "10.0.0.2", (2000, 80)),
            ..out_of_tunnel(inner, &actions)
        };
        let id = offload.install(&rule, IDLE).unwrap();
        let expect =
            "192.168.7.9:2000>10.0.0.2:80 udp len=33 ttl=9 eth=02:00:00:00:00:01>02:00:00:00:00:02";
        bytes_become(&mut offload, &vxlan(inner), Some(&wire::text::parse(expect).unwrap()));
        offload.remove(id);
        // From one tunnel into another.
        let through = [Action::TunnelPush(Arc::new(push())), Action::Output(OUT)];
        let rule = out_of_tunnel(INNERS[0], &through);
        offload.install(&rule, IDLE).unwrap();
        let headers = &rule.headers;
        let source_port =
            push().source_port(headers.key_addresses(), headers.key_ports(), headers.protocol());
        let expect = within(&push().header, source_port, INNERS[0]);
        bytes_become(&mut offload, &vxlan(INNERS[0]), Some(&expect));
    });
}

#[test]
fn other_tunnels_and_other_inner_packets_are_passed_up() {
    in_namespace("packets of other tunnels", |mut offload| {
        let inner = INNERS[0];
        offload.install(&out_of_tunnel(inner, &[Action::Output(OUT)]), IDLE).unwrap();
        let good = vxlan(inner);
        // Addresses, checksum of the outer IP header, lengths, UDP port, VXLAN flags, VNI, inner bytes.
        let changed = |changes: &[(usize, u8)]| {
            let mut frame = good.clone();
            changes.iter().for_each(|(at, byte)| frame[*at] = *byte);
            let ip = &mut frame[14..34];
            ip[10..12].fill(0);
            let computed = wire::checksum::checksum(ip);
            ip[10..12].copy_from_slice(&computed.to_be_bytes());
            frame
        };
        let expect = wire::text::parse(inner).unwrap();
        bytes_become(&mut offload, &changed(&[]), Some(&expect));
        // The flow does not match the outer source port, TTL or Ethernet source.
        bytes_become(&mut offload, &changed(&[(34, 1), (22, 7), (11, 9)]), Some(&expect));
        let mut bad_checksum = good.clone();
        bad_checksum[24] ^= 1;
        let mut longer = good.clone();
        longer.push(0);
        for other in [
            changed(&[(5, 1)]),
            changed(&[(29, 3)]),
            changed(&[(33, 3)]),
            changed(&[(37, 1)]),
            changed(&[(39, 8)]),
            changed(&[(41, 1)]),
            changed(&[(42, 0x88)]),
            changed(&[(43, 1)]),
            changed(&[(47, 1)]),
            changed(&[(48, 102)]),
            changed(&[(49, 1)]),
            changed(&[(20, 0x20)]),
            bad_checksum,
            longer,
            vxlan("10.0.0.1:1001>10.0.0.2:80 . seq=5 ack=6 len=100"),
            vxlan("10.0.0.1:1000>10.0.0.2:80 S"),
            vxlan("10.0.0.1:1000>10.0.0.2:80 . len=100 frag=first"),
            vxlan("10.0.0.1:1000>10.0.0.2:80 . len=100 csum=bad"),
            vxlan("10.0.0.1>10.0.0.2 arp-request"),
        ] {
            bytes_become(&mut offload, &other, None);
        }
        bytes_become(&mut offload, &good, Some(&expect));
        bytes_become(&mut offload, &vxlan("10.0.0.1:1000>10.0.0.2:80 FA"), None);
        bytes_become(&mut offload, &good, None);
    });
}

#[test]
fn packets_without_a_tunnel_are_not_decapsulated_whatever_the_tunnels_key() {
    in_namespace("the key of packets without a tunnel", |mut offload| {
        // The XOR of the words of the source is zero, and the VNI is 0.
        let outer = Outer { key: 0, ..outer("fd00:31:fd00:31::", "fd00:31::1") };
        let inner = INNERS[0];
        let frame = within(&built(TunnelKind::Vxlan, &outer), 40_000, inner);
        let plain = wire::text::parse(inner).unwrap();
        let id = offload.install(&out_of(&frame, inner, &[Action::Output(OUT)]), IDLE).unwrap();
        bytes_become(&mut offload, &plain, None);
        bytes_become(&mut offload, &frame, Some(&plain));
        offload.remove(id);
        // Conversely, a rule for packets outside a tunnel does not match the one in the tunnel.
        offload.install(&rule(inner, &[Action::Output(OUT)]), IDLE).unwrap();
        bytes_become(&mut offload, &frame, None);
        bytes_become(&mut offload, &plain, Some(&plain));
    });
}

#[test]
fn datagrams_without_a_checksum_that_are_too_long_to_sum_are_passed_up() {
    let inner = |bytes: usize| format!("10.0.0.1:1>10.0.0.2:2 udp len={} csum=zero", bytes - 8);
    in_namespace("long datagrams without a checksum", move |mut offload| {
        for (port, receives) in [(IN, true), (OUT, false)] {
            offload.add_port(port, ("lo", LOOPBACK, 20_000), receives).unwrap();
        }
        let with = Outer { checksum: true, ..outer("172.31.1.1", "172.31.1.9") };
        let to =
            TunnelPush { header: built(TunnelKind::Vxlan, &with), frame_max: 19_000, ..push() };
        let [fits, too_long] = [9216, 9217].map(&inner);
        let into = rule(&fits, &[Action::TunnelPush(Arc::new(to.clone())), Action::Output(OUT)]);
        let headers = &into.headers;
        let source_port =
            to.source_port(headers.key_addresses(), headers.key_ports(), headers.protocol());
        let bytes = [&fits, &too_long].map(|it| wire::text::parse(it).unwrap());
        let id = offload.install(&into, IDLE).unwrap();
        let expect = within(&to.header, source_port, &fits);
        bytes_become(&mut offload, &bytes[0], Some(&expect));
        bytes_become(&mut offload, &bytes[1], None);
        let passed = offload.passed();
        assert!(passed.contains(&("large", 1)), "{passed:?}");
        offload.remove(id);
        let frames = [&fits, &too_long].map(|it| vxlan_with(true, it));
        let out_of = out_of(&frames[0], &fits, &[Action::Output(OUT)]);
        offload.install(&out_of, IDLE).unwrap();
        bytes_become(&mut offload, &frames[0], Some(&bytes[0]));
        bytes_become(&mut offload, &frames[1], None);
    });
}

#[test]
fn tunnels_that_the_program_does_not_know_are_refused() {
    in_namespace("refused tunnels", |mut offload| {
        let into = |push: TunnelPush| {
            rule(INNERS[0], &[Action::TunnelPush(Arc::new(push)), Action::Output(OUT)])
        };
        let (v4, v6) = (outer("172.31.1.1", "172.31.1.9"), outer("fd00::1", "fd00::9"));
        let with = |kind, outer: &Outer<'_>| {
            into(TunnelPush { kind, header: built(kind, outer), ..push() })
        };
        let changed = |change: fn(&mut OffloadTunnel)| {
            let mut rule = out_of_tunnel(INNERS[0], &[Action::Output(OUT)]);
            change(rule.tunnel.as_mut().unwrap());
            rule
        };
        let twice = [
            Action::TunnelPush(Arc::new(push())),
            Action::TunnelPush(Arc::new(push())),
            Action::Output(OUT),
        ];
        for (rule, expect) in [
            (with(TunnelKind::Geneve, &v6), Refusal::Tunnel),
            (with(TunnelKind::Geneve, &v4), Refusal::Tunnel),
            (with(TunnelKind::Gre, &v4), Refusal::Tunnel),
            (rule(INNERS[0], &twice), Refusal::Actions),
            (changed(|it| it.kind = TunnelKind::Geneve), Refusal::Tunnel),
            (changed(|it| it.word |= 1 << 63), Refusal::Tunnel),
            (changed(|it| it.header_bytes = 54), Refusal::Tunnel),
        ] {
            assert_eq!(offload.install(&rule, IDLE), Err(expect.into()), "{rule:?}");
        }
    });
}

/// Frames like a good one of a tunnel, with bytes changed, cut off or added: what the program decapsulates is what
/// [`tunnel::decapsulate`] does, and of frames whose headers are the rule's the program leaves none out.
#[test]
fn the_program_and_the_switch_agree_on_what_is_a_tunnels_packet() {
    in_namespace("changed frames", |mut offload| {
        let inner = "10.0.0.1:1000>10.0.0.2:80 udp len=33";
        let (mut forwarded, mut refused, mut seed) = (0, 0, 1u64);
        let mut random = |below: usize| {
            // Knuth's generator of MMIX.
            seed = seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) as usize % below
        };
        for good in [vxlan(inner), vxlan_with(true, inner), vxlan_v6(inner)] {
            let headers_len = if good[12..14] == [8, 0] { 50 } else { 70 };
            let id = offload.install(&out_of(&good, inner, &[Action::Output(OUT)]), IDLE).unwrap();
            for _ in 0..20_000 {
                let mut frame = good.clone();
                for _ in 0..random(3) {
                    let at = random(frame.len());
                    frame[at] ^= 1 << random(8);
                }
                match random(8) {
                    0 => frame.truncate(random(frame.len()).max(14)),
                    1 => frame.extend(vec![0; random(9)]),
                    _ => {}
                }
                // Most changes of an IPv4 header are seen by its checksum.
                if headers_len == 50 && frame.len() >= 34 && random(2) == 0 {
                    frame[24..26].fill(0);
                    let computed = wire::checksum::checksum(&frame[14..34]);
                    frame[24..26].copy_from_slice(&computed.to_be_bytes());
                }
                let (is_forwarded, out) = offload.try_frame(IN, &frame).unwrap();
                let found = tunnel::decapsulate(TunnelKind::Vxlan, &frame, false);
                let Ok(found) = found else {
                    assert!(!is_forwarded, "{frame:02x?}");
                    refused += 1;
                    continue;
                };
                let payload = &frame[found.header_len..found.end];
                if is_forwarded {
                    assert_eq!((found.inner, out.as_slice()), (tunnel::Inner::Frame, payload));
                    assert_eq!(found.metadata.key, Some(VNI.into()));
                    forwarded += 1;
                }
                // All that a flow may match is as it was, except for what this one did not look at.
                let is_the_rules = frame.len() == good.len()
                    && frame[..6] == good[..6]
                    && frame[12..15] == good[12..15]
                    && frame[headers_len - 16..] == good[headers_len - 16..]
                    && found.metadata.source == outer_of(&good).0
                    && found.metadata.destination == outer_of(&good).1;
                assert!(is_forwarded || !is_the_rules, "{frame:02x?}");
            }
            offload.remove(id);
        }
        assert!(forwarded > 5_000 && refused > 5_000, "{forwarded} {refused}");
    });
}

fn outer_of(frame: &[u8]) -> (IpAddr, IpAddr) {
    let found = tunnel::decapsulate(TunnelKind::Vxlan, frame, true).unwrap();
    (found.metadata.source, found.metadata.destination)
}
