//! A timing wheel of three levels with one timer per connection.

use base::Instant;

/// One tick is 2^18 ns, about a quarter of a millisecond: even at millions of packets per second, the timers
/// of one tick send fewer packets than queues hold.
const TICK_SHIFT: u32 = 18;
const SLOT_BITS: u32 = 8;
const SLOTS: usize = 1 << SLOT_BITS;
const LEVELS: usize = 3;
const NONE: u32 = u32::MAX;

/// The links of one timer in the list of its slot.
#[derive(Clone, Copy)]
struct Link {
    next: u32,
    previous: u32,
    /// Expiry in ticks; 2^32 ticks are 13 days.
    tick: u32,
    /// `NONE` if the timer is not set.
    slot: u32,
}

const UNSET: Link = Link { next: NONE, previous: NONE, tick: 0, slot: NONE };

/// Bytes per timer.
pub(crate) const BYTES_PER_TIMER: usize = size_of::<Link>();

/// One timer for each number below a capacity. Setting and firing take constant time.
pub(crate) struct Wheel {
    links: Vec<Link>,
    heads: Vec<u32>,
    now: u32,
}

impl Wheel {
    /// Timers for the ids below `capacity`, none of them set, with the time `now`. Memory that is not used is
    /// not touched.
    pub fn new(capacity: usize, now: Instant) -> Wheel {
        let heads = vec![NONE; LEVELS * SLOTS];
        Wheel { links: Vec::with_capacity(capacity), heads, now: tick_of(now.as_nanos()) }
    }

    /// Makes timer `id` fire at `due_ns` or earlier. A timer that is set to an earlier time keeps it: its
    /// owner checks what is due when it fires and sets it again, which costs less than moving the timer with
    /// every packet.
    pub fn set(&mut self, id: u32, due_ns: u64) {
        if due_ns == u64::MAX {
            return;
        }
        // Rounded up, so that it never fires early, and never enters the slot that was just emptied.
        let tick = tick_of(due_ns.saturating_add((1 << TICK_SHIFT) - 1)).max(self.now + 1);
        if id as usize >= self.links.len() {
            self.links.resize(id as usize + 1, UNSET);
        }
        let Some(link) = self.links.get(id as usize) else { return };
        if link.slot != NONE {
            if link.tick <= tick {
                return;
            }
            self.unlink(id);
        }
        self.link(id, tick);
    }

    /// Prefetches the memory that setting this timer needs.
    #[inline]
    pub fn prefetch(&self, id: u32) {
        if let Some(link) = self.links.get(id as usize) {
            table::prefetch(link);
        }
    }

    /// Advances to `now` and appends the ids of expired timers to `fired`.
    pub fn advance(&mut self, now: Instant, fired: &mut Vec<u32>) {
        let target = tick_of(now.as_nanos());
        while self.now < target {
            self.now += 1;
            for level in (1..LEVELS).rev() {
                if self.now & ((1 << (SLOT_BITS * level as u32)) - 1) == 0 {
                    self.cascade(level);
                }
            }
            let slot = self.now as usize % SLOTS;
            let mut id = std::mem::replace(&mut self.heads[slot], NONE);
            while let Some(link) = self.links.get_mut(id as usize) {
                fired.push(id);
                link.slot = NONE;
                id = link.next;
            }
        }
    }

    /// Moves the timers of the current slot of a higher level to the lower levels.
    fn cascade(&mut self, level: usize) {
        let slot = (self.now >> (SLOT_BITS * level as u32)) as usize % SLOTS;
        let mut id = std::mem::replace(&mut self.heads[level * SLOTS + slot], NONE);
        while let Some(&link) = self.links.get(id as usize) {
            self.link(id, link.tick);
            id = link.next;
        }
    }

    fn link(&mut self, id: u32, tick: u32) {
        // The level is that of the highest digit in which the tick differs from now, so that the slot is
        // emptied exactly when now reaches that digit.
        let differ = tick ^ self.now;
        let level = (0..LEVELS - 1).find(|&l| differ >> (SLOT_BITS * (l as u32 + 1)) == 0);
        let level = level.unwrap_or(LEVELS - 1);
        let digit = (tick >> (SLOT_BITS * level as u32)) as usize % SLOTS;
        let slot = level * SLOTS + digit;
        let next = std::mem::replace(&mut self.heads[slot], id);
        if let Some(link) = self.links.get_mut(next as usize) {
            link.previous = id;
        }
        self.links[id as usize] = Link { next, previous: NONE, tick, slot: slot as u32 };
    }

    fn unlink(&mut self, id: u32) {
        let link = self.links[id as usize];
        match self.links.get_mut(link.previous as usize) {
            Some(previous) => previous.next = link.next,
            None => self.heads[link.slot as usize] = link.next,
        }
        if let Some(next) = self.links.get_mut(link.next as usize) {
            next.previous = link.previous;
        }
    }
}

fn tick_of(ns: u64) -> u32 {
    u32::try_from(ns >> TICK_SHIFT).unwrap_or(u32::MAX - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TICK_NS: u64 = 1 << TICK_SHIFT;

    proptest! {
        /// Each timer fires once, not early, and within two ticks after its time.
        #[test]
        fn timers_fire_once_and_in_time(
            start in 0u64..1 << 45,
            dues in proptest::collection::vec(0u64..1 << 38, 1..60),
            step in 1u64..1 << 33,
        ) {
            let mut wheel = Wheel::new(dues.len(), Instant::from_nanos(start));
            for (id, due) in dues.iter().enumerate() {
                // Set to a late time first, then moved earlier.
                wheel.set(id as u32, start + due + (1 << 37));
                wheel.set(id as u32, start + due);
                wheel.set(id as u32, start + due + 5 * TICK_NS);
            }
            let mut when = vec![None; dues.len()];
            let (mut now, mut fired) = (start, Vec::new());
            while now < start + (1 << 38) + step + 3 * TICK_NS {
                now += step;
                wheel.advance(Instant::from_nanos(now), &mut fired);
                for id in fired.drain(..) {
                    prop_assert!(when[id as usize].replace(now).is_none());
                }
            }
            for (due, when) in dues.iter().zip(when) {
                let late = when.unwrap() - start;
                prop_assert!(late >= *due && late <= due + step + 2 * TICK_NS);
            }
        }
    }
}
