//! Messages that configure a controller's connection, and vendor messages.

use crate::bytes::{Input, Output};
use crate::codec::bundle::{self, ONF_ADD, ONF_CONTROL};
use crate::codec::request_forward::{self, NICIRA_REQUEST_FORWARD, ONF_REQUEST_FORWARD};
use crate::error::{ErrorCode, OfError};
use crate::header::DecodeOptions;
use crate::message::{AsyncMasks, Message, PacketInFormat, Role};
use crate::stats::flow_monitor;
use crate::vendor::{NICIRA, ONF};
use crate::version::Version;
use crate::{ct_flush, flow_mod, flow_removed, group_mod, packet_in, tlv_table};

const NXT_ROLE_REQUEST: u32 = 10;
const NXT_ROLE_REPLY: u32 = 11;
const NXT_SET_FLOW_FORMAT: u32 = 12;
const NXT_FLOW_MOD_TABLE_ID: u32 = 15;
const NXT_SET_PACKET_IN_FORMAT: u32 = 16;
const NXT_SET_ASYNC_CONFIG: u32 = 19;
const NXT_SET_CONTROLLER_ID: u32 = 20;
const NXT_SET_ASYNC_CONFIG2: u32 = 27;
const NXT_TLV_TABLE_MOD: u32 = 24;
const NXT_TLV_TABLE_REQUEST: u32 = 25;
const NXT_TLV_TABLE_REPLY: u32 = 26;
const NXT_CT_FLUSH_ZONE: u32 = 29;
const NXT_CT_FLUSH: u32 = 32;
/// The ONF's role status of OpenFlow 1.3.
const ONF_ROLE_STATUS: u32 = 1911;
/// OFPT_VENDOR
const VENDOR: u8 = 4;

fn bad(code: ErrorCode, reason: impl Into<String>) -> OfError {
    OfError::new(code, reason)
}

/// Reads a vendor's message.
pub(crate) fn take_vendor(
    input: &mut Input<'_>,
    version: Version,
    options: &DecodeOptions,
) -> Result<Message, OfError> {
    let (vendor, subtype) = (input.u32()?, input.u32()?);
    if let Some(message) = flow_monitor::take_vendor(vendor, subtype, input, version) {
        return message;
    }
    match (vendor, subtype) {
        (ONF, ONF_CONTROL) if version == Version::V13 => bundle::take_control(input),
        (ONF, ONF_ADD) if version == Version::V13 => bundle::take_add(input, version, options),
        (ONF, ONF_ROLE_STATUS) if version == Version::V13 => take_role_status(input),
        (ONF, ONF_REQUEST_FORWARD) if version == Version::V13 => {
            request_forward::take(input, version)
        }
        (NICIRA, NICIRA_REQUEST_FORWARD) if version < Version::V13 => {
            request_forward::take(input, version)
        }
        (NICIRA, _) => take_nicira(subtype, input, version, options),
        (ONF, _) => Err(bad(ErrorCode::BadSubtype, format!("ONF's message {subtype} is unknown"))),
        _ => {
            Err(bad(ErrorCode::BadVendor, format!("messages of vendor {vendor:#010x} are unknown")))
        }
    }
}

fn take_nicira(
    subtype: u32,
    input: &mut Input<'_>,
    version: Version,
    options: &DecodeOptions,
) -> Result<Message, OfError> {
    Ok(match subtype {
        NXT_ROLE_REQUEST | NXT_ROLE_REPLY => {
            let role = match input.u32()? {
                0 => Role::Equal,
                1 => Role::Primary,
                2 => Role::Secondary,
                other => return Err(bad(ErrorCode::RoleBad, format!("role {other}"))),
            };
            role_message(role, None, subtype == NXT_ROLE_REPLY)
        }
        NXT_SET_FLOW_FORMAT => Message::SetFlowFormat(input.u32()?),
        flow_mod::NXT_FLOW_MOD => Message::FlowMod(flow_mod::take_nicira(input, version, options)?),
        flow_removed::NXT_FLOW_REMOVED => flow_removed::take_nicira(input)?,
        NXT_FLOW_MOD_TABLE_ID => {
            let set = input.u8()? != 0;
            input.skip(7)?;
            Message::FlowModTableId(set)
        }
        NXT_SET_PACKET_IN_FORMAT => Message::SetPacketInFormat(match input.u32()? {
            0 => PacketInFormat::Standard,
            1 => PacketInFormat::Nxt,
            2 => PacketInFormat::Nxt2,
            other => return Err(bad(ErrorCode::RequestEperm, format!("packet-in format {other}"))),
        }),
        packet_in::NXT_PACKET_IN => packet_in::take_nicira(input)?,
        packet_in::NXT_PACKET_IN2 => Message::PacketIn(packet_in::take_nicira2(input, version)?),
        packet_in::NXT_RESUME => {
            Message::Resume(Box::new(packet_in::take_nicira2(input, version)?))
        }
        NXT_SET_ASYNC_CONFIG => take_async(input)?,
        NXT_SET_ASYNC_CONFIG2 => take_async14(input)?,
        NXT_SET_CONTROLLER_ID => Message::SetControllerId(take_padded_id(input)?),
        NXT_CT_FLUSH_ZONE => Message::CtFlushZone(take_padded_id(input)?),
        group_mod::NXT_GROUP_MOD if version == Version::V10 => group_mod::take(input, version)?,
        NXT_TLV_TABLE_MOD => {
            let (command, maps) = tlv_table::take_mod(input)?;
            Message::TlvTableMod { command, maps }
        }
        NXT_TLV_TABLE_REQUEST => Message::TlvTableRequest,
        NXT_TLV_TABLE_REPLY => {
            let (space, fields, maps) = tlv_table::take_reply(input)?;
            Message::TlvTableReply { space, fields, maps }
        }
        NXT_CT_FLUSH => Message::CtFlush(Box::new(ct_flush::take(input)?)),
        _ => {
            let reason = format!("Nicira's message {subtype} is not supported");
            return Err(bad(ErrorCode::BadSubtype, reason));
        }
    })
}

/// Reads 16 bits after six bytes that must be zero.
fn take_padded_id(input: &mut Input<'_>) -> Result<u16, OfError> {
    if input.take(6)?.iter().any(|&byte| byte != 0) {
        return Err(bad(ErrorCode::MustBeZero, "padding that is not zero"));
    }
    input.u16()
}

fn role_message(role: Role, generation: Option<u64>, reply: bool) -> Message {
    if reply {
        Message::RoleReply { role, generation }
    } else {
        Message::RoleRequest { role, generation }
    }
}

/// Reads OFPT_ROLE_REQUEST or OFPT_ROLE_REPLY.
pub(crate) fn take_role(input: &mut Input<'_>, reply: bool) -> Result<Message, OfError> {
    let role = role(input.u32()?)?;
    input.skip(4)?;
    let generation = input.u64()?;
    let elected = matches!(role, Role::Primary | Role::Secondary);
    // All ones in a reply mean that no generation is set.
    let known = elected && !(reply && generation == u64::MAX);
    Ok(role_message(role, known.then_some(generation), reply))
}

/// Reads OFPT_ROLE_STATUS, for which no properties are defined.
pub(crate) fn take_role_status(input: &mut Input<'_>) -> Result<Message, OfError> {
    let role = role(input.u32()?)?;
    let reason = input.u8()?;
    input.skip(3)?;
    let generation = Some(input.u64()?).filter(|&generation| generation != u64::MAX);
    input.take(input.len())?;
    Ok(Message::RoleStatus { role, reason, generation })
}

/// Writes OFPT_ROLE_STATUS, or the ONF's message for it in OpenFlow 1.3.
fn put_role_status(
    out: &mut Vec<u8>,
    version: Version,
    role: Role,
    reason: u8,
    generation: Option<u64>,
) -> u8 {
    if version < Version::V14 {
        out.put_u32(ONF);
        out.put_u32(ONF_ROLE_STATUS);
    }
    out.put_u32(role_number(role));
    out.put(&[reason, 0, 0, 0]);
    out.put_u64(generation.unwrap_or(u64::MAX));
    if version < Version::V14 { VENDOR } else { 30 }
}

/// OFPCR_ROLE_*
fn role(number: u32) -> Result<Role, OfError> {
    Ok(match number {
        0 => Role::NoChange,
        1 => Role::Equal,
        2 => Role::Primary,
        3 => Role::Secondary,
        other => return Err(bad(ErrorCode::RoleBad, format!("role {other}"))),
    })
}

fn role_number(role: Role) -> u32 {
    match role {
        Role::NoChange => 0,
        Role::Equal => 1,
        Role::Primary => 2,
        Role::Secondary => 3,
    }
}

/// Reads OFPT_SET_ASYNC of OpenFlow 1.3, or NXT_SET_ASYNC_CONFIG.
pub(crate) fn take_async(input: &mut Input<'_>) -> Result<Message, OfError> {
    let mut pair =
        || -> Result<[Option<u32>; 2], OfError> { Ok([Some(input.u32()?), Some(input.u32()?)]) };
    Ok(Message::SetAsync(AsyncMasks {
        packet_in: pair()?,
        port_status: pair()?,
        flow_removed: pair()?,
        ..AsyncMasks::default()
    }))
}

/// Reads OFPT_GET_ASYNC_REPLY, which has the format of OFPT_SET_ASYNC.
pub(crate) fn take_async_reply(
    input: &mut Input<'_>,
    version: Version,
) -> Result<Message, OfError> {
    let set = if version == Version::V13 { take_async(input)? } else { take_async14(input)? };
    match set {
        Message::SetAsync(masks) => Ok(Message::GetAsyncReply(masks)),
        other => Ok(other),
    }
}

/// Reads the properties of OFPT_SET_ASYNC from OpenFlow 1.4 on: for each type of message the mask for a
/// secondary, then for a primary. Omitted masks stay unchanged.
pub(crate) fn take_async14(input: &mut Input<'_>) -> Result<Message, OfError> {
    let mut masks = [None; 12];
    while !input.is_empty() {
        let (kind, len) = (usize::from(input.u16()?), usize::from(input.u16()?));
        let Some(body) = len.checked_sub(4) else {
            return Err(bad(ErrorCode::BadLen, "a property of less than 4 bytes"));
        };
        let mut value = input.part(body)?;
        input.skip((len.next_multiple_of(8) - len).min(input.len()))?;
        match masks.get_mut(kind) {
            Some(mask) => *mask = Some(value.u32()?),
            None => {
                let reason = format!("asynchronous messages of kind {kind} are unknown");
                return Err(bad(ErrorCode::AsyncUnsupported, reason));
            }
        }
    }
    // Role messages are always sent.
    let [p1, p0, s1, s0, f1, f0, _, _, t1, t0, r1, r0] = masks;
    Ok(Message::SetAsync(AsyncMasks {
        packet_in: [p0, p1],
        port_status: [s0, s1],
        flow_removed: [f0, f1],
        table_status: [t0, t1],
        request_forward: [r0, r1],
    }))
}

fn start(out: &mut Vec<u8>, subtype: u32) {
    out.put_u32(NICIRA);
    out.put_u32(subtype);
}

fn put_tlv_table(out: &mut Vec<u8>, message: &Message) {
    match message {
        Message::TlvTableMod { command, maps } => {
            start(out, NXT_TLV_TABLE_MOD);
            tlv_table::put_mod(out, *command, maps);
        }
        Message::TlvTableReply { space, fields, maps } => {
            start(out, NXT_TLV_TABLE_REPLY);
            tlv_table::put_reply(out, *space, *fields, maps);
        }
        _ => start(out, NXT_TLV_TABLE_REQUEST),
    }
}

/// Writes the messages of this file. Returns the type.
pub(crate) fn put(out: &mut Vec<u8>, version: Version, message: &Message) -> u8 {
    match message {
        Message::RoleRequest { role, generation } => {
            put_role(out, version, *role, *generation, false)
        }
        Message::RoleReply { role, generation } => put_role(out, version, *role, *generation, true),
        Message::RoleStatus { role, reason, generation } => {
            put_role_status(out, version, *role, *reason, *generation)
        }
        Message::SetAsync(masks) => put_async(out, version, masks),
        Message::GetAsyncRequest => 26,
        Message::GetAsyncReply(masks) => {
            put_async(out, version, masks);
            27
        }
        Message::SetFlowFormat(format) => {
            start(out, NXT_SET_FLOW_FORMAT);
            out.put_u32(*format);
            VENDOR
        }
        Message::FlowModTableId(set) => {
            start(out, NXT_FLOW_MOD_TABLE_ID);
            out.put_u8((*set).into());
            out.put_zeros(7);
            VENDOR
        }
        Message::SetPacketInFormat(format) => {
            start(out, NXT_SET_PACKET_IN_FORMAT);
            out.put_u32(match format {
                PacketInFormat::Standard => 0,
                PacketInFormat::Nxt => 1,
                PacketInFormat::Nxt2 => 2,
            });
            VENDOR
        }
        Message::SetControllerId(id) => {
            start(out, NXT_SET_CONTROLLER_ID);
            out.put_zeros(6);
            out.put_u16(*id);
            VENDOR
        }
        Message::CtFlushZone(zone) => {
            start(out, NXT_CT_FLUSH_ZONE);
            out.put_zeros(6);
            out.put_u16(*zone);
            VENDOR
        }
        Message::Resume(packet) => {
            packet_in::put_resume(out, version, packet);
            VENDOR
        }
        Message::FlowMonitorCancel(id) => flow_monitor::put_cancel(out, version, *id),
        Message::TlvTableMod { .. } | Message::TlvTableRequest | Message::TlvTableReply { .. } => {
            put_tlv_table(out, message);
            VENDOR
        }
        Message::CtFlush(flush) => {
            start(out, NXT_CT_FLUSH);
            ct_flush::put(out, flush);
            VENDOR
        }
        _ => VENDOR,
    }
}

fn put_role(
    out: &mut Vec<u8>,
    version: Version,
    role: Role,
    generation: Option<u64>,
    reply: bool,
) -> u8 {
    if version < Version::V12 {
        start(out, if reply { NXT_ROLE_REPLY } else { NXT_ROLE_REQUEST });
        out.put_u32(match role {
            Role::NoChange | Role::Equal => 0,
            Role::Primary => 1,
            Role::Secondary => 2,
        });
        return VENDOR;
    }
    out.put_u32(role_number(role));
    out.put_zeros(4);
    out.put_u64(generation.unwrap_or(if reply { u64::MAX } else { 0 }));
    if reply { 25 } else { 24 }
}

fn put_async(out: &mut Vec<u8>, version: Version, masks: &AsyncMasks) -> u8 {
    let &AsyncMasks { packet_in, port_status, flow_removed, .. } = masks;
    let old = [packet_in, port_status, flow_removed];
    let new = [masks.table_status, masks.request_forward];
    let says_all = old.iter().flatten().all(Option::is_some) && new == [[None; 2]; 2];
    if version >= Version::V14 || !says_all {
        // The format without properties cannot omit a mask, Nicira's format with properties can.
        if version < Version::V14 {
            start(out, NXT_SET_ASYNC_CONFIG2);
        }
        let [table_status, request_forward] = new;
        let kinds = [
            (0, packet_in),
            (2, port_status),
            (4, flow_removed),
            (8, table_status),
            (10, request_forward),
        ];
        for (kind, [primary, secondary]) in kinds {
            for (kind, mask) in [(kind, secondary), (kind + 1, primary)] {
                if let Some(mask) = mask {
                    out.put_u16(kind);
                    out.put_u16(8);
                    out.put_u32(mask);
                }
            }
        }
        return if version < Version::V14 { VENDOR } else { 28 };
    }
    if version < Version::V13 {
        start(out, NXT_SET_ASYNC_CONFIG);
    }
    old.iter().flatten().for_each(|mask| out.put_u32(mask.unwrap_or(0)));
    if version < Version::V13 { VENDOR } else { 28 }
}
