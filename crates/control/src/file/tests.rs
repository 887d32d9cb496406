use super::*;
use crate::{DpdkInit, UpcallRateList};
use base::{DatapathId, MacAddr, OfPort};
use ofproto::VlanMode;
use openflow::Version;
use proptest::prelude::*;

/// The example of the module's documentation.
fn example() -> String {
    let lines = include_str!("../file.rs").lines();
    let lines = lines.skip_while(|line| *line != "//! ```toml").skip(1);
    let lines = lines.take_while(|line| *line != "//! ```");
    lines.map(|line| line.trim_start_matches("//!").trim_start().to_owned() + "\n").collect()
}

fn interface(name: &str, kind: InterfaceKind) -> Interface {
    Interface::new(name, kind)
}

fn with_ports(settings: BridgeSettings, ports: Vec<Port>) -> Bridge {
    let ports = ports.into_iter().map(|port| (port.name.clone(), port)).collect();
    Bridge { settings, ports }
}

#[test]
fn the_documented_example_is_read() {
    let found = Desired::from_toml(&example(), "example.toml").expect("no errors");
    let options = SwitchOptions {
        flow_stats_interval_ms: Some(1000),
        handler_threads: Some(1),
        revalidator_threads: Some(1),
        upcall_rates: UpcallRateList::parse("neighbor=1000,p1/ip=500").unwrap(),
        worker_cores: Some(CoreSet::from_iter([1, 2])),
        max_connections: Some(3_000_000),
        run_dir: Some("/run/openvswitch".into()),
        unixctl: Some("/run/openvswitch/tidegate.ctl".into()),
        dpdk: DpdkOptions { init: DpdkInit::Yes, ..DpdkOptions::default() },
        ..SwitchOptions::default()
    };
    let tls = TlsFiles {
        private_key: "/etc/tidegate/key.pem".into(),
        certificate: "/etc/tidegate/cert.pem".into(),
        ca_cert: "/etc/tidegate/ca.pem".into(),
        bootstrap_ca_cert: false,
    };
    let timeouts = [("tcp_established", 3600), ("udp_multiple", 60)];
    let timeouts_s = timeouts.map(|(name, seconds)| (name.to_owned(), seconds)).into();
    let settings = BridgeSettings {
        fail_mode: FailMode::Secure,
        datapath_id: Some(DatapathId(1)),
        hwaddr: Some(MacAddr([2, 0, 0, 0, 0, 1])),
        controllers: vec![Controller::new("tcp:127.0.0.1:6653")],
        versions: BTreeSet::from([Version::V10, Version::V13]),
        flow_files: vec!["br0.flows".into()],
        ..BridgeSettings::default()
    };
    let patch = |name, peer: &str| {
        Port::new(interface(name, InterfaceKind::Patch { peer: peer.to_owned() }))
    };
    let local = |name| Port::new(interface(name, InterfaceKind::Internal));
    let mut veth0 = Port::new(interface("veth0", InterfaceKind::System));
    veth0.interfaces[0].ofport_request = Some(OfPort(1));
    veth0.vlan = VlanMode::Access(10);
    let mut int0 = local("int0");
    int0.interfaces[0].mac = Some(MacAddr([2, 0, 0, 0, 0, 2]));
    let said = |pairs: &[(&str, &str)]| {
        pairs.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()
    };
    let mut veth1 = Port::new(interface("veth1", InterfaceKind::Afxdp));
    let xdp = [("xdp-mode", "best-effort"), ("n_rxq", "1"), ("use-need-wakeup", "true")];
    veth1.interfaces[0].options = said(&xdp);
    veth1.interfaces[0].rxq_affinity = BTreeMap::from([(0, 1)]);
    let mut play0 = Port::new(interface("play0", InterfaceKind::Pcap));
    play0.interfaces[0].options =
        said(&[("rx_pcap", "in.pcap"), ("infinite_rx", "true"), ("tx_pcap", "out.pcap")]);
    int0.interfaces[0].mtu_request = Some(1500);
    int0.vlan = VlanMode::Trunk { trunks: vec![10, 20] };
    let mut dpdk0 = Port::new(interface("dpdk0", InterfaceKind::Dpdk));
    let options_of = [("dpdk-devargs", "0000:01:00.0"), ("n_rxq", "2")];
    dpdk0.interfaces[0].options = options_of.map(|(k, v)| (k.to_owned(), v.to_owned())).into();
    let ports = vec![local("br0"), veth0, int0, dpdk0, patch("to-br1", "to-br0"), veth1, play0];
    let br0 = with_ports(settings, ports);
    let br1 = with_ports(BridgeSettings::default(), vec![local("br1"), patch("to-br0", "to-br1")]);
    let expect = Desired {
        bridges: BTreeMap::from([("br0".to_owned(), br0), ("br1".to_owned(), br1)]),
        zones: BTreeMap::from([(Zone(5), ZonePolicy { timeouts_s, limit: Some(1000) })]),
        default_zone_limit: Some(100_000),
        options,
        tls: Some(tls),
    };
    assert_eq!(found, expect);
}

#[test]
fn an_empty_file_asks_for_nothing() {
    assert_eq!(Desired::from_toml("", "x"), Ok(Desired::default()));
}

/// Compares the errors in `text`, one per line, without the file's name.
fn check(text: &str, expect: &[&str]) {
    let errors = Desired::from_toml(text, "t").expect_err(text);
    let lines: Vec<String> = errors.iter().map(FileError::to_string).collect();
    let expect: Vec<String> = expect.iter().map(|line| format!("t:{line}")).collect();
    assert_eq!(lines, expect, "{text}");
}

#[test]
fn values_that_are_wrong() {
    check(
        "[switch]\nmax_idle_ms = \"1\"",
        &["2:15: `max_idle_ms` has to be a number from 0 to 4294967295, found string"],
    );
    check(
        "[switch]\nmax_revalidator_ms = 3",
        &["2:22: `max_revalidator_ms` has to be a number from 100 to 4294967295, found 3"],
    );
    check(
        "[switch]\npmd_cpu_mask = \"x\"",
        &["2:16: `pmd_cpu_mask` is \"x\"; it has to be a hexadecimal mask of cores, such as \
         \"0x6\" for cores 1 and 2"],
    );
    check("switch = 3", &["1:10: expected `switch` as a table, found integer"]);
    check(
        "[tls]\nprivate_key = \"k\"\nca_cert = \"\"",
        &["1:1: `tls` needs `certificate`; add it", "3:11: `ca_cert` is empty; give it a value"],
    );
    check(
        "[[bridge]]\nname = \"br0\"\nfail_mode = \"safe\"\nforward_bpdu = 1",
        &[
            "3:13: \"safe\" is not a `fail_mode`; choose from \"standalone\", \"secure\"",
            "4:16: `forward_bpdu` has to be true or false, found 1",
        ],
    );
    check(
        "[[bridge]]\nname = \"br0\"\nprotocols = [\"OpenFlow16\", 5]",
        &[
            "3:14: \"OpenFlow16\" is not spoken; choose from \"OpenFlow10\" to \"OpenFlow15\"",
            "3:28: `protocols` has to be a string, found 5",
        ],
    );
    check(
        "[[bridge]]\nname = \"br0\"\ndatapath_id = \"0\"\nhwaddr = \"br0\"",
        &[
            "3:15: `datapath_id` is \"0\"; it has to be 16 hexadecimal digits that are not all zero",
            "4:10: `hwaddr` is \"br0\"; it has to be an Ethernet address of one interface",
        ],
    );
    check(
        "[zone.x]\n[zone.70000]\n[zone.1]\nlimit = -1",
        &[
            "1:7: \"x\" is no zone; write a number up to 65535, or \"default\"",
            "2:7: \"70000\" is no zone; write a number up to 65535, or \"default\"",
            "4:9: `limit` has to be a number from 0 to 4294967295, found -1",
        ],
    );
    check("bridge = 1", &["1:1: expected a list, found integer; write [[bridge]]"]);
    check("bridge = [1]", &["1:11: expected a bridge as a table, found integer"]);
    check("[bridge]\nname = \"br0\"", &["1:2: expected a list, found table; write [[bridge]]"]);
}

#[test]
fn keys_that_are_unknown() {
    let port = "[[bridge]]\nname = \"br0\"\n[[bridge.port]]\nname = \"p0\"\n";
    check(&format!("{port}tags = 5"), &["5:1: unknown key `tags`, did you mean `tag`?"]);
    check(&format!("{port}trunk = [5]"), &["5:1: unknown key `trunk`, did you mean `trunks`?"]);
    check(
        "[zone.1]\ntimeouts = { tcp_etablished = 5 }",
        &["2:14: unknown key `tcp_etablished`, did you mean `tcp_established`?"],
    );
    check("[zone.default]\ntimeouts = {}", &["2:1: unknown key `timeouts`; a zone has `limit`"]);
    check("[bridges]", &["1:2: unknown key `bridges`, did you mean `bridge`?"]);
    check("\"é\" = 1", &["1:1: unknown key `é`; the file has `switch`, `tls`, `zone`, `bridge`"]);
}

#[test]
fn what_does_not_go_together() {
    let bridge = "[[bridge]]\nname = \"br0\"\n";
    let port = |name: &str, rest: &str| format!("[[bridge.port]]\nname = \"{name}\"\n{rest}\n");
    check("[[bridge]]\nfail_mode = \"secure\"", &["1:1: a bridge needs `name`; add it"]);
    check(
        &format!("{bridge}{bridge}"),
        &["4:8: another bridge is called \"br0\"; give one another name"],
    );
    check(
        &format!("{bridge}{}{}", port("a", "ofport = 1"), port("b", "ofport = 1")),
        &["8:10: port \"a\" asks for number 1 too; change one"],
    );
    check(
        &format!("{bridge}{}{}", port("a", ""), port("a", "")),
        &["7:8: bridge \"br0\" has a port \"a\" already; remove one"],
    );
    check(
        &format!("{bridge}{}", port("a", "type = \"patch\"")),
        &["3:1: a port needs `peer`; add it"],
    );
    check(
        &format!("{bridge}{}", port("a", "type = \"patch\"\npeer = \"b\"")),
        &["4:8: patch \"a\" has no other end; add a port \"b\" with type = \"patch\" and peer = \
         \"a\""],
    );
    check(
        &format!("{bridge}{}", port("a", "type = \"patch\"\npeer = \"a\"")),
        &["6:8: patch \"a\" cannot be its own other end; name another port"],
    );
    check(
        &format!("{bridge}{}", port("a", "peer = \"b\"")),
        &["5:1: `peer`: only a port of type \"patch\" has a peer; remove this"],
    );
    check(
        &format!("{bridge}{}", port("a", "type = \"lisp\"")),
        &["5:8: \"lisp\" is not a `type`; choose from \"system\", \"internal\", \"tap\", \
              \"patch\", \"afxdp\", \"pcap\", \"dpdk\", \"dpdkvhostuserclient\", \
              \"dpdkvhostuser\", \"gre\", \"vxlan\", \"geneve\", \"erspan\", \"ip6erspan\", \
              \"ip6gre\", \"gtpu\", \"bareudp\", \"srv6\""],
    );
    check(
        &format!("{bridge}{}", port("a", "type = \"geneve\"")),
        &["3:1: a: geneve type requires valid 'remote_ip' argument"],
    );
    check(
        &format!("{bridge}{}", port("a", "tag = 5\ntrunks = [6]")),
        &[
            "6:1: `trunks`: a port with a tag and no vlan_mode is an access port and has no trunks; \
         add vlan_mode = \"native-untagged\" or remove one",
        ],
    );
    check(
        &format!("{bridge}{}", port("br0", "ofport = 5\ntype = \"tap\"")),
        &[
            "5:1: `ofport`: the port with the bridge's name is its own, LOCAL and internal; remove \
         this",
            "6:8: \"tap\" is not a `type`; choose from \"internal\"",
        ],
    );
    check(
        &format!("{bridge}{}", port("a name too long for Linux", "")),
        &[
            "4:8: \"a name too long for Linux\" cannot be the name of a device; use at most 15 bytes \
         without spaces, slashes and colons",
        ],
    );
    check(
        &format!("{bridge}{}", port("a", "ofport = 65280")),
        &["5:10: `ofport` has to be a number from 1 to 65279, found 65280"],
    );
}

#[test]
fn what_is_not_toml() {
    check("[switch]\nmax_idle_ms 5", &["2:13: key with no value, expected `=`"]);
}

proptest! {
    #[test]
    fn no_text_is_too_strange(text in "[\\[\\]a-z_=\"{}\n0-9., é-]{0,60}") {
        let _ = Desired::from_toml(&text, "t");
    }

    #[test]
    fn no_change_of_the_example_is_too_strange(cut in 0usize..1500, len in 0usize..20, put in ".{0,3}") {
        let chars: Vec<char> = example().chars().collect();
        let text: String = chars.iter().take(cut).copied()
            .chain(put.chars())
            .chain(chars.iter().skip(cut + len).copied())
            .collect();
        if let Err(errors) = Desired::from_toml(&text, "t") {
            prop_assert!(!errors.is_empty());
            let lines = text.lines().count().max(1);
            prop_assert!(errors.iter().all(|e| e.line <= lines + 1 && e.column >= 1));
        }
    }
}
