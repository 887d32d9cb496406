//! Removes connections: ended by one thread, which takes them out; expired; drained.

use super::{Connections, REPLY_ENTRY, Shard, ThreadContext, V6};
use crate::counters::Event;
use crate::management::change::What;
use crate::record::{Record, passed_ms};
use base::Instant;
use std::sync::atomic::Ordering::Relaxed;
use table::{Guard, Id};

/// A wheel that its own thread advanced within this time is left to it, in milliseconds.
const ATTENDED_MS: u64 = 2000;

/// The result of a search for expired connections.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[must_use]
pub(crate) struct Expiry {
    /// The number of connections that expired.
    pub gone: usize,
    /// The budget was used up, so that more may be due. It counts live connections too, whose
    /// deadline moved since they were put on the wheel.
    pub is_behind: bool,
}

impl Connections {
    /// Ends a connection and counts the reason. Returns whether it lived.
    pub fn remove(
        &self,
        guard: &Guard<'_>,
        context: &mut ThreadContext,
        id: Id,
        why: Event,
    ) -> bool {
        let lived = self.record(id).kill();
        if lived {
            self.unlink(guard, context, id, why);
        }
        lived
    }

    pub(super) fn unlink_expired(&self, guard: &Guard<'_>, context: &mut ThreadContext) {
        while let Some(id) = context.expired.pop() {
            self.unlink(guard, context, id, Event::Expired);
        }
    }

    /// Takes a connection that this thread ended out of the table.
    pub fn unlink(&self, guard: &Guard<'_>, context: &mut ThreadContext, id: Id, why: Event) {
        let record = self.record(id);
        if let Some(index) = self.zones.index(record.state().header()) {
            for (entry, hash) in self.entries(&record, id).into_iter().flatten() {
                index.remove(guard, hash, entry);
            }
            index.left(guard);
        }
        context.counters.count(why);
        self.note(context, &record, What::Destroyed(why));
        self.end(context, id);
    }

    /// The index entries of a connection, with their hashes.
    pub(super) fn entries(&self, record: &Record<'_>, id: Id) -> [Option<(Id, u32)>; 2] {
        let (original, reply) = (record.original(), record.reply());
        let second = reply != original.reversed();
        [
            Some((id, original.hash(&self.secrets))),
            second.then(|| (id | REPLY_ENTRY, reply.hash(&self.secrets))),
        ]
    }

    /// Takes the record off the wheel and returns it to the slab; no index has it any more.
    fn end(&self, context: &mut ThreadContext, id: Id) {
        let record = self.record(id);
        if record.state().may_have_alg_state() {
            self.algs.with(|algs| algs.forget(id));
        }
        let shard = usize::from(record.birth().shard);
        if let Some(shard) = self.shards.get(shard) {
            shard.wheel.disarm(self, id);
        }
        context.share.give();
        self.retire(context, id);
    }

    pub(super) fn retire(&self, context: &mut ThreadContext, id: Id) {
        match id & V6 {
            0 => self.v4.retire(&mut context.spares[0], id),
            _ => self.v6.retire(&mut context.spares[1], id & !V6),
        }
    }

    /// Moves a connection to an earlier tick of its wheel.
    pub fn rearm_earlier(&self, record: Record<'_>, id: Id, deadline_ms: u64) {
        if let Some(shard) = self.shards.get(usize::from(record.birth().shard)) {
            shard.wheel.rearm_earlier(self, id, Instant::from_millis(deadline_ms));
        }
    }

    /// Removes expired connections. Examines at most `budget` in each wheel that its own thread has
    /// not advanced lately.
    pub fn expire(
        &self,
        guard: &Guard<'_>,
        context: &mut ThreadContext,
        now: Instant,
        budget: usize,
    ) -> Expiry {
        let mut all = Expiry::default();
        let now_ms = passed_ms(now);
        let left_alone = |shard: &&Shard| {
            let attended = shard.attended_ms.load(Relaxed);
            (attended == 0 || now_ms.saturating_sub(attended) > ATTENDED_MS)
                && shard.wheel.armed() > 0
        };
        for shard in self.used_shards().iter().filter(left_alone) {
            let one = self.expire_shard(guard, context, shard, now, budget);
            all = Expiry { gone: all.gone + one.gone, is_behind: all.is_behind | one.is_behind };
        }
        all
    }

    /// [`Self::expire`] for this thread's own wheel, which it owns from now on.
    pub fn expire_own(
        &self,
        guard: &Guard<'_>,
        context: &mut ThreadContext,
        now: Instant,
        budget: usize,
    ) -> Expiry {
        let shard = &self.shards[usize::from(context.shard)];
        shard.attended_ms.store(passed_ms(now), Relaxed);
        self.expire_shard(guard, context, shard, now, budget)
    }

    fn expire_shard(
        &self,
        guard: &Guard<'_>,
        context: &mut ThreadContext,
        shard: &Shard,
        now: Instant,
        budget: usize,
    ) -> Expiry {
        let now_ms = passed_ms(now);
        let mut due = std::mem::take(&mut context.expired);
        let left = shard.wheel.advance(self, now, budget, |id| {
            let record = self.record(id);
            let life = record.life();
            if !life.is_over(now_ms) {
                return Some(Instant::from_millis(life.deadline_ms()));
            }
            if record.claim(life) {
                due.push(id);
            }
            None
        });
        // The records are in the cache by now, their index buckets are not.
        for &id in &due {
            let record = self.record(id);
            if let Some(index) = self.zones.index(record.state().header()) {
                index.prefetch(record.original().hash(&self.secrets));
            }
        }
        let gone = due.len();
        for id in due.drain(..) {
            self.unlink(guard, context, id, Event::Expired);
        }
        context.expired = due;
        Expiry { gone, is_behind: left == 0 }
    }

    /// Frees the memory of flushed zones, of about `budget` connections. Returns whether more is
    /// left.
    pub fn drain(&self, guard: &Guard<'_>, context: &mut ThreadContext, budget: usize) -> bool {
        self.zones.drain(guard, budget, |index, entry| {
            let record = self.record(entry);
            // The original entry takes the whole connection out. A reply's entry may be visited
            // after that, when its id may be another connection's.
            if entry & REPLY_ENTRY != 0
                || record.state().header() != index.number()
                || !record.kill()
            {
                return;
            }
            let entries = self.entries(&record, entry);
            if let Some((reply_entry, hash)) = entries[1] {
                index.remove(guard, hash, reply_entry);
            }
            // The flush of the zone counted it already.
            self.note(context, &record, What::Destroyed(Event::Flushed));
            self.end(context, entry);
        })
    }
}
