//! Starting workers, handlers and revalidators, and replacing them by others, in the order in which the switch does
//! (`crates/switch/src/replace_workers.rs`).

use super::{Revalidating, World};
use crate::defect::Defect;
use crate::handling::Handling;
use crate::law::Law;
use crate::ledger::Broken;
use crate::member::Member;
use crate::plan::Threads;
use base::WorkerId;
use datapath::{Answers, LastFlows, UpcallQueue, WorkerConfig};
use flow::FlowDump;
use std::sync::Arc;

impl World<'_> {
    /// Starts the current threads. The workers have no ports yet.
    pub(super) fn start_threads(&mut self) -> Result<(), Broken> {
        let Threads { workers, answers, revalidators } = self.threads;
        for id in 0..workers {
            let config = WorkerConfig {
                unified_entries: self.settings.unified_entries,
                exact_insert_inverse: self.settings.exact_insert_inverse,
                unified_insert_inverse: 1,
                ..WorkerConfig::default()
            };
            let tracker = self.conntrack.tracker();
            let tracker = tracker.map_err(|error| (Law::Sanity, error.to_string()))?;
            let (id, upcalls) = (WorkerId(id.into()), Arc::clone(&self.upcalls));
            let mut member = Member::new(id, tracker, upcalls, config, self.seed ^ 0x5eed);
            // It has no flows of older rules.
            member.settled = self.history.last();
            self.members.push(member);
        }
        if let Answers::Handlers(count) | Answers::Workers(count) = answers {
            let handling = |number| Handling::new(number, self.ofproto.handler());
            self.handlings = (0..count).map(handling).collect();
        }
        self.ofproto.set_revalidates(revalidators == 0);
        let revalidating =
            |_| Revalidating { revalidator: self.ofproto.revalidator(), translated_by: 0 };
        self.revalidators = (0..revalidators).map(revalidating).collect();
        Ok(())
    }

    /// Replaces all threads. Upcalls are answered and statistics applied before the old ones go.
    pub(super) fn restart(&mut self, threads: Threads, is_late: bool) -> Result<(), Broken> {
        self.restarts += 1;
        self.stop_handlers();
        self.answer_waiting();
        if is_late {
            for worker in 0..self.members.len() {
                self.work(worker, usize::MAX)?;
            }
        }
        let (pages, gone) = self.stop_workers()?;
        self.lost_before += self.upcalls.drain().len() as u64;
        self.upcalls = Arc::new(UpcallQueue::answered_by(threads.answers, self.seed));
        (self.threads, self.woken) = (threads, false);
        // The old workers' flows and pending commands are discarded.
        self.orders.commands.clear();
        let config = |workers, world: &World<'_>| {
            let config = world.ofproto.config().clone();
            ofproto::Config { workers, ..config }
        };
        self.ofproto.set_config(config(0, self));
        self.start_threads()?;
        self.ofproto.set_config(config(threads.workers.into(), self));
        let ports: Vec<u8> = self.ports.keys().copied().collect();
        self.attach(&ports);
        self.apply_last(&pages, gone);
        self.settled = self.history.last();
        self.staleness.forget(self.settled);
        self.ledger.close_all(self.step, &self.history)
    }

    /// Handlers and revalidators finish what they began, and end. Those that are part of a worker end with it.
    fn stop_handlers(&mut self) {
        for handler in 0..self.handlings.len() {
            self.install(handler);
        }
        self.install(usize::MAX);
        for Revalidating { mut revalidator, .. } in std::mem::take(&mut self.revalidators) {
            if !revalidator.is_idle() {
                let mut commands = Vec::new();
                revalidator.carry_out(self.now, |all| commands.append(all));
                self.deliver(commands);
            }
        }
        if matches!(self.threads.answers, Answers::Handlers(_)) {
            self.handlings.clear();
        }
    }

    /// The control side answers all upcalls that wait.
    fn answer_waiting(&mut self) {
        self.ofproto.apply_credits(self.now);
        for upcall in self.upcalls.drain() {
            if !self.fault.strikes(Defect::ForgetsWaiting) {
                self.ofproto.upcall(self.now, upcall, &mut self.orders);
            }
        }
        let commands = std::mem::take(&mut self.orders.commands);
        self.deliver(commands);
    }

    /// Workers execute their commands, answer their own misses, and end. Returns the pages of dumps that wait, and what
    /// the workers have not told.
    fn stop_workers(&mut self) -> Result<(Vec<FlowDump>, Vec<LastFlows>), Broken> {
        let (mut pages, mut gone) = (Vec::from(std::mem::take(&mut self.pages)), Vec::new());
        for worker in 0..self.members.len() {
            self.members[worker].obey(self.now, usize::MAX);
            while self.handlings.get(worker).is_some_and(|it| it.has_misses(&self.upcalls)) {
                self.answer_own(worker);
            }
        }
        for member in std::mem::take(&mut self.members) {
            self.stopped.push(member.worker.stats().clone());
            let (flows, told, lost) = member.finish(self.now, &mut self.fault);
            self.lost_before += lost;
            pages.extend(told);
            if !self.fault.strikes(Defect::LosesLastPages) {
                gone.push(flows);
            }
        }
        self.handlings.clear();
        self.take_sent()?;
        Ok((pages, gone))
    }

    /// Applies the last statistics of the workers that ended, when others run already.
    fn apply_last(&mut self, pages: &[FlowDump], gone: Vec<LastFlows>) {
        pages.iter().for_each(|page| self.ofproto.last_dump(self.now, page));
        for mut flows in gone {
            while let Some(page) = flows.next_page() {
                self.ofproto.last_dump(self.now, &page);
            }
        }
    }
}
