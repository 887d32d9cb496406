//! Adding, modifying and deleting flows.

use crate::Ofproto;
use crate::carried::Carried;
use crate::change::Change;
use crate::dependency::Dependency;
use crate::flow_check::{check, check_goto, check_table};
use crate::group::Group;
use crate::ids::BridgeId;
use crate::ids::RuleId;
use crate::rule::Rule;
use base::{Instant, OfPort, TableId, limits};
use flow::PackedMatch;
use openflow::action::Action;
use openflow::message::{FlowEvent, FlowFlags, FlowMod, FlowModCommand, RemovedReason};
use openflow::{ErrorCode, OfError};
use std::sync::Arc;

/// Flow changes that can be undone, for bundles. [`Ofproto::begin`] starts one; [`Ofproto::commit`] or
/// [`Ofproto::rollback`] ends it.
#[derive(Debug)]
#[must_use]
pub struct Transaction {
    /// The number of events at its beginning.
    events: usize,
}

/// One change to undo.
#[derive(Debug)]
pub(crate) enum Undo {
    /// The flow did not exist.
    Remove(RuleId),
    /// The previous flow.
    Restore(Box<Rule>),
    /// The previous group; `None` if it did not exist.
    Group { bridge: BridgeId, number: u32, group: Option<Box<Group>> },
}

impl Ofproto {
    /// Begins to record changes for [`Self::rollback`]. One transaction may be open at a time.
    pub fn begin(&mut self) -> Transaction {
        self.undo = Some(Vec::new());
        Transaction { events: self.events.len() }
    }

    /// Keeps the changes.
    pub fn commit(&mut self, _: Transaction) {
        self.remains.add(self.undo.take().unwrap_or_default());
    }

    /// Undoes all changes, and drops their events.
    pub fn rollback(&mut self, transaction: Transaction) {
        while self.rollback_some(usize::MAX) {}
        self.events.truncate(transaction.events);
    }

    /// Undoes some of the changes, the last one first, but not their events. Returns whether there are more.
    pub(crate) fn rollback_some(&mut self, at_once: usize) -> bool {
        let Some(mut undo) = self.undo.take() else { return false };
        for step in undo.split_off(undo.len().saturating_sub(at_once)).into_iter().rev() {
            match step {
                Undo::Remove(id) => drop(self.take_rule(id)),
                Undo::Restore(rule) => {
                    drop(self.take_rule(rule.id));
                    // Packets may have made a `learn` action add another one in its place.
                    let (matching, tables) =
                        (rule.matching.unpack(), self.bridges.get(rule.bridge));
                    let tables = tables.map(|bridge| &bridge.tables);
                    let other = tables.and_then(|it| it.find(rule.table, &matching, rule.priority));
                    other.and_then(|other| self.take_rule(other));
                    self.put_rule(*rule);
                }
                Undo::Group { bridge, number, group } => {
                    self.put_group(bridge, number, group.map(|it| *it));
                }
            }
        }
        if !undo.is_empty() {
            self.undo = Some(undo);
            return true;
        }
        // The restored flows are teachers of their learned flows again.
        for ledger in self.ledgers.values_mut() {
            ledger.learned.forget_orphans();
        }
        false
    }

    /// Carries out an OpenFlow flow-mod.
    pub fn flow_mod(
        &mut self,
        id: BridgeId,
        flow_mod: &FlowMod,
        now: Instant,
    ) -> Result<(), OfError> {
        match self.begin_flow_mod(id, flow_mod, now)? {
            Some(change) => self.change(change, now),
            None => Ok(()),
        }
    }

    /// Carries out a flow-mod of one flow, or begins one of all flows within a match.
    pub(crate) fn begin_flow_mod(
        &mut self,
        id: BridgeId,
        flow_mod: &FlowMod,
        now: Instant,
    ) -> Result<Option<Change>, OfError> {
        let flow_mod = &*self.placed_flow_mod(id, flow_mod)?;
        check(flow_mod)?;
        if !flow_mod.command.is_delete() {
            self.check_groups(id, &flow_mod.actions)?;
            self.check_meters(id, &flow_mod.actions)?;
        }
        match flow_mod.command {
            FlowModCommand::Add => self.add_flow(id, flow_mod, now)?,
            FlowModCommand::ModifyStrict => {
                let found = self.select_strict(id, flow_mod)?;
                self.modify_flows(id, flow_mod, &found, now)?;
            }
            FlowModCommand::DeleteStrict => {
                for rule in self.select_strict(id, flow_mod)? {
                    self.delete_rule(rule, RemovedReason::Delete, now);
                }
            }
            FlowModCommand::Modify | FlowModCommand::Delete => {
                check_table(flow_mod.table)?;
                let selected = self.selection(id, flow_mod.selects());
                let selection = selected.ok_or_else(|| no_bridge(id))?;
                return Ok(Some(match flow_mod.command {
                    FlowModCommand::Delete => Change::delete(id, selection),
                    _ => Change::modify(id, selection, flow_mod.clone()),
                }));
            }
        }
        let has_orphans = self.ledger(id).is_some_and(|ledger| ledger.learned.has_orphans());
        Ok(has_orphans.then(|| Change::orphans(id)))
    }

    /// Deletes expired flows, a bounded number. [`Self::go_on`] continues. Returns whether there may be more.
    pub(crate) fn expire_flows(&mut self, now: Instant) -> bool {
        // A change that goes on may not be published, and a bundle's may be undone.
        if self.is_held {
            self.upkeep.set_expiring(true);
            return true;
        }
        let (collected, mut due) = (self.collected(now), Vec::new());
        let more = self.timeouts.take_due(&self.rules, now, collected, &mut due);
        self.upkeep.set_expiring(more);
        coverage::add(coverage::Event::Expired, due.len() as u64);
        for (id, reason) in due {
            if !self.is_in_table(id) {
                continue;
            }
            let Some(bridge) = self.rules.get(id).map(|rule| rule.bridge) else { continue };
            self.delete_rule(id, reason, now);
            self.delete_orphans(bridge, now);
        }
        more
    }

    /// The flows with just this match that a modification or deletion selects.
    fn select_strict(&self, id: BridgeId, flow_mod: &FlowMod) -> Result<Vec<RuleId>, OfError> {
        check_table(flow_mod.table)?;
        let Some(bridge) = self.bridges.get(id) else { return Err(no_bridge(id)) };
        let tables = match flow_mod.table {
            Some(table) => table.0..=table.0,
            None => 0..=(limits::TABLES - 1) as u8,
        };
        let (matching, priority) = (&flow_mod.matching, flow_mod.priority);
        let found = tables.filter_map(|n| bridge.tables.find(TableId(n), matching, priority));
        let asked = flow_mod.selects();
        let is_asked = |id: &RuleId| self.rules.get(*id).is_some_and(|it| it.is_asked(&asked));
        Ok(found.filter(is_asked).collect())
    }

    fn add_flow(&mut self, id: BridgeId, flow_mod: &FlowMod, now: Instant) -> Result<(), OfError> {
        let Some(bridge) = self.bridges.get(id) else { return Err(no_bridge(id)) };
        let table = flow_mod.table.unwrap_or(TableId(0));
        check_goto(&flow_mod.actions, table)?;
        let (matching, priority) = (&flow_mod.matching, flow_mod.priority);
        let old = bridge.tables.find(table, matching, priority);
        let old = old.and_then(|id| self.rules.get(id)).cloned();
        if old.is_none() {
            let check = flow_mod.flags.contains(FlowFlags::CHECK_OVERLAP);
            if check && bridge.tables.overlaps(table, matching, priority) {
                let reason = format!(
                    "flow-mod: table {table} has a flow of priority {priority} that overlaps"
                );
                return Err(OfError::new(ErrorCode::Overlap, reason));
            }
            if bridge.tables.excess(table, 1) > 0 && !self.evict(id, table, now) {
                let reason = format!("flow-mod: table {table} is full; delete flows first");
                return Err(OfError::new(ErrorCode::TableFull, reason));
            }
        }
        let rule_id = old.as_ref().map_or_else(|| self.rules.next_id(), |old| old.id);
        let order = self.rules.next_order();
        let mut rule = new_rule((rule_id, order), id, table, flow_mod, now);
        let before = old.as_ref().map(|old| old.actions.clone());
        match old {
            Some(old) => {
                if flow_mod.new_cookie == u64::MAX {
                    rule.cookie = old.cookie;
                }
                rule.carried = Arc::clone(&old.carried);
                self.report_change(FlowEvent::Added, &rule, before);
                self.replace_rule(old, rule, flow_mod.flags, now);
            }
            None => {
                self.remember(Undo::Remove(rule_id));
                self.report_change(FlowEvent::Added, &rule, before);
                self.put_rule(rule);
            }
        }
        Ok(())
    }

    /// Puts a changed flow in place of itself, or of one with other counters if they are to be reset.
    fn replace_rule(&mut self, old: Rule, mut rule: Rule, flags: FlowFlags, now: Instant) {
        if !flags.contains(FlowFlags::RESET_COUNTS) {
            self.remember(Undo::Restore(Box::new(old)));
            self.put_rule(rule);
            return;
        }
        // With another number, packets processed before now do not count for it. The idle time continues, as in Open
        // vSwitch.
        rule.id = self.rules.next_id();
        rule.carried = Arc::new(Carried::since(old.carried.used()));
        self.remember(Undo::Restore(Box::new(old.clone())));
        self.remember(Undo::Remove(rule.id));
        let by = rule.id;
        self.put(rule, false);
        self.rules.remove(old.id);
        self.timeouts.forget(old.id);
        if let Some(ledger) = self.ledgers.get_mut(&old.bridge) {
            ledger.remove_flow(&old);
        }
        if let Some(bridge) = self.bridges.get_mut(old.bridge) {
            bridge.tables.forget_clauses(&old);
        }
        self.changes.flow(&old, false);
        self.forget_counts(old, by, now);
    }

    /// Replaces the actions of flows; if there are none and the command permits it, adds one.
    fn modify_flows(
        &mut self,
        id: BridgeId,
        flow_mod: &FlowMod,
        found: &[RuleId],
        now: Instant,
    ) -> Result<(), OfError> {
        for rule in found.iter().filter_map(|&id| self.rules.get(id)) {
            check_goto(&flow_mod.actions, rule.table)?;
        }
        let actions: Arc<[Action]> = flow_mod.actions.clone().into();
        found.iter().for_each(|rule| self.modify_flow(*rule, flow_mod, &actions, now));
        if found.is_empty() { self.add_unless_found(id, flow_mod, now) } else { Ok(()) }
    }

    /// Adds the flow of a modification that found none, if that is permitted (ovs: `ofproto/ofproto.c`,
    /// `modify_flows_start__`).
    pub(crate) fn add_unless_found(
        &mut self,
        id: BridgeId,
        flow_mod: &FlowMod,
        now: Instant,
    ) -> Result<(), OfError> {
        let may_add = flow_mod.new_cookie != u64::MAX && flow_mod.cookie_mask == 0;
        if may_add { self.add_flow(id, flow_mod, now) } else { Ok(()) }
    }

    /// Replaces the actions of a flow.
    pub(crate) fn modify_flow(
        &mut self,
        rule: RuleId,
        flow_mod: &FlowMod,
        actions: &Arc<[Action]>,
        now: Instant,
    ) {
        let Some(old) = self.rules.get(rule).cloned() else { return };
        let order = self.rules.next_order();
        let actions = Arc::clone(actions);
        let mut rule = Rule { actions, modified: now, order, ..old.clone() };
        if flow_mod.modify_cookie {
            rule.cookie = flow_mod.new_cookie;
        }
        if rule.cookie != old.cookie || rule.actions != old.actions {
            self.report_change(FlowEvent::Modified, &rule, Some(old.actions.clone()));
        }
        self.replace_rule(old, rule, flow_mod.flags, now);
    }

    /// Deletes a flow, and sends flow-removed if the flow asks for it.
    pub(crate) fn delete_rule(&mut self, id: RuleId, reason: RemovedReason, now: Instant) {
        if !self.is_in_table(id) {
            return;
        }
        let Some(rule) = self.take_rule(id) else { return };
        self.report_change(FlowEvent::Removed(reason), &rule, None);
        if rule.flags.contains(FlowFlags::SEND_FLOW_REM) {
            self.tell_removed(rule.clone(), reason, now);
        }
        self.remember(Undo::Restore(Box::new(rule)));
    }

    pub(crate) fn remember(&mut self, step: Undo) {
        if let Some(undo) = &mut self.undo {
            undo.push(step);
        }
    }

    /// Puts a flow into its table, in place of the one with its number.
    pub(crate) fn put_rule(&mut self, rule: Rule) {
        self.removals.cancel(rule.id);
        let is_new = self.rules.get(rule.id).is_none();
        self.put(rule, is_new);
    }

    fn put(&mut self, rule: Rule, is_new: bool) {
        let Some(bridge) = self.bridges.get_mut(rule.bridge) else { return };
        let Some(ledger) = self.ledgers.get_mut(&rule.bridge) else { return };
        bridge.tables.insert(&rule);
        ledger.add_flow(&rule);
        if let Some(old) = self.rules.get(rule.id) {
            ledger.learned.remove(&old.actions);
            ledger.group_users.remove(rule.id, &old.actions, &rule.actions);
            ledger.meter_users.remove(rule.id, &old.actions, &rule.actions);
            self.changes.flow(old, false);
        }
        self.timeouts.watch(&rule);
        self.changes.flow(&rule, is_new);
        self.rules.insert(rule);
    }

    /// Removes a flow from its table.
    fn take_rule(&mut self, id: RuleId) -> Option<Rule> {
        let rule = self.rules.remove(id)?;
        self.timeouts.forget(id);
        if let Some(bridge) = self.bridges.get_mut(rule.bridge) {
            bridge.tables.remove(&rule);
        }
        if let Some(ledger) = self.ledger_mut(rule.bridge) {
            ledger.remove_flow(&rule);
        }
        let (bridge, table) = (rule.bridge, rule.table);
        self.changes.flow(&rule, false);
        self.changes.one(Dependency::FlowCount { bridge, table });
        Some(rule)
    }

    /// The initial flow of a standalone bridge, `NORMAL`: it makes the bridge a learning switch.
    pub(crate) fn add_default_flow(&mut self, id: BridgeId, now: Instant) {
        let normal = Action::Output { port: OfPort::NORMAL, max_len: 0 };
        let flow_mod = FlowMod {
            priority: 0,
            table: Some(TableId(0)),
            actions: vec![normal],
            ..FlowMod::default()
        };
        let rule_id = self.rules.next_id();
        let order = self.rules.next_order();
        self.put_rule(new_rule((rule_id, order), id, TableId(0), &flow_mod, now));
    }
}

fn new_rule(
    (id, order): (RuleId, u64),
    bridge: BridgeId,
    table: TableId,
    from: &FlowMod,
    now: Instant,
) -> Rule {
    Rule {
        id,
        bridge,
        table,
        matching: PackedMatch::new(&from.matching),
        priority: from.priority,
        cookie: from.new_cookie,
        idle_timeout_s: from.idle_timeout_s,
        hard_timeout_s: from.hard_timeout_s,
        importance: from.importance,
        flags: from.flags,
        actions: from.actions.clone().into(),
        created: now,
        modified: now,
        order,
        added: order,
        carried: Arc::new(Carried::since(now)),
    }
}

pub(crate) fn no_bridge(id: BridgeId) -> OfError {
    OfError::new(ErrorCode::RequestEperm, format!("bridge {} is gone", id.0))
}

#[cfg(test)]
mod tests;
