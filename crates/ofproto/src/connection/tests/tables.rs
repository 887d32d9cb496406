//! Table settings of controllers, and table-status messages.

use super::bench::{Bench, add_flow};
use crate::connection::{ConnId, Settings};
use crate::{BridgeConfig, TableConfig};
use base::TableId;
use openflow::ErrorCode;
use openflow::message::*;
use std::collections::BTreeMap;

const UNCHANGED: TableMod =
    TableMod { table: None, miss: None, evicts: None, eviction_flags: None, vacancy: None };

/// A bench with this flow limit for table 0.
fn bench(flow_limit: u32) -> Bench {
    let mut bench = Bench::new(0);
    let table = TableConfig { flow_limit: Some(flow_limit), ..TableConfig::default() };
    let config = BridgeConfig::clone(&bench.core.bridge(bench.bridge).unwrap().config);
    let config = BridgeConfig { tables: BTreeMap::from([(0, table)]), ..config };
    bench.core.set_bridge(bench.bridge, config, bench.now);
    bench
}

fn flow(priority: u16, command: FlowModCommand) -> Message {
    Message::FlowMod(FlowMod { command, idle_timeout_s: 60, ..add_flow(priority) })
}

fn refused(messages: &[Message]) -> Option<ErrorCode> {
    match messages {
        [Message::Error { code, .. }] => Some(*code),
        _ => None,
    }
}

fn descs(bench: &mut Bench, id: ConnId) -> Vec<TableDesc> {
    let mut all = Vec::new();
    for message in bench.ask(id, &Message::StatsRequest(StatsRequest::TableDesc)) {
        match message {
            Message::StatsReply(StatsReply::TableDesc(tables)) => all.extend(tables),
            other => panic!("{other:?}"),
        }
    }
    all
}

#[test]
fn a_table_tells_once_when_it_fills_and_once_when_it_empties() {
    let mut bench = bench(10);
    let id = bench.connect(Settings::controller(), Version::V14);
    let deaf = bench.connect(Settings::controller(), Version::V14);
    let table_status = [None, Some(1 << 3 | 1 << 4)];
    let table_status = [table_status[1], None];
    let only = Message::SetAsync(AsyncMasks { table_status, ..AsyncMasks::default() });
    bench.tell(id, &only);
    let events = VacancyEvents { down: 30, up: 60 };
    let table = Some(TableId(0));
    let table_mod = TableMod { table, vacancy: Some(Some(events)), ..UNCHANGED };
    bench.tell(id, &Message::TableMod(table_mod));
    let told = |bench: &mut Bench| -> Vec<(TableReason, u8)> {
        let told = bench.heard(id).into_iter().map(|message| match message {
            Message::TableStatus { reason, desc } => (reason, desc.vacancy.unwrap().1),
            other => panic!("{other:?}"),
        });
        told.collect()
    };
    for priority in 1..=7 {
        bench.tell(id, &flow(priority, FlowModCommand::Add));
    }
    assert_eq!(told(&mut bench), [], "30 % are free");
    bench.tell(id, &flow(8, FlowModCommand::Add));
    bench.tell(id, &flow(9, FlowModCommand::Add));
    assert_eq!(told(&mut bench), [(TableReason::VacancyDown, 20)]);
    for priority in 3..=9 {
        bench.tell(id, &flow(priority, FlowModCommand::DeleteStrict));
    }
    assert_eq!(told(&mut bench), [(TableReason::VacancyUp, 70)]);
    assert_eq!(descs(&mut bench, id)[0].vacancy, Some((events, 80)));
    bench.tell(id, &Message::TableMod(TableMod { vacancy: Some(None), ..UNCHANGED }));
    for priority in 3..=10 {
        bench.tell(id, &flow(priority, FlowModCommand::Add));
    }
    assert_eq!(told(&mut bench), []);
    assert_eq!(bench.heard(deaf), []);
}

#[test]
fn a_controller_turns_eviction_on_and_off() {
    let mut bench = bench(1);
    let id = bench.connect(Settings::controller(), Version::V14);
    bench.tell(id, &flow(1, FlowModCommand::Add));
    let full = Some(ErrorCode::TableFull);
    assert_eq!(refused(&bench.ask(id, &flow(2, FlowModCommand::Add))), full);
    let set = |evicts| Message::TableMod(TableMod { evicts: Some(evicts), ..UNCHANGED });
    assert_eq!(bench.ask(id, &set(true)), []);
    assert_eq!(bench.ask(id, &flow(2, FlowModCommand::Add)), []);
    assert_eq!(bench.flows(), 1);
    let tables = descs(&mut bench, id);
    assert_eq!((tables.len(), tables.iter().all(|table| table.evicts)), (254, true));
    assert_eq!(bench.ask(id, &set(false)), []);
    assert_eq!(refused(&bench.ask(id, &flow(3, FlowModCommand::Add))), full);
    assert!(descs(&mut bench, id).iter().all(|table| !table.evicts));
}

#[test]
fn what_cannot_be_set_is_refused() {
    let mut bench = Bench::new(0);
    let id = bench.connect(Settings::controller(), Version::V14);
    let table = |number| TableMod { table: Some(TableId(number)), ..UNCHANGED };
    let flags = |flags| TableMod { eviction_flags: Some(flags), ..UNCHANGED };
    for (table_mod, expected) in [
        (table(253), None),
        (table(254), Some(ErrorCode::TableModEperm)),
        (flags(7), None),
        (flags(2), Some(ErrorCode::TableModBadConfig)),
    ] {
        let heard = bench.ask(id, &Message::TableMod(table_mod));
        assert_eq!(refused(&heard), expected, "{table_mod:?}: {heard:?}");
    }
    bench.tell(id, &Message::RoleRequest { role: Role::Secondary, generation: Some(1) });
    bench.heard(id);
    let heard = bench.ask(id, &Message::TableMod(UNCHANGED));
    assert_eq!(refused(&heard), Some(ErrorCode::IsSecondary));
}

#[test]
fn tables_tell_what_becomes_of_packets_without_a_flow() {
    let mut bench = Bench::new(0);
    let id = bench.connect(Settings::controller(), Version::V12);
    let miss = Some(TableMiss::Continue);
    bench.tell(id, &Message::TableMod(TableMod { miss, table: Some(TableId(1)), ..UNCHANGED }));
    let replies = bench.ask(id, &Message::StatsRequest(StatsRequest::Table));
    let [Message::StatsReply(StatsReply::Table(tables))] = &replies[..] else {
        panic!("{replies:?}");
    };
    let misses: Vec<TableMiss> = tables.iter().map(|table| table.miss).take(3).collect();
    assert_eq!(misses, [TableMiss::Controller, TableMiss::Continue, TableMiss::Controller]);
}

/// The names of the tables that have one, or why the request was refused.
fn rename(
    bench: &mut Bench,
    id: ConnId,
    tables: &[TableFeatures],
) -> Result<Vec<(u8, String)>, ErrorCode> {
    let mut heard = Vec::new();
    let mut rest = tables.to_vec();
    loop {
        // Hardly more fit in one message.
        let tables: Vec<_> = rest.drain(..rest.len().min(16)).collect();
        let request = StatsRequest::TableFeatures { tables, more: !rest.is_empty() };
        heard.extend(bench.ask(id, &Message::StatsRequest(request)));
        if rest.is_empty() {
            break;
        }
    }
    let mut names = Vec::new();
    for message in heard {
        match message {
            Message::StatsReply(StatsReply::TableFeatures(tables)) => {
                let named = tables.into_iter().filter(|table| !table.name.is_empty());
                names.extend(named.map(|table| (table.table.0, table.name)));
            }
            Message::Error { code, .. } => return Err(code),
            other => panic!("{other:?}"),
        }
    }
    Ok(names)
}

fn wanted(number: u8, name: &str) -> TableFeatures {
    TableFeatures {
        table: TableId(number),
        replaces: true,
        name: name.into(),
        max_entries: 1_000_000,
        exceeds: false,
    }
}

#[test]
fn controllers_name_tables_that_the_database_does_not() {
    let mut bench = Bench::new(0);
    let id = bench.connect(Settings::controller(), Version::V13);
    let named = |names: &[(u8, &str)]| -> Vec<(u8, String)> {
        names.iter().map(|(number, name)| (*number, (*name).to_owned())).collect()
    };
    let mut all: Vec<TableFeatures> = (0..254).map(|number| wanted(number, "")).collect();
    all[3].name = "three".into();
    assert_eq!(rename(&mut bench, id, &all), Ok(named(&[(3, "three")])));
    // An incomplete request has no effect, and another begins anew.
    let tables = all[..2].to_vec();
    let begun = StatsRequest::TableFeatures { tables, more: true };
    let heard = bench.with(|connections, switch| {
        let message = Message::StatsRequest(begun);
        for bytes in openflow::encode(Version::V13, 8, &message, &Default::default()) {
            connections.receive(id, &bytes, switch);
        }
        connections.take_output(id, switch.core)
    });
    assert_eq!(heard, [0; 0]);
    let full = ErrorCode::TableFeaturesEperm;
    assert_eq!(rename(&mut bench, id, &all[..253]), Err(full));
    let with = |change: fn(&mut TableFeatures)| {
        let mut all = all.clone();
        change(&mut all[5]);
        all
    };
    for (change, code) in [
        (with(|table| table.max_entries = 5), full),
        (with(|table| table.table = TableId(4)), ErrorCode::TableFeaturesDuplicate),
        (with(|table| table.table = TableId(254)), full),
    ] {
        assert_eq!(rename(&mut bench, id, &change), Err(code));
    }
    // The database takes precedence, and the earlier setting is gone.
    let table = TableConfig { name: Some("main".into()), ..TableConfig::default() };
    let config = BridgeConfig::clone(&bench.core.bridge(bench.bridge).unwrap().config);
    let tables = BTreeMap::from([(0, table.clone()), (3, table)]);
    bench.core.set_bridge(bench.bridge, BridgeConfig { tables, ..config.clone() }, bench.now);
    assert_eq!(rename(&mut bench, id, &all), Err(full));
    let both = Ok(named(&[(0, "main"), (3, "main")]));
    assert_eq!(rename(&mut bench, id, &[]), both);
    (all[0].name, all[3].name) = ("main".into(), "main".into());
    assert_eq!(rename(&mut bench, id, &all), both);
    bench.core.set_bridge(bench.bridge, config, bench.now);
    assert_eq!(rename(&mut bench, id, &[]), Ok(vec![]));

    // OpenFlow 1.5 can change a single table.
    let id = bench.connect(Settings::controller(), Version::V15);
    let one = TableFeatures { replaces: false, ..wanted(7, "seven") };
    assert_eq!(rename(&mut bench, id, &[one]), Ok(named(&[(7, "seven")])));
    bench.tell(id, &Message::RoleRequest { role: Role::Secondary, generation: Some(1) });
    bench.heard(id);
    let none = TableFeatures { replaces: false, ..wanted(7, "") };
    assert_eq!(rename(&mut bench, id, &[none]), Err(ErrorCode::IsSecondary));
}
