//! Which datagram is dropped when too many fragments are held.
//!
//! The zone with the most datagrams loses one; in it the source address with the most, and of these
//! the oldest datagram. Among equals, the one with the oldest datagram loses. Datagrams count, not
//! fragments: a host that sends one large datagram is no flood, and with forged source addresses of
//! one datagram each the oldest are dropped. The cost is logarithmic in the number of datagrams.

use super::piece::DatagramKey;
use base::Instant;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// A datagram's deadline and number, which order datagrams by age.
pub(super) type Serial = (Instant, u64);

/// The number of datagrams of each zone and source address.
#[derive(Debug, Default)]
pub(super) struct Shares {
    zones: Ranking<u16>,
    sources: BTreeMap<u16, Ranking<IpAddr>>,
}

/// The owners of datagrams, ordered by number.
#[derive(Debug)]
struct Ranking<K> {
    held: BTreeMap<K, BTreeSet<Serial>>,
    /// Each owner's number of datagrams and its oldest; the last entry loses.
    order: BTreeSet<(usize, Reverse<Serial>, K)>,
}

impl Shares {
    /// Adds a datagram.
    pub fn add(&mut self, key: &DatagramKey, serial: Serial) {
        self.zones.change(key.zone, |held| held.insert(serial));
        self.sources.entry(key.zone).or_default().change(key.src, |held| held.insert(serial));
    }

    /// Removes a datagram.
    pub fn remove(&mut self, key: &DatagramKey, serial: Serial) {
        self.zones.change(key.zone, |held| held.remove(&serial));
        if let Some(sources) = self.sources.get_mut(&key.zone) {
            sources.change(key.src, |held| held.remove(&serial));
            if sources.held.is_empty() {
                self.sources.remove(&key.zone);
            }
        }
    }

    /// The datagram to drop first.
    pub fn first_to_go(&self) -> Option<Serial> {
        let (_, _, zone) = self.zones.order.last()?;
        let (_, Reverse(oldest), _) = self.sources.get(zone)?.order.last()?;
        Some(*oldest)
    }
}

impl<K: Ord + Copy> Ranking<K> {
    fn change(&mut self, of: K, change: impl FnOnce(&mut BTreeSet<Serial>) -> bool) {
        let held = self.held.entry(of).or_default();
        let rank = |held: &BTreeSet<Serial>| Some((held.len(), Reverse(*held.first()?), of));
        if let Some(before) = rank(held) {
            self.order.remove(&before);
        }
        change(held);
        match rank(held) {
            Some(after) => _ = self.order.insert(after),
            None => _ = self.held.remove(&of),
        }
    }
}

impl<K> Default for Ranking<K> {
    fn default() -> Self {
        Ranking { held: BTreeMap::new(), order: BTreeSet::new() }
    }
}
