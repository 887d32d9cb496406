//! Which datagram goes where too many fragments are held.
//!
//! The zone with the most datagrams gives way, in it the source address with the most, and of these the
//! oldest datagram; among equals, the one whose oldest datagram is older. Datagrams count, not
//! fragments: a host that sends one large datagram is no flood, and with forged source addresses, each
//! with one datagram, the oldest go. What it costs grows with the logarithm of what is held.

use super::piece::DatagramKey;
use base::Instant;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// A datagram's deadline and number, which order datagrams by age.
pub(super) type Serial = (Instant, u64);

/// How many datagrams each zone and source address holds.
#[derive(Debug, Default)]
pub(super) struct Shares {
    zones: Ranking<u16>,
    sources: BTreeMap<u16, Ranking<IpAddr>>,
}

/// Who holds how many datagrams, in order.
#[derive(Debug)]
struct Ranking<K> {
    held: BTreeMap<K, BTreeSet<Serial>>,
    /// How many each holds, and its oldest: the last one gives way.
    order: BTreeSet<(usize, Reverse<Serial>, K)>,
}

impl Shares {
    /// Counts a datagram.
    pub fn add(&mut self, key: &DatagramKey, serial: Serial) {
        self.zones.change(key.zone, |held| held.insert(serial));
        self.sources.entry(key.zone).or_default().change(key.src, |held| held.insert(serial));
    }

    /// Counts a datagram no more.
    pub fn remove(&mut self, key: &DatagramKey, serial: Serial) {
        self.zones.change(key.zone, |held| held.remove(&serial));
        if let Some(sources) = self.sources.get_mut(&key.zone) {
            sources.change(key.src, |held| held.remove(&serial));
            if sources.held.is_empty() {
                self.sources.remove(&key.zone);
            }
        }
    }

    /// The datagram that goes first.
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
