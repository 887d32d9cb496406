//! Table-mods, table descriptions, and vacancy events (ovs: `lib/ofp-table.c`).

use crate::bytes::{Input, Output};
use crate::error::{ErrorCode, OfError};
use crate::message::{Message, TableDesc, TableMiss, TableMod, TableReason, VacancyEvents};
use crate::version::Version;
use base::TableId;

/// OFPTT_ALL
const ALL: u8 = 0xff;
/// OFPTC14_EVICTION
const EVICTION: u32 = 1 << 2;
/// OFPTC14_VACANCY_EVENTS
const VACANCY_EVENTS: u32 = 1 << 3;
/// OFPTMPT14_EVICTION
const EVICTION_PROPERTY: u16 = 2;
/// OFPTMPT14_VACANCY
const VACANCY_PROPERTY: u16 = 3;
/// Criteria of eviction: OFPTMPEF14_OTHER, IMPORTANCE and LIFETIME.
pub const EVICTION_FLAGS: u32 = 7;

fn bad(code: ErrorCode, reason: impl Into<String>) -> OfError {
    OfError::new(code, reason)
}

/// OFPTC11_TABLE_MISS_*
pub(crate) fn miss_number(miss: TableMiss) -> u32 {
    match miss {
        TableMiss::Controller => 0,
        TableMiss::Continue => 1,
        TableMiss::Drop => 2,
    }
}

/// Parses the number that [`miss_number`] returns.
pub(crate) fn miss(config: u32) -> TableMiss {
    match config & 3 {
        1 => TableMiss::Continue,
        2 => TableMiss::Drop,
        _ => TableMiss::Controller,
    }
}

/// The properties of a table: criteria of eviction, and the thresholds and value of the vacancy.
#[derive(Default)]
struct Properties {
    eviction_flags: Option<u32>,
    vacancy: Option<(VacancyEvents, u8)>,
}

fn take_properties(input: &mut Input<'_>) -> Result<Properties, OfError> {
    let mut out = Properties::default();
    while !input.is_empty() {
        let (kind, len) = (input.u16()?, usize::from(input.u16()?));
        if len != 8 || input.len() < 4 {
            let reason = format!("a table's property {kind} of {len} bytes");
            return Err(bad(ErrorCode::PropertyBadLen, reason));
        }
        match kind {
            EVICTION_PROPERTY => out.eviction_flags = Some(input.u32()?),
            VACANCY_PROPERTY => {
                let [down, up, vacancy, _] = input.array()?;
                out.vacancy = Some((VacancyEvents { down, up }, vacancy));
            }
            _ => {
                let reason = format!("a table's property {kind} is unknown");
                return Err(bad(ErrorCode::BadType, reason));
            }
        }
    }
    Ok(out)
}

fn put_eviction(out: &mut Vec<u8>, flags: u32) {
    out.put_u16(EVICTION_PROPERTY);
    out.put_u16(8);
    out.put_u32(flags);
}

fn put_vacancy(out: &mut Vec<u8>, events: VacancyEvents, vacancy: u8) {
    out.put_u16(VACANCY_PROPERTY);
    out.put_u16(8);
    out.put(&[events.down, events.up, vacancy, 0]);
}

fn config_number(evicts: bool, has_vacancy: bool) -> u32 {
    (if evicts { EVICTION } else { 0 }) | (if has_vacancy { VACANCY_EVENTS } else { 0 })
}

/// Reads OFPT_TABLE_MOD.
pub(crate) fn take(input: &mut Input<'_>, version: Version) -> Result<Message, OfError> {
    let table = input.u8()?;
    input.skip(3)?;
    let config = input.u32()?;
    let mut table_mod = TableMod {
        table: (table != ALL).then_some(TableId(table)),
        miss: matches!(version, Version::V11 | Version::V12).then(|| miss(config)),
        evicts: None,
        eviction_flags: None,
        vacancy: None,
    };
    if version >= Version::V14 {
        let Properties { eviction_flags, vacancy } = take_properties(input)?;
        if let Some((VacancyEvents { down, up }, vacancy)) = vacancy
            && (down > up || up > 100 || vacancy != 0)
        {
            let reason = format!("table-mod: thresholds of {down} and {up} %, {vacancy} % free");
            return Err(bad(ErrorCode::PropertyBadValue, reason));
        }
        let events = vacancy.map_or(VacancyEvents { down: 0, up: 0 }, |(events, _)| events);
        table_mod.evicts = Some(config & EVICTION != 0);
        table_mod.eviction_flags = eviction_flags;
        table_mod.vacancy = Some((config & VACANCY_EVENTS != 0).then_some(events));
    }
    Ok(Message::TableMod(table_mod))
}

/// Writes OFPT_TABLE_MOD.
pub(crate) fn put(out: &mut Vec<u8>, version: Version, table_mod: &TableMod) {
    out.put(&[table_mod.table.map_or(ALL, |table| table.0), 0, 0, 0]);
    if version < Version::V14 {
        let miss = table_mod.miss.filter(|_| version < Version::V13);
        return out.put_u32(miss.map_or(0, miss_number));
    }
    let vacancy = table_mod.vacancy.flatten();
    out.put_u32(config_number(table_mod.evicts == Some(true), vacancy.is_some()));
    if let Some(flags) = table_mod.eviction_flags {
        put_eviction(out, flags);
    }
    if let Some(events) = vacancy {
        put_vacancy(out, events, 0);
    }
}

/// Reads one table's description.
pub(crate) fn take_desc(input: &mut Input<'_>) -> Result<TableDesc, OfError> {
    let len = usize::from(input.u16()?);
    let mut body = input.part(len.saturating_sub(2))?;
    let table = TableId(body.u8()?);
    body.skip(1)?;
    let config = body.u32()?;
    let vacancy = take_properties(&mut body)?.vacancy.filter(|_| config & VACANCY_EVENTS != 0);
    Ok(TableDesc { table, evicts: config & EVICTION != 0, vacancy })
}

/// Writes one table's description.
pub(crate) fn put_desc(out: &mut Vec<u8>, desc: &TableDesc) {
    let start = out.len();
    out.put_u16(0);
    out.put(&[desc.table.0, 0]);
    out.put_u32(config_number(desc.evicts, desc.vacancy.is_some()));
    put_eviction(out, EVICTION_FLAGS);
    if let Some((events, vacancy)) = desc.vacancy {
        put_vacancy(out, events, vacancy);
    }
    let len = out.len() - start;
    out.set_u16(start, len);
}

/// Reads OFPT_TABLE_STATUS.
pub(crate) fn take_status(input: &mut Input<'_>) -> Result<Message, OfError> {
    let reason = match input.u8()? {
        3 => TableReason::VacancyDown,
        4 => TableReason::VacancyUp,
        other => {
            return Err(bad(ErrorCode::BadLen, format!("table status of reason {other}")));
        }
    };
    input.skip(7)?;
    Ok(Message::TableStatus { reason, desc: take_desc(input)? })
}

/// Writes OFPT_TABLE_STATUS.
pub(crate) fn put_status(out: &mut Vec<u8>, reason: TableReason, desc: &TableDesc) {
    out.put_u8(match reason {
        TableReason::VacancyDown => 3,
        TableReason::VacancyUp => 4,
    });
    out.put_zeros(7);
    put_desc(out, desc);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(version: Version, body: &[u8]) -> Result<Message, ErrorCode> {
        let mut input = Input::new(body, ErrorCode::BadLen, "a table-mod");
        take(&mut input, version).map_err(|error| error.code)
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let cases: [(&[u8], ErrorCode); 6] = [
            (&[0, 3, 0, 8, 81, 80, 0, 0], ErrorCode::PropertyBadValue),
            (&[0, 3, 0, 8, 20, 101, 0, 0], ErrorCode::PropertyBadValue),
            (&[0, 3, 0, 8, 20, 80, 1, 0], ErrorCode::PropertyBadValue),
            (&[0, 3, 0, 4, 20, 80, 0, 0], ErrorCode::PropertyBadLen),
            (&[0, 3, 0, 8, 20], ErrorCode::PropertyBadLen),
            (&[0, 1, 0, 8, 0, 0, 0, 0], ErrorCode::BadType),
        ];
        for (property, code) in cases {
            let body = [&[1, 0, 0, 0, 0, 0, 0, 8], property].concat();
            assert_eq!(read(Version::V14, &body), Err(code), "{property:?}");
        }
    }

    #[test]
    fn versions_configure_what_they_can() {
        let nothing =
            TableMod { table: None, miss: None, evicts: None, eviction_flags: None, vacancy: None };
        let body = [255, 0, 0, 0, 0, 0, 0, 6];
        let miss = Some(TableMiss::Drop);
        let old = TableMod { miss, ..nothing };
        let new = TableMod { evicts: Some(true), vacancy: Some(None), ..nothing };
        for (version, expect) in [
            (Version::V11, old),
            (Version::V12, old),
            (Version::V13, nothing),
            (Version::V14, new),
            (Version::V15, new),
        ] {
            assert_eq!(read(version, &body), Ok(Message::TableMod(expect)), "{version:?}");
        }
    }
}
