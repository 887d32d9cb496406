use super::*;
use proptest::prelude::*;

/// Hashes that share long beginnings, so that few values make a deep trie.
fn hash(value: u32) -> u64 {
    u64::from(value % 3) << 60 | u64::from(value / 3 % 40)
}

fn sorted(trie: &HashTrie<u32>) -> Vec<u32> {
    let mut all: Vec<u32> = trie.iter().copied().collect();
    all.sort_unstable();
    all
}

#[derive(Clone, Debug)]
enum Step {
    Insert(u32),
    Remove(u32),
    Change(u32),
    Share,
}

fn step() -> impl Strategy<Value = Step> {
    let value = 0..240u32;
    prop_oneof![
        4 => value.clone().prop_map(Step::Insert),
        2 => value.clone().prop_map(Step::Remove),
        1 => value.prop_map(Step::Change),
        1 => Just(Step::Share),
    ]
}

proptest! {
    /// A trie has what a plain list has, and a clone what the list had when it was made.
    #[test]
    fn a_clone_sees_no_later_change(steps in prop::collection::vec(step(), 0..400)) {
        let (mut trie, mut list) = (HashTrie::default(), Vec::new());
        let mut clones: Vec<(HashTrie<u32>, Vec<u32>)> = Vec::new();
        for step in steps {
            match step {
                Step::Insert(value) if !list.contains(&value) => {
                    trie.insert(hash(value), value);
                    list.push(value);
                }
                Step::Insert(value) => {
                    prop_assert_eq!(trie.find(hash(value), |it| *it == value), Some(&value));
                }
                Step::Remove(value) => {
                    let at = list.iter().position(|it| *it == value);
                    let removed = trie.remove(hash(value), |it| *it == value);
                    prop_assert_eq!(removed, at.map(|at| list.swap_remove(at)));
                }
                // 240 more, of the same hash.
                Step::Change(value) => {
                    let found = trie.find_mut(hash(value), |it| *it == value);
                    let at = list.iter().position(|it| *it == value);
                    prop_assert_eq!(found.is_some(), at.is_some());
                    if let (Some(found), Some(at)) = (found, at) {
                        list.swap_remove(at);
                        if list.contains(&(value + 240)) {
                            trie.remove(hash(value), |it| *it == value);
                        } else {
                            *found += 240;
                            list.push(value + 240);
                        }
                    }
                }
                Step::Share => clones.push((trie.clone(), list.clone())),
            }
            prop_assert_eq!(trie.len(), list.len());
        }
        clones.push((trie, list));
        for (trie, mut list) in clones {
            list.sort_unstable();
            prop_assert_eq!(sorted(&trie), list);
        }
    }
}

#[test]
fn a_trie_without_values_has_no_nodes() {
    let mut trie = HashTrie::default();
    (0..1000u32).for_each(|n| trie.insert(hash(n), n));
    assert_eq!(sorted(&trie), (0..1000).collect::<Vec<_>>());
    (0..1000u32).for_each(|n| {
        trie.remove(hash(n), |it| *it == n);
    });
    assert!(trie.is_empty() && trie.root.is_none());
}

#[test]
fn a_change_copies_one_path_only() {
    let mut trie = HashTrie::default();
    let spread = |n: u64| n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (0..10_000u64).for_each(|n| trie.insert(spread(n), Arc::new(n)));
    let before = trie.clone();
    trie.insert(spread(10_000), Arc::new(10_000));
    // Values in leaves that were copied are held twice.
    let copied = before.iter().filter(|it| Arc::strong_count(it) > 1).count();
    assert!(copied <= LEAF_MAX, "{copied} values were copied");
}

#[test]
fn parts_have_all_values_in_the_order_of_their_hashes() {
    let spread = |n: u64| n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    for (count, hash) in [(0, spread as fn(u64) -> u64), (9, spread), (5000, spread)]
        .into_iter()
        .chain([(5000, (|n| n / 40) as fn(u64) -> u64), (300, |n| u64::MAX - n / 2)])
    {
        let mut trie = HashTrie::default();
        (0..count).for_each(|n| trie.insert(hash(n), n));
        let (mut from, mut found, mut most) = (Some(0), Vec::new(), 0);
        while let Some(hash) = from {
            let (values, next) = trie.part(hash);
            found.extend_from_slice(values);
            (from, most) = (next.filter(|_| !values.is_empty()), most.max(values.len()));
        }
        assert!(most <= 40, "{most} values in a part");
        assert!(found.is_sorted_by_key(|n| hash(*n)));
        assert!(found.iter().eq(trie.iter()));
        found.sort_unstable();
        assert!(found.into_iter().eq(0..count));
    }
}

/// The leaves are well filled whatever the number of values, also after most were removed.
#[test]
fn leaves_are_half_full_on_average() {
    let spread = |n: u64| n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut trie = HashTrie::default();
    let leaves = |trie: &HashTrie<u64>| {
        let parts = std::iter::successors(Some(0), |from| trie.part(*from).1);
        parts.filter(|from| !trie.part(*from).0.is_empty()).count() as u64
    };
    for n in 0..100_000 {
        trie.insert(spread(n), n);
        if n > 1000 && n % 7001 == 0 {
            assert!(leaves(&trie) * 9 < n, "{} leaves for {n} values", leaves(&trie));
        }
    }
    for n in 1000..100_000 {
        assert_eq!(trie.remove(spread(n), |it| *it == n), Some(n));
    }
    assert!(leaves(&trie) * 3 < 1000, "{} leaves for 1000 values", leaves(&trie));
}
