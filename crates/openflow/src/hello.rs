//! The start of a connection: hello and features.

use crate::bytes::{Input, Output};
use crate::error::OfError;
use crate::message::Message;
use crate::port;
use crate::version::Version;
use base::DatapathId;

/// OFPHET_VERSIONBITMAP
const VERSION_BITMAP: u16 = 1;
/// Capabilities of every bridge: OFPC_FLOW_STATS, TABLE_STATS, PORT_STATS, QUEUE_STATS (the same bits in all
/// versions), and ARP_MATCH_IP in 1.0 or GROUP_STATS later.
const CAPABILITIES: u32 = 0x4f;
const CAPABILITIES_10: u32 = 0xc7;
/// OFPC_BUNDLES, from OpenFlow 1.4 on.
const BUNDLES: u32 = 1 << 9;
/// OpenFlow 1.0's actions from output to `enqueue`.
const ACTIONS_10: u32 = 0xfff;

/// Reads a hello. Without a bitmap, the header's version is the highest supported one (OpenFlow 1.3.1,
/// section 6.3.1).
pub(crate) fn take(input: &mut Input<'_>, wire_version: u8) -> Result<Message, OfError> {
    // All versions up to the header's.
    let mut versions = 2u32.checked_shl(wire_version.min(30).into()).map_or(0, |bit| bit - 1) & !1;
    while input.len() >= 4 {
        let (kind, len) = (input.u16()?, usize::from(input.u16()?));
        let Some(body) = len.checked_sub(4) else { break };
        // Malformed data after the known elements of a hello is ignored.
        let Ok(mut element) = input.part(body) else { break };
        let _ = input.skip((len.next_multiple_of(8) - len).min(input.len()));
        if kind == VERSION_BITMAP && element.len() >= 4 {
            versions = element.u32()?;
        }
    }
    Ok(Message::Hello { versions })
}

/// Writes a hello, with a bitmap if the header's version is not sufficient.
pub(crate) fn put(out: &mut Vec<u8>, version: Version, versions: u32) -> u8 {
    let up_to_this = ((2u32 << version as u8) - 1) & !1;
    if versions != up_to_this {
        out.put_u16(VERSION_BITMAP);
        out.put_u16(8);
        out.put_u32(versions);
    }
    0
}

/// Reads a features reply.
pub(crate) fn take_features(input: &mut Input<'_>, version: Version) -> Result<Message, OfError> {
    let datapath_id = DatapathId(input.u64()?);
    let (buffers, tables, auxiliary_id) = (input.u32()?, input.u8()?, input.u8()?);
    input.skip(2 + 4 + 4)?;
    let mut ports = Vec::new();
    if version < Version::V13 {
        while !input.is_empty() {
            ports.push(port::take_desc(input, version)?);
        }
    }
    let auxiliary_id = if version < Version::V13 { 0 } else { auxiliary_id };
    Ok(Message::FeaturesReply { datapath_id, buffers, tables, auxiliary_id, ports })
}

/// Writes a features reply.
pub(crate) fn put_features(out: &mut Vec<u8>, version: Version, message: &Message) -> u8 {
    let Message::FeaturesReply { datapath_id, buffers, tables, auxiliary_id, ports } = message
    else {
        return 6;
    };
    let v10 = version == Version::V10;
    out.put_u64(datapath_id.0);
    out.put_u32(*buffers);
    out.put_u8(*tables);
    out.put_u8(if version < Version::V13 { 0 } else { *auxiliary_id });
    out.put_zeros(2);
    out.put_u32(match version {
        Version::V10 => CAPABILITIES_10,
        Version::V11 | Version::V12 | Version::V13 => CAPABILITIES,
        Version::V14 | Version::V15 => CAPABILITIES | BUNDLES,
    });
    out.put_u32(if v10 { ACTIONS_10 } else { 0 });
    if version < Version::V13 {
        for port in ports {
            port::put_desc(out, version, port);
        }
    }
    6
}
