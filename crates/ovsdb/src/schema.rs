//! The schema of a database, as `get_schema` serves it (RFC 7047 section 3.2).
//!
//! Only what a client needs is parsed: the tables and columns of the server, and the type of each column, on
//! which the meaning of a difference depends. The server enforces constraints on values.

use crate::Error;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The tables of a database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DatabaseSchema {
    /// The name of the database, such as "Open_vSwitch".
    pub name: String,
    /// The version of the schema, such as "8.3.1"; empty where the server omits it.
    pub version: String,
    /// Tables by name.
    pub tables: BTreeMap<Arc<str>, TableSchema>,
}

/// The columns of a table.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TableSchema {
    /// Columns by name, without `_uuid` and `_version`, which every table has.
    pub columns: BTreeMap<Arc<str>, ColumnSchema>,
}

/// One column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnSchema {
    /// The type of its values.
    pub column_type: ColumnType,
    /// Whether its value is lost when the server restarts.
    pub ephemeral: bool,
    /// Whether it may be changed after a row was inserted.
    pub mutable: bool,
}

/// The type of a column: the number and type of its elements.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnType {
    /// The type of the elements of a set, or of the keys of a map.
    pub key: BaseType,
    /// The type of the values of a map; None for a scalar or a set.
    pub value: Option<BaseType>,
    /// The fewest elements: 0 or 1.
    pub min: usize,
    /// The most elements; None is "unlimited".
    pub max: Option<usize>,
}

/// The type of an atom, and the table that it refers to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BaseType {
    /// The type of atom.
    pub kind: AtomKind,
    /// The table that a UUID refers to.
    pub ref_table: Option<String>,
}

/// The five types of atoms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AtomKind {
    /// A signed 64-bit integer.
    Integer,
    /// A finite 64-bit floating-point number.
    Real,
    /// True or false.
    Boolean,
    /// A Unicode string.
    String,
    /// The UUID of a row.
    Uuid,
}

impl DatabaseSchema {
    /// Parses the result of `get_schema`.
    ///
    /// # Errors
    /// [`Error::Shape`] that names the invalid table and column.
    pub fn parse(json: &Value) -> Result<Self, Error> {
        let schema = object(json, "schema")?;
        let text = |member: &str| schema.get(member).and_then(Value::as_str).unwrap_or_default();
        let tables = schema.get("tables").unwrap_or(&Value::Null);
        let tables = object(tables, "schema: tables")?
            .iter()
            .map(|(name, table)| Ok((Arc::from(name.as_str()), TableSchema::parse(name, table)?)))
            .collect::<Result<_, Error>>()?;
        Ok(DatabaseSchema { name: text("name").into(), version: text("version").into(), tables })
    }

    /// Returns the type of a column; `None` if the server does not have it.
    pub fn column_type(&self, table: &str, column: &str) -> Option<&ColumnType> {
        Some(&self.tables.get(table)?.columns.get(column)?.column_type)
    }

    /// Returns whether the server has the column.
    pub fn has_column(&self, table: &str, column: &str) -> bool {
        self.column_type(table, column).is_some()
    }
}

impl TableSchema {
    fn parse(name: &str, json: &Value) -> Result<Self, Error> {
        let place = format!("schema of table {name}");
        let columns = object(json, &place)?.get("columns").unwrap_or(&Value::Null);
        let columns = object(columns, &place)?
            .iter()
            .map(|(column, json)| {
                let parsed = ColumnSchema::parse(json)
                    .map_err(|e| e.within(&format!("schema of {name}.{column}")))?;
                Ok((Arc::from(column.as_str()), parsed))
            })
            .collect::<Result<_, Error>>()?;
        Ok(TableSchema { columns })
    }
}

impl ColumnSchema {
    fn parse(json: &Value) -> Result<Self, Error> {
        let column = object(json, "")?;
        let flag = |member: &str, default: bool| match column.get(member) {
            None => Ok(default),
            Some(value) => value.as_bool().ok_or_else(|| Error::shape(member, "a boolean", value)),
        };
        Ok(ColumnSchema {
            column_type: ColumnType::parse(column.get("type").unwrap_or(&Value::Null))?,
            ephemeral: flag("ephemeral", false)?,
            mutable: flag("mutable", true)?,
        })
    }
}

impl ColumnType {
    /// Parses a `<type>`: the name of an atomic type, or an object with key, value, min and max.
    ///
    /// # Errors
    /// [`Error::Shape`] with the invalid part.
    pub fn parse(json: &Value) -> Result<Self, Error> {
        if json.is_string() {
            return Ok(ColumnType::scalar(BaseType::parse(json)?.kind));
        }
        let members = object(json, "type")?;
        let min = match members.get("min") {
            None => 1,
            Some(min) => size(min)
                .filter(|min| *min <= 1)
                .ok_or_else(|| Error::shape("type: min", "0 or 1", min))?,
        };
        let max = match members.get("max") {
            None => Some(1),
            Some(Value::String(word)) if word == "unlimited" => None,
            Some(max) => {
                let expected = "a number of at least 1 or \"unlimited\"";
                let number = size(max).filter(|max| *max >= 1);
                Some(number.ok_or_else(|| Error::shape("type: max", expected, max))?)
            }
        };
        Ok(ColumnType {
            key: BaseType::parse(members.get("key").unwrap_or(&Value::Null))?,
            value: members.get("value").map(BaseType::parse).transpose()?,
            min,
            max,
        })
    }

    /// Exactly one atom of `kind`.
    pub const fn scalar(kind: AtomKind) -> Self {
        let key = BaseType { kind, ref_table: None };
        ColumnType { key, value: None, min: 1, max: Some(1) }
    }

    /// Any number of atoms of `kind`.
    pub const fn set(kind: AtomKind) -> Self {
        let key = BaseType { kind, ref_table: None };
        ColumnType { key, value: None, min: 0, max: None }
    }

    /// Any number of pairs.
    pub const fn map(key: AtomKind, value: AtomKind) -> Self {
        let key = BaseType { kind: key, ref_table: None };
        let value = BaseType { kind: value, ref_table: None };
        ColumnType { key, value: Some(value), min: 0, max: None }
    }

    /// Returns whether it can hold more than one element, so that a change is sent as a difference and not as
    /// the new value (ovs: lib/ovsdb-types.h, `ovsdb_type_is_composite`).
    pub fn is_composite(&self) -> bool {
        self.max.is_none_or(|max| max > 1)
    }
}

impl BaseType {
    fn parse(json: &Value) -> Result<Self, Error> {
        let (name, ref_table) = match json {
            Value::Object(members) => (
                members.get("type").unwrap_or(&Value::Null),
                members.get("refTable").and_then(Value::as_str).map(str::to_owned),
            ),
            name => (name, None),
        };
        let kind = match name.as_str() {
            Some("integer") => AtomKind::Integer,
            Some("real") => AtomKind::Real,
            Some("boolean") => AtomKind::Boolean,
            Some("string") => AtomKind::String,
            Some("uuid") => AtomKind::Uuid,
            _ => return Err(Error::shape("type", "an atomic type's name", json)),
        };
        Ok(BaseType { kind, ref_table })
    }
}

impl AtomKind {
    /// Returns the name in schemas and error messages.
    pub const fn name(self) -> &'static str {
        match self {
            AtomKind::Integer => "integer",
            AtomKind::Real => "real",
            AtomKind::Boolean => "boolean",
            AtomKind::String => "string",
            AtomKind::Uuid => "uuid",
        }
    }
}

pub(crate) fn object<'a>(json: &'a Value, place: &str) -> Result<&'a Map<String, Value>, Error> {
    json.as_object().ok_or_else(|| Error::shape(place, "an object", json))
}

fn size(json: &Value) -> Option<usize> {
    json.as_u64().and_then(|n| usize::try_from(n).ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn types_have_the_bounds_and_defaults_of_the_rfc() {
        let check = |json: Value, min: usize, max: Option<usize>, default: Value| {
            let parsed = ColumnType::parse(&json).expect("a valid type");
            assert_eq!((parsed.min, parsed.max), (min, max), "{json}");
            assert_eq!(parsed.default_datum().to_json(), default, "{json}");
        };
        check(json!("integer"), 1, Some(1), json!(0));
        check(json!({"key": "string"}), 1, Some(1), json!(""));
        check(json!({"key": "string", "min": 0}), 0, Some(1), json!(["set", []]));
        check(json!({"key": "real", "min": 0, "max": 4}), 0, Some(4), json!(["set", []]));
        check(json!({"key": {"type": "boolean"}}), 1, Some(1), json!(false));
        let map = json!({"key": "string", "value": "string", "min": 0, "max": "unlimited"});
        check(map, 0, None, json!(["map", []]));
        let bridges = json!({"key": {"type": "uuid", "refTable": "Bridge"}, "min": 0});
        let bridges = ColumnType::parse(&bridges).expect("a valid type");
        assert_eq!(bridges.key.ref_table.as_deref(), Some("Bridge"));
        assert_eq!((bridges.min, bridges.max), (0, Some(1)));
        assert!(!bridges.is_composite());
    }

    #[test]
    fn malformed_schemas_say_where() {
        let cases = [
            (json!(null), "schema: expected an object"),
            (json!({"tables": []}), "schema: tables: expected an object"),
            (json!({"tables": {"T": 5}}), "schema of table T"),
            (json!({"tables": {"T": {"columns": {"c": {}}}}}), "schema of T.c: type"),
            (json!({"tables": {"T": {"columns": {"c": {"type": "int"}}}}}), "atomic type's name"),
            (
                json!({"tables": {"T": {"columns": {"c": {"type": {"key": "uuid", "max": 0}}}}}}),
                "schema of T.c: type: max",
            ),
            (
                json!({"tables": {"T": {"columns": {"c": {"type": {"key": "uuid", "min": 2}}}}}}),
                "0 or 1",
            ),
            (
                json!({"tables": {"T": {"columns": {"c": {"type": "uuid", "mutable": 1}}}}}),
                "schema of T.c: mutable: expected a boolean",
            ),
        ];
        for (json, expect) in cases {
            let error = DatabaseSchema::parse(&json).expect_err("malformed").to_string();
            assert!(error.contains(expect), "{json}: {error}");
        }
    }
}
