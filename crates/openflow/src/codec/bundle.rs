//! Bundles: OpenFlow 1.4's messages, and the ONF's extension for 1.3.

use crate::bytes::{Input, Output};
use crate::codec::{decode, encode};
use crate::error::{ErrorCode, OfError};
use crate::header::{DecodeOptions, EncodeOptions, Header};
use crate::message::Message;
use crate::vendor::ONF;
use crate::version::Version;

/// The extension's subtypes.
pub(crate) const ONF_CONTROL: u32 = 2300;
pub(crate) const ONF_ADD: u32 = 2301;

/// Reads a bundle-control message.
pub(crate) fn take_control(input: &mut Input<'_>) -> Result<Message, OfError> {
    let (bundle, control, flags) = (input.u32()?, input.u16()?, input.u16()?);
    // No properties are defined.
    input.take(input.len())?;
    Ok(Message::BundleControl { bundle, control, flags })
}

/// Reads a bundle-add message and the message in it.
pub(crate) fn take_add(
    input: &mut Input<'_>,
    version: Version,
    options: &DecodeOptions,
) -> Result<Message, OfError> {
    let bundle = input.u32()?;
    input.skip(2)?;
    let flags = input.u16()?;
    let bytes = input.rest();
    let (Some(header), Some(len)) = (Header::read(bytes), bytes.get(2..4)) else {
        return Err(OfError::new(ErrorCode::BadLen, "a bundle's message without a whole header"));
    };
    if header.version != version as u8 {
        let reason = format!("a bundle's message of version {:#04x}", header.version);
        return Err(OfError::new(ErrorCode::BundleMessageUnsupported, reason));
    }
    let len = usize::from(u16::from_be_bytes([len[0], len[1]]));
    let bytes = input.take(len)?;
    // No properties are defined.
    input.take(input.len())?;
    if is_bundle(bytes, version) {
        let reason = "a bundle within a bundle";
        return Err(OfError::new(ErrorCode::BundleMessageUnsupported, reason));
    }
    let (xid, message) = decode(version, bytes, options)?;
    Ok(Message::BundleAdd { bundle, flags, xid, message: Box::new(message), bytes: bytes.to_vec() })
}

/// Checked before decoding, so that nested bundles cannot exhaust the stack.
fn is_bundle(bytes: &[u8], version: Version) -> bool {
    match bytes.get(1) {
        Some(33 | 34) => version >= Version::V14,
        Some(4) => bytes.get(8..12) == Some(&ONF.to_be_bytes()[..]),
        _ => false,
    }
}

/// Returns the message type, after writing the extension's numbers if it is an extension message.
fn start(out: &mut Vec<u8>, version: Version, subtype: u32, standard: u8) -> u8 {
    if version >= Version::V14 {
        return standard;
    }
    out.put_u32(ONF);
    out.put_u32(subtype);
    4
}

/// Writes a bundle-control message.
pub(crate) fn put_control(
    out: &mut Vec<u8>,
    version: Version,
    bundle: u32,
    control: u16,
    flags: u16,
) -> u8 {
    let message_type = start(out, version, ONF_CONTROL, 33);
    out.put_u32(bundle);
    out.put_u16(control);
    out.put_u16(flags);
    message_type
}

/// Writes a bundle-add message. The inner message is encoded from its type; its original bytes are ignored.
pub(crate) fn put_add(
    out: &mut Vec<u8>,
    version: Version,
    message: &Message,
    options: &EncodeOptions,
) -> u8 {
    let message_type = start(out, version, ONF_ADD, 34);
    if let Message::BundleAdd { bundle, flags, xid, message, .. } = message {
        out.put_u32(*bundle);
        out.put_zeros(2);
        out.put_u16(*flags);
        encode(version, *xid, message, options).iter().for_each(|bytes| out.put(bytes));
    }
    message_type
}
