//! Output actions.

use super::context::{Context, Scope};
use super::report::NoteKind;
use crate::dependency::Dependency;
use crate::effect::Effect;
use crate::ids::BridgeId;
use crate::port::{Port, PortDevice};
use base::{OfPort, PortNo, TableId};
use flow::{Action, ControllerAction, Field, FlowKey, MeterRef, SetTunnel, TunnelKind};
use openflow::action::ToController;
use openflow::message::{PortConfig, reason};
use std::sync::Arc;
use tunnel::{PacketType, TunnelConfig};

impl Context<'_> {
    /// Outputs to a port, physical or reserved (ovs: `xlate_output_action`).
    pub fn output(&mut self, port: OfPort, max_len: u16, may_packet_in: bool, last: bool) {
        let in_port = self.in_port();
        match port {
            OfPort::IN_PORT => self.output_to(in_port, last),
            OfPort::TABLE => {
                self.table_action(in_port, TableId(0), may_packet_in, false, false, Scope::Direct);
            }
            OfPort::NORMAL => self.normal(),
            OfPort::FLOOD => self.flood(false, last),
            OfPort::ALL => self.flood(true, last),
            OfPort::CONTROLLER => {
                let reason = self.output_reason();
                self.send_to_controller(&ToController {
                    max_len,
                    reason,
                    ..ToController::default()
                });
            }
            OfPort::NONE => {}
            _ if port == in_port => {
                self.notes.add(NoteKind::Detail, || "skipping output to input port".to_owned())
            }
            _ => self.output_to(port, last),
        }
    }

    /// The packet-in reason of an output to the controller.
    fn output_reason(&self) -> u8 {
        match () {
            () if self.sent => reason::PACKET_OUT,
            () if self.in_bucket => reason::GROUP,
            () if self.in_action_set => reason::ACTION_SET,
            () => reason::ACTION,
        }
    }

    /// Outputs to all ports except the in-port.
    fn flood(&mut self, all: bool, last: bool) {
        let in_port = self.in_port();
        let bridge = self.bridge;
        self.look_at_ports();
        let ports = bridge.flood_ports().filter(|port| {
            port.number != in_port && (all || !port.config.contains(PortConfig::NO_FLOOD))
        });
        let mut ports = ports.peekable();
        while let Some(port) = ports.next() {
            self.output_to(port.number, last && ports.peek().is_none());
        }
    }

    /// Outputs to a port that exists and forwards (ovs: `compose_output_action__`).
    pub fn output_to(&mut self, number: OfPort, last: bool) {
        let Some(port) = self.port(number) else {
            self.notes.add(NoteKind::Warning, || "Nonexistent output port".to_owned());
            return;
        };
        if port.config.contains(PortConfig::NO_FWD) {
            self.notes.add(NoteKind::Detail, || "OFPPC_NO_FWD set, skipping output".to_owned());
            return;
        }
        let from_protected = self.port(self.in_port()).is_some_and(|port| port.spec.protected);
        if from_protected && port.spec.protected {
            self.notes.add(NoteKind::Warning, || {
                "Flow is between protected ports, skipping output.".to_owned()
            });
            return;
        }
        let takes_frames_only = match &port.spec.device {
            PortDevice::Patch { .. } => false,
            PortDevice::Tunnel { config, .. } => config.packet_type == PacketType::LegacyL2,
            PortDevice::Datapath(_) => true,
        };
        if takes_frames_only && !self.is_frame() {
            self.notes.add(NoteKind::Warning, || {
                "Trying to send non-Ethernet packet through legacy L2 port. Dropping packet."
                    .to_owned()
            });
            return;
        }
        // Mirrored copies may follow.
        let last = last && self.bridge.config.mirrors.is_empty();
        if let PortDevice::Tunnel { device, config } = &port.spec.device {
            self.output_to_tunnel(port, *device, config, last);
        } else if let Some(device) = port.datapath() {
            self.commit();
            self.output_to_device(port, device);
            self.mirror_egress(port);
        } else if self.snaplen != 0 {
            self.notes.add(NoteKind::Warning, || {
                "Mirror truncate to ODPP_NONE, skipping output".to_owned()
            });
        } else if let Some(peer) = self.world.bridges.patch_peer(port) {
            self.output_to_patch(number, peer, last);
        }
    }

    /// Outputs the packet, possibly truncated, to a device or into a tunnel that ends here.
    pub fn output_to_device(&mut self, port: &Port, device: PortNo) {
        let max_len = match (self.max_len, self.snaplen) {
            (0, 0 | u16::MAX) => 0,
            (0, snaplen) => snaplen.into(),
            (max_len, _) => max_len,
        };
        let action = match (self.terminate(port), max_len) {
            (Some(end), 0) => end,
            (Some(end), max_len) => Action::CloneCut { max_len, actions: [end].into() },
            (None, 0) => Action::Output(device),
            (None, max_len) => Action::OutputCut { port: device, max_len },
        };
        self.is_slow |= max_len != 0 && !self.world.features.truncation;
        self.actions.push(action);
    }

    /// Sets the tunnel for a device that adds the outer headers itself, unless it is set already.
    pub fn tell_tunnel(&mut self, config: &TunnelConfig) {
        let mut key = FlowKey::new();
        key.copy_tunnel(self.key);
        let table: &[_] = match config.kind {
            TunnelKind::Geneve => &self.bridge.tunnel_options,
            _ => &[],
        };
        key.unmap_options(table);
        let told = Some(Arc::new(SetTunnel { key, udp_port: config.udp_port }));
        if self.told_tunnel != told {
            self.actions.extend(told.clone().map(Action::SetTunnel));
            self.told_tunnel = told;
        }
    }

    /// Outputs the packet truncated, to a port other than a patch (ovs: `xlate_output_trunc_action`).
    pub fn output_trunc(&mut self, port: OfPort, max_len: u32, last: bool) {
        let is_single = port.0 < OfPort::MAX.0 || matches!(port, OfPort::LOCAL | OfPort::IN_PORT);
        let number = if port == OfPort::IN_PORT { self.in_port() } else { port };
        let found = self.port(number);
        let has_device =
            found.is_some_and(|it| !matches!(it.spec.device, PortDevice::Patch { .. }));
        if !is_single {
            self.notes
                .add(NoteKind::Warning, || format!("output_trunc does not support port: {port}"));
        } else if port == self.in_port() {
            self.notes.add(NoteKind::Detail, || "skipping output to input port".to_owned());
        } else if !has_device {
            self.notes.add(NoteKind::Error, || {
                format!("output_trunc does not support patch port {port}")
            });
        } else {
            self.max_len = max_len;
            self.output_to(number, last);
            self.max_len = 0;
        }
    }

    /// Continues in the bridge at the other end of a patch. Its changes to the packet end there (ovs:
    /// `patch_port_output`).
    fn output_to_patch(&mut self, number: OfPort, peer: (BridgeId, OfPort), last: bool) {
        let Some(bridge) = self.world.bridges.get(peer.0) else { return };
        self.depend(Dependency::Bridge { bridge: bridge.id });
        self.depend(Dependency::Port { bridge: bridge.id, port: peer.1 });
        let Some(port) = bridge.port(peer.1) else { return };
        let (key, aside) = (self.saved_key(), self.begin_aside());
        let (stack, action_set) =
            (std::mem::take(&mut self.stack), std::mem::take(&mut self.action_set));
        let (conntracked, was_mpls) = (self.conntracked, self.shims.was_mpls);
        let varying = std::mem::take(self.varying);
        // The mirrors of another bridge are separate.
        let other_mirrors = if peer.0 == self.bridge.id { self.mirrored } else { 0 };
        let mirrored = std::mem::replace(&mut self.mirrored, other_mirrors);
        let here = std::mem::replace(&mut self.bridge, bridge);
        let visible = std::mem::replace(&mut self.visible, self.pending.len());
        self.key.set_in_port_raw(peer.1.0.into());
        for &field in Field::BASIC.iter().filter(|field| field.is_pipeline()) {
            self.key.set(field, 0);
        }
        self.key.clear_set_tunnel();
        self.key.set(Field::ActsetOutput, OfPort::UNSET.0.into());
        self.clear_conntrack();
        self.notes.enter(NoteKind::Bridge, || format!("bridge(\"{}\")", bridge.config.name));
        if !self.process_special(port) && self.may_receive(port) {
            self.table_action(peer.1, TableId(0), true, false, last, Scope::Clone);
            self.finish_pipeline();
        }
        self.notes.leave();
        (self.bridge, self.visible) = (here, visible);
        self.end_aside(aside, last);
        (*self.key, *self.varying) = (*key, varying);
        (self.stack, self.action_set) = (stack, action_set);
        (self.conntracked, self.shims.was_mpls) = (conntracked, was_mpls);
        if peer.0 != here.id {
            self.mirrored = mirrored;
        }
        // An `exit` or error in the other bridge does not end the actions here.
        self.exit = false;
        self.failure = self.error.take().or(self.failure);
        self.effects.push(Effect::Patch { from: (here.id, number), to: peer });
    }

    /// Sends a copy to controllers.
    pub fn send_to_controller(&mut self, to: &ToController) {
        self.commit();
        let is_miss_flow = self
            .rule
            .and_then(|id| self.world.rules.get(id))
            .is_some_and(|rule| rule.priority == 0 && rule.matching.is_any());
        let reason = match to.reason {
            reason::ACTION if is_miss_flow => reason::EXPLICIT_MISS,
            reason => reason,
        };
        let state = self.freeze(self.table, to.userdata.clone());
        let Some(id) = self.intern(state) else { return };
        let send = ControllerAction {
            reason,
            recirc_id: id,
            rule_cookie: self.cookie,
            controller_id: to.controller_id,
            max_len: to.max_len,
            pauses: false,
        };
        self.push_to_controller(to, send);
    }

    /// Limits the packets of the slow path by the bridge's meter for them. A trace shows the actions without it, as
    /// Open vSwitch's does.
    pub fn limit_slow_path(&mut self) {
        if !self.is_slow || self.notes.is_wanted() || self.actions.is_empty() {
            return;
        }
        if let Some(meter) = self.bridge.meters.of_slow_path() {
            self.actions.insert(0, Action::Meter(MeterRef(Arc::clone(meter))));
        }
    }

    /// Adds the datapath's action that sends a packet to controllers, limited by its own meter or by the bridge's for
    /// all such packets.
    pub fn push_to_controller(&mut self, to: &ToController, send: ControllerAction) {
        let own = to.meter.and_then(|meter| {
            self.depend(Dependency::Meter { bridge: self.bridge.id, meter: meter.get() });
            self.bridge.meters.get(meter.get())
        });
        let send = Action::Controller(send);
        self.actions.push(match own.or_else(|| self.bridge.meters.of_controllers()) {
            Some(meter) => {
                let limit = Action::Meter(MeterRef(Arc::clone(meter)));
                Action::Clone([limit, send].into())
            }
            None => send,
        });
    }
}
