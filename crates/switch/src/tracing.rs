//! Packets of a running switch whose steps are written down: which ones, and what became of them.
//!
//! A packet that is picked goes through the datapath alone, those before it first, so that every
//! step and every nanosecond is its own. No other packet's way changes.

use super::worker_ports::{TxQueues, send_all};
use base::{Instant, PortNo, WorkerId};
use datapath::{Observer, Outbox, Stage, Step, Worker};
use flow::{DropReason, Execute, FlowKey, Frame, Match, TraceId};
use packet::{Batch, Packet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Looks at the clock by which is measured what one costs.
const LOOKS: u32 = 1000;

/// Which packets are wanted, for all workers.
#[derive(Debug)]
pub struct Order {
    filter: Match,
    /// One packet in so many is looked at, by chance.
    sample: u32,
    wanted: u32,
    taken: AtomicU32,
    /// What a look at the clock costs, which is taken off each step.
    clock_ns: u64,
}

/// A packet, and what became of it.
#[derive(Debug)]
pub struct Traced {
    /// Its number.
    pub id: TraceId,
    /// The worker that had it.
    pub worker: WorkerId,
    /// When its first step began.
    pub began: Instant,
    /// Where it came from.
    pub origin: Origin,
    /// What it was then.
    pub key: FlowKey,
    /// Its length.
    pub bytes: usize,
    /// What was done, and how many nanoseconds it took.
    pub steps: Vec<(Step, u64)>,
    /// What the ports did with what they were given of it.
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
        /// With so many others.
        batch: usize,
        /// Its share of the time that receiving them took.
        ns: u64,
    },
    /// The control side, which was asked for a flow and sends the packet back with that.
    Answered,
}

/// What was sent from ports.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Sent {
    /// Packets that ports took.
    pub packets: u64,
    /// How long that took.
    pub ns: u64,
    /// Those that they did not take.
    pub dropped: Vec<(DropReason, u64)>,
}

/// Picks packets for one worker.
#[derive(Debug)]
pub struct Picker {
    order: Arc<Order>,
    /// Packets until the next one is looked at.
    skip: u32,
}

/// Where a batch came from.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// The port.
    pub port: PortNo,
    /// The queue.
    pub queue: u16,
    /// When the queue was asked.
    pub asked: Instant,
}

impl Order {
    /// So many packets that match, of which one in `sample` is looked at.
    pub fn new(filter: Match, sample: u32, wanted: u32) -> Self {
        let begun = clock::now();
        for _ in 0..LOOKS {
            std::hint::black_box(clock::now());
        }
        let clock_ns = (clock::now() - begun).as_nanos() as u64 / u64::from(LOOKS);
        Order { filter, sample: sample.max(1), wanted, taken: AtomicU32::new(0), clock_ns }
    }

    /// All packets were found.
    pub fn is_done(&self) -> bool {
        self.taken.load(Relaxed) >= self.wanted
    }

    /// How many packets are wanted.
    pub fn wanted(&self) -> u32 {
        self.wanted
    }

    /// A number for one more packet, if one more is wanted.
    fn take(&self) -> Option<TraceId> {
        let more = |taken| (taken < self.wanted).then_some(taken + 1);
        self.taken.fetch_update(Relaxed, Relaxed, more).ok().map(|taken| TraceId(taken + 1))
    }
}

impl Picker {
    /// Picks what is wanted.
    pub fn new(order: Arc<Order>) -> Self {
        let skip = next_skip(order.sample);
        Picker { order, skip }
    }

    /// Takes a batch through the datapath, and tells of the packets that were picked. What those
    /// leave to be sent is sent at once.
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

    /// Carries out the control side's steps for a packet whose steps are written down.
    pub fn execute(
        &self,
        now: Instant,
        (id, asked): (TraceId, Execute),
        worker: &mut Worker,
        (tx, out): (&mut TxQueues, &mut Outbox),
    ) -> Box<Traced> {
        send_all(worker, tx, out);
        let (key, bytes) = (asked.key.clone(), asked.packet.len());
        let mut recorder = Recorder::new(id, self.order.clock_ns);
        worker.execute(now, asked, out, &mut recorder);
        recorder.finish(worker, tx, out, About { origin: Origin::Answered, key, bytes })
    }

    /// Whether this is a packet that is wanted; its number and what it is.
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
            // A frame without a whole Ethernet header has nothing but the port.
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

/// One in `sample` on average, but never in step with traffic that repeats itself.
fn next_skip(sample: u32) -> u32 {
    fastrand::u32(1..=sample.saturating_mul(2).saturating_sub(1).max(1))
}

/// What is known of a packet before its first step.
struct About {
    origin: Origin,
    key: FlowKey,
    bytes: usize,
}

/// Writes down the steps of one packet, and looks at the clock at each. Its own work is not counted.
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

    /// Nanoseconds since the last step.
    fn passed(&self) -> u64 {
        ((clock::now() - self.mark).as_nanos() as u64).saturating_sub(self.clock_ns)
    }

    /// Sends what the packet left to be sent.
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
