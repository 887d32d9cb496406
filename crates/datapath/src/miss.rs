//! Packets without an output: upcalls and drops.

use crate::observer::Observer;
use crate::outbox::Outbox;
use crate::pending::Waiting;
use crate::step::Step;
use crate::walk;
use crate::worker::Worker;
use base::limits::UPCALLS_PER_PORT;
use base::{Instant, PortNo};
use classifier::Handle;
use flow::{DropReason, FlowKey, Frame, TraceId, Upcall, UpcallKind};

/// Maximum number of keys whose memory is kept: the number of upcalls that one port may queue.
const SPARE_KEYS: usize = UPCALLS_PER_PORT;

impl Worker {
    /// Sends an upcall for a frame, if there is one, or drops it if the queue is full.
    pub(crate) fn miss(
        &mut self,
        now: Instant,
        frame: &mut Frame,
        out: &mut Outbox,
        observer: &mut impl Observer,
    ) {
        if frame.packet.is_empty() {
            return;
        }
        let hash = self.miss_hash(&frame.key);
        if let Some(place) = self.place_before(hash, &frame.key) {
            return self.wait_behind(place, frame, observer);
        }
        let is_queued = self.pending.has_place()
            && self.send_up(now, frame, UpcallKind::Miss, out, observer.trace());
        observer.note(|| Step::Missed { recirc_id: frame.key.recirc_id(), is_queued });
        if is_queued {
            self.pending.begin(hash, frame, self.epoch);
            self.stats.misses += 1;
            self.pool.give(frame.packet.take());
        } else {
            self.stats.lost += 1;
            self.refuse(frame.packet.take(), DropReason::UpcallQueueFull, observer);
        }
    }

    /// Queues an upcall with a copy of the frame. Returns whether there was room.
    pub(crate) fn send_up(
        &mut self,
        now: Instant,
        frame: &Frame,
        kind: UpcallKind,
        out: &mut Outbox,
        trace: Option<TraceId>,
    ) -> bool {
        let Ok(reserved) = self.upcalls.reserve(now, self.id, &kind, &frame.key) else {
            return false;
        };
        let clock = self.clock;
        let queued = *self.queued.get_or_insert_with(|| clock.map_or(now, |clock| clock()));
        let upcall = Upcall {
            worker: self.id,
            kind,
            packet: self.pool.compact_copy(&frame.packet),
            key: self.copy_key(&frame.key),
            received: now,
            queued,
            trace,
        };
        if let Some(tell) = self.on_queued {
            tell(&upcall);
        }
        out.wake_control |= self.upcalls.push(&reserved, upcall);
        if let Some(evicted) = reserved.evicted {
            self.give_up(evicted);
        }
        true
    }

    /// Whether some of these frames, which hit a flow, may have to wait behind earlier upcalls: those sent
    /// before the flow was installed, or in another state of their connection.
    #[inline]
    pub(crate) fn holds_back(&self, flow: Handle, frames: &[Frame]) -> bool {
        !self.pending.is_empty()
            && (self.flows.get(flow).is_some_and(|flow| self.pending.is_young(flow.version))
                || frames.iter().any(|it| self.pending.find_other_state(&it.key).is_some()))
    }

    /// The miss that a packet must wait behind, where no flow matches it or a young one: a miss with its key, or
    /// of its connection in another state or in a later pass.
    fn place_before(&self, hash: u64, key: &FlowKey) -> Option<u32> {
        let Worker { pending, .. } = self;
        let same = pending.find(hash, key);
        same.or_else(|| pending.find_other_state(key)).or_else(|| pending.find_tracked(key))
    }

    /// Makes a packet wait behind an unanswered miss, if there is one. Returns whether it waits.
    pub(crate) fn waits(&mut self, frame: &mut Frame, observer: &mut impl Observer) -> bool {
        let place = self.place_before(self.miss_hash(&frame.key), &frame.key);
        if let Some(place) = place {
            self.wait_behind(place, frame, observer);
        }
        place.is_some()
    }

    fn wait_behind(&mut self, place: u32, frame: &mut Frame, observer: &mut impl Observer) {
        let is_queued = self.pending.has_room(place);
        observer.note(|| Step::Missed { recirc_id: frame.key.recirc_id(), is_queued });
        if is_queued {
            self.stats.misses += 1;
            self.pending.hold(place, frame);
            self.pool.give(frame.packet.take());
        } else {
            self.stats.lost += 1;
            self.refuse(frame.packet.take(), DropReason::UpcallQueueFull, observer);
        }
    }

    /// An upcall was evicted from the queue. Drops the packets that wait for its answer.
    fn give_up(&mut self, evicted: Upcall) {
        let Upcall { worker, kind, key, packet, .. } = evicted;
        match kind {
            UpcallKind::Miss if worker == self.id => {
                self.end_evicted(&key);
                self.keep_key(key);
            }
            UpcallKind::Miss => self.upcalls.tell_evicted(worker, *key),
            UpcallKind::Controller(_) | UpcallKind::Protocol(_) => {}
        }
        self.lose(packet);
    }

    /// A miss will not be answered. Drops the packets that wait behind it.
    fn end_evicted(&mut self, key: &FlowKey) {
        let ended = self.pending.end(self.miss_hash(key), key);
        ended.packets.into_iter().for_each(|it| self.lose(it.packet));
    }

    /// Ends the misses that upcalls of other workers evicted.
    pub(crate) fn end_misses_evicted_by_others(&mut self) {
        if self.pending.is_empty() {
            return;
        }
        let mut evicted = Vec::new();
        self.upcalls.take_evicted(self.id, &mut evicted);
        evicted.iter().for_each(|key| self.end_evicted(key));
    }

    /// Copies the key of an upcall, reusing memory of an answered one.
    fn copy_key(&mut self, key: &FlowKey) -> Box<FlowKey> {
        match self.spare_keys.pop() {
            Some(mut spare) => {
                spare.as_mut().clone_from(key);
                spare
            }
            None => Box::new(key.clone()),
        }
    }

    /// Keeps the memory of an upcall's key for the next one.
    pub(crate) fn keep_key(&mut self, key: Box<FlowKey>) {
        if self.spare_keys.len() < SPARE_KEYS {
            self.spare_keys.push(key);
        }
    }

    /// A port was removed, and its upcalls will not be answered. Packets of other ports that waited behind
    /// them go on.
    pub fn remove_port(&mut self, now: Instant, port: PortNo, out: &mut Outbox) {
        for (Waiting { packet, received, .. }, key) in self.pending.end_port(port) {
            if key.in_port() == port {
                self.lose(packet);
                continue;
            }
            match Frame::resume(packet, &key) {
                Ok(frame) => {
                    let mut frame = Frame { received, ..frame };
                    walk::enter_again(self, now, &mut frame, out, &mut ());
                }
                Err((packet, reason)) => self.drop_packet(packet, reason),
            }
        }
    }

    /// Ends the wait for all answers, before the worker is replaced. Returns how many waiting packets are
    /// lost, by port.
    pub fn abandon_misses(&mut self) -> Vec<(PortNo, u64)> {
        self.pending.end_all()
    }

    /// Gives up on overdue answers.
    pub(crate) fn end_late_misses(&mut self) {
        self.end_misses_evicted_by_others();
        for waiting in self.pending.tick() {
            self.lose(waiting.packet);
        }
    }

    fn lose(&mut self, packet: packet::Packet) {
        self.stats.lost += 1;
        self.drop_packet(packet, DropReason::UpcallQueueFull);
    }

    /// The hash by which misses are found.
    pub(crate) fn miss_hash(&self, key: &FlowKey) -> u64 {
        u64::from(classifier::hash(key, self.seed)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    /// [`Self::drop_packet`], reported to the observer.
    pub(crate) fn refuse(
        &mut self,
        packet: packet::Packet,
        reason: DropReason,
        observer: &mut impl Observer,
    ) {
        self.drop_packet(packet, reason);
        observer.note(|| Step::Dropped(reason));
    }
}
