//! A hierarchical timing wheel: its cost depends on the ids that are due, not on the ids it holds.
//!
//! Four rings of 64 slots, a tick of 250 ms: 16 s, 17 minutes, 18 hours, 48 days. Each id is in at
//! most one slot, in a doubly linked list whose links are in the ids' own records, one word each,
//! so that insertion and removal take constant time.
//!
//! Each thread has a wheel, so that threads that create connections do not contend; the lock is for
//! other threads that remove an id, and for the one that advances the wheel.
//!
//! Re-arming is lazy: a later deadline is only stored in the record. The wheel visits the id at the
//! old time, gets the new deadline, and moves the id. Only an earlier deadline must be announced
//! ([`Wheel::rearm_earlier`]). A record does not store the time it is armed for, so the wheel also asks
//! for the deadline when it moves an id to a smaller ring.
//!
//! The laws: an id leaves the wheel only if the caller says so; and the first complete
//! [`Wheel::advance`] at least one tick after its deadline visits an id.

use crate::Id;
use crate::atomic::{AtomicU64, Mutex, Ordering, lock};
use base::Instant;
use std::time::Duration;

/// The wheel's resolution.
pub const TICK: Duration = Duration::from_millis(250);

const SLOT_BITS: u32 = 6;
const SLOTS: usize = 1 << SLOT_BITS;
const RINGS: u32 = 4;
/// Ids beyond this many ticks are visited early and armed again.
const HORIZON: u32 = 1 << (SLOT_BITS * RINGS);
/// No id.
const NONE: u32 = 0;
/// From here on, the "previous" field holds a slot: the id is the first of its list.
const FIRST_OF: u32 = u32::MAX - (1 << 16) + 1;
/// The number of ids that are visited before other threads get the lock.
const SLICE: usize = 32;

/// Access to the ids' links.
pub trait Links {
    /// The word of this id that belongs to the wheel; zero if the id is not armed.
    fn link(&self, id: Id) -> &AtomicU64;
}

/// Ids by the time of their next visit.
pub struct Wheel {
    rings: Mutex<Rings>,
}

struct Rings {
    /// The first tick that is not complete.
    current: u32,
    /// Whether the ids of the larger rings for this tick have been moved.
    is_cascaded: bool,
    armed: usize,
    heads: [Id; SLOTS * RINGS as usize],
}

/// An id's link: the previous id (or, for the first, the slot), and the next.
#[derive(Clone, Copy)]
struct Link {
    previous: u32,
    next: u32,
}

impl Wheel {
    /// An empty wheel.
    #[must_use]
    pub fn new() -> Self {
        let heads = [NONE; SLOTS * RINGS as usize];
        Wheel { rings: Mutex::new(Rings { current: 0, is_cascaded: false, armed: 0, heads }) }
    }

    /// Arms `id` for `deadline`, or moves it if it is armed here. An empty wheel begins at `now`,
    /// so that the first advance has no past ticks to step through.
    #[inline]
    pub fn arm(&self, links: &impl Links, id: Id, now: Instant, deadline: Instant) {
        let mut rings = lock(&self.rings);
        rings.begin_at(now);
        rings.unlink(links, id);
        rings.link(links, id, tick_at_or_after(deadline));
    }

    /// Visits `id`, if it is armed, no later than `deadline`.
    pub fn rearm_earlier(&self, links: &impl Links, id: Id, deadline: Instant) {
        let mut rings = lock(&self.rings);
        if rings.unlink(links, id) {
            rings.link(links, id, tick_at_or_after(deadline));
        }
    }

    /// Removes `id`, if it is armed.
    pub fn disarm(&self, links: &impl Links, id: Id) {
        lock(&self.rings).unlink(links, id);
    }

    /// Advances to `now`, visiting at most `budget` ids. Calls `look` for each id that may be due.
    /// `look` returns the time of the next visit, or `None` to remove the id; it runs under the
    /// wheel's lock and must not use this wheel. Returns the rest of the budget; zero means that
    /// more ids may be due.
    pub fn advance(
        &self,
        links: &impl Links,
        now: Instant,
        mut budget: usize,
        mut look: impl FnMut(Id) -> Option<Instant>,
    ) -> usize {
        let target = tick_at_or_before(now);
        while budget > 0 {
            let slice = budget.min(SLICE);
            let left = lock(&self.rings).advance(links, target, slice, &mut look);
            budget -= slice - left;
            if left > 0 {
                break;
            }
        }
        budget
    }

    /// The number of armed ids.
    #[must_use]
    pub fn armed(&self) -> usize {
        lock(&self.rings).armed
    }
}

impl Default for Wheel {
    fn default() -> Self {
        Wheel::new()
    }
}

impl Rings {
    fn begin_at(&mut self, now: Instant) {
        if self.armed == 0 {
            let tick = tick_at_or_before(now);
            if tick > self.current {
                (self.current, self.is_cascaded) = (tick, true);
            }
        }
    }

    fn advance(
        &mut self,
        links: &impl Links,
        target: u32,
        mut budget: usize,
        look: &mut impl FnMut(Id) -> Option<Instant>,
    ) -> usize {
        while self.current <= target {
            if self.armed == 0 {
                (self.current, self.is_cascaded) = (target.saturating_add(1), true);
                break;
            }
            if !self.is_cascaded {
                for ring in (1..RINGS).rev() {
                    if self.current.is_multiple_of(1 << (SLOT_BITS * ring)) {
                        let slot = slot_of(ring, self.current);
                        budget = self.empty(links, slot, self.current, budget, look);
                    }
                }
                self.is_cascaded = budget > 0;
            }
            let after = self.current.saturating_add(1);
            budget = self.empty(links, slot_of(0, self.current), after, budget, look);
            if budget == 0 {
                return 0;
            }
            let Some(next) = self.current.checked_add(1) else { break };
            (self.current, self.is_cascaded) = (next, false);
        }
        budget
    }

    /// Visits the ids of a slot, and moves those that stay to their slots, not before `earliest`.
    /// Returns the rest of `budget`.
    fn empty(
        &mut self,
        links: &impl Links,
        slot: usize,
        earliest: u32,
        mut budget: usize,
        look: &mut impl FnMut(Id) -> Option<Instant>,
    ) -> usize {
        while budget > 0 && self.heads[slot] != NONE {
            let id = self.heads[slot];
            budget -= 1;
            self.unlink(links, id);
            if let Some(deadline) = look(id) {
                self.link(links, id, tick_at_or_after(deadline).max(earliest));
            }
        }
        budget
    }

    /// Inserts an id that is not armed.
    #[inline]
    fn link(&mut self, links: &impl Links, id: Id, tick: u32) {
        let tick = tick.clamp(self.current, self.current.saturating_add(HORIZON - 1));
        let ring = (32 - (tick - self.current).leading_zeros()).saturating_sub(1) / SLOT_BITS;
        let slot = slot_of(ring, tick);
        let next = std::mem::replace(&mut self.heads[slot], id);
        if next != NONE {
            let word = links.link(next);
            Link { previous: id, ..Link::read(word) }.write(word);
        }
        Link { previous: FIRST_OF + slot as u32, next }.write(links.link(id));
        self.armed += 1;
    }

    /// Removes an id. Returns whether it was armed.
    #[inline]
    fn unlink(&mut self, links: &impl Links, id: Id) -> bool {
        let word = links.link(id);
        let Link { previous, next } = Link::read(word);
        if previous == NONE {
            return false;
        }
        Link { previous: NONE, next: NONE }.write(word);
        if previous >= FIRST_OF {
            self.heads[(previous - FIRST_OF) as usize] = next;
        } else {
            let word = links.link(previous);
            Link { next, ..Link::read(word) }.write(word);
        }
        if next != NONE {
            let word = links.link(next);
            Link { previous, ..Link::read(word) }.write(word);
        }
        self.armed -= 1;
        true
    }
}

/// The wheel's lock guards all links.
impl Link {
    #[inline]
    fn read(word: &AtomicU64) -> Self {
        let word = word.load(Ordering::Relaxed);
        Link { previous: (word >> 32) as u32, next: word as u32 }
    }

    #[inline]
    fn write(self, word: &AtomicU64) {
        word.store(u64::from(self.previous) << 32 | u64::from(self.next), Ordering::Relaxed);
    }
}

fn slot_of(ring: u32, tick: u32) -> usize {
    ring as usize * SLOTS + ((tick >> (SLOT_BITS * ring)) as usize & (SLOTS - 1))
}

/// The first tick that is not before `moment`, so that a visit is never early.
fn tick_at_or_after(moment: Instant) -> u32 {
    u32::try_from(moment.as_nanos().div_ceil(TICK.as_nanos() as u64)).unwrap_or(u32::MAX)
}

fn tick_at_or_before(moment: Instant) -> u32 {
    u32::try_from(moment.as_nanos() / TICK.as_nanos() as u64).unwrap_or(u32::MAX)
}

#[cfg(all(test, not(loom)))]
mod tests;
