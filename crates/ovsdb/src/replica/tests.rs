use super::*;
use proptest::prelude::*;
use serde_json::json;

fn schema() -> DatabaseSchema {
    let json = json!({"tables": {"T": {"columns": {"n": {"type": "integer"}}}}});
    DatabaseSchema::parse(&json).expect("a valid schema")
}

fn contents(rows: &BTreeMap<u8, i64>) -> Value {
    let row = |(key, n): (&u8, &i64)| {
        (Uuid::from_u128(u128::from(*key)).to_string(), json!({"initial": {"n": n}}))
    };
    json!({"T": Value::Object(rows.iter().map(row).collect())})
}

proptest! {
    #[test]
    fn replacing_the_contents_reports_exactly_what_differs(
        old in prop::collection::btree_map(0u8..8, 0i64..3, 0..8),
        new in prop::collection::btree_map(0u8..8, 0i64..3, 0..8),
    ) {
        let schema = schema();
        let monitored = MonitoredColumns::from([("T".into(), vec!["n".into()])]);
        let form = UpdateForm::Differences;
        let reader = UpdateReader { schema: &schema, monitored: &monitored, form };
        let mut replica = Replica::default();
        replica.replace(&contents(&old), &reader).expect("valid");
        let changes = replica.replace(&contents(&new), &reader).expect("valid");
        let now: BTreeMap<u8, i64> = replica
            .rows("T")
            .map(|(uuid, row)| (uuid.as_u128() as u8, row.opt_i64("n").expect("an integer")))
            .collect();
        prop_assert_eq!(&now, &new);
        let differ = (0u8..8).filter(|key| old.get(key) != new.get(key)).count();
        prop_assert_eq!(changes.iter().count(), differ);
    }
}
