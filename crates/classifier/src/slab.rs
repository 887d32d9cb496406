//! Values in numbered places. A generation distinguishes successive values of one place.
//!
//! Places are allocated in pieces, so that a new value never moves others, and the memory of a
//! piece is returned with its last value: no operation costs more for a larger number of values.

use std::collections::BTreeSet;
use table::free_piece;

/// Names a value during its life. A place that is reused gets another generation, so that an old
/// handle finds nothing rather than the wrong value. (The generation has 32 bits: an old handle
/// would fit again only after its place was reused four billion times.)
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Handle {
    slot: u32,
    generation: u32,
}

impl Handle {
    /// The place's number. Numbers are dense: emptied places are filled before new ones are made.
    pub fn index(self) -> usize {
        self.slot as usize
    }

    /// Both parts in one word, the place in its lower half.
    pub fn to_word(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.slot)
    }

    /// Reads what [`Self::to_word`] wrote.
    pub fn from_word(word: u64) -> Handle {
        Handle { slot: word as u32, generation: (word >> 32) as u32 }
    }
}

/// The number of places in a piece.
const PIECE: usize = 1024;
/// Stands for no place.
const NONE: u32 = u32::MAX;

/// The places.
#[derive(Clone, Debug)]
pub struct Slab<T> {
    pieces: Vec<Piece<T>>,
    /// Pieces that have a free place.
    open: BTreeSet<u32>,
    len: usize,
    /// The generation of places that are created from now on.
    generation: u32,
}

/// Places one after the other.
#[derive(Clone, Debug)]
struct Piece<T> {
    /// The slots that were used since the piece was empty.
    slots: Vec<Slot<T>>,
    live: u32,
    /// The first free slot.
    free: u32,
    /// The generation of slots that are created again, higher than any before.
    generation: u32,
}

#[derive(Clone, Debug)]
struct Slot<T> {
    generation: u32,
    /// The next free slot, if this one is free.
    next: u32,
    value: Option<T>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Slab { pieces: Vec::new(), open: BTreeSet::new(), len: 0, generation: 0 }
    }
}

impl<T> Slab<T> {
    /// An empty slab in which the handles of this one find nothing.
    pub fn successor(&self) -> Slab<T> {
        let generations = self.pieces.iter().map(|piece| piece.generation);
        let last = generations.fold(self.generation, u32::max);
        Slab { generation: last.wrapping_add(1), ..Slab::default() }
    }

    /// Stores a value.
    pub fn insert(&mut self, value: T) -> Handle {
        let number = self.open.first().copied().unwrap_or_else(|| {
            let generation = self.generation;
            self.pieces.push(Piece { slots: Vec::new(), live: 0, free: NONE, generation });
            // Memory ends long before 2^32 values do.
            let number = (self.pieces.len() - 1) as u32;
            self.open.insert(number);
            number
        });
        let piece = &mut self.pieces[number as usize];
        let (at, generation) = piece.insert(value, number);
        if piece.live as usize == PIECE {
            self.open.remove(&number);
        }
        self.len += 1;
        Handle { slot: number * PIECE as u32 + at, generation }
    }

    /// Takes a value out; its handle finds nothing from now on.
    pub fn remove(&mut self, handle: Handle) -> Option<T> {
        let number = handle.slot / PIECE as u32;
        let piece = self.pieces.get_mut(number as usize)?;
        let value = piece.remove(handle.slot % PIECE as u32, handle.generation)?;
        self.len -= 1;
        if piece.live as usize == PIECE - 1 {
            self.open.insert(number);
        }
        if piece.live == 0 && number > 0 {
            free_piece(std::mem::take(&mut piece.slots));
            piece.free = NONE;
            self.drop_empty_end();
        }
        Some(value)
    }

    /// Removes empty pieces at the end, which have no memory.
    fn drop_empty_end(&mut self) {
        while let Some(piece) = self.pieces.pop_if(|piece| piece.live == 0) {
            self.generation = self.generation.max(piece.generation);
            self.open.remove(&(self.pieces.len() as u32));
        }
    }

    /// The value of this handle.
    #[inline]
    pub fn get(&self, handle: Handle) -> Option<&T> {
        let slot = self.slot(handle.index())?;
        if slot.generation == handle.generation { slot.value.as_ref() } else { None }
    }

    /// The value of this handle, to be changed.
    #[inline]
    pub fn get_mut(&mut self, handle: Handle) -> Option<&mut T> {
        let slot = self.slot_mut(handle.index())?;
        if slot.generation == handle.generation { slot.value.as_mut() } else { None }
    }

    /// The value in a place, if there is one.
    #[inline]
    pub fn at(&self, index: usize) -> Option<&T> {
        self.slot(index)?.value.as_ref()
    }

    /// The value in a place, to be changed.
    #[inline]
    pub fn at_mut(&mut self, index: usize) -> Option<&mut T> {
        self.slot_mut(index)?.value.as_mut()
    }

    /// The handle of the value in a place.
    pub fn handle_at(&self, index: usize) -> Option<Handle> {
        let slot = self.slot(index).filter(|slot| slot.value.is_some())?;
        Some(Handle { slot: index as u32, generation: slot.generation })
    }

    /// The number of values.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the slab has no values.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// A bound above the numbers of all places in use.
    pub fn end(&self) -> usize {
        let full = self.pieces.len().saturating_sub(1) * PIECE;
        full + self.pieces.last().map_or(0, |piece| piece.slots.len())
    }

    /// All values, by place.
    pub fn iter(&self) -> impl Iterator<Item = (Handle, &T)> {
        let slots = self.pieces.iter().map(|piece| piece.slots.iter()).enumerate();
        slots.flat_map(|(number, slots)| {
            slots.enumerate().filter_map(move |(at, slot)| {
                let handle = handle_of(number, at, slot.generation);
                slot.value.as_ref().map(|value| (handle, value))
            })
        })
    }

    /// All values, by place, to be changed.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (Handle, &mut T)> {
        let slots = self.pieces.iter_mut().map(|piece| piece.slots.iter_mut()).enumerate();
        slots.flat_map(|(number, slots)| {
            slots.enumerate().filter_map(move |(at, slot)| {
                let handle = handle_of(number, at, slot.generation);
                slot.value.as_mut().map(|value| (handle, value))
            })
        })
    }

    #[inline]
    fn slot(&self, index: usize) -> Option<&Slot<T>> {
        self.pieces.get(index / PIECE)?.slots.get(index % PIECE)
    }

    #[inline]
    fn slot_mut(&mut self, index: usize) -> Option<&mut Slot<T>> {
        self.pieces.get_mut(index / PIECE)?.slots.get_mut(index % PIECE)
    }
}

impl<T> Piece<T> {
    /// Stores a value in a free slot. Returns its number in the piece and its generation.
    fn insert(&mut self, value: T, number: u32) -> (u32, u32) {
        self.live += 1;
        if let Some(slot) = self.slots.get_mut(self.free as usize) {
            let at = std::mem::replace(&mut self.free, slot.next);
            slot.value = Some(value);
            return (at, slot.generation);
        }
        // The first piece grows as needed, since a slab may stay small.
        if number > 0 && self.slots.capacity() == 0 {
            self.slots.reserve_exact(PIECE);
        }
        self.slots.push(Slot { generation: self.generation, next: NONE, value: Some(value) });
        ((self.slots.len() - 1) as u32, self.generation)
    }

    fn remove(&mut self, at: u32, generation: u32) -> Option<T> {
        let slot = self.slots.get_mut(at as usize).filter(|it| it.generation == generation)?;
        let value = slot.value.take()?;
        slot.generation = slot.generation.wrapping_add(1);
        self.generation = self.generation.max(slot.generation);
        slot.next = std::mem::replace(&mut self.free, at);
        self.live -= 1;
        Some(value)
    }
}

fn handle_of(number: usize, at: usize, generation: u32) -> Handle {
    Handle { slot: (number * PIECE + at) as u32, generation }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    #[test]
    fn a_kept_handle_does_not_find_the_next_tenant() {
        let mut slab = Slab::default();
        let first = slab.insert('a');
        assert_eq!(slab.remove(first), Some('a'));
        let second = slab.insert('b');
        assert_eq!(first.index(), second.index());
        assert_eq!((slab.get(first), slab.get(second)), (None, Some(&'b')));
        assert_eq!((slab.at(second.index()), slab.handle_at(0)), (Some(&'b'), Some(second)));
        assert_eq!(slab.get_mut(first), None);
        assert_eq!(slab.remove(first), None);
        assert_eq!(Handle::from_word(second.to_word()), second);
        assert_eq!(slab.len(), 1);
        assert_eq!(slab.iter().collect::<Vec<_>>(), [(second, &'b')]);
    }

    #[test]
    fn places_are_filled_again_and_pieces_given_back() {
        let mut slab = Slab::default();
        let mut handles: Vec<Handle> = (0..5 * PIECE).map(|n| slab.insert(n)).collect();
        assert_eq!((slab.len(), slab.end()), (5 * PIECE, 5 * PIECE));
        // Of the piece in the middle all go, of the one after it every other.
        let goes = |n: &usize| n / PIECE == 2 || (n / PIECE == 3 && n.is_multiple_of(2));
        for n in (0..5 * PIECE).filter(goes) {
            assert_eq!(slab.remove(handles[n]), Some(n));
        }
        assert_eq!(slab.pieces[2].slots.capacity(), 0);
        let kept: HashMap<usize, Handle> = slab.iter().map(|(it, n)| (*n, it)).collect();
        assert!((0..5 * PIECE).all(|n| kept.get(&n) == (!goes(&n)).then_some(&handles[n])));
        for n in (0..5 * PIECE).filter(goes) {
            let handle = slab.insert(n);
            assert!(slab.get(handles[n]).is_none() && handle.index() / PIECE != 4);
            handles[n] = handle;
        }
        assert_eq!((slab.end(), slab.open.len()), (5 * PIECE, 0));
        // From the front on, so that pieces at the end go in one step.
        for (n, handle) in handles.iter().enumerate() {
            assert_eq!(slab.remove(*handle), Some(n));
        }
        assert_eq!((slab.len(), slab.pieces.len()), (0, 0));
        // Numbers of before find nothing among those that come.
        let again: Vec<Handle> = (0..5 * PIECE).map(|n| slab.insert(n)).collect();
        assert!(handles.iter().all(|handle| slab.get(*handle).is_none()));
        let mut successor = slab.successor();
        let _: Vec<Handle> = (0..5 * PIECE).map(|n| successor.insert(n)).collect();
        assert!(handles.iter().chain(&again).all(|handle| successor.get(*handle).is_none()));
        assert!(again.iter().enumerate().all(|(n, handle)| slab.get(*handle) == Some(&n)));
    }
}
