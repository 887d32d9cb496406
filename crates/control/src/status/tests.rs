use super::*;
use crate::fixture::{replica, uuid};
use serde_json::{Value, json};

fn rows() -> Vec<(&'static str, u32, Value)> {
    vec![
        (
            "Open_vSwitch",
            1,
            json!({"bridges": uuid(2), "next_cfg": 3, "cur_cfg": 2, "dpdk_version": "none",
                   "datapaths": ["map", [["netdev", uuid(8)]]]}),
        ),
        (
            "Bridge",
            2,
            json!({"name": "br0", "ports": ["set", [uuid(3), uuid(5)]], "controller": uuid(7),
                   "datapath_version": "<built-in>"}),
        ),
        ("Port", 3, json!({"name": "p0", "interfaces": uuid(4)})),
        ("Interface", 4, json!({"name": "p0"})),
        ("Port", 5, json!({"name": "gone", "interfaces": uuid(6)})),
        (
            "Interface",
            6,
            json!({"name": "gone", "ofport": 2, "mtu": 1500, "link_state": "up",
                   "statistics": ["map", [["rx_packets", 5]]]}),
        ),
        ("Controller", 7, json!({"target": "tcp:10.0.0.1"})),
        ("Datapath", 8, json!({})),
    ]
}

/// Returns the operations of each transaction of a report.
fn transactions(rows: &[(&'static str, u32, Value)], status: &Status) -> Vec<Vec<Value>> {
    let operations = |transaction: &Transaction| {
        let params = transaction.to_params("Open_vSwitch");
        params.as_array().expect("an array")[1..].to_vec()
    };
    report(&replica(rows), status).iter().map(operations).collect()
}

/// Returns all operations of a report.
fn operations(status: &Status) -> Vec<Value> {
    transactions(&rows(), status).concat()
}

fn update(table: &str, row: u32, columns: Value) -> Value {
    json!({"op": "update", "table": table, "where": [["_uuid", "==", uuid(row)]], "row": columns})
}

#[test]
fn mirrors_get_their_counts_when_there_are_any() {
    let mut rows = rows();
    let bridge = rows.iter_mut().find(|row| row.0 == "Bridge").unwrap();
    bridge.2["mirrors"] = uuid(9);
    rows.push(("Mirror", 9, json!({"name": "m"})));
    let mirrors = BTreeMap::from([(0x4000_8000_0000_0000_0009, (2, 120)), (9, (1, 60))]);
    let status = Status { mirrors, dpdk_version: None, ..Status::default() };
    let of_mirrors = |status: &Status| {
        let all = transactions(&rows, status).concat();
        all.into_iter().filter(|it| it["table"] == "Mirror").collect::<Vec<_>>()
    };
    let counts = json!(["map", [["tx_bytes", 120], ["tx_packets", 2]]]);
    assert_eq!(of_mirrors(&status), [update("Mirror", 9, json!({"statistics": counts}))]);
    assert_eq!(of_mirrors(&Status::default()), [] as [Value; 0]);
}

#[test]
fn numbers_and_errors_come_with_the_configuration_they_belong_to() {
    let link = LinkStatus {
        ofport: OfPort(1),
        mac: Some(MacAddr([2, 0, 0, 0, 0, 1])),
        ifindex: 7,
        admin_up: Some(true),
        link_up: true,
        link_speed_bps: Some(10_000_000_000),
        full_duplex: Some(true),
        mtu: Some(1500),
        status: BTreeMap::from([("driver_name".to_owned(), "veth".to_owned())]),
        ..LinkStatus::default()
    };
    let failed = InterfaceStatus::Failed { error: "no such device".to_owned() };
    let interfaces = [("p0", InterfaceStatus::Running(Box::new(link))), ("gone", failed)];
    let status = Status {
        cur_cfg: Some(3),
        interfaces: interfaces.map(|(name, status)| (name.to_owned(), status)).into(),
        ..Status::default()
    };
    let empty = json!(["set", []]);
    let expect = [
        update("Open_vSwitch", 1, json!({"cur_cfg": 3})),
        update(
            "Interface",
            4,
            json!({
                "ofport": 1, "mac_in_use": "02:00:00:00:00:01", "ifindex": 7, "link_resets": 0,
                "admin_state": "up", "link_state": "up", "link_speed": 10_000_000_000_i64,
                "duplex": "full", "mtu": 1500, "status": ["map", [["driver_name", "veth"]]],
            }),
        ),
        update(
            "Interface",
            6,
            json!({"ofport": -1, "error": "no such device", "mtu": empty, "link_state": empty,
                   "statistics": ["map", []]}),
        ),
    ];
    assert_eq!(operations(&status), expect);
}

#[test]
fn nothing_is_written_where_nothing_differs() {
    assert_eq!(operations(&Status::default()), [] as [Value; 0]);
    let statistics = BTreeMap::from([("rx_packets".to_owned(), 5)]);
    let link = LinkStatus { mtu: Some(1500), link_up: true, ..LinkStatus::default() };
    let same = |statistics| {
        let link = LinkStatus { ofport: OfPort(2), statistics, ..link.clone() };
        let running = InterfaceStatus::Running(Box::new(link));
        let interfaces = BTreeMap::from([("gone".to_owned(), running)]);
        operations(&Status { cur_cfg: Some(2), interfaces, ..Status::default() })
    };
    let first = update("Interface", 6, json!({"ifindex": 0, "link_resets": 0}));
    let first = [first];
    assert_eq!(same(None), first, "statistics are left alone");
    assert_eq!(same(Some(statistics)), first, "statistics are the same");
}

#[test]
fn the_rest_of_the_columns() {
    let strings = |list: &[&str]| list.iter().map(|word| (*word).to_owned()).collect();
    let key = ("br0".to_owned(), "tcp:10.0.0.1".to_owned());
    let controller = ControllerStatus {
        is_connected: true,
        role: Some(ControllerRole::Secondary),
        status: BTreeMap::from([("state".to_owned(), "ACTIVE".to_owned())]),
    };
    let status = Status {
        ovs_version: Some("3.1.0".to_owned()),
        datapath_types: Some(strings(&["system", "netdev"])),
        iface_types: Some(strings(&INTERFACE_TYPES)),
        capabilities: Some(BTreeMap::from([("recirc".to_owned(), "true".to_owned())])),
        bridges: BTreeMap::from([(
            "br0".to_owned(),
            BridgeStatus { datapath_id: DatapathId(0xb2c8_3f61_8945), error: None },
        )]),
        controllers: BTreeMap::from([(key, controller)]),
        ..Status::default()
    };
    let expect = [
        update(
            "Open_vSwitch",
            1,
            json!({
                "ovs_version": "3.1.0", "datapath_types": ["set", ["netdev", "system"]],
                "iface_types": ["set", INTERFACE_TYPES],
            }),
        ),
        update("Datapath", 8, json!({"capabilities": ["map", [["recirc", "true"]]]})),
        update("Bridge", 2, json!({"datapath_id": "0000b2c83f618945"})),
        update(
            "Controller",
            7,
            json!({"is_connected": true, "role": "slave", "status": ["map", [["state", "ACTIVE"]]]}),
        ),
    ];
    assert_eq!(operations(&status), expect);
}

#[test]
fn a_database_without_its_row_gets_nothing() {
    let status = Status { cur_cfg: Some(1), ..Status::default() };
    assert_eq!(report(&replica(&[]), &status), []);
}

/// A client that does not know the column drops the whole update in which it comes.
#[test]
fn the_datapath_version_comes_by_itself_after_what_clients_wait_for() {
    let mut rows = rows();
    rows[1].2["datapath_version"] = json!("");
    let error = Some("stp_enable: there is no spanning tree; ignored".to_owned());
    let status = Status {
        cur_cfg: Some(3),
        bridges: BTreeMap::from([(
            "br0".to_owned(),
            BridgeStatus { datapath_id: DatapathId(1), error: error.clone() },
        )]),
        ..Status::default()
    };
    let bridge = json!({"datapath_id": "0000000000000001", "status": ["map", [["error", error]]]});
    let first = vec![update("Open_vSwitch", 1, json!({"cur_cfg": 3})), update("Bridge", 2, bridge)];
    let second = vec![update("Bridge", 2, json!({"datapath_version": "<built-in>"}))];
    assert_eq!(transactions(&rows, &status), [first, second]);
}

#[test]
fn a_datapath_has_27_capabilities() {
    assert_eq!(userspace_capabilities().len(), 27);
}
