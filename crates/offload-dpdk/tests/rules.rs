//! The cases of `testdata/offload-dpdk/`: what rules flows become, and what rules do with frames.

mod recorder;

use base::{MacAddr, PortNo};
use flow::{
    Action, ConnectionRef, FlowKey, FlowOffload, Headers, Mask, NatRewrite, OffloadRule,
    OffloadTunnel, TunnelKind, TunnelPush,
};
use offload_dpdk::{DpdkOffload, checking, device_rule, leaving, marking};
use port_dpdk::flow_rule::{Commands, ConnectionObject, FlowDevice, ObjectHandle};
use recorder::{Fate, Recorder};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::io::Write;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;
use tunnel::{Envelope, Outer, TunnelConfig};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    flow: String,
    nat_rewrite: Option<String>,
    actions: String,
    push: Option<Push>,
    outer: Option<String>,
    vni: Option<u32>,
    expect: Option<String>,
    /// Frames that the rule's device receives, and what they are when they leave: `drop`, or `switch` where
    /// they are left to it.
    #[serde(default)]
    frames: Vec<[String; 2]>,
    refused: Option<String>,
    /// The rule by which packets are marked that the device does not forward.
    marked: Option<String>,
}

/// What `tnl_push` is made of: source and destination of each.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Push {
    kind: String,
    ethernet: [String; 2],
    ip: [IpAddr; 2],
    port: u16,
    key: u64,
    source_ports: (u16, u16),
}

fn cases() -> BTreeMap<String, Case> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/offload-dpdk");
    let files = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    files
        .filter(|path| path.extension().is_some_and(|it| it == "toml"))
        .map(|path| {
            let name = path.file_stem().unwrap().to_string_lossy().into_owned();
            let text = std::fs::read_to_string(&path).unwrap();
            let case = toml::from_str(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
            (name, case)
        })
        .collect()
}

fn number(name: &str) -> Option<PortNo> {
    name.parse().ok().map(PortNo)
}

/// Headers of a packet of a flow, and the bits that the flow looks at.
fn headers(flow: &str) -> (Headers, Headers) {
    let (key, mask): (FlowKey, Mask) = ofproto::text::parse_megaflow(flow, &number).unwrap();
    let frame = port_dummy::frame::compose(&key, None).unwrap();
    let mut headers = Headers::none();
    assert!(headers.read(&frame, key.in_port()).is_some(), "{flow}");
    (headers, headers.mask_of(&mask))
}

fn nat_rewrite(text: &str) -> NatRewrite {
    let (source, destination) = text.split_once('>').unwrap();
    let ends: [SocketAddr; 2] = [source, destination].map(|it| it.parse().unwrap());
    let halves = |ip: IpAddr| match ip {
        IpAddr::V4(ip) => [0, u64::from(ip.to_bits())],
        IpAddr::V6(ip) => [(ip.to_bits() >> 64) as u64, ip.to_bits() as u64],
    };
    let [[a, b], [c, d]] = ends.map(|end| halves(end.ip()));
    let ports = u32::from(ends[0].port()) << 16 | u32::from(ends[1].port());
    NatRewrite { addresses: [a, b, c, d], ports }
}

/// Outer headers without lengths and checksums.
fn outer_header(from: &Push) -> Box<[u8]> {
    let kind = TunnelKind::from_name(&from.kind).unwrap();
    let config = TunnelConfig { udp_port: from.port, ..TunnelConfig::new(kind) };
    let [source, destination] = from.ethernet.each_ref().map(|it| it.parse::<MacAddr>().unwrap());
    let outer = Outer {
        ethernet: (source, destination),
        source: from.ip[0],
        destination: from.ip[1],
        tos: 0,
        ttl: 64,
        dont_fragment: true,
        checksum: false,
        oam: false,
        key: from.key,
        options: &[],
        group: (0, 0),
        erspan: (0, 0, 0, 0),
        gtpu: (0, 0),
        packet: None,
    };
    tunnel::build(&config, &outer).unwrap()
}

fn push(from: &Push) -> TunnelPush {
    TunnelPush {
        port: PortNo(4),
        out_port: PortNo(3),
        kind: TunnelKind::from_name(&from.kind).unwrap(),
        strips_ethernet: false,
        source_ports: from.source_ports,
        header: outer_header(from),
        frame_max: 1464,
        answer: FlowKey::new(),
        copies_ecn: false,
        sequence: flow::TunnelSequence::default(),
    }
}

fn rule(case: &Case) -> OffloadRule {
    let (headers, mask) = headers(&case.flow);
    let steps = ofproto::text::parse_actions(&case.actions, &number).unwrap();
    let push = case.push.iter().map(|it| Action::TunnelPush(Arc::new(push(it))));
    let tunnel = case.outer.as_ref().map(|outer| {
        let (headers, mask) = self::headers(outer);
        OffloadTunnel {
            kind: TunnelKind::Vxlan,
            headers,
            mask,
            word: 0x08 << 56 | u64::from(case.vni.unwrap()) << 8,
            has_checksum: false,
            header_bytes: 50,
        }
    });
    OffloadRule {
        tunnel,
        headers,
        mask: mask.union(&headers.tuple_mask()),
        connection: ConnectionRef { id: 1, generation: 1, is_reply: false },
        second: None,
        copies_ecn: false,
        mark: Some(7),
        nat_rewrite: case.nat_rewrite.as_deref().map(nat_rewrite),
        actions: push.chain(steps).collect(),
    }
}

fn dpdk_port(port: PortNo) -> Option<u16> {
    (port.0 < 9).then(|| port.0 as u16 - 1)
}

#[test]
fn flows_become_the_rules_of_the_api() {
    for (name, case) in cases() {
        let rule = device_rule(&rule(&case), &dpdk_port);
        let got = rule.map(|it| Commands(it.in_port, &it.rule).to_string());
        let got = got.map_err(|refusal| refusal.name().to_owned());
        let expect = match (case.expect, case.refused) {
            (Some(expect), None) => Ok(expect.trim_end().to_owned()),
            (None, Some(refused)) => Err(refused),
            _ => panic!("{name}: it has one of `expect` and `refused`"),
        };
        assert_eq!(got, expect, "{name}");
    }
}

#[test]
fn packets_that_are_not_forwarded_are_marked() {
    let mut count = 0;
    for (name, case) in cases() {
        let Some(expect) = &case.marked else { continue };
        let got = marking(&rule(&case)).unwrap();
        assert_eq!(Commands(0, &got).to_string(), expect.trim_end(), "{name}");
        for [text, forwarded] in &case.frames {
            let mut device = Recorder::default();
            device.create(0, &got).unwrap();
            let fate = device.receive(0, &frame(&case, text));
            assert!(matches!(fate, Fate::Switch | Fate::Marked(7)), "{name}: {text}");
            assert!(forwarded == "switch" || fate == Fate::Marked(7), "{name}: {text}");
        }
        count += 1;
    }
    assert!(count > 4);
}

/// The frame of a text, from a tunnel where the case's packets come out of one.
fn frame(case: &Case, text: &str) -> Vec<u8> {
    let inner = wire::text::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    let Some(vni) = case.vni else { return inner };
    let from = Push {
        kind: "vxlan".to_owned(),
        ethernet: ["02:00:00:00:01:02".to_owned(), "02:00:00:00:01:01".to_owned()],
        ip: [[172, 31, 0, 2].into(), [172, 31, 0, 1].into()],
        port: 4789,
        key: vni.into(),
        source_ports: (0, 0),
    };
    let mut frame = [&outer_header(&from)[..], &inner].concat();
    tunnel::finish(
        &mut frame,
        TunnelKind::Vxlan,
        50_001,
        &flow::TunnelSequence::default(),
        base::Instant::ZERO,
    )
    .unwrap();
    frame
}

/// What a frame is within the tunnel that a case's packets go into.
fn inside(case: &Case, frame: &[u8]) -> Vec<u8> {
    let Some(push) = &case.push else { return frame.to_vec() };
    let envelope = Envelope::read(TunnelKind::Vxlan, frame).unwrap();
    assert!(envelope.is_right(frame, false));
    assert_eq!(envelope.word, 0x08 << 56 | push.key << 8);
    frame[envelope.len..envelope.end].to_vec()
}

fn describe(frame: &[u8]) -> String {
    wire::text::describe(frame).unwrap()
}

#[test]
fn rules_do_with_frames_what_the_switch_would() {
    for (name, case) in cases() {
        let Ok(device_rule) = device_rule(&rule(&case), &dpdk_port) else {
            assert!(case.frames.is_empty(), "{name}");
            continue;
        };
        assert!(!case.frames.is_empty(), "{name} has no frames");
        for [text, expect] in &case.frames {
            let mut device = Recorder::default();
            device.create(0, &device_rule.rule).unwrap();
            let got = match device.receive(0, &frame(&case, text)) {
                Fate::Sent(1, bytes) => describe(&inside(&case, &bytes)),
                Fate::Sent(..) => panic!("{name}: {text} leaves by another port"),
                Fate::Switch => "switch".to_owned(),
                Fate::Dropped => "drop".to_owned(),
                Fate::Marked(_) => panic!("{name}: {text} is marked"),
            };
            let expect = match expect.as_str() {
                it @ ("switch" | "drop") => it.to_owned(),
                it => describe(&wire::text::parse(it).unwrap()),
            };
            assert_eq!(got, expect, "{name}: {text}");
            assert_eq!(device.receive(1, &frame(&case, text)), Fate::Switch, "{name}: port 1");
        }
    }
}

#[test]
fn the_rules_are_commands_that_testpmd_reads() {
    let arguments = "--no-huge -m 256 --no-pci --no-shconf --vdev net_null0 --vdev net_null1 -- -i \
                     --total-num-mbufs=2048";
    let child = Command::new("dpdk-testpmd")
        .args(arguments.split_whitespace())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    let Ok(mut child) = child else {
        println!("\nSKIPPED: commands of testpmd: dpdk-testpmd is not installed");
        return;
    };
    let mut rules: Vec<String> = cases().values().filter_map(|case| case.expect.clone()).collect();
    let whole = cases().values().filter_map(whole_command).collect::<Vec<_>>();
    assert!(whole.iter().all(|it| it.contains("/ integrity level is 1 ") && it.contains("/ age ")));
    rules.extend(whole);
    rules.extend(cases().into_values().filter_map(|case| case.marked));
    rules.extend(checked_commands(&cases()["forward-tcp"]));
    let lines = rules.iter().flat_map(|rule| rule.lines()).filter(|it| !it.is_empty());
    let commands: Vec<String> = lines.flat_map(testpmd_commands).collect();
    child.stdin.take().unwrap().write_all((commands.join("\n") + "\nquit\n").as_bytes()).unwrap();
    let output = String::from_utf8_lossy(&child.wait_with_output().unwrap().stdout).into_owned();
    if !output.contains("testpmd> ") {
        println!("\nSKIPPED: commands of testpmd: DPDK does not start here");
        return;
    }
    assert!(!output.contains("Bad arguments"), "{output}");
    // Each command was read.
    let asked = commands.iter().filter(|it| it.starts_with("flow ")).count();
    assert_eq!(output.matches("testpmd> flow ").count(), asked, "{output}");
}

/// A connection object, and the rules of a case whose windows it checks, but for the one that refers to the object, of
/// which testpmd has none.
fn checked_commands(case: &Case) -> Vec<String> {
    let rule = rule(case);
    let device_rule = device_rule(&rule, &dpdk_port).unwrap();
    let [_, forward] = checking(&rule, &device_rule, ObjectHandle(1)).unwrap();
    let rules = leaving(0).into_iter().chain([forward]);
    let rules = rules.map(|it| Commands(0, &it).to_string());
    std::iter::once(ConnectionObject::default().to_string()).chain(rules).collect()
}

/// The rule of a case as a device gets it that takes every part.
fn whole_command(case: &Case) -> Option<String> {
    let mut offload = DpdkOffload::new(Recorder::default());
    for port in (1..9).map(PortNo) {
        // What is encapsulated fits the tunnel.
        offload.add_port(port, dpdk_port(port)?, if port == PortNo(1) { 1400 } else { 1500 });
    }
    let id = offload.install(&rule(case), Duration::from_secs(30)).ok()?;
    if offload.only_marks(id).is_some() {
        return None;
    }
    let (port, rule, _) = offload.device().rules.values().next()?;
    Some(Commands(*port, rule).to_string())
}

/// A rule as commands that only ask. testpmd reads lines of up to 511 bytes, so that the items and the actions of
/// a longer rule are asked about in several.
fn testpmd_commands(line: &str) -> Vec<String> {
    const BYTES_MAX: usize = 511;
    let command = line.replace("flow create", "flow validate");
    let Some((items, actions)) = command.split_once(" / end actions ") else {
        return vec![command];
    };
    if command.len() <= BYTES_MAX {
        return vec![command];
    }
    let (start, items) = items.split_once(" pattern ").unwrap();
    let items: Vec<&str> = items.split(" / ").collect();
    let asks =
        |items: &[&str]| format!("{start} pattern {} / end actions drop / end", items.join(" / "));
    let actions = format!("flow validate 0 transfer pattern eth / end actions {actions}");
    items.chunks(5).map(asks).chain([actions]).collect()
}
