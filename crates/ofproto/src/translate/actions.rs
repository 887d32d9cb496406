//! Execution of OpenFlow action lists.

use super::context::{Context, Scope};
use super::fields::fix_tpid;
use super::freeze::Why;
use super::report::NoteKind;
use crate::effect::Effect;
use base::OfPort;
use flow::{Action, FRAG_LATER, Field, MeterRef, VLAN_PRESENT};
use openflow::Action as OfAction;
use openflow::action::{Subfield, ToController};
use openflow::message::reason;
use std::sync::Arc;
use wire::{ethertype, protocol};

/// How the list continues.
#[derive(PartialEq, Eq)]
enum Next {
    Go,
    /// End this list, as after an expired TTL.
    Leave,
    /// End this list, and continue with this action after recirculation.
    Again,
    /// End this list, and continue with the next action after recirculation.
    After,
}

impl Context<'_> {
    /// Executes actions on the packet. `last`: nothing is done with the packet afterwards.
    pub fn execute(&mut self, actions: &[OfAction], last: bool) {
        if actions.is_empty() {
            self.notes.add(NoteKind::Action, || "drop".to_owned());
            return;
        }
        for (i, action) in actions.iter().enumerate() {
            if self.error.is_some() {
                break;
            }
            self.recirculate_for_labels(action);
            if self.exit {
                self.freeze_rest(&actions[i..]);
                break;
            }
            let last = last && i + 1 == actions.len() && self.action_set.is_empty();
            let names = self.names.then_some(self.bridge);
            self.notes.add(NoteKind::Action, || {
                crate::describe::describe_action(action, self.key, names)
            });
            if let OfAction::CheckPktLarger { bytes, target } = action
                && self.check_len(*bytes, *target, &actions[i + 1..])
            {
                return;
            }
            match self.step(action, last) {
                Next::Go => {}
                Next::Leave => return,
                Next::Again => return self.freeze_rest(&actions[i..]),
                Next::After => return self.freeze_rest(&actions[i + 1..]),
            }
        }
    }

    fn step(&mut self, action: &OfAction, last: bool) -> Next {
        match action {
            OfAction::Output { port, max_len } => self.output(*port, *max_len, true, last),
            OfAction::OutputTrunc { port, max_len } => self.output_trunc(*port, *max_len, last),
            OfAction::OutputReg { source, max_len } => self.output_field(*source, *max_len, last),
            OfAction::Controller(to) => {
                if to.pause {
                    self.freeze_for(Why::Pause(to.clone()));
                } else {
                    self.send_to_controller(to);
                }
            }
            OfAction::Resubmit { in_port, table, with_ct_orig } => {
                let in_port = match in_port {
                    None | Some(OfPort::IN_PORT) => self.in_port(),
                    Some(port) => *port,
                };
                let table = table.unwrap_or(self.table);
                self.table_action(in_port, table, false, *with_ct_orig, last, Scope::Direct);
            }
            OfAction::GotoTable(table) => {
                self.table_action(self.in_port(), *table, true, false, last, Scope::Direct);
            }
            OfAction::Group(group) => {
                if !self.group(*group, last) {
                    return Next::Leave;
                }
                if self.is_freezing() {
                    return Next::Again;
                }
            }
            OfAction::Ct(ct) => self.ct(ct, last),
            OfAction::CtClear => {
                if self.conntracked {
                    self.clear_conntrack();
                    self.actions.push(Action::CtClear);
                }
            }
            OfAction::Nat(nat) => self.nat = Some(nat.clone()),
            OfAction::Clone(actions) => self.execute_clone(actions, last),
            OfAction::Exit => self.exit = true,
            OfAction::DecTtl(controllers) => return self.dec_ttl(controllers),
            OfAction::DecMplsTtl | OfAction::DecNshTtl | OfAction::Decap(_) => {
                return self.outer_header(action);
            }
            OfAction::ClearActions => {
                self.report_action_set("was");
                self.action_set.clear();
                self.key.set(Field::ActsetOutput, OfPort::UNSET.0.into());
            }
            OfAction::WriteActions(actions) => {
                self.write_actions(actions);
                self.report_action_set("is");
            }
            OfAction::WriteMetadata { value, mask } => self.write_metadata(*value, *mask),
            OfAction::Enqueue { port, .. } => self.output(*port, 0, false, last),
            // The queues of a port do not differ, so all packets go through the same one.
            OfAction::SetQueue(_) | OfAction::PopQueue | OfAction::Note(_) => {}
            OfAction::Learn(learn) => self.learn_flow(learn),
            OfAction::Bundle(bundle) => self.bundle(bundle, last),
            OfAction::FinTimeout { idle_s, hard_s } => self.fin_timeout(*idle_s, *hard_s),
            OfAction::Conjunction(_) => {
                self.notes.add(NoteKind::Error, || "executing no-op conjunction action".to_owned())
            }
            other => self.rewrite(other),
        }
        Next::Go
    }

    /// Actions on headers in front of the network layer, after which the list may end.
    fn outer_header(&mut self, action: &OfAction) -> Next {
        match action {
            OfAction::DecMplsTtl if !self.dec_mpls_ttl() => Next::Leave,
            OfAction::DecNshTtl if !self.dec_nsh_ttl() => Next::Leave,
            OfAction::Decap(packet_type) if self.decap(*packet_type) => {
                self.freeze_for(Why::Recirculate);
                Next::After
            }
            _ => Next::Go,
        }
    }

    /// Writes the masked bits of the metadata.
    fn write_metadata(&mut self, value: u64, mask: u64) {
        let metadata = (self.key.metadata() & !mask) | (value & mask);
        self.key.set_metadata(metadata);
        let varied = self.varying.get(Field::Metadata) & !u128::from(mask);
        self.varying.set(Field::Metadata, varied);
    }

    /// Limits the packet by a meter.
    fn meter(&mut self, number: u32) {
        if let Some(meter) = self.bridge.meters.get(number) {
            self.actions.push(Action::Meter(MeterRef(Arc::clone(meter))));
        }
    }

    /// Outputs to the port number in a field.
    fn output_field(&mut self, source: Subfield, max_len: u16, last: bool) {
        self.look_at_part(source);
        let port = self.read(source).low();
        if let Ok(port) = u16::try_from(port) {
            self.notes.add(NoteKind::Detail, || format!("output port is {port}"));
            self.output(OfPort(port), max_len, false, last);
        } else {
            self.notes.add(NoteKind::Warning, || format!("output port {port} is out of range"));
        }
    }

    /// Actions that change the packet, the pipeline state or the course of translation.
    fn rewrite(&mut self, action: &OfAction) {
        match action {
            OfAction::Set { field, value, mask, .. } => self.set_field(*field, *value, *mask),
            OfAction::SetOption(set) => self.set_option(set),
            OfAction::Move { source, target, .. } => self.move_field(*source, *target),
            OfAction::StackPush(source) => self.push(*source),
            OfAction::StackPop(target) => self.pop(*target),
            OfAction::SetVlanVid(vid) => self.set_tag(0x0fff, *vid),
            OfAction::SetVlanPcp(pcp) => self.set_tag(0xe000, u16::from(*pcp) << 13),
            OfAction::StripVlan => self.pop_vlan(),
            OfAction::PushVlan(tpid) => self.push_vlan(*tpid),
            OfAction::SetEthSrc(mac) => {
                self.assign(Field::EthSrc, mac.to_u64().into(), self.is_frame());
            }
            OfAction::SetEthDst(mac) => {
                self.assign(Field::EthDst, mac.to_u64().into(), self.is_frame());
            }
            OfAction::EncapEthernet { .. } => self.encap_ethernet(),
            OfAction::EncapMpls { ethertype, .. } => self.encap_mpls(*ethertype),
            OfAction::EncapNsh { properties, .. } => self.encap_nsh(properties),
            OfAction::PushMpls(ethertype) => self.push_mpls(*ethertype),
            OfAction::PopMpls(ethertype) => self.pop_mpls(*ethertype),
            OfAction::SetMplsLabel(label) => self.set_label(Field::MplsLabel, (*label).into()),
            OfAction::SetMplsTc(tc) => self.set_label(Field::MplsTc, (*tc).into()),
            OfAction::SetMplsTtl(ttl) => self.set_label(Field::MplsTtl, (*ttl).into()),
            OfAction::SetIpv4Src(ip) => {
                let is_v4 = self.key.eth_type() == ethertype::IPV4;
                self.assign(Field::Ipv4Src, u32::from(*ip).into(), is_v4);
            }
            OfAction::SetIpv4Dst(ip) => {
                let is_v4 = self.key.eth_type() == ethertype::IPV4;
                self.assign(Field::Ipv4Dst, u32::from(*ip).into(), is_v4);
            }
            OfAction::SetIpDscp(dscp) => {
                self.assign(Field::IpDscp, u128::from(dscp >> 2), self.key.is_ip());
            }
            OfAction::SetIpEcn(ecn) => {
                self.assign(Field::IpEcn, (*ecn).into(), self.key.is_ip());
            }
            OfAction::SetIpTtl(ttl) => {
                self.assign(Field::NwTtl, (*ttl).into(), self.key.is_ip());
            }
            OfAction::DeleteField(option) => self.delete_option(option.field),
            OfAction::Multipath(multipath) => self.multipath(multipath),
            OfAction::Meter(meter) => self.meter(*meter),
            OfAction::DebugRecirc => self.freeze_for(Why::Recirculate),
            OfAction::DebugSlow => self.is_slow = true,
            OfAction::SetTpSrc(port) => self.set_port(Field::TpSrc, *port),
            OfAction::SetTpDst(port) => self.set_port(Field::TpDst, *port),
            // Without an exporter nothing is sampled, and no field is looked at (ovs: `ofproto/ofproto-dpif-xlate.c`,
            // `xlate_sample_action`).
            OfAction::Sample(_) => {}
            _ => {}
        }
    }

    /// Gives the flow shorter timeouts upon the first FIN or RST.
    fn fin_timeout(&mut self, idle_s: u16, hard_s: u16) {
        self.mask.add(Field::NwProto);
        self.effects.extend(self.rule.map(|rule| Effect::FinTimeout { rule, idle_s, hard_s }));
    }

    /// Assigns a whole field if the packet has it.
    fn assign(&mut self, field: Field, value: u128, has: bool) {
        if has {
            self.look_at_protocol(field);
            self.mask.add(field);
            self.is_rewritten = true;
            self.key.set(field, value);
        }
    }

    fn set_port(&mut self, field: Field, port: u16) {
        if !self.key.is_ip() || self.key.nw_frag() & FRAG_LATER != 0 {
            return;
        }
        self.mask.add(Field::NwProto);
        self.assign(
            field,
            port.into(),
            matches!(self.key.nw_proto(), protocol::TCP | protocol::UDP | protocol::SCTP),
        );
    }

    /// OpenFlow 1.0's assignments to the VLAN tag, which push one if there is none.
    fn set_tag(&mut self, bits: u16, value: u16) {
        if !self.is_frame() {
            return;
        }
        self.mask.add_bits(Field::VlanTci, (bits | VLAN_PRESENT).into());
        let tci = (self.key.vlan_tci() & !bits) | (value & bits) | VLAN_PRESENT;
        self.is_rewritten = true;
        self.key.set_vlan_tci(tci);
        fix_tpid(self.key);
    }

    fn pop_vlan(&mut self) {
        if !self.is_frame() {
            return;
        }
        self.mask.add(Field::VlanTci);
        self.mask.add(Field::VlanTci1);
        self.is_rewritten = true;
        let key = &mut self.key;
        key.set_vlan_tci(key.vlan_tci1());
        key.set_vlan_tpid(key.vlan_tpid1());
        key.set_vlan_tci1(0);
        key.set_vlan_tpid1(0);
    }

    fn push_vlan(&mut self, tpid: u16) {
        if !self.is_frame() {
            return;
        }
        self.mask.add(Field::VlanTci);
        self.mask.add(Field::VlanTci1);
        self.is_rewritten = true;
        let key = &mut self.key;
        key.set_vlan_tci1(key.vlan_tci());
        key.set_vlan_tpid1(key.vlan_tpid());
        key.set_vlan_tci(VLAN_PRESENT);
        key.set_vlan_tpid(tpid);
    }

    /// Decrements the TTL. If it expires, the packet goes to controllers and this list ends.
    fn dec_ttl(&mut self, controllers: &[u16]) -> Next {
        if !self.key.is_ip() {
            return Next::Go;
        }
        self.mask.add(Field::NwTtl);
        self.look_at_protocol(Field::NwTtl);
        let ttl = self.key.nw_ttl();
        if ttl > 1 {
            self.is_rewritten = true;
            self.key.set_nw_ttl(ttl - 1);
            return Next::Go;
        }
        for &controller_id in controllers {
            let reason = reason::INVALID_TTL;
            let to = ToController { controller_id, reason, ..ToController::default() };
            self.send_to_controller(&to);
        }
        let version = if self.key.eth_type() == ethertype::IPV4 { 4 } else { 6 };
        self.notes.add(NoteKind::Warning, || format!("IPv{version} decrement TTL exception"));
        Next::Leave
    }

    /// Executes actions on a copy of the packet. The datapath copies it only if they do something that cannot
    /// be undone (ovs: `clone_xlate_actions`).
    pub fn execute_clone(&mut self, actions: &[OfAction], last: bool) {
        let (stack, action_set) = (self.stack.clone(), self.action_set.clone());
        let (key, varying) = (self.key.clone(), self.varying.clone());
        let is_final = |action: &OfAction| {
            matches!(
                action,
                OfAction::Ct(_)
                    | OfAction::Meter(_)
                    | OfAction::EncapEthernet { .. }
                    | OfAction::EncapMpls { .. }
                    | OfAction::EncapNsh { .. }
                    | OfAction::Decap(_)
                    | OfAction::DecNshTtl
            )
        };
        if last || !actions.iter().any(is_final) {
            let aside = self.begin_aside();
            self.execute(actions, last);
            self.finish_pipeline();
            self.end_aside(aside, last);
        } else {
            self.commit();
            let (base, conntracked) = (self.base.clone(), self.conntracked);
            let (was_mpls, under_labels) = (self.shims.was_mpls, self.shims.under_labels);
            let changes = self.shims.changes;
            let outer = std::mem::take(&mut self.actions);
            self.execute(actions, true);
            self.finish_pipeline();
            let inner = std::mem::replace(&mut self.actions, outer);
            if !inner.is_empty() {
                self.actions.push(Action::Clone(inner.into()));
            }
            (*self.base, self.conntracked) = (base, conntracked);
            (self.shims.was_mpls, self.shims.under_labels) = (was_mpls, under_labels);
            self.shims.changes = changes;
        }
        (self.stack, self.action_set) = (stack, action_set);
        (*self.key, *self.varying) = (key, varying);
    }
}
