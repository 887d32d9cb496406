//! From a packet's key to what the datapath does with it.
//!
//! Translation reads through shared references and changes nothing: even the number of a frozen state
//! is the same for every thread that asks, and at any time. What follows from a packet besides its steps (addresses
//! learned, flows to be credited) is listed, and applied by the caller: for the packet itself, and
//! again whenever the megaflow has carried more. What was looked at is in the mask, so that every
//! packet that agrees in it is treated the same.

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
mod terminate;
mod tunnel;

pub(crate) use self::terminate::TunnelSender;
pub(crate) use self::tunnel::address;
pub(crate) use fields::fix_tpid;
pub(crate) use mask::{add_tags, datapath_mask};
pub(crate) use report::{Note, NoteKind};

use crate::bridge::BridgeId;
use crate::bridges::Bridges;
use crate::features::Features;
use crate::hidden::Miss;
use crate::installed::Links;
use crate::recirc::{Frozen, RecircTable};
use crate::revalidate::Dependency;
use crate::rule::{RuleId, Rules};
use ::tunnel::Underlay;
use base::{Instant, MacAddr, OfPort, PortNo, RecircId, TableId, Zone};
use context::Context;
use flow::{Action, DropReason, Field, FlowKey, Mask, NatRange};
use mask::{always_looked_at, tidy_mask};
use openflow::message::FlowMod;
use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use std::net::IpAddr;
use std::sync::Arc;

/// What translation reads.
#[derive(Clone, Copy)]
pub(crate) struct World<'a> {
    pub bridges: &'a Bridges,
    pub rules: &'a Rules,
    pub recirc: &'a RecircTable,
    pub timeout_policies: &'a BTreeMap<Zone, u32>,
    pub underlay: &'a Underlay,
    pub features: Features,
    /// The length of the packet, where there is one.
    pub packet_len: Option<usize>,
    pub now: Instant,
}

/// What a packet does besides being sent.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Effect {
    /// A bridge saw an address behind a port.
    Learn { bridge: BridgeId, vlan: u16, mac: MacAddr, port: OfPort },
    /// A flow was learned, where there are not `limit` of its cookie.
    LearnFlow { bridge: BridgeId, flow: Arc<FlowMod>, limit: u32 },
    /// A flow matched that the packet itself taught.
    HitLearned { bridge: BridgeId, flow: Arc<FlowMod> },
    /// A flow has other timeouts after FIN and RST.
    FinTimeout { rule: RuleId, idle_s: u16, hard_s: u16 },
    /// A table was asked, and had a flow or not.
    Lookup { bridge: BridgeId, table: TableId, found: bool },
    /// No flow matched.
    Miss { bridge: BridgeId, miss: Miss },
    /// A packet went through a group: through one of its buckets or (`None`) through all.
    Group { bridge: BridgeId, group: u32, bucket: Option<u32> },
    /// A packet went through a patch, from one end to the other.
    Patch { from: (BridgeId, OfPort), to: (BridgeId, OfPort) },
    /// A packet came out of a tunnel's port, or went into it.
    Tunnel { at: (BridgeId, OfPort), sent: bool },
    /// A neighbour of a bridge announced its address. The megaflow matches on both addresses.
    NeighbourSeen { bridge: BridgeId, ip: IpAddr, mac: MacAddr },
    /// A packet was sent to a neighbour.
    NeighbourUsed { bridge: BridgeId, ip: IpAddr },
    /// A packet could not be sent, since a neighbour's address is not known; `port` may ask for it.
    NeighbourWanted { bridge: BridgeId, port: OfPort, source: IpAddr, target: IpAddr },
}

impl Eq for Effect {}

/// Learned flows count by what tells them apart in a table.
impl Hash for Effect {
    fn hash<H: Hasher>(&self, state: &mut H) {
        std::mem::discriminant(self).hash(state);
        match self {
            Effect::Learn { bridge, vlan, mac, port } => (bridge, vlan, mac, port).hash(state),
            Effect::LearnFlow { bridge, flow, .. } | Effect::HitLearned { bridge, flow } => {
                (bridge, flow.table, flow.priority, &flow.matching).hash(state);
            }
            Effect::FinTimeout { rule, idle_s, hard_s } => (rule, idle_s, hard_s).hash(state),
            Effect::Lookup { bridge, table, found } => (bridge, table, found).hash(state),
            Effect::Miss { bridge, miss } => (bridge, miss).hash(state),
            Effect::Group { bridge, group, bucket } => (bridge, group, bucket).hash(state),
            Effect::Patch { from, to } => (from, to).hash(state),
            Effect::Tunnel { at, sent } => (at, sent).hash(state),
            Effect::NeighbourSeen { bridge, ip, mac } => (bridge, ip, mac).hash(state),
            Effect::NeighbourUsed { bridge, ip } => (bridge, ip).hash(state),
            Effect::NeighbourWanted { bridge, port, source, target } => {
                (bridge, port, source, target).hash(state);
            }
        }
    }
}

/// Memory that translations use one after the other, so that they need no new one.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    pub actions: Vec<Action>,
    pub mask: Box<Mask>,
    pub links: Links,
}

impl Memory {
    /// Forgets what the last translation left.
    pub fn clear(&mut self) {
        self.actions.clear();
        self.mask.words_mut().fill(0);
        self.links.clear();
    }
}

/// What becomes of a packet.
#[derive(Debug)]
pub(crate) struct Translation {
    /// What the datapath does; nothing drops the packet.
    pub actions: Vec<Action>,
    /// Which bits of the packet decided that, in the datapath's numbers.
    pub mask: Box<Mask>,
    /// The same with bits of registers, where translation failed and notes were asked for.
    pub failed_mask: Option<Box<Mask>>,
    /// What a megaflow of it stands for, but for the packet's own frozen state.
    pub links: Links,
    /// Who sent the outer packet, where it reached the end of a tunnel.
    pub tunnel_sender: Option<TunnelSender>,
    /// A flow is learned whose number is limited: what is learned must be known before the packet's
    /// actions are.
    pub learns_anew: bool,
    /// Why translation stopped; the packet is then dropped.
    pub error: Option<DropReason>,
    /// Every packet has to come up: the datapath is not to do, or can't, what is to be done.
    pub is_slow: bool,
    /// The key with all changes, in the bridge's numbers, where notes were asked for.
    pub final_key: Option<Box<FlowKey>>,
    /// The key with the changes that the steps make, likewise.
    pub base_key: Option<Box<FlowKey>>,
    /// What was done and why, where that was asked for.
    pub notes: Vec<Note>,
    /// Whether the log has something to tell of it.
    pub has_errors: bool,
    /// Copies that go round once more, where notes were asked for.
    pub forks: Vec<Fork>,
}

impl Translation {
    /// Whether a megaflow may stand for the packet: not where its port, bridge or frozen state is no more,
    /// for another may come under that number, and not where the datapath can't do what is to be done.
    pub fn may_install(&self) -> bool {
        let is_orphan = matches!(
            self.error,
            Some(DropReason::NoPort | DropReason::NoBridge | DropReason::RecircUnknown)
        );
        !is_orphan && !self.is_slow
    }
}

/// A packet from a controller instead of one from a port.
pub(crate) struct Sent<'a> {
    pub bridge: BridgeId,
    pub actions: &'a [openflow::Action],
    /// Registers, metadata and in-port, in the bridge's numbers.
    pub pipeline: &'a FlowKey,
}

/// What is written down for people.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Notes {
    /// Nothing.
    #[default]
    Off,
    /// Everything.
    On {
        /// Ports by their names.
        names: bool,
        /// There is a packet, from which addresses are learned.
        learns: bool,
    },
}

/// Where translation begins.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    /// The bridge that the packet entered.
    pub bridge: BridgeId,
    /// The bridge's port that it came in on, which need not be there.
    pub in_port: OfPort,
    /// The datapath's number of that port.
    pub device: PortNo,
}

/// A copy that goes round once more, with the key that it has then.
#[derive(Clone, Debug)]
pub(crate) struct Fork {
    pub id: RecircId,
    pub key: FlowKey,
    /// How its addresses may be translated meanwhile; `Some(None)` as the connection was set up.
    pub nat: Option<Option<NatRange>>,
}

/// Translates a packet that came in on a datapath port; `key` has the datapath's port numbers. What the memory
/// holds is of no account.
pub(crate) fn translate(
    world: World<'_>,
    key: &FlowKey,
    notes: Notes,
    memory: Memory,
) -> Translation {
    let device = key.in_port();
    let entry = match world.bridges.of_packet(key) {
        Some((bridge, in_port)) => Entry { bridge, in_port, device },
        None if key.recirc_id() == RecircId(0) => {
            let is_tunnels = key.has_tunnel();
            let reason = if is_tunnels { DropReason::TunnelUnknown } else { DropReason::NoPort };
            return dropped(key, reason);
        }
        // The packet was a controller's, or its port is gone.
        None => match world.recirc.get(key.recirc_id()) {
            Some(frozen) => {
                let in_port = OfPort(frozen.pipeline.in_port_raw() as u16);
                Entry { bridge: frozen.bridge, in_port, device }
            }
            None => return dropped(key, DropReason::RecircUnknown),
        },
    };
    translate_from(world, key, entry, notes, memory)
}

/// Translates a packet that enters at a known place.
pub(crate) fn translate_from(
    world: World<'_>,
    key: &FlowKey,
    entry: Entry,
    notes: Notes,
    memory: Memory,
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
    let mut context = Context::new(world, bridge, key, notes, memory);
    context.device = entry.device;
    context.depend(Dependency::Device(entry.device));
    context.depend(Dependency::Bridge { bridge: entered.id });
    context.depend(Dependency::Port { bridge: entered.id, port: entry.in_port });
    context.key.set_in_port_raw(entry.in_port.0.into());
    context.base.set_in_port_raw(entry.in_port.0.into());
    context.run(entered, frozen.as_deref(), entered.port(entry.in_port));
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
    let mut context = Context::new(world, bridge, key, notes, Memory::default());
    for &field in Field::BASIC.iter().filter(|field| field.is_pipeline()) {
        context.key.set(field, sent.pipeline.get(field));
    }
    context.key.copy_tunnel(sent.pipeline);
    context.key.set_in_port_raw(sent.pipeline.in_port_raw());
    context.base.set_in_port_raw(sent.pipeline.in_port_raw());
    context.run_sent(sent.actions);
    finish(context)
}

/// Translates a packet that a controller lets go on.
pub(crate) fn translate_resumed(
    world: World<'_>,
    key: &FlowKey,
    state: &Frozen,
    notes: Notes,
) -> Translation {
    let Some(bridge) = world.bridges.get(state.bridge) else {
        return dropped(key, DropReason::NoBridge);
    };
    let mut context = Context::new(world, bridge, key, notes, Memory::default());
    context.device = state.device;
    context.base.set_in_port_raw(state.pipeline.in_port_raw());
    context.run_resumed(state);
    finish(context)
}

#[inline]
fn finish(context: Context<'_>) -> Translation {
    let Context { key, base, original, mut mask, mut actions, notes, error, .. } = context;
    if context.copies_ecn {
        outer::match_ecn(&mut mask, &mut actions);
    }
    let is_told = notes.is_wanted();
    // Of a translation that failed, people are told all that it looked at, registers too.
    let failed_mask = (error.is_some() && is_told).then(|| mask.clone());
    tidy_mask(&mut mask, original, &key);
    let failure = context.failure.filter(|_| actions.is_empty());
    if let Some(reason) = error.or(failure) {
        actions = vec![Action::Drop(reason)];
    } else if let Some(Action::Clone(inner)) = actions.last()
        && !matches!(**inner, [Action::Meter(_), Action::Controller(_)])
    {
        // A copy that is the last use of the packet need not be one.
        let inner = inner.clone();
        actions.pop();
        actions.extend_from_slice(&inner);
    }
    let Context { rules, effects, outer_parts, recircs, dependencies, lookups, .. } = context;
    Translation {
        actions,
        mask,
        failed_mask,
        links: Links { rules, effects, outer_parts, recircs, dependencies, lookups },
        tunnel_sender: context.tunnel_sender,
        learns_anew: context.learns_anew,
        error,
        is_slow: context.is_slow,
        final_key: is_told.then(|| Box::new(key)),
        base_key: is_told.then(|| Box::new(base)),
        has_errors: notes.has_errors(),
        notes: notes.into_notes(),
        forks: context.forks,
    }
}

/// A packet of which nothing is known but that it is dropped.
fn dropped(key: &FlowKey, reason: DropReason) -> Translation {
    let mut mask = Box::new(Mask::new());
    always_looked_at(&mut mask, key);
    if key.has_tunnel() {
        // These say which port the packet is of.
        for field in [Field::TunId, Field::TunIpv6Src, Field::TunIpv6Dst, Field::PacketType] {
            mask.add(field);
        }
    }
    Translation {
        actions: vec![Action::Drop(reason)],
        mask,
        failed_mask: None,
        links: Links::default(),
        tunnel_sender: None,
        learns_anew: false,
        error: Some(reason),
        is_slow: false,
        final_key: None,
        base_key: None,
        has_errors: false,
        notes: Vec::new(),
        forks: Vec::new(),
    }
}

#[cfg(test)]
mod tests;
