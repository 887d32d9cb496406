//! The numbers of [`ErrorCode`] in each version (ovs: `include/openvswitch/ofp-errors.h`).
//!
//! Where a version has no number of its own, Open vSwitch's (Nicira's) or the ONF's extension
//! number stands in, and the error carries the vendor.

use crate::bytes::{Input, Output};
use crate::error::{ErrorCode, OfError};
use crate::message::Version;
use crate::vendor::{NICIRA, ONF};
use ErrorCode as E;

/// OFPET_EXPERIMENTER of OpenFlow 1.2 and later.
const EXPERIMENTER: u16 = 0xffff;
/// NXET_VENDOR and NXVC_VENDOR_ERROR, by which OpenFlow 1.0 carries a vendor's error.
const NX_VENDOR: u16 = 0xb0c2;
const NX_VENDOR_ERROR: u16 = 0;

/// How one version writes an error.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Number {
    /// Type and code of the standard.
    Of(u16, u16),
    /// Nicira's type and code (the code only in OpenFlow 1.0).
    Nx(u16, u16),
    /// The ONF's type, in OpenFlow 1.3.
    Onf(u16),
}
use Number::{Nx, Of, Onf};

struct Row {
    code: ErrorCode,
    v10: Option<Number>,
    v13: Option<Number>,
    /// 1.4 and 1.5 agree but for `ActionBadSetMask`.
    v14: Option<Number>,
}

const fn row(
    code: ErrorCode,
    v10: Option<Number>,
    v13: Option<Number>,
    v14: Option<Number>,
) -> Row {
    Row { code, v10, v13, v14 }
}

/// The same numbers everywhere.
const fn all(code: ErrorCode, of: Number) -> Row {
    row(code, Some(of), Some(of), Some(of))
}

/// One number in 1.0, another from 1.3 on.
const fn two(code: ErrorCode, v10: Number, v13: Number) -> Row {
    row(code, Some(v10), Some(v13), Some(v13))
}

/// Not in 1.0.
const fn new(code: ErrorCode, v13: Number) -> Row {
    row(code, None, Some(v13), Some(v13))
}

/// A bundle error: ONF's in 1.3, standard from 1.4 on.
const fn bundle(code: ErrorCode, n: u16) -> Row {
    row(code, None, Some(Onf(2300 + n)), Some(Of(17, n)))
}

/// A property error: standard from 1.4 on, and before that among the errors of table features.
const fn property(code: ErrorCode, n: u16) -> Row {
    row(code, Some(Nx(13, n + 2)), Some(Of(13, n + 2)), Some(Of(14, n)))
}

/// The order matters where two errors share a number: the first is the one that is read.
const ROWS: &[Row] = &[
    all(E::HelloIncompatible, Of(0, 0)),
    all(E::BadVersion, Of(1, 0)),
    all(E::BadType, Of(1, 1)),
    all(E::BadStat, Of(1, 2)),
    all(E::BadVendor, Of(1, 3)),
    all(E::BadSubtype, Of(1, 4)),
    all(E::RequestEperm, Of(1, 5)),
    two(E::IsSecondary, Of(1, 5), Of(1, 10)),
    all(E::BadLen, Of(1, 6)),
    all(E::BufferUnknown, Of(1, 8)),
    two(E::BadTableId, Nx(1, 512), Of(1, 9)),
    two(E::BadPort, Nx(1, 514), Of(1, 11)),
    new(E::BadPacket, Of(1, 12)),
    all(E::ActionBadType, Of(2, 0)),
    all(E::ActionBadLen, Of(2, 1)),
    all(E::ActionBadVendor, Of(2, 2)),
    all(E::ActionBadVendorType, Of(2, 3)),
    all(E::ActionBadOutPort, Of(2, 4)),
    all(E::ActionBadArgument, Of(2, 5)),
    all(E::ActionTooMany, Of(2, 7)),
    two(E::ActionBadOutGroup, Nx(2, 9), Of(2, 9)),
    two(E::ActionMatchInconsistent, Nx(1, 522), Of(2, 10)),
    new(E::ActionUnsupportedOrder, Of(2, 11)),
    two(E::ActionBadSetType, Nx(1, 523), Of(2, 13)),
    two(E::ActionBadSetLen, Nx(1, 524), Of(2, 14)),
    two(E::ActionBadSetArgument, Nx(1, 525), Of(2, 15)),
    row(E::ActionBadSetMask, None, Some(Onf(4250)), Some(Onf(4250))),
    new(E::InstructionUnknown, Of(3, 0)),
    two(E::InstructionUnsupported, Nx(2, 257), Of(3, 1)),
    new(E::InstructionBadTableId, Of(3, 2)),
    new(E::InstructionBadLen, Of(3, 7)),
    row(E::InstructionDuplicate, None, Some(Onf(2600)), Some(Of(3, 9))),
    new(E::MatchBadType, Of(4, 0)),
    new(E::MatchBadLen, Of(4, 1)),
    two(E::MatchBadWildcards, Nx(1, 262), Of(4, 5)),
    two(E::MatchBadField, Nx(0, 263), Of(4, 6)),
    two(E::MatchBadValue, Nx(1, 258), Of(4, 7)),
    two(E::MatchBadMask, Nx(1, 259), Of(4, 8)),
    two(E::MatchBadPrereq, Nx(1, 260), Of(4, 9)),
    two(E::MatchDuplicateField, Nx(1, 261), Of(4, 10)),
    new(E::FlowModUnknown, Of(5, 0)),
    two(E::TableFull, Of(3, 0), Of(5, 1)),
    new(E::FlowModBadTableId, Of(5, 2)),
    two(E::Overlap, Of(3, 1), Of(5, 3)),
    two(E::FlowModEperm, Of(3, 2), Of(5, 4)),
    new(E::BadTimeout, Of(5, 5)),
    two(E::BadCommand, Of(3, 4), Of(5, 6)),
    two(E::BadFlags, Nx(3, 258), Of(5, 7)),
    two(E::PortModBadPort, Of(4, 0), Of(7, 0)),
    two(E::PortModBadHwAddr, Of(4, 1), Of(7, 1)),
    two(E::QueueBadPort, Of(5, 0), Of(9, 0)),
    two(E::QueueBadQueue, Of(5, 1), Of(9, 1)),
    new(E::RoleStale, Of(11, 0)),
    two(E::RoleBad, Nx(1, 513), Of(11, 2)),
    // No groups can be made: OFPGMFC_OUT_OF_GROUPS. No meters: OFPMMFC_OUT_OF_METERS.
    two(E::GroupUnsupported, Nx(6, 3), Of(6, 3)),
    two(E::GroupUnknown, Nx(6, 8), Of(6, 8)),
    two(E::GroupBadCommand, Nx(6, 11), Of(6, 11)),
    new(E::MeterInvalid, Of(12, 2)),
    new(E::MeterUnknown, Of(12, 3)),
    new(E::MeterBadCommand, Of(12, 4)),
    new(E::MeterUnsupported, Of(12, 10)),
    bundle(E::BundleUnknown, 0),
    bundle(E::BundleEperm, 1),
    bundle(E::BundleBadId, 2),
    bundle(E::BundleExists, 3),
    bundle(E::BundleClosed, 4),
    bundle(E::BundleBadType, 6),
    bundle(E::BundleBadFlags, 7),
    bundle(E::BundleMessageBadXid, 9),
    bundle(E::BundleMessageUnsupported, 10),
    bundle(E::BundleMessageFailed, 13),
    bundle(E::BundleOutOfBundles, 5),
    bundle(E::BundleMessageTooMany, 12),
    bundle(E::BundleTimeout, 14),
    row(E::AsyncUnsupported, None, Some(Onf(2371)), Some(Of(15, 1))),
    property(E::PropertyBadType, 0),
    property(E::PropertyBadLen, 1),
    property(E::PropertyBadValue, 2),
    two(E::MustBeZero, Nx(1, 515), Nx(4, 0)),
    two(E::NxmInvalid, Nx(1, 256), Nx(2, 0)),
];

fn number(row: &Row, version: Version) -> Option<Number> {
    match version {
        Version::V10 => row.v10,
        Version::V13 => row.v13,
        Version::V15 if row.code == E::ActionBadSetMask => Some(Of(2, 16)),
        Version::V14 | Version::V15 => row.v14,
    }
}

/// Writes the body of an error message, without the offending bytes.
pub(crate) fn put_error(out: &mut Vec<u8>, version: Version, code: ErrorCode) {
    // NXBRC_UNENCODABLE_ERROR says that there is an error that this version can't name.
    let unencodable = if version == Version::V10 { Nx(1, 521) } else { Nx(10, 0) };
    let number = match code {
        E::Raw { error_type, code } => Of(error_type, code),
        code => {
            let row = ROWS.iter().find(|row| row.code == code);
            row.and_then(|row| number(row, version)).unwrap_or(unencodable)
        }
    };
    let (vendor, error_type, code) = match number {
        Of(error_type, code) => {
            out.put_u16(error_type);
            out.put_u16(code);
            return;
        }
        Nx(error_type, code) => (NICIRA, error_type, code),
        Onf(error_type) => (ONF, error_type, 0),
    };
    if version == Version::V10 {
        out.put_u16(NX_VENDOR);
        out.put_u16(NX_VENDOR_ERROR);
        out.put_u32(vendor);
        out.put_u16(error_type);
        out.put_u16(code);
    } else {
        out.put_u16(EXPERIMENTER);
        out.put_u16(error_type);
        out.put_u32(vendor);
    }
}

/// Reads the body of an error message up to the offending bytes. Of a vendor's error that is not
/// known, the vendor (and in OpenFlow 1.0 its numbers) stays in front of those.
pub(crate) fn take_error(input: &mut Input<'_>, version: Version) -> Result<ErrorCode, OfError> {
    let (error_type, code) = (input.u16()?, input.u16()?);
    let behind = *input;
    let raw = ErrorCode::Raw { error_type, code };
    let read = match (version, error_type, code) {
        (Version::V10, NX_VENDOR, NX_VENDOR_ERROR) => {
            let (vendor, error_type, code) = (input.u32()?, input.u16()?, input.u16()?);
            (vendor == NICIRA).then_some(Nx(error_type, code))
        }
        (Version::V10, ..) => Some(Of(error_type, code)),
        (_, EXPERIMENTER, _) => match input.u32()? {
            NICIRA => Some(Nx(code, 0)),
            ONF => Some(Onf(code)),
            _ => None,
        },
        _ => Some(Of(error_type, code)),
    };
    let row = ROWS.iter().find(|row| read.is_some() && number(row, version) == read);
    Ok(row.map_or_else(
        || {
            *input = behind;
            raw
        },
        |row| row.code,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_reads_back_as_its_error_or_the_one_it_shares_it_with() {
        for version in Version::ALL {
            for row in ROWS {
                let mut out = Vec::new();
                put_error(&mut out, version, row.code);
                let mut input = Input::new(&out, ErrorCode::BadLen, "error");
                let back = take_error(&mut input, version).unwrap();
                let left = if matches!(back, E::Raw { .. }) { vendor_len(version) } else { 0 };
                assert_eq!(input.len(), left, "{:?} {version:?}", row.code);
                match number(row, version) {
                    Some(n) => {
                        let first = ROWS.iter().find(|row| number(row, version) == Some(n));
                        assert_eq!(Some(back), first.map(|row| row.code), "{version:?}");
                    }
                    None => assert!(matches!(back, E::Raw { .. }), "{back:?}"),
                }
            }
        }
    }
    /// What stands between the numbers of a vendor's error and the offending bytes.
    fn vendor_len(version: Version) -> usize {
        if version == Version::V10 { 8 } else { 4 }
    }

    /// Found by fuzzing: the vendor of an unknown error was lost.
    #[test]
    fn the_vendor_of_an_unknown_error_is_kept() {
        let cases: [(Version, &[u8]); 3] = [
            (Version::V10, &[0xb0, 0xc2, 0, 0, 0, 0, 0x12, 0x34, 0, 1, 0, 2, 0xaa]),
            (Version::V13, &[0xff, 0xff, 0, 7, 0, 0, 0x12, 0x34, 0xaa]),
            (Version::V15, &[0xff, 0xff, 0xff, 0, 0, 0, 0x23, 0x20, 0xaa]),
        ];
        for (version, bytes) in cases {
            let mut input = Input::new(bytes, ErrorCode::BadLen, "error");
            let code = take_error(&mut input, version).unwrap();
            let mut out = Vec::new();
            put_error(&mut out, version, code);
            out.put(input.rest());
            assert_eq!(out, bytes, "{version:?}");
        }
    }
}
