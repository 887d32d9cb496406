//! The interface of connection tracking for settings, dumps, flushes and expiry.

pub mod flush;
pub(crate) mod offloaded;
pub(crate) mod windows;

use crate::alg::expectations::{ExpectedCursor, ExpectedPage};
use crate::connections::{Connections, Expiry, ThreadContext};
use crate::counters::Counters;
use crate::fragments::Fragments;
use crate::management::change::Changes;
use crate::management::cursor::Cursor;
use crate::management::entry::Entry;
use crate::management::filter::Filter;
use crate::management::limit::{Limits, ZoneLimits};
use crate::management::settings::{Published, Settings};
use crate::management::stats::Stats;
use crate::record::{Record, passed_ms};
use crate::timeout::TimeoutPolicy;
use base::{Instant, Zone, limits};
use hashbrown::HashMap;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, PoisonError};
use table::{Guard, Id, Index, Reader};

/// Connections that one [`Conntrack::tick`] examines in each wheel, at most.
const TICK_BUDGET: usize = 16 * 1024;
/// Connections of flushed zones that one [`Conntrack::tick`] frees, approximately.
const DRAIN_BUDGET: usize = 16 * 1024;

/// The initial settings; all can be changed later.
#[derive(Clone, Debug)]
pub struct Config {
    /// The maximum number of connections.
    pub connections_max: u32,
    /// Timeouts of zones without a policy of their own.
    pub timeouts: TimeoutPolicy,
    /// Whether TCP segments outside the windows are invalid.
    pub check_tcp_windows: bool,
    /// Whether packets and bytes of each connection are counted.
    pub counts_traffic: bool,
    /// Whether early drop makes room for new connections ([`early_drop`](crate::pass::early_drop)). Open
    /// vSwitch lets new ones pass untracked instead.
    pub early_drop: bool,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            connections_max: limits::CONNECTIONS,
            timeouts: TimeoutPolicy::new(),
            check_tcp_windows: true,
            counts_traffic: true,
            early_drop: true,
        }
    }
}

/// All tracked connections. Any thread may use it. Its [`Tracker`](crate::Tracker)s track packets and never wait
/// for it.
pub struct Conntrack {
    pub(crate) connections: Connections,
    pub(crate) settings: Published,
    fragments: Fragments,
    /// A copy of the setting, for threads without a copy of the settings.
    is_watched: AtomicBool,
    /// Generates the seeds of the trackers' random numbers.
    seeds: Mutex<fastrand::Rng>,
    /// The reader and context with which dumps, flushes and expiry work.
    context: Mutex<(Reader, ThreadContext)>,
}

const _: () = {
    const fn is_shared<T: Send + Sync>() {}
    is_shared::<Conntrack>();
};

/// A part of a dump.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Page {
    /// The connections; may be empty although more follow.
    pub entries: Vec<Entry>,
    /// Where the next part begins, or `None` at the end.
    pub next: Option<Cursor>,
}

impl Conntrack {
    /// An empty tracker. `seed` keys its hashes: each process needs a random one of its own, so
    /// that senders cannot choose tuples that collide.
    pub fn new(seed: u64, config: Config) -> Self {
        let connections = Connections::new(seed, config.connections_max);
        let joined = connections.join(seed);
        let Some(joined) = joined else { unreachable!("no other thread took a place yet") };
        let settings = Settings {
            timeouts: config.timeouts,
            zone_timeouts: HashMap::new(),
            limits: Limits::default(),
            check_tcp_windows: config.check_tcp_windows,
            counts_traffic: config.counts_traffic,
            early_drop: config.early_drop,
            is_watched: false,
        };
        Conntrack {
            connections,
            settings: Published::new(settings),
            fragments: Fragments::new(),
            is_watched: AtomicBool::new(false),
            seeds: Mutex::new(fastrand::Rng::with_seed(seed)),
            context: Mutex::new(joined),
        }
    }

    /// Registers a thread that tracks packets. Returns `None` if the maximum is reached.
    pub(crate) fn join(&self) -> Option<(Reader, ThreadContext)> {
        let seed = self.seeds.lock().unwrap_or_else(PoisonError::into_inner).u64(..);
        self.connections.join(seed)
    }

    /// Removes expired connections and frees the memory of flushed zones; call it a few times per
    /// second. One call does a bounded amount of work, so that more calls are needed after a long
    /// pause. Returns the number of expired connections.
    pub fn tick(&self, now: Instant) -> usize {
        self.expire_some(now, TICK_BUDGET).gone
    }

    /// [`Self::tick`] with a bound on the connections examined per thread and of flushed zones, for
    /// a thread that shares a processor with a worker. Returns whether more work may be due.
    pub fn tick_within(&self, now: Instant, connections_max: usize) -> bool {
        self.expire_some(now, connections_max).is_behind
    }

    fn expire_some(&self, now: Instant, connections_max: usize) -> Expiry {
        self.fragments.tick(now);
        self.with_context(|connections, guard, context| {
            context.now = now;
            connections.algs.expire(now);
            let is_draining = connections.drain(guard, context, DRAIN_BUDGET.min(connections_max));
            let expiry = connections.expire(guard, context, now, connections_max);
            Expiry { is_behind: expiry.is_behind | is_draining, ..expiry }
        })
    }

    /// The fragments that wait for the rest of their datagram.
    pub fn fragments(&self) -> &Fragments {
        &self.fragments
    }

    /// Frees part of the memory of flushed zones, as [`Self::tick`] does. Returns whether more is
    /// left.
    pub fn drain(&self) -> bool {
        self.with_context(|connections, guard, context| {
            connections.drain(guard, context, DRAIN_BUDGET)
        })
    }

    /// Returns one part of a dump. Connections that begin, end or change between two parts may be
    /// missing; one that stays appears once, even if its zone grows meanwhile.
    pub fn dump(&self, now: Instant, filter: &Filter, cursor: Cursor) -> Page {
        let mut entries = Vec::new();
        let next = self.page(filter, cursor, |connections, id, record| {
            if filter.shows(record) {
                let parent = connections.parent_of(id, record.state());
                entries.extend(Entry::new(record, parent.as_ref(), now));
            }
        });
        Page { entries, next }
    }

    /// Returns a whole dump, part by part; see [`Conntrack::dump`] for connections that change
    /// meanwhile.
    pub fn entries(&self, now: Instant, filter: &Filter) -> impl Iterator<Item = Entry> {
        let mut cursor = Some(Cursor::default());
        let parts = std::iter::from_fn(move || {
            let page = self.dump(now, filter, cursor?);
            cursor = page.next;
            Some(page.entries)
        });
        parts.flatten()
    }

    /// Returns one part of a dump of expected connections, of one zone or all. Those that come or
    /// go between two parts may be missing.
    pub fn expected(
        &self,
        now: Instant,
        zone: Option<Zone>,
        cursor: ExpectedCursor,
    ) -> ExpectedPage {
        self.connections.algs.with(|algs| algs.expectations.page(now, zone, cursor))
    }

    /// Counts the connections of one zone or all.
    pub fn stats(&self, now: Instant, filter: &Filter) -> Stats {
        let mut stats = Stats::default();
        let mut cursor = Some(Cursor::default());
        while let Some(at) = cursor {
            cursor = self.page(filter, at, |_, _, record| {
                if filter.shows(record) && !record.life().is_over(passed_ms(now)) {
                    stats.add(record);
                }
            });
        }
        stats
    }

    /// Visits one part, as [`Connections::page`] does.
    fn page(
        &self,
        filter: &Filter,
        cursor: Cursor,
        mut show: impl FnMut(&Connections, Id, &Record<'_>),
    ) -> Option<Cursor> {
        let mut own = self.context.lock().unwrap_or_else(PoisonError::into_inner);
        let guard = own.0.enter();
        let connections = &self.connections;
        let may_hold = |index: &Index| filter.may_show_of(index);
        connections.page(&guard, filter.zone, cursor, may_hold, |id, record| {
            show(connections, id, record);
        })
    }

    /// The number of connections, including expired ones that are not yet removed.
    pub fn connections(&self) -> u32 {
        self.connections.len()
    }

    /// The maximum number of connections.
    pub fn connections_max(&self) -> u32 {
        self.connections.quota.max()
    }

    /// Sets the maximum number of connections. Existing ones beyond it stay.
    pub fn set_connections_max(&self, connections: u32) {
        self.connections.set_max(connections);
    }

    /// Whether TCP segments outside the windows are invalid.
    pub fn checks_tcp_windows(&self) -> bool {
        self.settings.get().check_tcp_windows
    }

    /// Sets whether TCP segments outside the windows are invalid.
    pub fn set_check_tcp_windows(&self, check: bool) {
        self.settings.change(|settings| settings.check_tcp_windows = check);
    }

    /// Whether packets and bytes of each connection are counted.
    pub fn counts_traffic(&self) -> bool {
        self.settings.get().counts_traffic
    }

    /// Sets whether packets and bytes of each connection are counted.
    pub fn set_counts_traffic(&self, counts: bool) {
        self.settings.change(|settings| settings.counts_traffic = counts);
    }

    /// Whether early drop makes room for new connections ([`Config::early_drop`]).
    pub fn early_drop(&self) -> bool {
        self.settings.get().early_drop
    }

    /// Sets whether early drop makes room for new connections ([`Config::early_drop`]).
    pub fn set_early_drop(&self, early_drop: bool) {
        self.settings.change(|settings| settings.early_drop = early_drop);
    }

    /// The timeouts of zones without a policy of their own.
    pub fn default_timeouts(&self) -> TimeoutPolicy {
        self.settings.get().timeouts
    }

    /// Sets the timeouts of zones without a policy of their own. As for
    /// [`Conntrack::set_zone_timeouts`], they apply to a connection from its next packet on.
    pub fn set_default_timeouts(&self, policy: TimeoutPolicy) {
        self.settings.change(|settings| settings.timeouts = policy);
    }

    /// Sets a zone's own timeouts. They apply to a connection from its next packet on.
    pub fn set_zone_timeouts(&self, zone: Zone, policy: TimeoutPolicy) {
        self.settings.change(|settings| settings.zone_timeouts.insert(zone.0, policy));
    }

    /// Removes a zone's own timeouts. Returns whether it had any.
    pub fn clear_zone_timeouts(&self, zone: Zone) -> bool {
        self.settings.change(|settings| settings.zone_timeouts.remove(&zone.0).is_some())
    }

    /// Sets the maximum number of connections of a zone, or for `None` of each zone without its own
    /// limit; 0 is unlimited.
    pub fn set_zone_limit(&self, zone: Option<Zone>, limit: u32) {
        self.settings.change(|settings| settings.limits.set(zone, limit));
    }

    /// Removes a zone's own limit. Returns whether it had one.
    pub fn clear_zone_limit(&self, zone: Zone) -> bool {
        self.settings.change(|settings| settings.limits.remove(zone))
    }

    /// The limits of these zones; for an empty list, of all zones that have one.
    pub fn zone_limits(&self, zones: &[Zone]) -> ZoneLimits {
        let settings = self.settings.get();
        self.with_context(|connections, guard, _| {
            let count = |zone| connections.zones.get(guard, zone).map_or(0, Index::connections);
            settings.limits.list(zones, count)
        })
    }

    /// Sets whether changes of connections are recorded for [`Conntrack::events`].
    pub fn set_watched(&self, watched: bool) {
        self.is_watched.store(watched, Relaxed);
        self.settings.change(|settings| settings.is_watched = watched);
        if !watched {
            self.events();
        }
    }

    /// Takes the changes of connections since the last call, while [watched](Self::set_watched).
    pub fn events(&self) -> Changes {
        let mut changes = self.connections.fetch_changes();
        changes.changes.sort_by_key(|change| change.at);
        changes
    }

    /// The counts of all events.
    pub fn counters(&self) -> Counters {
        self.connections.counters()
    }

    /// A poisoned lock is ignored: a panic in one thread must not stop the others.
    fn with_context<T>(
        &self,
        work: impl FnOnce(&Connections, &Guard<'_>, &mut ThreadContext) -> T,
    ) -> T {
        let mut own = self.context.lock().unwrap_or_else(PoisonError::into_inner);
        let (reader, context) = &mut *own;
        context.is_watched = self.is_watched.load(Relaxed);
        let guard = reader.enter();
        let answer = work(&self.connections, &guard, context);
        drop(guard);
        // This context creates no connections and would keep the share of those that it removed.
        self.connections.share_places(context);
        self.connections.publish(context);
        answer
    }
}
