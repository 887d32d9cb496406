//! Tables' counters and descriptions.

use crate::bytes::{Input, Output};
use crate::error::OfError;
use crate::message::{TableMiss, TableStats};
use crate::oxm::{Spec, specs};
use crate::version::Version;
use crate::{of10_match, table_mod};
use base::TableId;

/// Bytes of a table's name.
pub(super) const NAME_LEN: usize = 32;

/// Instructions 1 to 5: `goto_table` to `clear_actions`.
const INSTRUCTIONS: u32 = 0x3e;
/// OFPAT_OUTPUT, SET_VLAN_VID to SET_TP_DST, SET_MPLS_LABEL to DEC_NW_TTL.
const ACTIONS_11: u32 = 0x01ff_e7ff;
/// OFPAT_OUTPUT, SET_MPLS_TTL to SET_FIELD.
const ACTIONS_12: u32 = 0x03ff_8001;
/// OFPFMF11_*: all fields but the type of the match.
const FIELDS_11: u32 = 0x0000_fbff;
/// Features of a table in OpenFlow 1.1: maskable fields, fields, instructions, and actions for write and
/// apply.
const ABILITIES_11: [u32; 5] = [FIELDS_11, FIELDS_11, INSTRUCTIONS, ACTIONS_11, ACTIONS_11];
/// Bytes of the features in OpenFlow 1.2, with settable fields and metadata.
const ABILITIES_12_LEN: usize = 8 * 2 + 4 * 2 + 8 * 4 + 4;

fn put_abilities_12(out: &mut Vec<u8>) {
    // Bits are the numbers of OpenFlow 1.2's own fields (OXM, class 0x8000), which end at 37.
    let fields = |wanted: fn(&Spec) -> bool| {
        let mut bits = 0u64;
        for spec in specs().iter().filter(|spec| spec.oxm.class == 0x8000 && wanted(spec)) {
            bits |= 1u64.checked_shl(spec.oxm.number.into()).unwrap_or(0) & ((1 << 38) - 1);
        }
        bits
    };
    out.put_u64(fields(|_| true));
    out.put_u64(fields(|_| true));
    out.put_u32(ACTIONS_12);
    out.put_u32(ACTIONS_12);
    out.put_u64(fields(|spec| spec.writable));
    out.put_u64(fields(|spec| spec.writable));
    // All of metadata can be matched and written.
    out.put_u64(u64::MAX);
    out.put_u64(u64::MAX);
    out.put_u32(INSTRUCTIONS);
}

pub(super) fn blank(table: u8) -> TableStats {
    TableStats {
        table: TableId(table),
        name: String::new(),
        active: 0,
        max_entries: 0,
        lookups: 0,
        matched: 0,
        miss: TableMiss::Controller,
    }
}

/// Reads one table. From OpenFlow 1.3 on, name and maximum are in the table features.
pub(super) fn take(input: &mut Input<'_>, version: Version) -> Result<TableStats, OfError> {
    let mut table = blank(input.u8()?);
    input.skip(if matches!(version, Version::V11 | Version::V12) { 7 } else { 3 })?;
    if version < Version::V13 {
        table.name = input.text(NAME_LEN)?;
        input.skip(match version {
            Version::V10 => 4,
            Version::V11 => ABILITIES_11.len() * 4,
            _ => ABILITIES_12_LEN,
        })?;
        if version != Version::V10 {
            table.miss = table_mod::miss(input.u32()?);
        }
        table.max_entries = input.u32()?;
    }
    table.active = input.u32()?;
    (table.lookups, table.matched) = (input.u64()?, input.u64()?);
    Ok(table)
}

/// Writes one table.
pub(super) fn put(out: &mut Vec<u8>, version: Version, table: &TableStats) {
    out.put(&[table.table.0, 0, 0, 0]);
    if matches!(version, Version::V11 | Version::V12) {
        out.put_zeros(4);
    }
    if version < Version::V13 {
        out.put_text(&table.name, NAME_LEN);
        match version {
            Version::V10 => out.put_u32(of10_match::ALL),
            Version::V11 => ABILITIES_11.iter().for_each(|bits| out.put_u32(*bits)),
            _ => put_abilities_12(out),
        }
        if version != Version::V10 {
            out.put_u32(table_mod::miss_number(table.miss));
        }
        out.put_u32(table.max_entries);
    }
    out.put_u32(table.active);
    out.put_u64(table.lookups);
    out.put_u64(table.matched);
}
