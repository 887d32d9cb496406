use super::*;
use crate::{ChangeKind, Datum};
use proptest::prelude::*;

const ROW: &str = "550e8400-e29b-41d4-a716-446655440000";
const TXN: &str = "11111111-2222-3333-4444-555555555555";

fn at(s: u64) -> Instant {
    Instant::from_millis(s * 1000)
}

fn schema() -> Value {
    let set = json!({"key": "integer", "min": 0, "max": "unlimited"});
    let map = json!({"key": "string", "value": "string", "min": 0, "max": "unlimited"});
    json!({"name": "D", "version": "1.0.0", "tables": {"T": {"columns": {
        "name": {"type": "string"}, "set": {"type": set}, "map": {"type": map},
        "opt": {"type": {"key": "integer", "min": 0}},
    }}}})
}

fn session() -> Session {
    let monitor =
        Monitor::default().table("T", ["map", "name", "opt", "set"]).table("Unknown", ["name"]);
    Session::new(SessionConfig::new("D", monitor).with_lock("L"))
}

fn feed(session: &mut Session, json: Value) {
    session.receive(at(1), json.to_string().as_bytes());
}

fn reply(session: &mut Session, id: u64, result: Value) {
    feed(session, json!({"id": id, "result": result, "error": null}));
}

fn events(session: &mut Session) -> Vec<Event> {
    std::iter::from_fn(|| session.next_event()).collect()
}

fn sent(session: &mut Session) -> Vec<Value> {
    let mut framer = Framer::default();
    framer.push(&session.take_output());
    let mut messages = Vec::new();
    while let Some(bytes) = framer.next_message().expect("our own bytes") {
        messages.push(serde_json::from_slice(bytes).expect("our own JSON"));
    }
    messages
}

/// A session with one row that monitors with update3.
fn monitoring() -> Session {
    let mut session = session();
    session.connected(at(0));
    reply(&mut session, 0, json!({"locked": true}));
    reply(&mut session, 1, schema());
    let row = json!({"name": "a", "set": ["set", [1, 2]], "map": ["map", [["k", "v"]]]});
    reply(&mut session, 2, json!([false, TXN, {"T": {ROW: {"initial": row}}}]));
    assert!(session.is_monitoring());
    session
}

#[test]
fn the_handshake_asks_in_order() {
    let mut session = monitoring();
    let requests = sent(&mut session);
    assert_eq!(requests[0], json!({"method": "lock", "params": ["L"], "id": 0}));
    assert_eq!(requests[1], json!({"method": "get_schema", "params": ["D"], "id": 1}));
    let tables = json!({"T": [{"columns": ["map", "name", "opt", "set"]}]});
    let zeros = Uuid::nil().to_string();
    let params = json!(["D", "D", tables, zeros]);
    assert_eq!(requests[2], json!({"method": "monitor_cond_since", "params": params, "id": 2}));
    let events = events(&mut session);
    assert_eq!(events[..2], [Event::LockAcquired, Event::Connected { resumed: false }]);
    assert!(matches!(&events[2], Event::Updated(changes) if changes.iter().count() == 1));
}

#[test]
fn differences_are_applied_and_reported_with_the_old_row() {
    let mut session = monitoring();
    events(&mut session);
    let diff = json!({"set": ["set", [2, 3]], "map": ["map", [["k", "v"]]], "opt": 9});
    let updates = json!({"T": {ROW: {"modify": diff}}});
    feed(&mut session, json!({"method": "update3", "params": ["D", TXN, updates], "id": null}));
    let (_, row) = session.replica().only_row("T").expect("one row");
    assert_eq!(row.get("set"), Some(&Datum::set([1, 3])));
    assert_eq!(row.get("map"), Some(&Datum::empty_map()));
    assert_eq!(row.opt_i64("opt"), Some(9));
    assert_eq!(row.str("name"), Some("a"));
    let events = events(&mut session);
    let [Event::Updated(changes)] = &events[..] else { panic!("{events:?}") };
    let change = changes.iter().find(|it| &*it.table == "T").expect("a change");
    assert_eq!(change.kind, ChangeKind::Modified);
    let old = change.old.as_ref().expect("the old row");
    assert_eq!(old.get("set"), Some(&Datum::set([1, 2])));
}

#[test]
fn reconnecting_resumes_or_compares() {
    for found in [true, false] {
        let mut session = monitoring();
        session.disconnected(at(2));
        let _ = session.take_output();
        let events_then = events(&mut session);
        assert!(events_then.ends_with(&[Event::LockLost, Event::Disconnected]), "{events_then:?}");
        session.connected(at(3));
        reply(&mut session, 4, schema());
        let asked = sent(&mut session).pop().expect("a monitor request");
        assert_eq!(asked["params"][3], json!(TXN));
        let updates = match found {
            true => json!({"T": {ROW: {"modify": {"name": "b"}}}}),
            false => json!({}),
        };
        reply(&mut session, 5, json!([found, TXN, updates]));
        let events = events(&mut session);
        let [Event::Connected { resumed }, Event::Updated(changes)] = &events[..] else {
            panic!("{events:?}")
        };
        assert_eq!(*resumed, found);
        let kinds: Vec<ChangeKind> = changes.iter().map(|change| change.kind).collect();
        let expect = if found { ChangeKind::Modified } else { ChangeKind::Deleted };
        assert_eq!(kinds, [expect]);
    }
}

#[test]
fn older_servers_are_asked_with_older_methods() {
    let mut session = session();
    session.connected(at(0));
    reply(&mut session, 1, schema());
    for id in [2, 3] {
        feed(&mut session, json!({"id": id, "result": null, "error": "unknown method"}));
    }
    let methods: Vec<Value> = sent(&mut session).iter().map(|m| m["method"].clone()).collect();
    let expect = ["lock", "get_schema", "monitor_cond_since", "monitor_cond", "monitor"];
    assert_eq!(methods, expect);
    let row = json!({"name": "a", "set": 1, "map": ["map", []], "opt": ["set", []]});
    reply(&mut session, 4, json!({"T": {ROW: {"new": row}}}));
    let updates = json!({"T": {ROW: {"old": {"set": 1}, "new": {"name": "a", "set": 2}}}});
    feed(&mut session, json!({"method": "update", "params": ["D", updates], "id": null}));
    let (_, row) = session.replica().only_row("T").expect("one row");
    assert_eq!(row.get("set"), Some(&Datum::from(2)), "replaced, not a difference");
    let updates = json!({"T": {ROW: {"old": {"name": "a"}}}});
    feed(&mut session, json!({"method": "update", "params": ["D", updates], "id": null}));
    assert!(session.replica().only_row("T").is_none());
}

#[test]
fn silence_is_probed_and_then_fatal() {
    let mut session = monitoring();
    events(&mut session);
    let _ = session.take_output();
    assert_eq!(session.next_timeout(), Some(at(6)));
    session.tick(at(5));
    assert!(session.take_output().is_empty());
    session.tick(at(6));
    assert_eq!(sent(&mut session), [json!({"method": "echo", "params": [], "id": "echo"})]);
    feed(&mut session, json!({"id": "echo", "result": [], "error": null}));
    assert_eq!(session.next_timeout(), Some(at(6)), "heard at 1 s");
    session.tick(at(6));
    session.tick(at(11));
    assert_eq!(events(&mut session), [Event::ProbeTimeout]);
    session.disconnected(at(11));
    assert_eq!(session.next_timeout(), session.connect_at());
    let mut quiet = monitoring();
    quiet.config.probe_interval = Duration::ZERO;
    assert_eq!(quiet.next_timeout(), None);
}

#[test]
fn the_server_is_answered_and_the_lock_moves() {
    let mut session = monitoring();
    let _ = session.take_output();
    feed(&mut session, json!({"method": "echo", "params": [1], "id": "x"}));
    assert_eq!(sent(&mut session), [json!({"id": "x", "result": [1], "error": null})]);
    events(&mut session);
    let transaction = Transaction::new();
    let id = session.transact(transaction.clone()).expect("the lock is ours");
    feed(&mut session, json!({"method": "stolen", "params": ["L"], "id": null}));
    assert_eq!(session.transact(transaction), Err(SendError::NotLocked));
    session.disconnected(at(2));
    let result = Err(TransactionError::Disconnected);
    let done = Event::TransactionDone { id, result };
    assert_eq!(events(&mut session), [Event::LockStolen, done, Event::Disconnected]);
}

#[test]
fn what_cannot_be_understood_ends_the_connection() {
    let update3 = |updates: Value| {
        json!({"method": "update3", "params": ["D", TXN, updates], "id": null}).to_string()
    };
    let row = |row: Value| update3(json!({"T": {ROW: row}}));
    let other = "00000000-0000-0000-0000-000000000001";
    let cases = [
        "garbage".to_owned(),
        "{}".into(),
        "[]".into(),
        r#"{"id":1e999}"#.into(),
        "[".repeat(500),
        r#"{"method":"update3","params":["D"],"id":null}"#.into(),
        r#"{"method":"monitor_canceled","params":["D"],"id":null}"#.into(),
        update3(json!(null)),
        update3(json!({"T": 1})),
        update3(json!({"X": {}})),
        update3(json!({"T": {"no uuid": {"delete": null}}})),
        update3(json!({"T": {other: {"modify": {}}}})),
        row(json!(1)),
        row(json!({})),
        row(json!({"insert": {}, "delete": null})),
        row(json!({"explode": {}})),
        row(json!({"modify": null})),
        row(json!({"modify": {"name": 5}})),
        row(json!({"modify": {"nonsense": 5}})),
        row(json!({"modify": {"opt": 1e300}})),
        row(json!({"modify": {"opt": ["set", [1, 2]]}})),
        row(json!({"modify": {"name": ["set", []]}})),
        row(json!({"modify": {"map": ["map", [[1]]]}})),
    ];
    for case in cases {
        let mut session = monitoring();
        let before = session.replica().clone();
        events(&mut session);
        session.receive(at(1), case.as_bytes());
        let events = events(&mut session);
        assert!(matches!(events[..], [Event::ProtocolError(_)]), "{case}: {events:?}");
        assert_eq!(*session.replica(), before, "{case}");
        session.receive(at(1), b"{}");
        assert_eq!(session.next_event(), None, "{case}");
        session.disconnected(at(2));
        session.connected(at(3));
        reply(&mut session, 4, schema());
        let asked = sent(&mut session).pop().expect("a monitor request");
        assert_eq!(asked["params"][3], json!(Uuid::nil().to_string()), "starts afresh");
    }
}

fn json_value() -> impl Strategy<Value = Value> {
    let words = prop::sample::select(vec![
        "D", "L", "T", "name", "set", "map", "uuid", "modify", "insert", "delete", "id", "result",
        "error", "method", "params", "update3", "update2", "update", "locked", ROW, TXN, "",
    ]);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (0u64..5).prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        words.clone().prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 40, 5, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((words.clone(), inner), 0..4).prop_map(|members| {
                members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
            }),
        ]
    })
}

proptest! {
    #[test]
    fn random_json_never_panics(value in json_value(), method in 0usize..4, id in 0u64..5) {
        for mut session in [session(), monitoring()] {
            session.connected(at(9));
            let methods = ["update", "update2", "update3", "stolen"];
            feed(&mut session, json!({"id": id, "result": value, "error": null}));
            let params = json!(["D", value, value]);
            feed(&mut session, json!({"method": methods[method], "params": params, "id": null}));
            feed(&mut session, value.clone());
        }
        let mut session = monitoring();
        let updates = json!({"T": {ROW: {"modify": value}}});
        feed(&mut session, json!({"method": "update3", "params": ["D", TXN, updates], "id": null}));
        let _ = DatabaseSchema::parse(&value);
        let _ = Datum::parse(&value);
    }
}
