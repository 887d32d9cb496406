//! The connection tracker as the rest of the switch sees it.

use crate::counters::{Counters, Event};
use crate::entry::Entry;
use crate::error::Error;
use crate::flush::Flush;
use crate::fragments::Fragments;
use crate::limit::ZoneLimits;
use crate::stats::Stats;
use crate::table::Table;
use crate::timeout::TimeoutPolicy;
use crate::track::Pass;
use base::{Instant, Zone, limits};
use flow::{CtAction, Frame};
use hashbrown::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Slots that one hold of the lock looks at in dumps and flushes.
const PAGE_SLOTS: usize = 1024;
/// Connections that one [`Conntrack::tick`] looks at, at most.
const TICK_BUDGET: usize = 16 * 1024;

/// What can be set from the start; all of it also later.
#[derive(Clone, Debug)]
pub struct Config {
    /// How many connections may be tracked.
    pub connections_max: u32,
    /// Timeouts of zones without a policy of their own.
    pub timeouts: TimeoutPolicy,
    /// Whether TCP segments outside the windows are invalid.
    pub check_tcp_windows: bool,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            connections_max: limits::CONNECTIONS,
            timeouts: TimeoutPolicy::new(),
            check_tcp_windows: true,
        }
    }
}

/// All tracked connections. Any thread may use it; a batch of packets takes its lock once.
pub struct Conntrack {
    inner: Mutex<Inner>,
    fragments: Fragments,
}

struct Inner {
    table: Table,
    config: Config,
    zone_timeouts: HashMap<u16, TimeoutPolicy>,
    random: fastrand::Rng,
}

const _: () = {
    const fn is_shared<T: Send + Sync>() {}
    is_shared::<Conntrack>();
};

/// Where a dump is: begins at [`Cursor::default`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Cursor(u32);

/// Which connections a dump shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Filter {
    /// Those of one zone.
    pub zone: Option<Zone>,
}

/// A part of a dump.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Page {
    /// Connections; perhaps none, with more to follow.
    pub entries: Vec<Entry>,
    /// Where to go on, or `None` at the end.
    pub next: Option<Cursor>,
}

impl Conntrack {
    /// An empty tracker. `seed` salts its hashes: give each process its own random one, so that
    /// nobody can pile connections up in one place.
    pub fn new(seed: u64, config: Config) -> Self {
        let inner = Inner {
            table: Table::new(seed),
            config,
            zone_timeouts: HashMap::new(),
            random: fastrand::Rng::with_seed(seed),
        };
        Conntrack { inner: Mutex::new(inner), fragments: Fragments::new() }
    }

    /// Tracks packets in the action's zone: writes the connection fields of their keys, and
    /// translates addresses in keys and bytes where the action asks for it. Frames whose packet is
    /// gone are passed over; fragments are invalid, unless they went through
    /// [`Conntrack::execute_reassembling`].
    pub fn execute(&self, now: Instant, action: &CtAction, frames: &mut [Frame]) {
        let mut guard = self.lock();
        let Inner { table, config, zone_timeouts, random } = &mut *guard;
        let policy = *zone_timeouts.get(&action.zone.0).unwrap_or(&config.timeouts);
        let mut pass = Pass {
            table,
            random,
            action,
            now,
            policy,
            check_windows: config.check_tcp_windows,
            connections_max: config.connections_max,
        };
        for frame in frames.iter_mut().filter(|frame| !frame.packet.is_empty()) {
            pass.track(frame);
        }
    }

    /// Forgets connections whose time ran out; call it a few times a second. One call does a
    /// bounded amount of work, so that after a long pause more calls are needed. Returns how many
    /// went.
    pub fn tick(&self, now: Instant) -> usize {
        self.fragments.tick(now);
        self.lock().table.expire(now, TICK_BUDGET).0
    }

    /// Fragments that wait for the rest of their datagram.
    pub fn fragments(&self) -> &Fragments {
        &self.fragments
    }

    /// One part of a dump. Connections that come, go or change between two parts may or may not
    /// show; none shows twice unless it went and came again.
    pub fn dump(&self, now: Instant, filter: &Filter, cursor: Cursor) -> Page {
        let guard = self.lock();
        let (slots, next) = guard.table.page(cursor.0, PAGE_SLOTS);
        let entries = slots
            .map(|(_, connection)| connection)
            .filter(|connection| filter.zone.is_none_or(|it| it.0 == connection.original.zone))
            .filter(|connection| !connection.has_expired(now))
            .map(|connection| {
                let parent = guard.table.parent_of(connection);
                Entry::new(connection, parent, now)
            })
            .collect();
        Page { entries, next: next.map(Cursor) }
    }

    /// Counts the connections of one zone or all.
    pub fn stats(&self, now: Instant, filter: &Filter) -> Stats {
        let mut stats = Stats::default();
        let mut cursor = Some(0);
        while let Some(start) = cursor {
            let guard = self.lock();
            let (slots, next) = guard.table.page(start, PAGE_SLOTS);
            for (_, connection) in slots {
                let shown = filter.zone.is_none_or(|zone| zone.0 == connection.original.zone);
                if shown && !connection.has_expired(now) {
                    stats.add(connection);
                }
            }
            cursor = next;
        }
        stats
    }

    /// Forgets the connections that fit, and says how many.
    ///
    /// # Errors
    /// A request for one whole original tuple found nothing.
    pub fn flush(&self, now: Instant, flush: &Flush) -> Result<u32, Error> {
        if let Some(key) = flush.exact_key() {
            let table = &mut self.lock().table;
            let hash = key.hash(&table.secrets);
            let found = table.find(&key, hash, now);
            let is_there = found.is_some_and(|found| table.remove(found.id, Event::Flushed));
            return if is_there { Ok(1) } else { Err(Error::NoSuchConnection { zone: key.zone }) };
        }
        let mut flushed = 0;
        let mut cursor = Some(0);
        while let Some(start) = cursor {
            let table = &mut self.lock().table;
            let (slots, next) = table.page(start, PAGE_SLOTS);
            let fitting: Vec<u32> =
                slots.filter(|(_, it)| flush.matches(it)).map(|(id, _)| id).collect();
            for id in fitting {
                flushed += u32::from(table.remove(id, Event::Flushed));
            }
            cursor = next;
        }
        Ok(flushed)
    }

    /// How many connections there are, those included whose time just ran out.
    pub fn connections(&self) -> u32 {
        self.lock().table.len()
    }

    /// How many connections there may be.
    pub fn connections_max(&self) -> u32 {
        self.lock().config.connections_max
    }

    /// Sets how many connections there may be. More that are there stay.
    pub fn set_connections_max(&self, connections: u32) {
        self.lock().config.connections_max = connections;
    }

    /// Whether TCP segments outside the windows are invalid.
    pub fn checks_tcp_windows(&self) -> bool {
        self.lock().config.check_tcp_windows
    }

    /// Sets whether TCP segments outside the windows are invalid.
    pub fn set_check_tcp_windows(&self, check: bool) {
        self.lock().config.check_tcp_windows = check;
    }

    /// The timeouts of zones without a policy of their own.
    pub fn default_timeouts(&self) -> TimeoutPolicy {
        self.lock().config.timeouts
    }

    /// Sets the timeouts of zones without a policy of their own. As for
    /// [`Conntrack::set_zone_timeouts`], a connection's next packet brings it into force.
    pub fn set_default_timeouts(&self, policy: TimeoutPolicy) {
        self.lock().config.timeouts = policy;
    }

    /// Gives a zone timeouts of its own. Connections keep the time they have until their next
    /// packet.
    pub fn set_zone_timeouts(&self, zone: Zone, policy: TimeoutPolicy) {
        self.lock().zone_timeouts.insert(zone.0, policy);
    }

    /// Takes a zone's own timeouts away; whether it had any.
    pub fn clear_zone_timeouts(&self, zone: Zone) -> bool {
        self.lock().zone_timeouts.remove(&zone.0).is_some()
    }

    /// Sets how many connections a zone may have, or (`None`) all zones together that have no
    /// limit of their own; 0 for any number.
    pub fn set_zone_limit(&self, zone: Option<Zone>, limit: u32) {
        self.lock().table.limits.set(zone, limit);
    }

    /// Takes a zone's own limit away; whether it had one.
    pub fn clear_zone_limit(&self, zone: Zone) -> bool {
        self.lock().table.limits.remove(zone)
    }

    /// The limits of these zones, or for an empty list of all zones that have one.
    pub fn zone_limits(&self, zones: &[Zone]) -> ZoneLimits {
        self.lock().table.limits.get(zones)
    }

    /// What happened how often.
    pub fn counters(&self) -> Counters {
        self.lock().table.counters.clone()
    }

    /// A panic of another thread under the lock is that thread's end, not everyone's.
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
