//! Ports: descriptions, modifications, status messages.

use crate::bytes::{Input, Output};
use crate::error::{ErrorCode, OfError};
use crate::message::{Message, PortConfig, PortDesc, PortReason};
use crate::version::Version;
use base::{MacAddr, OfPort};

/// OFPPS_LINK_DOWN
const LINK_DOWN: u32 = 1;
/// OFPPS_LIVE of OpenFlow 1.1 and later: the port can be used for fast failover.
const LIVE: u32 = 4;
/// Configuration bits that OpenFlow 1.1 and later kept.
const CONFIG_13: PortConfig = PortConfig::PORT_DOWN
    .union(PortConfig::NO_RECV)
    .union(PortConfig::NO_FWD)
    .union(PortConfig::NO_PACKET_IN);
/// Bytes of a name, including a terminating zero.
const NAME_LEN: usize = 16;

/// Reads a port number of 16 or 32 bits.
pub(crate) fn take_port(input: &mut Input<'_>, version: Version) -> Result<OfPort, OfError> {
    if version == Version::V10 {
        return Ok(OfPort(input.u16()?));
    }
    let raw = input.u32()?;
    OfPort::from_wire32(raw).ok_or_else(|| {
        let reason = format!("port {raw:#x} lies between the ordinary and the reserved ones");
        OfError::new(ErrorCode::ActionBadOutPort, reason)
    })
}

pub(crate) fn put_port(out: &mut Vec<u8>, version: Version, port: OfPort) {
    if version == Version::V10 {
        out.put_u16(port.0);
    } else {
        out.put_u32(port.to_wire32());
    }
}

/// OpenFlow 1.0 has lower bits for copper and later features, as it lacks the speeds above 10 Gb/s.
fn features_10(features: u32) -> u32 {
    features & 0x7f | (features & 0xf800) >> 4
}

fn features_from_10(features: u32) -> u32 {
    features & 0x7f | (features & 0xf80) << 4
}

/// Returns the highest speed in feature bits, in kilobits per second.
fn speed_kbps(features: u32) -> u32 {
    const SPEEDS: [(u32, u32); 7] = [
        (0x200, 1_000_000_000),
        (0x100, 100_000_000),
        (0x80, 40_000_000),
        (0x40, 10_000_000),
        (0x30, 1_000_000),
        (0xc, 100_000),
        (0x3, 10_000),
    ];
    SPEEDS.iter().find(|(bits, _)| features & bits != 0).map_or(0, |(_, speed)| *speed)
}

/// Reads one description.
pub(crate) fn take_desc(input: &mut Input<'_>, version: Version) -> Result<PortDesc, OfError> {
    let port = take_port(input, version)?;
    let mut properties = None;
    match version {
        Version::V10 => {}
        Version::V11 | Version::V12 | Version::V13 => input.skip(4)?,
        Version::V14 | Version::V15 => {
            let len = usize::from(input.u16()?);
            input.skip(2)?;
            properties = Some(len.checked_sub(40).ok_or_else(|| {
                OfError::new(ErrorCode::BadLen, format!("a port's description of {len} bytes"))
            })?);
        }
    }
    let mac = MacAddr(input.array()?);
    if version != Version::V10 {
        input.skip(2)?;
    }
    let name = input.text(NAME_LEN)?;
    let config = PortConfig::from_bits_truncate(input.u32()?);
    let state = input.u32()?;
    let link_down = state & LINK_DOWN != 0;
    let live = state & LIVE != 0 && version != Version::V10;
    let mut desc = PortDesc { port, mac, name, config, link_down, live, current: 0, speed_kbps: 0 };
    match (version, properties) {
        (Version::V10, _) => {
            desc.current = features_from_10(input.u32()?);
            input.skip(12)?;
            desc.speed_kbps = speed_kbps(desc.current);
        }
        (_, None) => take_ethernet(input, &mut desc)?,
        (_, Some(len)) => {
            let mut properties = input.part(len)?;
            while !properties.is_empty() {
                take_property(&mut properties, &mut desc)?;
            }
        }
    }
    Ok(desc)
}

fn take_ethernet(input: &mut Input<'_>, desc: &mut PortDesc) -> Result<(), OfError> {
    desc.current = input.u32()?;
    input.skip(12)?;
    desc.speed_kbps = input.u32()?;
    input.skip(4)
}

fn take_property(input: &mut Input<'_>, desc: &mut PortDesc) -> Result<(), OfError> {
    let (kind, len) = (input.u16()?, usize::from(input.u16()?));
    let Some(body) = len.checked_sub(4) else {
        return Err(OfError::new(ErrorCode::BadLen, "a port's property of less than 4 bytes"));
    };
    let mut value = input.part(body)?;
    input.skip((len.next_multiple_of(8) - len).min(input.len()))?;
    if kind == 0 {
        value.skip(4)?;
        take_ethernet(&mut value, desc)?;
    }
    Ok(())
}

/// Writes one description.
pub(crate) fn put_desc(out: &mut Vec<u8>, version: Version, desc: &PortDesc) {
    put_port(out, version, desc.port);
    match version {
        Version::V10 => {}
        Version::V11 | Version::V12 | Version::V13 => out.put_zeros(4),
        Version::V14 | Version::V15 => {
            out.put_u16(72);
            out.put_zeros(2);
        }
    }
    out.put(&desc.mac.0);
    if version != Version::V10 {
        out.put_zeros(2);
    }
    out.put_text(&desc.name, NAME_LEN);
    let mut state = if desc.link_down { LINK_DOWN } else { 0 };
    if version == Version::V10 {
        out.put_u32(desc.config.bits());
        out.put_u32(state);
        out.put_u32(features_10(desc.current));
        out.put_zeros(12);
        return;
    }
    if desc.live {
        state |= LIVE;
    }
    out.put_u32((desc.config & CONFIG_13).bits());
    out.put_u32(state);
    if version >= Version::V14 {
        // OFPPDPT14_ETHERNET
        out.put_u16(0);
        out.put_u16(32);
        out.put_zeros(4);
    }
    out.put_u32(desc.current);
    out.put_zeros(12);
    out.put_u32(desc.speed_kbps);
    out.put_u32(0);
}

/// Reads a port-status message.
pub(crate) fn take_status(input: &mut Input<'_>, version: Version) -> Result<Message, OfError> {
    let reason = match input.u8()? {
        0 => PortReason::Add,
        1 => PortReason::Delete,
        2 => PortReason::Modify,
        other => {
            let reason = format!("port status of reason {other}");
            return Err(OfError::new(ErrorCode::BadLen, reason));
        }
    };
    input.skip(7)?;
    Ok(Message::PortStatus { reason, port: take_desc(input, version)? })
}

/// Writes a port-status message.
pub(crate) fn put_status(out: &mut Vec<u8>, version: Version, reason: PortReason, port: &PortDesc) {
    out.put_u8(match reason {
        PortReason::Add => 0,
        PortReason::Delete => 1,
        PortReason::Modify => 2,
    });
    out.put_zeros(7);
    put_desc(out, version, port);
}

/// Reads a port-mod.
pub(crate) fn take_mod(input: &mut Input<'_>, version: Version) -> Result<Message, OfError> {
    let port = take_port(input, version)
        .map_err(|error| OfError { code: ErrorCode::PortModBadPort, ..error })?;
    if version != Version::V10 {
        input.skip(4)?;
    }
    let mac = MacAddr(input.array()?);
    if version != Version::V10 {
        input.skip(2)?;
    }
    let config = PortConfig::from_bits_truncate(input.u32()?);
    // Later versions have fewer bits; others are ignored.
    let mask = PortConfig::from_bits_truncate(input.u32()?) & known_config(version);
    // The advertised features, which no virtual port has: a fixed field, or properties in later versions.
    if version >= Version::V14 {
        input.take(input.len())?;
    } else {
        input.skip(8)?;
    }
    Ok(Message::PortMod { port, mac, config: config & mask, mask })
}

fn known_config(version: Version) -> PortConfig {
    if version == Version::V10 { PortConfig::all() } else { CONFIG_13 }
}

/// Writes a port-mod.
pub(crate) fn put_mod(
    out: &mut Vec<u8>,
    version: Version,
    port: OfPort,
    mac: MacAddr,
    config: PortConfig,
    mask: PortConfig,
) {
    let known = known_config(version);
    put_port(out, version, port);
    if version != Version::V10 {
        out.put_zeros(4);
    }
    out.put(&mac.0);
    if version != Version::V10 {
        out.put_zeros(2);
    }
    out.put_u32((config & mask & known).bits());
    out.put_u32((mask & known).bits());
    if version < Version::V14 {
        out.put_zeros(8);
    }
}
