//! Packet-outs.

use crate::actions::{ActionForm, put_actions, take_actions};
use crate::bytes::{Input, Output};
use crate::error::{ErrorCode, OfError};
use crate::message::{Message, PacketOut};
use crate::oxm::{self, Proto};
use crate::port::{put_port, take_port};
use crate::version::Version;
use base::OfPort;
use flow::{Field, Match};

/// Reads a packet-out.
pub(crate) fn take(input: &mut Input<'_>, version: Version) -> Result<Message, OfError> {
    let buffer_id = Some(input.u32()?).filter(|&id| id != u32::MAX);
    let (metadata, actions_len) = match version {
        Version::V10 => (in_port(take_port(input, version)?), input.u16()?),
        Version::V11 | Version::V12 | Version::V13 | Version::V14 => {
            let port = take_port(input, version)
                .map_err(|error| OfError { code: ErrorCode::BadPort, ..error })?;
            let actions_len = input.u16()?;
            input.skip(6)?;
            (in_port(port), actions_len)
        }
        Version::V15 => {
            let actions_len = input.u16()?;
            input.skip(2)?;
            (oxm::take_oxm_match(input)?, actions_len)
        }
    };
    let port = OfPort(metadata.key().in_port_raw() as u16);
    let known = !metadata.mask().has(Field::InPort);
    if !known && !port.is_real() && !matches!(port, OfPort(0) | OfPort::NONE | OfPort::CONTROLLER) {
        let reason = format!("a packet-out's packet can't have come in on {port}");
        return Err(OfError::new(ErrorCode::BadPort, reason));
    }
    let actions = take_actions(input.take(actions_len.into())?, version)?;
    let data = input.take(input.len())?.to_vec();
    Ok(Message::PacketOut(PacketOut { buffer_id, metadata, actions, data }))
}

fn in_port(port: OfPort) -> Match {
    Match::any().with(Field::InPort, port.0.into())
}

/// Writes a packet-out. Versions before 1.5 contain only `in_port` of the metadata.
pub(crate) fn put(out: &mut Vec<u8>, version: Version, packet: &PacketOut) {
    out.put_u32(packet.buffer_id.unwrap_or(u32::MAX));
    let metadata = &packet.metadata;
    let port = match metadata.mask().has(Field::InPort) {
        true => OfPort(metadata.key().in_port_raw() as u16),
        false => OfPort::NONE,
    };
    if version < Version::V15 {
        put_port(out, version, port);
    }
    let at = out.len();
    out.put_u16(0);
    match version {
        Version::V10 => {}
        Version::V11 | Version::V12 | Version::V13 | Version::V14 => out.put_zeros(6),
        Version::V15 => {
            out.put_zeros(2);
            oxm::put_oxm_match(out, metadata, version as u8);
        }
    }
    let start = out.len();
    put_actions(out, &packet.actions, ActionForm { version, proto: Proto::of(metadata) });
    let len = out.len() - start;
    out.set_u16(at, len);
    out.put(&packet.data);
}
