//! What time brings: flows time out, addresses age, idle megaflows go, and workers are asked what their
//! flows have carried. Where there may be many of something, a bounded part is done in each call.

mod by_hand;

use crate::bridge::BridgeId;
use crate::installed::Installed;
use crate::recirc::RecircTable;
use crate::{Ofproto, Outbox};
use base::{Instant, WorkerId};
use flow::{FlowCommand, FlowId};
use std::time::Duration;

/// How long a megaflow may be idle where there are more than there should be, in milliseconds
/// (ovs: `ofproto/ofproto-dpif-upcall.c`, `revalidate`).
const CROWDED_IDLE_MS: u64 = 100;
/// Megaflows that are deleted, or looked at because they may be idle, in one go. To delete one takes two to
/// three microseconds.
const FLOWS_AT_ONCE: usize = 512;
/// Places of megaflows that are passed in one go.
const SLOTS_AT_ONCE: u32 = 16 * 1024;

/// What is still to be done with megaflows.
#[derive(Debug, Default)]
pub(crate) struct Upkeep {
    /// Megaflows whose time may be over wait.
    has_idle: bool,
    /// From this slot on, megaflows are looked at: there are too many, or they may be idle for less long.
    look_from: Option<u32>,
    /// Slots up to this one lose their megaflows.
    purge: Option<u32>,
    /// OpenFlow flows whose time may be over wait.
    is_expiring: bool,
    /// Nothing is done with megaflows for now (`revalidator/pause`).
    is_paused: bool,
    /// Megaflows of workers that are no more, and below which slot they are still to be forgotten.
    replaced: Vec<(Installed, u32)>,
    /// Megaflows that were put by hand.
    by_hand: by_hand::ByHand,
}

impl Upkeep {
    /// Looks at all megaflows, a part at a time.
    pub fn look_through(&mut self) {
        self.look_from = Some(1);
    }

    /// Says whether OpenFlow flows whose time may be over wait.
    pub fn set_expiring(&mut self, is_expiring: bool) {
        self.is_expiring = is_expiring;
    }

    /// The workers are no more, and these were their megaflows.
    pub fn replace(&mut self, installed: Installed) {
        (self.look_from, self.purge) = (None, None);
        let end = installed.last_slot() + 1;
        self.replaced.push((installed, end));
    }

    /// Forgets some megaflows of workers that are no more. Returns whether there are more.
    fn forget_some(&mut self, now: Instant, recirc: &RecircTable) -> bool {
        if let Some((installed, end)) = self.replaced.last_mut() {
            *end = installed.forget_some(*end, now, recirc);
        }
        self.replaced.pop_if(|(_, end)| *end == 0);
        !self.replaced.is_empty()
    }
}

impl Ofproto {
    /// How many megaflows there may be.
    pub fn flow_limit(&self) -> usize {
        self.flow_limit
    }

    /// Sets how many megaflows there may be, until the configuration says something else.
    pub fn set_flow_limit(&mut self, limit: usize) {
        self.flow_limit = limit;
        self.is_changed = true;
    }

    /// Does what is due at this time. What is left to do is done by [`Self::go_on`].
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

    /// Asks all workers what their flows have carried, before the next time that [`Self::tick`]
    /// would. What they answer is to be given to [`Self::dump`].
    pub fn collect(&mut self, out: &mut Outbox) {
        for worker in (0..self.config.workers).map(WorkerId) {
            if self.megaflows_mut().installed.ask_dump(worker) {
                out.commands.push((worker, FlowCommand::Collect));
            }
        }
    }

    /// Until when all packets are known: those that came later may not be in the statistics yet.
    pub(crate) fn collected(&self, now: Instant) -> Instant {
        match self.config.workers {
            0 => now,
            workers => self.megaflows_mut().installed.collected(workers).min(now),
        }
    }

    /// A worker has told of all its flows.
    pub(crate) fn statistics_collected(&mut self, now: Instant) {
        self.expire_flows(now);
        self.upkeep.has_idle = true;
        let len = self.megaflows_mut().installed.len();
        if len > self.flow_limit && self.upkeep.look_from.is_none() {
            self.upkeep.look_through();
        }
    }

    /// Goes on with what is to be done with many megaflows, a bounded part of it. Says whether there is
    /// more; then this is to be called again soon, after others had their turn.
    pub fn go_on(&mut self, now: Instant, out: &mut Outbox) -> bool {
        if self.upkeep.is_expiring {
            self.expire_flows(now);
        }
        self.publish();
        let is_forgetting = self.upkeep.forget_some(now, &self.recirc) | self.recirc.sweep(now);
        let has_more = is_forgetting || self.upkeep.is_expiring;
        if self.upkeep.is_paused {
            return has_more;
        }
        self.revalidate(now, out);
        self.purge_some(now, out);
        self.delete_idle(now, out);
        self.look_at_some(now, out);
        has_more
            || self.revalidates && self.needs_revalidation()
            || self.upkeep.has_idle
            || self.upkeep.purge.is_some()
            || self.upkeep.look_from.is_some()
    }

    /// Deletes megaflows that were idle for too long when all packets were last known.
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

    /// Passes some places of megaflows. Where there are too many, those go that had nothing to do when
    /// all packets were last known; busy ones stay.
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
        let found: Vec<(FlowId, Instant)> =
            installed.idle_in(from..end, collected, crowded).collect();
        for (id, used) in found {
            let is_idle = self.config.expires && used + max_idle < collected;
            if is_idle || excess > 0 {
                excess = excess.saturating_sub(1);
                installed.counters.idle += 1;
                delete(installed, id, now, &self.recirc, out);
            }
        }
    }

    /// Does nothing with megaflows until further notice, or goes on (`revalidator/pause`,
    /// `revalidator/resume`). New ones are installed meanwhile.
    pub fn pause_upkeep(&mut self, is_paused: bool) {
        self.upkeep.is_paused = is_paused;
        self.megaflows_mut().work.is_paused = is_paused;
    }

    /// Whether nothing is done with megaflows ([`Self::pause_upkeep`]).
    pub fn is_upkeep_paused(&self) -> bool {
        self.upkeep.is_paused
    }

    /// Deletes all megaflows that are there now, as `dpctl/del-flows` asks.
    pub fn delete_megaflows(&mut self, now: Instant, out: &mut Outbox) {
        let last = self.megaflows_mut().installed.last_slot();
        self.upkeep.purge = Some(last);
        self.purge_some(now, out);
    }

    /// The last place first: the lowest place that was given back is taken next, so that new flows are
    /// dumped in the order in which they came.
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

    /// Takes one megaflow out of the datapath.
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
