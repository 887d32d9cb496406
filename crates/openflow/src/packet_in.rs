//! Packet-ins: each version's format, and Nicira's two.

use crate::bytes::{Input, Output};
use crate::continuation;
use crate::error::{ErrorCode, OfError};
use crate::message::{Message, PacketIn, PacketInFormat, reason};
use crate::oxm::{self, Cookie, MatchForm};
use crate::port::{put_port, take_port};
use crate::vendor::NICIRA;
use crate::version::Version;
use base::{OfPort, TableId};
use flow::{Field, Match};

/// NXT_PACKET_IN and NXT_PACKET_IN2
pub(crate) const NXT_PACKET_IN: u32 = 17;
pub(crate) const NXT_PACKET_IN2: u32 = 30;
/// NXT_RESUME, which has the format of NXT_PACKET_IN2.
pub(crate) const NXT_RESUME: u32 = 28;
/// The packet is not buffered.
const NO_BUFFER: u32 = u32::MAX;
/// OFPT_PACKET_IN
const PACKET_IN: u8 = 10;

/// Properties of NXT_PACKET_IN2 (ovs: `include/openflow/nicira-ext.h`).
mod property {
    pub const PACKET: u16 = 0;
    pub const FULL_LEN: u16 = 1;
    pub const TABLE_ID: u16 = 3;
    pub const COOKIE: u16 = 4;
    pub const REASON: u16 = 5;
    pub const METADATA: u16 = 6;
    pub const USERDATA: u16 = 7;
    pub const CONTINUATION: u16 = 8;
}

fn blank() -> PacketIn {
    PacketIn {
        data: Vec::new(),
        total_len: 0,
        reason: 1,
        table: None,
        cookie: u64::MAX,
        metadata: Match::any(),
        userdata: Vec::new(),
        continuation: None,
    }
}

fn table(raw: u8) -> Option<TableId> {
    (raw != 0xff).then_some(TableId(raw))
}

/// Reads OFPT_PACKET_IN.
pub(crate) fn take(input: &mut Input<'_>, version: Version) -> Result<Message, OfError> {
    let mut packet = blank();
    input.skip(4)?;
    if version == Version::V11 {
        let port = take_port(input, version)?;
        packet.metadata = Match::any().with(Field::InPort, port.0.into());
        // The physical port.
        input.skip(4)?;
    }
    packet.total_len = input.u16()?;
    if version == Version::V10 {
        let port = input.u16()?;
        packet.metadata = Match::any().with(Field::InPort, port.into());
        packet.reason = input.u8()?;
        input.skip(1)?;
    } else {
        packet.reason = input.u8()?;
        packet.table = table(input.u8()?);
    }
    if version >= Version::V13 {
        packet.cookie = input.u64()?;
    }
    if version >= Version::V12 {
        packet.metadata = oxm::take_oxm_match(input)?;
        input.skip(2)?;
    }
    packet.data = input.take(input.len())?.to_vec();
    Ok(Message::PacketIn(packet))
}

/// Reads NXT_PACKET_IN.
pub(crate) fn take_nicira(input: &mut Input<'_>) -> Result<Message, OfError> {
    let mut packet = blank();
    input.skip(4)?;
    packet.total_len = input.u16()?;
    packet.reason = input.u8()?;
    packet.table = table(input.u8()?);
    packet.cookie = input.u64()?;
    let match_len = usize::from(input.u16()?);
    input.skip(6)?;
    packet.metadata = oxm::take_nxm_match(input, match_len, None)?;
    input.skip(2)?;
    packet.data = input.take(input.len())?.to_vec();
    Ok(Message::PacketIn(packet))
}

/// Reads NXT_PACKET_IN2.
pub(crate) fn take_nicira2(input: &mut Input<'_>, version: Version) -> Result<PacketIn, OfError> {
    let mut packet = blank();
    let mut full_len = None;
    while !input.is_empty() {
        let (kind, len) = (input.u16()?, usize::from(input.u16()?));
        let Some(body) = len.checked_sub(4) else {
            return Err(OfError::new(
                ErrorCode::BadLen,
                "a packet-in property of less than 4 bytes",
            ));
        };
        let mut value = input.part(body)?;
        input.skip((len.next_multiple_of(8) - len).min(input.len()))?;
        match kind {
            property::PACKET => packet.data = value.take(body)?.to_vec(),
            property::FULL_LEN => full_len = Some(value.u32()?),
            property::TABLE_ID => packet.table = table(value.u8()?),
            property::COOKIE => {
                value.skip(4)?;
                packet.cookie = value.u64()?;
            }
            property::REASON => packet.reason = value.u8()?,
            property::METADATA => packet.metadata = oxm::take_raw(value, None)?,
            property::USERDATA => packet.userdata = value.take(body)?.to_vec(),
            property::CONTINUATION => {
                value.skip(4)?;
                packet.continuation = Some(Box::new(continuation::take(&mut value, version)?));
            }
            // Other properties are optional.
            _ => {}
        }
    }
    packet.total_len = full_len.map_or(packet.data.len() as u16, |len| len as u16);
    Ok(packet)
}

/// Writes a packet-in. Returns the type.
pub(crate) fn put(
    out: &mut Vec<u8>,
    version: Version,
    packet: &PacketIn,
    format: PacketInFormat,
) -> u8 {
    match format {
        PacketInFormat::Standard => {
            put_standard(out, version, packet);
            PACKET_IN
        }
        PacketInFormat::Nxt => {
            put_nicira(out, version, packet);
            4
        }
        PacketInFormat::Nxt2 => {
            put_nicira2(out, version, packet, NXT_PACKET_IN2);
            4
        }
    }
}

/// Returns a reason's number in this version: before OpenFlow 1.3 a table-miss flow is an ordinary flow, and
/// before 1.4 all actions have one reason (ovs: `lib/ofp-packet.c`, `encode_packet_in_reason`).
fn reason_in(version: Version, reason: u8) -> u8 {
    match reason {
        reason::EXPLICIT_MISS if version < Version::V13 => reason::ACTION,
        reason::EXPLICIT_MISS | reason::IMPLICIT_MISS => reason::NO_MATCH,
        reason::ACTION_SET..=reason::PACKET_OUT if version < Version::V14 => reason::ACTION,
        other => other,
    }
}

fn put_standard(out: &mut Vec<u8>, version: Version, packet: &PacketIn) {
    let in_port = OfPort(packet.metadata.key().in_port_raw() as u16);
    out.put_u32(NO_BUFFER);
    if version == Version::V11 {
        // The port, and the physical port.
        put_port(out, version, in_port);
        put_port(out, version, in_port);
    }
    out.put_u16(packet.total_len);
    if version == Version::V10 {
        out.put_u16(in_port.0);
        out.put(&[reason_in(version, packet.reason), 0]);
    } else {
        let reason = reason_in(version, packet.reason);
        out.put(&[reason, packet.table.map_or(0xff, |table| table.0)]);
    }
    if version >= Version::V13 {
        out.put_u64(packet.cookie);
    }
    if version >= Version::V12 {
        oxm::put_oxm_match(out, &packet.metadata, version as u8);
        out.put_zeros(2);
    }
    out.put(&packet.data);
}

fn put_nicira(out: &mut Vec<u8>, version: Version, packet: &PacketIn) {
    out.put_u32(NICIRA);
    out.put_u32(NXT_PACKET_IN);
    out.put_u32(NO_BUFFER);
    out.put_u16(packet.total_len);
    let reason = reason_in(version, packet.reason);
    out.put(&[reason, packet.table.map_or(0xff, |table| table.0)]);
    out.put_u64(packet.cookie);
    let at = out.len();
    out.put_zeros(8);
    let len = oxm::put_nxm_match(out, &packet.metadata, MatchForm::Nxm, Cookie::default());
    out.set_u16(at, len);
    out.put_zeros(2);
    out.put(&packet.data);
}

fn put_property(out: &mut Vec<u8>, kind: u16, value: &[u8]) {
    let start = out.len();
    out.put_u16(kind);
    out.put_u16(u16::try_from(value.len() + 4).unwrap_or(u16::MAX));
    out.put(value);
    out.pad8(start);
}

/// Writes NXT_RESUME.
pub(crate) fn put_resume(out: &mut Vec<u8>, version: Version, packet: &PacketIn) {
    put_nicira2(out, version, packet, NXT_RESUME);
}

fn put_nicira2(out: &mut Vec<u8>, version: Version, packet: &PacketIn, subtype: u32) {
    out.put_u32(NICIRA);
    out.put_u32(subtype);
    put_property(out, property::PACKET, &packet.data);
    if usize::from(packet.total_len) != packet.data.len() {
        put_property(out, property::FULL_LEN, &u32::from(packet.total_len).to_be_bytes());
    }
    if let Some(table) = packet.table {
        put_property(out, property::TABLE_ID, &[table.0]);
    }
    if packet.cookie != u64::MAX {
        let padded = [&[0; 4][..], &packet.cookie.to_be_bytes()].concat();
        put_property(out, property::COOKIE, &padded);
    }
    put_property(out, property::REASON, &[reason_in(version, packet.reason)]);
    let form = match version {
        Version::V10 => MatchForm::Nxm,
        version => MatchForm::Oxm(version as u8),
    };
    let mut metadata = Vec::new();
    oxm::put_raw(&mut metadata, &packet.metadata, form);
    put_property(out, property::METADATA, &metadata);
    if !packet.userdata.is_empty() {
        put_property(out, property::USERDATA, &packet.userdata);
    }
    if let Some(continuation) = &packet.continuation {
        let mut padded = vec![0; 4];
        continuation::put(&mut padded, version, continuation);
        put_property(out, property::CONTINUATION, &padded);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn older_versions_have_fewer_reasons() {
        use Version as V;
        // In 1.0, 1.3 and 1.4.
        for (reason, expect) in [
            (reason::NO_MATCH, [0, 0, 0]),
            (reason::ACTION, [1, 1, 1]),
            (reason::INVALID_TTL, [2, 2, 2]),
            (reason::ACTION_SET, [1, 1, 3]),
            (reason::GROUP, [1, 1, 4]),
            (reason::PACKET_OUT, [1, 1, 5]),
            (reason::EXPLICIT_MISS, [1, 0, 0]),
            (reason::IMPLICIT_MISS, [0, 0, 0]),
        ] {
            let read = [V::V10, V::V13, V::V14].map(|version| reason_in(version, reason));
            assert_eq!(read, expect, "{reason}");
        }
    }
}
