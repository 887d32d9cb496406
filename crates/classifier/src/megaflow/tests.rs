use super::*;
use crate::random::{crowded_matching, ipv4_matching, key, matching};
use flow::Field;
use proptest::prelude::*;

fn port(number: u128) -> Match {
    Match::any().with(Field::TpDst, number)
}

fn key_to(number: u16) -> FlowKey {
    let mut key = FlowKey::new();
    key.set_tp_dst(number);
    key
}

#[test]
fn a_replaced_flow_keeps_its_handle_and_a_removed_one_loses_it() {
    let mut table = MegaflowTable::new(1);
    let (handle, old) = table.insert(&port(80), 'a');
    assert_eq!(old, None);
    assert_eq!(table.insert(&port(80), 'b'), (handle, Some('a')));
    assert_eq!(table.matching(handle), Some(port(80)));
    assert_eq!(table.remove(&port(80)), Some('b'));
    assert_eq!(table.masks().count(), 0);
    let (next, _) = table.insert(&port(81), 'c');
    assert_eq!(next.index(), handle.index());
    assert_eq!((table.get(handle), table.get(next)), (None, Some(&'c')));
    assert_eq!((table.remove_handle(handle), table.matching(handle)), (None, None));
    *table.get_mut(next).unwrap() = 'd';
    assert_eq!(table.iter().collect::<Vec<_>>(), [(next, &'d')]);
}

#[test]
fn busy_masks_come_first_after_sorting() {
    let mut table = MegaflowTable::new(1);
    table.insert(&port(80), ());
    table.insert(&Match::any().with(Field::InPort, 7), ());
    let mut key = key_to(0);
    key.set_in_port_raw(7);
    let visits = |table: &mut MegaflowTable<()>| {
        let before = table.counts().subtables_visited;
        assert!(table.lookup(&key).is_some());
        table.counts().subtables_visited - before
    };
    assert_eq!(visits(&mut table), 2);
    table.resort();
    assert_eq!(visits(&mut table), 1);
    assert_eq!([80, 9].map(|port| table.lookup(&key_to(port)).is_some()), [true, false]);
    // Two visits for each of these packets.
    let counts = table.counts();
    assert_eq!((counts.hits, counts.misses, counts.subtables_visited), (3, 1, 3 + 4));
}

/// Mostly matches of one mask, as matches of different masks are seldom disjoint.
fn any_matching() -> impl Strategy<Value = Match> {
    let ports = (1..100u128).prop_map(port);
    prop_oneof![matching(), ipv4_matching(), crowded_matching(), ports]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn lookups_agree_with_a_scan(
        steps in prop::collection::vec(
            (any_matching(), prop::option::weighted(0.3, any::<usize>())), 0..60,
        ),
        keys in prop::collection::vec(key(), 0..80),
        seed: u64,
        resort: bool,
    ) {
        let mut table = MegaflowTable::new(seed);
        let mut flows: Vec<(Match, Handle, usize)> = Vec::new();
        for (i, (matching, remove)) in steps.into_iter().enumerate() {
            if let Some((old, handle, _)) = flows.iter().find(|(have, ..)| have.overlaps(&matching)) {
                // Flows are disjoint; an equal one is found by its match.
                prop_assert_eq!(table.find(&matching), (*old == matching).then_some(*handle));
            } else {
                let (handle, old) = table.insert(&matching, i);
                prop_assert_eq!(old, None);
                prop_assert!(flows.iter().all(|flow| flow.1 != handle));
                flows.push((matching, handle, i));
            }
            if let Some(at) = remove && !flows.is_empty() {
                let (matching, handle, i) = flows.swap_remove(at % flows.len());
                if at & 1 == 0 {
                    prop_assert_eq!(table.remove(&matching), Some(i));
                } else {
                    prop_assert_eq!(table.remove_handle(handle), Some(i));
                }
                prop_assert_eq!((table.get(handle), table.find(&matching)), (None, None));
            }
        }
        prop_assert_eq!(table.len(), flows.len());
        prop_assert_eq!(table.masks().map(|(_, flows)| flows).sum::<usize>(), flows.len());
        for (matching, handle, i) in &flows {
            prop_assert_eq!(table.matching(*handle), Some(matching.clone()));
            prop_assert_eq!((table.get(*handle), table.find(matching)), (Some(i), Some(*handle)));
        }
        let keys: Vec<&FlowKey> = keys.iter().chain(flows.iter().map(|flow| flow.0.key())).collect();
        if resort {
            table.resort();
        }
        let (mut hits, packets) = (0, keys.len() as u64);
        for key in keys {
            let expect = flows.iter().find(|flow| flow.0.matches(key)).map(|flow| flow.1);
            hits += u64::from(expect.is_some());
            prop_assert_eq!(table.peek(key), expect);
            prop_assert_eq!(table.lookup(key), expect);
        }
        let counts = table.counts();
        prop_assert_eq!((counts.hits, counts.misses), (hits, packets - hits));
    }

    /// Packets that are looked up in runs find what each would find alone, and count as much.
    #[test]
    fn runs_are_lookups_in_a_row(
        ports in prop::collection::btree_set(0..6u128, 0..6),
        packets in prop::collection::vec(0..6u16, 1..40),
    ) {
        let mut table = MegaflowTable::new(1);
        ports.iter().for_each(|&number| { table.insert(&port(number), ()); });
        let keys: Vec<FlowKey> = packets.into_iter().map(key_to).collect();
        let alone: Vec<Option<Handle>> = keys.iter().map(|key| table.lookup(key)).collect();
        let before = table.counts();
        let mut found = Vec::new();
        while found.len() < keys.len() {
            let run = table.lookup_run(keys[found.len()..].iter());
            let (hit, count) = run.map_or((None, 1), |(hit, count)| (Some(hit), count));
            found.extend(std::iter::repeat_n(hit, count));
            // No run ends early.
            prop_assert!(hit.is_none() || alone.get(found.len()).is_none_or(|next| *next != hit));
        }
        prop_assert_eq!(found, alone);
        let LookupCounts { hits, misses, .. } = table.counts();
        prop_assert_eq!((hits, misses), (2 * before.hits, 2 * before.misses));
    }
}
