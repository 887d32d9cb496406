use super::*;
use crate::fixture::{replica, uuid};
use crate::{AutoBalance, Hint, Isolation, QueueOptions, RxqAssign, SleepMax, ZonePolicy};
use base::{DatapathId, MacAddr, OfPort, Zone};
use classifier::PrefixField;
use ofproto::{PriorityTags, TableConfig, VlanMode};
use openflow::Version;
use openflow::text::NamedBits;
use serde_json::{Value, json};

fn set(uuids: &[u32]) -> Value {
    json!(["set", uuids.iter().map(|n| uuid(*n)).collect::<Vec<_>>()])
}

fn map(pairs: &[(&str, &str)]) -> Value {
    json!(["map", pairs])
}

/// The configuration of a bridge br0 with one port and interface p0, with these columns changed.
fn desired(root: Value, bridge: Value, port: Value, interface: Value) -> (Desired, Vec<String>) {
    let with = |mut row: Value, columns: Value| {
        let columns = columns.as_object().expect("columns").clone();
        row.as_object_mut().expect("a row").extend(columns);
        row
    };
    let (desired, warnings) = Desired::from_rows(&replica(&[
        ("Open_vSwitch", 1, with(json!({"bridges": uuid(2)}), root)),
        ("Bridge", 2, with(json!({"name": "br0", "ports": uuid(3)}), bridge)),
        ("Port", 3, with(json!({"name": "p0", "interfaces": uuid(4)}), port)),
        ("Interface", 4, with(json!({"name": "p0"}), interface)),
    ]));
    (desired, warnings.iter().map(Warning::to_string).collect())
}

fn none() -> Value {
    json!({})
}

fn expected() -> Desired {
    let ports = ["br0", "p0"].map(|name| {
        let kind = if name == "br0" { InterfaceKind::Internal } else { InterfaceKind::System };
        (name.to_owned(), Port::new(Interface::new(name, kind)))
    });
    let bridge = Bridge { settings: BridgeSettings::default(), ports: BTreeMap::from(ports) };
    Desired { bridges: BTreeMap::from([("br0".to_owned(), bridge)]), ..Desired::default() }
}

#[test]
fn settings_of_flow_tables() {
    let tables = json!(["map", [[0, uuid(3)], [7, uuid(4)], [9, uuid(5)], [10, uuid(6)]]]);
    let set = |names: &[&str]| json!(["set", names]);
    let limited = json!({"flow_limit": 5, "overflow_policy": "evict", "name": "main",
        "groups": set(&["NXM_OF_IN_PORT[]", "NXM_OF_NOTHING[]"])});
    let rows = replica(&[
        ("Open_vSwitch", 1, json!({"bridges": uuid(2)})),
        ("Bridge", 2, json!({"name": "br0", "flow_tables": tables})),
        ("Flow_Table", 3, json!({"prefixes": set(&["ip_dst", "ipv6_src"])})),
        ("Flow_Table", 4, json!({"prefixes": set(&["none"]), "overflow_policy": "refuse"})),
        ("Flow_Table", 5, json!({"prefixes": set(&["tun_src", "nw_src"]), "name": ""})),
        ("Flow_Table", 6, limited),
    ]);
    let (found, warnings) = Desired::from_rows(&rows);
    let prefixes = |fields: &[PrefixField]| TableConfig {
        prefixes: Some(fields.to_vec()),
        ..TableConfig::default()
    };
    let limited = TableConfig {
        name: Some("main".into()),
        flow_limit: Some(5),
        evicts: true,
        groups: vec![NamedBits::parse("in_port").unwrap()],
        prefixes: None,
    };
    let expected = [
        (0, prefixes(&[PrefixField::Ipv4Dst, PrefixField::Ipv6Src])),
        (7, prefixes(&[])),
        (9, prefixes(&[PrefixField::Ipv4Src])),
        (10, limited),
    ];
    assert_eq!(found.bridges["br0"].settings.tables, BTreeMap::from(expected));
    let warnings: Vec<String> = warnings.iter().map(Warning::to_string).collect();
    let expected = [
        "Flow_Table br0:9: prefixes: 'prefixes' with incompatible field: tun_src, which is not one of ip_dst, ip_src, ipv6_dst, ipv6_src, \
         nw_dst, nw_src or \"none\"; ignored",
        "Flow_Table br0:10: groups: \"NXM_OF_NOTHING[]\": column 1: there is no field \
         'NXM_OF_NOTHING' (see ovs-fields(7)); ignored",
    ];
    assert_eq!(warnings, expected);
}

#[test]
fn an_empty_database_asks_for_nothing() {
    assert_eq!(Desired::from_rows(&replica(&[])), (Desired::default(), vec![]));
    assert_eq!(next_cfg(&replica(&[])), None);
    let rows = replica(&[("Open_vSwitch", 1, json!({"next_cfg": 7}))]);
    assert_eq!(Desired::from_rows(&rows), (Desired::default(), vec![]));
    assert_eq!(next_cfg(&rows), Some(7));
}

#[test]
fn a_bridge_has_its_own_port_even_without_a_row() {
    assert_eq!(desired(none(), none(), none(), none()), (expected(), vec![]));
}

#[test]
fn settings_of_the_switch() {
    let config = map(&[
        ("pmd-cpu-mask", "0x6"),
        ("flow-limit", "1000"),
        ("max-idle", "5000"),
        ("max-revalidator", "50"),
        ("min-revalidate-pps", "7"),
        ("vlan-limit", "0"),
        ("stats-update-interval", "100"),
        ("emc-insert-inv-prob", "0"),
        ("unified-cache-entries", "4096"),
        ("tidegate-stats-interval", "0"),
        ("tidegate-flow-expiry", "false"),
        ("tidegate-upcall-rates", "neighbor=1000,p1/ip=500"),
        ("pmd-perf-metrics", "true"),
        ("flow-restore-wait", "true"),
        ("n-handler-threads", "4"),
        ("n-revalidator-threads", "0"),
        ("hw-offload", "true"),
        ("smc-enable", "false"),
        ("userspace-tso-enable", "true"),
        ("pmd-rxq-assign", "group"),
        ("pmd-rxq-isolate", "false"),
        ("pmd-auto-lb", "true"),
        ("pmd-auto-lb-rebal-interval", "0"),
        ("pmd-auto-lb-load-threshold", "70"),
        ("pmd-maxsleep", "50"),
    ]);
    let (found, warnings) = desired(json!({"other_config": config}), none(), none(), none());
    let options = SwitchOptions {
        worker_cores: Some(CoreSet::from_iter([1, 2])),
        queues: QueueOptions {
            assign: RxqAssign::Group,
            isolation: Isolation::Shared,
            auto_balance: AutoBalance {
                enabled: true,
                interval_min: 1,
                load_percent: 70,
                improvement_percent: 25,
            },
            sleep_max: SleepMax { default_us: 50, cores: BTreeMap::new() },
        },
        flow_limit: 1000,
        max_idle_ms: 5000,
        max_revalidator_ms: 100,
        min_revalidate_pps: 7,
        stats_update_interval_ms: 5000,
        vlan_limit: 0,
        emc_insert_inv_prob: 0,
        unified_cache_entries: 4096,
        flow_stats_interval_ms: Some(0),
        handler_threads: Some(4),
        revalidator_threads: Some(0),
        flow_expiry: false,
        upcall_rates: UpcallRateList::parse("neighbor=1000,p1/ip=500").unwrap(),
        hw_offload: true,
        perf_metrics: true,
        flow_restore_wait: true,
        ..SwitchOptions::default()
    };
    assert_eq!(found.options, options);
    assert_eq!(warnings, [""; 0]);
}

/// A value below the default used to be replaced by the default.
#[test]
fn bundles_may_be_forgotten_sooner_than_by_default() {
    for (value, expect) in [("0", 10), ("1", 1), ("4", 4), ("60", 60)] {
        let config = map(&[("bundle-idle-timeout", value)]);
        let (found, _) = desired(json!({"other_config": config}), none(), none(), none());
        assert_eq!(found.options.bundle_idle_timeout_s, expect, "{value}");
    }
}

#[test]
fn settings_of_queues_that_make_no_sense_are_warned_of() {
    let config = map(&[
        ("pmd-rxq-assign", "random"),
        ("pmd-rxq-isolate", "false"),
        ("pmd-sleep-max", "long"),
        ("pmd-auto-lb", "true"),
        ("pmd-auto-lb-load-threshold", "101"),
        ("pmd-auto-lb-rebal-interval", "often"),
        ("unified-cache-entries", "67108865"),
    ]);
    let interface = json!({"other_config": map(&[("pmd-rxq-affinity", "0-3")])});
    let (found, warnings) = desired(json!({"other_config": config}), none(), none(), interface);
    let balance = AutoBalance { enabled: true, ..AutoBalance::default() };
    assert_eq!(found.options.queues, QueueOptions { auto_balance: balance, ..Default::default() });
    let expect = [
        "Open_vSwitch: other_config:pmd-rxq-assign: \"random\" is not \"cycles\", \"group\" or \
         \"roundrobin\"; ignored",
        "Open_vSwitch: other_config: pmd-rxq-isolate can only be set false when using \
         pmd-rxq-assign=group; taken as true",
        "Open_vSwitch: other_config:pmd-auto-lb-rebal-interval: \"often\" is not a number from 0 to \
         20000; ignored",
        "Open_vSwitch: other_config:pmd-sleep-max: \"long\" is not microseconds, or such as \
         \"50,8:100\" with core 8 apart; ignored",
        "Open_vSwitch: other_config:unified-cache-entries: \"67108865\" is not a number from 0 to \
         67108864; ignored",
        "Interface p0: other_config:pmd-rxq-affinity: \"0-3\" is not a list of queues with their \
         cores, such as \"0:3,1:7\"; ignored",
    ];
    assert_eq!(warnings, expect);
}

#[test]
fn settings_of_a_bridge() {
    let config = map(&[
        ("datapath-id", "0x2a"),
        ("hwaddr", "02:00:00:00:00:01"),
        ("mac-aging-time", "60"),
        ("mac-table-size", "0"),
        ("forward-bpdu", "true"),
        ("controller-queue-size", "512"),
        ("dp-desc", "a switch"),
        ("disable-in-band", "true"),
    ]);
    let bridge = json!({
        "datapath_type": "netdev", "fail_mode": "secure", "other_config": config,
        "protocols": ["set", ["OpenFlow13", "OpenFlow16", "OpenFlow10"]],
        "flood_vlans": ["set", [7, 3]],
    });
    let (mut found, warnings) = desired(none(), bridge, none(), none());
    let settings = BridgeSettings {
        fail_mode: FailMode::Secure,
        datapath_id: Some(DatapathId(42)),
        hwaddr: Some(MacAddr([2, 0, 0, 0, 0, 1])),
        versions: BTreeSet::from([Version::V10, Version::V13]),
        mac_aging_s: 60,
        flood_vlans: BTreeSet::from([3, 7]),
        forward_bpdu: true,
        controller_queue_size: 512,
        description: Some("a switch".to_owned()),
        ..BridgeSettings::default()
    };
    let bridge = found.bridges.remove("br0").expect("br0");
    assert_eq!((bridge.settings, warnings), (settings, vec![]));
}

#[test]
fn an_interface_with_everything() {
    let interface = json!({
        "type": "internal", "ofport_request": 5, "ofport": 9, "mac": "02:00:00:00:00:09",
        "mtu_request": 1400, "options": map(&[("n_rxq", "2")]),
    });
    let port = json!({"protected": true, "other_config": map(&[("priority-tags", "always")])});
    let (found, warnings) = desired(none(), none(), port, interface);
    let mut wanted = Interface::new("p0", InterfaceKind::Internal);
    wanted.ofport_request = Some(OfPort(5));
    wanted.mac = Some(MacAddr([2, 0, 0, 0, 0, 9]));
    wanted.mtu_request = Some(1400);
    wanted.options = BTreeMap::from([("n_rxq".to_owned(), "2".to_owned())]);
    let port = &found.bridges["br0"].ports["p0"];
    let Hint(hint) = port.interfaces[0].ofport_hint;
    assert_eq!(hint, Some(OfPort(9)));
    let wanted = Port { protected: true, priority_tags: PriorityTags::Always, ..Port::new(wanted) };
    assert_eq!((port, warnings), (&wanted, vec![]));
}

/// Takes what the database is to tell of the bridge and of the interface.
fn take_missing(desired: &mut Desired) -> [Option<String>; 2] {
    let bridge = desired.bridges.get_mut("br0").expect("br0");
    let port = bridge.ports.get_mut("p0").expect("p0");
    [bridge.settings.missing.take(), port.interfaces[0].missing.take()]
}

#[test]
fn what_traffic_needs_and_is_missing_is_told_in_the_database() {
    let check = |bridge, port, interface, expect: [Option<&str>; 2]| {
        let (mut found, _) = desired(none(), bridge, port, interface);
        assert_eq!(take_missing(&mut found), expect.map(|text| text.map(str::to_owned)));
    };
    let stp = "stp_enable: there is no spanning tree; ignored";
    let rstp = "rstp_enable: there is no spanning tree; ignored";
    let lacp = "lacp: there is no LACP; ignored";
    let cfm = "cfm_mpid: there is no CFM; ignored";
    check(json!({"stp_enable": true}), none(), none(), [Some(stp), None]);
    check(json!({"rstp_enable": true}), none(), none(), [Some(rstp), None]);
    check(json!({"stp_enable": false}), json!({"lacp": "off"}), none(), [None, None]);
    check(none(), json!({"lacp": "active"}), none(), [None, Some(lacp)]);
    check(none(), none(), json!({"cfm_mpid": 3}), [None, Some(cfm)]);
    let both = format!("{cfm}; {lacp}");
    check(none(), json!({"lacp": "passive"}), json!({"cfm_mpid": 3}), [None, Some(&both)]);
    // A setting without which traffic goes on is logged only.
    check(json!({"mcast_snooping_enable": true}), none(), none(), [None, None]);
}

#[test]
fn bfd_of_an_interface_is_read_and_wrong_settings_are_told() {
    let bfd = |pairs: &[(&str, &str)]| {
        let (found, warnings) = desired(none(), none(), none(), json!({"bfd": map(pairs)}));
        let ports = found.bridges.values().flat_map(|bridge| bridge.ports.values());
        let found = ports.flat_map(|port| &port.interfaces).find_map(|it| it.bfd.clone());
        (found, warnings)
    };
    let default = protocols::bfd::Config::default();
    assert_eq!(bfd(&[("enable", "false"), ("min_tx", "x")]), (None, vec![]));
    let fast = protocols::bfd::Config { min_tx_ms: 20, ..default.clone() };
    assert_eq!(bfd(&[("enable", "true"), ("min_tx", "20")]), (Some(fast), vec![]));
    let told = "Interface p0: bfd:bfd_src_ip: \"x\" is not a valid IP address; ignored".to_owned();
    assert_eq!(bfd(&[("enable", "true"), ("bfd_src_ip", "x")]), (Some(default), vec![told]));
}

#[test]
fn wrong_values_are_warned_of_and_ignored() {
    let config = |key, value| json!({"other_config": map(&[(key, value)])});
    let check = |root, bridge, port, interface, words: &str| {
        let (mut found, warnings) = desired(root, bridge, port, interface);
        assert_eq!(warnings, [words]);
        for told in take_missing(&mut found).iter().flatten() {
            assert!(words.ends_with(told), "{told}");
        }
        assert_eq!(found, expected(), "{words}");
    };
    let at_root = |key, value, words| check(config(key, value), none(), none(), none(), words);
    at_root(
        "max-idle",
        "soon",
        "Open_vSwitch: other_config:max-idle: \"soon\" is not a number from 0 to 4294967295; \
         ignored",
    );
    at_root(
        "pmd-cpu-mask",
        "1,2",
        "Open_vSwitch: other_config:pmd-cpu-mask: \"1,2\" is not a hexadecimal mask of cores; \
         ignored",
    );
    let at_bridge = |bridge, words| check(none(), bridge, none(), none(), words);
    at_bridge(
        config("datapath-id", "1"),
        "Bridge br0: other_config:datapath-id: \"1\" is not 16 hexadecimal digits that are not \
         all zero; ignored",
    );
    at_bridge(
        config("hwaddr", "ff:ff:ff:ff:ff:ff"),
        "Bridge br0: other_config:hwaddr: \"ff:ff:ff:ff:ff:ff\" is not an Ethernet address; \
         ignored",
    );
    at_bridge(
        config("forward-bpdu", "yes"),
        "Bridge br0: other_config:forward-bpdu: \"yes\" is neither \"true\" nor \"false\"; taken \
         as false",
    );
    at_bridge(
        config("controller-queue-size", "513"),
        "Bridge br0: other_config:controller-queue-size: \"513\" is not a number from 1 to 512; \
         ignored",
    );
    at_bridge(
        json!({"stp_enable": true}),
        "Bridge br0: stp_enable: there is no spanning tree; ignored",
    );
    check(
        none(),
        none(),
        json!({"lacp": "active"}),
        none(),
        "Port p0: lacp: there is no LACP; ignored",
    );
    for (interface, setting, reason) in [
        (json!({"cfm_mpid": 7}), "cfm_mpid", "there is no CFM"),
        (json!({"lldp": map(&[("enable", "true")])}), "lldp:enable", "there is no LLDP"),
    ] {
        let warning = format!("Interface p0: {setting}: {reason}; ignored");
        check(none(), none(), none(), interface, &warning);
    }
    // Settings that disable a feature cause no warning.
    let off = json!({"bfd": map(&[("enable", "false")]), "lldp": map(&[("enable", "false")])});
    assert_eq!(desired(none(), none(), json!({"lacp": "off"}), off).1, [""; 0]);
    check(
        none(),
        none(),
        json!({"vlan_mode": "sideways"}),
        none(),
        "Port p0: vlan_mode: \"sideways\" is unknown; taken as a trunk",
    );
    check(
        none(),
        none(),
        none(),
        json!({"mtu_request": 5_000_000_000_i64}),
        "Interface p0: mtu_request: 5000000000 is no number of bytes; ignored",
    );
    check(
        none(),
        none(),
        none(),
        json!({"mac": "02:00:00"}),
        "Interface p0: mac: \"02:00:00\" is not an Ethernet address of an interface; ignored",
    );
}

#[test]
fn a_tag_without_a_mode_has_no_trunks() {
    let port = json!({"tag": 10, "trunks": ["set", [1, 2]]});
    let (found, warnings) = desired(none(), none(), port, none());
    assert_eq!(found.bridges["br0"].ports["p0"].vlan, VlanMode::Access(10));
    let words = "Port p0: trunks: ignored, since a tag without vlan_mode makes it an access port";
    assert_eq!(warnings, [words]);
}

#[test]
fn a_bond_is_refused_interface_by_interface() {
    let (found, warnings) = Desired::from_rows(&replica(&[
        ("Open_vSwitch", 1, json!({"bridges": uuid(2)})),
        ("Bridge", 2, json!({"name": "br0", "ports": set(&[3, 9])})),
        ("Port", 3, json!({"name": "bond0", "interfaces": set(&[5, 4])})),
        ("Interface", 4, json!({"name": "b"})),
        ("Interface", 5, json!({"name": "a"})),
    ]));
    assert_eq!(warnings, []);
    let bond = &found.bridges["br0"].ports["bond0"];
    let errors: Vec<_> = bond.interfaces.iter().map(|member| &member.kind).collect();
    let refused = |name| InterfaceKind::Refused {
        error: format!("could not add network device {name} to ofproto (bonding is not supported)"),
    };
    assert_eq!(errors, [&refused("a"), &refused("b")]);
    assert_eq!(bond.interface(), None);
}

#[test]
fn a_port_belongs_to_the_first_bridge() {
    let (found, warnings) = Desired::from_rows(&replica(&[
        ("Open_vSwitch", 1, json!({"bridges": set(&[2, 3])})),
        ("Bridge", 2, json!({"name": "br1", "ports": uuid(4)})),
        ("Bridge", 3, json!({"name": "br0", "ports": uuid(4)})),
        ("Port", 4, json!({"name": "p0", "interfaces": uuid(5)})),
        ("Interface", 5, json!({"name": "p0"})),
    ]));
    let ports = |bridge: &str| found.bridges[bridge].ports.keys().cloned().collect::<Vec<_>>();
    assert_eq!((ports("br0"), ports("br1")), (vec!["br0".into(), "p0".into()], vec!["br1".into()]));
    let warnings: Vec<_> = warnings.iter().map(Warning::to_string).collect();
    assert_eq!(warnings, ["Port p0: interfaces: belongs to another port already; ignored"]);
}

#[test]
fn zones_of_all_datapaths_come_together() {
    let datapaths = json!(["map", [["netdev", uuid(2)], ["system", uuid(3)]]]);
    let (found, warnings) = Desired::from_rows(&replica(&[
        ("Open_vSwitch", 1, json!({"datapaths": datapaths})),
        (
            "Datapath",
            2,
            json!({"ct_zones": ["map", [[1, uuid(4)], [2, uuid(5)]]], "ct_zone_default_limit": 9}),
        ),
        ("Datapath", 3, json!({"ct_zones": ["map", [[2, uuid(4)], [3, uuid(6)]]]})),
        ("CT_Zone", 4, json!({"timeout_policy": uuid(7)})),
        ("CT_Zone", 5, json!({"limit": 100})),
        ("CT_Zone", 6, json!({"limit": -3})),
        (
            "CT_Timeout_Policy",
            7,
            json!({"timeouts": ["map", [["udp_first", 5], ["tcp_close", 4_294_967_296_i64]]]}),
        ),
    ]));
    let timeouts =
        [("tcp_close", u32::MAX), ("udp_first", 5)].map(|(name, s)| (name.to_owned(), s));
    let timeouts = ZonePolicy { timeouts_s: BTreeMap::from(timeouts), limit: None };
    let limit = |limit| ZonePolicy { limit: Some(limit), ..ZonePolicy::default() };
    let zones = [(Zone(1), timeouts), (Zone(2), limit(100)), (Zone(3), limit(0))];
    assert_eq!(found.zones, BTreeMap::from(zones));
    assert_eq!(found.default_zone_limit, Some(9));
    let warnings: Vec<_> = warnings.iter().map(Warning::to_string).collect();
    let words = "Datapath system: ct_zones:2: another datapath type has a policy for this zone \
                 too, and both are this switch's one datapath; ignored";
    assert_eq!(warnings, [words]);
}

#[test]
fn controllers_and_tls() {
    let (found, warnings) = Desired::from_rows(&replica(&[
        ("Open_vSwitch", 1, json!({"bridges": uuid(2), "ssl": uuid(6)})),
        ("Bridge", 2, json!({"name": "br0", "controller": set(&[3, 4, 5])})),
        ("Controller", 3, json!({"target": "tcp:10.0.0.1", "inactivity_probe": 10})),
        (
            "Controller",
            4,
            json!({"target": "ptcp:6653", "type": "primary", "max_backoff": 1000,
            "controller_rate_limit": 200, "controller_burst_limit": 50, "controller_queue_size": 9,
            "enable_async_messages": false}),
        ),
        ("Controller", 5, json!({"target": "tcp:10.0.0.1", "inactivity_probe": 0})),
        ("SSL", 6, json!({"private_key": "k", "certificate": "c", "ca_cert": "a"})),
    ]));
    let listening = Controller {
        kind: ControllerKind::Primary,
        max_backoff_ms: 1000,
        rate_limit_pps: Some(200),
        burst_limit: Some(50),
        queue_size: Some(9),
        async_messages: false,
        ..Controller::new("ptcp:6653")
    };
    let connecting = Controller { probe_ms: 1000, ..Controller::new("tcp:10.0.0.1") };
    assert_eq!(found.bridges["br0"].settings.controllers, [listening, connecting]);
    let tls = TlsFiles {
        private_key: "k".into(),
        certificate: "c".into(),
        ca_cert: "a".into(),
        bootstrap_ca_cert: false,
    };
    assert_eq!(found.tls, Some(tls));
    let warnings: Vec<_> = warnings.iter().map(Warning::to_string).collect();
    let words = "Controller tcp:10.0.0.1: target: the bridge has this controller twice; ignored";
    assert_eq!(warnings, [words]);
}

#[test]
fn a_bridge_whose_name_leads_out_of_the_run_directory_is_ignored() {
    for (name, is_taken) in
        [("../q/f", false), ("a/b", false), ("a\\b", false), (".", false), ("br-1.2", true)]
    {
        let (found, warnings) = desired(none(), json!({"name": name}), none(), none());
        assert_eq!(found.bridges.contains_key(name), is_taken, "{name}");
        let words = format!("Bridge {name}: name: ignoring bridge with invalid name");
        assert_eq!(warnings.contains(&words), !is_taken, "{name}: {warnings:?}");
    }
}
