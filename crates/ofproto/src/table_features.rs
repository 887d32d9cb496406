//! Changes of table features by controllers: only the name can change (ovs: `ofproto/ofproto.c`,
//! `handle_table_features_change`).

use crate::Ofproto;
use crate::flow_mod::no_bridge;
use crate::ids::BridgeId;
use crate::table::Tables;
use base::limits;
use openflow::message::TableFeatures;
use openflow::{ErrorCode, OfError};
use std::collections::BTreeMap;

/// The internal table is not included.
const TABLES: u8 = limits::TABLES as u8 - 1;

/// A request that changes table features, possibly in several messages.
#[derive(Debug, Default)]
pub(crate) struct TableFeaturesChange {
    wanted: BTreeMap<u8, TableFeatures>,
    replaces: bool,
}

impl TableFeaturesChange {
    /// Whether it changes nothing.
    pub fn is_empty(&self) -> bool {
        self.wanted.is_empty()
    }

    /// Adds the tables of a message.
    pub fn add(&mut self, tables: Vec<TableFeatures>) -> Result<(), OfError> {
        for wanted in tables {
            if self.wanted.is_empty() {
                self.replaces = wanted.replaces;
            }
            let table = wanted.table;
            if self.wanted.insert(table.0, wanted).is_some() {
                let reason = format!("table features: table {table} stands there twice");
                return Err(OfError::new(ErrorCode::TableFeaturesDuplicate, reason));
            }
        }
        Ok(())
    }

    /// The number of tables is fixed.
    fn check_number(&self) -> Result<(), OfError> {
        if self.wanted.keys().any(|&number| number >= TABLES) {
            return Err(refused("there are tables 0 to 253".into()));
        }
        let missing = (0..TABLES).find(|number| !self.wanted.contains_key(number));
        match missing {
            Some(number) if self.replaces => {
                Err(refused(format!("table {number} can't be taken out of the pipeline")))
            }
            _ => Ok(()),
        }
    }
}

fn refused(what: String) -> OfError {
    OfError::new(ErrorCode::TableFeaturesEperm, format!("table features: {what}"))
}

impl Tables {
    fn check(&self, wanted: &TableFeatures, max_entries: u32) -> Result<(), OfError> {
        let number = wanted.table;
        if wanted.max_entries != max_entries {
            return Err(refused(format!("table {number} takes {max_entries} flows")));
        }
        if wanted.exceeds {
            return Err(refused(format!("table {number} can't do all that")));
        }
        let configured = self.get(number).and_then(|table| table.config().name.as_ref());
        match configured {
            Some(name) if *name != wanted.name => {
                Err(refused(format!("the database names table {number} {name}")))
            }
            _ => Ok(()),
        }
    }

    /// Names a table without a name in the database, or removes its name.
    fn set_name(&mut self, wanted: &TableFeatures) {
        let name = Some(wanted.name.clone()).filter(|name| !name.is_empty());
        if name.is_none() && self.get(wanted.table).is_none() {
            return;
        }
        if let Some(table) = self.get_mut(wanted.table)
            && table.config().name.is_none()
        {
            table.controlled.name = name;
        }
    }
}

impl Ofproto {
    /// Applies the whole request, or nothing.
    pub(crate) fn change_table_features(
        &mut self,
        id: BridgeId,
        change: &TableFeaturesChange,
    ) -> Result<(), OfError> {
        change.check_number()?;
        let Some(bridge) = self.bridges.get_mut(id) else { return Err(no_bridge(id)) };
        for stats in bridge.tables.stats() {
            if let Some(wanted) = change.wanted.get(&stats.table.0) {
                bridge.tables.check(wanted, stats.max_entries)?;
            }
        }
        for wanted in change.wanted.values() {
            bridge.tables.set_name(wanted);
        }
        Ok(())
    }
}
