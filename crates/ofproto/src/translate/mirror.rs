//! Copies for mirrors (ovs: `ofproto/ofproto-dpif-xlate.c`, `mirror_packet`).

use super::context::Context;
use super::normal::tags;
use super::report::NoteKind;
use crate::effect::Effect;
use crate::mirror::{MirrorConfig, MirrorOutput};
use crate::port::Port;
use crate::vlan::Vlans;
use flow::{Field, VLAN_PRESENT};

impl Context<'_> {
    /// Whether a port of this bridge is the output of a mirror and sends nothing else.
    pub fn is_mirror_output(&self, port: &Port) -> bool {
        let mut mirrors = self.bridge.config.mirrors.iter().take(MirrorConfig::MAX);
        mirrors.any(|mirror| mirror.is_output(&port.spec.name))
    }

    /// Mirrors the packet by its source port.
    pub fn mirror_ingress(&mut self) {
        if let Some(port) = self.port(self.in_port()) {
            self.mirror(port, MirrorConfig::watches_source);
        }
    }

    /// Mirrors the packet by its destination port.
    pub fn mirror_egress(&mut self, port: &Port) {
        self.mirror(port, MirrorConfig::watches_destination);
    }

    /// Drops a packet that arrives on a mirror's output port. Returns whether it did.
    pub fn is_refused_by_mirror(&mut self) -> bool {
        let port = self.port(self.in_port()).filter(|port| self.is_mirror_output(port));
        let Some(port) = port else { return false };
        let name = &port.spec.name;
        self.notes.add(NoteKind::Error, || {
            format!(
                "dropping packet received on port {name}, which is reserved exclusively for \
                 mirroring"
            )
        });
        true
    }

    fn mirror(&mut self, port: &Port, watches: fn(&MirrorConfig, &str) -> bool) {
        let bridge = self.bridge;
        if bridge.config.mirrors.is_empty() {
            return;
        }
        let seen = tags(self.key);
        if !port.spec.vlan.admits(seen.outer()) {
            return;
        }
        let vlans = port.spec.vlan.inside(seen);
        let mirrors = bridge.config.mirrors.iter().take(MirrorConfig::MAX);
        for (i, mirror) in mirrors.enumerate() {
            // A copy for an earlier mirror may have served this one too.
            if self.mirrored & 1 << i != 0 || !watches(mirror, &port.spec.name) {
                continue;
            }
            self.mask.add_bits(Field::VlanTci, u128::from(0x0fff | VLAN_PRESENT));
            let is_selected = mirror.vlans.is_empty() || mirror.vlans.contains(&vlans.outer());
            if is_selected && self.passes_filter(mirror) {
                self.effects.push(Effect::Mirror { bridge: bridge.id, mirror: mirror.id });
                self.copy_to(mirror, vlans);
            }
        }
    }

    fn passes_filter(&mut self, mirror: &MirrorConfig) -> bool {
        let Some(filter) = &mirror.filter else { return true };
        self.mask.union(filter.mask());
        filter.matches(self.key)
    }

    /// Sends a copy, on behalf of all mirrors with the same output.
    fn copy_to(&mut self, mirror: &MirrorConfig, mut vlans: Vlans) {
        let bridge = self.bridge;
        let others = bridge.config.mirrors.iter().take(MirrorConfig::MAX);
        for (i, other) in others.enumerate() {
            if other.output == mirror.output {
                self.mirrored |= 1 << i;
            }
        }
        let before = std::mem::replace(&mut self.snaplen, mirror.snaplen);
        let max_len = std::mem::take(&mut self.max_len);
        self.look_at_ports();
        match &mirror.output {
            MirrorOutput::Port(name) => {
                if let Some(port) = bridge.port_named(name) {
                    self.look_at_inner(&port.spec.vlan, &vlans);
                    self.output_normal(port, vlans);
                }
            }
            MirrorOutput::Vlan(vlan) => {
                self.mask.add(Field::EthDst);
                let is_due = vlans.outer() != *vlan && !self.key.eth_dst().is_reserved();
                vlans.tags[0].vid = *vlan;
                for port in bridge.flood_ports().filter(|_| is_due) {
                    self.look_at_inner(&port.spec.vlan, &vlans);
                    if port.spec.vlan.includes(&vlans) && !self.is_mirror_output(port) {
                        self.output_normal(port, vlans);
                    }
                }
            }
        }
        (self.snaplen, self.max_len) = (before, max_len);
    }
}

#[cfg(test)]
mod tests;
