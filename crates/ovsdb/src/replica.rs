//! The copy of the database in memory.
//!
//! A message of the server is applied whole or not at all: first every row of it is computed,
//! then all are put in place. What changed comes back as [`Changes`].

use crate::schema::object;
use crate::value::parse_uuid;
use crate::{DatabaseSchema, Datum, Error, TableSchema};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::sync::Arc;
use uuid::Uuid;

/// The monitored tables of a database. Cloning is cheap enough for a snapshot: rows are shared.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Replica {
    tables: BTreeMap<Arc<str>, Table>,
}

/// The rows of a table.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Table {
    rows: BTreeMap<Uuid, Arc<Row>>,
}

/// The monitored columns of a row. Columns that the server left out hold their default.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Row {
    columns: BTreeMap<Arc<str>, Datum>,
}

/// The rows that one message changed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changes {
    rows: Vec<Change>,
}

/// One changed row. The new row is in the [`Replica`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The table.
    pub table: Arc<str>,
    /// The row.
    pub uuid: Uuid,
    /// What became of it.
    pub kind: ChangeKind,
    /// The row before; None where it was inserted.
    pub old: Option<Arc<Row>>,
}

/// What became of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeKind {
    /// It is new.
    Inserted,
    /// It has other values.
    Modified,
    /// It is gone.
    Deleted,
}

/// The two forms of updates: `<table-updates>` of RFC 7047 with whole rows, and
/// `<table-updates2>` of ovsdb-server(7) with differences.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UpdateForm {
    WholeRows,
    Differences,
}

/// The columns that are monitored, table by table.
pub(crate) type MonitoredColumns = BTreeMap<Arc<str>, Vec<Arc<str>>>;

/// A row as it will be; None where it goes.
struct Put {
    table: Arc<str>,
    uuid: Uuid,
    row: Option<Arc<Row>>,
}

/// What the updates are read with.
pub(crate) struct UpdateReader<'a> {
    pub(crate) schema: &'a DatabaseSchema,
    pub(crate) monitored: &'a MonitoredColumns,
    pub(crate) form: UpdateForm,
}

impl Replica {
    /// A table, or None where no row of it was ever there.
    pub fn table(&self, name: &str) -> Option<&Table> {
        self.tables.get(name)
    }

    /// The rows of a table; none where the table is unknown.
    pub fn rows<'a>(&'a self, table: &str) -> impl Iterator<Item = (Uuid, &'a Arc<Row>)> + use<'a> {
        self.tables.get(table).into_iter().flat_map(Table::iter)
    }

    /// One row.
    pub fn row(&self, table: &str, uuid: Uuid) -> Option<&Arc<Row>> {
        self.tables.get(table)?.rows.get(&uuid)
    }

    /// The only row of a table such as "Open_vSwitch"; None where there is none or several.
    pub fn only_row(&self, table: &str) -> Option<(Uuid, &Arc<Row>)> {
        let mut rows = self.rows(table);
        rows.next().filter(|_| rows.next().is_none())
    }

    /// Applies updates to what is here.
    pub(crate) fn apply(
        &mut self,
        updates: &Value,
        reader: &UpdateReader<'_>,
    ) -> Result<Changes, Error> {
        let puts = reader.read(updates, self)?;
        Ok(Changes { rows: puts.into_iter().filter_map(|put| self.put(put)).collect() })
    }

    /// Takes `updates` as the whole contents. Only rows that differ from what is here, or are
    /// not among the contents, count as changed.
    pub(crate) fn replace(
        &mut self,
        updates: &Value,
        reader: &UpdateReader<'_>,
    ) -> Result<Changes, Error> {
        let puts = reader.read(updates, &Replica::default())?;
        let mut fresh = Replica::default();
        for put in &puts {
            if let Some(row) = &put.row {
                let table = fresh.tables.entry(put.table.clone()).or_default();
                table.rows.insert(put.uuid, row.clone());
            }
        }
        let mut gone = Vec::new();
        for (name, table) in &self.tables {
            for uuid in table.rows.keys().filter(|uuid| fresh.row(name, **uuid).is_none()) {
                gone.push(Put { table: name.clone(), uuid: *uuid, row: None });
            }
        }
        let all = gone.into_iter().chain(puts);
        Ok(Changes { rows: all.filter_map(|put| self.put(put)).collect() })
    }

    /// Puts one row in place, and says what that changed.
    fn put(&mut self, put: Put) -> Option<Change> {
        let Put { table, uuid, row } = put;
        let rows = &mut self.tables.entry(table.clone()).or_default().rows;
        let (old, kind) = match row {
            Some(row) => {
                if rows.get(&uuid) == Some(&row) {
                    return None;
                }
                match rows.insert(uuid, row) {
                    Some(old) => (Some(old), ChangeKind::Modified),
                    None => (None, ChangeKind::Inserted),
                }
            }
            None => (Some(rows.remove(&uuid)?), ChangeKind::Deleted),
        };
        Some(Change { table, uuid, kind, old })
    }
}

impl Table {
    /// The rows in the order of their UUIDs.
    pub fn iter(&self) -> impl Iterator<Item = (Uuid, &Arc<Row>)> {
        self.rows.iter().map(|(uuid, row)| (*uuid, row))
    }

    /// One row.
    pub fn get(&self, uuid: Uuid) -> Option<&Arc<Row>> {
        self.rows.get(&uuid)
    }

    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
}

impl Row {
    /// A column, or None where it is not monitored or this server has it not.
    pub fn get(&self, column: &str) -> Option<&Datum> {
        self.columns.get(column)
    }

    /// The columns in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Datum)> {
        self.columns.iter().map(|(name, datum)| (&**name, datum))
    }

    /// The string of a column; None where it is unset or of another type.
    pub fn str(&self, column: &str) -> Option<&str> {
        self.get(column)?.as_str()
    }

    /// The integer of a column.
    pub fn opt_i64(&self, column: &str) -> Option<i64> {
        self.get(column)?.as_opt_i64()
    }

    /// The truth value of a column.
    pub fn opt_bool(&self, column: &str) -> Option<bool> {
        self.get(column)?.as_opt_bool()
    }

    /// The row that a column refers to.
    pub fn opt_uuid(&self, column: &str) -> Option<Uuid> {
        self.get(column)?.as_opt_uuid()
    }

    /// The rows that a column refers to.
    pub fn uuids(&self, column: &str) -> Vec<Uuid> {
        self.get(column).map(Datum::as_uuid_set).unwrap_or_default()
    }

    /// The pairs of a map of strings, such as "other_config".
    pub fn string_map(&self, column: &str) -> BTreeMap<String, String> {
        self.get(column).map(Datum::as_string_map).unwrap_or_default()
    }

    /// One value of a map of strings.
    pub fn map_str(&self, column: &str, key: &str) -> Option<&str> {
        self.get(column)?.get_str(key)
    }
}

impl Changes {
    /// Whether nothing changed.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The changed rows.
    pub fn iter(&self) -> std::slice::Iter<'_, Change> {
        self.rows.iter()
    }

    /// The changed rows of one table.
    pub fn in_table<'a>(&'a self, table: &'a str) -> impl Iterator<Item = &'a Change> {
        self.rows.iter().filter(move |change| &*change.table == table)
    }
}

impl UpdateReader<'_> {
    /// Computes the rows that `updates` leads to from those of `before`.
    fn read(&self, updates: &Value, before: &Replica) -> Result<Vec<Put>, Error> {
        let mut puts = Vec::new();
        for (name, rows) in object(updates, "table updates")? {
            let unknown = || Error::NotInSchema { place: name.clone() };
            let (table, columns) =
                self.monitored.get_key_value(name.as_str()).ok_or_else(unknown)?;
            let schema = self.schema.tables.get(name.as_str()).ok_or_else(unknown)?;
            let place = format!("updates of table {name}");
            for (uuid, update) in object(rows, &place)? {
                let uuid = parse_uuid(uuid)
                    .ok_or_else(|| Error::shape(&*place, "a UUID", &Value::from(uuid.as_str())))?;
                let base = before.row(name, uuid);
                let update = object(update, &place)?;
                let row = TableReader { name, schema, columns };
                let row = match self.form {
                    UpdateForm::WholeRows => row.whole(update)?,
                    UpdateForm::Differences => row.changed(update, uuid, base)?,
                };
                puts.push(Put { table: table.clone(), uuid, row });
            }
        }
        Ok(puts)
    }
}

struct TableReader<'a> {
    name: &'a str,
    schema: &'a TableSchema,
    columns: &'a [Arc<str>],
}

impl TableReader<'_> {
    /// `<row-update>`: "new" is the whole row, and absent where the row goes.
    fn whole(&self, update: &Map<String, Value>) -> Result<Option<Arc<Row>>, Error> {
        match update.get("new") {
            None | Some(Value::Null) => Ok(None),
            Some(new) => self.fresh(new).map(Some),
        }
    }

    /// `<row-update2>`: one member says what happened.
    fn changed(
        &self,
        update: &Map<String, Value>,
        uuid: Uuid,
        base: Option<&Arc<Row>>,
    ) -> Result<Option<Arc<Row>>, Error> {
        let mut members = update.iter();
        let (Some((what, row)), None) = (members.next(), members.next()) else {
            let found = Value::Object(update.clone());
            return Err(Error::shape(self.name, "a row update of one member", &found));
        };
        match what.as_str() {
            "initial" | "insert" => self.fresh(row).map(Some),
            "delete" => Ok(None),
            "modify" => {
                let table = self.name.to_owned();
                let base = base.ok_or(Error::UnknownRow { table, uuid })?;
                let mut changed = Row::clone(base);
                self.fill(&mut changed, row, |old, diff, column_type| {
                    old.apply_diff(&diff, column_type)
                })?;
                Ok(Some(Arc::new(changed)))
            }
            _ => {
                Err(Error::shape(self.name, "initial, insert, modify or delete", &what[..].into()))
            }
        }
    }

    /// A row of defaults, where `json` says nothing else.
    fn fresh(&self, json: &Value) -> Result<Arc<Row>, Error> {
        let mut row = Row::default();
        for name in self.columns {
            if let Some(column) = self.schema.columns.get(name) {
                row.columns.insert(name.clone(), column.column_type.default_datum());
            }
        }
        self.fill(&mut row, json, |_, new, _| new)?;
        Ok(Arc::new(row))
    }

    fn fill(
        &self,
        row: &mut Row,
        json: &Value,
        merge: impl Fn(&Datum, Datum, &crate::ColumnType) -> Datum,
    ) -> Result<(), Error> {
        for (name, value) in object(json, self.name)? {
            let place = || format!("{}.{name}", self.name);
            // The server may add `_uuid` or `_version`; both are known from elsewhere.
            if name.starts_with('_') {
                continue;
            }
            let unknown = || Error::NotInSchema { place: place() };
            let column = self.schema.columns.get(name.as_str()).ok_or_else(unknown)?;
            let old = row.columns.get_mut(name.as_str()).ok_or_else(unknown)?;
            let column_type = &column.column_type;
            let given =
                Datum::parse_as(value, column_type).map_err(|error| error.within(&place()))?;
            let merged = merge(old, given, column_type);
            if merged.len() < column_type.min || column_type.max.is_some_and(|m| merged.len() > m) {
                return Err(Error::shape(place(), "as many elements as the schema allows", value));
            }
            *old = merged;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
