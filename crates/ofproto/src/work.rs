//! The queue of megaflows to be revalidated.

mod changes;
mod patience;
mod scan;
mod search;

pub(crate) use self::changes::Changes;
pub(crate) use self::patience::Patience;

use self::scan::Scan;
use self::search::{Search, concerns};
use crate::dependency::Dependency;
use crate::installed::Installed;
use crate::lookup::{Added, header_mask};
use base::Instant;
use classifier::Queue;
use flow::FlowId;
use hashbrown::HashSet;
use std::collections::VecDeque;
use std::time::Duration;

/// Megaflows translated at once.
pub(crate) const FLOWS_AT_ONCE: usize = 256;
/// Maximum number of added flows per search. With more at once, all megaflows that looked in their tables are
/// revalidated.
const SEARCHED_AT_ONCE: usize = 64;

/// Maximum number of links examined to find those that an added flow may affect. If more looked in its table,
/// the keys are searched instead.
const LINKS_AT_ONCE: usize = 1024;
/// Maximum number of links that a publication collects under the lock. A [`Scan`] finds what depends on
/// further changes, in steps.
const LISTED_AT_ONCE: usize = 4096;
/// Maximum number of waiting searches. Further changes are left to a [`Scan`].
const SEARCHES_MAX: usize = 64;
/// Maximum number of entries taken by a call, including those of removed megaflows.
const TAKEN_AT_ONCE: usize = 2048;

/// The work left to revalidation.
///
/// Each megaflow and each list waits at most once, and the sources are served in turn. So each affected
/// megaflow is revalidated after a bounded number of calls, even if snapshots are published faster than
/// megaflows are translated and every result is outdated on arrival.
#[derive(Debug, Default)]
pub(crate) struct Work {
    all: Option<Round>,
    /// Flows to be revalidated.
    flows: Queue<FlowId>,
    /// Flows last translated from an outdated snapshot.
    stale: Queue<FlowId>,
    /// Numbers of links all of whose flows are to be revalidated.
    lists: Queue<u32>,
    searches: VecDeque<Search>,
    scan: Option<Scan>,
    /// The scan after the current one.
    next_scan: Option<Scan>,
    /// When the current round began, and how many entries are left in it.
    round: Option<(Instant, usize)>,
    /// Flows being translated now.
    pub(super) in_hand: usize,
    /// Revalidation is paused.
    pub is_paused: bool,
}

/// A pass over all slots. A change extends it but does not restart it, so changes cannot keep it from
/// reaching the last slots.
#[derive(Clone, Copy, Debug)]
struct Round {
    slot: u32,
    last: u32,
    left: u32,
}

impl Round {
    fn new(before: Option<Round>, last: u32) -> Option<Round> {
        let slot = before.map_or(1, |it| it.slot).min(last);
        (last > 0).then_some(Round { slot, last, left: last })
    }
}

/// The sources of flows to be revalidated.
#[derive(Clone, Copy)]
enum Source {
    Flows,
    Lists,
    All,
    Stale,
}

impl Work {
    pub fn is_empty(&self) -> bool {
        let no_flows = self.flows.is_empty() && self.stale.is_empty() && self.lists.is_empty();
        let is_found = self.searches.is_empty() && self.scan.is_none() && self.next_scan.is_none();
        no_flows && is_found && self.all.is_none()
    }

    /// How long the current round has lasted.
    pub fn lasted(&self, now: Instant) -> Duration {
        self.round.map_or(Duration::ZERO, |(began, _)| now - began)
    }

    /// Begins a new round if the last one is over.
    fn begin_round(&mut self, installed: &Installed, now: Instant) {
        let is_over = self.round.is_none_or(|(_, left)| left == 0) && !installed.is_walking();
        if !is_over {
            return;
        }
        let slots = self.all.map_or(0, |round| round.left as usize);
        let found = self.searches.len()
            + usize::from(self.scan.is_some())
            + usize::from(self.next_scan.is_some());
        let left = self.flows.len() + self.stale.len() + self.lists.len() + slots + found;
        self.round = (left > 0).then_some((now, left));
    }

    /// An entry of the round is done.
    fn done(&mut self) {
        if let Some((_, left)) = &mut self.round {
            *left = left.saturating_sub(1);
        }
    }

    /// Whether flows are waiting or being translated.
    pub fn is_busy(&self) -> bool {
        !self.is_empty() || self.in_hand > 0
    }

    /// How many lists and searches are waiting.
    #[cfg(test)]
    pub fn waiting(&self) -> (usize, usize) {
        (self.lists.len(), self.searches.len())
    }

    /// Queues a megaflow again that was translated from an outdated snapshot.
    pub fn again(&mut self, id: FlowId, installed: &mut Installed) {
        if installed.set_queued(id, true) {
            self.stale.push(id);
        }
    }

    /// All flows were removed.
    pub fn clear(&mut self) {
        let (in_hand, is_paused) = (self.in_hand, self.is_paused);
        *self = Work { in_hand, is_paused, ..Work::default() };
    }

    /// Adds the work for changes.
    pub fn add(&mut self, changes: Changes, installed: &mut Installed) {
        if changes.configuration {
            self.all = Round::new(self.all, installed.last_slot());
            while let Some(number) = self.lists.pop() {
                installed.set_listed(number, false);
            }
            (self.searches, self.scan, self.next_scan) = Default::default();
            installed.end_walk();
            installed.set_searched(false);
            return;
        }
        let (mut lists, mut left) = (Vec::new(), LISTED_AT_ONCE);
        for on in changes.dependencies {
            match take_budget(&mut left, installed.links_count_on(on)) {
                true => lists.extend(installed.links_on(on).map(|(number, ..)| number)),
                false => self.next_scan.get_or_insert_default().find(on),
            }
        }
        self.add_searches(changes.added, installed, &mut lists, &mut left);
        installed.set_searched(!self.searches.is_empty());
        // A deterministic order, so that a simulation can be replayed.
        lists.sort_unstable();
        for number in lists {
            if installed.set_listed(number, true) {
                self.lists.push(number);
            }
        }
    }

    /// Finds the links that added flows may affect, or begins searches.
    fn add_searches(
        &mut self,
        added: Vec<Added>,
        installed: &mut Installed,
        lists: &mut Vec<u32>,
        left: &mut usize,
    ) {
        let (mut links, mut count, mut is_any) = (HashSet::new(), 0, false);
        let mut searched = Vec::new();
        for it in added {
            let (bridge, table) = (it.bridge, it.table);
            let on = Dependency::Table { bridge, table };
            let rewritten = Dependency::RewrittenTable { bridge, table };
            let has_headers = !it.matching.mask().and(header_mask()).is_empty();
            let listed = if has_headers { rewritten } else { on };
            if !take_budget(left, installed.links_count_on(listed)) {
                self.next_scan.get_or_insert_default().find_added(&it);
                continue;
            }
            // After a header rewrite, the packets' headers are unknown.
            let found = installed.links_on(listed).filter(|(_, of, _)| match has_headers {
                true => of.may_find_rewritten(&it),
                false => of.may_find(&it),
            });
            lists.extend(found.map(|(number, ..)| number));
            if !has_headers {
                continue;
            }
            let looked = installed.links_count_on(on);
            if looked > LINKS_AT_ONCE || !take_budget(left, looked) {
                is_any = true;
            } else {
                let found = installed.links_on(on).filter(|(_, of, _)| of.may_find(&it));
                for (number, _, users) in found {
                    count += if links.insert(number) { users } else { 0 };
                }
            }
            searched.push(it);
        }
        lists.sort_unstable();
        links.retain(|number| lists.binary_search(number).is_err());
        if is_any {
            self.add_search(searched, None);
        } else if count > FLOWS_AT_ONCE && !links.is_empty() {
            self.add_search(searched, Some(links));
        } else {
            // A deterministic order, so that a simulation can be replayed.
            let mut numbers: Vec<u32> = links.into_iter().collect();
            numbers.sort_unstable();
            let flows = numbers.iter().flat_map(|&number| installed.flows_of(number));
            let found = flows.filter(|&id| concerns(installed, id, &searched)).collect();
            self.queue(found, installed);
        }
    }

    fn add_search(&mut self, added: Vec<Added>, links: Option<HashSet<u32>>) {
        if self.searches.len() < SEARCHES_MAX {
            self.searches.push_back(Search::new(added, links));
            return;
        }
        let scan = self.next_scan.get_or_insert_default();
        for Added { bridge, table, .. } in added {
            scan.find(Dependency::Table { bridge, table });
        }
    }

    fn queue(&mut self, found: Vec<FlowId>, installed: &mut Installed) {
        for id in found {
            if installed.set_queued(id, true) {
                self.flows.push(id);
            }
        }
    }

    /// Continues the searches and scans while few flows are queued.
    fn search(&mut self, installed: &mut Installed) {
        if self.flows.len() >= FLOWS_AT_ONCE {
            return;
        }
        let mut found = Vec::new();
        if self.searches.front_mut().is_some_and(|it| it.go_on(installed, &mut found)) {
            self.searches.pop_front();
            self.done();
            installed.set_searched(!self.searches.is_empty());
        }
        if self.scan.is_none() {
            self.scan = self.next_scan.take();
        }
        if self.scan.as_mut().is_some_and(|it| it.go_on(installed, &mut found)) {
            self.scan = None;
            self.done();
        }
        self.queue(found, installed);
    }

    /// Takes a bounded number of flows to be revalidated, leaving out those that were removed.
    pub fn take(&mut self, installed: &mut Installed, now: Instant) -> Vec<FlowId> {
        self.begin_round(installed, now);
        self.search(installed);
        let (mut ids, mut left, mut is_over) = (Vec::new(), TAKEN_AT_ONCE, false);
        while !is_over {
            is_over = true;
            for source in [Source::Flows, Source::Lists, Source::All, Source::Stale] {
                if ids.len() >= FLOWS_AT_ONCE || left == 0 {
                    return ids;
                }
                if let Some(id) = self.next(source, installed, &mut left) {
                    is_over = false;
                    ids.extend(id);
                }
            }
        }
        ids
    }

    /// The next entry of a source: a flow, or a removed one.
    fn next(
        &mut self,
        source: Source,
        installed: &mut Installed,
        left: &mut usize,
    ) -> Option<Option<FlowId>> {
        *left = left.saturating_sub(1);
        let queue = match source {
            Source::Flows => &mut self.flows,
            Source::Stale => &mut self.stale,
            Source::Lists => return self.next_listed(installed).map(Some),
            Source::All => {
                let Round { slot, last, left } = self.all?;
                let slot_after = if slot < last { slot + 1 } else { 1 };
                self.all = (left > 1).then_some(Round { slot: slot_after, last, left: left - 1 });
                self.done();
                return Some(installed.id_at(slot));
            }
        };
        let id = queue.pop()?;
        self.done();
        Some(installed.set_queued(id, false).then_some(id))
    }

    fn next_listed(&mut self, installed: &mut Installed) -> Option<FlowId> {
        loop {
            if let Some(id) = installed.walk_on() {
                return Some(id);
            }
            let number = self.lists.pop()?;
            self.done();
            installed.set_listed(number, false);
            installed.walk(number);
        }
    }
}

/// Subtracts from a budget, if enough is left.
fn take_budget(left: &mut usize, count: usize) -> bool {
    match left.checked_sub(count) {
        Some(rest) => *left = rest,
        None => return false,
    }
    true
}
