//! The keys of megaflows, each stored once, as rows of their non-zero words.
//!
//! Flows with one mask whose keys have the same non-zero words form a shape. The rows of a shape lie in
//! blocks, column by column. A full block is split by a bit of its keys, so the rows of a block agree in the
//! bits of its splits. Each block records the bits that all of its keys have and that none has. A search for
//! the flows that a new rule may affect passes over the blocks, some 2,000 for ten million flows, and reads
//! only the rows of blocks whose bits do not contradict the rule.
//!
//! Split bits are chosen evenly among the fields in which the rows of a block differ. After `n` levels of
//! splits (11 for ten million flows), a search for one value of one of `k` such fields reads about `2^(-n/k)`
//! of the rows. If only few flows differ from the others in a field, no split uses it; the recorded bits
//! exclude the blocks without such a flow.

mod block;
mod shape;

use self::block::Block;
use self::shape::{Shape, Tree};
use flow::{FlowKey, Mask, WORDS};
use hashbrown::{DefaultHashBuilder, HashTable};
use std::collections::BTreeSet;
use std::hash::{BuildHasher, Hasher};
use std::ops::Range;
use std::sync::Arc;

/// Rows of a block before it is split. Moving this many takes less than a millisecond.
const BLOCK_ROWS: usize = 8192;
/// Words of a mask that are looked at together.
const GROUP: usize = 4;

/// The position of a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Row {
    pub block: u32,
    pub row: u32,
}

/// All keys.
#[derive(Debug)]
pub(crate) struct Keys {
    shapes: Vec<Shape>,
    free_shapes: BTreeSet<u32>,
    by_content: HashTable<u32>,
    /// The shape of the last key: consecutive flows are often alike.
    last: u32,
    blocks: Vec<Block>,
    free_blocks: BTreeSet<u32>,
    /// Rows of a block before it is split.
    block_rows: usize,
    /// A search is running: rows may only move to blocks behind all others.
    is_searched: bool,
    /// The mask of shapes without keys.
    no_mask: Arc<Mask>,
    state: DefaultHashBuilder,
}

impl Default for Keys {
    fn default() -> Self {
        Keys::with_blocks(BLOCK_ROWS)
    }
}

impl Keys {
    /// Empty, with this block size.
    fn with_blocks(block_rows: usize) -> Self {
        Keys {
            shapes: Vec::new(),
            free_shapes: BTreeSet::new(),
            by_content: HashTable::new(),
            last: 0,
            blocks: Vec::new(),
            free_blocks: BTreeSet::new(),
            block_rows,
            is_searched: false,
            no_mask: Arc::default(),
            state: DefaultHashBuilder::default(),
        }
    }

    /// Stores the key of the flow in a slot. Calls `moved` for other flows, by slot, whose keys moved to
    /// other rows.
    pub fn insert(
        &mut self,
        slot: u32,
        key: &FlowKey,
        mask: &Mask,
        mut moved: impl FnMut(u32, Row),
    ) -> Row {
        let number = self.shape_for(key, mask);
        let mut block = self.shapes[number as usize].tree.block(key);
        if self.split(block, key, &mut moved) {
            block = self.shapes[number as usize].tree.block(key);
        }
        let shape = &mut self.shapes[number as usize];
        shape.rows += 1;
        let words = shape.stored.iter().map(|word| key.words()[usize::from(*word)]);
        Row { block, row: self.blocks[block as usize].push(slot, words) }
    }

    /// Removes a key. Calls `moved` for other flows, by slot, whose keys moved to other rows.
    pub fn remove(&mut self, at: Row, mut moved: impl FnMut(u32, Row)) {
        let Some(block) = self.blocks.get_mut(at.block as usize) else { return };
        if at.row as usize >= block.len() {
            return;
        }
        let shape = &mut self.shapes[block.shape as usize];
        let number = block.shape;
        // The key selects the path in the tree to the block.
        let key = (block.len() <= self.block_rows / 4).then(|| shape.key(block, at.row));
        if let Some(slot) = block.swap_remove(at.row) {
            moved(slot, at);
        }
        shape.rows -= 1;
        let Some(key) = key else { return };
        while self.merge(number, &key, &mut moved) {}
        let shape = &self.shapes[number as usize];
        if shape.rows > 0 {
            return;
        }
        let hash = shape.hash;
        if let Tree::Block(block) = shape.tree {
            self.give_back(block);
        }
        if let Ok(entry) = self.by_content.find_entry(hash, |&it| it == number) {
            entry.remove();
            self.give_back_shape(number);
        }
    }

    pub fn key(&self, at: Row) -> FlowKey {
        self.blocks
            .get(at.block as usize)
            .map_or_else(FlowKey::new, |block| self.shapes[block.shape as usize].key(block, at.row))
    }

    /// The mask of the flow in a row; flows share it.
    pub fn mask(&self, at: Row) -> Option<&Arc<Mask>> {
        let block = self.blocks.get(at.block as usize)?;
        Some(&self.shapes[block.shape as usize].mask)
    }

    /// Whether the flow in a row has exactly this match.
    pub fn is(&self, at: Row, key: &FlowKey, mask: &Mask) -> bool {
        self.blocks.get(at.block as usize).is_some_and(|block| {
            let shape = &self.shapes[block.shape as usize];
            *shape.mask == *mask && shape.agrees(block, at.row, key)
        })
    }

    /// A hash of the masked key and a number.
    pub fn hash(&self, key: &FlowKey, mask: &Mask, number: u64) -> u64 {
        let mut hasher = self.state.build_hasher();
        hasher.write_u64(number);
        // Most words of a mask are zero: groups of them are passed over.
        let groups = mask.words().chunks(GROUP).zip(key.words().chunks(GROUP)).enumerate();
        for (group, (mask, key)) in groups {
            if mask.iter().fold(0, |any, bits| any | bits) == 0 {
                continue;
            }
            for (index, (bits, word)) in (GROUP * group..).zip(mask.iter().zip(key)) {
                if *bits != 0 {
                    let place = index as u64 ^ bits;
                    hasher.write_u128(u128::from(place) << 64 | u128::from(word & bits));
                }
            }
        }
        hasher.finish()
    }

    /// Notes whether a search of the blocks, in order of their numbers, is running: meanwhile no key moves to
    /// a block that the search may have passed.
    pub fn set_searched(&mut self, is_searched: bool) {
        self.is_searched = is_searched;
    }

    /// The number of block numbers, unused ones included.
    pub fn block_count(&self) -> usize {
        self.blocks.len()
    }

    /// How many keys a block has.
    pub fn row_count(&self, block: usize) -> usize {
        self.blocks.get(block).map_or(0, Block::len)
    }

    /// Whether packets of some flow of a block may agree with `key` in the bits of `mask`, judged by the
    /// recorded bits.
    pub fn may_overlap(&self, block: usize, key: &FlowKey, mask: &Mask) -> bool {
        let block = self.blocks.get(block).filter(|block| block.len() > 0);
        block.is_some_and(|block| {
            self.shapes[block.shape as usize].wanted(key, mask).all(|it| block.may_have(&it))
        })
    }

    /// The slots of flows in some rows of a block whose packets may agree with `key` in the bits of `mask`.
    /// Call it if [`Self::may_overlap`].
    pub fn overlapping(
        &self,
        block: usize,
        rows: Range<usize>,
        key: &FlowKey,
        mask: &Mask,
    ) -> impl Iterator<Item = u32> {
        let block = self.blocks.get(block);
        let found = block.map(|block| {
            let wanted = self.shapes[block.shape as usize].wanted(key, mask);
            block.find(rows, wanted)
        });
        found.into_iter().flatten()
    }

    /// Splits a block if it is full. Returns whether it did. `key` is one of the block's.
    fn split(&mut self, number: u32, key: &FlowKey, moved: &mut impl FnMut(u32, Row)) -> bool {
        let block = &mut self.blocks[number as usize];
        if !block.is_full() {
            return false;
        }
        let of = block.shape;
        let shape = &mut self.shapes[of as usize];
        let Some(by) = block.split_bit(&shape.masked, &shape.tree.path(key)) else {
            block.grow(self.block_rows);
            return false;
        };
        let empty = Block::new(of, shape.stored.len(), self.block_rows);
        let full = std::mem::replace(block, empty.clone());
        let sides = [number, self.take(empty)];
        for row in 0..full.len() as u32 {
            let side = sides[full.side(row, by)];
            self.carry(&full, row, side, moved);
        }
        sides.iter().for_each(|&side| self.blocks[side as usize].bound());
        self.shapes[of as usize].tree.split(key, by, sides);
        true
    }

    /// Merges the block of a key with its sibling if both have few rows. Returns whether it did.
    fn merge(&mut self, shape: u32, key: &FlowKey, moved: &mut impl FnMut(u32, Row)) -> bool {
        let Some(sides) = self.shapes[shape as usize].tree.sides(key) else { return false };
        let rows: usize = sides.iter().map(|&side| self.row_count(side as usize)).sum();
        if rows > self.block_rows / 4 {
            return false;
        }
        let stored = self.shapes[shape as usize].stored.len();
        let into = self.take(Block::new(shape, stored, self.block_rows));
        for side in sides {
            let from = self.give_back(side);
            (0..from.len() as u32).for_each(|row| self.carry(&from, row, into, moved));
            from.free();
        }
        self.blocks[into as usize].bound();
        self.shapes[shape as usize].tree.join(key, into);
        true
    }

    /// Copies a row into a block.
    fn carry(&mut self, from: &Block, row: u32, into: u32, moved: &mut impl FnMut(u32, Row)) {
        let at = self.blocks[into as usize].copy(from, row);
        moved(from.slot(row), Row { block: into, row: at });
    }

    /// Assigns a number to a block.
    fn take(&mut self, block: Block) -> u32 {
        let free = if self.is_searched { None } else { self.free_blocks.pop_first() };
        match free {
            Some(number) => {
                self.blocks[number as usize] = block;
                number
            }
            None => {
                self.blocks.push(block);
                (self.blocks.len() - 1) as u32
            }
        }
    }

    /// Releases a block's number.
    fn give_back(&mut self, number: u32) -> Block {
        self.free_blocks.insert(number);
        let empty = Block::new(0, 0, self.block_rows);
        let block = std::mem::replace(&mut self.blocks[number as usize], empty);
        // A search would miss what comes to a number that it has passed.
        if !self.is_searched {
            drop_free_end(&mut self.blocks, &mut self.free_blocks);
        }
        block
    }

    /// Releases a shape's number. After keys of many shapes, their memory is returned.
    fn give_back_shape(&mut self, number: u32) {
        self.shapes[number as usize].clear(&self.no_mask);
        self.free_shapes.insert(number);
        drop_free_end(&mut self.shapes, &mut self.free_shapes);
        let (shapes, table) = (&self.shapes, &mut self.by_content);
        if table.capacity() > 64 && table.len() < table.capacity() / 8 {
            table.shrink_to(table.len() * 2, |&it| shapes[it as usize].hash);
        }
    }

    fn shape_for(&mut self, key: &FlowKey, mask: &Mask) -> u32 {
        let stored = key.word_map();
        let shapes = &self.shapes;
        let is_it = |&number: &u32| {
            let shape: Option<&Shape> = shapes.get(number as usize);
            shape.is_some_and(|it| it.words == stored && it.rows > 0 && *it.mask == *mask)
        };
        if is_it(&self.last) {
            return self.last;
        }
        let mut hasher = self.state.build_hasher();
        mask.words().iter().for_each(|word| hasher.write_u64(*word));
        hasher.write_u128(stored);
        let hash = hasher.finish();
        if let Some(&number) = self.by_content.find(hash, is_it) {
            self.last = number;
            return number;
        }
        let stored: Vec<u8> = (0..WORDS as u8).filter(|word| stored >> word & 1 == 1).collect();
        let number = self.free_shapes.pop_first().unwrap_or(self.shapes.len() as u32);
        let block = self.take(Block::new(number, stored.len(), self.block_rows));
        let shape = Shape::new(mask, stored.into(), hash, block);
        self.last = number;
        match self.shapes.get_mut(number as usize) {
            Some(place) => *place = shape,
            None => self.shapes.push(shape),
        }
        let shapes = &self.shapes;
        self.by_content.insert_unique(hash, number, |&it| shapes[it as usize].hash);
        number
    }
}

/// Removes free places at the end.
fn drop_free_end<T>(places: &mut Vec<T>, free: &mut BTreeSet<u32>) {
    while places.len().checked_sub(1).is_some_and(|last| free.remove(&(last as u32))) {
        places.pop();
    }
    if places.capacity() > 64 && places.len() < places.capacity() / 8 {
        places.shrink_to(places.len() * 2);
    }
}

#[cfg(test)]
mod tests;
