use super::*;

fn values(column: &str, datum: impl Into<Datum>) -> Values {
    Values::from([(column.to_owned(), datum.into())])
}

#[test]
fn operations_have_the_shapes_of_the_rfc() {
    let id = Uuid::nil();
    let mut transaction = Transaction::new();
    let bridge = transaction.insert("Bridge", "br", values("name", "br0"));
    transaction
        .assert_lock("ovs_vswitchd")
        .mutate("Open_vSwitch", id, "bridges", Mutator::Insert, bridge)
        .update("Port", id, values("tag", None::<i64>))
        .delete_where("Port", vec![Condition::new("name", Function::NotEqual, "p")])
        .wait("Bridge", id, true, values("name", "br0"), 0)
        .select("Bridge", vec![], &["name"])
        .comment("why");
    let of = json!([["_uuid", "==", ["uuid", id.to_string()]]]);
    let expect = json!([
        "Open_vSwitch",
        {"op": "assert", "lock": "ovs_vswitchd"},
        {"op": "insert", "table": "Bridge", "uuid-name": "br", "row": {"name": "br0"}},
        {"op": "mutate", "table": "Open_vSwitch", "where": of,
         "mutations": [["bridges", "insert", ["named-uuid", "br"]]]},
        {"op": "update", "table": "Port", "where": of, "row": {"tag": ["set", []]}},
        {"op": "delete", "table": "Port", "where": [["name", "!=", "p"]]},
        {"op": "wait", "table": "Bridge", "where": of, "timeout": 0, "until": "==",
         "columns": ["name"], "rows": [{"name": "br0"}]},
        {"op": "select", "table": "Bridge", "where": [], "columns": ["name"]},
        {"op": "comment", "comment": "why"},
    ]);
    assert_eq!(transaction.to_params("Open_vSwitch"), expect);
}

#[test]
fn replies_count_operations_without_the_assertion() {
    let mut transaction = Transaction::new();
    transaction.insert("Bridge", "br", values("name", "br0"));
    transaction.comment("x").assert_lock("l");
    let read = |json: Value| transaction.expected().read(Ok(json));
    let id = Uuid::from_u128(7);
    let reply = read(json!([{}, {"uuid": ["uuid", id.to_string()]}, {}])).expect("committed");
    assert_eq!(reply.results, [OperationResult::Inserted(id), OperationResult::Done]);
    assert_eq!(read(json!([{"error": "not owner"}, null, null])), Err(TransactionError::NotOwner));
    let failed = |operation| {
        let (error, details) = ("constraint violation".into(), "d".into());
        Err(TransactionError::Failed { operation, error, details })
    };
    let error = json!({"error": "constraint violation", "details": "d"});
    assert_eq!(read(json!([{}, error, null])), failed(Some(0)));
    assert_eq!(read(json!([{}, {}, {}, error])), failed(None));
    for malformed in [
        json!(null),
        json!([]),
        json!([{}, {}]),
        json!([{}, null, {}]),
        json!([1, 2, 3]),
        json!([{}, {"uuid": 5}, {}]),
        json!([{}, {"count": -1}, {}]),
        json!([{}, {"rows": 1}, {}]),
    ] {
        assert!(matches!(read(malformed), Err(TransactionError::Malformed(_))));
    }
    let refused = transaction.expected().read(Err(json!("unknown database")));
    assert!(matches!(refused, Err(TransactionError::Refused { .. })));
}
