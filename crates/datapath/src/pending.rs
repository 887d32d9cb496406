//! Misses that wait for answers, and the packets that wait behind them.
//!
//! While a miss is unanswered, further packets with the same key wait for the answer: they are translated
//! once and keep their order. They also wait if the answer to another miss has installed a matching flow
//! meanwhile: otherwise they would overtake the packet of the upcall. When the answer arrives, they enter the
//! tables again, in order.
//!
//! A connection may change its state while one of its packets waits: the next packet then matches another
//! flow, and would overtake it. So packets in another state of the connection wait, too. Invalid packets,
//! which any host may send, neither wait for another state nor hold back packets of one.
//!
//! While a packet waits in a pass after connection tracking, rules may change so that the next packets of its
//! connection are not tracked any more. Those wait in their first pass, where no flow matches them or one that came
//! or changed meanwhile. A waiting packet is therefore found also by the addresses and ports that it was received
//! with: NAT, or a rule, may have rewritten them since, and replies to packets with NAT never had those of their
//! connection's original direction.

use crate::flow_hash::FlowHash;
use base::PortNo;
use base::limits::{UPCALLS, UPCALLS_PER_PORT};
use flow::{CtState, FlowKey, Frame};
use hashbrown::HashTable;
use packet::Packet;
use std::collections::VecDeque;

/// Maximum number of packets behind one miss: the number that could wait as misses of their own.
const PACKETS_PER_MISS: usize = UPCALLS_PER_PORT;
/// Maximum number of packets behind all misses of a worker. One port may use at most as many as remain free,
/// so a storm leaves half of the room to others.
const PACKETS: usize = UPCALLS;
/// In addition, each port may use this many, so storms from other ports do not exclude it. Ports are
/// distinguished by the lowest bits of their numbers.
const PACKETS_KEPT_FOR_PORT: usize = 64;
const PORTS: usize = 32;
/// Maximum number of unanswered misses of a worker. More are dropped: without a place they could be
/// overtaken.
const PLACES: usize = 2 * UPCALLS;
/// Misses whose memory is kept where none is unanswered, and how many more are freed in a tick.
const PLACES_KEPT: usize = 64;
const PLACES_FREED: usize = 1024;
/// After this many ticks of the worker, an answer is overdue.
const TICKS: u8 = 3;

/// The misses of one worker.
#[derive(Default)]
pub(crate) struct Pending {
    hash: FlowHash,
    by_key: HashTable<u32>,
    /// The misses of tracked packets, each with its hash: that of their connection's original direction, and
    /// that of the packet as it was received.
    by_connection: HashTable<(u64, u32)>,
    /// Number of misses so far.
    begun: u64,
    places: Vec<Place>,
    free: Vec<u32>,
    packets: usize,
    /// Packets behind the misses of each port.
    packets_of_port: [usize; PORTS],
    /// The worker's epoch at the oldest unanswered miss, or earlier.
    since: u64,
}

struct Place {
    hash: u64,
    key: Box<FlowKey>,
    /// The hashes by which it stands in `by_connection`, if the packet is tracked and valid.
    connection: Option<[u64; 2]>,
    /// [`Frame::received`] of the packet.
    received: Option<u64>,
    /// Its sequence number.
    number: u64,
    packets: VecDeque<Waiting>,
    epoch: u64,
    ticks: u8,
}

/// A packet that waits behind a miss.
pub(crate) struct Waiting {
    pub packet: Packet,
    /// Its key, where that differs from the miss's.
    pub key: Option<Box<FlowKey>>,
    /// [`Frame::received`].
    pub received: Option<u64>,
}

/// What a miss leaves when it ends.
#[derive(Default)]
pub(crate) struct Ended {
    /// [`Frame::received`] of the packet that missed.
    pub received: Option<u64>,
    /// The packets that waited behind it.
    pub packets: VecDeque<Waiting>,
}

impl Pending {
    /// No misses. The seed makes the hash of connections unpredictable.
    pub fn new(seed: u64) -> Self {
        Pending { hash: FlowHash::new(seed), ..Pending::default() }
    }

    /// Whether a flow of this version was installed or changed since some unanswered miss.
    #[inline]
    pub fn is_young(&self, version: u64) -> bool {
        !self.by_key.is_empty() && version > self.since
    }

    /// Whether there are no misses.
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

    /// Whether there is a miss of a tracked packet.
    #[inline]
    pub fn is_tracked(&self) -> bool {
        !self.by_connection.is_empty()
    }

    /// The hash of a packet with these headers for [`Frame::received`].
    pub fn received(&self, key: &FlowKey) -> u64 {
        self.hash.of_headers(key)
    }

    /// Whether there is a miss of a packet of this connection.
    pub fn has_connection(&self, key: &FlowKey) -> bool {
        self.of_connection(self.hash.of(key)).next().is_some()
    }

    /// The oldest miss of a packet of the same connection in another state, or of the same port in another zone:
    /// further packets wait behind the same one.
    pub fn find_other_state(&self, key: &FlowKey) -> Option<u32> {
        let is_valid = !key.ct_state().is_empty() && !key.ct_state().contains(CtState::INV);
        if self.by_connection.is_empty() || !is_valid {
            return None;
        }
        let is_other = |it: &u32| {
            let its = &self.places[*it as usize].key;
            // Hosts of other ports may have the same addresses in their own zones.
            let is_in_other_zone = its.ct_zone() != key.ct_zone() && its.in_port() == key.in_port();
            states(its) != states(key) || is_in_other_zone
        };
        let others = self.of_connection(self.hash.of(key)).filter(is_other);
        others.min_by_key(|it| self.places[*it as usize].number)
    }

    /// The oldest miss of a tracked packet with the addresses and ports of a packet that is not tracked.
    pub fn find_tracked(&self, key: &FlowKey) -> Option<u32> {
        if self.by_connection.is_empty() || !key.ct_state().is_empty() {
            return None;
        }
        let all = self.of_connection(self.hash.of(key));
        all.min_by_key(|it| self.places[*it as usize].number)
    }

    fn of_connection(&self, hash: u64) -> impl Iterator<Item = u32> {
        let found = self.by_connection.iter_hash(hash);
        found.filter(move |(its, _)| *its == hash).map(|(_, place)| *place)
    }

    /// Whether another packet may wait behind a miss.
    pub fn has_room(&self, place: u32) -> bool {
        let place = &self.places[place as usize];
        let room_of_port = PACKETS.saturating_sub(self.packets).max(PACKETS_KEPT_FOR_PORT);
        place.packets.len() < PACKETS_PER_MISS
            && self.packets_of_port[port_of(&place.key)] < room_of_port
    }

    /// Makes a copy of a frame's packet wait behind a miss.
    pub fn hold(&mut self, place: u32, frame: &Frame) {
        let place = &mut self.places[place as usize];
        let key = (*place.key != frame.key).then(|| Box::new(frame.key.clone()));
        let packet = frame.packet.compact_copy();
        place.packets.push_back(Waiting { packet, key, received: frame.received });
        // A packet that waits in an earlier pass: flows that are young now stay so until it goes on.
        place.epoch = place.epoch.min(self.since);
        self.packets += 1;
        self.packets_of_port[port_of(&place.key)] += 1;
    }

    /// Whether there is room for another miss.
    pub fn has_place(&self) -> bool {
        self.by_key.len() < PLACES
    }

    /// Records a frame's miss. The caller has checked that there is no such miss yet, and that there is room.
    pub fn begin(&mut self, hash: u64, frame: &Frame, epoch: u64) {
        let Frame { key, received, .. } = frame;
        if self.by_key.is_empty() {
            self.since = epoch;
        }
        let is_valid = !key.ct_state().is_empty() && !key.ct_state().contains(CtState::INV);
        let received = *received;
        let connection =
            is_valid.then(|| [self.hash.of(key), received.unwrap_or_else(|| self.received(key))]);
        self.begun += 1;
        let number = self.begun;
        let place = match self.free.pop() {
            Some(place) => {
                let it = &mut self.places[place as usize];
                (it.hash, it.connection, it.received) = (hash, connection, received);
                (it.number, it.epoch, it.ticks) = (number, epoch, 0);
                it.key.as_mut().clone_from(key);
                place
            }
            None => {
                let (key, packets) = (Box::new(key.clone()), VecDeque::new());
                let ticks = 0;
                self.places.push(Place {
                    hash,
                    key,
                    connection,
                    received,
                    number,
                    packets,
                    epoch,
                    ticks,
                });
                (self.places.len() - 1) as u32
            }
        };
        let places = &self.places;
        self.by_key.insert_unique(hash, place, |&it| places[it as usize].hash);
        for hash in differing(connection) {
            self.by_connection.insert_unique(hash, (hash, place), |(hash, _)| *hash);
        }
    }

    /// The answer to a miss arrived, or will not.
    pub fn end(&mut self, hash: u64, key: &FlowKey) -> Ended {
        match self.find(hash, key) {
            Some(place) => {
                let received = self.places[place as usize].received;
                Ended { received, packets: self.take(place) }
            }
            None => Ended::default(),
        }
    }

    fn take(&mut self, place: u32) -> VecDeque<Waiting> {
        let it = &mut self.places[place as usize];
        let packets = std::mem::take(&mut it.packets);
        if let Ok(entry) = self.by_key.find_entry(it.hash, |&have| have == place) {
            entry.remove();
            self.free.push(place);
        }
        for hash in differing(it.connection) {
            if let Ok(entry) = self.by_connection.find_entry(hash, |have| *have == (hash, place)) {
                entry.remove();
            }
        }
        self.packets -= packets.len();
        self.packets_of_port[port_of(&it.key)] -= packets.len();
        packets
    }

    /// A port was removed, and its misses will not be answered. Returns the packets that waited for them,
    /// with their keys, in order.
    pub fn end_port(&mut self, port: PortNo) -> Vec<(Waiting, FlowKey)> {
        let is_its = |place: &u32| self.places[*place as usize].key.in_port() == port;
        let mut ended: Vec<u32> = self.by_key.iter().copied().filter(is_its).collect();
        ended.sort_unstable_by_key(|place| self.places[*place as usize].number);
        let mut all = Vec::new();
        for place in ended {
            let key = self.places[place as usize].key.clone();
            all.extend(self.take(place).into_iter().map(|mut waiting| {
                let own = waiting.key.take();
                (waiting, own.map_or_else(|| (*key).clone(), |own| *own))
            }));
        }
        all
    }

    /// No more answers will arrive. Returns how many packets waited, by port. The misses themselves are
    /// counted by the upcall queue.
    pub fn end_all(&mut self) -> Vec<(PortNo, u64)> {
        let places: Vec<u32> = self.by_key.iter().copied().collect();
        let ended = places.into_iter().map(|place| {
            let port = self.places[place as usize].key.in_port();
            (port, self.take(place).len() as u64)
        });
        ended.filter(|(_, count)| *count > 0).collect()
    }

    /// Gives up on overdue answers. Returns the packets that waited for them.
    pub fn tick(&mut self) -> Vec<Waiting> {
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
        let ended = late.into_iter().flat_map(|place| self.take(place)).collect();
        self.shrink();
        ended
    }

    /// Frees memory that a storm of misses took, a part at a time, where none is unanswered.
    fn shrink(&mut self) {
        if !self.by_key.is_empty() || self.places.len() <= PLACES_KEPT {
            return;
        }
        let kept = self.places.len().saturating_sub(PLACES_FREED).max(PLACES_KEPT);
        self.places.truncate(kept);
        self.free.clear();
        self.free.extend(0..kept as u32);
        if kept == PLACES_KEPT {
            self.places.shrink_to_fit();
            self.free.shrink_to_fit();
            (self.by_key, self.by_connection) = Default::default();
        }
    }
}

/// The index of a miss's port in `packets_of_port`.
fn port_of(key: &FlowKey) -> usize {
    key.in_port().0 as usize % PORTS
}

/// The hashes by which a miss stands in `by_connection`.
fn differing(connection: Option<[u64; 2]>) -> impl Iterator<Item = u64> {
    connection.into_iter().flat_map(|[first, second]| {
        std::iter::once(first).chain((second != first).then_some(second))
    })
}

/// The state of a packet's connection, without the NAT bits; and whether the packet created it, in which case
/// its key differs from that of the next packet.
fn states(key: &FlowKey) -> (CtState, bool) {
    let states = CtState::NEW | CtState::EST | CtState::REL | CtState::RPL;
    (key.ct_state() & states, key.ct_began())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(key: FlowKey) -> Frame {
        Frame { packet: Packet::from_bytes(&[0; 60]), key, ..Frame::empty() }
    }

    #[test]
    fn misses_without_answers_take_bounded_memory() {
        let mut pending = Pending::new(1);
        let key = |n: usize| {
            let mut key = FlowKey::new();
            key.set_in_port_raw(n as u32);
            key
        };
        let last = PLACES;
        for n in 0..last {
            assert!(pending.has_place());
            pending.begin(n as u64, &frame(key(n)), 1);
        }
        assert!(!pending.has_place());
        // An answer to a miss without a place has no effect; one to a miss with a place frees it.
        assert!(pending.end(last as u64, &key(last)).packets.is_empty());
        assert!(!pending.has_place());
        assert!(pending.end(0, &key(0)).packets.is_empty());
        assert!(pending.has_place());
        pending.begin(last as u64, &frame(key(last)), 1);
        assert!(pending.find(last as u64, &key(last)).is_some());
        assert_eq!(pending.places.len(), PLACES);
    }

    #[test]
    fn memory_of_answered_misses_is_freed_in_parts() {
        let mut pending = Pending::new(1);
        let key = |n: usize| {
            let mut key = FlowKey::new();
            key.set_in_port_raw(n as u32);
            key
        };
        (0..PLACES).for_each(|n| pending.begin(n as u64, &frame(key(n)), 1));
        let end = |pending: &mut Pending, n: usize| drop(pending.end(n as u64, &key(n)));
        (1..PLACES).for_each(|n| end(&mut pending, n));
        assert!(pending.tick().is_empty());
        assert_eq!(pending.places.len(), PLACES, "one is still unanswered");
        end(&mut pending, 0);
        let mut ticks = 0;
        while pending.places.len() > PLACES_KEPT {
            let before = pending.places.len();
            assert!(pending.tick().is_empty());
            assert!(before - pending.places.len() <= PLACES_FREED);
            ticks += 1;
        }
        assert_eq!((ticks, pending.by_key.capacity()), (PLACES.div_ceil(PLACES_FREED), 0));
        // All that is left is used again.
        (0..2 * PLACES_KEPT).for_each(|n| pending.begin(n as u64, &frame(key(n)), 1));
        assert!((0..2 * PLACES_KEPT).all(|n| pending.find(n as u64, &key(n)).is_some()));
        assert_eq!(pending.places.len(), 2 * PLACES_KEPT);
    }

    #[test]
    fn storms_leave_room_for_packets_behind_misses_of_other_ports() {
        let mut pending = Pending::new(1);
        let key = |port: u32, n: u16| {
            let mut key = FlowKey::new();
            key.set_in_port_raw(port);
            key.set_eth_type(n);
            key
        };
        // How many packets of a port may wait, with as many misses as needed.
        let mut fill = |port: u32| {
            let mut held = 0;
            for n in 0..u16::MAX {
                let hash = u64::from(port) << 16 | u64::from(n);
                pending.begin(hash, &frame(key(port, n)), 1);
                let place = pending.find(hash, &key(port, n)).unwrap();
                let before = held;
                while pending.has_room(place) {
                    pending.hold(place, &frame(key(port, n)));
                    held += 1;
                }
                if held == before {
                    break;
                }
            }
            held
        };
        assert_eq!(fill(0), PACKETS / 2);
        assert_eq!(fill(1), PACKETS / 4);
        for port in 2..PORTS as u32 {
            assert!(fill(port) >= PACKETS_KEPT_FOR_PORT, "port {port}");
        }
        assert!(pending.packets <= PACKETS + PORTS * PACKETS_KEPT_FOR_PORT);
        // An answer makes room again.
        assert_eq!(pending.end(0, &key(0, 0)).packets.len(), PACKETS_PER_MISS);
        let next = pending.find(1, &key(0, 1)).unwrap();
        assert!(!pending.has_room(next), "its miss has all that it may have");
    }
}
