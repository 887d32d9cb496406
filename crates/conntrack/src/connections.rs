//! Where connections are kept: records, an index for each zone, timing wheels.
//!
//! Everything is shared by all threads and nothing is locked on the way of a packet that begins no
//! connection. What a thread needs for itself stands in its [`Tools`]. Ids are followed only within a
//! visit of the table's epochs; the methods that follow ids take it to prove that.

use crate::change::{Change, Changes, Waiting, What};
use crate::counters::{Counters, Event, SharedCounters};
use crate::entry::Entry;
use crate::gateways::SharedGateways;
use crate::hash::Secrets;
use crate::key::{Family, Key};
use crate::record::{LINK, Record, State, WORDS_V4, WORDS_V6, passed_ms};
use base::Instant;
use rapidhash::v3::RapidSecrets;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
use table::atomic::AtomicU64;
use table::{
    Epochs, Id, Index, Insert, Links, Quota, Reader, Share, Slab, Spare, Visit, Wheel, Zones,
};

/// Set in ids of IPv6 connections.
const V6: Id = 1 << 31;
/// Set in an index entry that stands under the hash of a translated connection's reply.
const REPLY_ENTRY: Id = 1 << 30;
/// Ids that a slab may hand out; they stay clear of the two bits.
const IDS: u32 = REPLY_ENTRY - 65_536;
/// Threads that may track at a time.
pub(crate) const THREADS: usize = 128;
/// What a thread that finds no room left takes out of flushed zones before it looks again.
const DRAIN_SLICE: usize = 256;

/// All connections of all zones.
pub(crate) struct Connections {
    pub secrets: Secrets,
    /// For the choice of addresses and ports.
    pub nat_secrets: RapidSecrets,
    epochs: Arc<Epochs>,
    v4: Slab<WORDS_V4>,
    v6: Slab<WORDS_V6>,
    pub zones: Zones,
    /// What is known of connections beyond their records.
    pub gateways: SharedGateways,
    pub quota: Arc<Quota>,
    /// The largest ids that were handed out, IPv4's and IPv6's.
    highest: [AtomicU32; 2],
    /// One a thread, by its reader's number.
    shards: Box<[Shard]>,
}

/// What belongs to a thread and others look at.
struct Shard {
    wheel: Wheel,
    counters: SharedCounters,
    waiting: Waiting,
}

/// What a thread works with.
pub(crate) struct Tools {
    spares: [Spare; 2],
    share: Share,
    pub quota: Arc<Quota>,
    /// New connections until this thread looks again how much room is left, and what it saw.
    pub until_look: u32,
    pub is_room_short: bool,
    /// Its place among the shards.
    shard: u16,
    pub random: fastrand::Rng,
    /// What happened since the last [`Connections::publish`].
    pub counters: Counters,
    /// What happened while something was tried that may not come to pass; zero at other times.
    pub trial: Counters,
    /// The time of what is done, and whether it is noted, and what was.
    pub now: Instant,
    pub is_watched: bool,
    changes: Vec<Change>,
    /// Connections that this thread ended because their time ran out, still to be taken out.
    expired: Vec<Id>,
}

/// A connection that a packet belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Found {
    pub id: Id,
    pub is_reply: bool,
}

/// Why a connection could not be put in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Taken {
    /// Packets of its original direction belong to another one.
    Original,
    /// Replies to it would belong to another one.
    Reply,
}

impl Links for Connections {
    #[inline]
    fn link(&self, id: Id) -> &AtomicU64 {
        if id & V6 == 0 {
            &self.v4.words(id)[WORDS_V4 - 12 + LINK]
        } else {
            &self.v6.words(id & !V6)[WORDS_V6 - 12 + LINK]
        }
    }
}

impl Connections {
    pub fn new(seed: u64, max: u32) -> Self {
        let epochs = Epochs::new();
        Connections {
            secrets: Secrets::seed(seed),
            nat_secrets: RapidSecrets::seed(seed),
            v4: Slab::new(Arc::clone(&epochs), IDS),
            v6: Slab::new(Arc::clone(&epochs), IDS),
            zones: Zones::new(Arc::clone(&epochs)),
            epochs,
            gateways: SharedGateways::default(),
            quota: Quota::new(max),
            highest: [AtomicU32::new(0), AtomicU32::new(0)],
            shards: (0..THREADS).map(|_| Shard::new()).collect(),
        }
    }

    /// What a new thread needs, or `None` where all [`THREADS`] places are taken.
    pub fn join(&self, seed: u64) -> Option<(Reader, Tools)> {
        let reader = self.epochs.reader()?;
        let tools = Tools {
            spares: [self.v4.spare(), self.v6.spare()],
            share: self.quota.share(),
            quota: Arc::clone(&self.quota),
            until_look: 0,
            is_room_short: false,
            shard: u16::try_from(reader.number()).ok()?,
            random: fastrand::Rng::with_seed(seed),
            counters: Counters::new(),
            trial: Counters::new(),
            now: Instant::ZERO,
            is_watched: false,
            changes: Vec::new(),
            expired: Vec::new(),
        };
        (usize::from(tools.shard) < self.shards.len()).then_some((reader, tools))
    }

    /// The words of an id, whichever of its entries it came from.
    #[inline(always)]
    pub fn record(&self, id: Id) -> Record<'_> {
        let plain = id & !(V6 | REPLY_ENTRY);
        if id & V6 == 0 {
            Record::v4(self.v4.words(plain))
        } else {
            Record::v6(self.v6.words(plain))
        }
    }

    /// The id itself, whichever of its entries it came from.
    #[inline(always)]
    pub fn plain(id: Id) -> Id {
        id & !REPLY_ENTRY
    }

    /// Whether an index entry stands under the hash of its connection's original direction.
    pub fn is_original_entry(entry: Id) -> bool {
        entry & REPLY_ENTRY == 0
    }

    /// The words of an id that an IPv4 key was found by.
    #[inline(always)]
    pub fn words_v4(&self, id: Id) -> &[AtomicU64; WORDS_V4] {
        self.v4.words(id & !REPLY_ENTRY)
    }

    /// The same, which are begun to be fetched.
    #[inline(always)]
    pub fn fetch_v4(&self, id: Id) -> &[AtomicU64; WORDS_V4] {
        self.v4.fetch(id & !REPLY_ENTRY)
    }

    /// Whether an id is of an IPv4 connection.
    #[inline(always)]
    pub fn is_v4(id: Id) -> bool {
        id & V6 == 0
    }

    /// Finds the connection that packets with this key belong to, in its zone's index. `hash` is the
    /// key's. A connection whose time ran out is not found, and goes.
    pub fn find(
        &self,
        visit: &Visit<'_>,
        tools: &mut Tools,
        index: Option<&Index>,
        (key, hash): (&Key, u32),
        now_ms: u64,
    ) -> Option<Found> {
        let mut is_reply = false;
        let expired = &mut tools.expired;
        let found = index?.find(hash, |id| {
            match self.matching(id, now_ms, expired, |it| it.direction(key)) {
                Some(direction) => {
                    is_reply = direction;
                    true
                }
                None => false,
            }
        });
        if !tools.expired.is_empty() {
            self.bury_expired(visit, tools);
        }
        Some(Found { id: found? & !REPLY_ENTRY, is_reply })
    }

    /// What `look` says of a connection that lives. One whose time ran out and that `look` is about
    /// is ended, and noted to be buried.
    #[inline]
    fn matching<T>(
        &self,
        id: Id,
        now_ms: u64,
        expired: &mut Vec<Id>,
        look: impl Fn(&Record<'_>) -> Option<T>,
    ) -> Option<T> {
        let record = self.record(id);
        let life = record.life();
        let answer = look(&record)?;
        if !life.is_over(now_ms) {
            return Some(answer);
        }
        if record.claim(life) {
            expired.push(id & !REPLY_ENTRY);
        }
        None
    }

    /// A record for a new connection within the maximum, or `None` without room.
    pub fn take(&self, visit: &Visit<'_>, tools: &mut Tools, family: Family) -> Option<Id> {
        if !tools.share.take() {
            // Flushed connections take their place until they are drained.
            self.drain(visit, tools, DRAIN_SLICE);
            if !tools.share.take() {
                return None;
            }
        }
        let (at, flag) = if family == Family::V4 { (0, 0) } else { (1, V6) };
        let id = match family {
            Family::V4 => self.v4.take(&mut tools.spares[at]),
            Family::V6 => self.v6.take(&mut tools.spares[at]),
        };
        let Some(id) = id else {
            tools.share.give();
            return None;
        };
        if id > self.highest[at].load(Relaxed) {
            self.highest[at].fetch_max(id, Relaxed);
        }
        Some(id | flag)
    }

    /// The id of some record, of a connection or free.
    pub fn any(&self, random: &mut fastrand::Rng) -> Option<Id> {
        let [v4, v6] = [0, 1].map(|at| self.highest[at].load(Relaxed));
        let number = random.u32(..v4.saturating_add(v6).max(1)) + 1;
        match number {
            _ if v4 + v6 == 0 => None,
            id if id <= v4 => Some(id),
            number => Some((number - v4) | V6),
        }
    }

    /// Whether a connection stands in its index.
    pub fn is_indexed(&self, visit: &Visit<'_>, id: Id) -> bool {
        let record = self.record(id);
        let (header, zone) = (record.state().header(), record.zone());
        let hash = record.original().hash(&self.secrets);
        let index = self.zones.get(visit, zone).filter(|index| index.number() == header);
        index.is_some_and(|index| index.find(hash, |entry| entry == id).is_some())
    }

    /// Gives back a record that was never put in.
    pub fn put_back(&self, tools: &mut Tools, id: Id) {
        tools.share.give();
        self.record(id).stop_living();
        match id & V6 {
            0 => self.v4.put_back(&mut tools.spares[0], id),
            _ => self.v6.put_back(&mut tools.spares[1], id & !V6),
        }
    }

    /// Puts a record in that is whole and lives. Where that cannot be, the record is given back.
    pub fn insert(
        &self,
        visit: &Visit<'_>,
        tools: &mut Tools,
        index: &Index,
        id: Id,
        now: Instant,
    ) -> Result<(), Refused> {
        let record = self.record(id);
        let (original, reply) = (record.original(), record.reply());
        let second = (reply != original.reversed()).then(|| reply.hash(&self.secrets));
        let hash = original.hash(&self.secrets);
        let only = second.is_none();
        // Before anybody can find it, and so before anybody can end it.
        index.joined(visit);
        let first = self.insert_entry(visit, tools, (index, hash), id, now, |it| {
            if it.direction(&original).is_some() {
                return Some(Taken::Original);
            }
            (only && it.direction(&reply).is_some()).then_some(Taken::Reply)
        });
        if let Err(refused) = first {
            index.left(visit);
            self.put_back(tools, id);
            return Err(refused);
        }
        if let Some(second) = second {
            let taken =
                self.insert_entry(visit, tools, (index, second), id | REPLY_ENTRY, now, |it| {
                    it.direction(&reply).map(|_| Taken::Reply)
                });
            if let Err(refused) = taken {
                // It was to be seen for a moment; whoever ended it meanwhile takes it out.
                if record.kill() {
                    index.remove(visit, hash, id);
                    index.left(visit);
                    tools.share.give();
                    self.retire(tools, id);
                }
                return Err(refused);
            }
        }
        self.arm(visit, tools, index, id, now);
        Ok(())
    }

    /// Puts an IPv4 record in that is whole and lives, of a connection that is not translated.
    /// `key` are the words of the original direction's key, `hash` is its hash. False where it must
    /// be looked at more closely; the record is given back then.
    pub fn insert_v4(
        &self,
        visit: &Visit<'_>,
        tools: &mut Tools,
        (index, hash): (&Index, u32),
        id: Id,
        key: [u64; 2],
        now: Instant,
    ) -> bool {
        let [addresses, rest] = key;
        index.joined(visit);
        let inserted = index.insert(visit, hash, id, |other| {
            let other = self.record_plain(other);
            let [forth, back] = [key, reversed_v4(addresses, rest)];
            // Whether its time ran out is for the closer look.
            let is_one = |[a, b]: [u64; 2]| other.is_some_and(|it| it.direction_v4(a, b).is_some());
            is_one(forth) || is_one(back)
        });
        if inserted == Insert::Done {
            self.arm(visit, tools, index, id, now);
            return true;
        }
        index.left(visit);
        self.put_back(tools, id);
        false
    }

    /// Of an IPv4 id, the record.
    #[inline(always)]
    fn record_plain(&self, id: Id) -> Option<Record<'_>> {
        Self::is_v4(id).then(|| Record::v4(self.words_v4(id)))
    }

    /// Has the wheel look at a connection that was just put in, which is then all done.
    #[inline]
    fn arm(&self, visit: &Visit<'_>, tools: &mut Tools, index: &Index, id: Id, now: Instant) {
        let record = self.record(id);
        let deadline = Instant::from_millis(record.life().deadline_ms());
        let wheel = &self.shards[usize::from(tools.shard)].wheel;
        wheel.arm(self, id, now, deadline);
        if record.life().is_dead() {
            // Another thread ended it before all was done: what came after that must be undone.
            for (entry, hash) in self.entries(&record, id).into_iter().flatten() {
                index.remove(visit, hash, entry);
            }
            wheel.disarm(self, id);
        }
        tools.counters.count(Event::Created);
        tools.note(&record, What::New);
    }

    fn insert_entry(
        &self,
        visit: &Visit<'_>,
        tools: &mut Tools,
        (index, hash): (&Index, u32),
        entry: Id,
        now: Instant,
        rival: impl Fn(&Record<'_>) -> Option<Taken>,
    ) -> Result<(), Refused> {
        let mut taken = Taken::Original;
        let now_ms = passed_ms(now);
        let expired = &mut tools.expired;
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
        let inserted = index.insert(visit, hash, entry, is_rival);
        if !tools.expired.is_empty() {
            self.bury_expired(visit, tools);
        }
        match inserted {
            Insert::Done => Ok(()),
            Insert::Rival(_) => Err(Refused::Taken(taken)),
            Insert::Detached => Err(Refused::Detached),
        }
    }

    /// Ends a connection and counts why; whether it lived.
    pub fn remove(&self, visit: &Visit<'_>, tools: &mut Tools, id: Id, why: Event) -> bool {
        let lived = self.record(id).kill();
        if lived {
            self.bury(visit, tools, id, why);
        }
        lived
    }

    fn bury_expired(&self, visit: &Visit<'_>, tools: &mut Tools) {
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
        tools.note(&record, What::Destroyed(why));
        self.end(tools, id);
    }

    /// The index entries of a connection, with the hashes under which they stand.
    fn entries(&self, record: &Record<'_>, id: Id) -> [Option<(Id, u32)>; 2] {
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

    fn retire(&self, tools: &mut Tools, id: Id) {
        match id & V6 {
            0 => self.v4.retire(&mut tools.spares[0], id),
            _ => self.v6.retire(&mut tools.spares[1], id & !V6),
        }
    }

    /// The wheel must look at a connection sooner than it would.
    pub fn hasten(&self, record: &Record<'_>, id: Id, deadline_ms: u64) {
        if let Some(shard) = self.shards.get(usize::from(record.birth().shard)) {
            shard.wheel.hasten(self, id, Instant::from_millis(deadline_ms));
        }
    }

    /// Removes connections whose time ran out, looking at no more than `budget` in each wheel. Gives
    /// how many went.
    pub fn expire(
        &self,
        visit: &Visit<'_>,
        tools: &mut Tools,
        now: Instant,
        budget: usize,
    ) -> usize {
        let now_ms = passed_ms(now);
        let mut due = std::mem::take(&mut tools.expired);
        let mut gone = 0;
        for shard in self.shards.iter().filter(|shard| shard.wheel.armed() > 0) {
            shard.wheel.advance(self, now, budget, |id| {
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
            gone += due.len();
            for id in due.drain(..) {
                self.bury(visit, tools, id, Event::Expired);
            }
        }
        tools.expired = due;
        gone
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
            tools.note(&record, What::Destroyed(Event::Flushed));
            self.end(tools, entry);
        })
    }

    /// The connection that announced this one, if one did.
    pub fn parent_of(&self, id: Id, state: State) -> Option<Key> {
        let parent = || self.gateways.with(|gateways| gateways.parent_of(id).copied());
        state.is_expected().then(parent).flatten()
    }

    /// How many connections there are, those of flushed zones not counted.
    pub fn len(&self) -> u32 {
        let indexes = (1..).map_while(|number| self.zones.index(number));
        indexes.filter(|index| !index.is_detached()).map(Index::connections).sum()
    }

    /// Shows this thread's counts to others.
    #[inline]
    pub fn publish(&self, tools: &mut Tools) {
        if !tools.counters.is_zero() {
            self.shards[usize::from(tools.shard)].counters.take(&mut tools.counters);
        }
        if !tools.changes.is_empty() {
            self.shards[usize::from(tools.shard)].waiting.add(&mut tools.changes);
        }
    }

    /// All threads' changes that wait.
    pub fn fetch_changes(&self) -> Changes {
        let mut changes = Changes::default();
        self.shards.iter().for_each(|shard| shard.waiting.fetch(&mut changes));
        changes
    }

    /// The published counts of all threads.
    pub fn counters(&self) -> Counters {
        let mut sum = Counters::new();
        self.shards.iter().for_each(|shard| shard.counters.add_to(&mut sum));
        sum
    }
}

/// The words of the key of an IPv4 key's replies, TCP's and UDP's.
#[inline(always)]
pub(crate) fn reversed_v4(addresses: u64, rest: u64) -> [u64; 2] {
    let ports = ((rest >> 32) as u32).rotate_left(16);
    [addresses.rotate_left(32), u64::from(ports) << 32 | rest & 0xffff_ffff]
}

/// Why a record was not put in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Refused {
    /// Another connection has its place.
    Taken(Taken),
    /// The zone was flushed meanwhile; it has a new index.
    Detached,
}

impl Shard {
    fn new() -> Self {
        Shard { wheel: Wheel::new(), counters: SharedCounters::new(), waiting: Waiting::default() }
    }
}

impl Tools {
    /// Where this thread's connections are on a wheel.
    pub fn shard(&self) -> u16 {
        self.shard
    }

    /// Notes what happened to a connection, if somebody watches.
    #[inline]
    pub fn note(&mut self, record: &Record<'_>, what: What) {
        if self.is_watched {
            self.note_watched(record, what);
        }
    }

    #[cold]
    fn note_watched(&mut self, record: &Record<'_>, what: What) {
        self.changes.push(Change { at: self.now, what, entry: Entry::of(record, None, self.now) });
    }

    /// Keeps no room for connections to come.
    pub fn keep_no_room(&mut self) {
        self.share.settle();
    }

    /// Ends a trial; what happened counts if it came to pass.
    #[cold]
    pub fn settle_trial(&mut self, came_to_pass: bool) {
        let trial = std::mem::take(&mut self.trial);
        if came_to_pass {
            self.counters.add(&trial);
        }
    }
}

/// What an index of this number can be remembered by.
pub(crate) fn fits_state(index: &Index) -> bool {
    index.number() < State::HEADERS
}
