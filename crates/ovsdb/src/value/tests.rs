use super::*;
use proptest::prelude::*;

const ID: &str = "550e8400-e29b-41d4-a716-446655440000";

#[test]
fn json_forms_of_the_rfc_are_read() {
    let id = Uuid::parse_str(ID).expect("a constant");
    let check = |json: Value, expect: Datum| assert_eq!(Datum::parse(&json), Ok(expect), "{json}");
    check(json!("text"), Datum::from("text"));
    check(json!(-5), Datum::from(-5));
    check(json!(5.0), Datum::from(5));
    check(json!(1.5), Datum::from(Real(1.5)));
    check(json!(true), Datum::from(true));
    check(json!(["uuid", ID]), Datum::from(id));
    check(json!(["named-uuid", "row1"]), Datum::from(Atom::NamedUuid("row1".into())));
    check(json!(["set", []]), Datum::empty_set());
    check(json!(["set", [2, 1, 2]]), Datum::set([1, 2]));
    check(json!(["set", [["uuid", ID]]]), Datum::from(id));
    check(json!(["map", [["b", "2"], ["a", "1"]]]), Datum::map([("a", "1"), ("b", "2")]));
    check(json!(["map", [[1, ["uuid", ID]]]]), Datum::map([(1, id)]));
}

#[test]
fn malformed_values_are_errors() {
    let huge = serde_json::from_str("1e300").expect("fits a float");
    let cases = [
        json!(null),
        json!({}),
        json!([]),
        json!(["set"]),
        json!(["set", 1]),
        json!(["set", [1], 2]),
        json!(["set", [null]]),
        json!(["set", [["set", []]]]),
        json!(["map", [1]]),
        json!(["map", [[1]]]),
        json!(["map", [[1, 2, 3]]]),
        json!(["map", {}]),
        json!(["uuid", "x"]),
        json!(["uuid", 5]),
        json!(["uuid", ID.replace('-', "")]),
        json!(["uuid", format!("{{{ID}}}")]),
        json!(["named-uuid", null]),
    ];
    for json in &cases {
        assert!(Datum::parse(json).is_err(), "{json}");
    }
    let typed = [
        (json!("1"), AtomKind::Integer),
        (json!(1.5), AtomKind::Integer),
        (huge, AtomKind::Integer),
        (json!(u64::MAX), AtomKind::Integer),
        (json!(1), AtomKind::Boolean),
        (json!(1), AtomKind::String),
        (json!(ID), AtomKind::Uuid),
        (json!(["named-uuid", "x"]), AtomKind::Uuid),
        (json!(["map", []]), AtomKind::String),
        (json!("1.5"), AtomKind::Real),
    ];
    for (json, kind) in typed {
        let error = Datum::parse_as(&json, &ColumnType::scalar(kind));
        assert!(error.is_err(), "{json} as {}", kind.name());
    }
    let map = ColumnType::map(AtomKind::String, AtomKind::String);
    assert!(Datum::parse_as(&json!("a"), &map).is_err());
    assert!(Datum::parse_as(&json!(["map", [["a", 1]]]), &map).is_err());
    assert!(Datum::parse_as(&json!(["set", []]), &map).is_err());
}

#[test]
fn the_schema_decides_the_kind_of_a_number() {
    let real = ColumnType::scalar(AtomKind::Real);
    assert_eq!(Datum::parse_as(&json!(5), &real), Ok(Datum::from(Real(5.0))));
    assert_eq!(Datum::parse_as(&json!(-0.0), &real), Ok(Datum::from(Real::ZERO)));
    let integer = ColumnType::scalar(AtomKind::Integer);
    assert_eq!(Datum::parse_as(&json!(i64::MIN), &integer), Ok(Datum::from(i64::MIN)));
}

#[test]
fn getters_are_lenient() {
    let map = Datum::map([("a", "1"), ("b", "2")]);
    assert_eq!(map.get_str("b"), Some("2"));
    assert_eq!(map.get_str("c"), None);
    assert_eq!(map.as_string_map().len(), 2);
    assert_eq!(map.as_str(), None);
    assert_eq!(Datum::empty_set().as_opt_i64(), None);
    assert_eq!(Datum::from(Some(7)).as_opt_i64(), Some(7));
    assert_eq!(Datum::from(None::<i64>), Datum::empty_set());
    assert_eq!(Datum::set([1, 2]).as_opt_i64(), None, "not a scalar");
    assert_eq!(Datum::set(["x", "a"]).as_str_set(), ["a", "x"]);
    assert_eq!(Datum::from("x").as_opt_bool(), None);
}

#[test]
fn differences_follow_the_column_type() {
    let set = ColumnType::set(AtomKind::Integer);
    let map = ColumnType::map(AtomKind::String, AtomKind::String);
    let optional = ColumnType { max: Some(1), ..ColumnType::set(AtomKind::Integer) };
    let check = |column: &ColumnType, old: Datum, diff: Datum, expect: Datum| {
        assert_eq!(old.apply_diff(&diff, column), expect, "{old} by {diff}");
    };
    check(&set, Datum::set([1, 2]), Datum::set([2, 3]), Datum::set([1, 3]));
    check(&set, Datum::set([1]), Datum::set([1]), Datum::empty_set());
    check(&optional, Datum::from(1), Datum::from(2), Datum::from(2));
    check(&optional, Datum::from(1), Datum::empty_set(), Datum::empty_set());
    check(
        &map,
        Datum::map([("gone", "1"), ("new value", "1"), ("kept", "1")]),
        Datum::map([("gone", "1"), ("new value", "2"), ("added", "3")]),
        Datum::map([("new value", "2"), ("kept", "1"), ("added", "3")]),
    );
}

/// The difference that a server would send: a naive implementation of ovsdb-server(7) 4.1.14.
fn server_diff(old: &Datum, new: &Datum) -> Datum {
    match (old, new) {
        (Datum::Set(old), Datum::Set(new)) => {
            let all = old.iter().chain(new.iter());
            Datum::set(all.filter(|a| old.contains(a) != new.contains(a)).cloned())
        }
        (Datum::Map(old), Datum::Map(new)) => {
            let gone = old.iter().filter(|(key, _)| new.get(key).is_none());
            let put = new.iter().filter(|(key, value)| old.get(key) != Some(value));
            Datum::map(gone.chain(put).map(|(key, value)| (key.clone(), value.clone())))
        }
        (_, new) => new.clone(),
    }
}

fn atom() -> impl Strategy<Value = Atom> {
    prop_oneof![
        any::<i64>().prop_map(Atom::Integer),
        // A whole real would be parsed as an integer where the type is unknown.
        any::<f64>().prop_filter_map("finite, not whole", |f| {
            Real::new(f).filter(|_| f.fract() != 0.0).map(Atom::Real)
        }),
        any::<bool>().prop_map(Atom::Boolean),
        ".{0,8}".prop_map(Atom::String),
        any::<u128>().prop_map(|n| Atom::Uuid(Uuid::from_u128(n))),
        "[a-z]{1,4}".prop_map(Atom::NamedUuid),
    ]
}

proptest! {
    #[test]
    fn values_survive_the_way_to_json_text_and_back(
        atoms in prop::collection::vec(atom(), 0..5),
        pairs in prop::collection::vec((atom(), atom()), 0..5),
    ) {
        for datum in [Datum::set(atoms), Datum::map(pairs)] {
            let text = datum.to_string();
            let json: Value = serde_json::from_str(&text).expect("our own JSON");
            prop_assert_eq!(Datum::parse(&json), Ok(datum));
        }
    }

    #[test]
    fn applying_the_difference_gives_the_new_value(
        old in prop::collection::btree_set(0i64..10, 0..10),
        new in prop::collection::btree_set(0i64..10, 0..10),
        old_map in prop::collection::btree_map(0i64..8, 0i64..3, 0..8),
        new_map in prop::collection::btree_map(0i64..8, 0i64..3, 0..8),
    ) {
        let (old, new) = (Datum::set(old), Datum::set(new));
        let diff = server_diff(&old, &new);
        prop_assert_eq!(old.apply_diff(&diff, &ColumnType::set(AtomKind::Integer)), new);
        let (old, new) = (Datum::map(old_map), Datum::map(new_map));
        let diff = server_diff(&old, &new);
        let column = ColumnType::map(AtomKind::Integer, AtomKind::Integer);
        prop_assert_eq!(old.apply_diff(&diff, &column), new);
    }
}
