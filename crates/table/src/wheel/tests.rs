use super::*;
use proptest::prelude::*;
use std::collections::HashMap;

/// Links of ids, the highest bits of which are another's.
struct Rows(Vec<AtomicU64>);

impl Links for Rows {
    fn link(&self, id: Id) -> &AtomicU64 {
        &self.0[(id & 0xffff) as usize]
    }
}

impl Rows {
    fn new() -> Self {
        Rows((0..64).map(|_| AtomicU64::new(0)).collect())
    }
}

fn at(ms: u64) -> Instant {
    Instant::from_millis(ms)
}

/// Turns the wheel to `now`, and gives what was due then.
fn due(wheel: &Wheel, rows: &Rows, now: u64, deadlines: &mut HashMap<Id, u64>) -> Vec<Id> {
    let mut due = Vec::new();
    let left = wheel.advance(rows, at(now), usize::MAX, |id| match deadlines.get(&id) {
        Some(&deadline) if deadline > now => Some(at(deadline)),
        Some(_) => {
            due.push(id);
            None
        }
        None => panic!("{id} is not armed"),
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
    Arm(Id, u64),
    Later(Id, u64),
    Sooner(Id, u64),
    Forget(Id),
    Pass(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let span = prop_oneof![0..2_000u64, 0..100_000u64, 0..90_000_000u64, 0..5_000_000_000u64];
    let pass = prop_oneof![0..600u64, 0..100_000u64, 0..20_000_000u64];
    let id = prop_oneof![1..20u32, 0x8000_0020..0x8000_0040u32];
    let step = prop_oneof![
        (id.clone(), span.clone()).prop_map(|(id, span)| Step::Arm(id, span)),
        (id.clone(), span.clone()).prop_map(|(id, span)| Step::Later(id, span)),
        (id.clone(), span).prop_map(|(id, span)| Step::Sooner(id, span)),
        id.prop_map(Step::Forget),
        pass.prop_map(Step::Pass),
    ];
    proptest::collection::vec(step, 1..120)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 1 } else { 24 }))]

    #[test]
    #[cfg_attr(miri, ignore = "many thousand ticks")]
    fn never_early_and_at_most_a_tick_late(start in 0..100_000_000u64, steps in steps()) {
        let (wheel, rows) = (Wheel::new(), Rows::new());
        let mut now = start;
        let mut deadlines = HashMap::new();
        due(&wheel, &rows, now, &mut deadlines);
        for step in steps {
            match step {
                Step::Arm(id, span) => {
                    deadlines.insert(id, now + span);
                    wheel.arm(&rows, id, at(now), at(now + span));
                }
                // Only the owner notes a deadline that moves away.
                Step::Later(id, span) => {
                    deadlines.entry(id).and_modify(|deadline| *deadline += span);
                }
                Step::Sooner(id, span) => {
                    if let Some(deadline) = deadlines.get_mut(&id) {
                        *deadline = (*deadline).min(now + span);
                        wheel.rearm_earlier(&rows, id, at(*deadline));
                    } else {
                        wheel.rearm_earlier(&rows, id, at(now));
                    }
                }
                Step::Forget(id) => {
                    deadlines.remove(&id);
                    wheel.disarm(&rows, id);
                }
                Step::Pass(ms) => {
                    now += ms;
                    let before = deadlines.clone();
                    for id in due(&wheel, &rows, now, &mut deadlines) {
                        prop_assert!(before[&id] <= now);
                    }
                    for (id, &deadline) in &deadlines {
                        prop_assert!(deadline + 250 > now, "{id} of {deadline} is there at {now}");
                    }
                }
            }
            prop_assert_eq!(wheel.armed(), deadlines.len());
        }
        for row in &rows.0 {
            row.store(0, Ordering::Relaxed);
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "many thousand ticks")]
    fn a_small_budget_only_takes_more_calls(
        spans in proptest::collection::vec(0..30_000_000u64, 1..60), budget in 1..70usize,
    ) {
        let (wheel, rows) = (Wheel::new(), Rows::new());
        for (id, &span) in (1..).zip(&spans) {
            wheel.arm(&rows, id, Instant::ZERO, at(span));
        }
        let now = 30_000_250;
        let mut seen = Vec::new();
        let mut calls = 0;
        let mut look = |id: Id| {
            seen.push(id);
            None
        };
        while wheel.advance(&rows, at(now), budget, &mut look) == 0 {
            calls += 1;
            prop_assert!(calls < 1_000);
        }
        seen.sort_unstable();
        prop_assert_eq!(seen, (1..=spans.len() as u32).collect::<Vec<_>>());
    }
}

#[test]
#[cfg_attr(miri, ignore = "many thousand ticks")]
fn beyond_the_horizon_ids_are_armed_again() {
    let (wheel, rows) = (Wheel::new(), Rows::new());
    let deadline = u64::from(HORIZON) * 250 * 3;
    let mut deadlines = HashMap::from([(7, deadline)]);
    wheel.arm(&rows, 7, Instant::ZERO, at(deadline));
    for part in 1..30 {
        assert_eq!(due(&wheel, &rows, deadline / 30 * part, &mut deadlines), []);
    }
    assert_eq!(due(&wheel, &rows, deadline + 250, &mut deadlines), [7]);
    assert_eq!(rows.link(7).load(Ordering::Relaxed), 0);
}

#[test]
#[cfg_attr(miri, ignore = "many thousand ticks")]
fn ids_that_are_looked_at_in_vain_cost_one_look_a_ring() {
    let (wheel, rows) = (Wheel::new(), Rows::new());
    let day = 24 * 3_600_000;
    wheel.arm(&rows, 1, Instant::ZERO, at(day));
    let mut looks = 0;
    for second in 0..24 * 3600 {
        wheel.advance(&rows, at(second * 1000), usize::MAX, |_| {
            looks += 1;
            Some(at(day))
        });
    }
    assert!(looks <= RINGS as usize, "{looks} looks");
}
