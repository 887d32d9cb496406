//! `encap` and `decap`: what a packet begins with (ovs: `ofproto/ofproto-dpif-xlate.c`,
//! `xlate_generic_encap_action`, `xlate_generic_decap_action`).

use super::context::Context;
use super::report::NoteKind;
use flow::{DropReason, Field, VLAN_PRESENT};

impl Context<'_> {
    /// Whether the packet has an Ethernet header.
    pub fn is_frame(&self) -> bool {
        self.key.get(Field::PacketType) == 0
    }

    /// Puts an Ethernet header with zero addresses in front of a packet that has none. The datapath does
    /// it with the next commit, with the addresses that the packet then has.
    pub fn encap_ethernet(&mut self) {
        self.commit();
        if self.is_frame() {
            return self.refuse_packet_type(|| {
                "Dropping packet as encap(ethernet) is not supported for packet type ethernet."
                    .to_owned()
            });
        }
        self.set_packet_type(0);
    }

    /// Takes the Ethernet header away. Behind others there is nothing that flows can tell of.
    pub fn decap(&mut self) {
        self.commit();
        match self.key.get(Field::PacketType) {
            0 if self.key.vlan_tci() & VLAN_PRESENT != 0 => self.refuse_packet_type(|| {
                "Dropping packet, cannot decap Ethernet if VLAN is present.".to_owned()
            }),
            0 => self.set_packet_type(self.key.eth_type()),
            kind => self.refuse_packet_type(|| {
                format!("Dropping packet as the decap() does not support packet type (1,{kind:#x})")
            }),
        }
    }

    fn set_packet_type(&mut self, packet_type: u16) {
        self.key.set(Field::PacketType, packet_type.into());
        [Field::EthSrc, Field::EthDst].into_iter().for_each(|field| self.key.set(field, 0));
        self.is_rewritten = true;
    }

    fn refuse_packet_type(&mut self, why: impl FnOnce() -> String) {
        self.notes.add(NoteKind::Detail, why);
        self.error = Some(DropReason::PacketType);
    }
}
