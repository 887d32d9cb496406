//! Inserts connections into the table.

use super::{Connections, REPLY_ENTRY, ThreadContext};
use crate::connections::zone_filter;
use crate::counters::Event;
use crate::management::change::What;
use crate::record::{Record, State, passed_ms};
use base::Instant;
use table::{Guard, Id, Index, Insert};

/// The conflict that prevents an insertion.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Taken {
    /// Another connection has the key of the original direction.
    Original,
    /// Another connection has the key of the replies.
    Reply,
}

/// The reason why a record was not inserted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Refused {
    /// Another connection has one of its keys.
    Taken(Taken),
    /// The zone was flushed meanwhile and has a new index.
    Detached,
}

impl Connections {
    /// Inserts a complete, live record. On failure the record is returned to the slab.
    pub fn insert(
        &self,
        guard: &Guard<'_>,
        context: &mut ThreadContext,
        index: &Index,
        id: Id,
        now: Instant,
    ) -> Result<(), Refused> {
        let record = self.record(id);
        let (original, reply) = (record.original(), record.reply());
        let second = (reply != original.reversed()).then(|| reply.hash(&self.secrets));
        let hash = original.hash(&self.secrets);
        let only = second.is_none();
        // Before any thread can find the connection, and so end it.
        index.joined(guard);
        zone_filter::note(index, &original, &reply);
        let [high, low] = record.label();
        let label = u128::from(high) << 64 | u128::from(low);
        zone_filter::note_mark_and_label(index, record.state().mark(), label);
        let first = self.insert_entry(guard, context, (index, hash), id, now, |it| {
            if it.direction(&original).is_some() {
                return Some(Taken::Original);
            }
            (only && it.direction(&reply).is_some()).then_some(Taken::Reply)
        });
        if let Err(refused) = first {
            index.left(guard);
            self.put_back(context, id);
            return Err(refused);
        }
        if let Some(second) = second {
            let taken =
                self.insert_entry(guard, context, (index, second), id | REPLY_ENTRY, now, |it| {
                    it.direction(&reply).map(|_| Taken::Reply)
                });
            if let Err(refused) = taken {
                // It was visible for a moment; if another thread ended it meanwhile, that thread
                // takes it out.
                if record.kill() {
                    index.remove(guard, hash, id);
                    index.left(guard);
                    context.share.give();
                    self.retire(context, id);
                }
                return Err(refused);
            }
        }
        self.arm(guard, context, index, id, now);
        Ok(())
    }

    /// Inserts a complete, live record of a connection without NAT. `keys` are the words of its
    /// keys, `hash` their hash. Returns false if it conflicts with another connection; the record
    /// is then returned to the slab.
    #[inline]
    pub fn insert_plain<const N: usize>(
        &self,
        guard: &Guard<'_>,
        context: &mut ThreadContext,
        (index, hash): (&Index, u32),
        id: Id,
        keys: [[u64; N]; 2],
        now: Instant,
    ) -> bool {
        index.joined(guard);
        zone_filter::note_plain(index, &keys[0]);
        let inserted = index.insert(guard, hash, id, |other| {
            // Whether the other connection has expired is left to [`Self::insert`].
            keys.iter().any(|key| self.is_of(other, key))
        });
        if inserted == Insert::Done {
            self.arm(guard, context, index, id, now);
            return true;
        }
        index.left(guard);
        self.put_back(context, id);
        false
    }

    /// Whether an id's connection has this key, in either direction.
    #[inline(always)]
    fn is_of<const N: usize>(&self, id: Id, key: &[u64; N]) -> bool {
        match *key.as_slice() {
            [addresses, rest] => {
                let record = Self::is_v4(id).then(|| Record::v4(self.words_v4(id)));
                record.is_some_and(|it| it.direction_v4(addresses, rest).is_some())
            }
            [a, b, c, d, rest] => {
                let record = (!Self::is_v4(id)).then(|| Record::v6(self.words_v6(id)));
                record.is_some_and(|it| it.direction_v6(&[a, b, c, d], rest).is_some())
            }
            _ => false,
        }
    }

    /// Puts an inserted connection on the wheel, which completes the insertion.
    #[inline]
    fn arm(
        &self,
        guard: &Guard<'_>,
        context: &mut ThreadContext,
        index: &Index,
        id: Id,
        now: Instant,
    ) {
        let record = self.record(id);
        let deadline = Instant::from_millis(record.life().deadline_ms());
        let wheel = &self.shards[usize::from(context.shard)].wheel;
        wheel.arm(self, id, now, deadline);
        if record.life().is_dead() {
            // Another thread ended it before this step: undo what that thread could not see.
            for (entry, hash) in self.entries(&record, id).into_iter().flatten() {
                index.remove(guard, hash, entry);
            }
            wheel.disarm(self, id);
        }
        context.counters.count(Event::Created);
        self.note(context, &record, What::New);
    }

    fn insert_entry(
        &self,
        guard: &Guard<'_>,
        context: &mut ThreadContext,
        (index, hash): (&Index, u32),
        entry: Id,
        now: Instant,
        rival: impl Fn(&Record<'_>) -> Option<Taken>,
    ) -> Result<(), Refused> {
        let mut taken = Taken::Original;
        let now_ms = passed_ms(now);
        let expired = &mut context.expired;
        let is_rival = |other: Id| {
            if (other ^ entry) & !REPLY_ENTRY == 0 {
                return false;
            }
            match self.matching(other, now_ms, expired, &rival) {
                Some(how) => {
                    taken = how;
                    true
                }
                None => false,
            }
        };
        let inserted = index.insert(guard, hash, entry, is_rival);
        if !context.expired.is_empty() {
            self.unlink_expired(guard, context);
        }
        match inserted {
            Insert::Done => Ok(()),
            Insert::Rival(_) => Err(Refused::Taken(taken)),
            Insert::Detached => Err(Refused::Detached),
        }
    }
}

/// The words of the reply key of an IPv4 connection of TCP or UDP.
#[inline(always)]
pub(crate) fn reversed_v4(addresses: u64, rest: u64) -> [u64; 2] {
    [addresses.rotate_left(32), reversed_rest(rest)]
}

/// The words of the reply key of an IPv6 connection of TCP or UDP.
#[inline(always)]
pub(crate) fn reversed_v6([a, b, c, d]: [u64; 4], rest: u64) -> [u64; 5] {
    [c, d, a, b, reversed_rest(rest)]
}

fn reversed_rest(rest: u64) -> u64 {
    let ports = ((rest >> 32) as u32).rotate_left(16);
    u64::from(ports) << 32 | rest & 0xffff_ffff
}

/// Whether a connection's state has room for the number of this index.
pub(crate) fn fits_state(index: &Index) -> bool {
    index.number() < State::HEADERS
}
