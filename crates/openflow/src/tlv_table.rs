//! NXT_TLV_TABLE_MOD and related messages: the mapping of tunnel options to the fields `tun_metadata0` to
//! `tun_metadata63` (ovs: `lib/ofp-match.c`, `ofputil_decode_tlv_table_mod`).

use crate::bytes::{Input, Output};
use crate::error::{ErrorCode, OfError};

/// The mapping of an option to a field.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TlvMap {
    /// The option's class.
    pub class: u16,
    /// The option's type.
    pub kind: u8,
    /// Bytes of the option's value.
    pub len: u8,
    /// `n` of `tun_metadata<n>`.
    pub index: u16,
}

/// The command of a table-mod.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TlvCommand {
    /// Adds mappings; options and fields that are mapped already are errors.
    Add,
    /// Removes the mappings of fields.
    Delete,
    /// Removes all mappings.
    Clear,
}

/// Reads the table-mod after its subtype.
pub(crate) fn take_mod(input: &mut Input<'_>) -> Result<(TlvCommand, Vec<TlvMap>), OfError> {
    let command = match input.u16()? {
        0 => TlvCommand::Add,
        1 => TlvCommand::Delete,
        2 => TlvCommand::Clear,
        other => {
            let reason = format!("tlv-table-mod: command {other}");
            return Err(OfError::new(ErrorCode::TlvBadCommand, reason));
        }
    };
    input.skip(6)?;
    Ok((command, take_maps(input)?))
}

/// Reads the reply after its subtype. Returns the space for options in bytes, the number of fields, and the
/// mappings.
pub(crate) fn take_reply(input: &mut Input<'_>) -> Result<(u32, u16, Vec<TlvMap>), OfError> {
    let (space, fields) = (input.u32()?, input.u16()?);
    input.skip(10)?;
    Ok((space, fields, take_maps(input)?))
}

fn take_maps(input: &mut Input<'_>) -> Result<Vec<TlvMap>, OfError> {
    let mut maps = Vec::new();
    while !input.is_empty() {
        let (class, kind, len) = (input.u16()?, input.u8()?, input.u8()?);
        let index = input.u16()?;
        input.skip(2)?;
        maps.push(TlvMap { class, kind, len, index });
    }
    Ok(maps)
}

/// Writes the table-mod after its subtype.
pub(crate) fn put_mod(out: &mut Vec<u8>, command: TlvCommand, maps: &[TlvMap]) {
    out.put_u16(command as u16);
    out.put_zeros(6);
    put_maps(out, maps);
}

/// Writes the reply after its subtype.
pub(crate) fn put_reply(out: &mut Vec<u8>, space: u32, fields: u16, maps: &[TlvMap]) {
    out.put_u32(space);
    out.put_u16(fields);
    out.put_zeros(10);
    put_maps(out, maps);
}

fn put_maps(out: &mut Vec<u8>, maps: &[TlvMap]) {
    for map in maps {
        out.put_u16(map.class);
        out.put_u8(map.kind);
        out.put_u8(map.len);
        out.put_u16(map.index);
        out.put_zeros(2);
    }
}
