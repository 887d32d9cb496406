//! Table features: the same for all tables, except for the tables that `goto_table` can reach.

use super::table::{NAME_LEN, blank};
use crate::bytes::{Input, Output};
use crate::error::{ErrorCode, OfError};
use crate::message::{TableFeatures, TableStats};
use crate::oxm::{Spec, put_field_id, specs};
use crate::version::Version;
use base::{TableId, limits};
use std::collections::BTreeSet;

/// Properties (OpenFlow 1.3.1, section 7.3.5.5.2).
const INSTRUCTIONS: u16 = 0;
const NEXT_TABLES: u16 = 2;
const WRITE_ACTIONS: u16 = 4;
const APPLY_ACTIONS: u16 = 6;
const MATCH: u16 = 8;
const WILDCARDS: u16 = 10;
const WRITE_SETFIELD: u16 = 12;
const APPLY_SETFIELD: u16 = 14;
/// The bit of a field's header for a mask after the value.
const HAS_MASK: u32 = 1 << 8;
/// OFPAT_OUTPUT, SET_MPLS_TTL, DEC_MPLS_TTL, PUSH_VLAN, POP_VLAN, PUSH_MPLS, POP_MPLS, SET_QUEUE, GROUP, SET_NW_TTL,
/// DEC_NW_TTL, SET_FIELD
pub(super) const ACTIONS: [u16; 12] = [0, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25];

/// Reads one table's name and size; the properties are ignored.
pub(super) fn take(input: &mut Input<'_>) -> Result<TableStats, OfError> {
    let len = usize::from(input.u16()?);
    let Some(body) = len.checked_sub(2) else {
        return Err(OfError::new(ErrorCode::BadLen, "a table's features of no length"));
    };
    let mut body = input.part(body)?;
    let mut table = blank(body.u8()?);
    body.skip(5)?;
    table.name = body.text(NAME_LEN)?;
    body.skip(8 + 8 + 4)?;
    table.max_entries = body.u32()?;
    Ok(table)
}

/// Reads the requested features of tables.
pub(super) fn take_wanted(
    input: &mut Input<'_>,
    version: Version,
) -> Result<Vec<TableFeatures>, OfError> {
    let mut wanted = Vec::new();
    let mut own = None;
    while !input.is_empty() {
        let len = usize::from(input.u16()?);
        let mut body = input.part(len.saturating_sub(2))?;
        let (table, command) = (TableId(body.u8()?), body.u8()?);
        let replaces = match (version, command) {
            (Version::V15, 1) => false,
            (Version::V15, 2 | 3) => {
                let reason = "tables can't be enabled or disabled";
                return Err(OfError::new(ErrorCode::TableFeaturesEperm, reason));
            }
            (Version::V15, 4..) => {
                let reason = format!("table features: command {command} is unknown");
                return Err(OfError::new(ErrorCode::TableFeaturesBadCommand, reason));
            }
            _ => true,
        };
        body.skip(4)?;
        let name = body.text(NAME_LEN)?;
        body.skip(8 + 8 + 4)?;
        let max_entries = body.u32()?;
        let able = abilities(body)?;
        let own = match &own {
            Some(own) => own,
            None => own.insert(own_abilities(version)?),
        };
        let leads_back = |&(kind, id): &Ability| kind == NEXT_TABLES && id <= u64::from(table.0);
        let exceeds = !able.is_subset(own) || able.iter().any(leads_back);
        wanted.push(TableFeatures { table, replaces, name, max_entries, exceeds });
    }
    Ok(wanted)
}

/// Writes requested features: those of the switch's tables, with this name and size.
pub(super) fn put_wanted(out: &mut Vec<u8>, version: Version, wanted: &TableFeatures) {
    let table = TableStats {
        name: wanted.name.clone(),
        max_entries: wanted.max_entries,
        ..blank(wanted.table.0)
    };
    let command_at = out.len() + 3;
    put(out, version, &table, &all_tables());
    if let Some(command) = out.get_mut(command_at) {
        *command = u8::from(version == Version::V15 && !wanted.replaces);
    }
}

/// Returns the visible tables: the last one is internal, as in Open vSwitch.
fn all_tables() -> Vec<u8> {
    (0..limits::TABLES as u8 - 1).collect()
}

/// A property and one of its elements: a table, an instruction, an action or a field.
type Ability = (u16, u64);

/// Returns all elements of the properties. Those for table misses count as the others.
fn abilities(mut properties: Input<'_>) -> Result<BTreeSet<Ability>, OfError> {
    let mut able = BTreeSet::new();
    while !properties.is_empty() {
        let (kind, len) = (properties.u16()?, usize::from(properties.u16()?));
        let Some(len) = len.checked_sub(4) else {
            let reason = "a property of table features of less than 4 bytes";
            return Err(OfError::new(ErrorCode::PropertyBadLen, reason));
        };
        let mut list = properties.part(len)?;
        let padding = (len + 4).next_multiple_of(8) - (len + 4);
        properties.skip(padding.min(properties.len()))?;
        let kind = if kind <= APPLY_SETFIELD + 1 { kind & !1 } else { kind };
        while !list.is_empty() {
            match kind {
                NEXT_TABLES => drop(able.insert((kind, list.u8()?.into()))),
                INSTRUCTIONS | WRITE_ACTIONS | APPLY_ACTIONS => {
                    let (id, len) = (list.u16()?, usize::from(list.u16()?));
                    list.skip(len.saturating_sub(4))?;
                    able.insert((kind, id.into()));
                }
                _ => {
                    let header = list.u32()?;
                    let experimenter = if header >> 16 == 0xffff { list.u32()? } else { 0 };
                    let field = u64::from(experimenter) << 32 | u64::from(header >> 9 << 1);
                    able.insert((kind, field));
                    // A field that can be matched with a mask can also be matched without.
                    if kind == MATCH && header & HAS_MASK != 0 {
                        able.insert((kind, field | 1));
                    }
                }
            }
        }
    }
    Ok(able)
}

/// Returns the features of the first table, which can reach all others.
fn own_abilities(version: Version) -> Result<BTreeSet<Ability>, OfError> {
    let mut own = Vec::new();
    put(&mut own, version, &blank(0), &all_tables());
    let mut own = Input::new(&own, ErrorCode::BadLen, "our table features");
    own.skip(64)?;
    abilities(own)
}

/// Writes one table's features. `tables` contains all tables.
pub(super) fn put(out: &mut Vec<u8>, version: Version, table: &TableStats, tables: &[u8]) {
    let start = out.len();
    out.put_u16(0);
    out.put(&[table.table.0, 0, 0, 0, 0, 0]);
    out.put_text(&table.name, NAME_LEN);
    // All of metadata can be matched and written.
    out.put_u64(u64::MAX);
    out.put_u64(u64::MAX);
    out.put_u32(0);
    out.put_u32(table.max_entries);
    let next: Vec<u8> = tables.iter().copied().filter(|&id| id > table.table.0).collect();
    property(out, INSTRUCTIONS, |out| {
        // goto_table (1) only if a table follows, then write_metadata to clear_actions, and meter (6), which is an
        // action in OpenFlow 1.5.
        let first = if next.is_empty() { 2 } else { 1 };
        let last = if version == Version::V15 { 5 } else { 6 };
        (first..=last).for_each(|instruction| put_id(out, instruction));
    });
    property(out, NEXT_TABLES, |out| out.put(&next));
    for (actions, fields) in [(WRITE_ACTIONS, WRITE_SETFIELD), (APPLY_ACTIONS, APPLY_SETFIELD)] {
        property(out, actions, |out| ACTIONS.iter().for_each(|&action| put_id(out, action)));
        let settable = |spec: &&Spec| spec.writable;
        property(out, fields, |out| {
            specs()
                .iter()
                .filter(settable)
                .for_each(|spec| put_field_id(out, spec, version, false));
        });
    }
    property(out, MATCH, |out| {
        specs().iter().for_each(|spec| put_field_id(out, spec, version, spec.maskable));
    });
    property(out, WILDCARDS, |out| {
        specs().iter().for_each(|spec| put_field_id(out, spec, version, false));
    });
    let len = out.len() - start;
    out.set_u16(start, len);
}

/// Writes an instruction or action without contents.
fn put_id(out: &mut Vec<u8>, id: u16) {
    out.put_u16(id);
    out.put_u16(4);
}

fn property(out: &mut Vec<u8>, kind: u16, body: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.put_u16(kind);
    out.put_u16(0);
    body(out);
    let len = out.len() - start;
    out.set_u16(start + 2, len);
    out.pad8(start);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_our_tables_say_of_themselves_is_not_too_much() {
        for version in [Version::V13, Version::V14, Version::V15] {
            let exceeds = |keep: usize, property: &[u8]| {
                let mut bytes = Vec::new();
                put(&mut bytes, version, &blank(7), &all_tables());
                bytes.truncate(keep);
                bytes.put(property);
                let len = bytes.len();
                bytes.set_u16(0, len);
                let mut input = Input::new(&bytes, ErrorCode::BadLen, "features");
                let wanted = take_wanted(&mut input, version).unwrap();
                assert_eq!(wanted[0].table, TableId(7));
                wanted[0].exceeds
            };
            let with = |property: [u8; 8]| exceeds(usize::MAX, &property);
            assert!(!exceeds(usize::MAX, &[]));
            assert!(!exceeds(64, &[]), "no properties");
            // For table misses: output, set_queue and copy_ttl_out; meter and another instruction; tables 8 and 7.
            assert!(!with([0, 5, 0, 8, 0, 0, 0, 4]));
            assert!(!with([0, 5, 0, 8, 0, 21, 0, 4]));
            assert!(with([0, 5, 0, 8, 0, 11, 0, 4]));
            assert_eq!(with([0, 1, 0, 8, 0, 6, 0, 4]), version == Version::V15);
            assert!(with([0, 1, 0, 8, 0, 7, 0, 4]));
            assert!(!with([0, 3, 0, 5, 8, 0, 0, 0]));
            assert!(with([0, 3, 0, 5, 7, 0, 0, 0]));
            assert!(with([0, 99, 0, 8, 0, 0, 0, 0]), "an unknown property");
        }
    }
}
