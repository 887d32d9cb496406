//! OFPT_METER_MOD and the descriptions and statistics of meters (ovs: `lib/ofp-meter.c`).

use crate::bytes::{Input, Output};
use crate::duration::{put_duration, take_duration};
use crate::error::{ErrorCode, OfError};
use crate::message::{
    METER_BANDS_MAX, METERS_MAX, Message, MeterCommand, MeterDesc, MeterMod, MeterStats,
};
use flow::MeterBand;

/// OFPT_METER_MOD
pub(crate) const METER_MOD: u8 = 29;
/// OFPMBT_DROP and OFPMBT_DSCP_REMARK
const DROP: u16 = 1;
const DSCP_REMARK: u16 = 2;
/// Bytes of a band.
const BAND_BYTES: u16 = 16;
const FLAGS: u16 = MeterDesc::KBPS | MeterDesc::PKTPS | MeterDesc::BURST | MeterDesc::STATS;

fn bad(code: ErrorCode, reason: impl Into<String>) -> OfError {
    OfError::new(code, reason)
}

/// Reads the body of a meter-mod. For a deletion, everything but the number is ignored.
pub(crate) fn take(input: &mut Input<'_>) -> Result<Message, OfError> {
    let (command, flags, meter) = (input.u16()?, input.u16()?, input.u32()?);
    let command = match command {
        0 => MeterCommand::Add,
        1 => MeterCommand::Modify,
        2 => MeterCommand::Delete,
        _ => {
            let reason = format!("meter-mod: command {command} is unknown");
            return Err(bad(ErrorCode::MeterBadCommand, reason));
        }
    };
    if command == MeterCommand::Delete {
        input.take(input.len())?;
        let meter = MeterDesc { meter, ..MeterDesc::default() };
        return Ok(Message::MeterMod(MeterMod { command, meter }));
    }
    let both = MeterDesc::KBPS | MeterDesc::PKTPS;
    if flags & both == both || flags & !FLAGS != 0 {
        let reason = format!("meter-mod: flags {flags:#x} can't be");
        return Err(bad(ErrorCode::MeterBadFlags, reason));
    }
    let bands = take_bands(input)?;
    if bands.len() > METER_BANDS_MAX {
        let reason = format!("meter-mod: {} bands, more than {METER_BANDS_MAX}", bands.len());
        return Err(bad(ErrorCode::MeterOutOfBands, reason));
    }
    if bands.iter().any(|band| band.rate == 0) {
        return Err(bad(ErrorCode::MeterBadRate, "meter-mod: a band's rate is 0"));
    }
    let meter = MeterDesc { meter, flags, bands };
    Ok(Message::MeterMod(MeterMod { command, meter }))
}

fn take_bands(input: &mut Input<'_>) -> Result<Vec<MeterBand>, OfError> {
    let mut bands = Vec::new();
    while !input.is_empty() {
        let (kind, len) = (input.u16()?, input.u16()?);
        if len != BAND_BYTES {
            let reason = format!("meter-mod: a band of {len} bytes in place of {BAND_BYTES}");
            return Err(bad(ErrorCode::BadLen, reason));
        }
        let band = MeterBand { rate: input.u32()?, burst: input.u32()? };
        input.skip(4)?;
        match kind {
            DROP => bands.push(band),
            DSCP_REMARK => {
                let reason = "meter-mod: bands that change the DSCP are not supported";
                return Err(bad(ErrorCode::MeterBadBand, reason));
            }
            _ => {
                let reason = format!("meter-mod: band type {kind} is unknown");
                return Err(bad(ErrorCode::MeterBadBand, reason));
            }
        }
    }
    Ok(bands)
}

/// Writes the body of a meter-mod. Returns the type.
pub(crate) fn put(out: &mut Vec<u8>, meter_mod: &MeterMod) -> u8 {
    out.put_u16(match meter_mod.command {
        MeterCommand::Add => 0,
        MeterCommand::Modify => 1,
        MeterCommand::Delete => 2,
    });
    out.put_u16(meter_mod.meter.flags);
    out.put_u32(meter_mod.meter.meter);
    put_bands(out, &meter_mod.meter.bands);
    METER_MOD
}

fn put_bands(out: &mut Vec<u8>, bands: &[MeterBand]) {
    for band in bands {
        out.put_u16(DROP);
        out.put_u16(BAND_BYTES);
        out.put_u32(band.rate);
        out.put_u32(band.burst);
        out.put_zeros(4);
    }
}

/// Reads one meter's description.
pub(crate) fn take_desc(input: &mut Input<'_>) -> Result<MeterDesc, OfError> {
    let len = usize::from(input.u16()?);
    let mut body = input.part(len.saturating_sub(2))?;
    let (flags, meter) = (body.u16()?, body.u32()?);
    Ok(MeterDesc { meter, flags, bands: take_bands(&mut body)? })
}

/// Writes one meter's description.
pub(crate) fn put_desc(out: &mut Vec<u8>, desc: &MeterDesc) {
    let start = out.len();
    out.put_u16(0);
    out.put_u16(desc.flags);
    out.put_u32(desc.meter);
    put_bands(out, &desc.bands);
    let len = out.len() - start;
    out.set_u16(start, len);
}

/// Reads one meter's statistics.
pub(crate) fn take_stats(input: &mut Input<'_>) -> Result<MeterStats, OfError> {
    let (meter, len) = (input.u32()?, usize::from(input.u16()?));
    let mut body = input.part(len.saturating_sub(6))?;
    body.skip(6)?;
    let (flows, seen) = (body.u32()?, (body.u64()?, body.u64()?));
    let duration_ns = take_duration(&mut body)?;
    let bands = crate::bytes::all(&mut body, |input| Ok((input.u64()?, input.u64()?)))?;
    Ok(MeterStats { meter, flows, seen, duration_ns, bands })
}

/// Writes one meter's statistics.
pub(crate) fn put_stats(out: &mut Vec<u8>, stats: &MeterStats) {
    let start = out.len();
    out.put_u32(stats.meter);
    out.put_u16(0);
    out.put_zeros(6);
    out.put_u32(stats.flows);
    out.put_u64(stats.seen.0);
    out.put_u64(stats.seen.1);
    put_duration(out, stats.duration_ns);
    for (packets, bytes) in &stats.bands {
        out.put_u64(*packets);
        out.put_u64(*bytes);
    }
    let len = out.len() - start;
    out.set_u16(start + 4, len);
}

/// Writes the features of meters: bands of type drop, and no colours.
pub(crate) fn put_features(out: &mut Vec<u8>) {
    out.put_u32(METERS_MAX);
    out.put_u32(1 << DROP);
    out.put_u32(FLAGS.into());
    out.put(&[METER_BANDS_MAX as u8, 0, 0, 0]);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> Result<Message, ErrorCode> {
        let mut input = Input::new(bytes, ErrorCode::BadLen, "meter-mod");
        take(&mut input).map_err(|error| error.code)
    }

    #[test]
    fn a_meter_mod_reads_back_and_what_cannot_be_is_refused() {
        let meter = MeterDesc { meter: 7, flags: 6, bands: vec![MeterBand { rate: 5, burst: 9 }] };
        let meter_mod = MeterMod { command: MeterCommand::Modify, meter };
        let mut bytes = Vec::new();
        assert_eq!(put(&mut bytes, &meter_mod), METER_MOD);
        assert_eq!(read(&bytes), Ok(Message::MeterMod(meter_mod)));
        let with = |at: usize, byte: u8| {
            let mut changed = bytes.clone();
            changed[at] = byte;
            read(&changed)
        };
        for (at, byte, code) in [
            (1, 3, ErrorCode::MeterBadCommand),
            (3, 3, ErrorCode::MeterBadFlags),
            (3, 0x10, ErrorCode::MeterBadFlags),
            (9, 2, ErrorCode::MeterBadBand),
            (9, 3, ErrorCode::MeterBadBand),
            (11, 12, ErrorCode::BadLen),
            (15, 0, ErrorCode::MeterBadRate),
        ] {
            assert_eq!(with(at, byte), Err(code), "{at}");
        }
        let many = [&bytes[..8], &bytes[8..].repeat(METER_BANDS_MAX + 1)].concat();
        assert_eq!(read(&many), Err(ErrorCode::MeterOutOfBands));
    }

    #[test]
    fn descriptions_and_statistics_read_back() {
        let desc =
            MeterDesc { meter: 1, flags: 5, bands: vec![MeterBand { rate: 1, burst: 2 }; 2] };
        let stats = MeterStats {
            meter: 1,
            flows: 2,
            seen: (3, 4),
            duration_ns: 5_000_000_006,
            bands: vec![(7, 8)],
        };
        let mut bytes = Vec::new();
        put_desc(&mut bytes, &desc);
        let mut input = Input::new(&bytes, ErrorCode::BadLen, "a description");
        assert_eq!(take_desc(&mut input).unwrap(), desc);
        bytes.clear();
        put_stats(&mut bytes, &stats);
        let mut input = Input::new(&bytes, ErrorCode::BadLen, "statistics");
        assert_eq!(take_stats(&mut input).unwrap(), stats);
    }
}
