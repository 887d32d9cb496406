//! The keys of megaflows, each once, in rows of the words that are not zero.
//!
//! Flows of one mask whose keys have the same words lie together, column by column, so that a change of a
//! table finds those that it may concern in one pass over the words that it looks at.

use classifier::{Columns, Wanted};
use flow::{FlowKey, Mask, WORDS};
use hashbrown::{DefaultHashBuilder, HashTable};
use std::hash::{BuildHasher, Hasher};

/// Where a key lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Row {
    pub shape: u32,
    pub row: u32,
}

/// All keys.
#[derive(Debug, Default)]
pub(super) struct Keys {
    shapes: Vec<Shape>,
    free: Vec<u32>,
    by_content: HashTable<u32>,
    state: DefaultHashBuilder,
}

/// Keys of one mask and with the same words.
#[derive(Debug)]
pub(super) struct Shape {
    mask: Box<Mask>,
    hash: u64,
    /// Which words of the key are stored: those that some key of the shape may have.
    stored: Box<[u8]>,
    /// The mask's words: which, where in the row if it is stored, and the bits.
    masked: Box<[MaskWord]>,
    /// Each the flow's slot, then the words.
    rows: Columns,
}

#[derive(Clone, Copy, Debug)]
struct MaskWord {
    word: u8,
    /// Its place in the row, behind the slot.
    place: Option<u8>,
    bits: u64,
}

impl Keys {
    /// Stores the key of the flow in a slot.
    pub fn insert(&mut self, slot: u32, key: &FlowKey, mask: &Mask) -> Row {
        let shape = self.shape_for(key, mask);
        let row = self.shapes[shape as usize].insert(slot, key);
        Row { shape, row }
    }

    /// Takes a key out. The last key of the shape moves to its row: gives the slot of its flow.
    pub fn remove(&mut self, at: Row) -> Option<u32> {
        let shape = self.shapes.get_mut(at.shape as usize)?;
        let moved = shape.remove(at.row);
        if shape.rows.is_empty()
            && let Ok(entry) = self.by_content.find_entry(shape.hash, |&it| it == at.shape)
        {
            entry.remove();
            self.free.push(at.shape);
        }
        moved
    }

    /// How many numbers shapes have; some may be of none.
    pub fn shape_count(&self) -> usize {
        self.shapes.len()
    }

    /// The shape of a number.
    pub fn shape(&self, number: usize) -> Option<&Shape> {
        self.shapes.get(number)
    }

    pub fn key(&self, at: Row) -> FlowKey {
        self.shapes.get(at.shape as usize).map_or_else(FlowKey::new, |shape| shape.key(at.row))
    }

    pub fn mask(&self, at: Row) -> Mask {
        self.shapes.get(at.shape as usize).map_or_else(Mask::new, |shape| (*shape.mask).clone())
    }

    /// Whether the flow there has just this match.
    pub fn is(&self, at: Row, key: &FlowKey, mask: &Mask) -> bool {
        self.shapes
            .get(at.shape as usize)
            .is_some_and(|shape| *shape.mask == *mask && shape.agrees(at.row, key))
    }

    /// A hash of the masked key, and of a number.
    pub fn hash(&self, key: &FlowKey, mask: &Mask, number: u64) -> u64 {
        let mut hasher = self.state.build_hasher();
        hasher.write_u64(number);
        for ((index, bits), word) in mask.words().iter().enumerate().zip(key.words()) {
            if *bits != 0 {
                hasher.write_u64(index as u64 ^ bits);
                hasher.write_u64(word & bits);
            }
        }
        hasher.finish()
    }

    fn shape_for(&mut self, key: &FlowKey, mask: &Mask) -> u32 {
        let stored: Vec<u8> =
            (0..WORDS as u8).filter(|&i| key.words()[usize::from(i)] != 0).collect();
        let mut hasher = self.state.build_hasher();
        mask.words().iter().for_each(|word| hasher.write_u64(*word));
        hasher.write(&stored);
        let hash = hasher.finish();
        let shapes = &self.shapes;
        let is_it = |&number: &u32| {
            let shape: &Shape = &shapes[number as usize];
            *shape.stored == *stored && *shape.mask == *mask
        };
        if let Some(&number) = self.by_content.find(hash, is_it) {
            return number;
        }
        let shape = Shape::new(mask, stored.into(), hash);
        let number = match self.free.pop() {
            Some(number) => {
                self.shapes[number as usize] = shape;
                number
            }
            None => {
                self.shapes.push(shape);
                (self.shapes.len() - 1) as u32
            }
        };
        let shapes = &self.shapes;
        self.by_content.insert_unique(hash, number, |&it| shapes[it as usize].hash);
        number
    }
}

impl Shape {
    fn new(mask: &Mask, stored: Box<[u8]>, hash: u64) -> Self {
        let words = mask.words().iter().enumerate().filter(|(_, bits)| **bits != 0);
        let masked = words.map(|(word, &bits)| {
            let place = stored.iter().position(|&it| usize::from(it) == word);
            MaskWord { word: word as u8, place: place.map(|place| place as u8), bits }
        });
        let masked = masked.collect();
        let mask = Box::new(mask.clone());
        let rows = Columns::new(stored.len() + 1);
        Shape { mask, hash, stored, masked, rows }
    }

    fn insert(&mut self, slot: u32, key: &FlowKey) -> u32 {
        let words = self.stored.iter().map(|word| key.words()[usize::from(*word)]);
        self.rows.push(std::iter::once(slot.into()).chain(words))
    }

    /// Takes a row out; gives the slot of the flow that moves there.
    fn remove(&mut self, row: u32) -> Option<u32> {
        self.rows.swap_remove(row);
        self.slot(row)
    }

    /// The slot of the flow in a row.
    fn slot(&self, row: u32) -> Option<u32> {
        self.rows.get(row, 0).map(|slot| slot as u32)
    }

    fn key(&self, row: u32) -> FlowKey {
        let mut key = FlowKey::new();
        for (word, column) in self.stored.iter().zip(1..) {
            key.words_mut()[usize::from(*word)] = self.rows.get(row, column).unwrap_or_default();
        }
        key
    }

    fn agrees(&self, row: u32, key: &FlowKey) -> bool {
        self.masked.iter().all(|it| {
            let have = it.place.and_then(|place| self.rows.get(row, usize::from(place) + 1));
            (have.unwrap_or_default() ^ key.words()[usize::from(it.word)]) & it.bits == 0
        })
    }

    /// How many keys there are.
    pub fn row_count(&self) -> usize {
        self.rows.len()
    }

    /// The slots of flows in a range of rows whose packets may agree with `key` in the bits of
    /// `mask`.
    pub fn overlapping<'a>(
        &'a self,
        rows: std::ops::Range<usize>,
        key: &FlowKey,
        mask: &Mask,
    ) -> impl Iterator<Item = u32> + use<'a> {
        let want = |it: &MaskWord| {
            let word = usize::from(it.word);
            (it.place, key.words()[word], it.bits & mask.words()[word])
        };
        let wanted: Vec<(Option<u8>, u64, u64)> =
            self.masked.iter().map(want).filter(|(_, _, bits)| *bits != 0).collect();
        // Words that are not stored are zero in all keys of the shape.
        let zero =
            |(place, want, bits): &(Option<u8>, u64, u64)| place.is_none() && want & bits != 0;
        let is_none = wanted.iter().any(zero);
        let rows = if is_none { 0..0 } else { rows };
        let wanted: Vec<Wanted> = wanted
            .into_iter()
            .filter_map(|(place, value, bits)| {
                Some(Wanted { column: usize::from(place?) + 1, value, bits })
            })
            .collect();
        self.rows.find(rows, &wanted).into_iter().filter_map(|row| self.slot(row))
    }
}
