//! Values that many megaflows share, each kept once for as long as some flow has it.

use hashbrown::{DefaultHashBuilder, HashTable};
use std::hash::{BuildHasher, Hash};
use std::sync::Arc;

/// Values by number, and numbers by value.
#[derive(Debug)]
pub(super) struct Interned<T: ?Sized> {
    places: Vec<Place<T>>,
    free: Vec<u32>,
    by_value: HashTable<u32>,
    state: DefaultHashBuilder,
}

#[derive(Debug)]
struct Place<T: ?Sized> {
    value: Option<Arc<T>>,
    hash: u64,
    users: u32,
}

impl<T: ?Sized> Default for Interned<T> {
    fn default() -> Self {
        Interned {
            places: Vec::new(),
            free: Vec::new(),
            by_value: HashTable::new(),
            state: DefaultHashBuilder::default(),
        }
    }
}

impl<T: ?Sized + Eq + Hash> Interned<T> {
    /// The number of a value, which has one user more now; and whether it is new.
    pub fn take(&mut self, value: &Arc<T>) -> (u32, bool) {
        let hash = self.state.hash_one(&**value);
        let places = &self.places;
        let is_it = |&number: &u32| places[number as usize].value.as_ref() == Some(value);
        if let Some(&number) = self.by_value.find(hash, is_it) {
            self.places[number as usize].users += 1;
            return (number, false);
        }
        let place = Place { value: Some(Arc::clone(value)), hash, users: 1 };
        let number = match self.free.pop() {
            Some(number) => {
                self.places[number as usize] = place;
                number
            }
            None => {
                self.places.push(place);
                (self.places.len() - 1) as u32
            }
        };
        let places = &self.places;
        self.by_value.insert_unique(hash, number, |&it| places[it as usize].hash);
        (number, true)
    }

    /// A user less; gives the value if that was the last one.
    pub fn give_back(&mut self, number: u32) -> Option<Arc<T>> {
        let place = self.places.get_mut(number as usize)?;
        place.users = place.users.saturating_sub(1);
        if place.users > 0 {
            return None;
        }
        let value = place.value.take()?;
        if let Ok(entry) = self.by_value.find_entry(place.hash, |&it| it == number) {
            entry.remove();
        }
        self.free.push(number);
        Some(value)
    }

    /// The value of a number.
    pub fn get(&self, number: u32) -> Option<&Arc<T>> {
        self.places.get(number as usize)?.value.as_ref()
    }

    /// How many flows have it.
    pub fn users(&self, number: u32) -> usize {
        self.places.get(number as usize).map_or(0, |place| place.users as usize)
    }
}
