//! Looking through installed megaflows after a change, a bounded part at a time.
//!
//! What a translation asked is written down with its megaflow. A flow that is changed or deleted
//! concerns the megaflows that hit it. A flow that is added concerns those that looked in its table
//! and some packet of which it could match there, as far as the megaflow's match and the lookup's
//! registers say ([`Lookup`](crate::lookup::Lookup)). That a lookup's mask follows from all flows of
//! a table does not make others depend on it: every packet of a megaflow had the same flow in each
//! table, and no other flow's coming or going changes that unless one of its packets matches it. A
//! learned address concerns those that asked where it is, a port those that asked for it or for all of its
//! bridge, a bridge those that went through it. A change of tunnels, or of what fields their options are, is
//! rare and may concern anything: after one all megaflows are translated again.

mod patience;
mod scan;
mod search;
mod work;

pub(crate) use self::patience::Patience;
pub(crate) use self::work::Work;
use crate::bridge::BridgeId;
use crate::installed::{DatapathFlow, Installed};
use crate::lookup::Added;
use crate::rule::{Rule, RuleId};
use crate::snapshot::{Megaflows, Shared, Snapshot};
use crate::translate::{Memory, Notes, Translation, datapath_mask, translate};
use crate::upcall::links;
use crate::{Ofproto, Outbox};
use base::{Instant, MacAddr, OfPort, PortNo, TableId, WorkerId, Zone};
use flow::{Field, FlowCommand, FlowPut};
use hashbrown::HashSet;
use openflow::Action;
use std::net::IpAddr;
use std::sync::Arc;

/// Megaflows that are translated again in one go.
const FLOWS_AT_ONCE: usize = 256;
/// So many additions to tables are searched for in one pass; where more come at once, whatever looked
/// in their tables is translated again.
const SEARCHED_AT_ONCE: usize = 64;

/// Something that a translation asked and that can change while the configuration does not.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Dependency {
    /// A flow table was looked in.
    Table { bridge: BridgeId, table: TableId },
    /// A flow table was looked in after some action may have rewritten a header.
    RewrittenTable { bridge: BridgeId, table: TableId },
    /// A group was asked for, and may have been missing.
    Group { bridge: BridgeId, group: u32 },
    /// It was asked how many flows a table has.
    FlowCount { bridge: BridgeId, table: TableId },
    /// It was asked whether a port is up.
    Link { bridge: BridgeId, port: OfPort },
    /// A flow was hit.
    Rule(RuleId),
    /// A bridge was gone through, with what its configuration and its controllers say.
    Bridge { bridge: BridgeId },
    /// A port was asked for, and may have been missing.
    Port { bridge: BridgeId, port: OfPort },
    /// All ports of a bridge were asked for, or one by its name.
    Ports { bridge: BridgeId },
    /// It was asked whose a port of the datapath is.
    Device(PortNo),
    /// It was asked how long a zone's connections are remembered.
    Zone(Zone),
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
    /// What all megaflows may depend on.
    configuration: bool,
    /// Whether megaflows depend on it is asked when the change is published, so that those count that a
    /// handler installs before.
    dependencies: HashSet<Dependency>,
    added: Vec<Added>,
}

impl Changes {
    /// What all may depend on: tunnels and their options.
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

/// Translates megaflows again, on any thread.
#[derive(Debug)]
pub struct Revalidator {
    shared: Arc<Shared>,
    snapshot: table::Snapshot<Snapshot>,
    translated: Vec<(DatapathFlow, Translation)>,
    /// Megaflows that are deleted because they have few packets.
    ended: Vec<DatapathFlow>,
}

impl Revalidator {
    pub(crate) fn new(shared: &Arc<Shared>) -> Self {
        let (translated, ended) = (Vec::new(), Vec::new());
        Revalidator { shared: Arc::clone(shared), snapshot: shared.read(), translated, ended }
    }

    /// Lets go of a snapshot that is not the newest, and of what only it has.
    pub fn refresh(&mut self) {
        self.shared.refresh(&mut self.snapshot);
    }

    /// Translates megaflows again that depend on what changed, a bounded number of them. Returns whether
    /// there are more. Those whose steps are different get the new ones; those that match too much go
    /// (ovs: `ofproto/ofproto-dpif-upcall.c`, `revalidate_ukey`). `send` is called once at most, with the
    /// commands for workers, under the lock of all megaflows.
    pub fn revalidate(
        &mut self,
        now: Instant,
        send: impl FnOnce(&mut Vec<(WorkerId, FlowCommand)>),
    ) -> bool {
        self.translate(now) && self.carry_out(now, send)
    }

    /// The first half of [`Self::revalidate`], which holds no lock but to choose megaflows. Says whether the
    /// other half is to follow.
    pub fn translate(&mut self, now: Instant) -> bool {
        let mut flows = Vec::new();
        {
            let mut megaflows = self.shared.lock();
            self.snapshot = megaflows.newest();
            let Megaflows { installed, work, .. } = &mut *megaflows;
            if work.is_paused {
                return false;
            }
            let taken = work.take(installed, now);
            flows.extend(taken.into_iter().filter_map(|id| installed.get(id)));
            work.in_hand += flows.len();
            let patience = self.snapshot.patience;
            let (lasted, collected) = (work.lasted(now), installed.collected(patience.workers));
            let ended = flows.extract_if(.., |it| patience.ends(&it.stats, lasted, collected));
            self.ended.extend(ended);
        }
        self.translated.extend(flows.into_iter().map(|flow| {
            let translation =
                translate(self.snapshot.world(now), &flow.key, Notes::Off, Memory::default());
            (flow, translation)
        }));
        true
    }

    /// Whether it has translated nothing that is to be carried out.
    pub fn is_idle(&self) -> bool {
        self.translated.is_empty() && self.ended.is_empty()
    }

    /// The second half of [`Self::revalidate`].
    pub fn carry_out(
        &mut self,
        now: Instant,
        send: impl FnOnce(&mut Vec<(WorkerId, FlowCommand)>),
    ) -> bool {
        let translated = std::mem::take(&mut self.translated);
        let mut megaflows = self.shared.lock();
        let is_stale = megaflows.is_stale(&self.snapshot);
        let Megaflows { installed, work, .. } = &mut *megaflows;
        work.in_hand -= translated.len() + self.ended.len();
        let mut commands = Vec::new();
        for DatapathFlow { id, worker, .. } in self.ended.drain(..) {
            if installed.worker_of(id).is_some() {
                installed.counters.idle += 1;
                installed.remove(id, now, &self.snapshot.recirc);
                commands.push((worker, FlowCommand::Delete(id)));
            }
        }
        for (flow, translation) in translated {
            // What other threads made of it meanwhile, they made of a newer snapshot.
            if is_stale {
                work.again(flow.id, installed);
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
        translation: Translation,
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
            installed.set_actions(id, &translation.actions);
            if let Some(actions) = installed.actions_of(id).cloned() {
                let put = FlowPut { id, matching: flow.matching, actions };
                commands.push((worker, FlowCommand::Put(Box::new(put))));
                installed.counters.changed += 1;
            }
        }
        let links = links(translation.links, &flow.key);
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
        let is_busy = work.is_busy() || installed.is_walking();
        !self.changes.is_empty() || is_busy
    }
}

#[cfg(test)]
mod tests;
