//! OFPT_REQUESTFORWARD, or the vendor messages for it before OpenFlow 1.4: a controller's request, forwarded
//! to others (ovs: `lib/ofp-monitor.c`, `ofputil_encode_requestforward`).

use crate::bytes::{Input, Output};
use crate::codec::{decode, encode};
use crate::error::{ErrorCode, OfError};
use crate::header::{DecodeOptions, EncodeOptions, Header};
use crate::message::Message;
use crate::vendor::{NICIRA, ONF};
use crate::version::Version;

/// NXT_REQUESTFORWARD
pub(crate) const NICIRA_REQUEST_FORWARD: u32 = 132;
/// ONFT_REQUESTFORWARD
pub(crate) const ONF_REQUEST_FORWARD: u32 = 2350;
/// OFPT_REQUESTFORWARD
pub(crate) const REQUEST_FORWARD: u8 = 32;
/// OFPT_VENDOR
const VENDOR: u8 = 4;

/// Reads the forwarded message.
pub(crate) fn take(input: &mut Input<'_>, version: Version) -> Result<Message, OfError> {
    let bytes = input.take(input.len())?;
    let bad = |reason: &str| OfError::new(ErrorCode::BadLen, format!("requestforward: {reason}"));
    let header = Header::read(bytes).ok_or_else(|| bad("no whole message is within"))?;
    let (group_mod, meter_mod) = (15, crate::meter_mod::METER_MOD);
    // NXT_GROUP_MOD
    let is_nicira = header.message_type == VENDOR && version == Version::V10;
    if ![group_mod, meter_mod].contains(&header.message_type) && !is_nicira {
        return Err(bad("the message within is neither a group-mod nor a meter-mod"));
    }
    let (xid, request) = decode(version, bytes, &DecodeOptions::default())?;
    Ok(Message::RequestForward { xid, request: Box::new(request) })
}

/// Writes the message. Returns the type.
pub(crate) fn put(
    out: &mut Vec<u8>,
    version: Version,
    xid: u32,
    request: &Message,
    options: &EncodeOptions,
) -> u8 {
    let message_type = match version {
        Version::V10 | Version::V11 | Version::V12 => {
            out.put_u32(NICIRA);
            out.put_u32(NICIRA_REQUEST_FORWARD);
            VENDOR
        }
        Version::V13 => {
            out.put_u32(ONF);
            out.put_u32(ONF_REQUEST_FORWARD);
            VENDOR
        }
        Version::V14 | Version::V15 => REQUEST_FORWARD,
    };
    encode(version, xid, request, options).iter().for_each(|message| out.put(message));
    message_type
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{MeterCommand, MeterDesc, MeterMod};

    #[test]
    fn a_forwarded_request_reads_back_in_every_version_that_has_it() {
        let meter = MeterDesc { meter: 3, ..MeterDesc::default() };
        let request = Message::MeterMod(MeterMod { command: MeterCommand::Delete, meter });
        let forward = Message::RequestForward { xid: 7, request: Box::new(request) };
        for version in [Version::V13, Version::V14, Version::V15] {
            let bytes = encode(version, 0, &forward, &EncodeOptions::default()).concat();
            let back = decode(version, &bytes, &DecodeOptions::default());
            assert_eq!(back.unwrap(), (0, forward.clone()), "{version:?}");
        }
    }

    #[test]
    fn other_messages_are_not_read_within() {
        let barrier = [5, 20, 0, 8, 0, 0, 0, 1];
        let bytes = [&[5, 32, 0, 16, 0, 0, 0, 0][..], &barrier].concat();
        let error = decode(Version::V14, &bytes, &DecodeOptions::default()).unwrap_err();
        assert_eq!(error.code, ErrorCode::BadLen);
    }
}
