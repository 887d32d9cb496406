//! The numbers of [`ErrorCode`] in each version (ovs: `include/openvswitch/ofp-errors.h`).
//!
//! If a version has no number of its own, the extension number of Open vSwitch (Nicira) or the ONF is used,
//! and the error contains the vendor.

use crate::bytes::{Input, Output};
use crate::error::{ErrorCode, OfError};
use crate::vendor::{NICIRA, ONF};
use crate::version::Version;
use ErrorCode as E;

/// OFPET_EXPERIMENTER of OpenFlow 1.2 and later.
const EXPERIMENTER: u16 = 0xffff;
/// NXET_VENDOR and NXVC_VENDOR_ERROR, which carry a vendor's error in OpenFlow 1.0 and 1.1.
const NX_VENDOR: u16 = 0xb0c2;
const NX_VENDOR_ERROR: u16 = 0;

/// The encoding of an error in one version.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Number {
    /// Type and code of the standard.
    Of(u16, u16),
    /// Nicira's type and code (before OpenFlow 1.2 only the code).
    Nx(u16, u16),
    /// The ONF's type, from OpenFlow 1.2 on.
    Onf(u16),
}
use Number::{Nx, Of, Onf};

/// An error and its numbers, each from a version on until the next entry. Versions before the first entry
/// have no number for it.
type Row = (ErrorCode, &'static [(Version, Number)]);

use Version::{V10, V11, V12, V13, V14, V15};

/// If two errors share a number, the first one is decoded.
#[rustfmt::skip]
const ROWS: &[Row] = &[
    (E::HelloIncompatible, &[(V10, Of(0, 0))]),
    (E::BadVersion, &[(V10, Of(1, 0))]),
    (E::BadType, &[(V10, Of(1, 1))]),
    (E::BadStat, &[(V10, Of(1, 2))]),
    (E::BadVendor, &[(V10, Of(1, 3))]),
    (E::BadSubtype, &[(V10, Of(1, 4))]),
    (E::RequestEperm, &[(V10, Of(1, 5))]),
    (E::IsSecondary, &[(V10, Of(1, 5)), (V12, Of(1, 10))]),
    (E::BadLen, &[(V10, Of(1, 6))]),
    (E::BufferUnknown, &[(V10, Of(1, 8))]),
    (E::BadTableId, &[(V10, Nx(1, 512)), (V11, Of(1, 9))]),
    (E::BadPort, &[(V10, Nx(1, 514)), (V12, Of(1, 11))]),
    (E::BadPacket, &[(V12, Of(1, 12))]),
    (E::ActionBadType, &[(V10, Of(2, 0))]),
    (E::ActionBadLen, &[(V10, Of(2, 1))]),
    (E::ActionBadVendor, &[(V10, Of(2, 2))]),
    (E::ActionBadVendorType, &[(V10, Of(2, 3))]),
    (E::ActionBadOutPort, &[(V10, Of(2, 4))]),
    (E::ActionBadArgument, &[(V10, Of(2, 5))]),
    (E::ActionTooMany, &[(V10, Of(2, 7))]),
    (E::ActionBadOutGroup, &[(V10, Nx(2, 9)), (V11, Of(2, 9))]),
    (E::ActionMatchInconsistent, &[(V10, Nx(1, 522)), (V11, Of(2, 10))]),
    (E::ActionUnsupportedOrder, &[(V11, Of(2, 11))]),
    (E::ActionBadTag, &[(V11, Of(2, 12))]),
    (E::ActionBadSetType, &[(V10, Nx(1, 523)), (V12, Of(2, 13))]),
    (E::ActionBadSetLen, &[(V10, Nx(1, 524)), (V12, Of(2, 14))]),
    (E::ActionBadSetArgument, &[(V10, Nx(1, 525)), (V12, Of(2, 15))]),
    (E::ActionBadSetMask, &[(V13, Onf(4250)), (V15, Of(2, 16))]),
    (E::InstructionUnknown, &[(V11, Of(3, 0))]),
    (E::InstructionUnsupported, &[(V10, Nx(2, 257)), (V11, Of(3, 1))]),
    (E::InstructionBadTableId, &[(V11, Of(3, 2))]),
    (E::InstructionBadExperimenter, &[(V11, Of(3, 5))]),
    (E::InstructionBadLen, &[(V12, Of(3, 7))]),
    (E::InstructionDuplicate, &[(V11, Nx(3, 256)), (V12, Onf(2600)), (V14, Of(3, 9))]),
    (E::MatchBadType, &[(V11, Of(4, 0))]),
    (E::MatchBadLen, &[(V11, Of(4, 1))]),
    (E::MatchBadWildcards, &[(V10, Nx(1, 262)), (V11, Of(4, 5))]),
    (E::MatchBadField, &[(V10, Nx(0, 263)), (V11, Of(4, 6))]),
    (E::MatchBadValue, &[(V10, Nx(1, 258)), (V11, Of(4, 7))]),
    (E::MatchBadMask, &[(V10, Nx(1, 259)), (V12, Of(4, 8))]),
    (E::MatchBadPrereq, &[(V10, Nx(1, 260)), (V12, Of(4, 9))]),
    (E::MatchDuplicateField, &[(V10, Nx(1, 261)), (V12, Of(4, 10))]),
    (E::FlowModUnknown, &[(V11, Of(5, 0))]),
    (E::TableFull, &[(V10, Of(3, 0)), (V11, Of(5, 1))]),
    (E::FlowModBadTableId, &[(V11, Of(5, 2))]),
    (E::Overlap, &[(V10, Of(3, 1)), (V11, Of(5, 3))]),
    (E::FlowModEperm, &[(V10, Of(3, 2)), (V11, Of(5, 4))]),
    (E::BadTimeout, &[(V11, Of(5, 5))]),
    (E::BadCommand, &[(V10, Of(3, 4)), (V11, Of(5, 6))]),
    (E::BadFlags, &[(V10, Nx(3, 258)), (V11, Nx(5, 258)), (V12, Of(5, 7))]),
    (E::PortModBadPort, &[(V10, Of(4, 0)), (V11, Of(7, 0))]),
    (E::PortModBadHwAddr, &[(V10, Of(4, 1)), (V11, Of(7, 1))]),
    (E::TableModBadTable, &[(V11, Of(8, 0))]),
    (E::TableModBadConfig, &[(V11, Of(8, 1))]),
    (E::TableModEperm, &[(V12, Of(8, 2))]),
    (E::TableFeaturesEperm, &[(V13, Of(13, 5))]),
    (E::TableFeaturesBadCommand, &[(V15, Of(13, 9))]),
    (E::TableFeaturesTooMany, &[(V15, Of(13, 10))]),
    (E::TableFeaturesDuplicate, &[(V13, Nx(44, 0))]),
    (E::QueueBadPort, &[(V10, Of(5, 0)), (V11, Of(9, 0))]),
    (E::QueueBadQueue, &[(V10, Of(5, 1)), (V11, Of(9, 1))]),
    (E::ConfigBadFlags, &[(V11, Of(10, 0))]),
    (E::RoleStale, &[(V12, Of(11, 0))]),
    (E::RoleBad, &[(V10, Nx(1, 513)), (V12, Of(11, 2))]),
    (E::GroupExists, &[(V10, Nx(6, 0)), (V11, Of(6, 0))]),
    (E::GroupInvalid, &[(V10, Nx(6, 1)), (V11, Of(6, 1))]),
    (E::GroupWatchUnsupported, &[(V10, Nx(6, 6)), (V11, Of(6, 6))]),
    (E::GroupUnknown, &[(V10, Nx(6, 8)), (V11, Of(6, 8))]),
    (E::GroupBadType, &[(V10, Nx(6, 10)), (V12, Of(6, 10))]),
    (E::GroupBadCommand, &[(V10, Nx(6, 11)), (V12, Of(6, 11))]),
    (E::GroupBadBucket, &[(V10, Nx(6, 12)), (V12, Of(6, 12))]),
    (E::GroupBadWatch, &[(V10, Nx(6, 13)), (V12, Of(6, 13))]),
    (E::GroupUnknownBucket, &[(V10, Nx(6, 15)), (V11, Of(6, 15))]),
    (E::GroupBucketExists, &[(V10, Nx(6, 16)), (V11, Of(6, 16))]),
    (E::MeterExists, &[(V13, Of(12, 1))]),
    (E::MeterInvalid, &[(V13, Of(12, 2))]),
    (E::MeterUnknown, &[(V13, Of(12, 3))]),
    (E::MeterBadCommand, &[(V13, Of(12, 4))]),
    (E::MeterBadFlags, &[(V13, Of(12, 5))]),
    (E::MeterBadRate, &[(V13, Of(12, 6))]),
    (E::MeterBadBand, &[(V13, Of(12, 8))]),
    (E::MeterOutOfMeters, &[(V13, Of(12, 10))]),
    (E::MeterOutOfBands, &[(V13, Of(12, 11))]),
    (E::TlvBadCommand, &[(V10, Nx(1, 527)), (V12, Nx(16, 0))]),
    (E::TlvBadLen, &[(V10, Nx(1, 528)), (V12, Nx(17, 0))]),
    (E::TlvBadIndex, &[(V10, Nx(1, 529)), (V12, Nx(18, 0))]),
    (E::TlvMapped, &[(V10, Nx(1, 531)), (V12, Nx(20, 0))]),
    (E::TlvDuplicate, &[(V10, Nx(1, 532)), (V12, Nx(21, 0))]),
    (E::TlvTableFull, &[(V10, Nx(1, 530)), (V12, Nx(19, 0))]),
    (E::TlvUnmapped, &[(V10, Nx(1, 536)), (V12, Nx(37, 0))]),
    (E::TlvInUse, &[(V10, Nx(1, 537)), (V12, Nx(38, 0))]),
    (E::BundleUnknown, &[(V13, Onf(2300)), (V14, Of(17, 0))]),
    (E::BundleEperm, &[(V13, Onf(2301)), (V14, Of(17, 1))]),
    (E::BundleBadId, &[(V13, Onf(2302)), (V14, Of(17, 2))]),
    (E::BundleExists, &[(V13, Onf(2303)), (V14, Of(17, 3))]),
    (E::BundleClosed, &[(V13, Onf(2304)), (V14, Of(17, 4))]),
    (E::BundleBadType, &[(V13, Onf(2306)), (V14, Of(17, 6))]),
    (E::BundleBadFlags, &[(V13, Onf(2307)), (V14, Of(17, 7))]),
    (E::BundleMessageBadXid, &[(V13, Onf(2309)), (V14, Of(17, 9))]),
    (E::BundleMessageUnsupported, &[(V13, Onf(2310)), (V14, Of(17, 10))]),
    (E::BundleMessageFailed, &[(V13, Onf(2313)), (V14, Of(17, 13))]),
    (E::BundleOutOfBundles, &[(V13, Onf(2305)), (V14, Of(17, 5))]),
    (E::BundleMessageTooMany, &[(V13, Onf(2312)), (V14, Of(17, 12))]),
    (E::BundleTimeout, &[(V13, Onf(2314)), (V14, Of(17, 14))]),
    (E::MonitorExists, &[(V10, Nx(1, 517)), (V12, Nx(6, 0)), (V14, Of(16, 1))]),
    (E::MonitorUnknown, &[(V10, Nx(1, 519)), (V12, Nx(8, 0)), (V14, Of(16, 3))]),
    (E::MonitorBadCommand, &[(V14, Of(16, 4))]),
    (E::MonitorBadFlags, &[(V10, Nx(1, 518)), (V12, Nx(7, 0)), (V14, Of(16, 5))]),
    (E::MonitorBadEvent, &[(V10, Nx(1, 520)), (V12, Nx(9, 0))]),
    (E::AsyncUnsupported, &[(V13, Onf(2371)), (V14, Of(15, 1))]),
    (E::PropertyBadType, &[(V10, Nx(13, 2)), (V12, Nx(25, 0)), (V13, Of(13, 2)), (V14, Of(14, 0))]),
    (E::PropertyBadLen, &[(V10, Nx(13, 3)), (V12, Nx(26, 0)), (V13, Of(13, 3)), (V14, Of(14, 1))]),
    (E::PropertyBadValue, &[(V10, Nx(13, 4)), (V12, Nx(27, 0)), (V13, Of(13, 4)), (V14, Of(14, 2))]),
    (E::ContinuationStale, &[(V10, Nx(1, 534)), (V12, Nx(35, 0))]),
    (E::MustBeZero, &[(V10, Nx(1, 515)), (V12, Nx(4, 0))]),
    (E::ActionMustBeZero, &[(V10, Nx(2, 256)), (V12, Nx(11, 0))]),
    (E::BadConjunction, &[(V10, Nx(2, 526)), (V12, Nx(15, 0))]),
    (E::BadHeaderType, &[(V13, Nx(39, 0))]),
    (E::UnknownProperty, &[(V13, Nx(40, 0))]),
    (E::BadEncapProperty, &[(V13, Nx(41, 0))]),
    (E::NxmInvalid, &[(V10, Nx(1, 256)), (V12, Nx(2, 0))]),
];

fn number(row: &Row, version: Version) -> Option<Number> {
    row.1.iter().rev().find(|(since, _)| *since <= version).map(|(_, number)| *number)
}

/// Returns whether the version encodes a vendor's error as in OpenFlow 1.0, before experimenter errors.
fn is_old(version: Version) -> bool {
    version < V12
}

/// Writes the body of an error message, without the offending bytes.
pub(crate) fn put_error(out: &mut Vec<u8>, version: Version, code: ErrorCode) {
    // NXBRC_UNENCODABLE_ERROR reports an error that this version cannot express.
    let unencodable = if is_old(version) { Nx(1, 521) } else { Nx(10, 0) };
    let number = match code {
        E::Raw { error_type, code } => Of(error_type, code),
        code => {
            let row = ROWS.iter().find(|row| row.0 == code);
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
    if is_old(version) {
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

/// Reads the body of an error message up to the data. For an unknown vendor error, the vendor (and in
/// OpenFlow 1.0 its numbers) remains at the front of the data.
pub(crate) fn take_error(input: &mut Input<'_>, version: Version) -> Result<ErrorCode, OfError> {
    let (error_type, code) = (input.u16()?, input.u16()?);
    let behind = *input;
    let raw = ErrorCode::Raw { error_type, code };
    let read = match (version, error_type, code) {
        (_, NX_VENDOR, NX_VENDOR_ERROR) if is_old(version) => {
            let (vendor, error_type, code) = (input.u32()?, input.u16()?, input.u16()?);
            (vendor == NICIRA).then_some(Nx(error_type, code))
        }
        _ if is_old(version) => Some(Of(error_type, code)),
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
        |row| row.0,
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
                put_error(&mut out, version, row.0);
                let mut input = Input::new(&out, ErrorCode::BadLen, "error");
                let back = take_error(&mut input, version).unwrap();
                let left = if matches!(back, E::Raw { .. }) { vendor_len(version) } else { 0 };
                assert_eq!(input.len(), left, "{:?} {version:?}", row.0);
                match number(row, version) {
                    Some(n) => {
                        let first = ROWS.iter().find(|row| number(row, version) == Some(n));
                        assert_eq!(Some(back), first.map(|row| row.0), "{version:?}");
                    }
                    None => assert!(matches!(back, E::Raw { .. }), "{back:?}"),
                }
            }
        }
    }
    /// Returns the number of bytes between the numbers of a vendor's error and the data.
    fn vendor_len(version: Version) -> usize {
        if is_old(version) { 8 } else { 4 }
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
