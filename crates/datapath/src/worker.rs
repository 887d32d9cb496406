//! A worker: its flows and what it is asked to do with them.

use crate::outbox::Outbox;
use crate::pipeline;
use crate::stats::WorkerStats;
use crate::upcall_queue::UpcallQueue;
use base::{Instant, PortNo, WorkerId};
use classifier::{ExactCache, Handle, MegaflowTable};
use conntrack::Tracker;
use flow::{
    Action, DropReason, FlowCommand, FlowDump, FlowId, FlowPut, FlowStats, Frame, Upcall,
    UpcallKind,
};
use hashbrown::HashMap;
use packet::{Batch, Pool};
use std::sync::Arc;

/// How a worker goes about its work.
#[derive(Clone, Copy, Debug)]
pub struct WorkerConfig {
    /// One in so many megaflow hits enters the exact-match cache; 1 is every one, 0 none
    /// (`other_config:emc-insert-inv-prob`).
    pub exact_insert_inverse: u32,
    /// Free packet buffers to keep.
    pub pool_packets: usize,
}

impl Default for WorkerConfig {
    fn default() -> Self {
        WorkerConfig { exact_insert_inverse: 100, pool_packets: 512 }
    }
}

/// A flow in a worker's table.
#[derive(Debug)]
pub struct InstalledFlow {
    /// Its number.
    pub id: FlowId,
    /// What is done with its packets.
    pub actions: Arc<[Action]>,
    /// What it has carried.
    pub stats: FlowStats,
    /// Whether it is in the list of flows that the next dump tells of.
    reported: bool,
}

/// Forwards packets. Owned by one thread.
pub struct Worker {
    pub(crate) id: WorkerId,
    pub(crate) tracker: Tracker,
    pub(crate) upcalls: Arc<UpcallQueue>,
    pub(crate) flows: MegaflowTable<InstalledFlow>,
    pub(crate) exact: ExactCache,
    pub(crate) pool: Pool,
    pub(crate) stats: WorkerStats,
    pub(crate) config: WorkerConfig,
    pub(crate) random: u32,
    pub(crate) seed: u32,
    /// Frames of this pass, and of the next; kept for their room.
    pub(crate) pass: Vec<Frame>,
    pub(crate) again: Vec<Frame>,
    handles: HashMap<FlowId, Handle>,
    /// Flows hit since the last dump.
    hit: Vec<FlowId>,
    /// Last statistics of flows deleted since the last dump.
    gone: Vec<(FlowId, FlowStats)>,
}

impl Worker {
    /// A worker without flows. `tracker` is its own, `seed` makes its hashing unpredictable from outside.
    pub fn new(
        id: WorkerId,
        tracker: Tracker,
        upcalls: Arc<UpcallQueue>,
        config: WorkerConfig,
        seed: u64,
    ) -> Self {
        Worker {
            id,
            tracker,
            upcalls,
            flows: MegaflowTable::new(seed),
            exact: ExactCache::new(),
            pool: Pool::new(config.pool_packets),
            stats: WorkerStats::default(),
            config,
            random: (seed as u32) | 1,
            seed: (seed >> 32) as u32,
            pass: Vec::with_capacity(base::limits::BATCH_SIZE),
            again: Vec::with_capacity(base::limits::BATCH_SIZE),
            handles: HashMap::new(),
            hit: Vec::new(),
            gone: Vec::new(),
        }
    }

    /// Takes a batch that came in on `in_port` through the whole datapath. The batch is left
    /// empty; what is to be sent lies in `out`.
    pub fn receive(&mut self, now: Instant, in_port: PortNo, batch: &mut Batch, out: &mut Outbox) {
        self.stats.received += batch.len() as u64;
        pipeline::receive(self, now, in_port, batch, out);
    }

    /// Does what the control side asks.
    pub fn command(&mut self, now: Instant, command: FlowCommand, out: &mut Outbox) {
        match command {
            FlowCommand::Put(put) => self.put(*put),
            FlowCommand::Delete(id) => self.delete(id),
            FlowCommand::Collect => out.dumps.push(self.dump()),
            FlowCommand::Execute(asked) => match Frame::resume(asked.packet, asked.key) {
                Ok(frame) => pipeline::execute(self, now, frame, &asked.actions, out),
                Err((packet, reason)) => self.drop_packet(packet, reason),
            },
        }
    }

    /// Once a second or so: puts the busiest subtables first.
    pub fn tick(&mut self) {
        self.flows.resort();
    }

    /// Counters.
    pub fn stats(&self) -> &WorkerStats {
        &self.stats
    }

    /// Counters, for the loop around to add its times to, and to reset.
    pub fn stats_mut(&mut self) -> &mut WorkerStats {
        &mut self.stats
    }

    /// Free buffers, for receiving into.
    pub fn pool(&mut self) -> &mut Pool {
        &mut self.pool
    }

    /// How many flows are installed.
    pub fn flow_count(&self) -> usize {
        self.handles.len()
    }

    /// Changes how the worker goes about its work.
    pub fn configure(&mut self, config: WorkerConfig) {
        self.config = config;
    }

    /// Counts a packet as dropped and keeps its buffer.
    pub fn drop_packet(&mut self, packet: packet::Packet, reason: DropReason) {
        self.stats.drops.count(reason, 1);
        self.pool.give(packet);
    }

    /// Puts a flow in, or gives the one of that number other actions.
    fn put(&mut self, put: FlowPut) {
        if let Some(handle) = self.handles.get(&put.id)
            && let Some(flow) = self.flows.get_mut(*handle)
        {
            flow.actions = put.actions;
            return;
        }
        let flow = InstalledFlow {
            id: put.id,
            actions: put.actions,
            stats: FlowStats::default(),
            reported: false,
        };
        let (handle, replaced) = self.flows.insert(&put.matching, flow);
        self.handles.insert(put.id, handle);
        // Two misses of one flow may both be answered with a put; the later answer counts.
        if let Some(old) = replaced {
            self.handles.remove(&old.id);
            self.gone.push((old.id, old.stats));
        }
    }

    fn delete(&mut self, id: FlowId) {
        let Some(handle) = self.handles.remove(&id) else { return };
        if let Some(flow) = self.flows.remove_handle(handle) {
            self.gone.push((id, flow.stats));
        }
    }

    /// Totals of the flows that were hit since the last dump, and of those that went.
    fn dump(&mut self) -> FlowDump {
        let mut flows = std::mem::take(&mut self.gone);
        for id in self.hit.drain(..) {
            let Some(handle) = self.handles.get(&id) else { continue };
            let Some(flow) = self.flows.get_mut(*handle) else { continue };
            flow.reported = false;
            flows.push((id, flow.stats));
        }
        FlowDump { worker: self.id, flows }
    }

    /// Counts a run of packets against the flow they hit, and gives what is to be done with them.
    pub(crate) fn credit(
        &mut self,
        now: Instant,
        handle: Handle,
        frames: &[Frame],
    ) -> Option<Arc<[Action]>> {
        let flow = self.flows.get_mut(handle)?;
        flow.stats.packets += frames.len() as u64;
        flow.stats.used = Some(now);
        for frame in frames {
            flow.stats.bytes += frame.packet.len() as u64;
            flow.stats.tcp_flags |= frame.key.tcp_flags();
        }
        if !flow.reported {
            flow.reported = true;
            self.hit.push(flow.id);
        }
        Some(Arc::clone(&flow.actions))
    }

    /// Sends a frame to the control side, or drops it where the queue is full.
    pub(crate) fn miss(&mut self, now: Instant, frame: Frame, out: &mut Outbox) {
        if self.send_up(now, &frame, UpcallKind::Miss, out) {
            self.stats.misses += 1;
            self.pool.give(frame.packet);
        } else {
            self.stats.lost += 1;
            self.drop_packet(frame.packet, DropReason::UpcallQueueFull);
        }
    }

    /// Queues a copy of the frame for the control side; says whether there was room.
    pub(crate) fn send_up(
        &mut self,
        now: Instant,
        frame: &Frame,
        kind: UpcallKind,
        out: &mut Outbox,
    ) -> bool {
        let upcall = Upcall {
            worker: self.id,
            kind,
            packet: frame.packet.compact_copy(),
            key: frame.key.clone(),
            received: now,
        };
        let pushed = self.upcalls.push(upcall);
        out.wake_control |= pushed == Ok(true);
        pushed.is_ok()
    }

    /// A cheap random number (xorshift, Marsaglia 2003), for choosing what enters the cache.
    pub(crate) fn next_random(&mut self) -> u32 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 17;
        self.random ^= self.random << 5;
        self.random
    }
}

#[cfg(test)]
mod tests;
