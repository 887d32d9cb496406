//! MPLS label stacks (ovs: `ofproto/ofproto-dpif-xlate.c`, `compose_mpls_push_action` and those after it;
//! `lib/flow.c`, `flow_push_mpls`, `flow_pop_mpls`).
//!
//! A key has the first three labels. What is behind the labels is not read, so that actions about it wait
//! until the packet comes back from the datapath without them.

use super::context::Context;
use super::freeze::Why;
use super::report::NoteKind;
use flow::{
    Action, DropReason, ETH_TYPE_FRAME, Field, FlowKey, MPLS_BOTTOM, MPLS_ENTRIES, Mask, SetField,
};
use openflow::Action as OfAction;
use openflow::action::ToController;
use openflow::message::reason;
use wire::{ethertype, protocol};

/// The bits of the traffic class (RFC 5462) and of the time to live in an entry begin here.
const CLASS_SHIFT: u32 = 9;
const LABEL_SHIFT: u32 = 12;
/// The label that says that an IPv6 packet is behind it (RFC 3032 section 2.1); for IPv4 it is 0.
const IPV6_EXPLICIT_NULL: u32 = 2;
const TTL: u32 = 64;
const DSCP: u8 = 0xfc;

impl Context<'_> {
    /// How many labels the packet has. What says so is made to matter.
    fn count_labels(&mut self) -> usize {
        if !self.key.is_mpls() {
            return 0;
        }
        let count = labels(&self.key);
        let looked_at = if is_whole(&self.key, count) { count } else { MPLS_ENTRIES.len() };
        for &field in &MPLS_ENTRIES[..looked_at] {
            self.mask.add_bits(field, MPLS_BOTTOM.into());
        }
        count
    }

    /// Puts a label in front of the others, like the one behind it.
    pub fn push_mpls(&mut self, ethertype: u16) {
        if !self.is_frame() {
            return;
        }
        let count = self.count_labels();
        match count {
            0 => self.commit(),
            count if count >= MPLS_ENTRIES.len() => {
                return self.refuse_labels("an MPLS push action", "would have");
            }
            _ => {}
        }
        let first =
            if count == 0 { self.first_label() } else { self.key.get(Field::MplsLse) as u32 };
        if count == 0 {
            self.forget_headers();
        }
        for &field in &MPLS_ENTRIES[..count] {
            self.mask.add(field);
        }
        push(&mut self.key, count, first);
        self.key.set_eth_type(ethertype);
        self.is_rewritten = true;
    }

    /// The only label of a packet, after its IP header.
    fn first_label(&mut self) -> u32 {
        let is_ip = self.key.is_ip();
        let (mut class, mut ttl) = (0, TTL);
        if is_ip {
            self.mask.add_bits(Field::NwTos, DSCP.into());
            self.mask.add(Field::NwTtl);
            // The lower three bits of the DSCP, as in Open vSwitch.
            class = u32::from(self.key.nw_tos() & DSCP) >> 2 & 7;
            ttl = Some(self.key.nw_ttl().into()).filter(|&ttl| ttl != 0).unwrap_or(TTL);
        }
        let is_ipv6 = self.key.eth_type() == ethertype::IPV6;
        let label = if is_ipv6 { IPV6_EXPLICIT_NULL } else { 0 };
        label << LABEL_SHIFT | class << CLASS_SHIFT | MPLS_BOTTOM | ttl
    }

    /// What stands behind labels is not to be seen.
    fn forget_headers(&mut self) {
        let keeps = |field: &Field| {
            use Field::{
                EthDst, EthSrc, EthType, PacketType, VlanTci, VlanTci1, VlanTpid, VlanTpid1,
            };
            matches!(
                field,
                EthDst | EthSrc | EthType | PacketType | VlanTci | VlanTci1 | VlanTpid | VlanTpid1
            )
        };
        for &field in Field::BASIC.iter().filter(|it| it.is_header() && !keeps(it)) {
            self.key.set(field, 0);
        }
        self.key.set(Field::DpHash, 0);
    }

    /// Takes the outermost label away.
    pub fn pop_mpls(&mut self, ethertype: u16) {
        if !self.is_frame() {
            return;
        }
        let count = self.count_labels();
        if count == 0 {
            return;
        }
        if !is_whole(&self.key, count) && count == MPLS_ENTRIES.len() {
            self.refuse_labels("an MPLS pop action", "has");
            self.actions.clear();
            return;
        }
        for &field in &MPLS_ENTRIES[1..count] {
            self.mask.add(field);
        }
        pop(&mut self.key, count);
        self.key.set_eth_type(ethertype);
        self.is_rewritten = true;
        self.was_mpls |= !self.key.is_mpls();
    }

    /// Puts a label in front of the packet, Ethernet header and all.
    pub fn encap_mpls(&mut self, ethertype: u16) {
        self.commit();
        let mut count = self.count_labels();
        if count >= MPLS_ENTRIES.len() {
            return self.refuse_labels("an encap MPLS action", "would have");
        }
        if self.is_frame() {
            // Labels behind an Ethernet header are not of the same stack.
            for field in MPLS_ENTRIES {
                self.mask.set(field, 0);
                self.base.set(field, 0);
                self.key.set(field, 0);
            }
            count = 0;
        }
        let label = if self.key.eth_type() == ethertype::IPV6 { IPV6_EXPLICIT_NULL } else { 0 };
        let first = match count {
            0 => label << LABEL_SHIFT | MPLS_BOTTOM | TTL,
            _ => self.key.get(Field::MplsLse) as u32,
        };
        if count == 0 {
            self.forget_headers();
        }
        for field in [Field::VlanTci, Field::VlanTci1, Field::VlanTpid, Field::VlanTpid1] {
            self.key.set(field, 0);
            self.base.set(field, 0);
        }
        push(&mut self.key, count, first);
        self.key.set_eth_type(ethertype);
        self.set_packet_type(ethertype);
        self.adds_label = true;
        self.is_slow |= !self.world.features.labels;
    }

    /// Takes the outermost label of a packet without an Ethernet header away. `next` is the packet type of
    /// what is behind it.
    pub fn decap_mpls(&mut self, next: u32) {
        let (space, kind) = (next >> 16, next as u16);
        if next == OfAction::NEXT_PROTOCOL || space > 1 || (space == 1) == (kind == 0) {
            return self.refuse_packet_type(|| {
                format!("Dropping packet, no packet of type ({space},{kind:#x}) is behind a label.")
            });
        }
        let count = self.count_labels();
        if count == 0 {
            return;
        }
        if !is_whole(&self.key, count) && count == MPLS_ENTRIES.len() {
            self.refuse_labels("an MPLS decap", "has");
            self.actions.clear();
            return;
        }
        for &field in &MPLS_ENTRIES[1..count] {
            self.mask.add(field);
        }
        pop(&mut self.key, count);
        self.key.set_eth_type(if kind == 0 { ETH_TYPE_FRAME } else { kind });
        self.set_packet_type(kind);
        self.is_slow |= !self.world.features.labels;
        if count == 1 {
            self.freeze_for(Why::Recirculate);
        }
    }

    /// Appends the steps that put labels in front of the packet, or take those away that `decap` took.
    pub fn commit_packet_type(&mut self) {
        let was_labelled = self.base.get(Field::PacketType) != 0 && self.base.is_mpls();
        if std::mem::take(&mut self.adds_label) {
            let (mut have, want) = (labels(&self.base), labels(&self.key));
            have = if was_labelled { have } else { 0 };
            let ethertype = self.key.eth_type();
            for at in have..want {
                let entry = self.key.get(MPLS_ENTRIES[want - at - 1]) as u32;
                self.actions.push(Action::AddMpls { ethertype, entry });
            }
            for field in MPLS_ENTRIES.into_iter().chain([Field::EthSrc, Field::EthDst]) {
                self.base.set(field, self.key.get(field));
            }
            self.base.set_eth_type(ethertype);
        } else if was_labelled
            && self.base.get(Field::PacketType) != self.key.get(Field::PacketType)
            && labels(&self.key) < labels(&self.base)
        {
            self.commit_mpls();
        } else {
            return;
        }
        self.base.set(Field::PacketType, self.key.get(Field::PacketType));
    }

    fn refuse_labels(&mut self, what: &str, has: &str) {
        let most = MPLS_ENTRIES.len();
        self.notes.add(NoteKind::Error, || {
            format!(
                "dropping packet on which {what} can't be performed as it {has} \
                 more MPLS LSEs than the {most} supported."
            )
        });
        self.error = Some(DropReason::MplsLabels);
    }

    /// Assigns a part of the outermost label, if there is one.
    pub fn set_mpls(&mut self, field: Field, value: u32) {
        self.assign(field, value.into(), self.key.is_mpls());
    }

    /// Whether the packet's time runs out; it then goes to the controller.
    pub fn dec_mpls_ttl(&mut self) -> bool {
        if self.key.is_mpls() {
            let ttl = self.key.get(Field::MplsTtl);
            if ttl > 1 {
                self.set_mpls(Field::MplsTtl, ttl as u32 - 1);
                return false;
            }
            self.mask.add(Field::MplsTtl);
            self.send_to_controller(&ToController {
                max_len: u16::MAX,
                controller_id: 0,
                reason: reason::INVALID_TTL,
                userdata: Vec::new(),
                pause: false,
            });
        }
        self.notes.add(NoteKind::Warning, || "MPLS decrement TTL exception".to_owned());
        true
    }

    /// Stops before an action that may look behind labels that are gone: the datapath reads the packet anew
    /// (ovs: `recirc_for_mpls`).
    pub fn reread_for(&mut self, action: &OfAction) {
        if self.was_mpls && !self.exit && looks_behind_labels(action) {
            self.freeze_for(Why::Recirculate);
        }
    }

    /// Makes the datapath's labels those of the key (ovs: `lib/odp-util.c`, `commit_mpls_action`).
    pub fn commit_mpls(&mut self) {
        let (mut have, want) = (labels(&self.base), labels(&self.key));
        let entry = |key: &FlowKey, at: usize| key.get(MPLS_ENTRIES[at]);
        let mut same = (1..=have.min(want))
            .take_while(|i| entry(&self.base, have - i) == entry(&self.key, want - i))
            .count();
        let ethertype = self.key.eth_type();
        while have > same {
            if have - 1 == same && want > same {
                let field = Field::MplsLse;
                let value = entry(&self.key, want - have);
                let mask = field.all_ones();
                self.actions.push(Action::Set(SetField { field, value, mask }));
                self.base.set(field, value);
                same += 1;
                continue;
            }
            // What is behind a label that is not the last is another one.
            let is_last = have == 1 || self.key.is_mpls();
            let next = if is_last { ethertype } else { ethertype::MPLS };
            self.actions.push(Action::PopMpls { ethertype: next });
            pop(&mut self.base, have);
            self.base.set_eth_type(ethertype);
            have -= 1;
        }
        while have < want {
            let entry = entry(&self.key, want - have - 1) as u32;
            self.actions.push(Action::PushMpls { ethertype, entry });
            push(&mut self.base, have, entry);
            self.base.set(Field::MplsLse, entry.into());
            self.base.set_eth_type(ethertype);
            have += 1;
        }
    }
}

/// How many labels a key has.
fn labels(key: &FlowKey) -> usize {
    if !key.is_mpls() {
        return 0;
    }
    let entry = |at: usize| key.get(MPLS_ENTRIES[at]) as u32;
    match (0..MPLS_ENTRIES.len()).find(|&at| entry(at) & MPLS_BOTTOM != 0) {
        Some(last) => last + 1,
        None => (0..MPLS_ENTRIES.len()).filter(|&at| entry(at) != 0).count(),
    }
}

/// Whether the last of so many labels says that it is.
fn is_whole(key: &FlowKey, count: usize) -> bool {
    count > 0 && key.get(MPLS_ENTRIES[count - 1]) as u32 & MPLS_BOTTOM != 0
}

/// Puts an entry in front of so many others.
fn push(key: &mut FlowKey, count: usize, entry: u32) {
    for at in (1..=count).rev() {
        key.set(MPLS_ENTRIES[at], key.get(MPLS_ENTRIES[at - 1]));
    }
    let entry = if count > 0 { entry & !MPLS_BOTTOM } else { entry };
    key.set(Field::MplsLse, entry.into());
}

/// Takes the first of so many entries away.
fn pop(key: &mut FlowKey, count: usize) {
    for at in 1..count {
        key.set(MPLS_ENTRIES[at - 1], key.get(MPLS_ENTRIES[at]));
    }
    key.set(MPLS_ENTRIES[count - 1], 0);
}

/// Labels that translation put there are none of the packet's (ovs: `xlate_wc_finish`).
pub(super) fn tidy_mask(mask: &mut Mask, key: &FlowKey) {
    // Neighbour discovery has another field in their place.
    let is_icmpv6 = key.eth_type() == ethertype::IPV6 && key.nw_proto() == protocol::ICMPV6;
    if !key.is_mpls() && !is_icmpv6 {
        MPLS_ENTRIES.into_iter().for_each(|field| mask.set(field, 0));
    }
}

fn looks_behind_labels(action: &OfAction) -> bool {
    match action {
        OfAction::Output { .. }
        | OfAction::OutputTrunc { .. }
        | OfAction::OutputReg { .. }
        | OfAction::Enqueue { .. }
        | OfAction::SetVlanVid(_)
        | OfAction::SetVlanPcp(_)
        | OfAction::SetEthSrc(_)
        | OfAction::SetEthDst(_)
        | OfAction::SetQueue(_)
        | OfAction::Group(_) => false,
        OfAction::Set { field, .. } => {
            field.is_header()
                && !matches!(
                    field,
                    Field::EthSrc
                        | Field::EthDst
                        | Field::VlanTci
                        | Field::VlanVid
                        | Field::VlanVidPresent
                        | Field::VlanPcp
                )
        }
        _ => true,
    }
}

#[cfg(test)]
mod tests;
