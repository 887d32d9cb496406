//! The connection table: records, an index for each zone, timing wheels.
//!
//! All threads share it, and a packet that creates no connection takes no lock. Each thread's own
//! data is in its [`ThreadContext`]. Ids are valid only under a guard of the table's epochs, which
//! methods that follow ids take as proof.

mod context;
mod insert;
mod large_zones;
mod page;
mod records;
mod remove;
pub(crate) mod zone_filter;

pub(crate) use context::ThreadContext;
pub(crate) use insert::{Refused, Taken, fits_state, reversed_v4, reversed_v6};
pub(crate) use records::Place;
pub(crate) use remove::Expiry;

use crate::alg::SharedAlgs;
use crate::connections::large_zones::LargeZones;
use crate::counters::{Counters, Event, SharedCounters};
use crate::hash::Secrets;
use crate::key::{Family, Key};
use crate::management::change::{Changes, Waiting, What};
use crate::record::{Kind, LINK, Record, State, WORDS_V4, WORDS_V6};
use base::Instant;
use base::limits::TRACKING_THREADS;
use rapidhash::v3::RapidSecrets;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
use table::atomic::AtomicU64;
use table::{Epochs, Guard, Id, Index, Links, Quota, Reader, Slab, Wheel, Zones};

/// Set in ids of IPv6 connections.
const V6: Id = 1 << 31;
/// Set in an index entry under the hash of the reply key of a connection with NAT.
const REPLY_ENTRY: Id = 1 << 30;
/// The same bit in a [`ConnectionRef`](flow::ConnectionRef), which does not need [`REPLY_ENTRY`]:
/// the connection is not UDP.
const NO_DATAGRAM: Id = REPLY_ENTRY;
/// The number of ids of a slab; all are below the two flag bits.
const IDS: u32 = REPLY_ENTRY - 65_536;
/// Records that may wait for reuse beyond the maximum of connections.
const WAITING: u32 = 1 << 16;
/// Connections of flushed zones that a thread takes out when the table is full, before it tries
/// again.
const DRAIN_SLICE: usize = 256;

/// All connections of all zones.
pub(crate) struct Connections {
    pub secrets: Secrets,
    /// The hash secrets for NAT's choice of addresses and ports.
    pub nat_secrets: RapidSecrets,
    epochs: Arc<Epochs>,
    v4: Slab<WORDS_V4>,
    v6: Slab<WORDS_V6>,
    pub zones: Zones,
    /// State of ALGs beyond the records.
    pub algs: SharedAlgs,
    pub quota: Arc<Quota>,
    /// One per thread, by its reader's number.
    shards: Box<[Shard]>,
}

/// A thread's data that other threads read. Two shards never share a cache line, nor a pair of
/// lines that a processor fetches together.
#[repr(align(128))]
struct Shard {
    /// The largest ids that the thread took, of IPv4 and IPv6.
    highest: [AtomicU32; 2],
    wheel: Wheel,
    /// When the thread last advanced its wheel, in milliseconds; 0 for never.
    attended_ms: AtomicU64,
    counters: SharedCounters,
    waiting: Waiting,
}

/// A packet's connection and direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Found {
    pub id: Id,
    pub is_reply: bool,
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
        let connections = Connections {
            secrets: Secrets::seed(seed),
            nat_secrets: RapidSecrets::seed(seed),
            v4: Slab::new(Arc::clone(&epochs), IDS),
            v6: Slab::new(Arc::clone(&epochs), IDS),
            zones: Zones::new(Arc::clone(&epochs)),
            epochs,
            algs: SharedAlgs::default(),
            quota: Quota::new(max),
            shards: (0..TRACKING_THREADS).map(|_| Shard::new()).collect(),
        };
        connections.set_max(max);
        connections
    }

    /// Sets the maximum number of connections. For each IP version as many records and [`WAITING`]
    /// more may wait for reuse, since all connections may end under one guard.
    pub fn set_max(&self, max: u32) {
        self.quota.set_max(max);
        self.v4.set_waiting_max(max.saturating_add(WAITING));
        self.v6.set_waiting_max(max.saturating_add(WAITING));
    }

    /// Registers a thread, or returns `None` if all [`TRACKING_THREADS`] places are taken.
    pub fn join(&self, seed: u64) -> Option<(Reader, ThreadContext)> {
        let reader = self.epochs.reader()?;
        let context = ThreadContext {
            spares: [self.v4.spare(), self.v6.spare()],
            share: self.quota.share(),
            quota: Arc::clone(&self.quota),
            until_look: 0,
            left_in_reserve: None,
            large_zones: LargeZones::default(),
            sampled: Vec::new(),
            shard: u16::try_from(reader.number()).ok()?,
            random: fastrand::Rng::with_seed(seed),
            counters: Counters::new(),
            trial: Counters::new(),
            now: Instant::ZERO,
            is_watched: false,
            expired: Vec::new(),
        };
        (usize::from(context.shard) < self.shards.len()).then_some((reader, context))
    }

    /// The record of an id or index entry.
    #[inline(always)]
    pub fn record(&self, id: Id) -> Record<'_> {
        let plain = id & !(V6 | REPLY_ENTRY);
        if id & V6 == 0 {
            Record::v4(self.v4.words(plain))
        } else {
            Record::v6(self.v6.words(plain))
        }
    }

    /// Removes the flag of the reply's entry from an id.
    #[inline(always)]
    pub fn plain(id: Id) -> Id {
        id & !REPLY_ENTRY
    }

    /// Whether an index entry is under the hash of the original direction.
    pub fn is_original_entry(entry: Id) -> bool {
        entry & REPLY_ENTRY == 0
    }

    /// The words of an IPv4 id or index entry.
    #[inline(always)]
    pub fn words_v4(&self, id: Id) -> &[AtomicU64; WORDS_V4] {
        self.v4.words(id & !REPLY_ENTRY)
    }

    /// The words of an IPv6 id or index entry.
    #[inline(always)]
    pub fn words_v6(&self, id: Id) -> &[AtomicU64; WORDS_V6] {
        self.v6.words(id & !(V6 | REPLY_ENTRY))
    }

    /// The words of an IPv4 id, which it prefetches: both lines for TCP, else the first.
    #[inline(always)]
    pub fn fetch_v4(&self, id: Id, is_tcp: bool) -> &[AtomicU64; WORDS_V4] {
        self.v4.fetch(id & !REPLY_ENTRY, usize::from(is_tcp))
    }

    /// Prefetches a record.
    #[inline]
    pub fn fetch(&self, id: Id) {
        match id & V6 {
            0 => self.v4.prefetch(id & !REPLY_ENTRY),
            _ => self.v6.prefetch(id & !(V6 | REPLY_ENTRY)),
        }
    }

    /// The id for a [`ConnectionRef`](flow::ConnectionRef), with [`NO_DATAGRAM`] set for protocols
    /// with more state than UDP.
    #[inline(always)]
    pub fn remembered(id: Id, state: State) -> Id {
        id | if state.kind() == Kind::Other { 0 } else { NO_DATAGRAM }
    }

    /// Whether a [remembered](Self::remembered) connection may be UDP over IPv4.
    #[inline(always)]
    pub fn is_remembered_datagram(remembered: Id) -> bool {
        remembered & (V6 | NO_DATAGRAM) == 0
    }

    /// Prefetches what packets of a [remembered](Self::remembered) connection need.
    #[inline(always)]
    pub fn fetch_remembered(&self, remembered: Id) {
        if remembered & V6 == 0 {
            self.fetch_v4(remembered & !NO_DATAGRAM, remembered & NO_DATAGRAM != 0);
        } else {
            self.fetch(remembered);
        }
    }

    /// Whether an id is an IPv4 connection's.
    #[inline(always)]
    pub fn is_v4(id: Id) -> bool {
        id & V6 == 0
    }

    /// Finds the connection of a key in its zone's index. `hash` is the key's. Ends an expired
    /// connection instead of returning it.
    pub fn find(
        &self,
        guard: &Guard<'_>,
        context: &mut ThreadContext,
        index: Option<&Index>,
        (key, hash): (&Key, u32),
        now_ms: u64,
    ) -> Option<Found> {
        let mut is_reply = false;
        let expired = &mut context.expired;
        let found = index?.find(hash, |id| {
            match self.matching(id, now_ms, expired, |it| it.direction(key)) {
                Some(direction) => {
                    is_reply = direction;
                    true
                }
                None => false,
            }
        });
        if !context.expired.is_empty() {
            self.unlink_expired(guard, context);
        }
        Some(Found { id: found? & !REPLY_ENTRY, is_reply })
    }

    /// Returns what `look` returns for a live connection. If `look` matches an expired one, ends it
    /// and adds it to `expired`.
    #[inline]
    pub(super) fn matching<T>(
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

    /// Takes a record for a new connection, if the maximum allows it.
    ///
    /// # Errors
    /// [`Event::Full`]: the maximum is reached. [`Event::RecordsWait`]: too many records wait for
    /// reuse.
    pub fn take(
        &self,
        guard: &Guard<'_>,
        context: &mut ThreadContext,
        family: Family,
    ) -> Result<Id, Event> {
        if !context.share.take() {
            // Flushed connections count until they are drained.
            self.drain(guard, context, DRAIN_SLICE);
            if !context.share.take() {
                return Err(Event::Full);
            }
        }
        let (at, flag) = if family == Family::V4 { (0, 0) } else { (1, V6) };
        let (id, is_behind) = match family {
            Family::V4 => (self.v4.take(&mut context.spares[at]), self.v4.is_behind()),
            Family::V6 => (self.v6.take(&mut context.spares[at]), self.v6.is_behind()),
        };
        let Some(id) = id else {
            context.share.give();
            return Err(if is_behind { Event::RecordsWait } else { Event::Full });
        };
        // A word per thread: a shared one would move between the threads' caches with each
        // connection.
        let highest = &self.shards[usize::from(context.shard)].highest[at];
        if id > highest.load(Relaxed) {
            highest.store(id, Relaxed);
        }
        Ok(id | flag)
    }

    /// Whether a connection is in its zone's index.
    pub fn is_indexed(&self, guard: &Guard<'_>, id: Id) -> bool {
        let record = self.record(id);
        let (header, zone) = (record.state().header(), record.zone());
        let hash = record.original().hash(&self.secrets);
        let index = self.zones.get(guard, zone).filter(|index| index.number() == header);
        index.is_some_and(|index| index.find(hash, |entry| entry == id).is_some())
    }

    /// Returns a record that was never inserted.
    pub fn put_back(&self, context: &mut ThreadContext, id: Id) {
        context.share.give();
        self.record(id).stop_living();
        match id & V6 {
            0 => self.v4.put_back(&mut context.spares[0], id),
            _ => self.v6.put_back(&mut context.spares[1], id & !V6),
        }
    }

    /// The original direction of the connection that announced this one, if any.
    pub fn parent_of(&self, id: Id, state: State) -> Option<Key> {
        let parent = || self.algs.with(|algs| algs.parent_of(id).copied());
        state.is_expected().then(parent).flatten()
    }

    /// The number of connections, without those of flushed zones.
    pub fn len(&self) -> u32 {
        let indexes = (1..).map_while(|number| self.zones.index(number));
        indexes.filter(|index| !index.is_detached()).map(Index::connections).sum()
    }

    /// Returns this thread's unused share of the maximum to all threads.
    pub fn share_places(&self, context: &mut ThreadContext) {
        context.share.settle();
    }

    /// Publishes this thread's counters.
    #[inline]
    pub fn publish(&self, context: &mut ThreadContext) {
        if !context.counters.is_zero() {
            self.shards[usize::from(context.shard)].counters.take(&mut context.counters);
        }
    }

    /// Records a change of a connection, if a watcher is registered.
    #[inline]
    pub fn note(&self, context: &ThreadContext, record: &Record<'_>, what: What) {
        if context.is_watched {
            self.note_watched(context, record, what);
        }
    }

    #[cold]
    fn note_watched(&self, context: &ThreadContext, record: &Record<'_>, what: What) {
        if let Some(shard) = self.shards.get(usize::from(record.birth().shard)) {
            shard.waiting.note(record, what, context.now);
        }
    }

    /// The shards of threads that are or were registered.
    fn used_shards(&self) -> &[Shard] {
        &self.shards[..self.epochs.used().min(TRACKING_THREADS)]
    }

    /// Takes the recorded changes of all threads.
    pub fn fetch_changes(&self) -> Changes {
        let mut changes = Changes::default();
        self.used_shards().iter().for_each(|shard| shard.waiting.fetch(&mut changes));
        changes
    }

    /// The sum of all threads' published counters.
    pub fn counters(&self) -> Counters {
        let mut sum = Counters::new();
        self.used_shards().iter().for_each(|shard| shard.counters.add_to(&mut sum));
        sum.count_many(Event::FenceRefused, self.epochs.refusals());
        sum
    }
}

impl Shard {
    fn new() -> Self {
        Shard {
            highest: [AtomicU32::new(0), AtomicU32::new(0)],
            wheel: Wheel::new(),
            attended_ms: AtomicU64::new(0),
            counters: SharedCounters::new(),
            waiting: Waiting::default(),
        }
    }
}
