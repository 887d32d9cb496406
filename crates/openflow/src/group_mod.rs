//! Group-mods, and the buckets in them and in group descriptions (ovs: `lib/ofp-group.c`).

use crate::actions::{ActionForm, put_actions, take_actions};
use crate::bytes::{Input, Output};
use crate::error::{ErrorCode, OfError};
use crate::message::{
    BUCKET_MAX, Bucket, BucketPlace, GroupCommand, GroupMod, GroupType, HashField, Message,
    Selection, SelectionMethod,
};
use crate::oxm::{self, Proto, by_name};
use crate::port::{put_port, take_port};
use crate::vendor::{NETRONOME, NETRONOME_OLD, NICIRA};
use crate::version::Version;
use base::OfPort;

/// For OpenFlow 1.0; later versions have a message type for it.
pub(crate) const NXT_GROUP_MOD: u32 = 31;
/// OFPG_ANY
const ANY: u32 = 0xffff_ffff;
/// OFPG_BUCKET_FIRST, OFPG_BUCKET_LAST and OFPG_BUCKET_ALL.
const FIRST: u32 = 0xffff_fffd;
const LAST: u32 = 0xffff_fffe;
const ALL: u32 = 0xffff_ffff;
/// OFPGPT_EXPERIMENTER, and NTRT_SELECTION_METHOD.
const EXPERIMENTER: u16 = 0xffff;
const SELECTION_METHOD: u32 = 1;
/// Bytes of the method's name, including a terminating zero.
const METHOD_LEN: usize = 16;
/// OFPGBPT_WEIGHT, OFPGBPT_WATCH_PORT, OFPGBPT_WATCH_GROUP.
const WEIGHT: u16 = 0;
const WATCH_PORT: u16 = 1;
const WATCH_GROUP: u16 = 2;

fn bad(code: ErrorCode, reason: impl Into<String>) -> OfError {
    OfError::new(code, reason)
}

/// Returns whether groups have the format of OpenFlow 1.5: buckets have numbers and properties. Nicira's
/// extension of 1.0 has it too.
pub(crate) fn is_new(version: Version) -> bool {
    matches!(version, Version::V10 | Version::V15)
}

/// Reads a group-mod.
pub(crate) fn take(input: &mut Input<'_>, version: Version) -> Result<Message, OfError> {
    let (command, kind) = (input.u16()?, input.u8()?);
    input.skip(1)?;
    let group = input.u32()?;
    let (place, buckets, selection) = if is_new(version) {
        let len = usize::from(input.u16()?);
        input.skip(2)?;
        let place = input.u32()?;
        check_place(command, place)?;
        let buckets = take_new_buckets(input.part(len)?, version, kind)?;
        (place, buckets, take_selection(input, kind, Some(command))?)
    } else {
        (ALL, take_old_buckets(input, version)?, None)
    };
    let place = match place {
        FIRST => BucketPlace::First,
        LAST => BucketPlace::Last,
        ALL => BucketPlace::All,
        id => BucketPlace::Id(id),
    };
    let kind = group_type(kind)?;
    let command = match command {
        0 => GroupCommand::Add,
        1 => GroupCommand::Modify,
        2 => GroupCommand::Delete,
        3 => GroupCommand::InsertBucket(place),
        5 => GroupCommand::RemoveBucket(place),
        0x8000 => GroupCommand::AddOrModify,
        _ => {
            let reason = format!("group-mod: command {command} is unknown");
            return Err(bad(ErrorCode::GroupBadCommand, reason));
        }
    };
    let group_mod = GroupMod { command, group, kind, buckets, selection };
    check(&group_mod, version)?;
    Ok(Message::GroupMod(Box::new(group_mod)))
}

/// Rejects a bucket position that the command does not permit.
fn check_place(command: u16, place: u32) -> Result<(), OfError> {
    let is_one = place <= BUCKET_MAX || matches!(place, FIRST | LAST);
    let fits = match command {
        5 => is_one || place == ALL,
        3 => is_one,
        _ => place == ALL,
    };
    if fits {
        return Ok(());
    }
    let reason = format!("group-mod: command {command} can't mean bucket {place:#x}");
    Err(bad(ErrorCode::GroupBadBucket, reason))
}

pub(crate) fn group_type(raw: u8) -> Result<GroupType, OfError> {
    let unknown = || bad(ErrorCode::GroupBadType, format!("group type {raw} is unknown"));
    GroupType::ALL.get(usize::from(raw)).copied().ok_or_else(unknown)
}

pub(crate) fn type_number(kind: GroupType) -> u8 {
    GroupType::ALL.iter().position(|known| *known == kind).unwrap_or(0) as u8
}

/// Rejects invalid groups (ovs: `ofputil_check_group_mod`).
fn check(group_mod: &GroupMod, version: Version) -> Result<(), OfError> {
    let invalid = |reason: &str| bad(ErrorCode::GroupInvalid, format!("group-mod: {reason}"));
    let (command, kind) = (group_mod.command, group_mod.kind);
    let deletes = command == GroupCommand::Delete;
    if kind == GroupType::Indirect && !deletes && group_mod.buckets.len() != 1 {
        return Err(invalid("an indirect group has one bucket"));
    }
    if deletes && !group_mod.buckets.is_empty() && version >= Version::V13 {
        return Err(invalid("a deletion has no buckets"));
    }
    if matches!(command, GroupCommand::RemoveBucket(_)) && !group_mod.buckets.is_empty() {
        let reason = "group-mod: buckets are taken out by their numbers";
        return Err(bad(ErrorCode::GroupBadBucket, reason));
    }
    let inserts = matches!(command, GroupCommand::InsertBucket(_));
    for bucket in &group_mod.buckets {
        if bucket.weight != 0 && kind != GroupType::Select && !inserts {
            return Err(invalid("only buckets of a select group have weights"));
        }
        match kind {
            GroupType::All | GroupType::Indirect if bucket.is_watched() => {
                let reason = format!("a group of type {} watches nothing", kind.name());
                return Err(bad(ErrorCode::GroupWatchUnsupported, reason));
            }
            GroupType::FastFailover if !bucket.is_watched() => {
                return Err(invalid("a bucket of a fast failover group watches a port or a group"));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Reads buckets in the format of OpenFlow 1.1 to 1.4.
pub(crate) fn take_old_buckets(
    input: &mut Input<'_>,
    version: Version,
) -> Result<Vec<Bucket>, OfError> {
    let mut buckets = Vec::new();
    while !input.is_empty() {
        let Ok(len) = input.u16().map(usize::from) else { return Err(bad_bucket()) };
        let Some(rest) = len.checked_sub(2).filter(|&rest| rest >= 14 && rest <= input.len())
        else {
            return Err(bad_bucket());
        };
        let mut body = input.part(rest)?;
        let weight = body.u16()?;
        let watch_port = take_port(&mut body, version)
            .map_err(|error| OfError { code: ErrorCode::GroupBadWatch, ..error })?;
        let watch_group = Some(body.u32()?).filter(|&group| group != ANY);
        body.skip(4)?;
        let actions = take_actions(body.rest(), version)?;
        let id = buckets.len() as u32;
        buckets.push(Bucket { id, weight, watch_port, watch_group, actions });
    }
    Ok(buckets)
}

fn bad_bucket() -> OfError {
    bad(ErrorCode::GroupBadBucket, "a bucket's length is not that of its bytes")
}

/// Reads buckets in the format of OpenFlow 1.5.
pub(crate) fn take_new_buckets(
    mut input: Input<'_>,
    version: Version,
    kind: u8,
) -> Result<Vec<Bucket>, OfError> {
    let mut buckets: Vec<Bucket> = Vec::new();
    while !input.is_empty() {
        let Ok(len) = input.u16().map(usize::from) else { return Err(bad_bucket()) };
        let Some(rest) = len.checked_sub(2).filter(|&rest| rest >= 6 && rest <= input.len()) else {
            return Err(bad_bucket());
        };
        let mut body = input.part(rest)?;
        let (actions_len, id) = (usize::from(body.u16()?), body.u32()?);
        if actions_len > body.len() || id > BUCKET_MAX || buckets.iter().any(|it| it.id == id) {
            let reason = format!("bucket {id:#x}: its number or its actions' length can't be");
            return Err(bad(ErrorCode::GroupBadBucket, reason));
        }
        let actions = take_actions(body.take(actions_len)?, version)?;
        let weight = u16::from(kind == type_number(GroupType::Select));
        let mut bucket =
            Bucket { id, weight, watch_port: OfPort::NONE, watch_group: None, actions };
        while !body.is_empty() {
            let (property, mut value) = body.property()?;
            match property {
                WEIGHT => bucket.weight = value.u16()?,
                // The port also has 32 bits in Nicira's format.
                WATCH_PORT => {
                    bucket.watch_port = OfPort::from_wire32(value.u32()?).ok_or_else(|| {
                        bad(ErrorCode::GroupBadWatch, format!("bucket {id:#x}: no port to watch"))
                    })?;
                }
                WATCH_GROUP => {
                    bucket.watch_group = Some(value.u32()?).filter(|&group| group != ANY);
                }
                _ => {
                    let reason = format!("bucket {id:#x}: property {property} is unknown");
                    return Err(bad(ErrorCode::PropertyBadType, reason));
                }
            }
        }
        buckets.push(bucket);
    }
    Ok(buckets)
}

/// Reads a group's properties, of which only the selection method is defined. `command` is that of a
/// group-mod.
pub(crate) fn take_selection(
    input: &mut Input<'_>,
    kind: u8,
    command: Option<u16>,
) -> Result<Option<Selection>, OfError> {
    let refused = |reason: String| bad(ErrorCode::PropertyBadValue, reason);
    let mut selection = None;
    while !input.is_empty() {
        let (property, mut value) = input.property()?;
        let known = property == EXPERIMENTER
            && matches!(value.u32()?, NETRONOME | NETRONOME_OLD)
            && value.u32()? == SELECTION_METHOD;
        if !known {
            let reason = format!("a group's property {property:#x} is unknown");
            return Err(bad(ErrorCode::PropertyBadType, reason));
        }
        if group_type(kind)? != GroupType::Select || matches!(command, Some(2 | 3 | 5)) {
            let reason = "selection_method goes only with a select group that is added or changed";
            return Err(refused(reason.to_owned()));
        }
        let short = |error: OfError| OfError { code: ErrorCode::PropertyBadLen, ..error };
        value.skip(4).map_err(short)?;
        let method = match &*value.text(METHOD_LEN).map_err(short)? {
            "hash" => SelectionMethod::Hash,
            "dp_hash" => SelectionMethod::DpHash,
            other => return Err(refused(format!("there is no selection_method '{other}'"))),
        };
        let param = value.u64().map_err(short)?;
        let fields = take_fields(&mut value)?;
        if !fields.is_empty() && method != SelectionMethod::Hash {
            return Err(refused("fields go only with selection_method=hash".to_owned()));
        }
        selection = Some(Selection { method, param, fields });
    }
    Ok(selection)
}

/// Reads fields, whose values are masks.
fn take_fields(input: &mut Input<'_>) -> Result<Vec<HashField>, OfError> {
    let mut fields: Vec<HashField> = Vec::new();
    while !input.is_empty() {
        let (spec, entry) = oxm::take_entry(input)?;
        let Some(mask) = oxm::hashed_bits(spec, &entry) else {
            let reason = format!("a hash can't look at these bits of {}", spec.name);
            return Err(bad(ErrorCode::MatchBadMask, reason));
        };
        if fields.iter().any(|field| field.name == spec.name) {
            let reason = format!("field {} is hashed twice", spec.name);
            return Err(bad(ErrorCode::MatchDuplicateField, reason));
        }
        fields.push(HashField { field: spec.bits_field(), name: spec.name, mask });
    }
    fields.sort_by_key(HashField::place);
    Ok(fields)
}

/// Writes a group-mod. Returns the type.
pub(crate) fn put(out: &mut Vec<u8>, version: Version, group_mod: &GroupMod) -> u8 {
    if version == Version::V10 {
        out.put_u32(NICIRA);
        out.put_u32(NXT_GROUP_MOD);
    }
    let (command, place) = match group_mod.command {
        GroupCommand::Add => (0, BucketPlace::All),
        GroupCommand::Modify => (1, BucketPlace::All),
        GroupCommand::Delete => (2, BucketPlace::All),
        GroupCommand::InsertBucket(place) => (3, place),
        GroupCommand::RemoveBucket(place) => (5, place),
        GroupCommand::AddOrModify => (0x8000, BucketPlace::All),
    };
    out.put_u16(command);
    out.put(&[type_number(group_mod.kind), 0]);
    out.put_u32(group_mod.group);
    if !is_new(version) {
        put_buckets(out, version, group_mod.kind, &group_mod.buckets);
        return 15;
    }
    let at = out.len();
    out.put_zeros(4);
    out.put_u32(match place {
        BucketPlace::Id(id) => id,
        BucketPlace::First => FIRST,
        BucketPlace::Last => LAST,
        BucketPlace::All => ALL,
    });
    let start = out.len();
    put_buckets(out, version, group_mod.kind, &group_mod.buckets);
    let len = out.len() - start;
    out.set_u16(at, len);
    put_selection(out, version, group_mod.selection.as_ref());
    if version == Version::V10 { 4 } else { 15 }
}

/// Writes buckets.
pub(crate) fn put_buckets(
    out: &mut Vec<u8>,
    version: Version,
    kind: GroupType,
    buckets: &[Bucket],
) {
    let form = ActionForm { version, proto: Proto::default() };
    for bucket in buckets {
        let start = out.len();
        if is_new(version) {
            out.put_u32(0);
            out.put_u32(bucket.id);
            let actions = out.len();
            put_actions(out, &bucket.actions, form);
            let len = out.len() - actions;
            out.set_u16(start + 2, len);
            put_bucket_properties(out, kind, bucket);
        } else {
            out.put_u16(0);
            out.put_u16(bucket.weight);
            put_port(out, version, bucket.watch_port);
            out.put_u32(bucket.watch_group.unwrap_or(ANY));
            out.put_zeros(4);
            put_actions(out, &bucket.actions, form);
        }
        let len = out.len() - start;
        out.set_u16(start, len);
    }
}

fn put_bucket_properties(out: &mut Vec<u8>, kind: GroupType, bucket: &Bucket) {
    if kind == GroupType::Select || bucket.weight != 0 {
        out.put_u16(WEIGHT);
        out.put_u16(8);
        out.put_u16(bucket.weight);
        out.put_zeros(2);
    }
    let mut wide = |property: u16, value: u32| {
        out.put_u16(property);
        out.put_u16(8);
        out.put_u32(value);
    };
    if bucket.watch_port != OfPort::NONE {
        wide(WATCH_PORT, bucket.watch_port.to_wire32());
    }
    if let Some(group) = bucket.watch_group {
        wide(WATCH_GROUP, group);
    }
}

/// Writes a group's selection method, if it was set.
pub(crate) fn put_selection(out: &mut Vec<u8>, version: Version, selection: Option<&Selection>) {
    let Some(selection) = selection else { return };
    let start = out.len();
    out.put_u16(EXPERIMENTER);
    out.put_u16(0);
    out.put_u32(NETRONOME);
    out.put_u32(SELECTION_METHOD);
    out.put_zeros(4);
    let name = match selection.method {
        SelectionMethod::Hash => "hash",
        SelectionMethod::DpHash => "dp_hash",
    };
    out.put_text(name, METHOD_LEN);
    out.put_u64(selection.param);
    for field in &selection.fields {
        if let Some(spec) = by_name(field.name) {
            let number = if version == Version::V10 { 0 } else { version as u8 };
            oxm::put_hashed(out, spec, number, field.mask);
        }
    }
    let len = out.len() - start;
    out.set_u16(start + 2, len);
    out.pad8(start);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(version: Version, body: &[u8]) -> Option<ErrorCode> {
        let mut input = Input::new(body, ErrorCode::BadLen, "a group-mod");
        take(&mut input, version).err().map(|error| error.code)
    }

    #[test]
    fn what_makes_no_group_is_refused() {
        let old: [(&[u8], ErrorCode); 6] = [
            // Indirect without a bucket; type 9; command 9; a bucket length of 8 bytes.
            (&[0, 0, 2, 0, 0, 0, 0, 1], ErrorCode::GroupInvalid),
            (&[0, 0, 9, 0, 0, 0, 0, 1], ErrorCode::GroupBadType),
            (&[0, 9, 0, 0, 0, 0, 0, 1], ErrorCode::GroupBadCommand),
            (&[0, 0, 0, 0, 0, 0, 0, 1, 0, 8, 0, 0, 0, 0, 0, 0], ErrorCode::GroupBadBucket),
            // A weight in a group of type all, and a fast failover bucket without a watch.
            (
                &[
                    0, 0, 0, 0, 0, 0, 0, 1, 0, 16, 0, 1, 255, 255, 255, 255, 255, 255, 255, 255, 0,
                    0, 0, 0,
                ],
                ErrorCode::GroupInvalid,
            ),
            (
                &[
                    0, 0, 3, 0, 0, 0, 0, 1, 0, 16, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255, 0,
                    0, 0, 0,
                ],
                ErrorCode::GroupInvalid,
            ),
        ];
        for (body, code) in old {
            assert_eq!(read(Version::V13, body), Some(code), "{body:?}");
        }
        let new: [(&[u8], ErrorCode); 3] = [
            // Buckets inserted at "all"; an addition with a position; an unknown property.
            (&[0, 3, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 255, 255, 255, 255], ErrorCode::GroupBadBucket),
            (&[0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1], ErrorCode::GroupBadBucket),
            (
                &[0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 255, 255, 255, 255, 0, 5, 0, 8, 0, 0, 0, 0],
                ErrorCode::PropertyBadType,
            ),
        ];
        for (body, code) in new {
            assert_eq!(read(Version::V15, body), Some(code), "{body:?}");
        }
    }
}
