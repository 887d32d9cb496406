//! Changes of many flows, in bounded steps: deletions and modifications by a match, and deletions of groups and meters
//! with their flows.
//!
//! While a change lasts over several steps, nothing is published ([`Ofproto::hold`]), so that packets see all of it or
//! nothing. The caller begins no other change of flows meanwhile.

use crate::Ofproto;
use crate::flow_check::check_goto;
use crate::ids::{BridgeId, RuleId};
use crate::selection::Selection;
use base::{Instant, TableId};
use flow::Match;
use openflow::OfError;
use openflow::action::Action;
use openflow::message::{FlowMod, FlowStatsRequest, RemovedReason};
use std::sync::Arc;

/// Flows examined or changed in a step: changing one takes some 5 µs.
pub(crate) const STEPS_AT_ONCE: usize = 256;

/// A change that has begun. It ends only by [`Ofproto::change_on`], also if its connection is gone.
#[derive(Debug)]
pub(crate) struct Change {
    bridge: BridgeId,
    doing: Doing,
}

/// What a change does now. All end with the deletion of flows whose last teacher is gone.
#[derive(Debug)]
enum Doing {
    Delete(Selection, RemovedReason),
    /// Checks that the new actions are valid for all selected flows, before any is modified.
    Check(Selection, Box<FlowMod>),
    Modify {
        selection: Selection,
        flow_mod: Box<FlowMod>,
        actions: Arc<[Action]>,
        any: bool,
    },
    /// Deletes groups or meters, the last one first, with the flows that use them.
    Users {
        kind: Used,
        numbers: Vec<u32>,
        users: std::vec::IntoIter<RuleId>,
    },
    /// Deletes flows whose last teacher is gone.
    Orphans,
}

/// What flows use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Used {
    Group,
    Meter,
}

impl Change {
    pub fn delete(bridge: BridgeId, selection: Selection) -> Change {
        Change { bridge, doing: Doing::Delete(selection, RemovedReason::Delete) }
    }

    pub fn modify(bridge: BridgeId, selection: Selection, flow_mod: FlowMod) -> Change {
        Change { bridge, doing: Doing::Check(selection, Box::new(flow_mod)) }
    }

    /// Deletes these groups or meters, in this order.
    pub fn delete_used(bridge: BridgeId, kind: Used, mut numbers: Vec<u32>) -> Change {
        numbers.reverse();
        Change { bridge, doing: Doing::Users { kind, numbers, users: Vec::new().into_iter() } }
    }

    /// Only what follows every change.
    pub fn orphans(bridge: BridgeId) -> Change {
        Change { bridge, doing: Doing::Orphans }
    }
}

impl Ofproto {
    /// The flows that a request selects.
    pub(crate) fn selection(&self, id: BridgeId, request: FlowStatsRequest) -> Option<Selection> {
        let bridge = self.bridges.get(id)?;
        Some(Selection::new(&bridge.tables, &self.rules, request))
    }

    /// Does a change to its end.
    pub(crate) fn change(&mut self, mut change: Change, now: Instant) -> Result<(), OfError> {
        let mut left = usize::MAX;
        while self.change_on(&mut change, &mut left, now)? {}
        Ok(())
    }

    /// Continues a change until all steps are spent. Returns whether there is more to do.
    pub(crate) fn change_on(
        &mut self,
        change: &mut Change,
        left: &mut usize,
        now: Instant,
    ) -> Result<bool, OfError> {
        let bridge = change.bridge;
        while *left > 0 {
            let doing = std::mem::replace(&mut change.doing, Doing::Orphans);
            change.doing = match doing {
                Doing::Delete(selection, reason) => self.delete_some(selection, reason, left, now),
                Doing::Check(selection, flow_mod) => {
                    self.check_some(bridge, selection, flow_mod, left)?
                }
                Doing::Modify { selection, flow_mod, actions, any } => {
                    let modify = (selection, flow_mod, actions, any);
                    self.modify_some(bridge, modify, left, now)?
                }
                Doing::Users { kind, numbers, users } => {
                    self.delete_used(bridge, (kind, numbers, users), left, now)
                }
                Doing::Orphans => match self.next_orphans(bridge) {
                    Some(next) => next,
                    None => return Ok(false),
                },
            };
        }
        Ok(true)
    }

    fn delete_some(
        &mut self,
        mut selection: Selection,
        reason: RemovedReason,
        left: &mut usize,
        now: Instant,
    ) -> Doing {
        let has_more = selection.go_on(left, |rule| self.delete_rule(rule.id, reason, now));
        if has_more {
            return Doing::Delete(selection, reason);
        }
        selection.hand_over(&mut self.remains);
        Doing::Orphans
    }

    fn check_some(
        &mut self,
        bridge: BridgeId,
        mut selection: Selection,
        flow_mod: Box<FlowMod>,
        left: &mut usize,
    ) -> Result<Doing, OfError> {
        let goes_on = flow_mod.actions.iter().any(|it| matches!(it, Action::GotoTable(_)));
        let mut wrong = Ok(());
        let has_more = goes_on
            && selection.go_on(left, |rule| {
                if wrong.is_ok() {
                    wrong = check_goto(&flow_mod.actions, rule.table);
                }
            });
        if wrong.is_ok() && has_more {
            return Ok(Doing::Check(selection, flow_mod));
        }
        if goes_on {
            selection.hand_over(&mut self.remains);
            wrong?;
            let request = flow_mod.selects();
            let Some(again) = self.selection(bridge, request) else { return Ok(Doing::Orphans) };
            selection = again;
        }
        let actions = flow_mod.actions.clone().into();
        Ok(Doing::Modify { selection, flow_mod, actions, any: false })
    }

    fn modify_some(
        &mut self,
        bridge: BridgeId,
        (mut selection, flow_mod, actions, mut any): (Selection, Box<FlowMod>, Arc<[Action]>, bool),
        left: &mut usize,
        now: Instant,
    ) -> Result<Doing, OfError> {
        let has_more = selection.go_on(left, |rule| {
            any = true;
            self.modify_flow(rule.id, &flow_mod, &actions, now);
        });
        if has_more {
            return Ok(Doing::Modify { selection, flow_mod, actions, any });
        }
        selection.hand_over(&mut self.remains);
        if !any {
            self.add_unless_found(bridge, &flow_mod, now)?;
        }
        Ok(Doing::Orphans)
    }

    fn delete_used(
        &mut self,
        bridge: BridgeId,
        (kind, mut numbers, mut users): (Used, Vec<u32>, std::vec::IntoIter<RuleId>),
        left: &mut usize,
        now: Instant,
    ) -> Doing {
        let reason = match kind {
            Used::Group => RemovedReason::GroupDelete,
            Used::Meter => RemovedReason::MeterDelete,
        };
        while *left > 0 {
            *left -= 1;
            if let Some(user) = users.next() {
                self.delete_rule(user, reason, now);
                continue;
            }
            let Some(&number) = numbers.last() else { return Doing::Orphans };
            let ledger = self.ledger(bridge);
            let of = ledger
                .map(|it| if kind == Used::Group { &it.group_users } else { &it.meter_users });
            users = of.map_or_else(Vec::new, |of| of.of(number)).into_iter();
            if users.len() > 0 {
                continue;
            }
            numbers.pop();
            match kind {
                Used::Group => self.put_group(bridge, number, None),
                Used::Meter => self.forget_meter(bridge, number),
            }
        }
        Doing::Users { kind, numbers, users }
    }

    /// The deletion of learned flows whose last teacher was removed.
    fn next_orphans(&mut self, bridge: BridgeId) -> Option<Doing> {
        let (table, cookie) = self.ledger_mut(bridge)?.learned.take_orphan()?;
        let selection = self.selection(bridge, of_cookie(table, cookie))?;
        Some(Doing::Delete(selection, RemovedReason::Delete))
    }
}

/// All flows of a table with this cookie.
fn of_cookie(table: TableId, cookie: u64) -> FlowStatsRequest {
    let (table, cookie_mask) = (Some(table), u64::MAX);
    FlowStatsRequest {
        table,
        cookie,
        cookie_mask,
        matching: Match::any(),
        ..FlowStatsRequest::default()
    }
}
