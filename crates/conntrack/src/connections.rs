//! Where connections are kept: records, an index for each zone, timing wheels.
//!
//! Everything is shared by all threads and nothing is locked on the way of a packet that begins no
//! connection. What a thread needs for itself stands in its [`ThreadContext`]. Ids are followed only within a
//! guard of the table's epochs; the methods that follow ids take it to prove that.

mod context;
mod insert;
mod page;
mod records;
mod remove;

pub(crate) use context::ThreadContext;
pub(crate) use insert::{Refused, Taken, fits_state, reversed_v4, reversed_v6};
pub(crate) use records::Place;
pub(crate) use remove::Expiry;

use crate::alg::SharedAlgs;
use crate::change::{Changes, Waiting, What};
use crate::counters::{Counters, Event, SharedCounters};
use crate::early_drop::LargeZones;
use crate::hash::Secrets;
use crate::key::{Family, Key};
use crate::record::{Kind, LINK, Record, State, WORDS_V4, WORDS_V6};
use base::Instant;
use rapidhash::v3::RapidSecrets;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
use table::atomic::AtomicU64;
use table::{Epochs, Guard, Id, Index, Links, Quota, Reader, Slab, Wheel, Zones};

/// Set in ids of IPv6 connections.
const V6: Id = 1 << 31;
/// Set in an index entry that stands under the hash of a translated connection's reply.
const REPLY_ENTRY: Id = 1 << 30;
/// The same bit in a [`ConnectionRef`](flow::ConnectionRef), which never says by which entry a
/// connection was found: its packets are TCP's, SCTP's or ICMP's.
const NO_DATAGRAM: Id = REPLY_ENTRY;
/// Ids that a slab may hand out; they stay clear of the two bits.
const IDS: u32 = REPLY_ENTRY - 65_536;
/// Threads that may track at a time.
pub(crate) const THREADS: usize = 128;
/// Records that may wait besides as many as connections may be.
const WAITING: u32 = 1 << 16;
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
    pub algs: SharedAlgs,
    pub quota: Arc<Quota>,
    /// One a thread, by its reader's number.
    shards: Box<[Shard]>,
}

/// What belongs to a thread and others look at. Two threads' never share a cache line, nor a pair of
/// lines that a processor fetches together.
#[repr(align(128))]
struct Shard {
    /// The largest ids that it handed out, IPv4's and IPv6's.
    highest: [AtomicU32; 2],
    wheel: Wheel,
    /// When its thread looked after its wheel the last time; zero: never.
    attended_ms: AtomicU64,
    counters: SharedCounters,
    waiting: Waiting,
}

/// A connection that a packet belongs to.
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
            shards: (0..THREADS).map(|_| Shard::new()).collect(),
        };
        connections.set_max(max);
        connections
    }

    /// Sets how many connections there may be. As many as that and [`WAITING`] may have ended and wait
    /// for their records to be used again, of each IP version: all of them may end under one guard.
    pub fn set_max(&self, max: u32) {
        self.quota.set_max(max);
        self.v4.set_waiting_max(max.saturating_add(WAITING));
        self.v6.set_waiting_max(max.saturating_add(WAITING));
    }

    /// What a new thread needs, or `None` where all [`THREADS`] places are taken.
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

    /// The words of an id that an IPv6 key was found by.
    #[inline(always)]
    pub fn words_v6(&self, id: Id) -> &[AtomicU64; WORDS_V6] {
        self.v6.words(id & !(V6 | REPLY_ENTRY))
    }

    /// The words of an IPv4 id, of which what packets need is begun to be fetched: TCP's need both lines.
    #[inline(always)]
    pub fn fetch_v4(&self, id: Id, is_tcp: bool) -> &[AtomicU64; WORDS_V4] {
        self.v4.fetch(id & !REPLY_ENTRY, usize::from(is_tcp))
    }

    /// Begins to fetch the words of an id.
    #[inline]
    pub fn fetch(&self, id: Id) {
        match id & V6 {
            0 => self.v4.prefetch(id & !REPLY_ENTRY),
            _ => self.v6.prefetch(id & !(V6 | REPLY_ENTRY)),
        }
    }

    /// By which a connection is remembered; those of protocols that are told more of their packets than
    /// UDP is are marked.
    #[inline(always)]
    pub fn remembered(id: Id, state: State) -> Id {
        id | if state.kind() == Kind::Other { 0 } else { NO_DATAGRAM }
    }

    /// Whether a connection that is [remembered](Self::remembered) may be UDP's over IPv4.
    #[inline(always)]
    pub fn is_remembered_datagram(remembered: Id) -> bool {
        remembered & (V6 | NO_DATAGRAM) == 0
    }

    /// Begins to fetch what packets need of a connection that is [remembered](Self::remembered).
    #[inline(always)]
    pub fn fetch_remembered(&self, remembered: Id) {
        if remembered & V6 == 0 {
            self.fetch_v4(remembered & !NO_DATAGRAM, remembered & NO_DATAGRAM != 0);
        } else {
            self.fetch(remembered);
        }
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
            self.bury_expired(guard, context);
        }
        Some(Found { id: found? & !REPLY_ENTRY, is_reply })
    }

    /// What `look` says of a connection that lives. One whose time ran out and that `look` is about
    /// is ended, and noted to be buried.
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

    /// A record for a new connection within the maximum.
    ///
    /// # Errors
    /// [`Event::Full`]: there are as many connections as there may be. [`Event::RecordsWait`]: too many
    /// records still wait.
    pub fn take(
        &self,
        guard: &Guard<'_>,
        context: &mut ThreadContext,
        family: Family,
    ) -> Result<Id, Event> {
        if !context.share.take() {
            // Flushed connections take their place until they are drained.
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
        // Only this thread writes it: one for all would go from thread to thread with each connection.
        let highest = &self.shards[usize::from(context.shard)].highest[at];
        if id > highest.load(Relaxed) {
            highest.store(id, Relaxed);
        }
        Ok(id | flag)
    }

    /// Whether a connection stands in its index.
    pub fn is_indexed(&self, guard: &Guard<'_>, id: Id) -> bool {
        let record = self.record(id);
        let (header, zone) = (record.state().header(), record.zone());
        let hash = record.original().hash(&self.secrets);
        let index = self.zones.get(guard, zone).filter(|index| index.number() == header);
        index.is_some_and(|index| index.find(hash, |entry| entry == id).is_some())
    }

    /// Gives back a record that was never put in.
    pub fn put_back(&self, context: &mut ThreadContext, id: Id) {
        context.share.give();
        self.record(id).stop_living();
        match id & V6 {
            0 => self.v4.put_back(&mut context.spares[0], id),
            _ => self.v6.put_back(&mut context.spares[1], id & !V6),
        }
    }

    /// The connection that announced this one, if one did.
    pub fn parent_of(&self, id: Id, state: State) -> Option<Key> {
        let parent = || self.algs.with(|algs| algs.parent_of(id).copied());
        state.is_expected().then(parent).flatten()
    }

    /// How many connections there are, those of flushed zones not counted.
    pub fn len(&self) -> u32 {
        let indexes = (1..).map_while(|number| self.zones.index(number));
        indexes.filter(|index| !index.is_detached()).map(Index::connections).sum()
    }

    /// Gives places that this thread left, and will not fill itself, back to all.
    pub fn share_places(&self, context: &mut ThreadContext) {
        context.share.settle();
    }

    /// Shows this thread's counts to others.
    #[inline]
    pub fn publish(&self, context: &mut ThreadContext) {
        if !context.counters.is_zero() {
            self.shards[usize::from(context.shard)].counters.take(&mut context.counters);
        }
    }

    /// Notes what happened to a connection, if a watcher is there.
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

    /// Those of threads that are or were.
    fn used_shards(&self) -> &[Shard] {
        &self.shards[..self.epochs.used().min(THREADS)]
    }

    /// All threads' changes that wait.
    pub fn fetch_changes(&self) -> Changes {
        let mut changes = Changes::default();
        self.used_shards().iter().for_each(|shard| shard.waiting.fetch(&mut changes));
        changes
    }

    /// The published counts of all threads.
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
