//! A hierarchical timing wheel: who is due costs by who is due, not by who is there.
//!
//! Four rings of 64 slots, a tick of 250 ms: 16 s, 17 minutes, 18 hours, 48 days. Each id stands in
//! at most one slot, in a doubly linked list whose links lie in the ids' own records, one word each,
//! so that putting in and taking out cost the same whatever the wheel holds.
//!
//! A wheel is one thread's, so that threads that create connections do not meet; its lock is for
//! others that remove one, and for the thread that turns it.
//!
//! Re-arming is lazy: a deadline that moves later is only noted in the record. The wheel
//! comes by at the old time, is told the new deadline, and moves on. Only a deadline that moves
//! earlier must be told ([`Wheel::hasten`]). A record has no room for the time it is armed for, so
//! the wheel also asks for the deadline when it moves an id to a smaller ring.
//!
//! The laws: an id is done with only when it is said to be; and an id is asked about by the first
//! complete [`Wheel::advance`] at least one tick after its deadline.

use crate::Id;
use crate::atomic::{AtomicU64, Mutex, Ordering, lock};
use base::Instant;
use std::time::Duration;

/// The wheel's resolution.
pub const TICK: Duration = Duration::from_millis(250);

const SLOT_BITS: u32 = 6;
const SLOTS: usize = 1 << SLOT_BITS;
const RINGS: u32 = 4;
/// Beyond this many ticks, an id is looked at early and armed again.
const HORIZON: u32 = 1 << (SLOT_BITS * RINGS);
/// No id.
const NONE: u32 = 0;
/// From here on, what stands in the place of the previous id is a slot: the id is its first.
const FIRST_OF: u32 = u32::MAX - (1 << 16) + 1;
/// Ids that are looked at before others get the lock.
const SLICE: usize = 32;

/// Where the ids' links are.
pub trait Links {
    /// The word of this id that belongs to the wheel. Zero: not armed.
    fn link(&self, id: Id) -> &AtomicU64;
}

/// Ids by the time at which to look at them.
pub struct Wheel {
    rings: Mutex<Rings>,
}

struct Rings {
    /// The first tick that is not done.
    current: u32,
    /// Whether what the larger rings hold for this tick was moved already.
    is_cascaded: bool,
    armed: usize,
    heads: [Id; SLOTS * RINGS as usize],
}

/// An id's link: who stands before it (or, for the first, which slot), and who after it.
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

    /// Looks at `id` at `deadline`; an id that is armed here is moved there. `now` is where an
    /// empty wheel begins, so that the first turn does not have to go there step by step.
    #[inline]
    pub fn arm(&self, links: &impl Links, id: Id, now: Instant, deadline: Instant) {
        let mut rings = lock(&self.rings);
        rings.begin_at(now);
        rings.unlink(links, id);
        rings.link(links, id, tick_at_or_after(deadline));
    }

    /// Looks at `id`, if it is armed, at `deadline` and not later.
    pub fn hasten(&self, links: &impl Links, id: Id, deadline: Instant) {
        let mut rings = lock(&self.rings);
        if rings.unlink(links, id) {
            rings.link(links, id, tick_at_or_after(deadline));
        }
    }

    /// Forgets `id`, if it is armed.
    pub fn disarm(&self, links: &impl Links, id: Id) {
        lock(&self.rings).unlink(links, id);
    }

    /// Goes on to `now`, looking at no more than `budget` ids. `look` is called with each id that
    /// may be due: its answer says when to look again; `None`, that the id is done with. It is
    /// called under the wheel's lock, and must not use this wheel. Returns what of the budget is
    /// left; zero says that there may be more to do.
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

    /// How many ids are armed.
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

    /// Looks at what a slot holds, and puts what is not done with where it belongs, not before
    /// `earliest`. Returns what of `budget` is left.
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

    /// Puts an unarmed id in.
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

    /// Takes an id out; whether it was armed.
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

/// Links are read and written under the wheel's lock only.
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

/// The first tick that is not before `moment`: looking then is never early.
fn tick_at_or_after(moment: Instant) -> u32 {
    u32::try_from(moment.as_nanos().div_ceil(TICK.as_nanos() as u64)).unwrap_or(u32::MAX)
}

fn tick_at_or_before(moment: Instant) -> u32 {
    u32::try_from(moment.as_nanos() / TICK.as_nanos() as u64).unwrap_or(u32::MAX)
}

#[cfg(all(test, not(loom)))]
mod tests;
