//! The megaflows installed in the workers, and their statistics.
//!
//! Each key is stored once ([`Keys`]). Flows with equal actions or [`Links`] share them, and all flows with
//! the same links form one list, so that a change finds the dependent flows through the links. Only dumps for
//! users visit all flows.

mod depending;
mod dumps;
mod flow;
mod interned;
mod keys;
mod slots;

use self::dumps::{Dumps, Dying};
pub(crate) use self::dumps::{Requests, Since};
pub use self::flow::{DatapathFlow, InstalledCounters};
use self::interned::Interned;
pub(crate) use self::keys::Keys;
use self::keys::Row;
use self::slots::{Place, Slots};
use crate::dependency::Dependency;
use crate::ids::RuleId;
use crate::links::Links;
use crate::recirc::RecircTable;
use ::flow::{Action, FlowId, FlowKey, FlowStats, Mask, Match};
use base::{Instant, WorkerId};
use classifier::{Index, PartedMap};
use std::sync::Arc;
use std::time::Duration;
use table::Wheel;

/// A flow to be stored.
pub(crate) struct NewFlow<'a> {
    pub worker: WorkerId,
    /// The hash of its match ([`Installed::hash`]).
    pub hash: u64,
    pub key: &'a FlowKey,
    pub mask: &'a Mask,
    pub actions: &'a [Action],
    pub links: &'a Links,
    pub created: Instant,
}

/// The parts of a flow that it shares with others.
pub(crate) struct SharedParts<'a> {
    pub mask: &'a Arc<Mask>,
    pub actions: &'a Arc<[Action]>,
    pub links: &'a Arc<Links>,
}

/// All megaflows of all workers.
#[derive(Debug, Default)]
pub(crate) struct Installed {
    slots: Slots,
    keys: Keys,
    /// Slots by hash of worker and match.
    by_match: Index,
    actions: Interned<[Action]>,
    links: Interned<Links>,
    /// Numbers of links by dependency.
    by_dependency: PartedMap<Dependency, PartedMap<u32, ()>>,
    wheel: WheelBox,
    /// The next slot of the list being walked, 0 for none.
    walk: u32,
    dumps: Dumps,
    pub counters: InstalledCounters,
}

/// Slots that are cleared at once.
const FORGOTTEN_AT_ONCE: u32 = 128;

/// When to check flows for idleness.
#[derive(Default)]
struct WheelBox(Wheel);

impl std::fmt::Debug for WheelBox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Wheel({})", self.0.armed())
    }
}

impl Installed {
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    pub fn get(&self, id: FlowId) -> Option<DatapathFlow> {
        self.view(self.slots.slot(id)?)
    }

    /// The flow in a slot.
    pub fn view(&self, slot: u32) -> Option<DatapathFlow> {
        let place = self.slots.at(slot)?;
        let (key, mask) = (self.keys.key(place.row), self.keys.mask(place.row)?);
        Some(DatapathFlow {
            id: self.slots.id(slot)?,
            worker: place.worker,
            matching: Match::new(&key, mask),
            key,
            actions: Arc::clone(self.actions.get(place.actions)?),
            stats: place.stats(),
            created: place.created,
            links: Arc::clone(self.links.get(place.links)?),
        })
    }

    /// All flows, by slot.
    pub fn iter(&self) -> impl Iterator<Item = DatapathFlow> {
        (1..=self.slots.last()).filter_map(|slot| self.view(slot))
    }

    /// The highest slot used so far.
    pub fn last_slot(&self) -> u32 {
        self.slots.last()
    }

    /// The id of the flow in a slot.
    pub fn id_at(&self, slot: u32) -> Option<FlowId> {
        self.slots.id(slot)
    }

    /// The slot of a flow.
    pub fn slot_of(&self, id: FlowId) -> Option<u32> {
        self.slots.slot(id)
    }

    /// A flow's actions.
    pub fn actions_of(&self, id: FlowId) -> Option<&Arc<[Action]>> {
        self.actions.get(self.slots.at(self.slots.slot(id)?)?.actions)
    }

    /// A flow's mask, actions and links.
    pub fn shared_by(&self, id: FlowId) -> Option<SharedParts<'_>> {
        let place = self.slots.at(self.slots.slot(id)?)?;
        Some(SharedParts {
            mask: self.keys.mask(place.row)?,
            actions: self.actions.get(place.actions)?,
            links: self.links.get(place.links)?,
        })
    }

    /// The shared copy of these actions.
    pub fn shared_actions(&self, actions: &[Action]) -> Arc<[Action]> {
        self.actions.last(actions).map_or_else(|| actions.into(), Arc::clone)
    }

    /// The shared copy of the links of a packet without a flow.
    pub fn shared_links(&self, links: &Links) -> Arc<Links> {
        self.links.last(links).map_or_else(|| Arc::new(links.clone()), Arc::clone)
    }

    /// The hash for [`Self::find`] of a worker and match.
    pub fn hash(&self, worker: WorkerId, key: &FlowKey, mask: &Mask) -> u64 {
        self.keys.hash(key, mask, worker.0.into())
    }

    /// A worker's flow with exactly this match and hash.
    pub fn find(&self, hash: u64, worker: WorkerId, key: &FlowKey, mask: &Mask) -> Option<FlowId> {
        let slot = self.by_match.find(hash, |slot| {
            let place = self.slots.at(slot);
            place.is_some_and(|it| it.worker == worker && self.keys.is(it.row, key, mask))
        });
        self.slots.id(slot?)
    }

    /// The keys, for searching.
    pub fn keys(&self) -> &Keys {
        &self.keys
    }

    /// Notes whether a search of the key blocks, in order of their numbers, is running.
    pub fn set_searched(&mut self, is_searched: bool) {
        self.keys.set_searched(is_searched);
    }

    pub fn insert(&mut self, new: NewFlow<'_>, recirc: &RecircTable) -> FlowId {
        coverage::count(coverage::Event::FlowPut);
        let slot = self.slots.take();
        let row = self.keys.insert(slot, new.key, new.mask, moved(&mut self.slots));
        self.by_match.insert(new.hash, slot);
        let (actions, _) = self.actions.take(new.actions, |actions| actions.into());
        if let Some(place) = self.slots.at_mut(slot) {
            (place.worker, place.row, place.actions) = (new.worker, row, actions);
            place.created = new.created;
            place.set_stats(&FlowStats::default());
        }
        self.link(slot, new.links, recirc);
        self.counters.current = self.slots.len();
        self.counters.max = self.counters.max.max(self.slots.len());
        self.slots.id(slot).unwrap_or(FlowId(0))
    }

    /// Schedules an idle check of a flow.
    pub fn arm(&mut self, id: FlowId, now: Instant, deadline: Instant) {
        if let Some(slot) = self.slots.slot(id) {
            self.wheel.0.arm(&self.slots, slot, now, deadline);
        }
    }

    /// Flows idle for longer than `idle` at the time up to which statistics are complete, examining at most
    /// `budget` flows. Also returns whether there may be more.
    pub fn take_idle(
        &self,
        collected: Instant,
        idle: Duration,
        budget: usize,
        gone: &mut Vec<FlowId>,
    ) -> bool {
        let look = |slot: u32| {
            let place = self.slots.at(slot)?;
            let deadline = place.last_used() + idle;
            if deadline >= collected {
                return Some(deadline + Duration::from_nanos(1));
            }
            gone.extend(self.slots.id(slot));
            // It leaves the wheel when the flow is removed.
            Some(collected + idle)
        };
        self.wheel.0.advance(&self.slots, collected, budget, look) == 0
    }

    /// Flows in some slots that were idle for longer than `idle`, with the time of the last packet.
    pub fn idle_in(
        &self,
        slots: std::ops::Range<u32>,
        collected: Instant,
        idle: Duration,
    ) -> impl Iterator<Item = (FlowId, Instant)> {
        let places = slots.filter_map(|slot| Some((slot, self.slots.at(slot)?.last_used())));
        let idle = places.filter(move |(_, used)| *used + idle < collected);
        idle.filter_map(|(slot, used)| Some((self.slots.id(slot)?, used)))
    }

    /// The worker of a flow.
    pub fn worker_of(&self, id: FlowId) -> Option<WorkerId> {
        Some(self.slots.at(self.slots.slot(id)?)?.worker)
    }

    /// Changes a flow's actions.
    pub fn set_actions(&mut self, id: FlowId, actions: &[Action]) {
        let (number, _) = self.actions.take(actions, |actions| actions.into());
        let place = self.slots.slot(id).and_then(|slot| self.slots.at_mut(slot));
        let before = place.map(|place| std::mem::replace(&mut place.actions, number));
        self.actions.give_back(before.unwrap_or(number));
    }

    /// Changes a flow's links, and with them the frozen states that it holds. Returns whether its packets count for
    /// others from now on: then its worker must be told to mark what it carried.
    pub fn relink(
        &mut self,
        id: FlowId,
        links: &Links,
        now: Instant,
        recirc: &RecircTable,
    ) -> bool {
        let Some(slot) = self.slots.slot(id) else { return false };
        let Some(place) = self.slots.at(slot) else { return false };
        let had = self.links.get(place.links);
        if had.is_some_and(|had| **had == *links) {
            return false;
        }
        let other = had.filter(|had| !had.counts_like(links)).cloned();
        let counts_for_others = other.is_some();
        if let Some(had) = other {
            self.dumps.await_mark(id, had);
        }
        // Hold the new ones before releasing the old: they may be the same.
        links.recircs.iter().for_each(|&id| recirc.hold(id));
        self.unlink(slot, now, recirc);
        self.link(slot, links, recirc);
        links.recircs.iter().for_each(|&id| recirc.release(now, id));
        counts_for_others
    }

    /// Whether packets of some megaflow count for this OpenFlow flow.
    pub fn counts_for(&self, rule: RuleId) -> bool {
        self.links_count_on(Dependency::Rule(rule)) > 0
    }

    /// Whether workers may report packets of deleted megaflows, or of what others were before.
    pub fn has_former(&self) -> bool {
        self.dumps.has_former()
    }

    fn link(&mut self, slot: u32, links: &Links, recirc: &RecircTable) {
        let (number, is_new) = self.links.take(links, |links| Arc::new(links.clone()));
        if is_new {
            links.recircs.iter().for_each(|&id| recirc.hold(id));
            for on in links.depends_on() {
                self.by_dependency.or_default(on).insert(number, ());
            }
        }
        let next = self.links.set_first(number, slot);
        if let Some(place) = self.slots.at_mut(slot) {
            (place.links, place.previous, place.next) = (number, 0, next);
        }
        if let Some(next) = self.slots.at_mut(next) {
            next.previous = slot;
        }
    }

    /// Removes a flow from the list of its links.
    fn unlink(&mut self, slot: u32, now: Instant, recirc: &RecircTable) {
        let Some(&Place { links, previous, next, .. }) = self.slots.at(slot) else { return };
        if self.walk == slot {
            self.walk = next;
        }
        match self.slots.at_mut(previous) {
            Some(previous) => previous.next = next,
            None => {
                self.links.set_first(links, next);
            }
        }
        if let Some(next) = self.slots.at_mut(next) {
            next.previous = previous;
        }
        let Some(gone) = self.links.give_back(links) else { return };
        gone.recircs.iter().for_each(|&id| recirc.release(now, id));
        for on in gone.depends_on() {
            if let Some(numbers) = self.by_dependency.get_mut(&on) {
                numbers.remove(&links);
                if numbers.is_empty() {
                    self.by_dependency.remove(&on);
                }
            }
        }
    }

    /// Removes a flow whose worker is being told to delete it; its last statistics come with a dump.
    pub fn remove(&mut self, id: FlowId, now: Instant, recirc: &RecircTable) {
        let Some(slot) = self.slots.slot(id) else { return };
        let Some(place) = self.slots.at(slot) else { return };
        coverage::count(coverage::Event::FlowDel);
        let (worker, row, actions, stats) = (place.worker, place.row, place.actions, place.stats());
        if let Some(links) = self.links.get(place.links) {
            self.dumps.delete(worker, id, Dying { links: Arc::clone(links), stats });
        }
        let hash = self.keys.mask(row).map(|mask| self.hash(worker, &self.keys.key(row), mask));
        self.by_match.remove(hash.unwrap_or_default(), slot);
        self.wheel.0.disarm(&self.slots, slot);
        self.unlink(slot, now, recirc);
        self.actions.give_back(actions);
        self.keys.remove(row, moved(&mut self.slots));
        self.slots.give_back(slot);
        self.counters.current = self.slots.len();
    }

    /// The number of visits of slots since the last call.
    #[cfg(test)]
    pub fn take_visits(&self) -> u64 {
        self.slots.take_visits()
    }

    /// Clears flows and workers. Returns the old flows, to be released a part at a time
    /// ([`Self::forget_some`]).
    pub fn begin_anew(&mut self) -> Installed {
        let (slots, counters) = (self.slots.successor(), self.counters);
        let counters = InstalledCounters { current: 0, ..counters };
        std::mem::replace(self, Installed { slots, counters, ..Installed::default() })
    }

    /// Releases the flows of removed workers in a bounded number of slots below `end`. Returns where to
    /// continue, 0 at the end.
    pub fn forget_some(&mut self, end: u32, now: Instant, recirc: &RecircTable) -> u32 {
        let rest = end.saturating_sub(FORGOTTEN_AT_ONCE);
        for slot in (rest..end).rev() {
            if let Some(id) = self.slots.id(slot) {
                self.remove(id, now, recirc);
                self.forget(id);
            }
        }
        rest
    }

    /// Removes the flows of removed workers.
    pub fn forget_workers_from(&mut self, workers: u16, now: Instant, recirc: &RecircTable) {
        for slot in 1..=self.slots.last() {
            if self.slots.at(slot).is_some_and(|place| place.worker.0 >= workers)
                && let Some(id) = self.slots.id(slot)
            {
                self.remove(id, now, recirc);
            }
        }
        self.dumps.forget_from(workers);
    }
}

/// Updates the slots of flows whose keys moved.
fn moved(slots: &mut Slots) -> impl FnMut(u32, Row) {
    |slot, row| {
        if let Some(place) = slots.at_mut(slot) {
            place.row = row;
        }
    }
}
