//! Groups: their features, descriptions and statistics.

use crate::bytes::{Input, Output};
use crate::duration::{put_duration, take_duration};
use crate::error::OfError;
use crate::group_mod::{
    group_type, is_new, put_buckets, put_selection, take_new_buckets, take_old_buckets,
    take_selection, type_number,
};
use crate::message::{GROUP_MAX, GroupDesc, GroupStats};
use crate::version::Version;

/// OFPGFC_SELECT_WEIGHT, OFPGFC_SELECT_LIVENESS and OFPGFC_CHAINING.
const CAPABILITIES: u32 = 7;
/// All four types.
const TYPES: u32 = 0xf;

/// Writes the features of groups: the maximum number of groups of each type, and the `actions`, as bits of
/// the version's action numbers.
pub(crate) fn put_features(out: &mut Vec<u8>, version: Version) {
    // The standard actions that buckets support: output to mod_tp_dst in 1.0; in 1.1 these and those of later
    // versions without set_field.
    let actions: u32 = match version {
        Version::V10 => 0x7ff,
        Version::V11 => 0x7ff | bits(&[13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24]),
        _ => bits(&super::table_features::ACTIONS),
    };
    out.put_u32(TYPES);
    out.put_u32(CAPABILITIES);
    (0..4).for_each(|_| out.put_u32(GROUP_MAX));
    (0..4).for_each(|_| out.put_u32(actions));
}

fn bits(numbers: &[u16]) -> u32 {
    numbers.iter().fold(0, |bits, &number| bits | 1 << number)
}

/// Reads one group's description.
pub(crate) fn take_desc(input: &mut Input<'_>, version: Version) -> Result<GroupDesc, OfError> {
    let len = usize::from(input.u16()?);
    let mut body = input.part(len.saturating_sub(2))?;
    let kind = body.u8()?;
    body.skip(1)?;
    let group = body.u32()?;
    let (buckets, selection) = if is_new(version) {
        let len = usize::from(body.u16()?);
        body.skip(6)?;
        let buckets = take_new_buckets(body.part(len)?, version, kind)?;
        (buckets, take_selection(&mut body, kind, None)?)
    } else {
        (take_old_buckets(&mut body, version)?, None)
    };
    Ok(GroupDesc { group, kind: group_type(kind)?, buckets, selection })
}

/// Writes one group's description.
pub(crate) fn put_desc(out: &mut Vec<u8>, version: Version, desc: &GroupDesc) {
    let start = out.len();
    out.put_u16(0);
    out.put(&[type_number(desc.kind), 0]);
    out.put_u32(desc.group);
    if is_new(version) {
        out.put_zeros(8);
    }
    let buckets = out.len();
    put_buckets(out, version, desc.kind, &desc.buckets);
    if is_new(version) {
        let len = out.len() - buckets;
        out.set_u16(start + 8, len);
        put_selection(out, version, desc.selection.as_ref());
    }
    let len = out.len() - start;
    out.set_u16(start, len);
}

/// Returns whether group statistics contain the duration, which OpenFlow 1.1 and 1.2 lack.
fn has_duration(version: Version) -> bool {
    !matches!(version, Version::V11 | Version::V12)
}

/// Reads one group's statistics.
pub(crate) fn take_stats(input: &mut Input<'_>, version: Version) -> Result<GroupStats, OfError> {
    let len = usize::from(input.u16()?);
    let mut body = input.part(len.saturating_sub(2))?;
    body.skip(2)?;
    let (group, references) = (body.u32()?, body.u32()?);
    body.skip(4)?;
    let (packets, bytes) = (body.u64()?, body.u64()?);
    let duration_ns = if has_duration(version) { take_duration(&mut body)? } else { 0 };
    let buckets = crate::bytes::all(&mut body, |input| Ok((input.u64()?, input.u64()?)))?;
    Ok(GroupStats { group, references, duration_ns, packets, bytes, buckets })
}

/// Writes one group's statistics.
pub(crate) fn put_stats(out: &mut Vec<u8>, version: Version, stats: &GroupStats) {
    let start = out.len();
    out.put_u32(0);
    out.put_u32(stats.group);
    out.put_u32(stats.references);
    out.put_zeros(4);
    out.put_u64(stats.packets);
    out.put_u64(stats.bytes);
    if has_duration(version) {
        put_duration(out, stats.duration_ns);
    }
    for (packets, bytes) in &stats.buckets {
        out.put_u64(*packets);
        out.put_u64(*bytes);
    }
    let len = out.len() - start;
    out.set_u16(start, len);
}
