//! Replicas for tests: rows as JSON, sent to a real [`Session`] by a minimal server.

use base::Instant;
use ovsdb::{Event, Replica, Session, SessionConfig};
use serde_json::{Value, json};

/// Columns with their types: one letter for the key (s string, i integer, b boolean, u UUID), a
/// second one for the value of a map, then "?" for an optional value and "*" for a set.
const SCHEMA: &[(&str, &str)] = &[
    (
        "Open_vSwitch",
        "bridges=u* cur_cfg=i datapath_types=s* datapaths=su dpdk_initialized=b dpdk_version=s? \
         iface_types=s* next_cfg=i other_config=ss ovs_version=s? ssl=u? \
         statistics=ss",
    ),
    (
        "Bridge",
        "controller=u* datapath_id=s? datapath_type=s datapath_version=s fail_mode=s? \
         auto_attach=u? flow_tables=iu flood_vlans=i* ipfix=u? mcast_snooping_enable=b mirrors=u* name=s netflow=u? \
         other_config=ss ports=u* protocols=s* rstp_enable=b sflow=u? status=ss stp_enable=b",
    ),
    ("Flow_Table", "flow_limit=i? groups=s* name=s? overflow_policy=s? prefixes=s*"),
    (
        "Mirror",
        "filter=s? name=s output_port=u? output_vlan=i? select_all=b select_dst_port=u* select_src_port=u* \
         select_vlan=i* snaplen=i? statistics=si",
    ),
    (
        "Port",
        "cvlans=i* interfaces=u* lacp=s? mac=s? name=s other_config=ss protected=b qos=u? tag=i? trunks=i* \
         vlan_mode=s?",
    ),
    (
        "Interface",
        "admin_state=s? bfd=ss bfd_status=ss cfm_mpid=i? duplex=s? error=s? ifindex=i? \
         ingress_policing_kpkts_rate=i ingress_policing_rate=i link_resets=i? link_speed=i? link_state=s? lldp=ss mac=s? mac_in_use=s? mtu=i? mtu_request=i? name=s ofport=i? \
         ofport_request=i? options=ss other_config=ss statistics=si status=ss type=s",
    ),
    (
        "Controller",
        "connection_mode=s? controller_burst_limit=i? controller_queue_size=i? controller_rate_limit=i? \
         enable_async_messages=b? inactivity_probe=i? is_connected=b local_gateway=s? local_ip=s? \
         local_netmask=s? max_backoff=i? other_config=ss role=s? status=ss target=s type=s?",
    ),
    ("Datapath", "capabilities=ss ct_zone_default_limit=i? ct_zones=iu"),
    ("CT_Zone", "limit=i? timeout_policy=u?"),
    ("CT_Timeout_Policy", "timeouts=si"),
    ("SSL", "bootstrap_ca_cert=b ca_cert=s certificate=s private_key=s"),
];

/// Returns a value of a setting ("column" or "column:key") that differs from its default.
pub(crate) fn value_of(table: &str, setting: &str) -> (String, Value) {
    let (column, key) = match setting.split_once(':') {
        Some((column, key)) => (column, Some(key)),
        None => (setting, None),
    };
    let columns = SCHEMA.iter().find(|(name, _)| *name == table).expect("a table").1;
    let mut kinds = columns.split_whitespace().filter_map(|it| it.split_once('='));
    let (_, kind) = kinds.find(|(name, _)| *name == column).expect("a column of SCHEMA");
    let value = match (key, kind.chars().next()) {
        (Some(key), _) => json!(["map", [[key, "some"]]]),
        (None, Some('u')) => uuid(999),
        (None, Some('i')) => json!(7),
        (None, Some('b')) => json!(true),
        (None, _) => json!("some"),
    };
    (column.to_owned(), value)
}

/// Returns the UUID of row `n`, as JSON.
pub(crate) fn uuid(n: u32) -> Value {
    json!(["uuid", format!("00000000-0000-4000-8000-{n:012}")])
}

/// Returns a replica of these rows, by table and number. Omitted columns have their defaults. It contains
/// exactly what [`crate::monitored`] requests.
pub(crate) fn replica(rows: &[(&str, u32, Value)]) -> Replica {
    let mut session = Session::new(SessionConfig::new("Open_vSwitch", crate::monitored()));
    session.connected(Instant::ZERO);
    let mut updates = json!({});
    for (table, number, row) in rows {
        let name = uuid(*number)[1].as_str().expect("a string").to_owned();
        updates[table][name] = json!({"initial": row});
    }
    loop {
        while let Some(event) = session.next_event() {
            match event {
                Event::Connected { .. } => return session.replica().clone(),
                Event::ProtocolError(error) => panic!("{error}"),
                _ => {}
            }
        }
        let output = session.take_output();
        assert!(!output.is_empty(), "the session asks for nothing more");
        for request in serde_json::Deserializer::from_slice(&output).into_iter::<Value>() {
            let request = request.expect("JSON");
            let result = match request["method"].as_str() {
                Some("get_schema") => schema(),
                Some("monitor_cond_since") => {
                    json!([false, "00000000-0000-0000-0000-000000000000", updates])
                }
                other => panic!("asked for {other:?}"),
            };
            let reply = json!({"id": request["id"], "result": result, "error": null});
            session.receive(Instant::ZERO, reply.to_string().as_bytes());
        }
    }
}

fn schema() -> Value {
    let mut tables = json!({});
    for (table, columns) in SCHEMA {
        for column in columns.split_whitespace() {
            let (name, kind) = column.split_once('=').expect("name=type");
            tables[table]["columns"][name]["type"] = column_type(kind);
        }
    }
    json!({"name": "Open_vSwitch", "version": "8.0.0", "tables": tables})
}

fn column_type(kind: &str) -> Value {
    let mut letters = kind.chars();
    let atom = |letter| match letter {
        's' => "string",
        'i' => "integer",
        'b' => "boolean",
        'u' => "uuid",
        other => panic!("type {other}"),
    };
    let key = atom(letters.next().expect("a type"));
    match letters.next() {
        None => json!(key),
        Some('?') => json!({"key": key, "min": 0, "max": 1}),
        Some('*') => json!({"key": key, "min": 0, "max": "unlimited"}),
        Some(value) => json!({"key": key, "value": atom(value), "min": 0, "max": "unlimited"}),
    }
}
