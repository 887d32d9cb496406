//! A hierarchical timing wheel: who is due costs by who is due, not by who is there.
//!
//! Four rings of 64 slots, a tick of 250 ms: 16 s, 17 minutes, 18 hours, 48 days. Each id stands in
//! at most one slot, in a doubly linked list whose links lie beside each other in one vector
//! indexed by id, so that putting in and taking out cost the same whatever the wheel holds.
//!
//! Re-arming is lazy: a deadline that moves later is only noted by whoever owns it. The wheel
//! comes by at the old time, is told the new deadline, and moves on. Only a deadline that moves
//! earlier than the time already armed must be told ([`Wheel::hasten`]).
//!
//! The laws: what is due at a moment is never given out before it, and is given out by the first
//! complete [`Wheel::advance`] at least one tick after it.

use base::Instant;
use std::time::Duration;

/// The wheel's resolution.
pub(crate) const TICK: Duration = Duration::from_millis(250);

const SLOT_BITS: u32 = 6;
const SLOTS: usize = 1 << SLOT_BITS;
const RINGS: u32 = 4;
/// Beyond this many ticks, an id is looked at early and armed again.
const HORIZON: u32 = 1 << (SLOT_BITS * RINGS);
const NONE: u32 = u32::MAX;

/// Ids by the time at which to look at them.
pub(crate) struct Wheel {
    /// The first tick that is not done.
    current: u32,
    armed: usize,
    heads: [u32; SLOTS * RINGS as usize],
    links: Vec<Link>,
}

/// An id's place. `slot` is [`NONE`] where it is not armed.
#[derive(Clone, Copy)]
struct Link {
    next: u32,
    previous: u32,
    slot: u32,
    tick: u32,
}

const UNARMED: Link = Link { next: NONE, previous: NONE, slot: NONE, tick: 0 };

impl Wheel {
    /// An empty wheel.
    pub fn new() -> Self {
        Wheel { current: 0, armed: 0, heads: [NONE; SLOTS * RINGS as usize], links: Vec::new() }
    }

    /// Looks at `id` at `deadline`; an id that is armed is moved there. `now` is where an empty
    /// wheel begins, so that the first turn does not have to go there step by step.
    pub fn arm(&mut self, id: u32, now: Instant, deadline: Instant) {
        if self.armed == 0 {
            self.current = self.current.max(tick_at_or_before(now));
        }
        if self.links.len() <= id as usize {
            self.links.resize(id as usize + 1, UNARMED);
        }
        self.unlink(id);
        self.link(id, tick_at_or_after(deadline));
    }

    /// Looks at `id` at `deadline` if it would otherwise look later.
    pub fn hasten(&mut self, id: u32, deadline: Instant) {
        let tick = tick_at_or_after(deadline);
        let armed_later = |link: &&Link| link.slot != NONE && link.tick > tick;
        if self.links.get(id as usize).filter(armed_later).is_some() {
            self.unlink(id);
            self.link(id, tick);
        }
    }

    /// Forgets `id`.
    pub fn disarm(&mut self, id: u32) {
        self.unlink(id);
    }

    /// Goes on to `now`, moving or giving out at most `budget` ids. `deadline_of` is called with
    /// each id that was armed for a time up to `now`: its answer, if later, arms the id again;
    /// `None` says that the id is done with. Returns what of the budget is left; zero says that
    /// there may be more to do.
    pub fn advance(
        &mut self,
        now: Instant,
        mut budget: usize,
        mut deadline_of: impl FnMut(u32) -> Option<Instant>,
    ) -> usize {
        let target = tick_at_or_before(now);
        while self.current <= target {
            if self.armed == 0 {
                self.current = target.saturating_add(1);
                break;
            }
            budget = self.cascade(budget);
            let slot = slot_of(0, self.current);
            while budget > 0 && self.heads[slot] != NONE {
                let id = self.heads[slot];
                budget -= 1;
                self.unlink(id);
                if let Some(deadline) = deadline_of(id) {
                    self.link(id, tick_at_or_after(deadline).max(self.current.saturating_add(1)));
                }
            }
            if budget == 0 {
                return 0;
            }
            let Some(next) = self.current.checked_add(1) else { break };
            self.current = next;
        }
        budget
    }

    /// Where the current tick begins a new turn of a ring, moves what the next larger ring holds
    /// for that turn into the smaller ones. Returns what of `budget` is left.
    fn cascade(&mut self, mut budget: usize) -> usize {
        for ring in (1..RINGS).rev() {
            if !self.current.is_multiple_of(1 << (SLOT_BITS * ring)) {
                continue;
            }
            let slot = slot_of(ring, self.current);
            while budget > 0 && self.heads[slot] != NONE {
                let id = self.heads[slot];
                budget -= 1;
                let tick = self.links[id as usize].tick;
                self.unlink(id);
                self.link(id, tick);
            }
        }
        budget
    }

    /// Puts an unarmed id in.
    fn link(&mut self, id: u32, tick: u32) {
        let tick = tick.clamp(self.current, self.current.saturating_add(HORIZON - 1));
        let ring = (32 - (tick - self.current).leading_zeros()).saturating_sub(1) / SLOT_BITS;
        let slot = slot_of(ring, tick);
        let next = std::mem::replace(&mut self.heads[slot], id);
        if next != NONE {
            self.links[next as usize].previous = id;
        }
        self.links[id as usize] = Link { next, previous: NONE, slot: slot as u32, tick };
        self.armed += 1;
    }

    fn unlink(&mut self, id: u32) {
        let Some(link) = self.links.get_mut(id as usize) else { return };
        let Link { next, previous, slot, .. } = std::mem::replace(link, UNARMED);
        if slot == NONE {
            return;
        }
        match previous {
            NONE => self.heads[slot as usize] = next,
            previous => self.links[previous as usize].next = next,
        }
        if next != NONE {
            self.links[next as usize].previous = previous;
        }
        self.armed -= 1;
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    fn due(wheel: &mut Wheel, now: u64, deadlines: &mut HashMap<u32, u64>) -> Vec<u32> {
        let mut due = Vec::new();
        let now_at = Instant::from_millis(now);
        let left = wheel.advance(now_at, usize::MAX, |id| match deadlines.get(&id) {
            Some(&deadline) if deadline > now => Some(Instant::from_millis(deadline)),
            Some(_) => {
                due.push(id);
                None
            }
            None => None,
        });
        assert!(left > 0);
        for id in &due {
            deadlines.remove(id);
        }
        due
    }

    /// What happens to one of the ids, or to the time.
    #[derive(Clone, Debug)]
    enum Step {
        Arm(u32, u64),
        Later(u32, u64),
        Sooner(u32, u64),
        Forget(u32),
        Pass(u64),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let span = prop_oneof![0..2_000u64, 0..100_000u64, 0..90_000_000u64, 0..5_000_000_000u64];
        let pass = prop_oneof![0..600u64, 0..100_000u64, 0..20_000_000u64];
        let step = prop_oneof![
            (0..40u32, span.clone()).prop_map(|(id, span)| Step::Arm(id, span)),
            (0..40u32, span.clone()).prop_map(|(id, span)| Step::Later(id, span)),
            (0..40u32, span).prop_map(|(id, span)| Step::Sooner(id, span)),
            (0..40u32).prop_map(Step::Forget),
            pass.prop_map(Step::Pass),
        ];
        proptest::collection::vec(step, 1..120)
    }

    proptest! {
        #[test]
        fn never_early_and_at_most_a_tick_late(start in 0..100_000_000u64, steps in steps()) {
            let mut wheel = Wheel::new();
            let mut now = start;
            let mut deadlines = HashMap::new();
            due(&mut wheel, now, &mut deadlines);
            for step in steps {
                match step {
                    Step::Arm(id, span) => {
                        deadlines.insert(id, now + span);
                        wheel.arm(id, Instant::from_millis(now), Instant::from_millis(now + span));
                    }
                    // Only the owner notes a deadline that moves away.
                    Step::Later(id, span) => {
                        deadlines.entry(id).and_modify(|at| *at += span);
                    }
                    Step::Sooner(id, span) => {
                        if let Some(at) = deadlines.get_mut(&id) {
                            *at = (*at).min(now + span);
                            wheel.hasten(id, Instant::from_millis(*at));
                        }
                    }
                    Step::Forget(id) => {
                        deadlines.remove(&id);
                        wheel.disarm(id);
                    }
                    Step::Pass(ms) => {
                        now += ms;
                        let before = deadlines.clone();
                        for id in due(&mut wheel, now, &mut deadlines) {
                            prop_assert!(before[&id] <= now);
                        }
                        for (id, &at) in &deadlines {
                            prop_assert!(at + 250 > now, "{id} of {at} still there at {now}");
                        }
                    }
                }
                prop_assert_eq!(wheel.armed, deadlines.len());
            }
        }

        #[test]
        fn a_small_budget_only_takes_more_calls(
            spans in proptest::collection::vec(0..30_000_000u64, 1..60), budget in 1..5usize,
        ) {
            let mut wheel = Wheel::new();
            for (id, &span) in spans.iter().enumerate() {
                wheel.arm(id as u32, Instant::ZERO, Instant::from_millis(span));
            }
            let now = Instant::from_millis(30_000_250);
            let mut seen = Vec::new();
            let mut calls = 0;
            while wheel.advance(now, budget, |id| { seen.push(id); None }) == 0 {
                calls += 1;
                prop_assert!(calls < 1_000);
            }
            seen.sort_unstable();
            prop_assert_eq!(seen, (0..spans.len() as u32).collect::<Vec<_>>());
        }
    }

    #[test]
    fn beyond_the_horizon_ids_are_armed_again() {
        let mut wheel = Wheel::new();
        let deadline = u64::from(HORIZON) * 250 * 3;
        let mut deadlines = HashMap::from([(7, deadline)]);
        wheel.arm(7, Instant::ZERO, Instant::from_millis(deadline));
        for part in 1..30 {
            assert_eq!(due(&mut wheel, deadline / 30 * part, &mut deadlines), []);
        }
        assert_eq!(due(&mut wheel, deadline + 250, &mut deadlines), [7]);
    }
}
