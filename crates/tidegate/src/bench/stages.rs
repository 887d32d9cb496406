//! Where a packet's time goes, stage by stage.
//!
//! The worker has no clock in it, so the same traffic is walked once more outside of it, over the
//! same flows and the same connections, with the same parts in the same order and a look at the
//! clock after each stage of each batch. The looks themselves cost about a nanosecond a packet
//! each; what the worker does besides (counting, credit to flows) is in none of the stages.

use super::switch::{Cable, Switch};
use crate::clock;
use ::conntrack::Tracker;
use ::datapath::WorkerConfig;
use base::Instant;
use base::limits::{BATCH_SIZE, RECIRC_DEPTH};
use classifier::{ExactCache, Handle, MegaflowTable};
use flow::{Action, Frame};
use packet::{Batch, Packet, Pool};
use port::PortError;
use serde::Serialize;
use std::sync::Arc;

/// How many packets are walked.
const PACKETS: u64 = if cfg!(test) { 2_000 } else { 2_000_000 };

/// Nanoseconds a packet in each stage.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct Stages {
    /// Receiving from the memory port, and handing the packet to the other.
    pub ports: f64,
    /// Reading the headers.
    pub parse: f64,
    /// Finding the flow, once for each pass through the tables.
    pub lookup: f64,
    /// Connection tracking, address translation included.
    pub connection: f64,
    /// Carrying out everything else.
    pub actions: f64,
}

impl Stages {
    /// All stages together.
    pub fn total(&self) -> f64 {
        self.ports + self.parse + self.lookup + self.connection + self.actions
    }

    /// Each stage by its name, as a part of the whole.
    pub fn shares(&self) -> [(&'static str, f64); 5] {
        let of = |stage: f64| stage / self.total();
        [
            ("ports", of(self.ports)),
            ("parse", of(self.parse)),
            ("lookup", of(self.lookup)),
            ("connection", of(self.connection)),
            ("actions", of(self.actions)),
        ]
    }

    /// Walks the traffic; `None` where a flow does something that only the worker can do.
    pub fn measure(switch: &Switch, cables: &mut [Cable; 2]) -> Result<Option<Stages>, PortError> {
        let Some(mut walk) = Walk::new(switch) else { return Ok(None) };
        let mut packets = 0;
        while packets < PACKETS {
            for cable in &mut *cables {
                packets += walk.batch(cable)?;
            }
        }
        Ok(Some(walk.stages.each(packets)))
    }

    fn each(&self, packets: u64) -> Stages {
        let each = |stage: f64| stage / packets as f64;
        Stages {
            ports: each(self.ports),
            parse: each(self.parse),
            lookup: each(self.lookup),
            connection: each(self.connection),
            actions: each(self.actions),
        }
    }
}

/// Whether a flow's steps are those that a [`Walk`] can carry out.
fn can_walk(actions: &[Action]) -> bool {
    let known = |action: &Action| {
        matches!(
            action,
            Action::Ct(_)
                | Action::CtClear
                | Action::Recirc(_)
                | Action::Output(_)
                | Action::Drop(_)
        )
    };
    // A step that takes the packet away must be the last.
    let takes = |action: &Action| matches!(action, Action::Recirc(_) | Action::Output(_));
    actions.iter().all(known) && !actions.iter().rev().skip(1).any(takes)
}

struct Walk {
    tracker: Tracker,
    flows: MegaflowTable<Arc<[Action]>>,
    exact: ExactCache,
    exact_insert_inverse: u32,
    pool: Pool,
    random: fastrand::Rng,
    pass: Vec<Frame>,
    again: Vec<Frame>,
    sent: Vec<Packet>,
    hits: Vec<Option<Handle>>,
    mark: Instant,
    stages: Stages,
}

impl Walk {
    fn new(switch: &Switch) -> Option<Walk> {
        if !switch.flows().iter().all(|flow| can_walk(&flow.actions)) {
            return None;
        }
        let mut flows = MegaflowTable::new(fastrand::u64(..));
        for flow in switch.flows() {
            let _ = flows.insert(&flow.matching, Arc::clone(&flow.actions));
        }
        let config = WorkerConfig::default();
        Some(Walk {
            tracker: switch.conntrack().tracker().ok()?,
            flows,
            exact: ExactCache::new(),
            exact_insert_inverse: config.exact_insert_inverse,
            pool: Pool::new(config.pool_packets),
            random: fastrand::Rng::new(),
            pass: Vec::with_capacity(BATCH_SIZE),
            again: Vec::with_capacity(BATCH_SIZE),
            sent: Vec::with_capacity(BATCH_SIZE),
            hits: Vec::with_capacity(BATCH_SIZE),
            mark: clock::now(),
            stages: Stages::default(),
        })
    }

    /// The time since the last lap, in nanoseconds.
    fn lap(&mut self) -> f64 {
        let now = clock::now();
        let passed = now - std::mem::replace(&mut self.mark, now);
        passed.as_nanos() as f64
    }

    fn batch(&mut self, cable: &mut Cable) -> Result<u64, PortError> {
        let mut batch = Batch::new();
        self.lap();
        cable.rx.receive(&mut self.pool, &mut batch)?;
        let received = batch.len() as u64;
        self.stages.ports += self.lap();
        let frames = batch.drain(..).filter_map(|it| Frame::parse(it, cable.port).ok());
        self.pass.extend(frames);
        self.stages.parse += self.lap();
        for _ in 0..RECIRC_DEPTH {
            if self.pass.is_empty() {
                break;
            }
            self.look_up();
            self.stages.lookup += self.lap();
            self.carry_out();
        }
        self.lap();
        while !self.sent.is_empty() {
            let count = self.sent.len().min(BATCH_SIZE);
            batch.extend(self.sent.drain(..count));
            let _ = cable.tx.send(&mut self.pool, &mut batch);
        }
        self.stages.ports += self.lap();
        Ok(received)
    }

    /// As the worker does: the exact-match cache, or else the megaflows.
    fn look_up(&mut self) {
        let Walk { pass, hits, exact, flows, random, exact_insert_inverse, .. } = self;
        let find = |frame: &Frame| {
            let hash = classifier::hash(&frame.key, 7);
            let hit = exact.lookup(&frame.key, hash, flows);
            hit.or_else(|| {
                let hit = flows.lookup(&frame.key)?;
                let random = random.u32(..);
                exact.insert(&frame.key, hash, hit, flows, random, *exact_insert_inverse);
                Some(hit)
            })
        };
        hits.clear();
        hits.extend(pass.iter().map(find));
    }

    /// Carries out the flows' steps run by run; what is looked up again becomes the next pass.
    fn carry_out(&mut self) {
        let (mut pass, hits) = (std::mem::take(&mut self.pass), std::mem::take(&mut self.hits));
        let mut start = 0;
        for run in hits.chunk_by(|a, b| a == b) {
            let frames = &mut pass[start..start + run.len()];
            start += run.len();
            let hit = run.first().copied().flatten();
            let actions = hit.and_then(|handle| self.flows.get(handle).map(Arc::clone));
            self.run(frames, actions.as_deref().unwrap_or_default());
        }
        for frame in pass.drain(..).filter(|frame| !frame.packet.is_empty()) {
            self.pool.give(frame.packet);
        }
        self.pass = std::mem::replace(&mut self.again, pass);
        self.hits = hits;
        self.stages.actions += self.lap();
    }

    fn run(&mut self, frames: &mut [Frame], actions: &[Action]) {
        for action in actions {
            match action {
                Action::Ct(ct) => {
                    self.stages.actions += self.lap();
                    self.tracker.execute(self.mark, ct, frames);
                    self.stages.connection += self.lap();
                }
                Action::CtClear => frames.iter_mut().for_each(Frame::clear_ct),
                Action::Recirc(id) => {
                    for frame in &mut *frames {
                        let Frame { ref mut packet, ref key, layers, connection } = *frame;
                        let packet = packet.take();
                        let mut again = Frame { packet, key: key.clone(), layers, connection };
                        again.key.set_recirc_id(*id);
                        self.again.push(again);
                    }
                }
                Action::Output(_) => {
                    self.sent.extend(frames.iter_mut().map(|frame| frame.packet.take()));
                }
                // Dropped packets, and those of other steps, which there are none of here.
                _ => {}
            }
        }
    }
}
