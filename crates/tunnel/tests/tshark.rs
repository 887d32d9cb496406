//! Checks outer headers with Wireshark's dissectors: they must recognize every header form of every tunnel
//! kind, find the inner packet, and report no error, checksums included.

use base::MacAddr;
use flow::TunnelKind;
use std::fs;
use std::net::IpAddr;
use std::process::Command;
use tunnel::{Outer, TunnelConfig};

/// A frame, its name in messages, and the protocols that Wireshark must find in it.
struct Form {
    name: String,
    frame: Vec<u8>,
    protocols: &'static str,
}

const KEY: u64 = 0x123;

fn config(kind: TunnelKind, options: &str) -> TunnelConfig {
    let options = options.split_whitespace().filter_map(|it| it.split_once('='));
    let options = options.map(|(a, b)| (a.to_owned(), b.to_owned())).collect();
    TunnelConfig::parse(kind, "t", &options).config.unwrap()
}

/// All forms over one IP version.
fn forms(is_ipv6: bool) -> Vec<Form> {
    let ends = match is_ipv6 {
        true => ["fd00::1", "fd00::2"],
        false => ["10.0.0.1", "10.0.0.2"],
    };
    let [source, destination] = ends.map(|it| it.parse::<IpAddr>().unwrap());
    let plain = Outer {
        ethernet: (MacAddr([2, 0, 0, 0, 0, 1]), MacAddr([2, 0, 0, 0, 0, 2])),
        source,
        destination,
        tos: 0,
        ttl: 64,
        dont_fragment: true,
        checksum: false,
        oam: false,
        key: KEY,
        options: &[],
        group: (0, 0),
        erspan: (0, 0, 0, 0),
        gtpu: (0, 0),
        packet: None,
    };
    let inner = wire::text::parse("192.168.1.1:1000>192.168.1.2:2000 udp len=30").unwrap();
    let mut all = Vec::new();
    let mut add = |kind: TunnelKind, options: &str, outer: Outer<'_>, protocols| {
        let config = config(kind, &format!("remote_ip=flow key=flow {options}"));
        let mut frame = tunnel::build(&config, &outer).unwrap().to_vec();
        frame.extend(if outer.packet.is_some() { &inner[14..] } else { &inner[..] });
        tunnel::finish(
            &mut frame,
            kind,
            40_000,
            &flow::TunnelSequence::default(),
            base::Instant::ZERO,
        )
        .unwrap();
        let name = format!("{kind:?} {options} {outer:?}");
        all.push(Form { name, frame, protocols });
    };
    let packet = Some(0x0800);
    for checksum in [false, true] {
        // UDP over IPv6 has one unless both ends agree otherwise.
        let plain = Outer { checksum: checksum || is_ipv6, ..plain.clone() };
        add(TunnelKind::Vxlan, "", plain.clone(), "udp:vxlan:eth:ethertype:ip:udp");
        let group = Outer { group: (0x48, 0x1234), ..plain.clone() };
        add(TunnelKind::Vxlan, "exts=gbp", group, "udp:vxlan:eth:ethertype:ip:udp");
        let geneve = "udp:geneve:eth:ethertype:ip:udp";
        add(TunnelKind::Geneve, "", plain.clone(), geneve);
        let options =
            [0xff, 0xf0, 0x03, 1, 1, 2, 3, 4, 0xff, 0xf1, 0x84, 2, 1, 2, 3, 4, 5, 6, 7, 8];
        add(TunnelKind::Geneve, "", Outer { options: &options, ..plain.clone() }, geneve);
        add(TunnelKind::Geneve, "", Outer { oam: true, ..plain.clone() }, geneve);
        add(TunnelKind::Gre, "", plain.clone(), "gre:eth:ethertype:ip:udp");
        add(TunnelKind::Gre, "seq=true", plain.clone(), "gre:eth:ethertype:ip:udp");
        let bare = Outer { packet, ..plain.clone() };
        add(TunnelKind::Gre, "packet_type=legacy_l3", bare.clone(), "gre:ip:udp");
        add(TunnelKind::Gtpu, "", bare.clone(), "udp:gtp:ip:udp");
        if is_ipv6 {
            add(TunnelKind::Srv6, "", bare.clone(), "v6:ipv6.routing:ip:udp");
            add(TunnelKind::Srv6, "srv6_segs=fd00::2,fd00::3", bare, "v6:ipv6.routing:ip:udp");
        }
    }
    let erspan = |erspan| Outer { erspan, ..plain.clone() };
    add(TunnelKind::Erspan, "", erspan((1, 5, 0, 0)), "gre:erspan:eth:ethertype:ip:udp");
    add(TunnelKind::Erspan, "", erspan((2, 0, 1, 9)), "gre:erspan:eth:ethertype:ip:udp");
    all
}

fn pcap(frames: &[Form]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for word in [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 65_535, 1] {
        bytes.extend(word.to_le_bytes());
    }
    for form in frames {
        let len = form.frame.len() as u32;
        [0, 0, len, len].into_iter().for_each(|word: u32| bytes.extend(word.to_le_bytes()));
        bytes.extend(&form.frame);
    }
    bytes
}

#[test]
fn wireshark_reads_every_encapsulation_without_a_complaint() {
    if Command::new("tshark").arg("--version").output().is_err() {
        println!("\nSKIPPED: wireshark_reads_every_encapsulation: tshark is not installed");
        return;
    }
    let all: Vec<_> = [false, true].into_iter().flat_map(forms).collect();
    let path = std::env::temp_dir().join(format!("tidegate-tunnels-{}.pcap", std::process::id()));
    fs::write(&path, pcap(&all)).unwrap();
    let mut command = Command::new("tshark");
    command.arg("-r").arg(&path).args(["-n", "-T", "fields", "-E", "separator=|"]);
    for checked in ["ip", "udp"] {
        command.args(["-o", &format!("{checked}.check_checksum:TRUE")]);
    }
    for field in [
        "frame.protocols",
        "_ws.expert.message",
        "_ws.malformed",
        "ip.checksum.status",
        "udp.checksum.status",
    ] {
        command.args(["-e", field]);
    }
    let output = command.output().unwrap();
    fs::remove_file(&path).unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(text.lines().count(), all.len(), "{}", String::from_utf8_lossy(&output.stderr));
    for (form, line) in all.iter().zip(text.lines()) {
        let fields: Vec<_> = line.split('|').collect();
        let [protocols, expert, malformed, ip, udp] = fields[..] else { panic!("{line}") };
        let behind = protocols.split_once(":ip").map_or("", |(_, behind)| behind);
        assert!(behind.contains(form.protocols), "{}: {line}", form.name);
        assert_eq!((expert, malformed), ("", ""), "{}: {line}", form.name);
        // Wireshark's status of a checksum: 0 is bad, 1 good, 3 not present.
        let is_wrong = |statuses: &str| statuses.split(',').any(|status| status == "0");
        assert!(!is_wrong(ip) && !is_wrong(udp), "{}: {line}", form.name);
    }
}
