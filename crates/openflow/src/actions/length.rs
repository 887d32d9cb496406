//! Which actions there are in each version, and how long they are (ovs: `lib/ofp-actions.c`,
//! `enum ofp_raw_action_type`). Both are checked before an action's contents.

use crate::error::{ErrorCode, OfError};
use crate::vendor::{NICIRA, ONF};
use crate::version::Version;
use Version::{V10, V11, V12, V13, V14, V15};

/// OFPAT_VENDOR / OFPAT_EXPERIMENTER
pub(super) const EXPERIMENTER: u16 = 0xffff;
/// Bytes of the shortest action, and of a vendor's.
const HEADER: usize = 8;
const VENDORS_HEADER: usize = 16;

/// First and last number, first and last version, length, and whether longer ones are valid.
type Row = (u16, u16, Version, Version, u16, bool);

#[rustfmt::skip]
const STANDARD: &[Row] = &[
    (0, 0, V10, V10, 8, false),
    (0, 0, V11, V15, 16, false),
    // OpenFlow 1.1 removed `strip_vlan` from the sequence.
    (1, 3, V10, V10, 8, false),
    (4, 5, V10, V10, 16, false),
    (6, 10, V10, V10, 8, false),
    (11, 11, V10, V10, 16, false),
    (1, 2, V11, V15, 8, false),
    (3, 4, V11, V15, 16, false),
    (5, 10, V11, V15, 8, false),
    (13, 24, V11, V15, 8, false),
    (25, 25, V12, V15, 8, true),
    (28, 28, V15, V15, 16, true),
    (29, 29, V15, V15, 8, false),
];

#[rustfmt::skip]
const NICIRAS: &[Row] = &[
    (1, 2, V10, V15, 16, false),
    // OpenFlow 1.1 has its own set_queue, dec_ttl, group and actions on MPLS.
    (4, 4, V10, V10, 16, false),
    (18, 18, V10, V10, 16, false),
    (23, 26, V10, V10, 16, false),
    (30, 31, V10, V10, 16, false),
    (40, 40, V10, V10, 16, false),
    (5, 5, V10, V15, 16, false),
    // OpenFlow 1.5 has its own copy-field, and masks in its set-field.
    (6, 6, V10, V14, 16, true),
    (7, 7, V10, V14, 24, false),
    (33, 33, V10, V14, 16, true),
    (8, 8, V10, V15, 16, true),
    (9, 9, V10, V15, 24, false),
    (10, 10, V10, V15, 32, false),
    (12, 13, V10, V15, 32, true),
    (14, 14, V10, V15, 16, false),
    (15, 15, V10, V15, 24, false),
    (16, 16, V10, V15, 32, true),
    (17, 17, V10, V15, 16, false),
    (19, 20, V10, V15, 16, false),
    (21, 21, V10, V15, 16, true),
    (22, 22, V10, V15, 32, false),
    (27, 29, V10, V15, 24, false),
    (32, 32, V10, V15, 24, false),
    (34, 34, V10, V15, 16, false),
    (35, 35, V10, V15, 24, true),
    (36, 37, V10, V15, 16, true),
    (38, 38, V10, V15, 32, false),
    (39, 39, V10, V15, 16, false),
    (41, 41, V10, V15, 32, false),
    (42, 42, V10, V15, 16, true),
    (43, 44, V10, V15, 16, false),
    (45, 45, V10, V15, 40, true),
    (46, 47, V13, V15, 16, true),
    (48, 48, V13, V15, 16, false),
    (49, 49, V10, V15, 24, true),
    (50, 50, V10, V15, 24, false),
    (51, 51, V10, V15, 40, false),
    (254, 255, V10, V15, 16, false),
];

/// The copy-field of OpenFlow 1.3.
const ONFS: &[Row] = &[(3200, 3200, V13, V14, 24, true)];

fn bad(code: ErrorCode, reason: impl Into<String>) -> OfError {
    OfError::new(code, reason)
}

/// Returns the length of the action at the beginning of a list.
///
/// # Errors
/// The version has no such action, or it has another length.
pub(super) fn check(list: &[u8], version: Version) -> Result<usize, OfError> {
    let short = || bad(ErrorCode::ActionBadLen, "the actions end within an action");
    let [k0, k1, l0, l1, v0, v1, v2, v3, ..] = *list else { return Err(short()) };
    let (kind, len) = (u16::from_be_bytes([k0, k1]), u16::from_be_bytes([l0, l1]));
    let (rows, number) = if kind == EXPERIMENTER {
        let vendor = u32::from_be_bytes([v0, v1, v2, v3]);
        let rows = match vendor {
            NICIRA => NICIRAS,
            ONF => ONFS,
            _ => {
                let reason = format!("actions of vendor {vendor:#010x} are not supported");
                return Err(bad(ErrorCode::ActionBadVendor, reason));
            }
        };
        let [s0, s1, _, _, _, _, _, _] = list.get(HEADER..VENDORS_HEADER).ok_or_else(short)? else {
            return Err(short());
        };
        (rows, u16::from_be_bytes([*s0, *s1]))
    } else {
        (STANDARD, kind)
    };
    let is_this =
        |row: &&Row| (row.0..=row.1).contains(&number) && (row.2..=row.3).contains(&version);
    let Some(&(_, _, _, _, least, grows)) = rows.iter().find(is_this) else {
        let code = match kind {
            EXPERIMENTER => ErrorCode::ActionBadVendorType,
            _ => ErrorCode::ActionBadType,
        };
        return Err(bad(code, format!("there is no action {number} in {version:?}")));
    };
    let is_valid = if grows { len >= least && len % 8 == 0 } else { len == least };
    if !is_valid || usize::from(len) > list.len() {
        let reason =
            format!("an action {number} is {len} bytes long, of {} in the list", list.len());
        return Err(bad(ErrorCode::ActionBadLen, reason));
    }
    Ok(len.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_before_lengths() {
        let vendors = |vendor: u32, subtype: u16, len: u16| {
            let mut list = [[0xff, 0xff], len.to_be_bytes()].concat();
            list.extend([&vendor.to_be_bytes()[..], &subtype.to_be_bytes(), &[0; 6]].concat());
            list
        };
        let cases: [(Vec<u8>, Version, Result<usize, ErrorCode>); 10] = [
            (vec![0, 0, 0, 8, 0, 1, 0, 0], V10, Ok(8)),
            (vec![0, 0, 0, 8, 0, 1, 0, 0], V11, Err(ErrorCode::ActionBadLen)),
            (vec![0, 0, 0, 8, 0, 1, 0], V10, Err(ErrorCode::ActionBadLen)),
            (vec![0, 12, 0, 9, 0, 1, 0, 0], V10, Err(ErrorCode::ActionBadType)),
            (vendors(NICIRA, 17, 16), V15, Ok(16)),
            (vendors(NICIRA, 17, 24), V15, Err(ErrorCode::ActionBadLen)),
            (vendors(NICIRA, 46, 7), V12, Err(ErrorCode::ActionBadVendorType)),
            (vendors(NICIRA, 8, 20), V12, Err(ErrorCode::ActionBadLen)),
            (vendors(NICIRA, 18, 16), V11, Err(ErrorCode::ActionBadVendorType)),
            (vendors(7, 17, 16), V11, Err(ErrorCode::ActionBadVendor)),
        ];
        for (list, version, expect) in cases {
            let got = check(&list, version).map_err(|error| error.code);
            assert_eq!(got, expect, "{list:02x?} {version:?}");
        }
    }
}
