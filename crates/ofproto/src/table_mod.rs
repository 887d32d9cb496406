//! Table settings of controllers, and table-status messages (ovs: `ofproto/ofproto.c`, `table_mod`,
//! `send_table_status`).

use crate::Ofproto;
use crate::bridge::Bridge;
use crate::events::Event;
use crate::flow_mod::no_bridge;
use crate::ids::BridgeId;
use crate::table::{Table, Tables};
use base::{TableId, limits};
use openflow::message::{TableDesc, TableMod, TableReason, VacancyEvents};
use openflow::{EVICTION_FLAGS, ErrorCode, OfError};

impl Table {
    fn apply(&mut self, table_mod: &TableMod) {
        self.controlled.miss = table_mod.miss.or(self.controlled.miss);
        self.controlled.evicts = table_mod.evicts.unwrap_or(self.controlled.evicts);
        if let Some(events) = table_mod.vacancy {
            let next = |events: VacancyEvents| match self.controlled.vacancy {
                Some((_, next)) => next,
                None if self.vacancy() < events.up => TableReason::VacancyUp,
                None => TableReason::VacancyDown,
            };
            self.controlled.vacancy = events.map(|events| (events, next(events)));
        }
    }

    /// The vacancy event to send now; the opposite one is next.
    fn tell_vacancy(&mut self) -> Option<TableReason> {
        let vacancy = self.vacancy();
        let (events, next) = self.controlled.vacancy.as_mut()?;
        let told = *next;
        *next = match told {
            TableReason::VacancyDown if vacancy < events.down => TableReason::VacancyUp,
            TableReason::VacancyUp if vacancy > events.up => TableReason::VacancyDown,
            _ => return None,
        };
        Some(told)
    }
}

impl Tables {
    /// The table's description.
    fn describe(&self, number: TableId) -> TableDesc {
        let blank = TableDesc { table: number, evicts: false, vacancy: None };
        let Some(table) = self.get(number) else { return blank };
        let vacancy = table.controlled.vacancy.map(|(events, _)| (events, table.vacancy()));
        TableDesc { evicts: table.controlled.evicts, vacancy, ..blank }
    }
}

impl Ofproto {
    /// Carries out an OpenFlow table-mod.
    pub fn table_mod(&mut self, id: BridgeId, table_mod: &TableMod) -> Result<(), OfError> {
        // The eviction order is fixed.
        if table_mod.eviction_flags.is_some_and(|flags| flags != EVICTION_FLAGS) {
            let reason = "table-mod: what flows are chosen by can't be changed";
            return Err(OfError::new(ErrorCode::TableModBadConfig, reason));
        }
        let last = limits::TABLES as u8 - 1;
        let numbers = match table_mod.table {
            None => 0..last,
            Some(table) if table.0 == last => {
                let reason = format!("table-mod: table {table} is read-only");
                return Err(OfError::new(ErrorCode::TableModEperm, reason));
            }
            Some(table) if table.0 > last => {
                let reason = format!("table-mod: table {table} is not there");
                return Err(OfError::new(ErrorCode::TableModBadTable, reason));
            }
            Some(table) => table.0..table.0 + 1,
        };
        let Some(bridge) = self.bridges.get_mut(id) else { return Err(no_bridge(id)) };
        for number in numbers {
            if let Some(table) = bridge.tables.get_mut(TableId(number)) {
                table.apply(table_mod);
            }
            if table_mod.vacancy.is_some_and(|events| events.is_some()) {
                bridge.tables.telling.insert(number);
            }
        }
        self.follow_tables(id);
        if table_mod.miss.is_some() {
            self.bridge_changed(id);
        }
        Ok(())
    }

    /// Descriptions of the bridge's tables.
    pub fn table_descs(&self, id: BridgeId) -> Vec<TableDesc> {
        let Some(bridge) = self.bridges.get(id) else { return Vec::new() };
        (0..limits::TABLES as u8).map(|number| bridge.tables.describe(TableId(number))).collect()
    }

    /// Sends vacancy events that flow changes have caused.
    pub(crate) fn tell_vacancies(&mut self) {
        if self.is_held {
            return;
        }
        let has_some = |bridge: &&Bridge| !bridge.tables.telling.is_empty();
        let telling: Vec<BridgeId> = self.bridges.iter().filter(has_some).map(|it| it.id).collect();
        for id in telling {
            let Some(bridge) = self.bridges.get_mut(id) else { continue };
            let telling: Vec<u8> = bridge.tables.telling.iter().copied().collect();
            for number in telling.into_iter().map(TableId) {
                let table = bridge.tables.get_mut(number);
                if let Some(reason) = table.and_then(Table::tell_vacancy) {
                    let desc = bridge.tables.describe(number);
                    self.events.push(Event::TableStatus { bridge: bridge.id, reason, desc });
                }
            }
        }
    }
}
