//! Metrics and reports of a worker's iterations.

use super::super::balance::Load;
use super::super::metrics::Sample;
use super::Run;
use crate::worker_messages::WorkerMode;
use base::Instant;
use std::sync::PoisonError;
use std::time::Duration;

impl Run {
    /// Adds the iteration to the worker's metrics.
    pub(super) fn keep_turn(&mut self, began: Instant, ended: Instant, packets: u64) {
        if self.mode == WorkerMode::Sleeping || !self.metrics.is_on() {
            self.asked = None;
            return;
        }
        let sizes = std::mem::take(&mut self.sizes);
        let stats = self.worker.stats();
        let asked = stats.misses + stats.lost;
        let upcalls = asked.saturating_sub(self.asked.replace(asked).unwrap_or(asked));
        let ns = (ended - began).as_nanos() as u64;
        let busy_ns = if packets > 0 { ns } else { 0 };
        let batches = sizes.0[1..].iter().map(|&count| u64::from(count)).sum();
        let iteration = Sample { ns, busy_ns, packets, batches, upcalls, ..Sample::default() };
        self.metrics.add(ended.as_millis(), iteration, &sizes);
    }

    pub(super) fn end_interval(&mut self, length: Duration) {
        let busy_ns = self.busy.end_interval();
        for slot in &mut self.ports.rx {
            slot.usage.end_interval();
        }
        let total_ns = length.as_nanos() as u64;
        self.last = Load { intervals: self.last.intervals + 1, busy_ns, total_ns };
    }

    /// Publishes the counters.
    pub(super) fn publish(&self) {
        let mut published = self.published.lock().unwrap_or_else(PoisonError::into_inner);
        published.stats.clone_from(self.worker.stats());
        (published.iterations, published.since, published.last) =
            (self.iterations, self.since, self.last);
        published.busy.clone_from(&self.busy);
        published.queues.clear();
        published.queues.extend(self.ports.reports());
    }
}
