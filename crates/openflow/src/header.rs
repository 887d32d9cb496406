//! The header of messages, and what their encoding depends on.

use crate::bytes::Output;
use crate::framer::HEADER_LEN;
use crate::message::PacketInFormat;

/// A transaction id; a reply has that of its request.
pub type Xid = u32;

/// Settings of the connection on which decoding depends.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DecodeOptions {
    /// NXT_FLOW_MOD_TABLE_ID is enabled: OpenFlow 1.0 flow-mods have a table in the command's upper byte.
    pub flow_mod_table_id: bool,
}

/// Choices of the encoding.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct EncodeOptions {
    /// As in [`DecodeOptions`]; if disabled, the table of an OpenFlow 1.0 flow-mod is omitted.
    pub flow_mod_table_id: bool,
    /// The format of packet-ins.
    pub packet_in_format: PacketInFormat,
}

/// The header of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// The version's number on the wire.
    pub version: u8,
    /// OFPT_*
    pub message_type: u8,
    /// The transaction id.
    pub xid: Xid,
}

impl Header {
    /// Reads the header of a message, which may be truncated after it.
    pub fn read(bytes: &[u8]) -> Option<Header> {
        let &[version, message_type, _, _, a, b, c, d, ..] = bytes else { return None };
        Some(Header { version, message_type, xid: u32::from_be_bytes([a, b, c, d]) })
    }
}

/// Sets type and length of a complete message.
pub(crate) fn finish(message: &mut Vec<u8>, message_type: u8) {
    if let Some(place) = message.get_mut(1) {
        *place = message_type;
    }
    // A message that exceeds the length field is truncated, so that the stream stays readable. Only packets
    // and echoes can be that long, and they come from messages of at most that length.
    message.truncate(usize::from(u16::MAX));
    let len = message.len().max(HEADER_LEN);
    message.set_u16(2, len);
}
