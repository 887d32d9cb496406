//! The pipeline: batches and commands come to a worker here. A batch is received and parsed; packets that hit
//! the unified cache are forwarded, all others walk.

use crate::cached;
use crate::observer::{Observer, Stage};
use crate::outbox::Outbox;
use crate::pending::{Ended, Waiting};
use crate::walk;
use crate::worker::Worker;
use base::{Instant, PortNo};
use flow::{DropReason, Execute, FlowCommand, Frame};
use packet::Batch;
use std::sync::Arc;

impl Worker {
    /// Takes a batch received on `in_port` through the whole datapath. The batch is empty afterwards; the
    /// output is in `out`.
    pub fn receive(&mut self, now: Instant, in_port: PortNo, batch: &mut Batch, out: &mut Outbox) {
        self.receive_timed(now, in_port, batch, out, &mut ());
    }

    /// [`Self::receive`] with an observer.
    pub fn receive_timed(
        &mut self,
        now: Instant,
        in_port: PortNo,
        batch: &mut Batch,
        out: &mut Outbox,
        observer: &mut impl Observer,
    ) {
        self.stats.received += batch.len() as u64;
        self.queued = None;
        self.end_misses_evicted_by_others();
        receive(self, now, in_port, batch, out, observer);
    }

    /// Executes a command of the control side.
    pub fn command(&mut self, now: Instant, command: FlowCommand, out: &mut Outbox) {
        match command {
            FlowCommand::Put(put) => {
                self.mark(put.id);
                self.put(put.id, put.matching.key(), put.matching.mask(), put.actions);
                self.tell_of_gone(now, out);
            }
            FlowCommand::Delete(id) => {
                self.delete(id);
                self.tell_of_gone(now, out);
            }
            FlowCommand::Mark(id) => {
                self.mark(id);
                self.tell_of_gone(now, out);
            }
            FlowCommand::Collect => self.begin_dump(now, out),
            FlowCommand::Execute(asked) => self.execute(now, asked, out, &mut ()),
        }
    }

    /// Installs the flow of an answer, if it has one, and executes actions on its packet, with an observer.
    pub fn execute(
        &mut self,
        now: Instant,
        asked: Execute,
        out: &mut Outbox,
        observer: &mut impl Observer,
    ) {
        self.queued = None;
        let Execute { packet, key, actions, flow, .. } = asked;
        if let Some(flow) = flow {
            self.install(flow.id, &key, &flow.mask, Arc::clone(&actions));
            self.tell_of_gone(now, out);
        }
        // Packets that wait for this answer follow its packet. If that misses again in a later pass, they
        // wait behind it again.
        let ended = match self.pending.is_empty() {
            true => Ended::default(),
            false => self.pending.end(self.miss_hash(&key), &key),
        };
        match Frame::resume(packet, &key) {
            Ok(frame) => {
                let mut frame = Frame { received: ended.received, ..frame };
                walk::execute(self, now, &mut frame, &actions, out, observer);
            }
            Err((packet, reason)) => self.refuse(packet, reason, observer),
        }
        for Waiting { packet, key: own, received } in ended.packets {
            match Frame::resume(packet, own.as_deref().unwrap_or(&key)) {
                Ok(frame) => {
                    let mut frame = Frame { received, ..frame };
                    walk::enter_again(self, now, &mut frame, out, observer);
                }
                Err((packet, reason)) => self.refuse(packet, reason, observer),
            }
        }
        self.keep_key(key);
    }
}

/// Takes a batch from one port through the datapath.
fn receive(
    worker: &mut Worker,
    now: Instant,
    in_port: PortNo,
    batch: &mut Batch,
    out: &mut Outbox,
    observer: &mut impl Observer,
) {
    let Some(mut burst) = worker.burst.take() else { return };
    burst.read(in_port, batch, |it| worker.refuse(it, DropReason::Malformed, observer));
    observer.stage_done(Stage::Parse);
    if worker.traces_batch() {
        cached::receive(worker, now, &mut burst, out, observer);
    } else {
        let all = 0..burst.count;
        observer.run(all.len(), false);
        walk::walk_burst(worker, now, &mut burst, all, false, out, observer);
    }
    worker.burst = Some(burst);
}
