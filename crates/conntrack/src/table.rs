//! Where connections are kept: a slab of them, an index by hash, and the wheel that says whose
//! time ran out.

use crate::connection::Connection;
use crate::counters::{Counters, Event};
use crate::gateways::Gateways;
use crate::key::Key;
use crate::limit::Limits;
use crate::wheel::Wheel;
use base::Instant;
use hashbrown::HashTable;
use rapidhash::v3::RapidSecrets;

/// All connections of all zones.
pub(crate) struct Table {
    slots: Vec<Option<Connection>>,
    free: Vec<u32>,
    /// A connection stands here under the hash of its original direction, which is that of its
    /// replies too unless it is translated; then it stands here twice.
    index: HashTable<IndexEntry>,
    wheel: Wheel,
    pub limits: Limits,
    pub counters: Counters,
    pub gateways: Gateways,
    live: u32,
    pub secrets: RapidSecrets,
}

#[derive(Clone, Copy)]
struct IndexEntry {
    hash: u32,
    id: u32,
}

/// A connection that a packet belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Found {
    pub id: u32,
    pub is_reply: bool,
}

impl Table {
    pub fn new(seed: u64) -> Self {
        Table {
            slots: Vec::new(),
            free: Vec::new(),
            index: HashTable::new(),
            wheel: Wheel::new(),
            limits: Limits::default(),
            counters: Counters::new(),
            gateways: Gateways::default(),
            live: 0,
            secrets: RapidSecrets::seed(seed),
        }
    }

    /// How many connections there are.
    pub fn len(&self) -> u32 {
        self.live
    }

    pub fn get(&self, id: u32) -> Option<&Connection> {
        self.slots.get(id as usize)?.as_ref()
    }

    /// A connection and, beside it, the counters.
    pub fn get_mut(&mut self, id: u32) -> Option<(&mut Connection, &mut Counters)> {
        Some((self.slots.get_mut(id as usize)?.as_mut()?, &mut self.counters))
    }

    /// The connection that packets with this key belong to. `hash` is the key's. A connection
    /// whose time ran out is not found, and goes.
    #[inline]
    pub fn find(&mut self, key: &Key, hash: u32, now: Instant) -> Option<Found> {
        let slots = &self.slots;
        let mut is_reply = false;
        let entry = self.index.find(spread(hash), |entry| {
            let Some(Some(connection)) = slots.get(entry.id as usize) else { return false };
            is_reply = connection.original != *key;
            entry.hash == hash && (!is_reply || connection.reply == *key)
        });
        let id = entry?.id;
        if self.get(id)?.has_expired(now) {
            self.remove(id, Event::Expired);
            return None;
        }
        Some(Found { id, is_reply })
    }

    /// Whether packets with this key would belong to a connection.
    pub fn is_taken(&mut self, key: &Key, now: Instant) -> bool {
        let hash = key.hash(&self.secrets);
        self.find(key, hash, now).is_some()
    }

    /// Adds a connection; neither of its tuples may be there yet. It counts towards its zone's
    /// limit.
    pub fn insert(&mut self, mut connection: Connection, now: Instant) -> u32 {
        connection.admission = self.limits.admit(connection.original.zone);
        let id = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() as u32 - 1
        });
        self.wheel.arm(id, now, connection.deadline);
        for hash in self.hashes(&connection).into_iter().flatten() {
            let entry = IndexEntry { hash, id };
            self.index.insert_unique(spread(hash), entry, |entry| spread(entry.hash));
        }
        self.slots[id as usize] = Some(connection);
        self.live += 1;
        self.counters.count(Event::Created);
        id
    }

    /// Removes a connection and counts why; whether it was there.
    pub fn remove(&mut self, id: u32, why: Event) -> bool {
        self.wheel.disarm(id);
        let Some(connection) = self.slots.get_mut(id as usize).and_then(Option::take) else {
            return false;
        };
        for hash in self.hashes(&connection).into_iter().flatten() {
            let this = |entry: &IndexEntry| entry.id == id && entry.hash == hash;
            if let Ok(entry) = self.index.find_entry(spread(hash), this) {
                entry.remove();
            }
        }
        if connection.helper.is_some() || connection.is_expected {
            self.gateways.forget(&connection.original);
        }
        self.limits.release(connection.original.zone, connection.admission);
        self.free.push(id);
        self.live -= 1;
        self.counters.count(why);
        true
    }

    /// Moves a connection's end. Later ends cost nothing: the wheel finds them out.
    #[inline]
    pub fn set_deadline(&mut self, id: u32, deadline: Instant) {
        let Some(Some(connection)) = self.slots.get_mut(id as usize) else { return };
        let sooner = deadline < connection.deadline;
        connection.deadline = deadline;
        if sooner {
            self.wheel.hasten(id, deadline);
        }
    }

    /// Removes connections whose time ran out, looking at no more than `budget`. Gives how many
    /// went, and whether the budget was enough.
    pub fn expire(&mut self, now: Instant, budget: usize) -> (usize, bool) {
        let slots = &self.slots;
        let mut due = Vec::new();
        let left = self.wheel.advance(now, budget, |id| {
            let connection = slots.get(id as usize)?.as_ref()?;
            if connection.has_expired(now) {
                due.push(id);
                return None;
            }
            Some(connection.deadline)
        });
        for &id in &due {
            self.remove(id, Event::Expired);
        }
        (due.len(), left > 0)
    }

    /// The connections in up to `count` slots from `start`, and where to go on.
    pub fn page(
        &self,
        start: u32,
        count: usize,
    ) -> (impl Iterator<Item = (u32, &Connection)>, Option<u32>) {
        let first = (start as usize).min(self.slots.len());
        let end = first.saturating_add(count).min(self.slots.len());
        let slots = self.slots[first..end].iter().enumerate();
        let connections =
            slots.filter_map(move |(at, slot)| Some(((first + at) as u32, slot.as_ref()?)));
        (connections, (end < self.slots.len()).then_some(end as u32))
    }

    /// The connection that announced this one, if one did.
    pub fn parent_of(&self, connection: &Connection) -> Option<&Key> {
        connection.is_expected.then(|| self.gateways.parent_of(&connection.original)).flatten()
    }

    /// What a connection is indexed under.
    fn hashes(&self, connection: &Connection) -> [Option<u32>; 2] {
        let original = connection.original.hash(&self.secrets);
        let is_reverse = connection.reply == connection.original.reversed();
        let reply = (!is_reverse).then(|| connection.reply.hash(&self.secrets));
        [Some(original), reply]
    }
}

/// The table wants its hash bits at both ends of 64.
fn spread(hash: u32) -> u64 {
    u64::from(hash).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}
