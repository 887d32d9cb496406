//! Decoding of `encap` and `decap` (ovs: `lib/ofp-actions.c`, `decode_NXAST_RAW_ENCAP`).

use crate::action::Action;
use crate::bytes::Input;
use crate::error::{ErrorCode, OfError};

fn bad(code: ErrorCode, reason: impl Into<String>) -> OfError {
    OfError::new(code, reason)
}

pub(super) fn take_encap(body: &mut Input<'_>) -> Result<Action, OfError> {
    let (header_bytes, packet_type) = (body.u16()?, body.u32()?);
    if packet_type != 0 {
        let (space, kind) = (packet_type >> 16, packet_type & 0xffff);
        let reason = format!("encap: no header of packet type ({space},{kind:#x}) can be put on");
        return Err(bad(ErrorCode::BadHeaderType, reason));
    }
    if !body.is_empty() {
        return Err(bad(ErrorCode::UnknownProperty, "encap(ethernet): there are no properties"));
    }
    Ok(Action::EncapEthernet { header_bytes })
}

pub(super) fn take_decap(body: &mut Input<'_>) -> Result<Action, OfError> {
    body.skip(2)?;
    let packet_type = body.u32()?;
    if !body.is_empty() {
        return Err(bad(ErrorCode::UnknownProperty, "decap: there are no properties"));
    }
    Ok(Action::Decap(packet_type))
}
