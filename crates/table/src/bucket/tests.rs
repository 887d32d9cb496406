use super::*;

#[test]
fn a_bucket_is_alone_without_a_writer_and_a_second_bucket() {
    let of_version_7 = 7 * VERSION_STEP;
    let cases = [
        (0, true),
        (of_version_7, true),
        (VERSION, true),
        (LOCKED, false),
        (of_version_7 | LOCKED, false),
        (1 << 32, false),
        (u64::from(u32::MAX) << 32 | of_version_7, false),
        (1 << 63 | LOCKED, false),
    ];
    for (control, is_alone) in cases {
        assert_eq!(super::is_alone(control), is_alone, "{control:#x}");
    }
}

/// What the control word of a real chain says as it fills, is written to, and empties.
#[test]
fn a_chain_says_when_it_is_alone() {
    let (overflow, first) = (Overflow::new(1024), Bucket::default());
    let says = || is_alone(first[0].load(Ordering::Relaxed));
    for id in 1..=9 {
        let mut chain = Chain::lock(&first, &overflow, 0);
        assert!(!says(), "a writer is at it");
        assert!(chain.put(Entry::new(5, id), |_| false).is_ok());
        drop(chain);
        assert_eq!(says(), id <= 7, "{id} entries");
    }
    for id in 1..=2 {
        let taken = Chain::lock(&first, &overflow, 0).take_out(|entry| entry.id() == id);
        assert_eq!((taken, says()), (1, id == 2), "{id} gone");
    }
}

#[test]
fn where_there_are_no_new_buckets_those_that_another_thread_returned_are_taken() {
    for giver in [0, 2] {
        // The first batch of links is never taken, since link 0 is none.
        let overflow = Overflow::new(64);
        let taken: Vec<u64> = (0..32).map(|_| overflow.take(0)).collect();
        taken.iter().for_each(|&link| overflow.give(giver, link));
        let others: Vec<u64> = (0..16).map(|_| overflow.take(1)).collect();
        assert!(others.iter().all(|link| taken.contains(link)), "{others:?}");
    }
}

/// Entries of a third bucket are still in the chain when the second has gone, and readers notice.
#[test]
fn a_chain_of_three_buckets_loses_only_the_empty_one() {
    let (overflow, first) = (Overflow::new(1024), Bucket::default());
    let version = || first[0].load(Ordering::Relaxed) & VERSION;
    let mut chain = Chain::lock(&first, &overflow, 0);
    (1..=17).for_each(|id| assert!(chain.put(Entry::new(5, id), |_| false).is_ok()));
    drop(chain);
    let mut seen = vec![version()];
    for (most, expect) in [(8, 8), (12, 4), (17, 5), (17, 0)] {
        let taken = Chain::lock(&first, &overflow, 0).take_out(|entry| entry.id() <= most);
        assert_eq!(taken, expect, "up to {most}");
        if most < 17 {
            assert!(!seen.contains(&version()), "{:#x} again, after {seen:x?}", version());
            seen.push(version());
        }
    }
}
