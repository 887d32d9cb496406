//! Packets that a worker does not send anywhere: those that go up to the control side, and those
//! that are dropped.

use crate::observer::Observer;
use crate::outbox::Outbox;
use crate::step::Step;
use crate::worker::Worker;
use base::Instant;
use classifier::Handle;
use flow::{DropReason, FlowKey, Frame, TraceId, Upcall, UpcallKind};

impl Worker {
    /// Sends a frame, if there is one, to the control side, or drops it where the queue is full.
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
        if let Some(place) = self.pending.find(hash, &frame.key) {
            return self.wait_behind(place, frame, observer);
        }
        let is_queued = self.send_up(now, frame, UpcallKind::Miss, out, observer.trace());
        observer.note(|| Step::Missed { recirc_id: frame.key.recirc_id(), is_queued });
        if is_queued {
            self.pending.begin(hash, &frame.key, self.epoch);
            self.stats.misses += 1;
            self.pool.give(frame.packet.take());
        } else {
            self.stats.lost += 1;
            self.refuse(frame.packet.take(), DropReason::UpcallQueueFull, observer);
        }
    }

    /// Queues a copy of the frame for the control side; says whether there was room.
    pub(crate) fn send_up(
        &mut self,
        now: Instant,
        frame: &Frame,
        kind: UpcallKind,
        out: &mut Outbox,
        trace: Option<TraceId>,
    ) -> bool {
        let Ok(reserved) = self.upcalls.reserve(self.id, &kind, &frame.key) else { return false };
        let clock = self.clock;
        let queued = *self.queued.get_or_insert_with(|| clock.map_or(now, |clock| clock()));
        let upcall = Upcall {
            worker: self.id,
            kind,
            packet: frame.packet.compact_copy(),
            key: frame.key.clone(),
            received: now,
            queued,
            trace,
        };
        out.wake_control |= self.upcalls.push(&reserved, upcall);
        if let Some(evicted) = reserved.evicted {
            self.give_up(evicted);
        }
        true
    }

    /// Whether packets of a flow may have to wait behind others that went up before it was there.
    #[inline]
    pub(crate) fn holds_back(&self, flow: Handle) -> bool {
        !self.pending.is_empty()
            && self.flows.get(flow).is_some_and(|flow| self.pending.is_young(flow.version))
    }

    /// Has a packet wait where another one with its key went up and is not answered; says whether it
    /// does.
    pub(crate) fn waits(&mut self, frame: &mut Frame, observer: &mut impl Observer) -> bool {
        let place = self.pending.find(self.miss_hash(&frame.key), &frame.key);
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
            self.pending.hold(place, frame.packet.compact_copy());
            self.pool.give(frame.packet.take());
        } else {
            self.stats.lost += 1;
            self.refuse(frame.packet.take(), DropReason::UpcallQueueFull, observer);
        }
    }

    /// An upcall lost its place in the queue, and with it the packets that wait for its answer.
    fn give_up(&mut self, evicted: Upcall) {
        if evicted.worker == self.id && evicted.kind == UpcallKind::Miss {
            let waiting = self.pending.end(self.miss_hash(&evicted.key), &evicted.key);
            waiting.into_iter().for_each(|packet| self.lose(packet));
        }
        self.lose(evicted.packet);
    }

    /// Gives up waiting for answers that should have come long ago.
    pub(crate) fn end_late_misses(&mut self) {
        for packet in self.pending.tick() {
            self.lose(packet);
        }
    }

    fn lose(&mut self, packet: packet::Packet) {
        self.stats.lost += 1;
        self.drop_packet(packet, DropReason::UpcallQueueFull);
    }

    /// What misses are found by.
    pub(crate) fn miss_hash(&self, key: &FlowKey) -> u64 {
        u64::from(classifier::hash(key, self.seed)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    /// [`Self::drop_packet`], told of.
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
