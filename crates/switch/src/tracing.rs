//! Traced packets of a running switch: their selection, and the recording of their steps.
//!
//! A selected packet goes through the datapath alone, after those before it, so that every step and every
//! nanosecond is its own. Other packets are not affected.

use super::worker_ports::{TxQueues, send_all};
use base::{Instant, PortNo, WorkerId};
use datapath::{Observer, Outbox, Stage, Step, Worker};
use flow::{DropReason, Execute, FlowKey, Frame, Match, TraceId};
use packet::{Batch, Packet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Clock readings by which the cost of one is measured.
const LOOKS: u32 = 1000;

/// A trace order for all workers.
#[derive(Debug)]
pub struct Order {
    filter: Match,
    /// One in this many packets is examined, at random.
    sample: u32,
    wanted: u32,
    taken: AtomicU32,
    /// Nanoseconds of a clock reading, which are subtracted from each step.
    clock_ns: u64,
}

/// A traced packet.
#[derive(Debug)]
pub struct Traced {
    /// Its number.
    pub id: TraceId,
    /// The worker that processed it.
    pub worker: WorkerId,
    /// Start of its first step.
    pub began: Instant,
    /// Where it came from.
    pub origin: Origin,
    /// Its flow key before the first step.
    pub key: FlowKey,
    /// Its length in bytes.
    pub bytes: usize,
    /// The steps, with their durations in nanoseconds.
    pub steps: Vec<(Step, u64)>,
    /// What the ports sent of it.
    pub sent: Sent,
}

/// Where a packet came from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Origin {
    /// A port's receive queue.
    Received {
        /// The port.
        port: PortNo,
        /// The queue.
        queue: u16,
        /// Number of packets in the batch.
        batch: usize,
        /// Its share of the time that receiving the batch took, in nanoseconds.
        ns: u64,
    },
    /// The control side, which answered an upcall and sends the packet back.
    Answered,
}

/// Packets that were sent.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Sent {
    /// Number of packets that ports accepted.
    pub packets: u64,
    /// Duration in nanoseconds.
    pub ns: u64,
    /// Dropped packets by reason.
    pub dropped: Vec<(DropReason, u64)>,
}

/// Selects packets for one worker.
#[derive(Debug)]
pub struct Picker {
    order: Arc<Order>,
    /// Packets until the next one is examined.
    skip: u32,
}

/// The origin of a batch.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// The port.
    pub port: PortNo,
    /// The queue.
    pub queue: u16,
    /// When the queue was polled.
    pub asked: Instant,
}

impl Order {
    /// An order for `wanted` packets that match, of which one in `sample` is examined.
    pub fn new(filter: Match, sample: u32, wanted: u32) -> Self {
        let begun = clock::now();
        for _ in 0..LOOKS {
            std::hint::black_box(clock::now());
        }
        let clock_ns = (clock::now() - begun).as_nanos() as u64 / u64::from(LOOKS);
        Order { filter, sample: sample.max(1), wanted, taken: AtomicU32::new(0), clock_ns }
    }

    /// Returns whether all packets were found.
    pub fn is_done(&self) -> bool {
        self.taken.load(Relaxed) >= self.wanted
    }

    /// Returns the number of packets wanted.
    pub fn wanted(&self) -> u32 {
        self.wanted
    }

    /// Returns the id of another packet, if one is still wanted.
    fn take(&self) -> Option<TraceId> {
        let more = |taken| (taken < self.wanted).then_some(taken + 1);
        self.taken.fetch_update(Relaxed, Relaxed, more).ok().map(|taken| TraceId(taken + 1))
    }
}

impl Picker {
    /// A picker for this order.
    pub fn new(order: Arc<Order>) -> Self {
        let skip = next_skip(order.sample);
        Picker { order, skip }
    }

    /// Processes a batch, and reports the selected packets. Their output is sent immediately.
    pub fn receive(
        &mut self,
        now: Instant,
        arrival: Arrival,
        batch: &mut Batch,
        worker: &mut Worker,
        (tx, out): (&mut TxQueues, &mut Outbox),
        mut tell: impl FnMut(Box<Traced>),
    ) {
        if self.order.is_done() {
            return worker.receive(now, arrival.port, batch, out);
        }
        let count = batch.len();
        let share_ns = (clock::now() - arrival.asked).as_nanos() as u64 / count.max(1) as u64;
        let mut plain = Batch::new();
        for mut packet in batch.drain(..) {
            let Some((id, key)) = self.pick(arrival.port, &mut packet) else {
                plain.push(packet);
                continue;
            };
            worker.receive(now, arrival.port, &mut plain, out);
            send_all(worker, tx, out);
            let Arrival { port, queue, .. } = arrival;
            let origin = Origin::Received { port, queue, batch: count, ns: share_ns };
            let bytes = packet.len();
            let mut alone = Batch::from_iter([packet]);
            let mut recorder = Recorder::new(id, self.order.clock_ns);
            worker.receive_timed(now, port, &mut alone, out, &mut recorder);
            tell(recorder.finish(worker, tx, out, About { origin, key, bytes }));
        }
        worker.receive(now, arrival.port, &mut plain, out);
    }

    /// Executes the control side's answer for a traced packet.
    pub fn execute(
        &self,
        now: Instant,
        (id, asked): (TraceId, Execute),
        worker: &mut Worker,
        (tx, out): (&mut TxQueues, &mut Outbox),
    ) -> Box<Traced> {
        send_all(worker, tx, out);
        let (key, bytes) = ((*asked.key).clone(), asked.packet.len());
        let mut recorder = Recorder::new(id, self.order.clock_ns);
        worker.execute(now, asked, out, &mut recorder);
        recorder.finish(worker, tx, out, About { origin: Origin::Answered, key, bytes })
    }

    /// Returns the id and flow key of the packet, if it is selected.
    fn pick(&mut self, port: PortNo, packet: &mut Packet) -> Option<(TraceId, FlowKey)> {
        self.skip -= 1;
        if self.skip > 0 {
            return None;
        }
        self.skip = next_skip(self.order.sample);
        let key = match Frame::parse(packet.take(), port) {
            Ok(frame) => {
                *packet = frame.packet;
                frame.key
            }
            // A frame without a complete Ethernet header has no fields but the port.
            Err((refused, _)) => {
                *packet = refused;
                let mut key = FlowKey::new();
                key.set_in_port_raw(port.0);
                key
            }
        };
        if !self.order.filter.matches(&key) {
            return None;
        }
        self.order.take().map(|id| (id, key))
    }
}

/// Returns a random number with the mean `sample`, so that sampling does not synchronise with periodic
/// traffic.
fn next_skip(sample: u32) -> u32 {
    fastrand::u32(1..=sample.saturating_mul(2).saturating_sub(1).max(1))
}

/// The properties of a packet before its first step.
struct About {
    origin: Origin,
    key: FlowKey,
    bytes: usize,
}

/// Records the steps of one packet, reading the clock at each. Its own work is not counted.
struct Recorder {
    id: TraceId,
    clock_ns: u64,
    began: Instant,
    mark: Instant,
    steps: Vec<(Step, u64)>,
}

impl Recorder {
    fn new(id: TraceId, clock_ns: u64) -> Self {
        let steps = Vec::with_capacity(16);
        let began = clock::now();
        Recorder { id, clock_ns, began, mark: began, steps }
    }

    /// Returns the nanoseconds since the last step.
    fn passed(&self) -> u64 {
        ((clock::now() - self.mark).as_nanos() as u64).saturating_sub(self.clock_ns)
    }

    /// Sends the packet's output and returns the trace.
    fn finish(
        self,
        worker: &mut Worker,
        tx: &mut TxQueues,
        out: &mut Outbox,
        about: About,
    ) -> Box<Traced> {
        let (before, drops) = (worker.stats().sent, worker.stats().drops.clone());
        let begun = clock::now();
        send_all(worker, tx, out);
        let ns = ((clock::now() - begun).as_nanos() as u64).saturating_sub(self.clock_ns);
        let stats = worker.stats();
        let dropped = stats.drops.iter().map(|(reason, count)| (reason, count - drops.get(reason)));
        let sent = Sent {
            packets: stats.sent - before,
            ns,
            dropped: dropped.filter(|(_, count)| *count > 0).collect(),
        };
        let About { origin, key, bytes } = about;
        let Recorder { id, began, steps, .. } = self;
        Box::new(Traced { id, worker: worker.id(), began, origin, key, bytes, steps, sent })
    }
}

impl Observer for Recorder {
    fn stage_done(&mut self, stage: Stage) {
        if stage == Stage::Parse && self.steps.is_empty() {
            self.note(|| Step::Parsed);
        }
    }

    fn note(&mut self, step: impl FnOnce() -> Step) {
        let passed = self.passed();
        self.steps.push((step(), passed));
        self.mark = clock::now();
    }

    fn trace(&self) -> Option<TraceId> {
        Some(self.id)
    }
}

#[cfg(test)]
mod tests;
