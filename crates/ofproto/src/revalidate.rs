//! Looking through installed megaflows after a change, a bounded part at a time.
//!
//! What a translation asked is written down with its megaflow. A flow that is changed or deleted
//! concerns the megaflows that hit it. A flow that is added concerns those that looked in its table
//! and some packet of which it could match there, as far as the megaflow's match and the lookup's
//! registers say ([`Lookup`](crate::lookup::Lookup)). That a lookup's mask follows from all flows of
//! a table does not make others depend on it: every packet of a megaflow had the same flow in each
//! table, and no other flow's coming or going changes that unless one of its packets matches it. A
//! learned address concerns those that asked where it is. A change of the configuration (bridges,
//! ports, controllers) is rare and may concern anything: after one all megaflows are translated again.

use crate::bridge::BridgeId;
use crate::installed::{DatapathFlow, Installed, Links};
use crate::lookup::{Added, header_mask};
use crate::rule::{Rule, RuleId};
use crate::snapshot::{Megaflows, Shared, Snapshot};
use crate::translate::{Notes, Translation, datapath_mask, translate};
use crate::upcall::links;
use crate::{Ofproto, Outbox};
use base::{Instant, MacAddr, OfPort, TableId, WorkerId};
use flow::{Field, FlowCommand, FlowId, FlowPut};
use hashbrown::HashSet;
use openflow::Action;
use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::Arc;

/// Megaflows that are translated again in one go, and keys that are searched.
const FLOWS_AT_ONCE: usize = 256;
const ROWS_AT_ONCE: usize = 32 * 1024;
/// So many additions to tables are searched for in one pass; where more come at once, whatever looked
/// in their tables is translated again.
const SEARCHED_AT_ONCE: usize = 64;

/// Something that a translation asked and that can change while the configuration does not.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Dependency {
    /// A flow table was looked in.
    Table { bridge: BridgeId, table: TableId },
    /// A group was asked for, and may have been missing.
    Group { bridge: BridgeId, group: u32 },
    /// It was asked how many flows a table has.
    FlowCount { bridge: BridgeId, table: TableId },
    /// It was asked whether a port is up.
    Link { bridge: BridgeId, port: OfPort },
    /// A flow was hit.
    Rule(RuleId),
    /// NORMAL asked where an address is, and may have been told that it is unknown.
    Mac { bridge: BridgeId, vlan: u16, mac: MacAddr },
    /// The routes of the underlay were asked.
    Routes,
    /// A bridge was asked for a neighbour's address, and may have been told that it has none.
    Neighbour { bridge: BridgeId, ip: IpAddr },
}

/// What changed since the installed megaflows were last looked through.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    /// The configuration, which all megaflows depend on.
    configuration: bool,
    /// Whether megaflows depend on it is asked when the change is published, so that those count that a
    /// handler installs before.
    dependencies: HashSet<Dependency>,
    added: Vec<Added>,
}

impl Changes {
    /// Bridges, ports or what is known of controllers.
    pub fn configuration(&mut self) {
        self.configuration = true;
    }

    /// One thing.
    pub fn one(&mut self, what: Dependency) {
        self.dependencies.insert(what);
    }

    /// A flow that came into its table, was changed or went.
    pub fn flow(&mut self, rule: &Rule, is_new: bool) {
        let (bridge, table) = (rule.bridge, rule.table);
        if is_new {
            self.one(Dependency::FlowCount { bridge, table });
        }
        self.one(Dependency::Rule(rule.id));
        // A flow that is part of a conjunctive match is not hit itself.
        let is_clause = rule.actions.iter().any(|it| matches!(it, Action::Conjunction(_)));
        if is_new || is_clause {
            self.added(rule, is_clause);
        }
    }

    fn added(&mut self, rule: &Rule, is_clause: bool) {
        let (bridge, table) = (rule.bridge, rule.table);
        let on = Dependency::Table { bridge, table };
        if self.dependencies.contains(&on) {
            return;
        }
        if self.added.len() < SEARCHED_AT_ONCE {
            let matching = rule.matching.clone();
            // Conjunctive matches are found by the priority of their clauses.
            let is_conjunctive = is_clause || matching.mask().has(Field::ConjId);
            let priority = if is_conjunctive { u16::MAX } else { rule.priority };
            self.added.push(Added { bridge, table, priority, matching });
        } else {
            self.dependencies.insert(on);
            self.added.retain(|added| (added.bridge, added.table) != (bridge, table));
        }
    }

    pub fn is_empty(&self) -> bool {
        !self.configuration && self.dependencies.is_empty() && self.added.is_empty()
    }
}

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
    in_hand: usize,
    /// Nothing is translated again for now.
    pub is_paused: bool,
}

/// A search for flows that additions concern.
#[derive(Debug)]
struct Search {
    added: Vec<Added>,
    /// What the flows in question stand for.
    links: HashSet<u32>,
    shape: usize,
    /// Rows of the shape that are still to be searched: those before this one. Going down, the search
    /// misses no row that moves down to fill a hole.
    row: Option<usize>,
}

impl Work {
    pub fn is_empty(&self) -> bool {
        let none = self.flows.is_empty() && self.lists.is_empty() && self.searches.is_empty();
        none && self.all.is_none()
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
            return;
        }
        let dependencies: Vec<Dependency> = changes.dependencies.into_iter().collect();
        let mut lists: Vec<u32> = dependencies
            .iter()
            .flat_map(|&on| installed.links_on(on).map(|(number, ..)| number))
            .collect();
        self.add_searches(changes.added, installed, &mut lists);
        lists.sort_unstable();
        lists.dedup();
        self.lists.extend(lists);
    }

    /// Finds out which flows additions may concern, by what the flows stand for.
    fn add_searches(&mut self, added: Vec<Added>, installed: &Installed, lists: &mut Vec<u32>) {
        let (mut links, mut count) = (HashSet::new(), 0);
        let headers = header_mask();
        for it in &added {
            let on = Dependency::Table { bridge: it.bridge, table: it.table };
            let words = it.matching.mask().words().iter().zip(headers.words());
            let has_headers = words.fold(0, |any, (a, b)| any | (a & b)) != 0;
            for (number, of, users) in installed.links_on(on) {
                let mut found = of.lookups.iter().filter(|lookup| lookup.may_find(it)).peekable();
                if found.peek().is_none() {
                    continue;
                }
                if !has_headers || found.any(|lookup| !lookup.has_headers()) {
                    lists.push(number);
                } else if links.insert(number) {
                    count += users;
                }
            }
        }
        links.retain(|number| !lists.contains(number));
        if links.is_empty() {
            return;
        }
        if count <= FLOWS_AT_ONCE {
            // In the same order each time, so that a simulation can be replayed.
            let mut numbers: Vec<u32> = links.into_iter().collect();
            numbers.sort_unstable();
            let flows = numbers.iter().flat_map(|&number| installed.flows_of(number));
            self.flows.extend(flows.filter(|&id| concerns(installed, id, &added)));
        } else {
            self.searches.push_back(Search { added, links, shape: 0, row: None });
        }
    }

    /// Searches some keys.
    fn search(&mut self, installed: &Installed) {
        let Some(search) = self.searches.front_mut() else { return };
        let mut left = ROWS_AT_ONCE / search.added.len().max(1);
        while left > 0 && search.shape < installed.shape_count() {
            let rows = installed.rows_of(search.shape);
            let end = search.row.unwrap_or(rows).min(rows);
            let start = end.saturating_sub(left);
            left -= (end - start).min(left);
            for added in &search.added {
                let (key, mask) = (added.matching.key(), added.matching.mask());
                let mask = mask.and(header_mask());
                let found = installed.overlapping(search.shape, start..end, key, &mask);
                let found = found.filter(|slot| {
                    installed.links_at(*slot).is_some_and(|links| search.links.contains(&links))
                });
                let one = std::slice::from_ref(added);
                let ids = found.filter_map(|slot| installed.id_at(slot));
                self.flows.extend(ids.filter(|&id| concerns(installed, id, one)));
            }
            (search.shape, search.row) = match start {
                0 => (search.shape + 1, None),
                start => (search.shape, Some(start)),
            };
        }
        if search.shape >= installed.shape_count() {
            self.searches.pop_front();
        }
    }

    /// The next flow to be translated again.
    fn next(&mut self, installed: &mut Installed) -> Option<FlowId> {
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

/// Whether a packet of the flow could match one of these.
fn concerns(installed: &Installed, id: FlowId, added: &[Added]) -> bool {
    let Some(flow) = installed.get(id) else { return false };
    added.iter().any(|added| {
        let lookups = flow.links.lookups.iter();
        let mut lookups = lookups.filter(|lookup| lookup.may_find(added));
        lookups.any(|lookup| lookup.may_match(added, &flow.matching))
    })
}

/// Translates megaflows again, on any thread.
#[derive(Debug)]
pub struct Revalidator {
    shared: Arc<Shared>,
    snapshot: table::Snapshot<Snapshot>,
}

impl Revalidator {
    pub(crate) fn new(shared: &Arc<Shared>) -> Self {
        Revalidator { shared: Arc::clone(shared), snapshot: shared.read() }
    }

    /// Lets go of a snapshot that is not the newest, and of what only it has.
    pub fn refresh(&mut self) {
        self.shared.refresh(&mut self.snapshot);
    }

    /// Translates megaflows again that depend on what changed, a bounded number of them; says whether
    /// there are more. Those whose steps are different get the new ones; those that match too much go
    /// (ovs: `ofproto/ofproto-dpif-upcall.c`, `revalidate_ukey`). `send` is called once at most, with the
    /// commands for workers, under the lock of all megaflows.
    pub fn revalidate(
        &mut self,
        now: Instant,
        send: impl FnOnce(&mut Vec<(WorkerId, FlowCommand)>),
    ) -> bool {
        let mut flows = Vec::new();
        {
            let mut megaflows = self.shared.lock();
            self.snapshot = megaflows.newest();
            let Megaflows { installed, work, .. } = &mut *megaflows;
            if work.is_paused {
                return false;
            }
            work.search(installed);
            while flows.len() < FLOWS_AT_ONCE
                && let Some(id) = work.next(installed)
            {
                flows.extend(installed.get(id));
            }
            work.in_hand += flows.len();
        }
        let translate = |flow: DatapathFlow| {
            let translation = translate(self.snapshot.world(now), &flow.key, Notes::Off);
            (flow, translation)
        };
        let translated: Vec<(DatapathFlow, Translation)> =
            flows.into_iter().map(translate).collect();
        let mut megaflows = self.shared.lock();
        let is_stale = megaflows.is_stale(&self.snapshot);
        let Megaflows { installed, work, .. } = &mut *megaflows;
        work.in_hand -= translated.len();
        let mut commands = Vec::new();
        for (flow, translation) in translated {
            // What other threads made of it meanwhile, they made of a newer snapshot.
            if is_stale {
                work.again(flow.id);
            }
            self.follow(now, flow, translation, installed, &mut commands);
        }
        send(&mut commands);
        !work.is_empty() || installed.is_walking()
    }

    /// Has a megaflow do what its translation says now.
    fn follow(
        &self,
        now: Instant,
        flow: DatapathFlow,
        mut translation: Translation,
        installed: &mut Installed,
        commands: &mut Vec<(WorkerId, FlowCommand)>,
    ) {
        let DatapathFlow { id, worker, .. } = flow;
        if installed.worker_of(id).is_none() {
            return;
        }
        installed.counters.revalidated += 1;
        if !translation.may_install()
            || translation.learns_anew
            || !datapath_mask(&translation.mask).is_within(flow.matching.mask())
        {
            installed.counters.outdated += 1;
            installed.remove(id, now, &self.snapshot.recirc);
            commands.push((worker, FlowCommand::Delete(id)));
            return;
        }
        if installed.actions_of(id).is_none_or(|known| **known != *translation.actions) {
            installed.set_actions(id, &std::mem::take(&mut translation.actions).into());
            if let Some(actions) = installed.actions_of(id).cloned() {
                let put = FlowPut { id, matching: flow.matching, actions };
                commands.push((worker, FlowCommand::Put(Box::new(put))));
                installed.counters.changed += 1;
            }
        }
        let links: Arc<Links> = Arc::new(links(translation, &flow.key));
        installed.relink(id, &links, now, &self.snapshot.recirc);
    }
}

impl Ofproto {
    /// What revalidates megaflows for it, on any thread.
    pub fn revalidator(&self) -> Revalidator {
        Revalidator::new(&self.shared)
    }

    /// Publishes what changed, and translates a bounded number of megaflows again that depend on it; the
    /// next calls go on where [`Self::needs_revalidation`].
    pub fn revalidate(&mut self, now: Instant, out: &mut Outbox) {
        self.publish();
        if self.revalidates && self.needs_revalidation() {
            self.own_revalidator.revalidate(now, |commands| out.commands.append(commands));
        }
    }

    /// Says whether this thread revalidates, or leaves that to others that [`Self::revalidator`] is for:
    /// one of both, so that what a flow is to do is told to its worker in one order.
    pub fn set_revalidates(&mut self, revalidates: bool) {
        self.revalidates = revalidates;
    }

    /// Whether [`Self::revalidate`] has something to do.
    pub fn needs_revalidation(&self) -> bool {
        let megaflows = self.megaflows_mut();
        let Megaflows { installed, work, .. } = &*megaflows;
        let is_busy = !work.is_empty() || work.in_hand > 0 || installed.is_walking();
        !self.changes.is_empty() || is_busy
    }
}

#[cfg(test)]
mod tests;
