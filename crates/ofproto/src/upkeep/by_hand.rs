//! Megaflows put and changed by commands (`dpctl/add-flow`, `dpctl/mod-flow`). They belong to no OpenFlow
//! flow: a little later they are translated like all others, and stay only if the translation is the same
//! (ovs: `ofproto/ofproto-dpif-upcall.c`, `revalidate`).

use crate::installed::NewFlow;
use crate::links::Links;
use crate::snapshot::Megaflows;
use crate::{Ofproto, Outbox};
use base::{Instant, WorkerId};
use flow::{Action, FlowCommand, FlowId, FlowKey, FlowPut, Mask, Match};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// Megaflows still to be translated, with the time of the command.
#[derive(Debug, Default)]
pub(super) struct ByHand(VecDeque<(Instant, FlowId)>);

impl Ofproto {
    /// Installs a megaflow in a worker that has none with this match.
    pub fn put_megaflow(
        &mut self,
        worker: WorkerId,
        (key, mask): (&FlowKey, &Mask),
        actions: &Arc<[Action]>,
        now: Instant,
        out: &mut Outbox,
    ) {
        let links = &Arc::new(Links::default());
        let max_idle = Duration::from_millis(self.config.max_idle_ms);
        let id = {
            let installed = &mut self.shared.lock().installed;
            let hash = installed.hash(worker, key, mask);
            let new = NewFlow { worker, hash, key, mask, actions, links, created: now };
            let id = installed.insert(new, &self.recirc);
            installed.arm(id, now, now + max_idle);
            id
        };
        let put = FlowPut { id, matching: Match::new(key, mask), actions: Arc::clone(actions) };
        out.commands.push((worker, FlowCommand::Put(Box::new(put))));
        self.upkeep.by_hand.0.push_back((now, id));
    }

    /// Changes a megaflow's actions.
    pub fn set_megaflow_actions(
        &mut self,
        id: FlowId,
        actions: &Arc<[Action]>,
        now: Instant,
        out: &mut Outbox,
    ) {
        let mut megaflows = self.shared.lock();
        let Some(flow) = megaflows.installed.get(id) else { return };
        megaflows.installed.set_actions(id, actions);
        drop(megaflows);
        let put = FlowPut { id, matching: flow.matching, actions: Arc::clone(actions) };
        out.commands.push((flow.worker, FlowCommand::Put(Box::new(put))));
        self.upkeep.by_hand.0.push_back((now, id));
    }

    /// Revalidates megaflows put by commands, after a delay in which users can see them.
    pub(super) fn revalidate_by_hand(&mut self, now: Instant) {
        let after = Duration::from_millis(self.config.max_revalidator_ms);
        while let Some(&(put, id)) = self.upkeep.by_hand.0.front()
            && put + after <= now
        {
            self.upkeep.by_hand.0.pop_front();
            let Megaflows { installed, work, .. } = &mut *self.shared.lock();
            work.again(id, installed);
        }
    }
}
