//! Which megaflows depend on something, and which of them wait for revalidation.

use super::Installed;
use crate::dependency::Dependency;
use crate::links::Links;
use classifier::PartedMap;
use flow::FlowId;
use std::sync::Arc;

impl Installed {
    /// Numbers of links that have this dependency, each with its number of flows.
    pub fn links_on(&self, on: Dependency) -> impl Iterator<Item = (u32, &Arc<Links>, usize)> {
        let numbers = self.by_dependency.get(&on).into_iter().flat_map(PartedMap::iter);
        numbers.filter_map(|(&it, ())| Some((it, self.links.get(it)?, self.links.users(it))))
    }

    /// How many links have this dependency.
    pub fn links_count_on(&self, on: Dependency) -> usize {
        self.by_dependency.get(&on).map_or(0, PartedMap::len)
    }

    /// The flows of a links number.
    pub fn flows_of(&self, links: u32) -> impl Iterator<Item = FlowId> {
        let first = self.links.first(links);
        let next = |slot: &u32| self.slots.at(*slot).map(|place| place.next);
        let slots = std::iter::successors(Some(first), next).take_while(|slot| *slot != 0);
        slots.filter_map(|slot| self.slots.id(slot))
    }

    /// Starts walking the flows of a links number, in place of any other walk.
    pub fn walk(&mut self, links: u32) {
        self.walk = self.links.first(links);
    }

    /// The next flow of the walk. Flows may be added and removed meanwhile.
    pub fn walk_on(&mut self) -> Option<FlowId> {
        let slot = self.walk;
        self.walk = self.slots.at(slot)?.next;
        self.slots.id(slot)
    }

    /// Whether the walk has flows left.
    pub fn is_walking(&self) -> bool {
        self.walk != 0
    }

    /// Ends the walk.
    pub fn end_walk(&mut self) {
        self.walk = 0;
    }

    /// Notes whether a flow waits for revalidation. Returns whether that changed.
    pub fn set_queued(&mut self, id: FlowId, is_queued: bool) -> bool {
        let place = self.slots.slot(id).and_then(|slot| self.slots.at_mut(slot));
        place.is_some_and(|it| std::mem::replace(&mut it.is_queued, is_queued) != is_queued)
    }

    /// Notes whether the list of a links number waits to be walked. Returns whether that changed.
    pub fn set_listed(&mut self, number: u32, is_listed: bool) -> bool {
        self.links.set_listed(number, is_listed)
    }

    /// The links of the flow in a slot, with their number.
    pub fn links_at(&self, slot: u32) -> Option<(u32, &Arc<Links>)> {
        let number = self.slots.at(slot)?.links;
        Some((number, self.links.get(number)?))
    }
}
