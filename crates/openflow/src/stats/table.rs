//! Tables' counters and descriptions.

use crate::bytes::{Input, Output};
use crate::error::OfError;
use crate::message::{TableStats, Version};
use crate::of10_match;
use base::TableId;

/// Bytes of a table's name.
pub(super) const NAME_LEN: usize = 32;

pub(super) fn blank(table: u8) -> TableStats {
    TableStats {
        table: TableId(table),
        name: String::new(),
        active: 0,
        max_entries: 0,
        lookups: 0,
        matched: 0,
    }
}

/// Reads one table. From OpenFlow 1.3 on, name and maximum are in the table features.
pub(super) fn take(input: &mut Input<'_>, version: Version) -> Result<TableStats, OfError> {
    let mut table = blank(input.u8()?);
    input.skip(3)?;
    if version == Version::V10 {
        table.name = input.text(NAME_LEN)?;
        input.skip(4)?;
        table.max_entries = input.u32()?;
    }
    table.active = input.u32()?;
    (table.lookups, table.matched) = (input.u64()?, input.u64()?);
    Ok(table)
}

/// Writes one table.
pub(super) fn put(out: &mut Vec<u8>, version: Version, table: &TableStats) {
    out.put(&[table.table.0, 0, 0, 0]);
    if version == Version::V10 {
        out.put_text(&table.name, NAME_LEN);
        out.put_u32(of10_match::ALL);
        out.put_u32(table.max_entries);
    }
    out.put_u32(table.active);
    out.put_u64(table.lookups);
    out.put_u64(table.matched);
}

/// Reads one table's description.
pub(super) fn take_desc(input: &mut Input<'_>) -> Result<TableStats, OfError> {
    let len = usize::from(input.u16()?);
    let mut body = input.part(len.saturating_sub(2))?;
    let table = blank(body.u8()?);
    body.skip(5)?;
    Ok(table)
}

/// Writes one table's description: it evicts nothing and reports nothing.
pub(super) fn put_desc(out: &mut Vec<u8>, table: &TableStats) {
    out.put_u16(8);
    out.put(&[table.table.0, 0]);
    out.put_u32(0);
}
