//! Periodic work: flow timeouts, address ageing, idle megaflows and collection of statistics. Work without a
//! bound is done in bounded steps.

mod by_hand;

use crate::ids::BridgeId;
use crate::installed::Installed;
use crate::recirc::RecircTable;
use crate::snapshot::Megaflows;
use crate::{Ofproto, Outbox};
use base::{Instant, WorkerId};
use flow::{FlowCommand, FlowId};
use std::time::Duration;

/// Maximum idle time of megaflows above the flow limit, in milliseconds (ovs:
/// `ofproto/ofproto-dpif-upcall.c`, `revalidate`).
const CROWDED_IDLE_MS: u64 = 100;
/// Megaflows deleted or checked for idleness per step. Deleting one takes two to three microseconds here, and
/// about as long in its worker.
pub(crate) const FLOWS_AT_ONCE: usize = 128;
/// Slots of megaflows passed per step.
const SLOTS_AT_ONCE: u32 = 4 * 1024;

/// The remaining periodic work on megaflows.
#[derive(Debug, Default)]
pub(crate) struct Upkeep {
    /// Possibly idle megaflows are waiting.
    has_idle: bool,
    /// From this slot on, megaflows are checked because there are too many or `max-idle` was lowered.
    look_from: Option<u32>,
    /// Megaflows in slots up to this one are deleted.
    purge: Option<u32>,
    /// Possibly expired OpenFlow flows are waiting.
    is_expiring: bool,
    /// Work on megaflows is paused (`revalidator/pause`).
    is_paused: bool,
    /// Megaflows of removed workers, with the slot below which they remain to be released.
    replaced: Vec<(Installed, u32)>,
    /// Megaflows put by commands.
    by_hand: by_hand::ByHand,
}

impl Upkeep {
    /// Whether work on megaflows is paused.
    pub fn is_paused(&self) -> bool {
        self.is_paused
    }

    /// Checks all megaflows, in steps.
    pub fn look_through(&mut self) {
        self.look_from = Some(1);
    }

    /// Notes whether possibly expired OpenFlow flows are waiting.
    pub fn set_expiring(&mut self, is_expiring: bool) {
        self.is_expiring = is_expiring;
    }

    /// All workers were removed; these were their megaflows.
    pub fn replace(&mut self, installed: Installed) {
        (self.look_from, self.purge) = (None, None);
        let end = installed.last_slot() + 1;
        self.replaced.push((installed, end));
    }

    /// The megaflows of removed workers that are not released yet.
    pub fn replaced(&mut self) -> impl Iterator<Item = &mut Installed> {
        self.replaced.iter_mut().map(|(installed, _)| installed)
    }

    /// Releases some megaflows of removed workers. Returns whether there are more.
    fn forget_some(&mut self, now: Instant, recirc: &RecircTable) -> bool {
        let Some((installed, end)) = self.replaced.last_mut() else { return false };
        *end = installed.forget_some(*end, now, recirc);
        let has_more = installed.forget_deleted(FLOWS_AT_ONCE, true);
        self.replaced.pop_if(|(_, end)| *end == 0 && !has_more);
        !self.replaced.is_empty()
    }
}

impl Ofproto {
    /// Forgets the megaflows of removed workers: those with this number and above.
    pub(crate) fn forget_workers_from(&mut self, workers: u16) {
        let Megaflows { installed, work, .. } = &mut *self.shared.lock();
        if workers > 0 {
            installed.forget_workers_from(workers, self.last_dump, &self.recirc);
            return;
        }
        work.clear();
        self.upkeep.replace(installed.begin_anew());
    }

    /// The flow limit.
    pub fn flow_limit(&self) -> usize {
        self.flow_limit
    }

    /// Sets the flow limit, until the configuration changes.
    pub fn set_flow_limit(&mut self, limit: usize) {
        self.flow_limit = limit;
        self.is_changed = true;
    }

    /// Does the work due now. [`Self::go_on`] does what remains.
    pub fn tick(&mut self, now: Instant, out: &mut Outbox) {
        self.expire_flows(now);
        let bridges: Vec<BridgeId> = self.ledgers.keys().copied().collect();
        for bridge in bridges {
            if let Some(ledger) = self.ledger_mut(bridge) {
                ledger.macs.expire(now);
                self.follow_macs(bridge);
            }
        }
        self.expire_neighbours(now);
        self.ask_neighbours(now, out);
        self.revalidate_by_hand(now);
        self.go_on(now, out);
        let as_revalidated = self.config.max_revalidator_ms.min(self.config.max_idle_ms);
        let every_ms = self.config.stats_interval_ms.unwrap_or(as_revalidated);
        if every_ms == 0 || self.upkeep.is_paused {
            return;
        }
        if now - self.last_dump < Duration::from_millis(every_ms) && self.last_dump != Instant::ZERO
        {
            return;
        }
        self.last_dump = now;
        self.collect(out);
    }

    /// Requests statistics from all workers before the next regular time. Their answers go to [`Self::dump`].
    pub fn collect(&mut self, out: &mut Outbox) {
        for worker in (0..self.config.workers).map(WorkerId) {
            if self.megaflows_mut().installed.ask_dump(worker) {
                out.commands.push((worker, FlowCommand::Collect));
            }
        }
    }

    /// The time up to which statistics are complete.
    pub(crate) fn collected(&self, now: Instant) -> Instant {
        match self.config.workers {
            0 => now,
            workers => self.megaflows_mut().installed.collected(workers).min(now),
        }
    }

    /// A worker has sent the statistics of all its flows.
    pub(crate) fn statistics_collected(&mut self, now: Instant) {
        self.expire_flows(now);
        self.upkeep.has_idle = true;
        let len = self.megaflows_mut().installed.len();
        if len > self.flow_limit && self.upkeep.look_from.is_none() {
            self.upkeep.look_through();
        }
    }

    /// Continues the work on megaflows by a bounded step. Returns whether there is more; then call this again
    /// soon, after other work.
    pub fn go_on(&mut self, now: Instant, out: &mut Outbox) -> bool {
        if self.upkeep.is_expiring {
            self.expire_flows(now);
        }
        self.publish();
        let is_freeing = self.free_snapshots();
        let is_forgetting = is_freeing
            | self.forget_gone()
            | self.go_on_evicting(now)
            | self.upkeep.forget_some(now, &self.recirc)
            | self.recirc.sweep(now)
            | self.megaflows_mut().installed.forget_deleted(FLOWS_AT_ONCE, false);
        let has_more = is_forgetting || self.upkeep.is_expiring;
        let is_busy = !self.upkeep.is_paused && self.keep_megaflows(now, out);
        self.settle_removals(now, out) || has_more || is_busy
    }

    /// Continues to revalidate and delete megaflows. Returns whether there is more.
    fn keep_megaflows(&mut self, now: Instant, out: &mut Outbox) -> bool {
        self.revalidate(now, out);
        self.purge_some(now, out);
        self.delete_idle(now, out);
        self.look_at_some(now, out);
        self.revalidates && self.needs_revalidation()
            || self.upkeep.has_idle
            || self.upkeep.purge.is_some()
            || self.upkeep.look_from.is_some()
    }

    /// Continues to evict flows, and to find those that can be evicted. Returns whether there is more to do.
    fn go_on_evicting(&mut self, now: Instant) -> bool {
        let mut has_more = false;
        for ledger in self.ledgers.values_mut() {
            has_more |= ledger.evictions.go_on(&self.rules, &mut self.remains);
        }
        if let Some(bridge) = self.evicting.first().copied() {
            self.evict_excess(bridge, now);
        }
        has_more || !self.evicting.is_empty()
    }

    /// Deletes megaflows that were idle too long at the time up to which statistics are complete.
    fn delete_idle(&mut self, now: Instant, out: &mut Outbox) {
        if !self.upkeep.has_idle || !self.config.expires {
            self.upkeep.has_idle = false;
            return;
        }
        let idle = Duration::from_millis(self.config.max_idle_ms);
        let (collected, mut gone) = (self.collected(now), Vec::new());
        let mut megaflows = self.shared.lock();
        let installed = &mut megaflows.installed;
        self.upkeep.has_idle = installed.take_idle(collected, idle, FLOWS_AT_ONCE, &mut gone);
        for id in gone {
            installed.counters.idle += 1;
            delete(installed, id, now, &self.recirc, out);
        }
    }

    /// Passes some slots, and deletes a bounded number of their megaflows. Above the flow limit, idle ones are
    /// deleted; busy ones stay.
    fn look_at_some(&mut self, now: Instant, out: &mut Outbox) {
        let Some(from) = self.upkeep.look_from else { return };
        let collected = self.collected(now);
        let mut megaflows = self.shared.lock();
        let installed = &mut megaflows.installed;
        let end = from.saturating_add(SLOTS_AT_ONCE).min(installed.last_slot() + 1);
        self.upkeep.look_from = (end <= installed.last_slot()).then_some(end);
        let mut excess = installed.len().saturating_sub(self.flow_limit);
        let max_idle = Duration::from_millis(self.config.max_idle_ms);
        let crowded = Duration::from_millis(CROWDED_IDLE_MS).min(max_idle);
        let goes = |(_, used): &(FlowId, Instant)| {
            let is_idle = self.config.expires && *used + max_idle < collected;
            let goes = is_idle || excess > 0;
            excess -= usize::from(goes && excess > 0);
            goes
        };
        let found = installed.idle_in(from..end, collected, crowded).filter(goes);
        let mut found: Vec<FlowId> = found.map(|(id, _)| id).take(FLOWS_AT_ONCE + 1).collect();
        if found.len() > FLOWS_AT_ONCE {
            self.upkeep.look_from = found.pop().and_then(|next| installed.slot_of(next));
        }
        for id in found {
            installed.counters.idle += 1;
            delete(installed, id, now, &self.recirc, out);
        }
    }

    /// Pauses or resumes work on megaflows (`revalidator/pause`, `revalidator/resume`). New ones are
    /// installed meanwhile.
    pub fn pause_upkeep(&mut self, is_paused: bool) {
        self.upkeep.is_paused = is_paused;
        self.megaflows_mut().work.is_paused = is_paused;
    }

    /// Whether work on megaflows is paused ([`Self::pause_upkeep`]).
    pub fn is_upkeep_paused(&self) -> bool {
        self.upkeep.is_paused
    }

    /// Deletes all current megaflows, for `dpctl/del-flows`.
    pub fn delete_megaflows(&mut self, now: Instant, out: &mut Outbox) {
        let last = self.megaflows_mut().installed.last_slot();
        self.upkeep.purge = Some(last);
        self.purge_some(now, out);
    }

    /// From the last slot down: the lowest free slot is taken next, so that new flows are dumped in the order
    /// of their installation.
    fn purge_some(&mut self, now: Instant, out: &mut Outbox) {
        let Some(last) = self.upkeep.purge else { return };
        let rest = last.saturating_sub(FLOWS_AT_ONCE as u32);
        self.upkeep.purge = Some(rest).filter(|&rest| rest > 0);
        let mut megaflows = self.shared.lock();
        let installed = &mut megaflows.installed;
        for slot in (rest + 1..=last).rev() {
            if let Some(id) = installed.id_at(slot) {
                delete(installed, id, now, &self.recirc, out);
            }
        }
    }

    /// Deletes one megaflow.
    pub fn delete_megaflow(&mut self, id: FlowId, now: Instant, out: &mut Outbox) {
        delete(&mut self.megaflows_mut().installed, id, now, &self.recirc, out);
    }
}

fn delete(
    installed: &mut Installed,
    id: FlowId,
    now: Instant,
    recirc: &RecircTable,
    out: &mut Outbox,
) {
    let Some(worker) = installed.worker_of(id) else { return };
    out.commands.push((worker, FlowCommand::Delete(id)));
    installed.remove(id, now, recirc);
}

#[cfg(test)]
mod tests;
