//! Values shared by many megaflows, each stored once for as long as a flow uses it.

use classifier::{Index, Slab};
use hashbrown::DefaultHashBuilder;
use std::hash::{BuildHasher, Hash};
use std::sync::Arc;

/// Values by number, and numbers by value.
#[derive(Debug)]
pub(super) struct Interned<T: ?Sized> {
    places: Slab<Place<T>>,
    by_value: Index,
    /// The last number returned: consecutive flows often share values.
    last: u32,
    state: DefaultHashBuilder,
}

#[derive(Debug)]
struct Place<T: ?Sized> {
    value: Arc<T>,
    hash: u64,
    users: u32,
    /// The first slot of the list of its flows.
    first: u32,
    /// Whether the list waits to be walked.
    is_listed: bool,
}

impl<T: ?Sized> Default for Interned<T> {
    fn default() -> Self {
        Interned {
            places: Slab::default(),
            by_value: Index::default(),
            last: 0,
            state: DefaultHashBuilder::default(),
        }
    }
}

impl<T: ?Sized + Eq + Hash> Interned<T> {
    /// Adds a user of a value. Returns the value's number, and whether it is new; `kept` makes the stored
    /// copy of a new one.
    pub fn take(&mut self, value: &T, kept: impl FnOnce(&T) -> Arc<T>) -> (u32, bool) {
        if let Some(place) = self.places.at_mut(self.last as usize)
            && *place.value == *value
        {
            place.users += 1;
            return (self.last, false);
        }
        let hash = self.state.hash_one(value);
        let place = |number: u32| self.places.at(number as usize);
        let is_it = |number| place(number).is_some_and(|place| *place.value == *value);
        if let Some(number) = self.by_value.find(hash, is_it) {
            if let Some(place) = self.places.at_mut(number as usize) {
                place.users += 1;
            }
            self.last = number;
            return (number, false);
        }
        let place = Place { value: kept(value), hash, users: 1, first: 0, is_listed: false };
        self.last = self.places.insert(place).index() as u32;
        self.by_value.insert(hash, self.last);
        (self.last, true)
    }

    /// The value used last, if it equals this one.
    pub fn last(&self, value: &T) -> Option<&Arc<T>> {
        self.get(self.last).filter(|last| ***last == *value)
    }

    /// Removes a user. Returns the value if that was the last one.
    pub fn give_back(&mut self, number: u32) -> Option<Arc<T>> {
        let place = self.places.at_mut(number as usize)?;
        place.users = place.users.saturating_sub(1);
        if place.users > 0 {
            return None;
        }
        let place = self.places.remove(self.places.handle_at(number as usize)?)?;
        self.by_value.remove(place.hash, number);
        Some(place.value)
    }

    /// The value of a number.
    pub fn get(&self, number: u32) -> Option<&Arc<T>> {
        Some(&self.places.at(number as usize)?.value)
    }

    /// How many flows use it.
    pub fn users(&self, number: u32) -> usize {
        self.places.at(number as usize).map_or(0, |place| place.users as usize)
    }

    /// The first slot of the list of its flows, 0 for none.
    pub fn first(&self, number: u32) -> u32 {
        self.places.at(number as usize).map_or(0, |place| place.first)
    }

    /// Notes whether the list of its flows waits to be walked. Returns whether that changed.
    pub fn set_listed(&mut self, number: u32, is_listed: bool) -> bool {
        let place = self.places.at_mut(number as usize);
        place.is_some_and(|it| std::mem::replace(&mut it.is_listed, is_listed) != is_listed)
    }

    /// Sets the first slot of the list of its flows. Returns the previous one.
    pub fn set_first(&mut self, number: u32, slot: u32) -> u32 {
        let place = self.places.at_mut(number as usize);
        place.map_or(0, |place| std::mem::replace(&mut place.first, slot))
    }
}
