//! The `learn` action.
//!
//! Translation changes no table. A learned flow is an [`Effect`] that the caller applies. As in Open vSwitch, a packet
//! sees a bridge's tables as they were when it entered the bridge (ovs: `ofproto/ofproto-dpif-xlate.c`, `tables_version`):
//! it finds flows that it has learned itself only where it comes back by a patch port, or recirculates.

use super::context::Context;
use super::found::Found;
use super::report::NoteKind;
use crate::dependency::Dependency;
use crate::effect::Effect;
use crate::ids::BridgeId;
use crate::learned::Outcome;
use crate::table::{kept_match, looked_up};
use base::TableId;
use flow::FlowKey;
use openflow::Action as OfAction;
use openflow::action::{Learn, LearnSpec};
use openflow::message::FlowMod;
use std::sync::Arc;

/// A flow that is not in its table yet.
pub(crate) struct Pending {
    bridge: BridgeId,
    flow: Arc<FlowMod>,
    pub actions: Arc<[OfAction]>,
}

impl Pending {
    pub fn flow(&self) -> &FlowMod {
        &self.flow
    }

    fn is_in(&self, bridge: BridgeId, table: TableId) -> bool {
        self.bridge == bridge && self.flow.table == Some(table)
    }
}

impl Context<'_> {
    /// Learns a flow, unless the limit is reached.
    pub fn learn_flow(&mut self, learn: &Learn) {
        for part in learn.specs.iter().filter_map(LearnSpec::read) {
            self.look_at_part(part);
        }
        let mut flow = learn.flow_mod(|part| self.read(part).low());
        self.notes.add(NoteKind::Detail, || crate::describe::describe_learned(&flow));
        if let Err(error) = self.bridge.place_match(&mut flow.matching) {
            self.notes.add(NoteKind::Error, || error.reason);
            return;
        }
        let flow = Arc::new(flow);
        let (bridge, table) = (self.bridge.id, learn.table);
        let outcome = self.outcome(&flow, learn.limit);
        if learn.limit != 0 {
            self.depend(Dependency::FlowCount { bridge, table });
            // Without an actual packet no flow is learned, and the next packet must miss again.
            self.learns_anew |= outcome != Outcome::Unchanged;
        }
        if outcome != Outcome::TooMany {
            if outcome == Outcome::New {
                let actions = flow.actions.clone().into();
                self.pending.push(Pending { bridge, flow: Arc::clone(&flow), actions });
            }
            self.effects.push(Effect::LearnFlow { bridge, flow, limit: learn.limit });
        }
        if let Some(result) = learn.result {
            self.load(result, u128::from(outcome != Outcome::TooMany), true);
        }
    }

    /// The effect of learning a flow, after those that this packet has learned already.
    fn outcome(&self, flow: &FlowMod, limit: u32) -> Outcome {
        let Some(table) = flow.table else { return Outcome::TooMany };
        let in_table = || self.pending.iter().filter(|it| it.is_in(self.bridge.id, table));
        let is_same =
            |it: &&Pending| it.flow.priority == flow.priority && it.flow.matching == flow.matching;
        if let Some(same) = in_table().rfind(is_same) {
            return if *same.flow == *flow { Outcome::Unchanged } else { Outcome::New };
        }
        let more = in_table().filter(|it| it.flow.new_cookie == flow.new_cookie).count();
        self.bridge.tables.learning(flow, limit, more, self.world.rules)
    }

    /// The pending flow that matches the key, if its priority is at least that of the flow found in the
    /// table.
    pub fn find_pending(&mut self, key: &FlowKey, found: Option<u16>) -> Option<Found> {
        let (bridge, table) = (self.bridge.id, self.table);
        let key = looked_up(key);
        let mut best = None;
        for (at, it) in self.pending.iter().enumerate().filter(|(_, it)| it.is_in(bridge, table)) {
            // The megaflow looks at what later packets are looked up by, so that it stays when the flow is in its table.
            self.mask.union(it.flow.matching.mask());
            if at >= self.visible {
                continue;
            }
            let floor = best.map(|(priority, _)| priority).or(found);
            // A later one replaces an equal one.
            let is_better = floor.is_none_or(|floor| it.flow.priority >= floor);
            if is_better && kept_match(&it.flow.matching).matches(&key) {
                best = Some((it.flow.priority, at));
            }
        }
        best.map(|(_, at)| Found::Pending(at))
    }

    /// Counts the packet for a pending flow, which will be in its table.
    pub fn hit_pending(&mut self, at: usize) -> Option<(u64, Arc<[OfAction]>)> {
        let it = self.pending.get(at)?;
        let (bridge, flow) = (it.bridge, Arc::clone(&it.flow));
        let found = (it.flow.new_cookie, Arc::clone(&it.actions));
        self.effects.push(Effect::HitLearned { bridge, flow });
        Some(found)
    }
}
