//! What ids are handed out, and when again.

use super::*;

#[test]
fn a_fetched_record_is_the_record_itself() {
    let epochs = Epochs::new();
    // Three cache lines, so that more than one is fetched.
    let slab = Slab::<24>::new(Arc::clone(&epochs), 200);
    let mut spare = slab.spare();
    let ids: Vec<Id> = std::iter::from_fn(|| slab.take(&mut spare)).collect();
    assert_eq!(ids.len(), 200);
    for (&id, other) in ids.iter().zip((0..4).cycle()) {
        slab.fetch(id, other)[23].store(u64::from(id), Ordering::Relaxed);
    }
    for &id in &ids {
        assert_eq!(slab.words(id)[23].load(Ordering::Relaxed), u64::from(id));
        assert!(std::ptr::eq(slab.fetch(id, 2), slab.words(id)));
    }
}

#[test]
#[cfg_attr(miri, ignore = "many thousand steps")]
fn records_of_threads_that_begin_at_once_lie_apart() {
    let slab = Slab::<1>::new(Epochs::new(), 50_000);
    let mut spares = [(); 2].map(|()| slab.spare());
    let ids: Vec<_> = (0..1000).map(|_| spares.each_mut().map(|it| slab.take(it))).collect();
    for thread in 0..2 {
        let first = ids[0][thread].unwrap();
        let mine: Vec<_> = ids.iter().filter_map(|each| each[thread]).collect();
        assert_eq!(mine, (first..first + 1000).collect::<Vec<_>>());
    }
}

#[test]
#[cfg_attr(miri, ignore = "many thousand steps")]
fn what_a_thread_that_goes_leaves_of_its_piece_is_not_lost() {
    let slab = Slab::<1>::new(Epochs::new(), 50_000);
    let [mut one, mut other] = [(); 2].map(|()| slab.spare());
    let mut ids: Vec<Id> = (0..40_000).map_while(|_| slab.take(&mut one)).collect();
    ids.push(slab.take(&mut other).unwrap());
    let left = other.piece.clone();
    assert!(left.len() > BATCH && left.end.is_multiple_of(2048));
    drop(other);
    ids.extend(std::iter::from_fn(|| slab.take(&mut one)));
    ids.sort_unstable();
    assert!(ids.iter().copied().eq(1..=50_000), "each once");
}

#[test]
#[cfg_attr(miri, ignore = "many thousand steps")]
fn what_a_thread_has_too_much_of_is_for_the_others() {
    for is_seen in [false, true] {
        let slab = Slab::<1>::new(Epochs::new(), 5000);
        let [mut one, mut other] = [(); 2].map(|()| slab.spare());
        let ids: Vec<Id> = std::iter::from_fn(|| slab.take(&mut one)).collect();
        assert!(ids.len() == 5000 && slab.take(&mut other).is_none());
        for id in ids {
            if is_seen { slab.retire(&mut one, id) } else { slab.put_back(&mut one, id) }
        }
        let taken = std::iter::from_fn(|| slab.take(&mut other)).count();
        assert!(taken > 5000 - 2 * TOO_MANY, "{taken}, seen by others: {is_seen}");
    }
}

/// Takes and retires ids until there is none. Returns how many, and the largest.
fn churn(slab: &Slab<1>, spare: &mut Spare, turns: usize) -> (usize, Id) {
    let taken = (0..turns).map_while(|_| {
        let id = slab.take(spare)?;
        slab.retire(spare, id);
        Some(id)
    });
    taken.fold((0, 0), |(count, largest), id| (count + 1, largest.max(id)))
}

#[test]
#[cfg_attr(miri, ignore = "many thousand steps")]
fn while_a_guard_is_held_no_more_memory_is_used_than_may_wait() {
    let epochs = Epochs::new();
    let slab = Slab::<1>::new(Arc::clone(&epochs), 50_000);
    slab.set_waiting_max(1000);
    let [mut spare, mut other] = [(); 2].map(|()| slab.spare());
    let mut reader = epochs.reader().unwrap();
    let guard = reader.enter();
    let (taken, largest) = churn(&slab, &mut spare, 10_000);
    assert!((1000..1200).contains(&taken) && largest < 1200, "{taken}, {largest}");
    assert!(slab.is_behind() && slab.take(&mut spare).is_none() && slab.take(&mut other).is_none());
    // What a thread that goes leaves behind waits as before.
    drop(spare);
    assert!(slab.is_behind() && slab.take(&mut other).is_none());
    drop(guard);
    let (taken, largest) = churn(&slab, &mut other, 10_000);
    assert!(taken == 10_000 && largest < 1200 && !slab.is_behind(), "{taken}, {largest}");
}

#[test]
#[cfg_attr(miri, ignore = "many thousand steps")]
fn without_a_fence_no_more_memory_is_used_than_may_wait() {
    let epochs = Epochs::refused();
    let slab = Slab::<1>::new(Arc::clone(&epochs), 50_000);
    slab.set_waiting_max(1000);
    let (taken, _) = churn(&slab, &mut slab.spare(), 10_000);
    assert!((1000..1200).contains(&taken) && epochs.refusals() > 0, "{taken}");
}

#[test]
#[should_panic(expected = "nothing was ever made at 1")]
fn what_was_never_made_cannot_be_fetched() {
    let _ = Slab::<1>::new(Epochs::new(), 200).fetch(1, 0);
}
