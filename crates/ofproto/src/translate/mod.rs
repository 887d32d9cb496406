//! Translation of a packet's key into datapath actions.
//!
//! Translation reads through shared references and changes nothing: even the number of a frozen state is the
//! same for every thread, at any time. The effects of a packet besides its actions (learned addresses, flow
//! statistics) are listed for the caller to apply: once for the packet itself, and again for what the
//! megaflow carries. The mask contains everything that was looked at, so all packets that agree in it are
//! treated the same.

mod action_set;
mod actions;
mod check_len;
mod choice;
mod commit;
mod context;
mod ct;
mod dependencies;
mod fields;
mod found;
mod freeze;
mod group;
mod hash;
mod labels;
mod learn;
mod lookup;
mod mask;
mod mirror;
mod normal;
mod options;
mod outer;
mod output;
mod packet_type;
mod report;
mod saved;
mod special;
mod terminate;
mod tunnel;

pub(crate) use self::terminate::TunnelSender;
pub(crate) use fields::fix_tpid;
pub(crate) use report::{Note, NoteKind};

use crate::bridges::Bridges;
use crate::dependency::Dependency;
use crate::features::Features;
use crate::ids::BridgeId;
use crate::links::Links;
use crate::recirc::{Frozen, RecircTable};
use crate::rule::Rules;
use ::tunnel::Underlay;
use base::{Instant, OfPort, PortNo, RecircId, Zone};
use context::Context;
use flow::{Action, DropReason, Field, FlowKey, Mask, NatRange, Protocol};
use mask::{always_looked_at, tidy_mask};
use std::collections::BTreeMap;

/// The inputs of translation.
#[derive(Clone, Copy)]
pub(crate) struct World<'a> {
    pub bridges: &'a Bridges,
    pub rules: &'a Rules,
    pub recirc: &'a RecircTable,
    pub timeout_policies: &'a BTreeMap<Zone, u32>,
    pub underlay: &'a Underlay,
    pub features: Features,
    /// The packet's length, if there is an actual packet.
    pub packet_len: Option<usize>,
    pub now: Instant,
}

/// Buffers reused by consecutive translations.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    pub actions: Vec<Action>,
    pub mask: Box<Mask>,
    pub links: Links,
}

/// The keys of a translation, reused by the next one: to make them anew would copy each several times.
#[derive(Debug, Default)]
pub(crate) struct Keys {
    key: FlowKey,
    base: FlowKey,
    varying: Mask,
}

impl Keys {
    /// Sets them for a packet that nothing has changed.
    fn begin(&mut self, packet: &FlowKey) {
        self.varying.words_mut().fill(0);
        for key in [&mut self.key, &mut self.base] {
            key.clone_from(packet);
            key.set(Field::ActsetOutput, OfPort::UNSET.0.into());
        }
    }
}

impl Memory {
    /// Clears the results of the last translation.
    pub fn clear(&mut self) {
        self.actions.clear();
        self.mask.words_mut().fill(0);
        self.links.clear();
    }
}

/// The result of a translation.
#[derive(Debug)]
pub(crate) struct Translation {
    /// The datapath actions; an empty list drops the packet.
    pub actions: Vec<Action>,
    /// The bits of the packet that decided, with the datapath's port numbers.
    pub mask: Box<Mask>,
    /// The same with the bridge's terms if notes were requested, and with register bits if translation failed.
    pub told_mask: Option<Box<Mask>>,
    /// The links of a megaflow for it, without the packet's own frozen state.
    pub links: Links,
    /// The sender of the outer packet, if it reached the end of a tunnel.
    pub tunnel_sender: Option<TunnelSender>,
    /// A flow with a limit is learned: it must be in its table before the packet's actions are executed.
    pub learns_anew: bool,
    /// Why translation failed; the packet is then dropped.
    pub error: Option<DropReason>,
    /// Every packet needs an upcall, because the datapath cannot or should not execute the actions.
    pub is_slow: bool,
    /// The protocol whose state machine gets the packet.
    pub protocol: Option<Protocol>,
    /// The key after all changes, with the bridge's port numbers, if notes were requested.
    pub final_key: Option<Box<FlowKey>>,
    /// The key as it came, likewise.
    pub packet_key: Option<Box<FlowKey>>,
    /// The trace, if it was requested.
    pub notes: Vec<Note>,
    /// Whether there are errors to log.
    pub has_errors: bool,
    /// Recirculated copies, if notes were requested.
    pub forks: Vec<Fork>,
}

impl Translation {
    /// Whether a megaflow may be installed: not if the port, bridge or frozen state no longer exists, since
    /// its number may be reused, and not if the datapath cannot execute the actions.
    pub fn may_install(&self) -> bool {
        let is_orphan = matches!(
            self.error,
            Some(DropReason::NoPort | DropReason::NoBridge | DropReason::RecircUnknown)
        );
        !is_orphan && !self.is_slow
    }
}

/// A packet-out.
pub(crate) struct Sent<'a> {
    pub bridge: BridgeId,
    pub actions: &'a [openflow::Action],
    /// Registers, metadata and in-port, with the bridge's port numbers.
    pub pipeline: &'a FlowKey,
}

/// The level of notes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Notes {
    /// None.
    #[default]
    Off,
    /// All.
    On {
        /// Print ports by name.
        names: bool,
        /// There is an actual packet, from which addresses are learned.
        learns: bool,
    },
}

/// Where translation starts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    /// The bridge that the packet entered.
    pub bridge: BridgeId,
    /// The bridge port of the arrival, which may not exist.
    pub in_port: OfPort,
    /// The datapath number of that port.
    pub device: PortNo,
}

/// A recirculated copy, with its key.
#[derive(Clone, Debug)]
pub(crate) struct Fork {
    pub id: RecircId,
    pub key: FlowKey,
    /// The NAT range that may apply meanwhile; `Some(None)` keeps the connection's NAT.
    pub nat: Option<Option<NatRange>>,
}

/// Translates a packet from a datapath port; `key` has the datapath's port numbers. The previous content of
/// `memory` is ignored.
pub(crate) fn translate(
    world: World<'_>,
    key: &FlowKey,
    notes: Notes,
    memory: Memory,
    keys: &mut Keys,
) -> Translation {
    let device = key.in_port();
    let entry = match world.bridges.of_packet(key) {
        Some((bridge, in_port)) => Entry { bridge, in_port, device },
        None if key.recirc_id() == RecircId(0) => {
            let is_tunnels = key.has_tunnel();
            let reason = if is_tunnels { DropReason::TunnelUnknown } else { DropReason::NoPort };
            return dropped(key, reason);
        }
        // The packet is a controller's, or its port was removed. Open vSwitch forwards nothing of a removed port, in
        // any pass (`ofproto/ofproto-dpif-xlate.c`, `xlate_lookup_ofproto_`).
        None => {
            let Some(frozen) = world.recirc.get(key.recirc_id()) else {
                return dropped(key, DropReason::RecircUnknown);
            };
            let (bridge, in_port) = (frozen.bridge, OfPort(frozen.pipeline.in_port_raw() as u16));
            if !world.bridges.is_controllers(device, (bridge, in_port)) {
                return dropped(key, DropReason::NoPort);
            }
            Entry { bridge, in_port, device }
        }
    };
    translate_from(world, key, entry, notes, memory, keys)
}

/// Translates a packet that enters at a given port.
pub(crate) fn translate_from(
    world: World<'_>,
    key: &FlowKey,
    entry: Entry,
    notes: Notes,
    memory: Memory,
    keys: &mut Keys,
) -> Translation {
    let frozen = match key.recirc_id() {
        RecircId(0) => None,
        id => match world.recirc.get(id) {
            Some(frozen) => Some(frozen),
            None => return dropped(key, DropReason::RecircUnknown),
        },
    };
    let entered = world.bridges.get(entry.bridge);
    let bridge = match &frozen {
        Some(frozen) => world.bridges.get(frozen.bridge),
        None => entered,
    };
    let (Some(bridge), Some(entered)) = (bridge, entered) else {
        return dropped(key, DropReason::NoBridge);
    };
    let mut context = Context::new(world, bridge, key, notes, memory, keys);
    context.device = entry.device;
    context.depend(Dependency::Device(entry.device));
    context.depend(Dependency::Bridge { bridge: entered.id });
    context.depend(Dependency::Port { bridge: entered.id, port: entry.in_port });
    context.key.set_in_port_raw(entry.in_port.0.into());
    context.base.set_in_port_raw(entry.in_port.0.into());
    context.run(entered, frozen.as_deref(), entered.port(entry.in_port));
    context.limit_slow_path();
    finish(context)
}

/// Translates a packet-out.
pub(crate) fn translate_sent(
    world: World<'_>,
    key: &FlowKey,
    sent: &Sent<'_>,
    notes: Notes,
) -> Translation {
    let Some(bridge) = world.bridges.get(sent.bridge) else {
        return dropped(key, DropReason::NoBridge);
    };
    let mut keys = Keys::default();
    let mut context = Context::new(world, bridge, key, notes, Memory::default(), &mut keys);
    for &field in Field::BASIC.iter().filter(|field| field.is_pipeline()) {
        context.key.set(field, sent.pipeline.get(field));
    }
    context.key.copy_tunnel(sent.pipeline);
    context.key.set_in_port_raw(sent.pipeline.in_port_raw());
    context.base.set_in_port_raw(sent.pipeline.in_port_raw());
    context.run_sent(sent.actions);
    finish(context)
}

/// Translates a packet that a controller resumes.
pub(crate) fn translate_resumed(
    world: World<'_>,
    key: &FlowKey,
    state: &Frozen,
    notes: Notes,
) -> Translation {
    let Some(bridge) = world.bridges.get(state.bridge) else {
        return dropped(key, DropReason::NoBridge);
    };
    let mut keys = Keys::default();
    let mut context = Context::new(world, bridge, key, notes, Memory::default(), &mut keys);
    context.device = state.device;
    context.base.set_in_port_raw(state.pipeline.in_port_raw());
    context.run_resumed(state);
    finish(context)
}

#[inline(always)]
fn finish(context: Context<'_>) -> Translation {
    coverage::count(coverage::Event::Translate);
    let Context { key, base, original, mut mask, mut actions, notes, error, .. } = context;
    if context.copies_ecn {
        outer::match_ecn(&mut mask, &mut actions);
    }
    let is_told = notes.is_wanted();
    let packet_key = || {
        let mut packet_key = original.clone();
        packet_key.set_in_port_raw(base.in_port_raw());
        Box::new(packet_key)
    };
    let failed_mask = (error.is_some() && is_told).then(|| mask.clone());
    tidy_mask(&mut mask, original, key);
    let told_mask = failed_mask.or_else(|| is_told.then(|| mask.clone()));
    options::unmap_mask(&mut mask, original, context.option_table);
    let failure = context.failure.filter(|_| actions.is_empty());
    if let Some(reason) = error.or(failure) {
        actions = vec![Action::Drop(reason)];
    } else if let Some(Action::Clone(inner)) = actions.last()
        && !matches!(**inner, [Action::Meter(_), Action::Controller(_)])
    {
        // A clone at the end of the list needs no copy.
        let inner = inner.clone();
        actions.pop();
        actions.extend_from_slice(&inner);
    }
    let Context { rules, effects, outer_parts, recircs, dependencies, lookups, .. } = context;
    Translation {
        actions,
        mask,
        told_mask,
        links: Links { rules, effects, outer_parts, recircs, dependencies, lookups },
        tunnel_sender: context.tunnel_sender,
        learns_anew: context.learns_anew,
        error,
        is_slow: context.is_slow,
        protocol: context.protocol,
        final_key: is_told.then(|| Box::new(key.clone())),
        packet_key: is_told.then(packet_key),
        has_errors: notes.has_errors(),
        notes: notes.into_notes(),
        forks: context.forks,
    }
}

/// The translation of a packet that is dropped without lookups.
fn dropped(key: &FlowKey, reason: DropReason) -> Translation {
    let mut mask = Box::new(Mask::new());
    always_looked_at(&mut mask, key);
    if key.has_tunnel() {
        // These fields determine the port of the packet.
        for field in [Field::TunId, Field::TunIpv6Src, Field::TunIpv6Dst, Field::PacketType] {
            mask.add(field);
        }
    }
    Translation {
        actions: vec![Action::Drop(reason)],
        mask,
        told_mask: None,
        links: Links::default(),
        tunnel_sender: None,
        learns_anew: false,
        error: Some(reason),
        is_slow: false,
        protocol: None,
        final_key: None,
        packet_key: None,
        has_errors: false,
        notes: Vec::new(),
        forks: Vec::new(),
    }
}

#[cfg(test)]
mod tests;
