//! Frames that the state machines of protocols send, translated from a snapshot on any thread.

use crate::ids::BridgeId;
use crate::port::NO_DEVICE;
use crate::snapshot::{Shared, Snapshot};
use crate::translate::{Notes, Sent, translate_sent};
use crate::upcall::links;
use crate::{Ofproto, PortDevice};
use base::{Instant, OfPort};
use flow::{Action, Execute, Field, FlowKey, FlowStats, Frame, TUN_OAM, ToProtocol};
use packet::Packet;
use std::sync::Arc;

/// A frame that leaves a port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProtocolFrame<'a> {
    /// The port's bridge.
    pub bridge: BridgeId,
    /// The port.
    pub port: OfPort,
    /// The Ethernet frame.
    pub bytes: &'a [u8],
    /// Whether a tunnel sets its OAM flag.
    pub oam: bool,
}

/// What becomes of a frame.
#[derive(Debug)]
pub enum Sending {
    /// A worker sends it.
    Execute(Box<Execute>),
    /// It only reaches another port's state machine, through a patch.
    Here(ToProtocol),
    /// It goes nowhere.
    Nowhere,
}

/// Sends frames of protocols.
#[derive(Debug)]
pub struct ProtocolSender {
    shared: Arc<Shared>,
    snapshot: table::Snapshot<Snapshot>,
}

impl Ofproto {
    /// A sender for any thread, starting with the published snapshot.
    pub fn protocol_sender(&self) -> ProtocolSender {
        ProtocolSender { shared: Arc::clone(&self.shared), snapshot: self.shared.read() }
    }

    /// Changes whether a port may be used, as its protocols say.
    pub fn set_port_alive(&mut self, bridge: BridgeId, port: OfPort, alive: bool) {
        let found = self.bridges.get(bridge).and_then(|bridge| bridge.port(port));
        if let Some(mut spec) = found.map(|port| port.spec.clone()) {
            spec.alive = alive;
            // The port exists with this device, so this cannot fail.
            let _ = self.set_port(bridge, port, spec);
        }
    }
}

impl ProtocolSender {
    /// Releases a snapshot that is not the newest.
    pub fn refresh(&mut self) {
        self.shared.refresh(&mut self.snapshot);
    }

    /// Returns the packets that a port without a device of its own received, as far as workers have reported them;
    /// `None` for other ports.
    pub fn received(&self, bridge: BridgeId, port: OfPort) -> Option<u64> {
        let port = self.snapshot.bridges.get(bridge)?.port(port)?;
        match port.spec.device {
            PortDevice::Datapath(_) => None,
            PortDevice::Patch { .. } | PortDevice::Tunnel { .. } => Some(port.patch_rx.pair().0),
        }
    }

    /// Translates a frame, from no port to one (ovs: `ofproto/ofproto-dpif-xlate.c`, `xlate_send_packet`).
    pub fn send(&mut self, now: Instant, frame: ProtocolFrame<'_>) -> Sending {
        self.refresh();
        let Ok(parsed) = Frame::parse(Packet::from_bytes(frame.bytes), NO_DEVICE) else {
            return Sending::Nowhere;
        };
        let mut pipeline = FlowKey::new();
        pipeline.set_in_port_raw(OfPort::NONE.0.into());
        if frame.oam {
            pipeline.set(Field::TunFlags, TUN_OAM.into());
        }
        let actions = [openflow::Action::Output { port: frame.port, max_len: 0 }];
        let sent = Sent { bridge: frame.bridge, actions: &actions, pipeline: &pipeline };
        let world = self.snapshot.world(now);
        let translation = translate_sent(world, &parsed.key, &sent, Notes::Off);
        let bytes = parsed.seen_len() as u64;
        let stats = FlowStats { packets: 1, bytes, used: Some(now), tcp_flags: 0 };
        let links = links(translation.links, &parsed.key);
        if !links.effects.is_empty() || !links.rules.is_empty() {
            let mut megaflows = self.shared.lock();
            let crate::snapshot::Megaflows { installed, credits, .. } = &mut *megaflows;
            credits.add(&installed.shared_links(&links), &stats);
        }
        match translation.actions[..] {
            [] | [Action::Drop(_)] => Sending::Nowhere,
            [Action::Protocol(to)] => Sending::Here(to),
            _ => {
                let Frame { packet, key, .. } = parsed;
                let (key, actions) = (Box::new(key), translation.actions.into());
                let execute =
                    Execute { packet, key, actions, flow: None, trace: None, stamps: None };
                Sending::Execute(Box::new(execute))
            }
        }
    }
}
