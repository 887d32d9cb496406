//! Tunnel ports: encapsulation, and the outer packet's way through the underlay's bridge (ovs:
//! `ofproto/ofproto-dpif-xlate.c`, `native_tunnel_output`; `ofproto/tunnel.c`).

use super::context::{Context, Scope};
use super::outer;
use super::report::NoteKind;
use crate::bridge::Bridge;
use crate::bridges::address;
use crate::dependency::Dependency;
use crate::effect::Effect;
use crate::links::OuterPart;
use crate::port::{Port, PortDevice};
use base::{MacAddr, PortNo, TableId};
use flow::{
    Action, DropReason, Field, FlowKey, OptionMapping, TUN_CSUM, TUN_DONT_FRAGMENT, TUN_KEY,
    TUN_OAM, TunnelKind, TunnelPush, TunnelSequence,
};
use std::net::IpAddr;
use std::sync::Arc;
use tunnel::{Endpoint, Hop, Inherit, Key, Outer, PacketType, TunnelConfig};

/// The ECN bits of a TOS (RFC 3168).
pub(super) const ECN: u8 = 3;
/// Congestion experienced.
const CE: u8 = 3;
/// ECN-capable transport.
const ECT_1: u8 = 1;
const ECT_0: u8 = 2;
const DSCP: u8 = 0xfc;

/// The next hop of a tunnel's outer packet.
struct Link<'a> {
    bridge: &'a Bridge,
    port: &'a Port,
    hop: Hop,
    /// The neighbour to send to.
    next: IpAddr,
    mac: MacAddr,
}

/// An outer packet that enters the underlay's bridge.
struct Crossing<'a> {
    link: Link<'a>,
    push: Arc<TunnelPush>,
    /// Its key.
    outer: Box<FlowKey>,
}

impl<'a> Context<'a> {
    /// Adds the tunnel fields to the mask that every packet out of a tunnel matches (ovs: `ofproto/tunnel.c`,
    /// `tnl_wc_init`).
    pub fn look_at_tunnel(&mut self) {
        if !self.key.has_tunnel() {
            return;
        }
        let ends = [Field::TunIpv6Src, Field::TunIpv6Dst];
        for field in ends.into_iter().chain([Field::TunId, Field::TunTos, Field::PacketType]) {
            self.mask.add(field);
        }
        // The key flag says whether there is a tunnel id. The others are matched only where a flow does.
        self.mask.add_bits(Field::TunFlags, TUN_KEY.into());
        self.own_address = destination(self.key);
    }

    /// Adds an Ethernet header to a packet without one whose port carries only frames (ovs:
    /// `ofproto/ofproto-dpif-xlate.c`, `xlate_actions`).
    pub fn enter_from_packets(&mut self, port: &Port) {
        let PortDevice::Tunnel { config, .. } = &port.spec.device else { return };
        if !self.is_frame() && config.packet_type == PacketType::LegacyL3 {
            let fields = [Field::PacketType, Field::EthSrc, Field::EthDst];
            fields.into_iter().for_each(|field| self.key.set(field, 0));
            self.is_rewritten = true;
        }
    }

    /// Copies the outer congestion mark to the packet (RFC 6040 section 4.2). Returns `false` if the packet
    /// must be dropped: it is marked, and its transport is not ECN-capable.
    pub fn take_over_ecn(&mut self) -> bool {
        let outer = self.key.get(Field::TunTos) as u8 & ECN;
        if !self.key.has_tunnel() || !self.key.is_ip() || !matches!(outer, CE | ECT_1) {
            return true;
        }
        self.mask.add_bits(Field::NwTos, ECN.into());
        let tos = self.key.nw_tos();
        match (outer, tos & ECN) {
            (CE, 0) => {
                self.failure = Some(DropReason::TunnelCongestion);
                self.notes.add(NoteKind::Warning, || {
                    "dropping tunnel packet marked ECN CE but is not ECN capable".to_owned()
                });
                false
            }
            (CE, _) => {
                self.is_rewritten = true;
                self.key.set_nw_tos(tos | CE);
                true
            }
            (ECT_1, ECT_0) => {
                self.is_rewritten = true;
                self.key.set_nw_tos((tos & DSCP) | ECT_1);
                true
            }
            _ => true,
        }
    }

    /// Outputs the packet to a tunnel.
    pub fn output_to_tunnel(
        &mut self,
        port: &'a Port,
        device: PortNo,
        config: &TunnelConfig,
        last: bool,
    ) {
        let before = self.saved_key();
        self.set_tunnel_fields(config);
        if destination(self.key).is_some() && destination(self.key) == self.own_address {
            self.notes.add(NoteKind::Warning, || "Not tunneling to our own address".to_owned());
            self.restore_tunnel(&before);
            return;
        }
        self.effects.push(Effect::Tunnel { at: (self.bridge.id, port.number), sent: true });
        if !self.world.features.tunnels {
            self.notes.add(NoteKind::Detail, || "output to kernel tunnel".to_owned());
            self.tell_tunnel(config);
            self.restore_tunnel(&before);
            self.commit();
            if config.packet_type == PacketType::LegacyL3 {
                self.pop_ethernet();
            }
            self.output_to_device(port, device);
            self.mirror_egress(port);
            return;
        }
        self.notes.add(NoteKind::Detail, || "output to native tunnel".to_owned());
        self.commit();
        match self.push_tunnel((device, &port.tunnel_sequence), config) {
            Ok(crossing) => self.cross_underlay(crossing, last),
            Err(reason) => self.failure = Some(reason),
        }
        self.restore_tunnel(&before);
        self.mirror_egress(port);
    }

    /// Restores the tunnel fields that the port has set, so that later actions do not see them.
    fn restore_tunnel(&mut self, before: &FlowKey) {
        for &field in Field::BASIC.iter().filter(|field| field.is_tunnel()) {
            self.key.set(field, before.get(field));
        }
    }

    /// Sets the tunnel fields from the port's configuration (ovs: `tnl_port_send`).
    fn set_tunnel_fields(&mut self, config: &TunnelConfig) {
        let (key, mask) = (&mut self.key, &mut self.mask);
        for (end, field) in [(config.local, Field::TunIpv6Src), (config.remote, Field::TunIpv6Dst)]
        {
            match end {
                Endpoint::Flow => {}
                Endpoint::Any => key.set(field, 0),
                Endpoint::Is(ip) => key.set(field, bits(ip)),
            }
        }
        if config.out_key != Key::Flow {
            key.set(Field::TunId, config.out_key.value().into());
        }
        let is_ip = key.is_ip();
        let ttl = match config.ttl {
            Inherit::Packet(_) if is_ip => {
                mask.add(Field::NwTtl);
                key.nw_ttl()
            }
            Inherit::Packet(ttl) | Inherit::Is(ttl) => ttl,
        };
        let mut tos = match config.tos {
            Inherit::Packet(_) if is_ip => {
                mask.add_bits(Field::NwTos, DSCP.into());
                key.nw_tos() & DSCP
            }
            Inherit::Packet(tos) | Inherit::Is(tos) => tos,
        };
        // ECN is always inherited (RFC 6040 section 4.1).
        if is_ip {
            self.copies_ecn = true;
            tos |= key.nw_tos() & ECN;
        }
        key.set(Field::TunTtl, ttl.into());
        key.set(Field::TunTos, tos.into());
        let is_to_ipv6 = u32::try_from(key.get(Field::TunIpv6Dst)).is_err();
        let flag = |is_set: bool, flag: u16| if is_set { flag } else { 0 };
        let flags = (key.get(Field::TunFlags) as u16 & TUN_OAM)
            | flag(config.dont_fragment, TUN_DONT_FRAGMENT)
            | flag(config.has_checksum(is_to_ipv6), TUN_CSUM)
            | flag(config.out_key != Key::Absent, TUN_KEY);
        key.set(Field::TunFlags, flags.into());
        if let Some(mark) = config.egress_mark {
            key.set_pkt_mark(mark);
            mask.add(Field::PktMark);
        }
        let erspan = config.erspan;
        let mut set = |field, value: u128| key.set(field, value);
        if let tunnel::FlowOr::Is(version) = erspan.version {
            set(Field::TunErspanVer, version.into());
        }
        if let tunnel::FlowOr::Is(index) = erspan.index {
            set(Field::TunErspanIdx, index.into());
        }
        if let tunnel::FlowOr::Is(direction) = erspan.direction {
            set(Field::TunErspanDir, direction.into());
        }
        if let tunnel::FlowOr::Is(hardware) = erspan.hardware {
            set(Field::TunErspanHwid, hardware.into());
        }
    }

    /// Builds the outer headers. [`Self::cross_underlay`] must follow.
    #[inline(never)]
    fn push_tunnel(
        &mut self,
        (device, sequence): (PortNo, &TunnelSequence),
        config: &TunnelConfig,
    ) -> Result<Crossing<'a>, DropReason> {
        let link = self.find_link()?;
        let source = link.hop.source;
        let Some(remote) = destination(self.key) else { return Err(DropReason::TunnelRoute) };
        let ethernet = (link.port.spec.mac, link.mac);
        self.notes.add(NoteKind::Detail, || {
            let (from, to) = ethernet;
            format!("tunneling from {from} {source} to {to} {}", link.next)
        });
        let key = &self.key;
        let strips_ethernet = outer::strips_ethernet(config, key)?;
        let options = match config.kind {
            TunnelKind::Geneve => OptionMapping::encode(&self.bridge.tunnel_options, key),
            _ => Vec::new(),
        };
        let byte = |field| key.get(field) as u8;
        let flags = key.get(Field::TunFlags) as u16;
        let outer = Outer {
            ethernet,
            source,
            destination: remote,
            tos: byte(Field::TunTos),
            ttl: byte(Field::TunTtl),
            dont_fragment: flags & TUN_DONT_FRAGMENT != 0,
            checksum: config.has_checksum(remote.is_ipv6()),
            oam: flags & TUN_OAM != 0,
            key: key.get(Field::TunId) as u64,
            options: &options,
            group: (byte(Field::TunGbpFlags), key.get(Field::TunGbpId) as u16),
            erspan: (
                byte(Field::TunErspanVer),
                key.get(Field::TunErspanIdx) as u32,
                byte(Field::TunErspanDir),
                byte(Field::TunErspanHwid),
            ),
            gtpu: (byte(Field::TunGtpuFlags), byte(Field::TunGtpuMsgtype)),
            packet: strips_ethernet.then_some(key.eth_type()),
        };
        let Some(header) = tunnel::build(config, &outer) else {
            self.notes.add(NoteKind::Warning, || "native tunnel header build failed".to_owned());
            return Err(DropReason::TunnelHeader);
        };
        let mut push = TunnelPush {
            port: device,
            out_port: link.port.datapath().unwrap_or_default(),
            kind: config.kind,
            strips_ethernet,
            source_ports: self.world.underlay.source_ports,
            header,
            frame_max: u32::MAX,
            answer: outer::answer_key(&outer, config),
            copies_ecn: false,
            sequence: sequence.clone(),
        };
        if let Some(mtu) = link.hop.mtu {
            outer::limit(&mut push, mtu).ok_or(DropReason::TunnelMtu)?;
        }
        if strips_ethernet {
            self.pop_ethernet();
        }
        let outer = Box::new(outer::key(&outer, config, self.key.pkt_mark()));
        self.effects.push(Effect::NeighbourUsed { bridge: link.bridge.id, ip: link.next });
        Ok(Crossing { link, push: Arc::new(push), outer })
    }

    /// The route and neighbour towards the tunnel's remote end.
    fn find_link(&mut self) -> Result<Link<'a>, DropReason> {
        let underlay = self.world.underlay;
        let (mark, source) = (self.key.pkt_mark(), self.key.get(Field::TunIpv6Src));
        let Some(remote) = destination(self.key) else { return Err(DropReason::TunnelRoute) };
        self.depend(Dependency::Routes);
        let hop = underlay.routes.lookup(mark, remote, address(source));
        let place = hop.and_then(|hop| Some((self.underlay_port(&hop.device)?, hop)));
        let Some(((bridge, port), hop)) = place else {
            self.notes.add(NoteKind::Warning, || "native tunnel routing failed".to_owned());
            return Err(DropReason::TunnelRoute);
        };
        let next = hop.gateway.unwrap_or(remote);
        self.notes.add(NoteKind::Detail, || format!("tunneling to {next} via {}", port.spec.name));
        self.depend(Dependency::Neighbour { bridge: bridge.id, ip: next });
        let name = &bridge.config.name;
        let Some(mac) = underlay.neighbours.lookup(self.world.now, name, next) else {
            self.notes.add(NoteKind::Detail, || {
                let request = if next.is_ipv4() { "ARP" } else { "ND" };
                format!(
                    "neighbor cache miss for {next} on bridge {name}, sending {request} request"
                )
            });
            let source = underlay.routes.source_of(&port.spec.name, next).unwrap_or(hop.source);
            let (bridge, port) = (bridge.id, port.number);
            self.effects.push(Effect::NeighbourWanted { bridge, port, source, target: next });
            return Err(DropReason::TunnelNeighbour);
        };
        Ok(Link { bridge, port, hop, next, mac })
    }

    /// The bridge port of a device: the local port of the bridge with that name, or else any (ovs:
    /// `tnl_route_lookup_flow`).
    fn underlay_port(&self, device: &str) -> Option<(&'a Bridge, &'a Port)> {
        let bridges = self.world.bridges;
        let of = |bridge: &'a Bridge| Some((bridge, bridge.port_named(device)?));
        bridges.named(device).and_then(of).or_else(|| bridges.iter().find_map(of))
    }

    /// Continues in the underlay's bridge as a packet from the device's port. The fields that its flows match
    /// come from the tunnel's configuration and not from the packet, so they are not added to the mask.
    fn cross_underlay(&mut self, crossing: Crossing<'a>, last: bool) {
        let Crossing { link, push, outer } = crossing;
        let before = self.saved_keys();
        let here = (self.bridge, self.conntracked, self.own_address);
        let mirrored = (self.mirrored, self.snaplen, self.max_len);
        // The mirrors of another bridge are separate.
        let same = if link.bridge.id == self.bridge.id { self.mirrored } else { 0 };
        (self.mirrored, self.snaplen, self.max_len) = (same, 0, 0);
        let header_len = push.header.len();
        let (stack, action_set) =
            (std::mem::take(&mut self.stack), std::mem::take(&mut self.action_set));
        let varying = std::mem::take(self.varying);
        let was_rewritten = std::mem::replace(&mut self.is_rewritten, true);
        let actions = std::mem::replace(&mut self.actions, vec![Action::TunnelPush(push)]);
        let mask = std::mem::take(&mut self.mask);
        self.key.clone_from(&outer);
        self.key.set_in_port_raw(link.port.number.0.into());
        *self.base = self.key.clone();
        self.bridge = link.bridge;
        (self.conntracked, self.own_address) = (false, None);
        self.depend(Dependency::Bridge { bridge: link.bridge.id });
        self.depend(Dependency::Port { bridge: link.bridge.id, port: link.port.number });
        let name = &link.bridge.config.name;
        self.notes.enter(NoteKind::Bridge, || format!("bridge(\"{name}\")"));
        let (rules, effects) = (self.rules.len(), self.effects.len());
        if self.may_receive(link.port) {
            self.table_action(link.port.number, TableId(0), true, false, true, Scope::Clone);
            self.execute_action_set();
        }
        let (rules, effects) = (rules..self.rules.len(), effects..self.effects.len());
        self.outer_parts.push(OuterPart { rules, effects, header_len });
        self.notes.leave();
        let pushed = std::mem::replace(&mut self.actions, actions);
        (*self.key, *self.base) = *before;
        self.mask = mask;
        (self.bridge, self.conntracked, self.own_address) = here;
        (self.mirrored, self.snaplen, self.max_len) = mirrored;
        (self.stack, self.action_set) = (stack, action_set);
        (*self.varying, self.is_rewritten) = (varying, was_rewritten);
        // As with patches, an `exit` or error there does not end the actions here.
        self.exit = false;
        self.failure = self.error.take().or(self.failure);
        if pushed.len() == 1 {
            return;
        }
        self.is_slow |= self.max_len != 0 && !self.world.features.truncation;
        match (self.max_len, last) {
            (0, true) => self.actions.extend(pushed),
            (0, false) => self.actions.push(Action::Clone(pushed.into())),
            (max_len, _) => self.actions.push(Action::CloneCut { max_len, actions: pushed.into() }),
        }
    }
}

/// An address as stored in its field: IPv4 in the low bits.
pub(super) fn bits(ip: IpAddr) -> u128 {
    match ip {
        IpAddr::V4(ip) => ip.to_bits().into(),
        IpAddr::V6(ip) => ip.to_bits(),
    }
}

/// The outer destination address.
pub(crate) fn destination(key: &FlowKey) -> Option<IpAddr> {
    address(key.get(Field::TunIpv6Dst))
}

#[cfg(test)]
mod tests;
