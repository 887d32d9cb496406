//! The state of one translation, and how it walks through bridges and tables.

use super::ct::CtWritten;
use super::freeze::Freezing;
use super::learn::Pending;
use super::packet_type::Shims;
use super::report::{NoteKind, Notebook};
use super::terminate::TunnelSender;
use super::{Fork, Keys, Memory, Notes, World, always_looked_at};
use crate::bridge::Bridge;
use crate::dependency::Dependency;
use crate::effect::Effect;
use crate::ids::RuleId;
use crate::links::{Links, OuterPart};
use crate::lookup::Lookup;
use crate::port::Port;
use crate::recirc::Frozen;
use base::{OfPort, RecircId, TableId, limits};
use flow::{Action, DropReason, Field, FlowKey, Mask, OptionMapping, Protocol, Wide};
use openflow::Action as OfAction;
use openflow::message::PortConfig;
use std::net::IpAddr;
use std::sync::Arc;

/// A translation in progress.
pub(crate) struct Context<'a> {
    pub world: World<'a>,
    pub bridge: &'a Bridge,
    /// The packet after the OpenFlow actions so far, with the bridge's in-port.
    pub key: &'a mut FlowKey,
    /// The packet after the datapath actions so far.
    pub base: &'a mut FlowKey,
    /// The datapath port number of the packet's arrival.
    pub device: base::PortNo,
    pub mask: Box<Mask>,
    pub actions: Vec<Action>,
    pub rules: Vec<RuleId>,
    pub effects: Vec<Effect>,
    pub outer_parts: Vec<OuterPart>,
    pub tunnel_sender: Option<TunnelSender>,
    /// Whether the outer headers of a tunnel copy the packet's ECN bits.
    pub copies_ecn: bool,
    /// Flows learned from this packet that are not in their tables yet.
    pub pending: Vec<Pending>,
    /// How many of these lookups find: those learned before the packet entered the bridge.
    pub visible: usize,
    /// Some learned flow has a limit.
    pub learns_anew: bool,
    pub recircs: Vec<RecircId>,
    pub dependencies: Vec<Dependency>,
    pub lookups: Vec<Lookup>,
    /// The original packet, with the datapath's port number.
    pub original: &'a FlowKey,
    /// Whether some action may have rewritten a header. [`Lookup`] itself detects changed headers; this
    /// covers rewrites to the same value.
    pub is_rewritten: bool,
    /// Bits of registers and metadata that depend on the packet. Code that copies packet bits into a register
    /// without [`Self::write_subfield`] must add them here.
    pub varying: &'a mut Mask,
    /// Whether some value on the stack depends on the packet.
    pub stack_varies: bool,
    pub stack: Vec<Wide>,
    pub action_set: Vec<OfAction>,
    pub in_action_set: bool,
    /// A group bucket is being executed.
    pub in_bucket: bool,
    /// The packet is from a controller.
    pub sent: bool,
    /// Translation is about to freeze.
    pub freezing: Option<Freezing>,
    /// This bridge's mirrors that have copied the packet, by bit.
    pub mirrored: u32,
    /// Truncation of a mirror's copy in bytes; 0 is none.
    pub snaplen: u16,
    /// Truncation of the current output in bytes; 0 is none.
    pub max_len: u32,
    /// The packet takes the slow path: it gets no megaflow.
    pub is_slow: bool,
    /// The protocol whose state machine gets the packet.
    pub protocol: Option<Protocol>,
    /// The tunnel of the last `set(tunnel(...))`, for a device that adds the outer headers.
    pub told_tunnel: Option<Arc<flow::SetTunnel>>,
    /// Current depth of `resubmit`.
    pub depth: usize,
    /// Number of resubmits so far.
    pub resubmits: usize,
    pub table: TableId,
    /// The flow whose actions are being executed.
    pub rule: Option<RuleId>,
    pub cookie: u64,
    /// The state of headers in front of the network layer.
    pub shims: Shims,
    /// Whether the connection-tracking fields are valid.
    pub conntracked: bool,
    /// Whether translation resumed from a frozen state.
    pub thawed: bool,
    /// What the `ct` action being translated writes.
    pub ct_written: CtWritten,
    /// `nat` of the `ct` action being translated.
    pub nat: Option<Option<flow::NatRange>>,
    /// `exit` was executed.
    pub exit: bool,
    pub error: Option<DropReason>,
    /// Why an output failed; used as the drop reason if the packet has no other.
    pub failure: Option<DropReason>,
    /// The local address of the tunnel that the packet came out of.
    pub own_address: Option<IpAddr>,
    /// What mapped the options that the packet carries.
    pub option_table: Option<&'a [OptionMapping]>,
    pub notes: Notebook,
    pub forks: Vec<Fork>,
    pub names: bool,
    pub learns: bool,
}

/// How the actions of the flow found are executed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    /// On the packet itself.
    Direct,
    /// On a copy.
    Clone,
}

impl<'a> Context<'a> {
    pub fn new(
        world: World<'a>,
        bridge: &'a Bridge,
        key: &'a FlowKey,
        notes: Notes,
        mut memory: Memory,
        keys: &'a mut Keys,
    ) -> Self {
        memory.clear();
        keys.begin(key);
        let Memory { actions, mut mask, links } = memory;
        let Links { rules, effects, outer_parts, recircs, mut dependencies, lookups } = links;
        always_looked_at(&mut mask, key);
        dependencies.push(Dependency::Bridge { bridge: bridge.id });
        Context {
            bridge,
            base: &mut keys.base,
            key: &mut keys.key,
            device: key.in_port(),
            mask,
            actions,
            rules,
            effects,
            outer_parts,
            tunnel_sender: None,
            copies_ecn: false,
            pending: Vec::new(),
            visible: 0,
            learns_anew: false,
            recircs,
            dependencies,
            lookups,
            original: key,
            is_rewritten: false,
            varying: &mut keys.varying,
            stack_varies: false,
            stack: Vec::new(),
            action_set: Vec::new(),
            in_action_set: false,
            in_bucket: false,
            sent: false,
            freezing: None,
            mirrored: 0,
            snaplen: 0,
            max_len: 0,
            is_slow: false,
            protocol: None,
            told_tunnel: None,
            depth: 0,
            resubmits: 0,
            table: TableId(0),
            rule: None,
            cookie: u64::MAX,
            shims: Shims::default(),
            conntracked: false,
            thawed: false,
            ct_written: CtWritten::default(),
            nat: None,
            exit: false,
            error: None,
            failure: None,
            own_address: None,
            option_table: None,
            notes: Notebook::new(notes != Notes::Off),
            forks: Vec::new(),
            names: matches!(notes, Notes::On { names: true, .. }),
            learns: matches!(notes, Notes::On { learns: true, .. }),
            world,
        }
    }

    /// Translates a packet from a port, or a recirculated one.
    pub fn run(&mut self, entered: &'a Bridge, frozen: Option<&Frozen>, port: Option<&Port>) {
        let name = &entered.config.name;
        self.notes.enter(NoteKind::Bridge, || format!("bridge(\"{name}\")"));
        self.look_at_tunnel();
        if let Err(reason) = self.map_options(entered, port) {
            self.error = Some(reason);
            self.notes.leave();
            return;
        }
        match frozen {
            Some(frozen) => self.thaw(frozen),
            None => self.conntracked = self.key.ct_state().contains(flow::CtState::TRK),
        }
        if let Some(port) = port.filter(|_| frozen.is_none() && self.key.has_tunnel()) {
            self.effects.push(Effect::Tunnel { at: (entered.id, port.number), sent: false });
            self.enter_from_packets(port);
        }
        let is_special = frozen.is_none() && port.is_some_and(|port| self.process_special(port));
        let received = !is_special
            && port.is_none_or(|port| self.may_receive(port))
            && (frozen.is_some() || self.take_over_ecn());
        match frozen.filter(|frozen| !frozen.rest.is_empty()) {
            Some(frozen) if received => {
                if !self.is_refused_by_mirror() {
                    self.execute_rest(&frozen.rest);
                    self.finish_pipeline();
                }
            }
            Some(_) => {}
            None => {
                let found = self.lookup(self.in_port(), true, true);
                self.report_found(&found);
                if is_special {
                    self.mirror_ingress();
                } else if !self.is_refused_by_mirror() && received {
                    if frozen.is_none() {
                        self.mirror_ingress();
                    }
                    self.execute_found(&found, Scope::Direct, true);
                    self.finish_pipeline();
                }
                self.notes.leave();
            }
        }
        self.notes.leave();
    }

    /// Ends the pipeline: executes the action set, and freezes if requested.
    pub fn finish_pipeline(&mut self) {
        if self.error.is_some() {
            return;
        }
        if !self.is_freezing() {
            self.execute_action_set();
        }
        if self.is_freezing() {
            self.finish_freezing();
            // `exit` ends the copy only.
            self.exit = false;
        }
    }

    /// Resumes from a frozen state without a table lookup.
    pub fn run_resumed(&mut self, frozen: &Frozen) {
        let name = &self.bridge.config.name;
        self.notes.enter(NoteKind::Bridge, || format!("bridge(\"{name}\")"));
        self.thaw(frozen);
        if !self.is_refused_by_mirror() {
            self.execute_rest(&frozen.rest);
            self.finish_pipeline();
        }
        self.notes.leave();
    }

    /// Translates a packet-out.
    pub fn run_sent(&mut self, actions: &[OfAction]) {
        let name = &self.bridge.config.name;
        self.notes.enter(NoteKind::Bridge, || format!("bridge(\"{name}\")"));
        self.conntracked = self.key.ct_state().contains(flow::CtState::TRK);
        self.sent = true;
        let bridge = self.bridge;
        let is_special = bridge.port(self.in_port()).is_some_and(|port| self.process_special(port));
        if is_special {
            self.mirror_ingress();
        } else if !self.is_refused_by_mirror() {
            self.mirror_ingress();
            self.execute(actions, true);
            self.finish_pipeline();
        }
        self.notes.leave();
    }

    /// Restores a frozen state.
    fn thaw(&mut self, frozen: &Frozen) {
        self.notes.enter(NoteKind::Thaw, || "thaw".to_owned());
        self.notes.add(NoteKind::Thaw, || format!("Resuming from table {}", frozen.table));
        self.thawed = true;
        self.table = frozen.table;
        self.conntracked = frozen.conntracked;
        self.mirrored = frozen.mirrored;
        if !frozen.conntracked {
            self.clear_conntrack();
        }
        frozen.restore(self.key);
        self.stack.clone_from(&frozen.stack);
        if !frozen.action_set.is_empty() {
            self.key.set(Field::ActsetOutput, OfPort::UNSET.0.into());
            self.write_actions(&frozen.action_set);
        }
        self.report_rest(&frozen.rest);
        self.notes.leave();
    }

    /// The packet's current in-port in the bridge.
    pub fn in_port(&self) -> OfPort {
        OfPort(self.key.in_port_raw() as u16)
    }

    pub fn may_receive(&mut self, port: &Port) -> bool {
        let both = PortConfig::NO_RECV | PortConfig::NO_RECV_STP;
        if !matches!((port.config & both).bits().count_ones(), 0 | 2) {
            self.mask.add(Field::EthDst);
        }
        let is_stp = self.key.eth_dst().to_u64() == 0x0180_c200_0000;
        let bit = if is_stp { PortConfig::NO_RECV_STP } else { PortConfig::NO_RECV };
        !port.config.contains(bit)
    }

    /// Continues in a table; depth and number of resubmits are limited.
    pub fn table_action(
        &mut self,
        in_port: OfPort,
        table: TableId,
        may_packet_in: bool,
        with_ct_orig: bool,
        last: bool,
        scope: Scope,
    ) {
        if self.waits_for_labels() || !self.may_resubmit() {
            return;
        }
        let old_table = std::mem::replace(&mut self.table, table);
        if with_ct_orig {
            if self.key.get(Field::CtNwProto) == 0 || !self.key.is_ip() {
                self.notes.add(NoteKind::Error, || {
                    "resubmit(ct) with non-tracked or non-IP packet!".to_owned()
                });
                self.table = old_table;
                return;
            }
            self.swap_tuple();
        }
        let was_rewritten = self.is_rewritten;
        self.is_rewritten |= with_ct_orig;
        let found = self.lookup(in_port, may_packet_in, may_packet_in);
        self.is_rewritten = was_rewritten;
        if with_ct_orig {
            self.swap_tuple();
        }
        self.report_found(&found);
        let deeper = usize::from(table <= old_table);
        self.resubmits += 1;
        self.depth += deeper;
        let (old_rule, old_cookie) = (self.rule, self.cookie);
        let in_bucket = std::mem::replace(&mut self.in_bucket, false);
        self.execute_found(&found, scope, last);
        (self.rule, self.cookie, self.in_bucket) = (old_rule, old_cookie, in_bucket);
        self.depth -= deeper;
        self.notes.leave();
        self.table = old_table;
    }

    pub fn may_resubmit(&mut self) -> bool {
        if self.actions.len() >= limits::ACTIONS {
            self.notes
                .add(NoteKind::Error, || "resubmits yielded over 64 kB of actions".to_owned());
            // The packet keeps the actions so far (ovs: `ofproto/ofproto-dpif-xlate.c`,
            // `xlate_resubmit_resource_check`).
            (self.exit, self.is_slow) = (true, true);
            return false;
        }
        let (text, error) = if self.depth >= limits::RESUBMIT_DEPTH {
            let text = format!("over max translation depth {}", limits::RESUBMIT_DEPTH);
            (text, DropReason::ResubmitDepth)
        } else if self.resubmits >= limits::RESUBMITS {
            (format!("over {} resubmit actions", limits::RESUBMITS), DropReason::Resubmits)
        } else if self.stack.len() * size_of::<u128>() >= limits::STACK_BYTES {
            let text = "resubmits yielded over 64 kB of stack".to_owned();
            (text, DropReason::StackDepth)
        } else {
            return true;
        };
        self.notes.add(NoteKind::Error, || text);
        self.error = Some(error);
        false
    }
}
