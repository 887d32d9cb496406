//! The copy of the database in memory.
//!
//! A message of the server is applied completely or not at all: all its rows are computed before the first is
//! stored. The differences are returned as [`Changes`].

use crate::schema::object;
use crate::value::parse_uuid;
use crate::{DatabaseSchema, Datum, Error, TableSchema};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::sync::Arc;
use uuid::Uuid;

/// The monitored tables of a database. Clones share their rows, so a snapshot is cheap.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Replica {
    tables: BTreeMap<Arc<str>, Table>,
}

/// The rows of a table.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Table {
    rows: BTreeMap<Uuid, Arc<Row>>,
}

/// The monitored columns of a row. Columns that the server omitted have their default.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Row {
    columns: BTreeMap<Arc<str>, Datum>,
}

/// The rows changed by one message.
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
    /// The kind of change.
    pub kind: ChangeKind,
    /// The row before the change; `None` if it was inserted.
    pub old: Option<Arc<Row>>,
}

/// The kind of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeKind {
    /// The row is new.
    Inserted,
    /// Its values changed.
    Modified,
    /// It was deleted.
    Deleted,
}

/// The two formats of updates: `<table-updates>` of RFC 7047 with whole rows, and `<table-updates2>` of
/// ovsdb-server(7) with differences.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UpdateForm {
    WholeRows,
    Differences,
}

/// The monitored columns of each table.
pub(crate) type MonitoredColumns = BTreeMap<Arc<str>, Vec<Arc<str>>>;

/// A row's new contents; `None` deletes it.
struct Put {
    table: Arc<str>,
    uuid: Uuid,
    row: Option<Arc<Row>>,
}

/// The context for parsing updates.
pub(crate) struct UpdateReader<'a> {
    pub(crate) schema: &'a DatabaseSchema,
    pub(crate) monitored: &'a MonitoredColumns,
    pub(crate) form: UpdateForm,
}

impl Replica {
    /// Returns a table; `None` if it never had a row.
    pub fn table(&self, name: &str) -> Option<&Table> {
        self.tables.get(name)
    }

    /// Returns the rows of a table; empty for an unknown table.
    pub fn rows<'a>(&'a self, table: &str) -> impl Iterator<Item = (Uuid, &'a Arc<Row>)> + use<'a> {
        self.tables.get(table).into_iter().flat_map(Table::iter)
    }

    /// Returns one row.
    pub fn row(&self, table: &str, uuid: Uuid) -> Option<&Arc<Row>> {
        self.tables.get(table)?.rows.get(&uuid)
    }

    /// Returns the only row of a table such as "Open_vSwitch"; `None` if there are none or several.
    pub fn only_row(&self, table: &str) -> Option<(Uuid, &Arc<Row>)> {
        let mut rows = self.rows(table);
        rows.next().filter(|_| rows.next().is_none())
    }

    /// Applies updates.
    pub(crate) fn apply(
        &mut self,
        updates: &Value,
        reader: &UpdateReader<'_>,
    ) -> Result<Changes, Error> {
        let puts = reader.read(updates, self)?;
        Ok(Changes { rows: puts.into_iter().filter_map(|put| self.put(put)).collect() })
    }

    /// Replaces the whole contents by `updates`. Only rows that differ count as changed.
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

    /// Stores one row. Returns the change, if any.
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
    /// Returns the rows sorted by UUID.
    pub fn iter(&self) -> impl Iterator<Item = (Uuid, &Arc<Row>)> {
        self.rows.iter().map(|(uuid, row)| (*uuid, row))
    }

    /// Returns one row.
    pub fn get(&self, uuid: Uuid) -> Option<&Arc<Row>> {
        self.rows.get(&uuid)
    }

    /// Returns the number of rows.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Returns whether the table has no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
}

impl Row {
    /// Returns a column; `None` if it is not monitored or the server does not have it.
    pub fn get(&self, column: &str) -> Option<&Datum> {
        self.columns.get(column)
    }

    /// Returns the columns sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Datum)> {
        self.columns.iter().map(|(name, datum)| (&**name, datum))
    }

    /// Returns the string of a column; `None` if it is unset or has another type.
    pub fn str(&self, column: &str) -> Option<&str> {
        self.get(column)?.as_str()
    }

    /// Returns the integer of a column.
    pub fn opt_i64(&self, column: &str) -> Option<i64> {
        self.get(column)?.as_opt_i64()
    }

    /// Returns the boolean of a column.
    pub fn opt_bool(&self, column: &str) -> Option<bool> {
        self.get(column)?.as_opt_bool()
    }

    /// Returns the UUID of the row that a column refers to.
    pub fn opt_uuid(&self, column: &str) -> Option<Uuid> {
        self.get(column)?.as_opt_uuid()
    }

    /// Returns the UUIDs of the rows that a column refers to.
    pub fn uuids(&self, column: &str) -> Vec<Uuid> {
        self.get(column).map(Datum::as_uuid_set).unwrap_or_default()
    }

    /// Returns the pairs of a map of strings, such as "other_config".
    pub fn string_map(&self, column: &str) -> BTreeMap<String, String> {
        self.get(column).map(Datum::as_string_map).unwrap_or_default()
    }

    /// Returns one value of a map of strings.
    pub fn map_str(&self, column: &str, key: &str) -> Option<&str> {
        self.get(column)?.get_str(key)
    }
}

impl Changes {
    /// Returns whether nothing changed.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Returns the changed rows.
    pub fn iter(&self) -> std::slice::Iter<'_, Change> {
        self.rows.iter()
    }
}

impl UpdateReader<'_> {
    /// Computes the rows that result from applying `updates` to `before`.
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
    /// `<row-update>`: "new" is the whole row; without it the row is deleted.
    fn whole(&self, update: &Map<String, Value>) -> Result<Option<Arc<Row>>, Error> {
        match update.get("new") {
            None | Some(Value::Null) => Ok(None),
            Some(new) => self.fresh(new).map(Some),
        }
    }

    /// `<row-update2>`: its only member is the kind of change.
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

    /// Returns a row of defaults with the values of `json`.
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
            // The server may include `_uuid` or `_version`, which are not needed.
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
