//! Misses that wait for an answer, and the packets that wait behind them.
//!
//! While the answer to a miss is under way, further packets with the same key wait for it: they are
//! translated once, and keep their order. They wait also where another packet's answer has installed
//! a flow meanwhile that they match: otherwise they would overtake the one that went up. When the answer
//! is here, they enter the tables again, in order.

use base::limits::{UPCALLS, UPCALLS_PER_PORT};
use flow::FlowKey;
use hashbrown::HashTable;
use packet::Packet;
use std::collections::VecDeque;

/// Packets that wait behind one miss, and behind all of a worker: as many as would wait as misses of
/// their own.
const PACKETS_PER_MISS: usize = UPCALLS_PER_PORT;
const PACKETS: usize = UPCALLS;
/// An answer that has not come after so many ticks of the worker will not come any more.
const TICKS: u8 = 3;

/// The misses of one worker.
#[derive(Default)]
pub(crate) struct Pending {
    by_key: HashTable<u32>,
    places: Vec<Place>,
    free: Vec<u32>,
    packets: usize,
    /// The worker's epoch when the oldest of the misses went up, or before.
    since: u64,
}

struct Place {
    hash: u64,
    key: Box<FlowKey>,
    packets: VecDeque<Packet>,
    epoch: u64,
    ticks: u8,
}

impl Pending {
    /// Whether a flow of this version came, or changed, since some packet went up that is not answered.
    #[inline]
    pub fn is_young(&self, version: u64) -> bool {
        !self.by_key.is_empty() && version > self.since
    }

    /// Whether nothing waits.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }

    /// The miss of this key.
    pub fn find(&self, hash: u64, key: &FlowKey) -> Option<u32> {
        let is_it = |&place: &u32| {
            let place = &self.places[place as usize];
            place.hash == hash && *place.key == *key
        };
        self.by_key.find(hash, is_it).copied()
    }

    /// Whether another packet may wait behind a miss.
    pub fn has_room(&self, place: u32) -> bool {
        let packets = self.places[place as usize].packets.len();
        packets < PACKETS_PER_MISS && self.packets < PACKETS
    }

    /// Has a packet wait behind a miss.
    pub fn hold(&mut self, place: u32, packet: Packet) {
        self.places[place as usize].packets.push_back(packet);
        self.packets += 1;
    }

    /// A packet of this key went up, which was not waited for.
    pub fn begin(&mut self, hash: u64, key: &FlowKey, epoch: u64) {
        if self.by_key.is_empty() {
            self.since = epoch;
        }
        let place = match self.free.pop() {
            Some(place) => {
                let it = &mut self.places[place as usize];
                (it.hash, it.epoch, it.ticks) = (hash, epoch, 0);
                it.key.as_mut().clone_from(key);
                place
            }
            None => {
                let (key, packets) = (Box::new(key.clone()), VecDeque::new());
                self.places.push(Place { hash, key, packets, epoch, ticks: 0 });
                (self.places.len() - 1) as u32
            }
        };
        let places = &self.places;
        self.by_key.insert_unique(hash, place, |&it| places[it as usize].hash);
    }

    /// The answer to a miss is here, or will not come: gives what waited for it.
    pub fn end(&mut self, hash: u64, key: &FlowKey) -> VecDeque<Packet> {
        match self.find(hash, key) {
            Some(place) => self.take(place),
            None => VecDeque::new(),
        }
    }

    fn take(&mut self, place: u32) -> VecDeque<Packet> {
        let it = &mut self.places[place as usize];
        let packets = std::mem::take(&mut it.packets);
        if let Ok(entry) = self.by_key.find_entry(it.hash, |&have| have == place) {
            entry.remove();
            self.free.push(place);
        }
        self.packets -= packets.len();
        packets
    }

    /// Gives up waiting for answers that should have come long ago. Gives what waited for them.
    pub fn tick(&mut self) -> Vec<Packet> {
        let mut since = u64::MAX;
        let mut late = Vec::new();
        for &place in &self.by_key {
            let it = &mut self.places[place as usize];
            it.ticks += 1;
            if it.ticks > TICKS {
                late.push(place);
            } else {
                since = since.min(it.epoch);
            }
        }
        self.since = since;
        late.into_iter().flat_map(|place| self.take(place)).collect()
    }
}
