//! Megaflows in the workers: what is known of them, and what they have carried.

use crate::recirc::RecircTable;
use crate::revalidate::Dependency;
use crate::rule::RuleId;
use crate::translate::Effect;
use base::{Instant, RecircId, WorkerId};
use flow::{Action, FlowId, FlowKey, FlowStats, Match};
use hashbrown::{HashMap, HashSet};
use std::sync::Arc;

/// A megaflow of one worker.
#[derive(Clone, Debug)]
pub struct DatapathFlow {
    /// Its number.
    pub id: FlowId,
    /// Its worker.
    pub worker: WorkerId,
    /// Which packets.
    pub matching: Match,
    /// The key of the packet that it was made for, with the datapath's port numbers.
    pub key: FlowKey,
    /// What is done with them.
    pub actions: Arc<[Action]>,
    /// What it had carried at the last dump.
    pub stats: FlowStats,
    /// When it was put there.
    pub created: Instant,
    pub(crate) links: Arc<Links>,
}

/// What a megaflow stands for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Links {
    pub rules: Vec<RuleId>,
    pub effects: Vec<Effect>,
    /// Frozen states that it names, its own among them.
    pub recircs: Vec<RecircId>,
    /// What it must be translated again for when it changes, each once.
    pub dependencies: Vec<Dependency>,
}

/// Counts of megaflows, for `upcall/show`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct InstalledCounters {
    /// In the datapath now.
    pub current: usize,
    /// The most there have been.
    pub max: usize,
    /// Misses that were answered without a megaflow because there were too many.
    pub over_limit: u64,
    /// Megaflows that went because they had nothing to do.
    pub idle: u64,
    /// Megaflows that went because the tables say something else now.
    pub outdated: u64,
    /// Megaflows that were given other actions.
    pub changed: u64,
    /// Megaflows that were translated again because something they depend on had changed.
    pub revalidated: u64,
}

/// The flow that was deleted, until its last statistics are known.
#[derive(Debug)]
struct Dying {
    links: Arc<Links>,
    stats: FlowStats,
    /// How many dumps the worker had been asked for.
    asked: u64,
}

/// How often a worker was asked for a dump, and how often it answered.
#[derive(Debug, Default)]
struct Dumps {
    asked: u64,
    answered: u64,
}

/// All megaflows of all workers.
#[derive(Debug, Default)]
pub(crate) struct Installed {
    flows: HashMap<FlowId, DatapathFlow>,
    by_match: HashMap<(WorkerId, Match), FlowId>,
    by_dependency: HashMap<Dependency, HashSet<FlowId>>,
    dying: HashMap<FlowId, (WorkerId, Dying)>,
    dumps: HashMap<WorkerId, Dumps>,
    last_id: u64,
    pub counters: InstalledCounters,
}

impl Installed {
    pub fn len(&self) -> usize {
        self.flows.len()
    }

    pub fn iter(&self) -> impl Iterator<Item = &DatapathFlow> {
        self.flows.values()
    }

    pub fn get(&self, id: FlowId) -> Option<&DatapathFlow> {
        self.flows.get(&id)
    }

    pub fn get_mut(&mut self, id: FlowId) -> Option<&mut DatapathFlow> {
        self.flows.get_mut(&id)
    }

    /// The worker's flow with just this match.
    pub fn find(&self, worker: WorkerId, matching: &Match) -> Option<FlowId> {
        self.by_match.get(&(worker, matching.clone())).copied()
    }

    /// The numbers of all flows, in the order in which they were made.
    pub fn ids(&self) -> Vec<FlowId> {
        let mut ids: Vec<FlowId> = self.flows.keys().copied().collect();
        ids.sort_unstable();
        ids
    }

    /// Whether some flow depends on this.
    pub fn is_depended_on(&self, on: Dependency) -> bool {
        self.by_dependency.contains_key(&on)
    }

    /// The flows that depend on this.
    pub fn dependents(&self, on: Dependency) -> impl Iterator<Item = FlowId> {
        self.by_dependency.get(&on).into_iter().flatten().copied()
    }

    pub fn next_id(&mut self) -> FlowId {
        self.last_id += 1;
        FlowId(self.last_id)
    }

    pub fn insert(&mut self, flow: DatapathFlow, recirc: &mut RecircTable) {
        for &id in &flow.links.recircs {
            recirc.hold(id);
        }
        self.index(flow.id, &flow.links.dependencies);
        self.by_match.insert((flow.worker, flow.matching.clone()), flow.id);
        self.flows.insert(flow.id, flow);
        self.counters.current = self.flows.len();
        self.counters.max = self.counters.max.max(self.flows.len());
    }

    /// Gives a flow other links, and with them other frozen states to hold.
    pub fn relink(
        &mut self,
        id: FlowId,
        links: Arc<Links>,
        now: Instant,
        recirc: &mut RecircTable,
    ) {
        let Some(flow) = self.flows.get_mut(&id) else { return };
        for &id in &links.recircs {
            recirc.hold(id);
        }
        for &id in &flow.links.recircs {
            recirc.release(now, id);
        }
        let old = std::mem::replace(&mut flow.links, links);
        if old.dependencies != flow.links.dependencies {
            let new = Arc::clone(&flow.links);
            self.unindex(id, &old.dependencies);
            self.index(id, &new.dependencies);
        }
    }

    fn index(&mut self, id: FlowId, dependencies: &[Dependency]) {
        for &on in dependencies {
            self.by_dependency.entry(on).or_default().insert(id);
        }
    }

    fn unindex(&mut self, id: FlowId, dependencies: &[Dependency]) {
        for on in dependencies {
            if let Some(flows) = self.by_dependency.get_mut(on) {
                flows.remove(&id);
                if flows.is_empty() {
                    self.by_dependency.remove(on);
                }
            }
        }
    }

    /// The worker is being told to delete the flow; its last statistics will come in a dump.
    pub fn remove(&mut self, id: FlowId, now: Instant, recirc: &mut RecircTable) {
        let Some(flow) = self.flows.remove(&id) else { return };
        self.unindex(id, &flow.links.dependencies);
        self.by_match.remove(&(flow.worker, flow.matching));
        for &id in &flow.links.recircs {
            recirc.release(now, id);
        }
        let asked = self.dumps.get(&flow.worker).map_or(0, |dumps| dumps.asked);
        let dying = Dying { links: flow.links, stats: flow.stats, asked };
        self.dying.insert(id, (flow.worker, dying));
        self.counters.current = self.flows.len();
    }

    /// A worker is being asked for a dump. Not asked again before it answers.
    pub fn ask_dump(&mut self, worker: WorkerId) -> bool {
        let dumps = self.dumps.entry(worker).or_default();
        let idle = dumps.asked == dumps.answered;
        dumps.asked += u64::from(idle);
        idle
    }

    /// Takes a flow's new total. Gives what came since the last one, and what the flow stands for.
    pub fn account(&mut self, id: FlowId, total: FlowStats) -> Option<(FlowStats, Arc<Links>)> {
        let (stats, links) = match self.flows.get_mut(&id) {
            Some(flow) => (&mut flow.stats, &flow.links),
            None => {
                let (_, dying) = self.dying.get_mut(&id)?;
                (&mut dying.stats, &dying.links)
            }
        };
        let delta = total.since(stats);
        *stats = total;
        Some((delta, Arc::clone(links)))
    }

    /// A worker's dump has been read to its end: flows deleted before it was asked for will not be
    /// heard of again.
    pub fn end_dump(&mut self, worker: WorkerId) {
        let dumps = self.dumps.entry(worker).or_default();
        dumps.answered = dumps.answered.max(dumps.asked.min(dumps.answered + 1));
        let answered = dumps.answered;
        self.dying.retain(|_, (owner, dying)| *owner != worker || dying.asked >= answered);
    }

    /// Forgets flows of workers that are no more.
    pub fn forget_workers_from(&mut self, workers: u16, now: Instant, recirc: &mut RecircTable) {
        let gone: Vec<FlowId> =
            self.iter().filter(|flow| flow.worker.0 >= workers).map(|flow| flow.id).collect();
        for id in gone {
            self.remove(id, now, recirc);
        }
        self.dying.retain(|_, (owner, _)| owner.0 < workers);
        self.dumps.retain(|owner, _| owner.0 < workers);
    }
}
