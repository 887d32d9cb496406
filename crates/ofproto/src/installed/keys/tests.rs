//! Keys are found wherever they move, even by a search during the move; and a search reads few of the rows.

use super::*;
use flow::Field;
use std::collections::BTreeMap;

/// Pseudo-random numbers.
struct Chance(u64);

impl Chance {
    fn next(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (self.0 >> 33) % below
    }
}

fn mask(fields: &[Field]) -> Mask {
    let mut mask = Mask::new();
    fields.iter().for_each(|field| mask.add(*field));
    mask
}

fn key(values: &[(Field, u128)]) -> FlowKey {
    let mut key = FlowKey::new();
    values.iter().for_each(|(field, value)| key.set(*field, *value));
    key
}

/// Keys, compared with a plain list of them.
struct Checked {
    keys: Keys,
    flows: BTreeMap<u32, (FlowKey, Mask, Row)>,
    next: u32,
}

impl Checked {
    fn new(block_rows: usize) -> Self {
        Checked { keys: Keys::with_blocks(block_rows), flows: BTreeMap::new(), next: 1 }
    }

    fn insert(&mut self, key: FlowKey, mask: &Mask) {
        let (slot, flows) = (self.next, &mut self.flows);
        self.next += 1;
        let row = self.keys.insert(slot, &key, mask, |slot, row| {
            flows.get_mut(&slot).expect("a flow that is there").2 = row;
        });
        flows.insert(slot, (key, mask.clone(), row));
    }

    fn remove(&mut self, slot: u32) {
        let Some((.., row)) = self.flows.remove(&slot) else { return };
        let flows = &mut self.flows;
        self.keys.remove(row, |slot, row| {
            flows.get_mut(&slot).expect("a flow that is there").2 = row;
        });
    }

    fn any(&self, chance: &mut Chance) -> Option<u32> {
        let at = chance.next(self.flows.len().max(1) as u64) as usize;
        self.flows.keys().nth(at).copied()
    }

    /// Slots of the flows that a search finds in all blocks, and how many rows it reads.
    fn search(&self, key: &FlowKey, mask: &Mask) -> (Vec<u32>, usize) {
        let (mut found, mut read) = (Vec::new(), 0);
        for block in 0..self.keys.block_count() {
            if self.keys.may_overlap(block, key, mask) {
                let rows = self.keys.row_count(block);
                read += rows;
                found.extend(self.keys.overlapping(block, 0..rows, key, mask));
            }
        }
        found.sort_unstable();
        (found, read)
    }

    fn overlapping(&self, key: &FlowKey, mask: &Mask) -> Vec<u32> {
        let overlaps = |(own, own_mask, _): &&(FlowKey, Mask, Row)| {
            let words = own.words().iter().zip(own_mask.words());
            let mut both = words.zip(key.words().iter().zip(mask.words()));
            both.all(|((a, own), (b, other))| (a ^ b) & own & other == 0)
        };
        self.flows.iter().filter(|(_, flow)| overlaps(flow)).map(|(slot, _)| *slot).collect()
    }

    fn check(&self) {
        for (slot, (key, mask, row)) in &self.flows {
            assert_eq!(
                (&self.keys.key(*row), self.keys.mask(*row).map(|it| &**it)),
                (key, Some(mask))
            );
            assert!(self.keys.is(*row, key, mask), "{slot}");
        }
        let rows = (0..self.keys.block_count()).map(|block| self.keys.row_count(block));
        assert_eq!(rows.sum::<usize>(), self.flows.len());
    }
}

#[test]
fn keys_are_found_wherever_they_move() {
    let tcp = mask(&[Field::EthType, Field::Ipv4Src, Field::Ipv4Dst, Field::TpSrc]);
    let ip = mask(&[Field::EthType, Field::Ipv4Dst]);
    for seed in 0..30 {
        let (mut chance, mut checked) = (Chance(seed), Checked::new(8));
        // Slots that the running search must find, as long as the flows stay.
        let mut search: Option<(FlowKey, Mask, Vec<u32>, usize, usize)> = None;
        for step in 0..600 {
            let grows = (step / 200) % 2 == 0;
            let with_port =
                |chance: &mut Chance| if chance.next(4) == 0 { 0 } else { chance.next(9) };
            match chance.next(10) {
                0..5 if grows => {
                    let values = [
                        (Field::EthType, 0x800),
                        (Field::Ipv4Src, chance.next(7).into()),
                        (Field::Ipv4Dst, u128::from(chance.next(60)) << 20),
                        (Field::TpSrc, with_port(&mut chance).into()),
                    ];
                    let mask = if chance.next(5) == 0 { &ip } else { &tcp };
                    checked.insert(key(&values), mask);
                }
                0..6 => {
                    let slot = checked.any(&mut chance);
                    slot.into_iter().for_each(|slot| checked.remove(slot));
                }
                6 if search.is_none() => {
                    let values = [(Field::Ipv4Dst, u128::from(chance.next(60)) << 20)];
                    let (key, mask) = (key(&values), mask(&[Field::Ipv4Dst]));
                    let wanted = checked.overlapping(&key, &mask);
                    checked.keys.set_searched(true);
                    search = Some((key, mask, wanted, 0, usize::MAX));
                }
                _ => {
                    let Some((key, mask, wanted, block, row)) = &mut search else { continue };
                    let may = checked.keys.may_overlap(*block, key, mask);
                    let end = checked.keys.row_count(*block).min(*row);
                    let start = end.saturating_sub(3);
                    if may {
                        let found = checked.keys.overlapping(*block, start..end, key, mask);
                        let found: Vec<u32> = found.collect();
                        wanted.retain(|slot| !found.contains(slot));
                    }
                    (*block, *row) = match start {
                        start if start > 0 && may => (*block, start),
                        _ => (*block + 1, usize::MAX),
                    };
                    if *block >= checked.keys.block_count() {
                        wanted.retain(|slot| checked.flows.contains_key(slot));
                        assert_eq!(*wanted, Vec::<u32>::new(), "seed {seed}, step {step}");
                        checked.keys.set_searched(false);
                        search = None;
                    }
                }
            }
            if step % 50 == 0 {
                checked.check();
            }
        }
        checked.check();
        let all = checked.overlapping(&FlowKey::new(), &Mask::new());
        assert_eq!(checked.search(&FlowKey::new(), &Mask::new()).0, all);
        all.into_iter().for_each(|slot| checked.remove(slot));
        checked.check();
        let Keys { shapes, free_shapes, blocks, free_blocks, .. } = &checked.keys;
        assert_eq!((shapes.len(), blocks.len()), (free_shapes.len(), free_blocks.len()));
    }
}

#[test]
fn a_search_reads_few_of_the_rows() {
    const FLOWS: u64 = 60_000;
    let fields = [Field::EthType, Field::Ipv4Src, Field::Ipv4Dst, Field::TpSrc];
    let special = u128::from(0x0a09_0909_u32);
    // The shape of the flows, and the largest share of rows read, as one in so many.
    type Case = (&'static str, fn(u64) -> [u128; 3], u128, usize);
    let cases: [Case; 4] = [
        ("one source", |n| [7, u128::from(n) + 1, 9], special, 50),
        ("few destinations", |n| [n.into(), 10 + u128::from(n % 50), 9], 30, 4),
        ("a grid", |n| [(n % 251).into(), (n % 239).into(), (n % 241).into()], 77, 3),
        (
            "few differ",
            |n| [n.into(), if n % 6000 == 5 { 0x0a09_0909 } else { 10 }, 9],
            special,
            20,
        ),
    ];
    for (name, flow, destination, share) in cases {
        let mut checked = Checked::new(256);
        for n in 0..FLOWS {
            let [source, destination, port] = flow(n);
            let ip = [(Field::EthType, 0x800), (Field::Ipv4Src, source)];
            let rest = [(Field::Ipv4Dst, destination), (Field::TpSrc, port)];
            checked.insert(key(&[ip, rest].concat()), &mask(&fields));
        }
        let (key, mask) = (key(&[(Field::Ipv4Dst, destination)]), mask(&[Field::Ipv4Dst]));
        let (found, read) = checked.search(&key, &mask);
        assert_eq!(found, checked.overlapping(&key, &mask), "{name}");
        assert!(read <= FLOWS as usize / share, "{name}: {read} rows for {} flows", found.len());
    }
}

#[test]
fn what_cannot_be_split_grows_and_bounds_follow_what_is_left() {
    let fields = mask(&[Field::EthType, Field::TpSrc]);
    let same = key(&[(Field::EthType, 0x800), (Field::TpSrc, 5)]);
    let mut checked = Checked::new(8);
    // Flows of different workers can have the same key.
    (0..100).for_each(|_| checked.insert(same.clone(), &fields));
    assert_eq!(checked.keys.block_count(), 1);
    checked.check();
    let mut checked = Checked::new(4096);
    let of = |port: u128| key(&[(Field::EthType, 0x800), (Field::TpSrc, port)]);
    (1..2000).for_each(|port| checked.insert(of(port), &fields));
    let far = (of(0x8000), mask(&[Field::TpSrc]));
    assert!(!checked.keys.may_overlap(0, &far.0, &far.1));
    checked.insert(of(0x8000), &fields);
    assert!(checked.keys.may_overlap(0, &far.0, &far.1));
    // The bounds are computed anew some time after the flow is removed.
    (900..=2000).rev().for_each(|slot| checked.remove(slot));
    (1..300).for_each(|slot| checked.remove(slot));
    assert!(!checked.keys.may_overlap(0, &far.0, &far.1));
    checked.check();
}
