//! Encoding and decoding of whole messages.

mod bundle;
mod control;
mod request_forward;

use crate::bytes::{Input, Output};
use crate::error::{ErrorCode, OfError};
use crate::header::{DecodeOptions, EncodeOptions, Xid, finish};
use crate::message::Message;
use crate::version::Version;
use crate::{
    error_codes, flow_mod, flow_removed, group_mod, hello, meter_mod, packet_in, packet_out, port,
    queue, stats, table_mod,
};

/// OFPT_* with the same meaning in all versions.
mod kind {
    pub const HELLO: u8 = 0;
    pub const ERROR: u8 = 1;
    pub const ECHO_REQUEST: u8 = 2;
    pub const ECHO_REPLY: u8 = 3;
    pub const VENDOR: u8 = 4;
    pub const FEATURES_REQUEST: u8 = 5;
    pub const FEATURES_REPLY: u8 = 6;
    pub const GET_CONFIG_REQUEST: u8 = 7;
    pub const GET_CONFIG_REPLY: u8 = 8;
    pub const SET_CONFIG: u8 = 9;
    pub const PACKET_IN: u8 = 10;
    pub const FLOW_REMOVED: u8 = 11;
    pub const PORT_STATUS: u8 = 12;
    pub const PACKET_OUT: u8 = 13;
    pub const FLOW_MOD: u8 = 14;
}

/// Decodes one complete message, as returned by [`crate::Framer`].
///
/// # Errors
/// The error with the code of the reply. [`Header::read`] returns the transaction id for it.
pub fn decode(
    version: Version,
    bytes: &[u8],
    options: &DecodeOptions,
) -> Result<(Xid, Message), OfError> {
    let mut input = Input::new(bytes, ErrorCode::BadLen, "the message");
    let (wire_version, message_type) = (input.u8()?, input.u8()?);
    let (len, xid) = (usize::from(input.u16()?), input.u32()?);
    if len != bytes.len() {
        let reason = format!("a message of {} bytes says it has {len}", bytes.len());
        return Err(OfError::new(ErrorCode::BadLen, reason));
    }
    let any_version =
        matches!(message_type, kind::HELLO | kind::ERROR | kind::ECHO_REQUEST | kind::ECHO_REPLY);
    if wire_version != version as u8 && !any_version {
        let reason =
            format!("a message of version {wire_version:#04x} where {version:?} was agreed on");
        return Err(OfError::new(ErrorCode::BadVersion, reason));
    }
    let message = decode_body(version, wire_version, message_type, input, options)?;
    match &message {
        // OpenFlow 1.4, section 7.3.9.6: both messages have the same transaction id.
        Message::BundleAdd { xid: inner, .. } if *inner != xid => {
            let reason = format!("a bundle's message of xid {inner:#x} in one of {xid:#x}");
            Err(OfError::new(ErrorCode::BundleMessageBadXid, reason))
        }
        _ => Ok((xid, message)),
    }
}

fn decode_body(
    version: Version,
    wire_version: u8,
    message_type: u8,
    mut input: Input<'_>,
    options: &DecodeOptions,
) -> Result<Message, OfError> {
    let input = &mut input;
    let message = match message_type {
        kind::HELLO => return hello::take(input, wire_version),
        kind::ERROR => {
            let written_in = Version::ALL.into_iter().find(|v| *v as u8 == wire_version);
            let code = error_codes::take_error(input, written_in.unwrap_or(version))?;
            Message::Error { code, data: input.take(input.len())?.to_vec() }
        }
        kind::ECHO_REQUEST => Message::EchoRequest(input.take(input.len())?.to_vec()),
        kind::ECHO_REPLY => Message::EchoReply(input.take(input.len())?.to_vec()),
        kind::VENDOR => control::take_vendor(input, version, options)?,
        kind::FEATURES_REQUEST => Message::FeaturesRequest,
        kind::FEATURES_REPLY => hello::take_features(input, version)?,
        kind::GET_CONFIG_REQUEST => Message::GetConfigRequest,
        kind::GET_CONFIG_REPLY => {
            Message::GetConfigReply { flags: input.u16()?, miss_send_len: input.u16()? }
        }
        kind::SET_CONFIG => Message::SetConfig { flags: input.u16()?, miss_send_len: input.u16()? },
        kind::PACKET_IN => packet_in::take(input, version)?,
        kind::FLOW_REMOVED => flow_removed::take(input, version)?,
        kind::PORT_STATUS => port::take_status(input, version)?,
        kind::PACKET_OUT => packet_out::take(input, version)?,
        kind::FLOW_MOD => Message::FlowMod(flow_mod::take(input, version, options)?),
        _ if version == Version::V10 => decode10(message_type, input)?,
        _ => decode11(version, message_type, input, options)?,
    };
    input.done()?;
    Ok(message)
}

fn unknown(message_type: u8) -> OfError {
    let reason = format!("message type {message_type} is unknown or not supported");
    OfError::new(ErrorCode::BadType, reason)
}

fn decode10(message_type: u8, input: &mut Input<'_>) -> Result<Message, OfError> {
    Ok(match message_type {
        15 => port::take_mod(input, Version::V10)?,
        16 => Message::StatsRequest(stats::take_request(input, Version::V10)?),
        17 => Message::StatsReply(stats::take_reply(input, Version::V10)?),
        18 => Message::BarrierRequest,
        19 => Message::BarrierReply,
        20 => queue::take_config_request(input, Version::V10)?,
        21 => queue::take_config_reply(input, Version::V10)?,
        _ => return Err(unknown(message_type)),
    })
}

fn decode11(
    version: Version,
    message_type: u8,
    input: &mut Input<'_>,
    options: &DecodeOptions,
) -> Result<Message, OfError> {
    let v14 = version >= Version::V14;
    Ok(match message_type {
        15 => group_mod::take(input, version)?,
        16 => port::take_mod(input, version)?,
        17 => table_mod::take(input, version)?,
        18 => Message::StatsRequest(stats::take_request(input, version)?),
        19 => Message::StatsReply(stats::take_reply(input, version)?),
        20 => Message::BarrierRequest,
        21 => Message::BarrierReply,
        22 if !v14 => queue::take_config_request(input, version)?,
        23 if !v14 => queue::take_config_reply(input, version)?,
        24 | 25 if version >= Version::V12 => control::take_role(input, message_type == 25)?,
        28 if v14 => control::take_async14(input)?,
        28 if version == Version::V13 => control::take_async(input)?,
        meter_mod::METER_MOD if version >= Version::V13 => meter_mod::take(input)?,
        26 if version >= Version::V13 => Message::GetAsyncRequest,
        27 if version >= Version::V13 => control::take_async_reply(input, version)?,
        31 if v14 => table_mod::take_status(input)?,
        request_forward::REQUEST_FORWARD if v14 => request_forward::take(input, version)?,
        30 if v14 => control::take_role_status(input)?,
        33 if v14 => bundle::take_control(input)?,
        34 if v14 => bundle::take_add(input, version, options)?,
        _ => return Err(unknown(message_type)),
    })
}

/// Encodes a message. A statistics reply longer than 64 KB becomes several.
///
/// Parts that a version cannot express are omitted: ports of features replies after 1.0, actions without an
/// encoding in OpenFlow 1.0, and so on.
pub fn encode(
    version: Version,
    xid: Xid,
    message: &Message,
    options: &EncodeOptions,
) -> Vec<Vec<u8>> {
    if let Message::StatsReply(reply) = message {
        return stats::put_reply(version, xid, reply);
    }
    let mut out = vec![version as u8, 0, 0, 0];
    out.put_u32(xid);
    let message_type = encode_body(&mut out, version, message, options);
    finish(&mut out, message_type);
    vec![out]
}

/// Writes the part after the header. Returns the type.
fn encode_body(
    out: &mut Vec<u8>,
    version: Version,
    message: &Message,
    options: &EncodeOptions,
) -> u8 {
    match message {
        Message::PacketIn(packet) => packet_in::put(out, version, packet, options.packet_in_format),
        Message::PacketOut(packet) => {
            packet_out::put(out, version, packet);
            kind::PACKET_OUT
        }
        Message::FlowMod(flow_mod) => flow_mod::put(out, version, flow_mod, options),
        Message::FlowRemoved { flow, reason, nicira } => {
            flow_removed::put(out, version, flow, *reason, *nicira)
        }
        Message::PortMod { port, mac, config, mask } => {
            port::put_mod(out, version, *port, *mac, *config, *mask);
            if version == Version::V10 { 15 } else { 16 }
        }
        Message::PortStatus { reason, port } => {
            port::put_status(out, version, *reason, port);
            kind::PORT_STATUS
        }
        Message::GroupMod(group_mod) => group_mod::put(out, version, group_mod),
        Message::MeterMod(meter_mod) => meter_mod::put(out, meter_mod),
        Message::RequestForward { xid, request } => {
            request_forward::put(out, version, *xid, request, options)
        }
        Message::TableMod(table_mod) => {
            table_mod::put(out, version, table_mod);
            17
        }
        Message::TableStatus { reason, desc } => {
            table_mod::put_status(out, *reason, desc);
            31
        }
        Message::StatsRequest(request) => {
            stats::put_request(out, version, request);
            if version == Version::V10 { 16 } else { 18 }
        }
        Message::BundleControl { bundle, control, flags } => {
            bundle::put_control(out, version, *bundle, *control, *flags)
        }
        Message::BundleAdd { .. } => bundle::put_add(out, version, message, options),
        _ => encode_plain(out, version, message),
    }
}

/// Messages that manage the connection, with few or no fields.
fn encode_plain(out: &mut Vec<u8>, version: Version, message: &Message) -> u8 {
    let v10 = version == Version::V10;
    match message {
        Message::Hello { versions } => hello::put(out, version, *versions),
        Message::Error { code, data } => {
            error_codes::put_error(out, version, *code);
            out.put(data);
            kind::ERROR
        }
        Message::EchoRequest(data) => {
            out.put(data);
            kind::ECHO_REQUEST
        }
        Message::EchoReply(data) => {
            out.put(data);
            kind::ECHO_REPLY
        }
        Message::FeaturesRequest => kind::FEATURES_REQUEST,
        Message::FeaturesReply { .. } => hello::put_features(out, version, message),
        Message::GetConfigRequest => kind::GET_CONFIG_REQUEST,
        Message::GetConfigReply { flags, miss_send_len } => {
            out.put_u16(*flags);
            out.put_u16(*miss_send_len);
            kind::GET_CONFIG_REPLY
        }
        Message::SetConfig { flags, miss_send_len } => {
            out.put_u16(*flags);
            out.put_u16(*miss_send_len);
            kind::SET_CONFIG
        }
        Message::BarrierRequest => {
            if v10 {
                18
            } else {
                20
            }
        }
        Message::BarrierReply => {
            if v10 {
                19
            } else {
                21
            }
        }
        Message::QueueConfigRequest { .. } | Message::QueueConfigReply { .. } => {
            queue::put_config(out, version, message)
        }
        _ => control::put(out, version, message),
    }
}
