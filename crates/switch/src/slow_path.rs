//! Who answers misses and revalidates flows, and the control thread's part in it.

use super::Switch;
use super::handlers::{Answering, HandlerShared, Threads};
use super::worker_thread::{Outlet, WorkerThread};
use base::{PortNo, WorkerId};
use control::SwitchOptions;
use datapath::Answers;
use port::PortError;
use std::collections::BTreeMap;
use std::sync::Arc;

/// How misses are answered and megaflows revalidated.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SlowPath {
    /// Who answers misses.
    pub answers: Answers,
    /// Threads that revalidate; 0: the control thread does.
    pub revalidators: u16,
}

/// With fewer processors the threads that are started by default would take time from the workers and the
/// control thread.
const PROCESSORS_MIN: usize = 3;
/// Threads of a kind that are started by default at the most: they install flows under one lock, so that
/// more of them would wait for each other.
const THREADS_MAX: usize = 4;

impl SlowPath {
    /// What the configuration asks for with so many workers. What it does not say follows from the number
    /// of processors, as in Open vSwitch (`ofproto/ofproto-dpif-upcall.c`, `udpif_set_threads`). None
    /// stands for a switch of tests, which have answers come in the order of their commands.
    pub fn wanted(options: &SwitchOptions, workers: usize, processors: Option<usize>) -> SlowPath {
        let by_default = processors.filter(|count| *count >= PROCESSORS_MIN).map(|count| {
            let revalidators = count / 4 + 1;
            [count - revalidators, revalidators].map(|threads| threads.min(THREADS_MAX) as u16)
        });
        let answers = match options.handler_threads.or(by_default.map(|[handlers, _]| handlers)) {
            None => Answers::Owner,
            Some(0) => Answers::Workers(workers as u16),
            Some(count) => Answers::Handlers(count),
        };
        let by_default = by_default.filter(|_| !options.hw_offload);
        let by_default = by_default.map_or(0, |[_, revalidators]| revalidators);
        let revalidators = match options.revalidator_threads.unwrap_or(by_default) {
            // What a device forwards in place of a flow is taken back before the flow changes, by the
            // control thread.
            1.. if options.hw_offload => {
                log::warn!(
                    target: "ofproto_dpif_upcall",
                    "n-revalidator-threads: with hw-offload the control thread revalidates"
                );
                0
            }
            count => count,
        };
        SlowPath { answers, revalidators }
    }

    /// How many answer misses besides the control thread; its number among handlers is the next one.
    pub fn others(self) -> u16 {
        match self.answers {
            Answers::Owner => 0,
            Answers::Handlers(count) | Answers::Workers(count) => count,
        }
    }

    /// In words, for `upcall/show`.
    pub fn describe(self) -> String {
        let misses = match self.answers {
            Answers::Owner => "the control thread".to_owned(),
            Answers::Handlers(1) => "1 handler".to_owned(),
            Answers::Handlers(count) => format!("{count} handlers"),
            Answers::Workers(_) => "each worker".to_owned(),
        };
        let flows = match self.revalidators {
            0 => "the control thread".to_owned(),
            1 => "1 revalidator".to_owned(),
            count => format!("{count} revalidators"),
        };
        format!("misses answered by {misses}, flows revalidated by {flows}")
    }
}

impl Switch {
    /// Ends handlers and revalidators, and makes a queue of upcalls as those want it that come.
    pub(super) fn stop_handlers(&mut self, workers: usize) {
        self.threads = None;
        self.catch_up();
        for (port, dropped) in self.handler_shared.upcalls.dropped() {
            *self.lost_before.entry(port).or_default() += dropped;
        }
        if let Answers::Workers(count) = &mut self.slow.answers {
            *count = workers as u16;
        }
        let datapath = self.settings.dummy.datapath_name();
        self.handler_shared = HandlerShared::new(self.slow, &self.events, &self.latency, datapath);
        self.tell_handlers_of_restoring();
    }

    /// Has handlers drop misses while flows are restored.
    pub(super) fn tell_handlers_of_restoring(&self) {
        self.handler_shared.set_restoring(self.is_restoring);
    }

    /// What answers a worker's misses on its own thread, where workers do that.
    pub(super) fn answering(&self, worker: WorkerId) -> Option<Answering> {
        let is_its = matches!(self.slow.answers, Answers::Workers(_));
        is_its.then(|| {
            Answering::new(worker, self.ofproto.handler(), Arc::clone(&self.handler_shared))
        })
    }

    /// Starts the threads that are asked for. Where that fails, the control thread does their work, and
    /// `start_workers` is called: their queue of upcalls was made for the threads.
    pub(super) fn start_handlers_or(
        &mut self,
        start_workers: impl FnOnce(&mut Switch) -> Result<(), PortError>,
    ) -> Result<(), PortError> {
        if self.start_handlers() {
            return Ok(());
        }
        // They are not tried again before other ones are asked for.
        self.unstartable = Some(std::mem::take(&mut self.slow));
        start_workers(self)
    }

    /// Says whether the threads that are asked for run.
    fn start_handlers(&mut self) -> bool {
        let handlers = match self.slow.answers {
            Answers::Handlers(count) => count,
            Answers::Owner | Answers::Workers(_) => 0,
        };
        self.ofproto.set_revalidates(self.slow.revalidators == 0);
        if handlers == 0 && self.slow.revalidators == 0 {
            return true;
        }
        let handlers = (0..handlers).map(|_| self.ofproto.handler()).collect();
        let revalidators =
            (0..self.slow.revalidators).map(|_| self.ofproto.revalidator()).collect();
        let workers: Vec<Outlet> = self.workers.iter().map(WorkerThread::outlet).collect();
        match Threads::start(Arc::clone(&self.handler_shared), handlers, revalidators, &workers) {
            Ok(threads) => self.threads = Some(threads),
            Err(error) => log::error!(
                target: "ofproto_dpif_upcall",
                "cannot start handlers and revalidators ({error}); the control thread does their work"
            ),
        }
        self.threads.is_some()
    }

    /// Takes up what handlers left to this thread.
    pub(super) fn catch_up(&mut self) {
        self.handler_shared.look();
        let now = clock::now();
        self.ofproto.apply_credits(now);
        self.ofproto.ask_wanted_neighbours(now, &mut self.outbox);
    }

    /// Wakes revalidators where there is something for them.
    pub(super) fn wake_revalidators(&self) {
        if self.slow.revalidators > 0 && self.ofproto.needs_revalidation() {
            self.handler_shared.revalidation.ring();
        }
    }

    /// Upcalls that were dropped because there was no room, by port.
    pub(super) fn lost_upcalls(&self) -> BTreeMap<PortNo, u64> {
        let mut lost = self.lost_before.clone();
        for (port, dropped) in self.handler_shared.upcalls.dropped() {
            *lost.entry(port).or_default() += dropped;
        }
        lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_configured_follows_from_the_processors() {
        use Answers::{Handlers, Owner, Workers};
        // Handlers and revalidators that are configured, processors, whether flows are offloaded; handlers
        // and revalidators.
        let cases = [
            (None, None, None, false, Owner, 0),
            (None, None, Some(1), false, Owner, 0),
            (None, None, Some(2), false, Owner, 0),
            (None, None, Some(3), false, Handlers(2), 1),
            (None, None, Some(4), false, Handlers(2), 2),
            (None, None, Some(8), false, Handlers(4), 3),
            (None, None, Some(64), false, Handlers(4), 4),
            (None, None, Some(4), true, Handlers(2), 0),
            (Some(0), None, Some(4), false, Workers(5), 2),
            (Some(0), None, Some(2), false, Workers(5), 0),
            (Some(7), Some(0), Some(4), false, Handlers(7), 0),
            (None, Some(9), Some(2), false, Owner, 9),
            (None, Some(9), Some(2), true, Owner, 0),
            (Some(1), None, None, false, Handlers(1), 0),
        ];
        for (handlers, revalidators, processors, hw_offload, answers, threads) in cases {
            let options = SwitchOptions {
                handler_threads: handlers,
                revalidator_threads: revalidators,
                hw_offload,
                ..SwitchOptions::default()
            };
            let wanted = SlowPath { answers, revalidators: threads };
            assert_eq!(SlowPath::wanted(&options, 5, processors), wanted, "{options:?}");
        }
    }
}
