//! Packets that a worker does not send anywhere: those that go up to the control side, and those
//! that are dropped.

use crate::laps::Laps;
use crate::outbox::Outbox;
use crate::step::Step;
use crate::worker::Worker;
use base::Instant;
use flow::{DropReason, Frame, TraceId, Upcall, UpcallKind};

impl Worker {
    /// Sends a frame, if there is one, to the control side, or drops it where the queue is full.
    pub(crate) fn miss(
        &mut self,
        now: Instant,
        frame: &mut Frame,
        out: &mut Outbox,
        laps: &mut impl Laps,
    ) {
        if frame.packet.is_empty() {
            return;
        }
        let is_queued = self.send_up(now, frame, UpcallKind::Miss, out, laps.trace());
        laps.note(|| Step::Missed { recirc_id: frame.key.recirc_id(), is_queued });
        if is_queued {
            self.stats.misses += 1;
            self.pool.give(frame.packet.take());
        } else {
            self.stats.lost += 1;
            self.refuse(frame.packet.take(), DropReason::UpcallQueueFull, laps);
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
        let upcall = Upcall {
            worker: self.id,
            kind,
            packet: frame.packet.compact_copy(),
            key: frame.key.clone(),
            received: now,
            queued: self.clock.map_or(now, |clock| clock()),
            trace,
        };
        let pushed = self.upcalls.push(upcall);
        out.wake_control |= pushed == Ok(true);
        pushed.is_ok()
    }

    /// [`Self::drop_packet`], told of.
    pub(crate) fn refuse(
        &mut self,
        packet: packet::Packet,
        reason: DropReason,
        laps: &mut impl Laps,
    ) {
        self.drop_packet(packet, reason);
        laps.note(|| Step::Dropped(reason));
    }
}
