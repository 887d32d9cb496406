//! Packets from controllers.

use crate::flow_mod::no_bridge;
use crate::ids::BridgeId;
use crate::port::NO_DEVICE;
use crate::translate::{Notes, Sent, translate_sent};
use crate::upcall::links;
use crate::{Ofproto, Outbox};
use base::{Instant, OfPort, PortNo, WorkerId};
use flow::{DropReason, Execute, Field, FlowCommand, FlowStats, Frame, Match};
use openflow::message::PacketOut;
use openflow::{ErrorCode, OfError};
use packet::Packet;
use std::sync::Arc;

/// The packet of a controller's message. One without an Ethernet header gets one for the datapath, with zero
/// addresses.
pub(crate) fn whole_frame(
    data: &[u8],
    metadata: &Match,
    device: PortNo,
) -> Result<Frame, DropReason> {
    let packet_type = metadata.key().get(Field::PacketType) as u16;
    let with_header;
    let data = match packet_type {
        0 => data,
        _ => {
            with_header = [&[0; 12][..], &packet_type.to_be_bytes(), data].concat();
            &with_header
        }
    };
    let mut frame = Frame::parse(Packet::from_bytes(data), device).map_err(|(_, why)| why)?;
    frame.key.set(Field::PacketType, packet_type.into());
    Ok(frame)
}

impl Ofproto {
    /// Carries out a packet-out. The first worker sends the packet.
    pub fn packet_out(
        &mut self,
        id: BridgeId,
        packet_out: &PacketOut,
        now: Instant,
        out: &mut Outbox,
    ) -> Result<(), OfError> {
        coverage::count(coverage::Event::PacketOut);
        let packet_out = &*self.placed_packet_out(id, packet_out)?;
        let Some(bridge) = self.bridges.get(id) else { return Err(no_bridge(id)) };
        if packet_out.buffer_id.is_some() {
            let reason = "packet-out: no packets are buffered here; send the packet's bytes";
            return Err(OfError::new(ErrorCode::BufferUnknown, reason));
        }
        let pipeline = packet_out.metadata.key();
        let in_port = OfPort(pipeline.in_port_raw() as u16);
        if !in_port.is_real() && !matches!(in_port, OfPort::NONE | OfPort::CONTROLLER) {
            let reason = format!("packet-out: {in_port} is no port that a packet can come from");
            return Err(OfError::new(ErrorCode::BadPort, reason));
        }
        self.check_groups(id, &packet_out.actions)?;
        self.check_meters(id, &packet_out.actions)?;
        let device = bridge.port(in_port).and_then(|port| port.source()).unwrap_or(NO_DEVICE);
        let Ok(frame) = whole_frame(&packet_out.data, &packet_out.metadata, device) else {
            let reason = "packet-out: the packet has no whole Ethernet header";
            return Err(OfError::new(ErrorCode::BadPacket, reason));
        };
        let sent = Sent { bridge: id, actions: &packet_out.actions, pipeline };
        self.send(frame, &sent, now, out);
        Ok(())
    }

    /// Carries out actions on a packet that comes from no port. The first worker sends it.
    pub(crate) fn send(&mut self, frame: Frame, sent: &Sent<'_>, now: Instant, out: &mut Outbox) {
        let mut translation = translate_sent(self.world(now), &frame.key, sent, Notes::Off);
        let bytes = frame.seen_len() as u64;
        let stats = FlowStats { packets: 1, bytes, used: Some(now), tcp_flags: 0 };
        let actions: Arc<[flow::Action]> = std::mem::take(&mut translation.actions).into();
        self.credit(&links(translation.links, &frame.key), &stats, now);
        if actions.is_empty() {
            return;
        }
        let Frame { packet, key, .. } = frame;
        let key = Box::new(key);
        let execute = Execute { packet, key, actions, flow: None, trace: None, stamps: None };
        coverage::count(coverage::Event::Execute);
        out.commands.push((WorkerId(0), FlowCommand::Execute(execute)));
    }
}
