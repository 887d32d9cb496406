//! One entry: a header, a value, and an optional mask.

use super::prerequisite::Proto;
use super::table::{Code, Spec, by_code, for_field};
use crate::action::Subfield;
use crate::bytes::{Input, Output};
use crate::error::{ErrorCode, OfError};
use crate::version::Version;
use flow::{Field, OptionMapping, OptionMatch, Wide};

/// The header of an entry: 4 bytes, or 8 with an experimenter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Header {
    pub code: Code,
    pub has_mask: bool,
    /// Bytes of the value and mask together.
    pub len: usize,
}

/// An entry as on the wire.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub header: Header,
    pub value: u128,
    /// `None` for an exact match.
    pub mask: Option<u128>,
    /// The value and mask of a tunnel option, in place of the others.
    pub option: Option<OptionMatch>,
}

fn header(input: &mut Input<'_>) -> Result<Header, OfError> {
    let [c0, c1, number, len] = input.array()?;
    let class = u16::from_be_bytes([c0, c1]);
    let mut len = usize::from(len);
    let mut experimenter = 0;
    if class == 0xffff {
        if len < 4 {
            let reason = "an experimenter's match field has no room for the experimenter's number";
            return Err(OfError::new(ErrorCode::MatchBadLen, reason));
        }
        experimenter = input.u32()?;
        len -= 4;
    }
    let code = Code { class, number: number >> 1, experimenter };
    Ok(Header { code, has_mask: number & 1 != 0, len })
}

/// Reads the next entry of a match. All set bits of its value must be set in its mask (ovs: `lib/nx-match.c`,
/// `is_mask_consistent`).
pub(crate) fn take_raw_entry(input: &mut Input<'_>) -> Result<Entry, OfError> {
    let header = header(input)?;
    let raw = input.take(header.len)?;
    if header.has_mask && header.len % 2 != 0 {
        let reason = format!("match field {} has a mask and an odd length", describe(header.code));
        return Err(OfError::new(ErrorCode::MatchBadLen, reason));
    }
    let width = if header.has_mask { header.len / 2 } else { header.len };
    if let Some(index) = by_code(header.code).and_then(Spec::option) {
        return option(header, index, raw, width);
    }
    let number = |bytes: &[u8]| bytes.iter().fold(0u128, |n, &b| (n << 8) | u128::from(b));
    let (value, mask) = raw.split_at(width);
    let (value, mask) = (number(value), header.has_mask.then(|| number(mask)));
    if mask.is_some_and(|mask| value & !mask != 0) {
        return Err(beyond_mask(header));
    }
    Ok(Entry { header, value, mask, option: None })
}

fn beyond_mask(header: Header) -> OfError {
    let field = describe(header.code);
    let reason = format!("match field {field} has bits in its value that its mask leaves out");
    OfError::new(ErrorCode::MatchBadWildcards, reason)
}

/// Reads a tunnel option's value and mask of this width.
fn option(header: Header, index: u8, raw: &[u8], width: usize) -> Result<Entry, OfError> {
    if width > OptionMapping::LEN_MAX.into() {
        let reason = format!("match field {} has {width} bytes", describe(header.code));
        return Err(OfError::new(ErrorCode::MatchBadLen, reason));
    }
    let (value, mask) = raw.split_at(width);
    let mask = if header.has_mask { Wide::from_bytes(mask) } else { Wide::ONES };
    let value = Wide::from_bytes(value);
    if value & mask != value {
        return Err(beyond_mask(header));
    }
    let option = OptionMatch { index, len: width as u8, is_absent: false, value, mask };
    Ok(Entry { header, value: 0, mask: None, option: Some(option) })
}

/// Returns a field's number as text.
pub(crate) fn describe(code: Code) -> String {
    match by_code(code) {
        Some(spec) => spec.name.to_owned(),
        None if code.class == 0xffff => {
            format!("of experimenter {:#010x}, number {}", code.experimenter, code.number)
        }
        None => format!("of class {:#06x}, number {}", code.class, code.number),
    }
}

/// Returns the field, after checking the length.
pub(crate) fn known(header: Header) -> Result<&'static Spec, OfError> {
    let Some(spec) = by_code(header.code) else {
        let reason = format!("field {} is not supported", describe(header.code));
        return Err(OfError::new(ErrorCode::MatchBadField, reason));
    };
    let want = if header.has_mask { spec.bytes * 2 } else { spec.bytes };
    // The length of a tunnel option is that in the sender's table, or the maximum.
    let is_option = spec.option().is_some() && header.len <= want;
    if header.len != want && !is_option {
        let reason = format!("field {} has {} bytes, not {want}", spec.name, header.len);
        return Err(OfError::new(ErrorCode::MatchBadLen, reason));
    }
    Ok(spec)
}

/// Reads a header without a value in an action, of 4 or 8 bytes. Returns its field (ovs: `lib/nx-match.c`,
/// `nx_pull_header`).
pub(crate) fn take_header(input: &mut Input<'_>) -> Result<&'static Spec, OfError> {
    let in_match = |error: OfError, code| OfError { code, ..error };
    let header = header(input).map_err(|error| in_match(error, ErrorCode::MatchBadLen))?;
    let spec = known(exact(header)).map_err(|error| in_match(error, ErrorCode::MatchBadField))?;
    if header.has_mask {
        let reason = format!("field {} has a mask where only its name is due", spec.name);
        return Err(OfError::new(ErrorCode::MatchBadMask, reason));
    }
    Ok(spec)
}

/// Reads a header of 4 bytes in an action. Returns its field. The mask's bit is ignored (ovs: `lib/meta-flow.c`,
/// `mf_vl_mff_mf_from_nxm_header`).
pub(crate) fn take_id(input: &mut Input<'_>) -> Result<&'static Spec, OfError> {
    let [c0, c1, number, len] = input.array()?;
    let class = u16::from_be_bytes([c0, c1]);
    let code = Code { class, number: number >> 1, experimenter: 0 };
    let header = Header { code, has_mask: number & 1 != 0, len: len.into() };
    known(exact(header)).map_err(|error| OfError { code: ErrorCode::ActionBadSetType, ..error })
}

/// Returns the header of the same field without a mask (ovs: `lib/nx-match.c`, `nxm_make_exact_header`).
fn exact(header: Header) -> Header {
    let len = if header.has_mask { header.len / 2 } else { header.len };
    Header { has_mask: false, len, ..header }
}

/// Reads an entry in an action: field, value and mask. Here a mask is also permitted for fields without masks
/// in matches (ovs: `lib/nx-match.c`, `nx_pull_entry__`).
pub(crate) fn take_entry(input: &mut Input<'_>) -> Result<(&'static Spec, Entry), OfError> {
    let mut ahead = *input;
    let header =
        header(&mut ahead).map_err(|error| OfError { code: ErrorCode::MatchBadLen, ..error })?;
    let spec = known(header).map_err(|error| OfError {
        code: match error.code {
            // Half of the length is that of the value, if there is a mask.
            ErrorCode::MatchBadLen if header.len > usize::from(header.has_mask) => {
                ErrorCode::ActionBadSetLen
            }
            _ => ErrorCode::ActionBadSetType,
        },
        ..error
    })?;
    let entry = take_raw_entry(input).map_err(|error| match error.code {
        ErrorCode::ActionBadLen => OfError { code: ErrorCode::MatchBadLen, ..error },
        _ => error,
    })?;
    Ok((spec, entry))
}

/// Writes the header of a field for an action.
pub(crate) fn put_header(out: &mut Vec<u8>, part: &Subfield, proto: Proto, version: u8) {
    if let Some(spec) = for_field(part.field, proto) {
        let bytes = if part.option_len == 0 { spec.bytes } else { part.option_len.into() };
        put_code(out, spec.code(version), false, bytes);
    }
}

/// Writes a tunnel option with its value, and the mask unless it covers the whole value.
pub(crate) fn put_option(out: &mut Vec<u8>, version: u8, option: &OptionMatch) {
    let field = Field::tun_metadata(option.index);
    let Some(spec) = field.and_then(|field| for_field(field, Proto::default())) else { return };
    let len = option.len.into();
    let has_mask = option.mask != Wide::ONES;
    put_code(out, spec.code(version), has_mask, len);
    out.put(&option.value.to_bytes(len));
    if has_mask {
        out.put(&option.mask.to_bytes(len));
    }
}

pub(crate) fn put_code(out: &mut Vec<u8>, code: Code, has_mask: bool, bytes: usize) {
    let extra = if code.class == 0xffff { 4 } else { 0 };
    let len = bytes * if has_mask { 2 } else { 1 } + extra;
    out.put_u16(code.class);
    out.put_u8(code.number << 1 | u8::from(has_mask));
    out.put_u8(len as u8);
    if extra > 0 {
        out.put_u32(code.experimenter);
    }
}

/// Writes a field with its value, and the mask if given.
pub(crate) fn put_entry(
    out: &mut Vec<u8>,
    spec: &Spec,
    version: u8,
    value: u128,
    mask: Option<u128>,
) {
    put_code(out, spec.code(version), mask.is_some(), spec.bytes);
    out.put_uint(value, spec.bytes);
    if let Some(mask) = mask {
        out.put_uint(mask, spec.bytes);
    }
}

/// Returns the bits of a field that a group hashes, which are the value of an entry. For a tunnel option,
/// whose field in the key is its presence, these are all bits.
pub(crate) fn hashed_bits(spec: &Spec, entry: &Entry) -> Option<u128> {
    let ones = spec.field.all_ones();
    let is_whole = match &entry.option {
        Some(option) => {
            let whole = Wide::low_ones(u32::from(option.len) * 8);
            return (option.mask == Wide::ONES && option.value == whole).then_some(ones);
        }
        None => entry.value == ones,
    };
    (entry.mask.is_none() && (spec.maskable || is_whole)).then_some(entry.value)
}

/// Writes the bits of a field that a group hashes.
pub(crate) fn put_hashed(out: &mut Vec<u8>, spec: &Spec, version: u8, mask: u128) {
    match spec.option() {
        Some(index) => {
            let (len, ones) = (OptionMapping::LEN_MAX, Wide::low_ones(spec.bits));
            let mask = Wide::ONES;
            put_option(
                out,
                version,
                &OptionMatch { index, len, is_absent: false, value: ones, mask },
            );
        }
        None => put_entry(out, spec, version, mask, None),
    }
}

/// Writes only a field's number, in a list of fields that a table can match or set.
pub(crate) fn put_field_id(out: &mut Vec<u8>, spec: &Spec, version: Version, has_mask: bool) {
    put_code(out, spec.code(version as u8), has_mask, spec.bytes);
}
