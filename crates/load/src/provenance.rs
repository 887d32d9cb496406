//! The provenance of a result: the same record in every verb's JSON, with what is needed to repeat the
//! measurement.

use crate::machine;
use serde_json::{Map, Value, json};
use vlog::Date;

/// The key of the record.
pub const KEY: &str = "provenance";

/// The run that produced a result.
#[derive(Clone, Debug)]
pub struct Provenance {
    date: String,
    command: String,
    version: &'static str,
    commit: &'static str,
}

impl Provenance {
    /// A run that begins now: its command line with all defaults, the program's version, and the commit from
    /// which it was built.
    pub fn new(command: String, version: &'static str, commit: &'static str) -> Provenance {
        let mut date = String::new();
        let unix_ms = clock::since_epoch().as_millis() as i64;
        Date::new(unix_ms, 0).format("%Y-%m-%dT%H:%M:%SZ", &mut date);
        Provenance { date, command, version, commit }
    }

    /// Adds the verb and the provenance to a measured result. `seed` is `None` if nothing in the run was
    /// random.
    pub fn stamp(&self, verb: &str, seed: Option<u64>, measured: Value) -> Value {
        let mut result = Map::new();
        result.insert("verb".to_owned(), json!(verb));
        let record = json!({
            "date": self.date,
            "command": self.command,
            "version": self.version,
            "commit": self.commit,
            "machine": machine::describe(),
            "seed": seed,
        });
        result.insert(KEY.to_owned(), record);
        match measured {
            Value::Object(measured) => result.extend(measured),
            other => drop(result.insert("measured".to_owned(), other)),
        }
        Value::Object(result)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_stands_beside_whatever_was_measured() {
        let it = Provenance::new("tidegate x --seed 3".to_owned(), "0.1.0", "abc");
        for (measured, key, value) in
            [(json!({"rate": 7}), "rate", json!(7)), (json!([1]), "measured", json!([1]))]
        {
            let result = it.stamp("x", Some(3), measured);
            assert_eq!((&result["verb"], &result[key]), (&json!("x"), &value));
            let record = &result[KEY];
            assert_eq!(record["command"], "tidegate x --seed 3");
            assert_eq!((&record["version"], &record["commit"]), (&json!("0.1.0"), &json!("abc")));
            assert_eq!(record["seed"], 3);
            assert!(record["machine"]["cores"].as_u64().unwrap() > 0, "{record}");
            let date = record["date"].as_str().unwrap();
            assert!(date.len() == 20 && date.starts_with("20") && date.ends_with('Z'), "{date}");
        }
        assert!(it.stamp("x", None, json!({}))[KEY]["seed"].is_null());
    }
}
