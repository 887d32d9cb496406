//! Which megaflows are still to be translated again, after all changes so far.

use super::search::{Search, concerns};
use super::{Changes, Dependency, FLOWS_AT_ONCE};
use crate::installed::Installed;
use crate::lookup::{Added, header_mask};
use flow::FlowId;
use hashbrown::HashSet;
use std::collections::VecDeque;

/// So many numbers of what flows stand for are looked at to find out which of them an addition may concern.
/// Where more looked in its table, the keys say it.
const LINKS_AT_ONCE: usize = 1024;

/// What is still to be looked through.
#[derive(Debug, Default)]
pub(crate) struct Work {
    /// Slots from here to there are all to be translated again.
    all: Option<(u32, u32)>,
    /// Flows to be translated again.
    flows: VecDeque<FlowId>,
    /// Numbers of what flows stand for whose flows are all to be translated again.
    lists: VecDeque<u32>,
    searches: VecDeque<Search>,
    /// Flows that are being translated again now.
    pub(super) in_hand: usize,
    /// Nothing is translated again for now.
    pub is_paused: bool,
}

impl Work {
    pub fn is_empty(&self) -> bool {
        let none = self.flows.is_empty() && self.lists.is_empty() && self.searches.is_empty();
        none && self.all.is_none()
    }

    /// Whether flows are left, or are being translated again now.
    pub fn is_busy(&self) -> bool {
        !self.is_empty() || self.in_hand > 0
    }

    /// Looks at a megaflow again.
    pub fn again(&mut self, id: FlowId) {
        self.flows.push_back(id);
    }

    /// Takes up what changed.
    pub fn add(&mut self, changes: Changes, installed: &mut Installed) {
        if changes.configuration {
            let (in_hand, is_paused) = (self.in_hand, self.is_paused);
            let all = Some((1, installed.last_slot()));
            *self = Work { all, in_hand, is_paused, ..Work::default() };
            installed.end_walk();
            installed.set_searched(false);
            return;
        }
        let dependencies: Vec<Dependency> = changes.dependencies.into_iter().collect();
        let mut lists: Vec<u32> = dependencies
            .iter()
            .flat_map(|&on| installed.links_on(on).map(|(number, ..)| number))
            .collect();
        self.add_searches(changes.added, installed, &mut lists);
        installed.set_searched(!self.searches.is_empty());
        lists.sort_unstable();
        lists.dedup();
        self.lists.extend(lists);
    }

    /// Finds out which flows additions may concern, by what the flows stand for.
    fn add_searches(&mut self, added: Vec<Added>, installed: &Installed, lists: &mut Vec<u32>) {
        let (mut links, mut count, mut is_any) = (HashSet::new(), 0, false);
        for it in &added {
            let (bridge, table) = (it.bridge, it.table);
            let on = Dependency::Table { bridge, table };
            let rewritten = Dependency::RewrittenTable { bridge, table };
            if it.matching.mask().and(header_mask()).is_empty() {
                lists.extend(
                    installed.links_on(on).filter(|(_, of, _)| of.may_find(it)).map(|it| it.0),
                );
                continue;
            }
            // What packets look like after a change of a header is not known.
            let rewritten = installed.links_on(rewritten).filter(|(_, of, _)| {
                of.lookups.iter().any(|lookup| !lookup.has_headers() && lookup.may_find(it))
            });
            lists.extend(rewritten.map(|(number, ..)| number));
            if installed.links_count_on(on) > LINKS_AT_ONCE {
                is_any = true;
                continue;
            }
            for (number, _, users) in installed.links_on(on).filter(|(_, of, _)| of.may_find(it)) {
                if links.insert(number) {
                    count += users;
                }
            }
        }
        lists.sort_unstable();
        links.retain(|number| lists.binary_search(number).is_err());
        if is_any {
            self.searches.push_back(Search::new(added, None));
        } else if count > FLOWS_AT_ONCE && !links.is_empty() {
            self.searches.push_back(Search::new(added, Some(links)));
        } else {
            // In the same order each time, so that a simulation can be replayed.
            let mut numbers: Vec<u32> = links.into_iter().collect();
            numbers.sort_unstable();
            let flows = numbers.iter().flat_map(|&number| installed.flows_of(number));
            self.flows.extend(flows.filter(|&id| concerns(installed, id, &added)));
        }
    }

    /// Searches some keys, while there are few flows to be translated again.
    pub fn search(&mut self, installed: &mut Installed) {
        if self.flows.len() >= FLOWS_AT_ONCE {
            return;
        }
        if self.searches.front_mut().is_some_and(|it| it.go_on(installed, &mut self.flows)) {
            self.searches.pop_front();
            installed.set_searched(!self.searches.is_empty());
        }
    }

    /// The next flow to be translated again.
    pub fn next(&mut self, installed: &mut Installed) -> Option<FlowId> {
        loop {
            if let Some(id) = self.flows.pop_front() {
                return Some(id);
            }
            if let Some(id) = installed.walk_on() {
                return Some(id);
            }
            if let Some(links) = self.lists.pop_front() {
                installed.walk(links);
                continue;
            }
            let (slot, last) = self.all?;
            self.all = (slot < last).then_some((slot + 1, last));
            if let Some(id) = installed.id_at(slot) {
                return Some(id);
            }
        }
    }
}
