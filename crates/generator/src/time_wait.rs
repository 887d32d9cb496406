//! Connections in TIME-WAIT (RFC 9293 section 3.6.1), one cache line each.
//!
//! With short connections most of a host's connections are in TIME-WAIT, and usually they receive no packets.
//! So they leave their slots to new connections, which then find the memory still cached, and wait in a
//! queue: they expire in the order in which they were added, so no timer is needed.

use crate::chains::{self, Chains};
use crate::frame::Flow;
use crate::statistics::End;
use base::MacAddr;
use std::collections::VecDeque;

/// Connections per piece of the queue.
const PIECE: usize = 512;

/// The record of a closed connection.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(crate) struct Closed {
    pub flow: Flow,
    pub to: MacAddr,
    /// The positions after everything that this side sent and received, as sequence numbers.
    pub seq: u32,
    pub ack: u32,
    pub window: u16,
    /// How it ends when TIME-WAIT is over.
    pub end: End,
    is_gone: bool,
    until: u64,
}

/// Bytes per record.
pub(crate) const BYTES_PER_CLOSED: usize = size_of::<Closed>() + chains::BYTES_PER_NUMBER;

const _: () = assert!(size_of::<Closed>() == 64, "more than a cache line");

impl Closed {
    /// A record, whose expiry [`TimeWait::push`] sets.
    pub fn new(flow: Flow, to: MacAddr, numbers: (u32, u32), window: u16, end: End) -> Closed {
        Closed { flow, to, seq: numbers.0, ack: numbers.1, window, end, is_gone: false, until: 0 }
    }
}

/// All connections of one host that are in TIME-WAIT.
pub(crate) struct TimeWait {
    /// Pieces of [`PIECE`] records each.
    all: Vec<Closed>,
    /// Pieces in use, the oldest first.
    order: VecDeque<u32>,
    /// Free pieces. The piece freed last is used first, because it is still cached.
    free: Vec<u32>,
    /// Index of the oldest record in the first piece, and of the next free one in the last.
    first: usize,
    next: usize,
    capacity: usize,
    chains: Chains,
}

impl TimeWait {
    /// Room for `capacity` records. Memory that is not used is not touched.
    pub fn new(capacity: usize) -> TimeWait {
        let pieces = capacity.div_ceil(PIECE) + 1;
        TimeWait {
            all: Vec::with_capacity(pieces * PIECE),
            order: VecDeque::with_capacity(pieces),
            free: Vec::with_capacity(pieces),
            first: 0,
            next: PIECE,
            capacity: pieces * PIECE,
            chains: Chains::new(pieces * PIECE),
        }
    }

    /// Returns the number of records.
    pub fn len(&self) -> usize {
        self.chains.len()
    }

    /// Returns the number of the record with these addresses and ports; `hash` is the hash of `flow`.
    #[inline]
    pub fn find(&self, flow: &Flow, hash: u32) -> Option<u32> {
        if self.len() == 0 {
            return None;
        }
        let is_meant = |id: u32| self.all.get(id as usize).is_some_and(|it| it.flow == *flow);
        self.chains.find(hash, is_meant)
    }

    /// Returns the record with this number.
    pub fn get(&self, id: u32) -> Option<&Closed> {
        self.all.get(id as usize).filter(|closed| !closed.is_gone)
    }

    /// Adds a record that expires at `until`, which is not earlier than that of any other record. Returns
    /// false if the queue is full.
    pub fn push(&mut self, closed: Closed, hash: u32, until: u64) -> bool {
        if self.next == PIECE {
            let Some(piece) = self.free.pop().or_else(|| self.new_piece()) else { return false };
            self.order.push_back(piece);
            self.next = 0;
        }
        let Some(&piece) = self.order.back() else { return false };
        let at = piece as usize * PIECE + self.next;
        let closed = Closed { until, ..closed };
        match self.all.get_mut(at) {
            Some(place) => *place = closed,
            None => self.all.push(closed),
        }
        self.chains.insert(at as u32, hash);
        self.next += 1;
        true
    }

    /// Removes a record early. Returns how the connection ended.
    pub fn remove(&mut self, id: u32) -> Option<End> {
        let closed = self.all.get_mut(id as usize).filter(|closed| !closed.is_gone)?;
        closed.is_gone = true;
        self.chains.remove(id);
        Some(closed.end)
    }

    /// Removes the oldest record if it has expired. Returns how the connection ended.
    pub fn pop(&mut self, now: u64) -> Option<End> {
        loop {
            let &piece = self.order.front()?;
            let is_last = self.order.len() == 1;
            if is_last && self.first == self.next {
                return None;
            }
            let at = piece as usize * PIECE + self.first;
            let closed = self.all.get(at)?;
            if !closed.is_gone && closed.until > now {
                return None;
            }
            self.first += 1;
            if self.first == PIECE {
                self.order.pop_front();
                self.free.push(piece);
                (self.first, self.next) = (0, if is_last { PIECE } else { self.next });
            }
            if let Some(end) = self.remove(at as u32) {
                return Some(end);
            }
        }
    }

    /// Returns the numbers of all records.
    pub fn ids(&self) -> Vec<u32> {
        let mut found = Vec::with_capacity(self.len());
        for (index, &piece) in self.order.iter().enumerate() {
            let from = if index == 0 { self.first } else { 0 };
            let to = if index + 1 == self.order.len() { self.next } else { PIECE };
            let ids = (from..to).map(|at| (piece as usize * PIECE + at) as u32);
            found.extend(ids.filter(|&id| self.get(id).is_some()));
        }
        found
    }

    fn new_piece(&self) -> Option<u32> {
        let has_room = self.all.len() < self.capacity;
        has_room.then_some((self.all.len() / PIECE) as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::Address;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    fn flow(number: u16) -> Flow {
        let [local, remote] = [Address::v4([10, 0, 0, 1]), Address::v4([10, 0, 0, 2])];
        Flow { local, remote, local_port: number, remote_port: 80, protocol: 6 }
    }

    proptest! {
        /// Behaves as a queue: records are found until they expire, and expire in the order of insertion.
        #[test]
        fn remembers_as_long_as_it_was_told(
            steps in proptest::collection::vec((0u16..700, 0u64..4, 0usize..900), 1..9),
        ) {
            let (mut all, mut model) = (TimeWait::new(2500), VecDeque::new());
            let (mut now, mut number) = (0, 0u16);
            for (count, wait, gone) in steps {
                for _ in 0..count {
                    let closed = Closed::new(flow(number), MacAddr::ZERO, (0, 0), 0, End::Completed);
                    if all.push(closed, u32::from(number % 499), now + 10) {
                        model.push_back((number, now + 10));
                    } else {
                        prop_assert!(model.len() > 1900, "no room for {}", model.len());
                    }
                    number += 1;
                }
                if let Some((number, _)) = model.get(gone).copied() {
                    model.remove(gone);
                    let id = all.find(&flow(number), u32::from(number % 499)).unwrap();
                    prop_assert_eq!(all.remove(id), Some(End::Completed));
                    prop_assert_eq!(all.remove(id), None);
                }
                now += wait * 3;
                while all.pop(now).is_some() {
                    prop_assert!(model.pop_front().is_some_and(|(_, until)| until <= now));
                }
                prop_assert!(model.front().is_none_or(|(_, until)| *until > now));
                prop_assert_eq!((all.len(), all.ids().len()), (model.len(), model.len()));
                for number in 0..number {
                    let id = all.find(&flow(number), u32::from(number % 499));
                    prop_assert_eq!(id.is_some(), model.iter().any(|(n, _)| *n == number));
                    prop_assert!(id.is_none_or(|id| all.get(id).unwrap().flow == flow(number)));
                }
            }
        }
    }
}
