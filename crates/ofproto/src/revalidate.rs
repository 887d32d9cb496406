//! Revalidation of installed megaflows after a change, in bounded steps.
//!
//! The dependencies of each translation are stored with its megaflow. A changed or deleted flow affects the
//! megaflows that hit it. An added flow affects those that looked in its table, if it could match one of
//! their packets there as far as the megaflow's match and the lookup's registers tell
//! ([`Lookup`](crate::lookup::Lookup)). The wildcards of a lookup are computed from all flows of a table, but
//! that creates no dependency on the others: all packets of a megaflow match the same flow in each table, and
//! adding or removing another flow changes this only if one of the packets matches it. A learned address
//! affects the megaflows that looked it up, a port those that looked it up or used all ports of its bridge,
//! and a bridge those that passed through it. A change of tunnels or of the options behind fields is rare and
//! may affect anything: it revalidates all megaflows.

use crate::datapath_mask::datapath_mask;
use crate::installed::{DatapathFlow, Installed};
use crate::snapshot::{Megaflows, Shared, Snapshot};
use crate::translate::{Keys, Memory, Notes, Translation, translate};
use crate::upcall::links;
use crate::{Ofproto, Outbox};
use base::{Instant, WorkerId};
use flow::{FlowCommand, FlowPut};
use std::sync::Arc;
use table::Passage;

/// Revalidates megaflows, on any thread.
#[derive(Debug)]
pub struct Revalidator {
    shared: Arc<Shared>,
    snapshot: table::Snapshot<Snapshot>,
    /// Under way from the selection of megaflows until their results are carried out.
    passage: Passage,
    translated: Vec<(DatapathFlow, Translation)>,
    /// Megaflows to be deleted because they carry few packets.
    ended: Vec<DatapathFlow>,
}

impl Revalidator {
    pub(crate) fn new(shared: &Arc<Shared>, passage: Passage) -> Self {
        Revalidator {
            shared: Arc::clone(shared),
            snapshot: shared.read(),
            passage,
            translated: Vec::new(),
            ended: Vec::new(),
        }
    }

    /// Releases a snapshot that is not the newest.
    pub fn refresh(&mut self) {
        self.shared.refresh(&mut self.snapshot);
    }

    /// Revalidates a bounded number of megaflows that depend on changes. Returns whether there are more. If a
    /// megaflow's actions changed it gets the new ones; if its mask is too wide it is deleted (ovs:
    /// `ofproto/ofproto-dpif-upcall.c`, `revalidate_ukey`). `send` is called at most once, with the commands
    /// for workers, under the lock of all megaflows.
    pub fn revalidate(
        &mut self,
        now: Instant,
        send: impl FnOnce(&mut Vec<(WorkerId, FlowCommand)>),
    ) -> bool {
        self.translate(now) && self.carry_out(now, send)
    }

    /// The first half of [`Self::revalidate`], which takes the lock only to select megaflows. Returns whether
    /// the second half must follow.
    pub fn translate(&mut self, now: Instant) -> bool {
        let mut flows = Vec::new();
        self.passage.begin();
        {
            let mut megaflows = self.shared.lock();
            self.snapshot = megaflows.newest();
            let Megaflows { installed, work, .. } = &mut *megaflows;
            if work.is_paused {
                self.passage.end();
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
        let (world, mut keys) = (self.snapshot.world(now), Keys::default());
        self.translated.extend(flows.into_iter().map(|flow| {
            let translation = translate(world, &flow.key, Notes::Off, Memory::default(), &mut keys);
            (flow, translation)
        }));
        true
    }

    /// Whether there are no results to carry out.
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
            // Other threads based their changes on a newer snapshot.
            if is_stale {
                work.again(flow.id, installed);
            }
            self.follow(now, flow, translation, installed, &mut commands);
        }
        send(&mut commands);
        self.passage.end();
        !work.is_empty() || installed.is_walking()
    }

    /// Updates a megaflow to its new translation.
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
        let links = links(translation.links, &flow.key);
        let counts_for_others = installed.relink(id, &links, now, &self.snapshot.recirc);
        if installed.actions_of(id).is_none_or(|known| **known != *translation.actions) {
            installed.set_actions(id, &translation.actions);
            if let Some(actions) = installed.actions_of(id).cloned() {
                let put = FlowPut { id, matching: flow.matching, actions };
                commands.push((worker, FlowCommand::Put(Box::new(put))));
                installed.counters.changed += 1;
            }
        } else if counts_for_others {
            commands.push((worker, FlowCommand::Mark(id)));
        }
    }
}

impl Ofproto {
    /// A revalidator for any thread.
    pub fn revalidator(&self) -> Revalidator {
        Revalidator::new(&self.shared, self.passages.join())
    }

    /// Publishes the changes and revalidates a bounded number of megaflows that depend on them. Call again
    /// while [`Self::needs_revalidation`].
    pub fn revalidate(&mut self, now: Instant, out: &mut Outbox) {
        self.publish();
        if self.revalidates && self.needs_revalidation() {
            self.own_revalidator.revalidate(now, |commands| out.commands.append(commands));
        }
    }

    /// Sets whether this thread revalidates, or threads with a [`Self::revalidator`] do. Only one of both
    /// may, so that the commands about a flow reach its worker in one order.
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
