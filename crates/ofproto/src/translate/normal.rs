//! NORMAL: forwarding as a learning switch (ovs: `ofproto/ofproto-dpif-xlate.c`, `xlate_normal`).

use super::context::Context;
use super::fields;
use super::report::NoteKind;
use crate::dependency::Dependency;
use crate::effect::Effect;
use crate::port::{Port, PortDevice};
use crate::vlan::{PriorityTags, Tag, VlanMode, Vlans};
use base::{MacAddr, OfPort};
use flow::{Field, FlowKey, VLAN_PRESENT};
use tunnel::PacketType;
use wire::ethertype;

impl<'a> Context<'a> {
    pub fn normal(&mut self) {
        self.mask.add(Field::EthSrc);
        self.mask.add(Field::EthDst);
        for field in [Field::VlanTci, Field::VlanTci1] {
            self.mask.add_bits(field, u128::from(0x0fff | VLAN_PRESENT));
            // In VLAN 0, the priority decides whether the tag is kept: see `put_tags`.
            if self.key.get(field) & 0x0fff == 0 {
                self.mask.add(field);
            }
        }
        let in_port = self.in_port();
        let port = self.port(in_port);
        if port.is_some_and(|port| matches!(port.spec.vlan, VlanMode::Dot1qTunnel { .. })) {
            self.mask.add(Field::VlanTci1);
        }
        // Packets from a controller have no in-port and may have any VLAN.
        let from_controller = matches!(in_port, OfPort::NONE | OfPort::CONTROLLER);
        if port.is_none() && !from_controller {
            self.notes
                .add(NoteKind::Error, || format!("received packet on unknown port {in_port}"));
            self.warn("no input bundle, dropping");
            return;
        }
        let is_tag = ethertype::is_vlan(self.key.eth_type());
        if is_tag && self.key.vlan_tci() & VLAN_PRESENT == 0 {
            self.warn("partial VLAN tag, dropping");
            return;
        }
        if self.is_refused_by_mirror() {
            self.warn("input port is mirror output port, dropping");
            return;
        }
        let seen = tags(self.key);
        if let Some(port) = port
            && !port.spec.vlan.admits(seen.outer())
        {
            self.notes.add(NoteKind::Error, || refused(port, seen.outer()));
            self.warn("disallowed VLAN VID for this input port, dropping");
            return;
        }
        let vlans = port.map_or(seen, |port| port.spec.vlan.inside(seen));
        let reserved = self.key.eth_dst().is_reserved();
        if port.is_some() && reserved && !self.bridge.config.forward_bpdu {
            self.detail("packet has reserved destination MAC, dropping");
            return;
        }
        self.look_at_gratuitous_arp();
        self.learn(port, vlans.outer());
        self.forward(vlans);
    }

    fn forward(&mut self, vlans: Vlans) {
        let in_port = self.in_port();
        match self.known_port(vlans.outer()) {
            Some(learned) if learned == in_port => {
                self.detail("learned port is input port, dropping");
            }
            Some(learned) => match self.port(learned) {
                Some(learned) if self.is_mirror_output(learned) => {
                    self.warn("learned port is a mirror port, dropping");
                }
                Some(learned) => {
                    self.look_at_inner(&learned.spec.vlan, &vlans);
                    self.detail("forwarding to learned port");
                    self.output_normal(learned, vlans);
                }
                None => self.warn("learned port is unknown, dropping"),
            },
            None => {
                self.detail("no learned MAC for destination, flooding");
                let bridge = self.bridge;
                self.look_at_ports();
                for other in bridge.flood_ports() {
                    self.look_at_inner(&other.spec.vlan, &vlans);
                    if other.number != in_port
                        && other.spec.vlan.includes(&vlans)
                        && other.floods()
                        && !self.is_mirror_output(other)
                    {
                        self.output_normal(other, vlans);
                    }
                }
            }
        }
    }

    /// The port of the destination. What the packet has taught so far counts, unless there is no actual packet: Open
    /// vSwitch learns addresses at once (ovs: `update_learning_table`).
    fn known_port(&mut self, vlan: u16) -> Option<OfPort> {
        let (bridge, mac) = (self.bridge, self.key.eth_dst());
        self.depend(Dependency::Mac { bridge: bridge.id, vlan, mac });
        let taught = self.effects.iter().rev().find_map(|effect| match *effect {
            Effect::Learn { bridge: of, vlan: in_vlan, mac: source, port } => {
                ((of, in_vlan, source) == (bridge.id, vlan, mac)).then_some(port)
            }
            _ => None,
        });
        match taught {
            Some(port) if self.has_packet() && bridge.would_learn(vlan, mac, port) => Some(port),
            _ => bridge.port_of(vlan, mac),
        }
    }

    /// False only in a trace without an actual packet.
    pub fn has_packet(&self) -> bool {
        self.learns || !self.notes.is_wanted()
    }

    fn learn(&mut self, port: Option<&Port>, vlan: u16) {
        let mac = self.key.eth_src();
        // What has no Ethernet header has no address, nor has what a port of layer 3 received.
        let has_address = |port: &&Port| {
            let is_l3 = matches!(&port.spec.device,
                PortDevice::Tunnel { config, .. } if config.packet_type == PacketType::LegacyL3);
            self.is_frame() && !is_l3 && !mac.is_multicast()
        };
        let Some(port) = port.filter(has_address) else { return };
        let (bridge, port) = (self.bridge, port);
        if self.learns && bridge.would_learn(vlan, mac, port.number) {
            let name = &port.spec.name;
            self.notes.add(NoteKind::Detail, || {
                format!("learned that {mac} is on port {name} in VLAN {vlan}")
            });
        }
        let port = port.number;
        self.effects.push(Effect::Learn { bridge: bridge.id, vlan, mac, port });
    }

    /// Adds the fields to the mask that tell a gratuitous ARP, as Open vSwitch does for every broadcast ARP,
    /// though only bonds use the result (ovs: `is_gratuitous_arp`).
    fn look_at_gratuitous_arp(&mut self) {
        if self.key.eth_type() != ethertype::ARP || self.key.eth_dst() != MacAddr::BROADCAST {
            return;
        }
        self.mask.add(Field::ArpOp);
        if self.key.get(Field::ArpOp) == 1 {
            self.mask.add(Field::ArpSpa);
            self.mask.add(Field::ArpTpa);
        }
    }

    /// Sends the packet to a port with the tags of the port's VLAN mode.
    pub fn output_normal(&mut self, port: &Port, vlans: Vlans) {
        let mut outside = port.spec.vlan.outside(vlans);
        if port.spec.priority_tags != PriorityTags::Never {
            outside.tags[0].pcp = self.key.vlan_tci() & 0xe000;
        }
        let before = self.key.clone();
        put_tags(self.key, &outside, port.spec.priority_tags);
        let was_rewritten = self.is_rewritten;
        self.is_rewritten |= *self.key != before;
        self.output_to(port.number, false);
        self.is_rewritten = was_rewritten;
        for field in [Field::VlanTci, Field::VlanTpid, Field::VlanTci1, Field::VlanTpid1] {
            self.key.set(field, before.get(field));
        }
    }

    pub fn look_at_inner(&mut self, port: &VlanMode, vlans: &Vlans) {
        if port.looks_at_inner(vlans) {
            self.mask.add(Field::VlanTci1);
        }
    }

    fn warn(&mut self, text: &str) {
        self.notes.add(NoteKind::Warning, || text.to_owned());
    }

    fn detail(&mut self, text: &str) {
        self.notes.add(NoteKind::Detail, || text.to_owned());
    }
}

/// Why a port refuses a packet of this VLAN.
fn refused(port: &Port, vid: u16) -> String {
    let name = &port.spec.name;
    match &port.spec.vlan {
        VlanMode::Access(tag) => format!(
            "dropping VLAN {vid} tagged packet received on port {name} configured as VLAN {tag} \
             access port"
        ),
        VlanMode::Dot1qTunnel { .. } => format!(
            "dropping VLAN {vid} packet received on dot1q-tunnel port {name} that excludes this VLAN"
        ),
        _ => format!(
            "dropping VLAN {vid} packet received on port {name} not configured for trunking VLAN \
             {vid}"
        ),
    }
}

pub(super) fn tags(key: &FlowKey) -> Vlans {
    let tag = |tpid: u16, tci: u16| {
        let is_tag = ethertype::is_vlan(tpid) && tci & VLAN_PRESENT != 0;
        if is_tag { Tag::new(tpid, tci) } else { Tag::default() }
    };
    let outer = tag(key.vlan_tpid(), key.vlan_tci());
    let inner = tag(key.vlan_tpid1(), key.vlan_tci1());
    Vlans { tags: [outer, if outer == Tag::default() { outer } else { inner }] }
}

/// A tag with VLAN 0 and priority 0 is dropped, unless the port always keeps a tag of a packet that had one
/// (ovs: `xvlan_put`).
fn put_tags(key: &mut FlowKey, vlans: &Vlans, priority_tags: PriorityTags) {
    let places = [(Field::VlanTci, Field::VlanTpid), (Field::VlanTci1, Field::VlanTpid1)];
    for (tag, (tci, tpid)) in vlans.tags.iter().zip(places) {
        let always = priority_tags == PriorityTags::Always && tag.tpid != 0;
        if tag.vid != 0 || tag.pcp != 0 || always {
            key.set(tci, tag.tci().into());
            key.set(tpid, if tag.tpid == 0 { ethertype::VLAN } else { tag.tpid }.into());
        } else {
            key.set(tci, 0);
            key.set(tpid, 0);
        }
    }
    fields::fix_tpid(key);
}
