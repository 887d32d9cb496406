//! The monitored tables and columns, and the monitor requests.

use crate::DatabaseSchema;
use crate::replica::MonitoredColumns;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The tables and columns to copy. Those that a server does not have are ignored.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Monitor {
    tables: BTreeMap<String, Vec<String>>,
}

/// The three versions of the monitor request; the newest is tried first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MonitorMethod {
    CondSince,
    Cond,
    Plain,
}

impl Monitor {
    /// Adds columns of a table.
    #[must_use]
    pub fn table<'a>(mut self, table: &str, columns: impl IntoIterator<Item = &'a str>) -> Self {
        let columns = columns.into_iter().map(str::to_owned);
        let listed = self.tables.entry(table.to_owned()).or_default();
        listed.extend(columns);
        listed.sort();
        listed.dedup();
        self
    }

    /// Returns the part that the server has.
    pub(super) fn known_to(&self, schema: &DatabaseSchema) -> MonitoredColumns {
        let known = |(name, wanted): (&String, &Vec<String>)| {
            let (name, table) = schema.tables.get_key_value(name.as_str())?;
            let is_wanted = |column: &Arc<str>| wanted.iter().any(|it| **it == **column);
            let columns = table.columns.keys().filter(|column| is_wanted(column));
            Some((name.clone(), columns.cloned().collect()))
        };
        self.tables.iter().filter_map(known).collect()
    }
}

impl MonitorMethod {
    pub(super) const fn name(self) -> &'static str {
        match self {
            MonitorMethod::CondSince => "monitor_cond_since",
            MonitorMethod::Cond => "monitor_cond",
            MonitorMethod::Plain => "monitor",
        }
    }

    /// Returns the method to use with a server that does not know this one.
    pub(super) const fn older(self) -> Option<Self> {
        match self {
            MonitorMethod::CondSince => Some(MonitorMethod::Cond),
            MonitorMethod::Cond => Some(MonitorMethod::Plain),
            MonitorMethod::Plain => None,
        }
    }
}
