//! Checks of a request before the bridge carries it out.

use super::Switch;
use crate::ids::BridgeId;
use base::{MacAddr, OfPort, PortNo, limits};
use flow::{Frame, Mask, Match, WORDS};
use openflow::message::{FlowMod, GroupMod, Message, PacketOut, Version};
use openflow::{ErrorCode, OfError, Place};
use packet::Packet;

/// Checks a flow-mod: its actions must fit its match, and it may not name a buffer.
pub(super) fn flow_mod(flow_mod: &FlowMod, version: Option<Version>) -> Result<(), OfError> {
    let place = Place {
        version: version.unwrap_or(Version::V10),
        table: flow_mod.table,
        tables: limits::TABLES as u8,
    };
    openflow::check(&flow_mod.actions, &flow_mod.matching, place)?;
    crate::flow_check::check(flow_mod)
}

/// Checks the actions of a group's buckets, without a match (ovs: `lib/ofp-group.c`,
/// `ofputil_pull_ofp11_buckets`).
pub(super) fn group_mod(group_mod: &GroupMod) -> Result<(), OfError> {
    group_mod.buckets.iter().try_for_each(|bucket| openflow::check_bucket(&bucket.actions))
}

/// Checks a packet-out: it must carry its packet, and its actions must fit the packet.
pub(super) fn packet_out(packet: &PacketOut, version: Option<Version>) -> Result<(), OfError> {
    if packet.buffer_id.is_some() {
        let reason = "packet-out: no packets are buffered here; send the packet itself";
        return Err(OfError::new(ErrorCode::BufferUnknown, reason));
    }
    let port = packet.metadata.key().in_port_raw();
    let is_reserved =
        [OfPort::LOCAL, OfPort::NONE, OfPort::CONTROLLER].iter().any(|p| u32::from(p.0) == port);
    if port >= OfPort::MAX.0.into() && !is_reserved {
        let reason = format!("packet-out: packets don't come in on port {port:#x}");
        return Err(OfError::new(ErrorCode::BadPort, reason));
    }
    let version = version.unwrap_or(Version::V10);
    let place = Place { version, table: None, tables: limits::TABLES as u8 };
    check_actions(packet, place)
}

/// Checks actions against the packet's own headers, as against the match of a flow.
fn check_actions(packet: &PacketOut, place: Place) -> Result<(), OfError> {
    let known = &packet.metadata;
    let frame = Frame::parse(Packet::from_bytes(&packet.data), PortNo(known.key().in_port_raw()));
    let Ok(Frame { mut key, .. }) = frame else {
        // Without an Ethernet header the packet is not sent, whatever the actions are.
        return openflow::check(&packet.actions, known, place);
    };
    for (word, known) in key.words_mut().iter_mut().zip(known.key().words()) {
        *word |= known;
    }
    let mut exact = Mask::new();
    *exact.words_mut() = [u64::MAX; WORDS];
    openflow::check(&packet.actions, &Match::new(&key, &exact), place)
}

/// Checks a message before it is added to a bundle. Only a few kinds are permitted.
pub(super) fn bundled(message: &Message, version: Option<Version>) -> Result<(), OfError> {
    match message {
        Message::FlowMod(flow_mod) => self::flow_mod(flow_mod, version),
        Message::PacketOut(packet) => packet_out(packet, version),
        Message::GroupMod(group) => group_mod(group),
        Message::PortMod { .. } => Ok(()),
        _ => {
            let reason = "a bundle takes flow-mods, group-mods, port-mods and packet-outs";
            Err(OfError::new(ErrorCode::BundleMessageUnsupported, reason))
        }
    }
}

/// The port of a port-mod must exist and have that address.
pub(super) fn port_mod(
    bridge: BridgeId,
    port: OfPort,
    mac: MacAddr,
    switch: &Switch<'_>,
) -> Result<(), OfError> {
    let found = switch.core.bridge(bridge).and_then(|bridge| bridge.port(port));
    let (code, reason) = match found {
        None => (ErrorCode::PortModBadPort, format!("port-mod: the bridge has no port {port}")),
        Some(found) if found.spec.mac != mac => {
            let is = found.spec.mac;
            (ErrorCode::PortModBadHwAddr, format!("port-mod: port {port} has {is}, not {mac}"))
        }
        Some(_) => return Ok(()),
    };
    Err(OfError::new(code, reason))
}
