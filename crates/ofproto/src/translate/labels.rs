//! MPLS labels (ovs: `ofproto/ofproto-dpif-xlate.c`, `compose_mpls_push_action` and those after it; `lib/flow.c`,
//! `flow_push_mpls`; `lib/odp-util.c`, `commit_mpls_action`).

use super::context::Context;
use super::freeze::Why;
use super::report::NoteKind;
use flow::{Action, DropReason, Field, FlowKey, MPLS_LABELS, SetField};
use openflow::Action as OfAction;
use openflow::action::ToController;
use openflow::message::reason;
use wire::mpls::IPV6_EXPLICIT_NULL;
use wire::{LabelEntry, ethertype};

/// The label stack entries of a key, outermost first.
const ENTRIES: [Field; MPLS_LABELS] = [Field::MplsLse0, Field::MplsLse1, Field::MplsLse2];
/// The bottom-of-stack bit of an entry.
const BOTTOM: u128 = 1 << 8;
/// The TTL of a label in front of a packet without a TTL.
const TTL: u8 = 64;

impl Context<'_> {
    /// Counts the packet's labels, and adds the deciding bits to the mask.
    pub fn count_labels(&mut self) -> usize {
        if self.key.is_mpls() {
            for (field, entry) in ENTRIES.into_iter().zip(self.key.label_stack()) {
                self.mask.add_bits(field, BOTTOM);
                if entry.is_bottom() {
                    break;
                }
            }
        }
        self.key.count_labels()
    }

    pub fn push_mpls(&mut self, ethertype: u16) {
        match self.count_labels() {
            0 => {
                self.commit();
                self.push_first_label(ethertype, self.key.is_ip());
            }
            MPLS_LABELS.. => self.refuse_labels(NoteKind::Error, |max| {
                format!(
                    "dropping packet on which an MPLS push action can't be performed as it would have \
                     more MPLS LSEs than the {max} supported."
                )
            }),
            count => self.push_next_label(ethertype, count),
        }
        self.is_rewritten = true;
    }

    /// Pushes the first label, with the traffic class and TTL of IP `if_ip`.
    pub fn push_first_label(&mut self, ethertype: u16, if_ip: bool) {
        let label = if self.key.eth_type() == ethertype::IPV6 { IPV6_EXPLICIT_NULL } else { 0 };
        let (mut tc, mut ttl) = (0, TTL);
        if if_ip {
            self.mask.add(Field::IpDscp);
            self.mask.add(Field::NwTtl);
            tc = self.key.get(Field::IpDscp) as u8;
            ttl = Some(self.key.nw_ttl()).filter(|ttl| *ttl != 0).unwrap_or(TTL);
        }
        // The headers behind a label are unknown.
        self.key.clear_network();
        self.key.set(Field::DpHash, 0);
        self.key.set(Field::MplsLse0, LabelEntry::new(label, tc, true, ttl).0.into());
        self.key.set_eth_type(ethertype);
    }

    /// Pushes a label in front of others, as a copy of the outermost.
    pub fn push_next_label(&mut self, ethertype: u16, count: usize) {
        ENTRIES.iter().take(count).for_each(|&field| self.mask.add(field));
        let [first, second, _] = self.key.label_stack();
        self.key.set_label_stack(&[first.without_bottom(), first, second]);
        self.key.set_eth_type(ethertype);
    }

    pub fn pop_mpls(&mut self, ethertype: u16) {
        let count = self.count_labels();
        if self.pop_label(ethertype, count) {
            self.shims.was_mpls |= !ethertype::is_mpls(ethertype);
        } else if count >= MPLS_LABELS {
            self.refuse_labels(NoteKind::Error, |max| {
                format!(
                    "dropping packet on which an MPLS pop action can't be performed as it has more MPLS \
                     LSEs than the {max} supported."
                )
            });
        }
    }

    /// Pops the outermost of `count` labels. Returns `false` if there is none, or the stack is deeper than a
    /// key.
    pub fn pop_label(&mut self, ethertype: u16, count: usize) -> bool {
        if count == 0 || count == MPLS_LABELS && !self.key.label_stack()[count - 1].is_bottom() {
            return false;
        }
        ENTRIES.iter().take(count).skip(1).for_each(|&field| self.mask.add(field));
        pop_entry(self.key, ethertype);
        self.is_rewritten = true;
        true
    }

    /// Drops a packet with more labels than a key holds.
    pub fn refuse_labels(&mut self, kind: NoteKind, why: impl FnOnce(usize) -> String) {
        if self.has_packet() {
            self.notes.add(kind, || why(MPLS_LABELS));
        }
        self.error = Some(DropReason::MplsLabels);
    }

    /// Assigns part of the outermost label.
    pub fn set_label(&mut self, field: Field, value: u128) {
        if self.key.is_mpls() {
            self.mask.add(field);
            self.key.set(field, value);
            self.is_rewritten = true;
        }
    }

    /// Decrements the TTL. Returns whether the packet goes on; as in Open vSwitch, one without a label does
    /// not.
    pub fn dec_mpls_ttl(&mut self) -> bool {
        if self.key.is_mpls() {
            self.mask.add(Field::MplsTtl);
            let ttl = self.key.get(Field::MplsTtl);
            if ttl > 1 {
                self.key.set(Field::MplsTtl, ttl - 1);
                self.is_rewritten = true;
                return true;
            }
            self.send_invalid_ttl();
        }
        self.notes.add(NoteKind::Warning, || "MPLS decrement TTL exception".to_owned());
        false
    }

    /// Sends a packet with an expired TTL to the controller.
    pub fn send_invalid_ttl(&mut self) {
        let reason = reason::INVALID_TTL;
        self.send_to_controller(&ToController { reason, ..ToController::default() });
    }

    /// Freezes before an action that may access headers behind the last label, which only the datapath can
    /// parse (ovs: `ofproto/ofproto-dpif-xlate.c`, `recirc_for_mpls`).
    pub fn recirculate_for_labels(&mut self, action: &OfAction) {
        if !self.exit && may_look_behind_labels(action) {
            self.waits_for_labels();
        }
    }

    /// Freezes if the key lacks the headers behind the last label. Returns whether it does.
    pub fn waits_for_labels(&mut self) -> bool {
        if self.shims.was_mpls {
            self.freeze_for(Why::Recirculate);
        }
        self.shims.was_mpls
    }

    /// Appends the actions that make the datapath's label stack equal to the key's. With `is_encap`, new
    /// labels go in front of an Ethernet header.
    pub fn commit_labels(&mut self, is_encap: bool) {
        let (mut have, want) = (self.base.count_labels(), self.key.count_labels());
        let stack = self.key.label_stack();
        let innermost = |stack: [LabelEntry; MPLS_LABELS], count: usize| {
            stack.into_iter().take(count).collect::<Vec<_>>().into_iter().rev()
        };
        let mut same = innermost(self.base.label_stack(), have)
            .zip(innermost(stack, want))
            .take_while(|(a, b)| a == b)
            .count();
        if want > same && self.original.is_mpls() {
            // A `set` writes a whole entry, so the mask must cover the entry.
            let entries = [Field::MplsLse0, Field::MplsLse1, Field::MplsLse2];
            let count = want.min(self.original.count_labels());
            entries.iter().take(count).for_each(|&entry| self.mask.add(entry));
        }
        while have > same {
            if have - 1 == same && want > same {
                let value = stack[want - have].0.into();
                let mask = Field::MplsLse0.all_ones();
                self.actions.push(Action::Set(SetField { field: Field::MplsLse0, value, mask }));
                self.base.set(Field::MplsLse0, value);
                same += 1;
                continue;
            }
            let is_last = self.key.is_mpls() || have == 1;
            let ethertype = if is_last { self.key.eth_type() } else { ethertype::MPLS };
            self.actions.push(Action::PopMpls { ethertype });
            pop_entry(self.base, ethertype);
            have -= 1;
            if have == 0 {
                self.base.set_label_words(std::mem::take(&mut self.shims.under_labels));
            }
        }
        while have < want {
            let (ethertype, entry) = (self.key.eth_type(), stack[want - have - 1]);
            if have == 0 {
                self.shims.under_labels = self.base.label_words();
                self.base.set_label_words([0; 2]);
            }
            let [first, second, _] = self.base.label_stack();
            self.base.set_label_stack(&[entry, first, second]);
            self.base.set_eth_type(ethertype);
            self.actions.push(match is_encap {
                true => Action::AddMpls { ethertype, entry },
                false => Action::PushMpls { ethertype, entry },
            });
            have += 1;
        }
    }
}

fn pop_entry(key: &mut FlowKey, ethertype: u16) {
    let [_, second, third] = key.label_stack();
    key.set_label_stack(&[second, third, LabelEntry::default()]);
    key.set_eth_type(ethertype);
}

/// Whether an action may access headers behind a label.
fn may_look_behind_labels(action: &OfAction) -> bool {
    match action {
        OfAction::Set { field, .. } => is_behind_labels(*field),
        OfAction::Output { .. }
        | OfAction::OutputTrunc { .. }
        | OfAction::Enqueue { .. }
        | OfAction::OutputReg { .. }
        | OfAction::SetVlanVid(_)
        | OfAction::SetVlanPcp(_)
        | OfAction::SetEthSrc(_)
        | OfAction::SetEthDst(_)
        | OfAction::SetOption(_)
        | OfAction::SetQueue(_)
        // The buckets' actions are examined instead.
        | OfAction::Group(_) => false,
        _ => true,
    }
}

/// Whether a field belongs to the network layer or above (ovs: `lib/meta-flow.c`, `mf_is_l3_or_higher`).
fn is_behind_labels(field: Field) -> bool {
    use Field as F;
    matches!(
        field,
        F::Ipv4Src
            | F::Ipv4Dst
            | F::Ipv6Src
            | F::Ipv6Dst
            | F::Ipv6Label
            | F::NwProto
            | F::NwTos
            | F::IpDscp
            | F::IpEcn
            | F::NwTtl
            | F::NwFrag
            | F::ArpOp
            | F::ArpSpa
            | F::ArpTpa
            | F::ArpSha
            | F::ArpTha
            | F::TpSrc
            | F::TpDst
            | F::TcpFlags
            | F::IcmpType
            | F::IcmpCode
            | F::NdTarget
            | F::NdSll
            | F::NdTll
            | F::NdReserved
            | F::NdOptionsType
            | F::NshFlags
            | F::NshTtl
            | F::NshMdtype
            | F::NshNp
            | F::NshSpi
            | F::NshSi
            | F::NshC1
            | F::NshC2
            | F::NshC3
            | F::NshC4
    )
}
