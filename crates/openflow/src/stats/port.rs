//! Ports' counters.

use crate::bytes::{Input, Output};
use crate::duration::{put_duration, take_duration};
use crate::error::{ErrorCode, OfError};
use crate::message::PortStats;
use crate::port::{put_port, take_port};
use crate::version::Version;

/// Counters in OpenFlow 1.4's fixed part; the others are Ethernet's.
const PLAIN: usize = 8;
/// Bytes of OpenFlow 1.4's fixed part and the Ethernet property after it.
const LEN_14: usize = 80 + 40;

fn counter(raw: u64) -> Option<u64> {
    (raw != u64::MAX).then_some(raw)
}

/// Reads one port.
pub(super) fn take(input: &mut Input<'_>, version: Version) -> Result<PortStats, OfError> {
    let mut stats = PortStats::default();
    if version >= Version::V14 {
        take14(input, version, &mut stats)?;
        return Ok(stats);
    }
    stats.port = take_port(input, version)?;
    input.skip(if version == Version::V10 { 6 } else { 4 })?;
    for place in &mut stats.counters {
        *place = counter(input.u64()?);
    }
    if version == Version::V13 {
        stats.duration_ns = take_duration(input)?;
    }
    Ok(stats)
}

fn take14(input: &mut Input<'_>, version: Version, stats: &mut PortStats) -> Result<(), OfError> {
    let short =
        |len| OfError::new(ErrorCode::BadLen, format!("a port's statistics of {len} bytes"));
    let len = usize::from(input.u16()?);
    let mut body = input.part(len.checked_sub(2).ok_or_else(|| short(len))?)?;
    body.skip(2)?;
    stats.port = take_port(&mut body, version)?;
    stats.duration_ns = take_duration(&mut body)?;
    for place in stats.counters.iter_mut().take(PLAIN) {
        *place = counter(body.u64()?);
    }
    while !body.is_empty() {
        let (kind, len) = (body.u16()?, usize::from(body.u16()?));
        let mut property = body.part(len.checked_sub(4).ok_or_else(|| short(len))?)?;
        body.skip((len.next_multiple_of(8) - len).min(body.len()))?;
        if kind == 0 {
            property.skip(4)?;
            for place in stats.counters.iter_mut().skip(PLAIN) {
                *place = counter(property.u64()?);
            }
        }
    }
    Ok(())
}

/// Writes one port.
pub(super) fn put(out: &mut Vec<u8>, version: Version, stats: &PortStats) {
    let put_counters = |out: &mut Vec<u8>, counters: &[Option<u64>]| {
        counters.iter().for_each(|counter| out.put_u64(counter.unwrap_or(u64::MAX)));
    };
    if version >= Version::V14 {
        out.put_u16(LEN_14 as u16);
        out.put_zeros(2);
        put_port(out, version, stats.port);
        put_duration(out, stats.duration_ns);
        let (plain, ethernet) = stats.counters.split_at(PLAIN);
        put_counters(out, plain);
        out.put_u16(0);
        out.put_u16(40);
        out.put_zeros(4);
        put_counters(out, ethernet);
        return;
    }
    put_port(out, version, stats.port);
    out.put_zeros(if version == Version::V10 { 6 } else { 4 });
    put_counters(out, &stats.counters);
    if version == Version::V13 {
        put_duration(out, stats.duration_ns);
    }
}
