//! `encap` and `decap` (ovs: `ofproto/ofproto-dpif-xlate.c`, `xlate_generic_encap_action`,
//! `xlate_generic_decap_action`).

use super::context::Context;
use super::report::NoteKind;
use flow::{Action, DropReason, Field, MPLS_LABELS, VLAN_PRESENT};
use openflow::action::NshProperty;
use std::sync::Arc;
use wire::nsh::{self, MD_TYPE_1, MD_TYPE_2, next_protocol};
use wire::{Nsh, ethertype};

/// TTL and service index of a new NSH header.
const NSH_TTL: u8 = 63;
const NSH_SI: u8 = 255;
/// The context headers of NSH with MD type 1.
const CONTEXT: [Field; 4] = [Field::NshC1, Field::NshC2, Field::NshC3, Field::NshC4];
/// VLAN tags.
const TAGS: [Field; 4] = [Field::VlanTpid, Field::VlanTci, Field::VlanTpid1, Field::VlanTci1];

/// A header that the next commit adds or removes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum HeaderChange {
    #[default]
    Nothing,
    /// Added: Ethernet, NSH or a label.
    Encap,
    /// Removed: NSH or a label.
    Decap,
}

/// The state of headers in front of the network layer.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shims {
    /// The last label was removed: the key lacks the headers behind it.
    pub was_mpls: bool,
    /// The key words that the labels of [`Context::base`] replaced.
    pub under_labels: [u64; 2],
    /// A header that the next commit adds or removes.
    pub header_change: HeaderChange,
    /// Number of headers added or removed by commits that no later commit can undo: NSH, and labels in front
    /// of an Ethernet header.
    pub changes: u32,
    /// The context headers of an NSH header of MD type 2 that the next commit adds.
    pub nsh_metadata: Vec<u8>,
}

impl Context<'_> {
    /// Whether the packet has an Ethernet header.
    pub fn is_frame(&self) -> bool {
        self.key.get(Field::PacketType) == 0
    }

    /// Adds an Ethernet header with zero addresses to a packet that has none. The next commit does it in the
    /// datapath, with the addresses at that time.
    pub fn encap_ethernet(&mut self) {
        self.commit();
        if self.is_frame() {
            return self.refuse_packet_type(|| {
                "Dropping packet as encap(ethernet) is not supported for packet type ethernet."
                    .to_owned()
            });
        }
        self.set_packet_type(0);
        self.begin_encap();
    }

    /// Pushes a label in front of the packet, including its Ethernet header (ovs: `rewrite_flow_encap_mpls`).
    pub fn encap_mpls(&mut self, ethertype: u16) {
        self.commit();
        let count = if self.is_frame() { 0 } else { self.count_labels() };
        if count >= MPLS_LABELS {
            return self.refuse_labels(NoteKind::Warning, |max| {
                format!(
                    "dropping packet on which an encap MPLS action can't be performed as it would have \
                     more MPLS LSEs than the {max} supported."
                )
            });
        }
        if count == 0 {
            // The labels and tags of a frame are behind the new label.
            self.base.set_label_words([0; 2]);
            for key in [&mut self.base, &mut self.key] {
                TAGS.into_iter().for_each(|field| key.set(field, 0));
            }
            self.push_first_label(ethertype, false);
        } else {
            self.push_next_label(ethertype, count);
        }
        self.set_packet_type(ethertype);
        self.begin_encap();
        self.is_slow |= !self.world.features.add_mpls;
    }

    /// Pushes an NSH header in front of the packet, including its Ethernet header (ovs:
    /// `rewrite_flow_push_nsh`).
    pub fn encap_nsh(&mut self, properties: &[NshProperty]) {
        self.commit();
        let packet_type = self.key.get(Field::PacketType) as u16;
        let next = match packet_type {
            0 => next_protocol::ETHERNET,
            ethertype::IPV4 => next_protocol::IPV4,
            ethertype::IPV6 => next_protocol::IPV6,
            ethertype::NSH => next_protocol::NSH,
            kind => {
                return self.refuse_packet_type(|| {
                    let kind = format!("(1,{kind:#x})");
                    format!("Dropping packet as encap(nsh) is not supported for packet type {kind}")
                });
            }
        };
        let (mut md_type, mut metadata) = (MD_TYPE_1, Vec::new());
        for property in properties {
            match property {
                NshProperty::MdType(it) => md_type = *it,
                NshProperty::Tlv { class, kind, value } => {
                    metadata.extend(class.to_be_bytes());
                    metadata.extend([*kind, value.len() as u8]);
                    metadata.extend(value);
                    metadata.resize(metadata.len().next_multiple_of(4), 0);
                }
            }
        }
        // As in Open vSwitch, metadata that is too long is left out.
        let fits = metadata.len() <= nsh::LEN_MAX - nsh::BASE_LEN;
        let metadata = if md_type == MD_TYPE_2 && fits { metadata } else { Vec::new() };
        self.key.clear_headers();
        self.set_packet_type(ethertype::NSH);
        self.key.set_eth_type(ethertype::NSH);
        for (field, value) in [
            (Field::NshTtl, NSH_TTL),
            (Field::NshMdtype, md_type),
            (Field::NshNp, next),
            (Field::NshSi, NSH_SI),
        ] {
            self.key.set(field, value.into());
        }
        self.begin_encap();
        self.shims.nsh_metadata = metadata;
    }

    /// The next commit adds the header in the datapath, with the fields at that time.
    fn begin_encap(&mut self) {
        self.shims.header_change = HeaderChange::Encap;
    }

    /// The NSH header of the key.
    fn nsh_header(&self) -> Option<Arc<[u8]>> {
        let get = |field| self.key.get(field) as u32;
        let md_type = get(Field::NshMdtype) as u8;
        let metadata = if md_type == MD_TYPE_1 { &[0; 16][..] } else { &self.shims.nsh_metadata };
        let mut header = Nsh::build(md_type, metadata)?;
        header.set_flags_ttl(get(Field::NshFlags) as u8, get(Field::NshTtl) as u8);
        header.set_next_protocol(get(Field::NshNp) as u8);
        header.set_path(get(Field::NshSpi), get(Field::NshSi) as u8);
        if md_type == MD_TYPE_1 {
            header.set_context(&CONTEXT.map(get));
        }
        Some(header.into_inner().into())
    }

    /// Appends the actions that add or remove the packet's first header (ovs: `lib/odp-util.c`,
    /// `commit_encap_decap_action`).
    pub fn commit_packet_type(&mut self) {
        let (from, to) = (self.base.get(Field::PacketType), self.key.get(Field::PacketType));
        match std::mem::take(&mut self.shims.header_change) {
            HeaderChange::Encap if to == 0 => self.push_ethernet(),
            HeaderChange::Encap if self.key.is_nsh() => {
                self.shims.changes += 1;
                self.actions.extend(self.nsh_header().map(Action::PushNsh));
                self.shims.nsh_metadata.clear();
                self.base.copy_headers(self.key);
            }
            HeaderChange::Encap => {
                self.shims.changes += 1;
                self.commit_labels(true);
                [Field::EthSrc, Field::EthDst].into_iter().for_each(|it| self.base.set(it, 0));
                self.base.set(Field::PacketType, to);
            }
            // The headers behind it are parsed after recirculation.
            HeaderChange::Decap if from == ethertype::NSH.into() => {
                self.shims.changes += 1;
                self.actions.push(Action::PopNsh);
                self.base.set(Field::PacketType, to);
            }
            HeaderChange::Decap if from != 0 => {
                self.shims.changes += 1;
                self.commit_labels(false);
                self.base.set(Field::PacketType, to);
            }
            _ if !self.is_frame() => self.pop_ethernet(),
            _ => self.restore_ethernet(),
        }
    }

    /// Removes the outermost header. Returns whether the packet must recirculate, since only the datapath can
    /// parse the headers behind it.
    pub fn decap(&mut self, packet_type: u32) -> bool {
        self.commit();
        match self.key.get(Field::PacketType) as u16 {
            0 if self.key.vlan_tci() & VLAN_PRESENT != 0 => self.refuse_packet_type(|| {
                "Dropping packet, cannot decap Ethernet if VLAN is present.".to_owned()
            }),
            0 => self.set_packet_type(self.key.eth_type()),
            ethertype::NSH => return self.decap_nsh(),
            ethertype::MPLS | ethertype::MPLS_MULTICAST => return self.decap_mpls(packet_type),
            kind => self.refuse_packet_type(|| {
                format!("Dropping packet as the decap() does not support packet type (1,{kind:#x})")
            }),
        }
        false
    }

    fn decap_nsh(&mut self) -> bool {
        let packet_type = match self.key.get(Field::NshNp) as u8 {
            next_protocol::ETHERNET => 0,
            next_protocol::IPV4 => ethertype::IPV4,
            next_protocol::IPV6 => ethertype::IPV6,
            next_protocol::NSH => ethertype::NSH,
            next => {
                self.refuse_packet_type(|| {
                    format!("Dropping packet as NSH next protocol {next} is not supported")
                });
                return false;
            }
        };
        self.mask.add(Field::NshNp);
        self.set_packet_type(packet_type);
        self.shims.header_change = HeaderChange::Decap;
        true
    }

    /// Pops a label. The action's `packet_type` is the Ethernet type behind it, or 0 for a frame.
    fn decap_mpls(&mut self, packet_type: u32) -> bool {
        let count = self.count_labels();
        let (behind, ethertype) = match packet_type as u16 {
            0 => (0, ethertype::TRANSPARENT_ETHERNET),
            kind => (kind, kind),
        };
        if self.pop_label(ethertype, count) {
            self.is_slow |= !self.world.features.add_mpls;
            self.set_packet_type(behind);
            self.shims.header_change = HeaderChange::Decap;
            return count == 1;
        }
        if count >= MPLS_LABELS {
            self.refuse_labels(NoteKind::Error, |max| {
                format!(
                    "dropping packet on which an MPLS decap can't be performed as it has more MPLS LSEs \
                     than the {max} supported."
                )
            });
        }
        false
    }

    /// Decrements the TTL. Returns whether the packet goes on; as in Open vSwitch, one without NSH does not.
    pub fn dec_nsh_ttl(&mut self) -> bool {
        if self.key.is_nsh() {
            self.mask.add(Field::NshTtl);
            let ttl = self.key.get(Field::NshTtl);
            if ttl > 1 {
                self.key.set(Field::NshTtl, ttl - 1);
                self.is_rewritten = true;
                return true;
            }
            self.send_invalid_ttl();
        }
        self.notes.add(NoteKind::Warning, || "NSH decrement TTL exception".to_owned());
        false
    }

    fn set_packet_type(&mut self, packet_type: u16) {
        self.key.set(Field::PacketType, packet_type.into());
        [Field::EthSrc, Field::EthDst].into_iter().for_each(|field| self.key.set(field, 0));
        self.is_rewritten = true;
    }

    fn refuse_packet_type(&mut self, why: impl FnOnce() -> String) {
        self.notes.add(NoteKind::Action, why);
        self.error = Some(DropReason::PacketType);
    }
}
