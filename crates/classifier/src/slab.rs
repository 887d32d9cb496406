//! Values in numbered places, with a generation that tells a place's tenants apart.

/// Names one value for as long as it lives. A place that is emptied and filled again gets another
/// generation, so that a kept handle finds nothing rather than the wrong value. (A generation has
/// 32 bits: a handle would have to be kept while its one place changed hands four billion times.)
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

/// The places.
#[derive(Clone, Debug)]
pub(crate) struct Slab<T> {
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
}

#[derive(Clone, Debug)]
struct Slot<T> {
    generation: u32,
    value: Option<T>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Slab { slots: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slab<T> {
    /// Stores a value.
    pub fn insert(&mut self, value: T) -> Handle {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot { generation: 0, value: None });
            // Memory ends long before 2^32 values do.
            (self.slots.len() - 1) as u32
        });
        let place = &mut self.slots[slot as usize];
        place.value = Some(value);
        Handle { slot, generation: place.generation }
    }

    /// Takes a value out; its handle finds nothing from now on.
    pub fn remove(&mut self, handle: Handle) -> Option<T> {
        let place = self.slots.get_mut(handle.index())?;
        if place.generation != handle.generation {
            return None;
        }
        let value = place.value.take()?;
        place.generation = place.generation.wrapping_add(1);
        self.free.push(handle.slot);
        Some(value)
    }

    #[inline]
    pub fn get(&self, handle: Handle) -> Option<&T> {
        let place = self.slots.get(handle.index())?;
        if place.generation == handle.generation { place.value.as_ref() } else { None }
    }

    #[inline]
    pub fn get_mut(&mut self, handle: Handle) -> Option<&mut T> {
        let place = self.slots.get_mut(handle.index())?;
        if place.generation == handle.generation { place.value.as_mut() } else { None }
    }

    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// All values, by place.
    pub fn iter(&self) -> impl Iterator<Item = (Handle, &T)> {
        self.slots.iter().enumerate().filter_map(|(slot, place)| {
            let handle = Handle { slot: slot as u32, generation: place.generation };
            place.value.as_ref().map(|value| (handle, value))
        })
    }

    /// All values, by place, to be changed.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (Handle, &mut T)> {
        self.slots.iter_mut().enumerate().filter_map(|(slot, place)| {
            let handle = Handle { slot: slot as u32, generation: place.generation };
            place.value.as_mut().map(|value| (handle, value))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kept_handle_does_not_find_the_next_tenant() {
        let mut slab = Slab::default();
        let first = slab.insert('a');
        assert_eq!(slab.remove(first), Some('a'));
        let second = slab.insert('b');
        assert_eq!(first.index(), second.index());
        assert_eq!((slab.get(first), slab.get(second)), (None, Some(&'b')));
        assert_eq!(slab.get_mut(first), None);
        assert_eq!(slab.remove(first), None);
        assert_eq!(Handle::from_word(second.to_word()), second);
        assert_eq!(slab.len(), 1);
        assert_eq!(slab.iter().collect::<Vec<_>>(), [(second, &'b')]);
    }
}
