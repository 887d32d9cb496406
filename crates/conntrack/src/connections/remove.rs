//! How connections go: ended by one thread, which then takes them out; expired; drained.

use super::{Connections, REPLY_ENTRY, Shard, Tools, V6};
use crate::change::What;
use crate::counters::Event;
use crate::record::{Record, passed_ms};
use base::Instant;
use std::sync::atomic::Ordering::Relaxed;
use table::{Id, Visit};

/// A wheel that its thread looked after no longer ago is left to it, in milliseconds.
const ATTENDED_MS: u64 = 2000;

/// What came of looking for connections whose time ran out.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[must_use]
pub(crate) struct Expiry {
    /// Connections that went.
    pub gone: usize,
    /// The budget was used up, so that there may be more: many that were looked at may live on,
    /// since whoever is asked again and again is only armed anew when it is looked at.
    pub is_behind: bool,
}

impl Connections {
    /// Ends a connection and counts why; whether it lived.
    pub fn remove(&self, visit: &Visit<'_>, tools: &mut Tools, id: Id, why: Event) -> bool {
        let lived = self.record(id).kill();
        if lived {
            self.bury(visit, tools, id, why);
        }
        lived
    }

    pub(super) fn bury_expired(&self, visit: &Visit<'_>, tools: &mut Tools) {
        while let Some(id) = tools.expired.pop() {
            self.bury(visit, tools, id, Event::Expired);
        }
    }

    /// Takes a connection out that this thread ended.
    pub fn bury(&self, visit: &Visit<'_>, tools: &mut Tools, id: Id, why: Event) {
        let record = self.record(id);
        if let Some(index) = self.zones.index(record.state().header()) {
            for (entry, hash) in self.entries(&record, id).into_iter().flatten() {
                index.remove(visit, hash, entry);
            }
            index.left(visit);
        }
        tools.counters.count(why);
        self.note(tools, &record, What::Destroyed(why));
        self.end(tools, id);
    }

    /// The index entries of a connection, with the hashes under which they stand.
    pub(super) fn entries(&self, record: &Record<'_>, id: Id) -> [Option<(Id, u32)>; 2] {
        let (original, reply) = (record.original(), record.reply());
        let second = reply != original.reversed();
        [
            Some((id, original.hash(&self.secrets))),
            second.then(|| (id | REPLY_ENTRY, reply.hash(&self.secrets))),
        ]
    }

    /// Off the wheel and back among the free records, once no index leads to it.
    fn end(&self, tools: &mut Tools, id: Id) {
        let record = self.record(id);
        if record.state().is_known_to_gateways() {
            self.gateways.with(|gateways| gateways.forget(id));
        }
        let shard = usize::from(record.birth().shard);
        if let Some(shard) = self.shards.get(shard) {
            shard.wheel.disarm(self, id);
        }
        tools.share.give();
        self.retire(tools, id);
    }

    pub(super) fn retire(&self, tools: &mut Tools, id: Id) {
        match id & V6 {
            0 => self.v4.retire(&mut tools.spares[0], id),
            _ => self.v6.retire(&mut tools.spares[1], id & !V6),
        }
    }

    /// The wheel must look at a connection sooner than it would.
    pub fn hasten(&self, record: Record<'_>, id: Id, deadline_ms: u64) {
        if let Some(shard) = self.shards.get(usize::from(record.birth().shard)) {
            shard.wheel.hasten(self, id, Instant::from_millis(deadline_ms));
        }
    }

    /// Removes connections whose time ran out, looking at no more than `budget` in each wheel that
    /// nobody else looks after.
    pub fn expire(
        &self,
        visit: &Visit<'_>,
        tools: &mut Tools,
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
            let one = self.expire_shard(visit, tools, shard, now, budget);
            all = Expiry { gone: all.gone + one.gone, is_behind: all.is_behind | one.is_behind };
        }
        all
    }

    /// The same with this thread's own wheel, which it looks after from now on.
    pub fn expire_own(
        &self,
        visit: &Visit<'_>,
        tools: &mut Tools,
        now: Instant,
        budget: usize,
    ) -> Expiry {
        let shard = &self.shards[usize::from(tools.shard)];
        shard.attended_ms.store(passed_ms(now), Relaxed);
        self.expire_shard(visit, tools, shard, now, budget)
    }

    fn expire_shard(
        &self,
        visit: &Visit<'_>,
        tools: &mut Tools,
        shard: &Shard,
        now: Instant,
        budget: usize,
    ) -> Expiry {
        let now_ms = passed_ms(now);
        let mut due = std::mem::take(&mut tools.expired);
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
        // Those that were looked at are in the cache, and the buckets that lead to them are not.
        for &id in &due {
            let record = self.record(id);
            if let Some(index) = self.zones.index(record.state().header()) {
                index.prefetch(record.original().hash(&self.secrets));
            }
        }
        let gone = due.len();
        for id in due.drain(..) {
            self.bury(visit, tools, id, Event::Expired);
        }
        tools.expired = due;
        Expiry { gone, is_behind: left == 0 }
    }

    /// Hands back the memory of flushed zones, about `budget` connections of it; whether there is
    /// more to do.
    pub fn drain(&self, visit: &Visit<'_>, tools: &mut Tools, budget: usize) -> bool {
        self.zones.drain(visit, budget, |index, entry| {
            let record = self.record(entry);
            // A connection is taken out with its first entry; the entry of its reply may be met
            // alone when that is over, and its id may be another connection's by then.
            if entry & REPLY_ENTRY != 0
                || record.state().header() != index.number()
                || !record.kill()
            {
                return;
            }
            let entries = self.entries(&record, entry);
            if let Some((reply_entry, hash)) = entries[1] {
                index.remove(visit, hash, reply_entry);
            }
            // It was counted when its zone was flushed.
            self.note(tools, &record, What::Destroyed(Event::Flushed));
            self.end(tools, entry);
        })
    }
}
