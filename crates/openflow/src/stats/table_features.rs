//! What tables can do: the same for all of them, but for the tables that each can lead on to.

use super::table::{NAME_LEN, blank};
use crate::bytes::{Input, Output};
use crate::error::{ErrorCode, OfError};
use crate::message::{TableStats, Version};
use crate::oxm::{Spec, put_field_id, specs};

/// Properties (OpenFlow 1.3.1, section 7.3.5.5.2).
const INSTRUCTIONS: u16 = 0;
const NEXT_TABLES: u16 = 2;
const WRITE_ACTIONS: u16 = 4;
const APPLY_ACTIONS: u16 = 6;
const MATCH: u16 = 8;
const WILDCARDS: u16 = 10;
const WRITE_SETFIELD: u16 = 12;
const APPLY_SETFIELD: u16 = 14;
/// OFPAT_OUTPUT, PUSH_VLAN, POP_VLAN, SET_NW_TTL, DEC_NW_TTL, SET_FIELD
const ACTIONS: [u16; 6] = [0, 17, 18, 23, 24, 25];

/// Reads one table's name and size; the properties are passed over.
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

/// Writes one table's features. `tables` are all there are.
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
        // goto_table (1) only where a table follows, then write_metadata to clear_actions.
        let first = if next.is_empty() { 2 } else { 1 };
        (first..=5).for_each(|instruction| put_id(out, instruction));
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

/// An instruction or action without anything in it.
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
