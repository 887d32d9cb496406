//! From `ovs-vsctl` through the real ovsdb-server to the desired state, and the status back.

#[path = "../../ovsdb/tests/support/mod.rs"]
mod support;

use base::{DatapathId, MacAddr, OfPort, Zone};
use control::{
    BridgeStatus, Change, Desired, InterfaceKind, InterfaceStatus, LinkStatus, Status, ZonePolicy,
    difference, monitored, next_cfg, report, userspace_capabilities,
};
use ofproto::VlanMode;
use ovsdb::SessionConfig;
use std::collections::BTreeMap;
use std::io::Read;
use std::process::{Command, Stdio};
use support::{Client, Directory, Programs, Running, SCHEMA, is_connected, run};

/// Reports, and waits until the database has the status.
fn report_status(client: &mut Client, status: &Status) {
    let transactions = report(client.session.replica(), status);
    assert!(!transactions.is_empty(), "something differs");
    for transaction in transactions {
        assert_eq!(client.commit(transaction).err(), None);
    }
    assert_eq!(report(client.session.replica(), status), [], "all of it is there");
}

/// Two bridges with all kinds of ports, made in one transaction.
const COMMANDS: &str = "init \
    -- add-br br0 -- set bridge br0 datapath_type=netdev fail_mode=secure \
       other_config:datapath-id=000000000000002a external_ids:owner=me \
    -- set-controller br0 tcp:10.0.0.1:6653 ptcp:6653 \
    -- add-port br0 p0 tag=10 -- set interface p0 ofport_request=5 external_ids:iface-id=vm1 \
    -- add-port br0 to-br1 -- set interface to-br1 type=patch options:peer=to-br0 \
    -- add-port br0 gnv0 -- set interface gnv0 type=stt options:remote_ip=10.0.0.2 \
    -- add-bond br0 bond0 e0 e1 \
    -- add-br br1 -- add-port br1 to-br0 -- set interface to-br0 type=patch options:peer=to-br1 \
    -- add-port br1 t0 trunks=1,2 vlan_mode=native-tagged tag=3 \
    -- set interface t0 type=tap \
    -- set open . other_config:max-idle=20000 datapaths:netdev=@dp \
    -- --id=@dp create datapath datapath_version=0";

fn check_desired(desired: &Desired) {
    let names = |bridge: &str| {
        let ports = desired.bridges[bridge].ports.keys();
        ports.map(String::as_str).collect::<Vec<_>>()
    };
    assert_eq!(names("br0"), ["bond0", "br0", "gnv0", "p0", "to-br1"]);
    assert_eq!(names("br1"), ["br1", "t0", "to-br0"]);
    let settings = &desired.bridges["br0"].settings;
    assert_eq!(settings.datapath_id, Some(DatapathId(42)));
    assert_eq!(settings.fail_mode, ofproto::FailMode::Secure);
    let targets: Vec<_> = settings.controllers.iter().map(|c| c.target.as_str()).collect();
    assert_eq!(targets, ["ptcp:6653", "tcp:10.0.0.1:6653"]);
    let port = |bridge: &str, port: &str| desired.bridges[bridge].ports[port].clone();
    assert_eq!(port("br0", "p0").vlan, VlanMode::Access(10));
    assert_eq!(port("br0", "p0").interfaces[0].ofport_request, Some(OfPort(5)));
    assert_eq!(port("br0", "br0").interfaces[0].kind, InterfaceKind::Internal);
    let peer = InterfaceKind::Patch { peer: "to-br1".to_owned() };
    assert_eq!(port("br1", "to-br0").interfaces[0].kind, peer);
    assert_eq!(port("br1", "t0").interfaces[0].kind, InterfaceKind::Tap);
    let native = VlanMode::NativeTagged { tag: 3, trunks: vec![1, 2] };
    assert_eq!(port("br1", "t0").vlan, native);
    assert_eq!(port("br0", "bond0").interfaces.len(), 2);
    assert_eq!(port("br0", "gnv0").interface(), None);
    assert_eq!(desired.options.max_idle_ms, 20_000);
}

/// A status in which every interface that is not refused runs, with consecutive port numbers.
fn running(desired: &Desired, cur_cfg: Option<i64>) -> Status {
    let mut status = Status { cur_cfg, ..Status::default() };
    status.capabilities = Some(userspace_capabilities());
    status.datapath_types = Some(vec!["netdev".to_owned(), "system".to_owned()]);
    for (name, bridge) in &desired.bridges {
        let datapath_id = bridge.settings.datapath_id.unwrap_or(DatapathId(7));
        status.bridges.insert(name.clone(), BridgeStatus { datapath_id, error: None });
        let interfaces = bridge.ports.values().flat_map(|port| &port.interfaces);
        for (number, interface) in (1u16..).zip(interfaces) {
            let link = LinkStatus {
                ofport: interface.ofport_request.unwrap_or(OfPort(100 + number)),
                mac: Some(MacAddr([2, 0, 0, 0, 0, 1])),
                admin_up: Some(true),
                link_up: true,
                mtu: Some(1500),
                statistics: Some(BTreeMap::from([("rx_packets".to_owned(), 3)])),
                ..LinkStatus::default()
            };
            let running = InterfaceStatus::Running(Box::new(link));
            let status_of = match &interface.kind {
                InterfaceKind::Refused { error } => {
                    InterfaceStatus::Failed { error: error.clone() }
                }
                _ => running,
            };
            status.interfaces.insert(interface.name.clone(), status_of);
        }
    }
    status
}

#[test]
fn ovs_vsctl_configures_and_reads_the_switch() {
    let Some(programs) = Programs::find() else { return };
    let vsctl = &programs.vsctl;
    let directory = Directory::new();
    let (database, socket) = (directory.path("conf.db"), directory.path("db.sock"));
    run(&programs.tool, &["create", &database, SCHEMA]);
    let _server = programs.start_server(&directory);
    let config = SessionConfig::new("Open_vSwitch", monitored()).with_lock("ovs_vswitchd");
    let mut client = Client::new(config);
    client.connect(&socket);
    client.run_until("the contents", is_connected);
    let db = format!("--db=unix:{socket}");

    // ovs-vsctl waits until the switch has reported that the configuration is applied.
    let waiting = Command::new(vsctl)
        .args([&db, "--timeout=30"])
        .args(COMMANDS.split_whitespace())
        .stderr(Stdio::piped())
        .spawn();
    let mut waiting = Running(waiting.expect("ovs-vsctl starts"));
    client.run_until("the bridges", |session, _| next_cfg(session.replica()) == Some(1));
    let (desired, warnings) = Desired::from_rows(client.session.replica());
    assert_eq!(warnings, []);
    check_desired(&desired);
    assert!(waiting.0.try_wait().expect("a child").is_none(), "it waits");
    report_status(&mut client, &running(&desired, Some(1)));
    assert!(waiting.0.wait().expect("a child").success());
    // ovs-vsctl saw the errors, so they were reported together with the configuration's number.
    let mut words = String::new();
    let errors = waiting.0.stderr.take().expect("piped");
    std::io::BufReader::new(errors).read_to_string(&mut words).expect("UTF-8");
    assert!(words.contains("Error detected while setting up 'gnv0': could not open"), "{words}");
    assert!(words.contains("bonding is not supported"), "{words}");

    let get = |table: &str, row: &str, column: &str| run(vsctl, &[&db, "get", table, row, column]);
    assert_eq!(get("interface", "p0", "ofport"), "5");
    assert_eq!(get("interface", "p0", "mac_in_use"), "\"02:00:00:00:00:01\"");
    assert_eq!(get("interface", "p0", "external_ids"), "{iface-id=vm1}");
    assert_eq!(get("interface", "p0", "statistics"), "{rx_packets=3}");
    assert_eq!(get("interface", "gnv0", "ofport"), "-1");
    assert_eq!(get("bridge", "br0", "datapath_id"), "\"000000000000002a\"");
    assert_eq!(get("bridge", "br0", "datapath_version"), "\"<built-in>\"");
    assert_eq!(get("bridge", "br0", "external_ids"), "{owner=me}");
    assert_eq!(get("open_vswitch", ".", "datapath_types"), "[netdev, system]");
    let capabilities = run(vsctl, &[&db, "--columns=capabilities", "list", "datapath"]);
    assert!(capabilities.contains("max_hash_alg=\"1\""), "{capabilities}");

    let zone = ["--no-wait", "add-zone-tp", "netdev", "zone=5", "tcp_established=60"];
    run(vsctl, &[&[db.as_str()], &zone[..]].concat());
    run(vsctl, &[&db, "--no-wait", "del-br", "br1", "--", "set", "port", "p0", "tag=20"]);
    client.run_until("the end of br1", |session, _| session.replica().rows("Bridge").count() == 1);
    let (next, warnings) = Desired::from_rows(client.session.replica());
    assert_eq!(warnings, []);
    let removed = |port: &str| Change::RemovePort { bridge: "br1".into(), port: port.into() };
    let timeouts_s = BTreeMap::from([("tcp_established".to_owned(), 60)]);
    let port = next.bridges["br0"].ports["p0"].clone();
    assert_eq!(port.vlan, VlanMode::Access(20));
    let expect = [
        removed("to-br0"),
        removed("t0"),
        removed("br1"),
        Change::RemoveBridge("br1".into()),
        Change::SetZone { zone: Zone(5), policy: ZonePolicy { timeouts_s, limit: None } },
        Change::ConfigurePort { bridge: "br0".into(), port },
    ];
    assert_eq!(difference(&desired, &next), expect);
}
