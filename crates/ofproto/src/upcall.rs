//! Upcalls: packets that missed in a worker, and the statistics of its flows.

use crate::effect::Effect;
use crate::events::Event;
use crate::ids::BridgeId;
use crate::installed::{DatapathFlow, InstalledCounters};
use crate::links::Links;
use crate::snapshot::{Megaflows, Shared};
use crate::underlay::Wanted;
use crate::{Ofproto, Outbox};
use base::{Instant, OfPort, RecircId};
use flow::{
    ControllerAction, CtState, Field, FlowDump, FlowId, FlowKey, FlowStats, Match, OptionMapping,
    OptionMatch, Upcall, UpcallKind, Wide,
};
use openflow::message::{PacketIn, reason};
use std::sync::Arc;
use wire::ethertype;

impl Ofproto {
    /// Answers an upcall: with a megaflow and the packet's actions, or with a packet-in to controllers.
    pub fn upcall(&mut self, now: Instant, upcall: Upcall, out: &mut Outbox) {
        match upcall.kind {
            UpcallKind::Miss => self.miss(now, upcall, out),
            UpcallKind::Controller(to) => self.packet_in(&upcall, &to),
            // These have a list of their own.
            UpcallKind::Protocol(_) => {}
        }
    }

    fn miss(&mut self, now: Instant, upcall: Upcall, out: &mut Outbox) {
        self.publish();
        self.own_handler.translate_own(now, upcall);
        self.own_handler.install(now, |commands| out.commands.append(commands));
        // Only now: the packet's effects may concern its own megaflow, translated before. For example, a new
        // address can evict the destination's.
        self.apply_credits(now);
        self.ask_neighbours(now, out);
    }

    /// Sends a packet-in for a flow's controller action.
    fn packet_in(&mut self, upcall: &Upcall, to: &ControllerAction) {
        let Some(state) = self.recirc.get(to.recirc_id) else { return };
        let bridge = self.bridges.get(state.bridge);
        let options = bridge.map_or(&[][..], |bridge| bridge.tunnel_options());
        let metadata = metadata(&state.pipeline, &upcall.key, state.conntracked, options);
        let unseen = upcall.key.unseen_bytes();
        let data = upcall.packet.data().get(unseen..).unwrap_or_default().to_vec();
        let is_miss = to.reason == reason::IMPLICIT_MISS;
        let packet_in = PacketIn {
            total_len: u16::try_from(data.len()).unwrap_or(u16::MAX),
            data,
            reason: if is_miss { 0 } else { to.reason },
            table: Some(state.table),
            // The hidden flow of a miss has no cookie.
            cookie: if is_miss { 0 } else { to.rule_cookie },
            metadata,
            userdata: state.userdata.clone(),
            continuation: to.pauses.then(|| Box::new(self.continuation(&state))),
        };
        self.events.push(Event::PacketIn {
            bridge: state.bridge,
            packet_in: Box::new(packet_in),
            controller_id: to.controller_id,
            is_miss,
        });
    }

    /// Applies a page of a worker's statistics. Flows with the same links are credited in one sum.
    pub fn dump(&mut self, now: Instant, dump: FlowDump) {
        let mut megaflows = self.megaflows_mut();
        let Megaflows { installed, credits, .. } = &mut *megaflows;
        installed.account_page(&dump, |links, more| credits.add(links, more));
        drop(megaflows);
        self.apply_credits(now);
        if dump.is_last {
            self.megaflows_mut().installed.end_dump(dump.worker, dump.at);
            self.statistics_collected(now);
        }
    }

    /// Applies a page of the last statistics of a worker that was removed with [`Self::set_config`]. Called
    /// before [`Self::go_on`], which forgets its flows.
    pub fn last_dump(&mut self, now: Instant, dump: &FlowDump) {
        let mut megaflows = self.shared.lock();
        let credits = &mut megaflows.credits;
        for installed in self.upkeep.replaced() {
            installed.account_page(dump, |links, more| credits.add(links, more));
        }
        drop(megaflows);
        self.apply_credits(now);
    }

    /// All megaflows, by the lower halves of their ids.
    pub fn megaflows(&self) -> Vec<DatapathFlow> {
        self.megaflows_mut().installed.iter().collect()
    }

    /// All megaflows, by the lower halves of their ids, read a part at a time on any thread.
    pub fn megaflow_pages(&self) -> MegaflowPages {
        MegaflowPages { shared: Arc::clone(&self.shared), next: 1 }
    }

    /// A megaflow.
    pub fn megaflow(&self, id: FlowId) -> Option<DatapathFlow> {
        self.megaflows_mut().installed.get(id)
    }

    /// Counts of megaflows.
    pub fn megaflow_counters(&self) -> InstalledCounters {
        self.megaflows_mut().installed.counters
    }

    /// Applies effects and adds statistics for these packets.
    pub(crate) fn credit(&mut self, links: &Links, more: &FlowStats, now: Instant) {
        let mut is_of_removed = false;
        for (at, &id) in links.rules.iter().enumerate() {
            let more = links.stats_of_rule(at, more);
            match self.rules.get(id) {
                Some(rule) => rule.carried.add(&more, now),
                None => {
                    is_of_removed = true;
                    self.credit_removed(id, &more, now);
                }
            }
        }
        for (at, effect) in links.effects.iter().enumerate() {
            // A flow that was removed teaches no more flows, but its packets keep those that are there.
            if is_of_removed
                && matches!(effect, Effect::LearnFlow { bridge, flow, .. } if !self.is_learned(*bridge, flow))
            {
                continue;
            }
            self.apply(effect, &links.stats_of_effect(at, more), now);
        }
    }

    pub(crate) fn apply(&mut self, effect: &Effect, more: &FlowStats, now: Instant) {
        match *effect {
            Effect::LearnFlow { bridge, ref flow, limit } => {
                self.learn_flow(bridge, flow, limit, now);
            }
            Effect::HitLearned { bridge, ref flow } => self.hit_learned(bridge, flow, more),
            Effect::FinTimeout { rule, idle_s, hard_s } => {
                // FIN and RST.
                if more.tcp_flags & 0x005 != 0 {
                    self.reduce_timeouts(rule, idle_s, hard_s);
                }
            }
            Effect::Learn { bridge, vlan, mac, port } => {
                // The port may have been removed before its last packets are counted.
                if self.bridges.get(bridge).and_then(|it| it.port(port)).is_none() {
                    return;
                }
                if let Some(ledger) = self.ledger_mut(bridge) {
                    ledger.macs.learn(more.used.unwrap_or(now), vlan, mac, port);
                    self.follow_macs(bridge);
                }
            }
            Effect::Lookup { bridge, table, found } => {
                if let Some(bridge) = self.bridges.get(bridge) {
                    bridge.tables.count_lookup(table, found, more.packets);
                }
            }
            Effect::Miss { bridge, miss } => {
                if let Some(ledger) = self.ledger_mut(bridge) {
                    ledger.hidden.count(miss, more, now);
                }
            }
            Effect::Group { bridge, group, generation, bucket } => {
                let bridge = self.bridges.get(bridge);
                let group = bridge.and_then(|bridge| bridge.groups.get(group));
                if let Some(group) = group.filter(|group| group.generation == generation) {
                    group.count(bucket, more, now);
                }
            }
            Effect::Patch { from, to } => {
                self.count_port(from, true, more, now);
                self.count_port(to, false, more, now);
            }
            Effect::Tunnel { at, sent } => self.count_port(at, sent, more, now),
            Effect::Mirror { bridge, mirror } => {
                if let Some(ledger) = self.ledger_mut(bridge) {
                    ledger.count_mirrored(mirror, more);
                }
            }
            Effect::NeighbourSeen { bridge, ip, mac } => {
                self.neighbour_seen(more.used.unwrap_or(now), bridge, ip, mac);
            }
            Effect::NeighbourUsed { bridge, ip } => {
                self.neighbour_used(more.used.unwrap_or(now), bridge, ip);
            }
            Effect::NeighbourWanted { bridge, port, source, target } => {
                self.questions.want(now, Wanted { bridge, port, source, target });
            }
        }
    }

    /// Counts packets of a port without a device.
    fn count_port(
        &self,
        (bridge, port): (BridgeId, OfPort),
        sent: bool,
        more: &FlowStats,
        now: Instant,
    ) {
        if let Some(port) = self.bridges.get(bridge).and_then(|bridge| bridge.port(port)) {
            let carried = if sent { &port.patch_tx } else { &port.patch_rx };
            carried.add(more, now);
        }
    }
}

/// Megaflows that are looked up under their lock at once: some 50 µs.
const PAGE: u32 = 128;

/// See [`Ofproto::megaflow_pages`]. Megaflows that come and go meanwhile may be left out.
#[derive(Clone, Debug)]
pub struct MegaflowPages {
    shared: Arc<Shared>,
    next: u32,
}

impl Iterator for MegaflowPages {
    type Item = Vec<DatapathFlow>;

    fn next(&mut self) -> Option<Vec<DatapathFlow>> {
        let megaflows = self.shared.lock();
        let (first, last) = (self.next, megaflows.installed.last_slot());
        self.next = first.saturating_add(PAGE);
        let slots = first..self.next.min(last + 1);
        (first <= last).then(|| slots.filter_map(|slot| megaflows.installed.view(slot)).collect())
    }
}

/// The links of a megaflow with this translation.
pub(crate) fn links(mut links: Links, key: &FlowKey) -> Links {
    if key.recirc_id() != RecircId(0) {
        links.recircs.push(key.recirc_id());
    }
    links
}

/// The metadata of a packet-in: all non-zero pipeline fields, the in-port, and the connection's original
/// tuple if the packet has a connection or may begin one (ovs: `lib/flow.c`, `flow_get_metadata`).
fn metadata(
    pipeline: &FlowKey,
    packet: &FlowKey,
    conntracked: bool,
    options: &[OptionMapping],
) -> Match {
    let mut matching = Match::any().with(Field::InPort, pipeline.in_port_raw().into());
    for option in options.iter().filter(|it| it.is_in(pipeline)) {
        let value = option.read(pipeline);
        let mask = if option.is_empty() { Wide::ZERO } else { Wide::ONES };
        let told = OptionMatch::new(option.index, value, mask);
        matching.set_option(OptionMatch { len: option.len(), ..told });
    }
    let mut add = |field: Field, value: u128| {
        if value != 0 {
            matching.set_masked(field, value, u128::MAX);
        }
    };
    for &field in Field::BASIC.iter().filter(|field| field.is_pipeline()) {
        add(field, pipeline.get(field));
    }
    for field in [
        Field::TunId,
        Field::TunIpv6Src,
        Field::TunIpv6Dst,
        Field::TunGbpId,
        Field::TunGbpFlags,
        Field::TunErspanVer,
        Field::TunErspanIdx,
        Field::TunErspanDir,
        Field::TunErspanHwid,
        Field::TunGtpuFlags,
        Field::TunGtpuMsgtype,
    ] {
        add(field, pipeline.get(field));
    }
    add(Field::PacketType, pipeline.get(Field::PacketType));
    add(Field::PktMark, packet.get(Field::PktMark));
    if !conntracked || packet.ct_state().is_empty() {
        return matching;
    }
    for field in [Field::CtState, Field::CtZone, Field::CtMark, Field::CtLabel] {
        add(field, packet.get(field));
    }
    // The connection fields depend on the Ethernet type.
    if pipeline.get(Field::PacketType) == 0 {
        add(Field::EthType, packet.eth_type().into());
    }
    let has_tuple = packet.ct_state().intersects(CtState::NEW | CtState::EST | CtState::RPL);
    if has_tuple && packet.ct_nw_proto() != 0 && packet.is_ip() {
        let addresses = match packet.eth_type() {
            ethertype::IPV4 => [Field::CtNwSrc, Field::CtNwDst],
            _ => [Field::CtIpv6Src, Field::CtIpv6Dst],
        };
        let ports = [Field::CtNwProto, Field::CtTpSrc, Field::CtTpDst];
        for field in addresses.into_iter().chain(ports) {
            matching.set_masked(field, packet.get(field), u128::MAX);
        }
    }
    matching
}

#[cfg(test)]
mod tests;
