//! The keys with one mask and the same non-zero words, and the tree of their blocks.

use super::block::{Bit, Block};
use classifier::Wanted;
use flow::{FlowKey, Mask};
use std::sync::Arc;

/// The common properties of a shape's keys.
#[derive(Debug)]
pub(super) struct Shape {
    pub mask: Arc<Mask>,
    pub hash: u64,
    /// The stored words of the key, those that are not zero; and the same as a bitmap.
    pub stored: Box<[u8]>,
    pub words: u128,
    /// The mask's words.
    pub masked: Box<[MaskWord]>,
    pub tree: Tree,
    /// The number of keys.
    pub rows: usize,
}

/// A word of a mask.
#[derive(Clone, Copy, Debug)]
pub(super) struct MaskWord {
    pub word: u8,
    /// The word's column in the row, behind the slot, if it is stored.
    pub column: Option<u8>,
    pub bits: u64,
}

impl Shape {
    pub fn new(mask: &Mask, stored: Box<[u8]>, hash: u64, block: u32) -> Self {
        let words = mask.words().iter().enumerate().filter(|(_, bits)| **bits != 0);
        let masked = words.map(|(word, &bits)| {
            let place = stored.iter().position(|&it| usize::from(it) == word);
            MaskWord { word: word as u8, column: place.map(|place| place as u8 + 1), bits }
        });
        let masked = masked.collect();
        let (mask, tree) = (Arc::new(mask.clone()), Tree::Block(block));
        let words = stored.iter().fold(0, |bits, word| bits | 1 << word);
        Shape { mask, hash, stored, words, masked, tree, rows: 0 }
    }

    /// Frees what it has, once it has no keys.
    pub fn clear(&mut self, no_mask: &Arc<Mask>) {
        self.mask = Arc::clone(no_mask);
        (self.stored, self.masked) = Default::default();
        self.tree = Tree::Block(0);
    }

    /// The key in a row.
    pub fn key(&self, block: &Block, row: u32) -> FlowKey {
        let mut key = FlowKey::new();
        for (word, column) in self.stored.iter().zip(1..) {
            key.words_mut()[usize::from(*word)] = block.word(row, column);
        }
        key
    }

    /// Whether the key in a row agrees with another in the bits of the mask.
    pub fn agrees(&self, block: &Block, row: u32, key: &FlowKey) -> bool {
        self.masked.iter().all(|it| {
            let have = it.column.map_or(0, |column| block.word(row, column.into()));
            (have ^ key.words()[usize::from(it.word)]) & it.bits == 0
        })
    }

    /// What a row must have for its packets to agree with `key` in the bits of `mask`. Column 0, the slot's,
    /// stands for words that are not stored.
    pub fn wanted(&self, key: &FlowKey, mask: &Mask) -> impl Iterator<Item = Wanted> {
        self.masked.iter().filter_map(|it| {
            let word = usize::from(it.word);
            let bits = it.bits & mask.words()[word];
            let column = it.column.map_or(0, usize::from);
            (bits != 0).then(|| Wanted { column, value: key.words()[word], bits })
        })
    }
}

/// The tree from the bits of a key to its block.
#[derive(Debug)]
pub(super) enum Tree {
    Block(u32),
    Split(Box<Split>),
}

/// The subtree of keys without the bit, and that of keys with it.
#[derive(Debug)]
pub(super) struct Split {
    by: Bit,
    sides: [Tree; 2],
}

impl Split {
    fn side(&self, key: &FlowKey) -> usize {
        self.by.of(key.words()[usize::from(self.by.word)])
    }
}

impl Tree {
    /// The block of a key.
    pub fn block(&self, key: &FlowKey) -> u32 {
        let mut tree = self;
        loop {
            match tree {
                Tree::Block(block) => return *block,
                Tree::Split(split) => tree = &split.sides[split.side(key)],
            }
        }
    }

    /// The bits on the path to the key's block.
    pub fn path(&self, key: &FlowKey) -> Vec<Bit> {
        let (mut tree, mut path) = (self, Vec::new());
        while let Tree::Split(split) = tree {
            path.push(split.by);
            tree = &split.sides[split.side(key)];
        }
        path
    }

    /// Replaces the block of a key with two.
    pub fn split(&mut self, key: &FlowKey, by: Bit, sides: [u32; 2]) {
        match self {
            Tree::Block(_) => {
                *self = Tree::Split(Box::new(Split { by, sides: sides.map(Tree::Block) }));
            }
            Tree::Split(split) => {
                let side = split.side(key);
                split.sides[side].split(key, by, sides);
            }
        }
    }

    /// The block of a key and its sibling, if that is a block.
    pub fn sides(&self, key: &FlowKey) -> Option<[u32; 2]> {
        let Tree::Split(split) = self else { return None };
        match &split.sides {
            [Tree::Block(a), Tree::Block(b)] => Some([*a, *b]),
            sides => sides[split.side(key)].sides(key),
        }
    }

    /// Replaces the block of a key and its sibling with one.
    pub fn join(&mut self, key: &FlowKey, block: u32) {
        let Tree::Split(split) = self else { return };
        if let [Tree::Block(_), Tree::Block(_)] = split.sides {
            *self = Tree::Block(block);
            return;
        }
        let side = split.side(key);
        split.sides[side].join(key, block);
    }
}
