//! Removing all flows of a bridge at once. Its tables are replaced by empty ones, which takes no longer for more flows;
//! what is left of the flows is forgotten a part at a time.

use crate::Ofproto;
use crate::eviction::Evictions;
use crate::ids::{BridgeId, RuleId};
use crate::ledger::Ledger;
use crate::selection::Selection;
use crate::users::Users;
use openflow::message::FlowStatsRequest;

/// Flows forgotten at once: each takes some 1 µs.
const FLOWS_AT_ONCE: usize = 512;

/// Flows that are in no table any more.
#[derive(Debug)]
pub(crate) struct Gone {
    selection: Selection,
    /// What refers to them.
    users: [Users; 2],
    evictions: Evictions,
    /// How many are not forgotten yet.
    count: usize,
}

impl Ofproto {
    /// Deletes all flows, groups and meters of a bridge, as when its first controller is configured.
    /// Controllers receive no messages (ovs: `ofproto/ofproto.c`, `ofproto_flush__`).
    pub fn flush_flows(&mut self, id: BridgeId) {
        // A bundle that fails after this restores nothing.
        self.undo.iter_mut().for_each(Vec::clear);
        let Some(bridge) = self.bridges.get_mut(id) else { return };
        let (tables, count) = bridge.tables.clear();
        std::mem::take(&mut bridge.groups).hand_over(&mut self.remains);
        if let Some(ledger) = self.ledgers.get_mut(&id) {
            let (users, evictions) = ledger.forget_flows();
            let selection = Selection::new(&tables, &self.rules, FlowStatsRequest::default());
            self.gone.push(Gone { selection, users, evictions, count });
        }
        self.follow_tables(id);
        self.flush_meters(id);
        // All that passed through the bridge may have hit one of them.
        self.bridge_changed(id);
        self.forget_gone();
    }

    /// Forgets some flows that are in no table any more. Returns whether there are more.
    pub(crate) fn forget_gone(&mut self) -> bool {
        let Some(mut gone) = self.gone.pop() else { return false };
        let Gone { selection, users, evictions, count } = &mut gone;
        let has_more = selection.go_on(&mut FLOWS_AT_ONCE.clone(), |rule| {
            self.timeouts.forget(rule.id);
            users.iter_mut().for_each(|it| it.remove(rule.id, &rule.actions, &[]));
            evictions.remove(rule);
            self.rules.remove(rule.id);
            *count = count.saturating_sub(1);
        });
        match has_more {
            true => self.gone.push(gone),
            false => gone.selection.hand_over(&mut self.remains),
        }
        !self.gone.is_empty()
    }

    /// How many flows are in no table any more, but not forgotten yet.
    pub(crate) fn gone_count(&self) -> usize {
        self.gone.iter().map(|gone| gone.count).sum()
    }

    /// Whether a flow is in its table. One that is not is forgotten soon.
    pub(crate) fn is_in_table(&self, id: RuleId) -> bool {
        if self.gone.is_empty() {
            return true;
        }
        let Some(rule) = self.rules.get(id) else { return false };
        let bridge = self.bridges.get(rule.bridge);
        let matching = rule.matching.unpack();
        bridge.and_then(|it| it.tables.find(rule.table, &matching, rule.priority)) == Some(id)
    }
}

impl Ledger {
    /// Forgets all flows. Returns what referred to them.
    fn forget_flows(&mut self) -> ([Users; 2], Evictions) {
        self.learned = Default::default();
        let [groups, meters] = [&mut self.group_users, &mut self.meter_users].map(Users::take);
        ([groups, meters], std::mem::take(&mut self.evictions))
    }
}

#[cfg(test)]
mod tests {
    use crate::test_bridge::TestBridge;
    use crate::{BridgeConfig, Config};
    use base::MacAddr;
    use openflow::message::FlowModCommand;

    #[test]
    fn flows_that_were_flushed_are_forgotten_a_part_at_a_time() {
        let config = BridgeConfig::new("br0", MacAddr([2, 0, 0, 0, 0, 9]));
        let mut switch = TestBridge::configured(Config::default(), config);
        let add = |switch: &mut TestBridge, n: usize, more: &str| {
            let flow = format!("priority={n},in_port={n}{more},actions=drop");
            switch.send(FlowModCommand::Add, &flow).unwrap();
        };
        switch.ofproto.flush_flows(switch.id);
        (1..=3000).for_each(|n| add(&mut switch, n, ",hard_timeout=2,idle_timeout=1"));
        switch.ofproto.flush_flows(switch.id);
        assert_eq!(switch.ofproto.flows(switch.id, &Default::default(), switch.now).len(), 0);
        let hidden = switch.ofproto.flow_count();
        assert!(switch.ofproto.rules().len() > 2000, "all at once");
        // The same match again: neither the end of the old flow nor its timeout concerns the new one.
        (2990..=3000).for_each(|n| add(&mut switch, n, ""));
        switch.now = switch.now + std::time::Duration::from_secs(5);
        switch.ofproto.take_events();
        while switch.ofproto.expire_flows(switch.now) {}
        assert_eq!(switch.ofproto.take_events(), []);
        let mut steps = 0;
        while switch.ofproto.forget_gone() {
            steps += 1;
        }
        assert!((4..20).contains(&steps), "{steps} steps");
        assert_eq!(switch.ofproto.rules().len(), 11);
        assert_eq!(switch.ofproto.flows(switch.id, &Default::default(), switch.now).len(), 11);
        assert_eq!(switch.ofproto.flow_count(), hidden + 11);
        assert_eq!(switch.ofproto.timeouts.len(), 0);
    }
}
