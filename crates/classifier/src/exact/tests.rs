use super::*;
use crate::random::{key, matching};
use flow::{Field, Match};
use proptest::prelude::*;

const ALWAYS: (u32, u32) = (u32::MAX, 1);

fn remember(
    cache: &mut ExactCache,
    flows: &MegaflowTable<u32>,
    key: &FlowKey,
    (random, inverse): (u32, u32),
) -> bool {
    let flow = flows.peek(key).unwrap();
    cache.insert(key, hash(key, 7), flow, flows, random, inverse)
}

#[test]
fn a_removed_flow_is_not_found_even_when_its_place_is_taken() {
    let mut flows = MegaflowTable::new(0);
    let mut cache = ExactCache::new();
    let key = FlowKey::new();
    let (flow, _) = flows.insert(&Match::any(), 1);
    assert_eq!(cache.lookup(&key, hash(&key, 7), &flows), None);
    assert!(remember(&mut cache, &flows, &key, ALWAYS));
    assert_eq!(cache.lookup(&key, hash(&key, 7), &flows), Some(flow));
    flows.remove_handle(flow);
    let (next, _) = flows.insert(&Match::any().with(Field::TpDst, 9), 2);
    assert_eq!(next.index(), flow.index());
    assert_eq!(cache.lookup(&key, hash(&key, 7), &flows), None);
    let (again, _) = flows.insert(&Match::any().with(Field::TpDst, 0), 3);
    assert!(remember(&mut cache, &flows, &key, ALWAYS));
    assert_eq!(cache.lookup(&key, hash(&key, 7), &flows), Some(again));
    cache.clear();
    assert_eq!(cache.lookup(&key, hash(&key, 7), &flows), None);
}

#[test]
fn keys_of_one_hash_are_told_apart_and_two_of_them_fit() {
    let mut flows = MegaflowTable::new(0);
    let mut cache = ExactCache::new();
    // The same hash is claimed for all keys; it points to two different places.
    let hash = 0x0000_4001;
    assert_eq!(places(hash), [1, 2]);
    let keys: Vec<FlowKey> = (1..=3)
        .map(|port| {
            let mut key = FlowKey::new();
            key.set_tp_dst(port);
            key
        })
        .collect();
    let handles: Vec<Handle> = keys
        .iter()
        .map(|key| flows.insert(&Match::any().with(Field::TpDst, key.tp_dst().into()), 0).0)
        .collect();
    for (key, flow) in keys.iter().zip(&handles).take(2) {
        assert!(cache.insert(key, hash, *flow, &flows, 0, 1));
    }
    let found = |cache: &ExactCache, flows: &MegaflowTable<u32>| -> Vec<Option<Handle>> {
        keys.iter().map(|key| cache.lookup(key, hash, flows)).collect()
    };
    assert_eq!(found(&cache, &flows), [Some(handles[0]), Some(handles[1]), None]);
    // A key that is there already takes its own place again.
    assert!(cache.insert(&keys[1], hash, handles[1], &flows, 0, 1));
    assert_eq!(found(&cache, &flows), [Some(handles[0]), Some(handles[1]), None]);
    // The third takes the place of the one whose flow goes.
    flows.remove_handle(handles[1]);
    assert!(cache.insert(&keys[2], hash, handles[2], &flows, 0, 1));
    assert_eq!(found(&cache, &flows), [Some(handles[0]), None, Some(handles[2])]);
    // A fourth key has to push one out.
    let key = FlowKey::new();
    assert!(cache.insert(&key, hash, handles[0], &flows, 0, 1));
    assert_eq!(cache.lookup(&key, hash, &flows), Some(handles[0]));
    assert_eq!(found(&cache, &flows).iter().flatten().count(), 1);
}

#[test]
fn keys_are_remembered_with_the_probability_asked_for() {
    let mut flows = MegaflowTable::new(0);
    flows.insert(&Match::any(), 0);
    let most = u32::MAX / 100;
    let cases = [
        ((0, 0), false),
        ((u32::MAX, 1), true),
        ((most, 100), true),
        ((most + 1, 100), false),
        ((1, u32::MAX), true),
        ((2, u32::MAX), false),
    ];
    for (chance, expect) in cases {
        let mut cache = ExactCache::new();
        let key = FlowKey::new();
        assert_eq!(remember(&mut cache, &flows, &key, chance), expect, "{chance:?}");
        assert_eq!(cache.lookup(&key, hash(&key, 7), &flows).is_some(), expect);
    }
}

#[test]
fn a_key_with_more_words_than_an_entry_is_left_out() {
    let mut flows = MegaflowTable::new(0);
    let mut cache = ExactCache::new();
    flows.insert(&Match::any(), 0);
    let mut key = FlowKey::new();
    key.words_mut()[..ENTRY_WORDS].fill(1);
    assert!(remember(&mut cache, &flows, &key, ALWAYS));
    key.words_mut()[..ENTRY_WORDS + 1].fill(1);
    assert!(!remember(&mut cache, &flows, &key, ALWAYS));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_is_found_is_what_the_flows_say(
        flows in prop::collection::vec(matching(), 1..20),
        keys in prop::collection::vec(key(), 1..20),
        steps in prop::collection::vec((any::<usize>(), any::<u8>(), any::<bool>()), 0..200),
    ) {
        let mut table = MegaflowTable::new(3);
        let mut cache = ExactCache::new();
        let disjoint = |table: &MegaflowTable<u32>, wanted: &Match| {
            table.iter().all(|(flow, _)| !table.matching(flow).unwrap().overlaps(wanted))
        };
        for (at, what, few_hashes) in steps {
            let key = &keys[at % keys.len()];
            let matching = &flows[at % flows.len()];
            // With few hashes keys collide in the entries as well as in the hash.
            let hash = if few_hashes { u32::from(what) << 13 } else { hash(key, 7) };
            match what % 4 {
                0 if disjoint(&table, matching) => {
                    table.insert(matching, 0);
                }
                1 => {
                    table.remove(matching);
                }
                2 => if let Some(flow) = table.peek(key) {
                    prop_assert!(cache.insert(key, hash, flow, &table, 0, 1));
                    prop_assert_eq!(cache.lookup(key, hash, &table), Some(flow));
                },
                _ => {}
            }
            for key in &keys {
                for hash in [hash, super::hash(key, 7)] {
                    let found = cache.lookup(key, hash, &table);
                    prop_assert!(found.is_none() || found == table.peek(key));
                }
            }
        }
    }

    #[test]
    fn equal_keys_have_equal_hashes_and_each_word_counts(
        key in key(), tunnel in prop_oneof![Just(0u32), any::<u32>()], at in 0..WORDS, bit in 0..64,
    ) {
        let mut key = key;
        key.set(Field::TunDst, tunnel.into());
        let mut other = key.clone();
        prop_assert_eq!(hash(&key, 1), hash(&other, 1));
        other.words_mut()[at % key.words_in_use().len()] ^= 1u64 << bit;
        prop_assert_ne!(hash(&key, 1), hash(&other, 1));
    }
}

#[test]
fn a_packet_that_came_through_a_tunnel_is_left_out() {
    let mut flows = MegaflowTable::new(0);
    let mut cache = ExactCache::new();
    flows.insert(&Match::any(), 0);
    let mut key = FlowKey::new();
    key.set(Field::TunDst, 7);
    assert!(!remember(&mut cache, &flows, &key, ALWAYS));
    assert_eq!(cache.lookup(&key, hash(&key, 7), &flows), None);
}
