//! Where a bridge has seen Ethernet addresses.

use base::{Instant, MacAddr, OfPort};
use hashbrown::{HashMap, HashSet};
use std::collections::BTreeMap;
use std::time::Duration;

/// An address that was learned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MacEntry {
    /// Its VLAN, 0 for none.
    pub vlan: u16,
    /// The address.
    pub mac: MacAddr,
    /// The port behind which it is.
    pub port: OfPort,
    /// When it was last seen.
    pub seen: Instant,
    /// Its place in the order of use.
    order: u64,
}

/// Learned addresses, by VLAN and address. Where there is no room for a new one, the one not seen
/// for the longest time goes (ovs: `lib/mac-learning.c`).
#[derive(Debug)]
pub struct MacTable {
    entries: HashMap<(u16, MacAddr), MacEntry>,
    /// The least recently seen first.
    by_use: BTreeMap<u64, (u16, MacAddr)>,
    last_order: u64,
    size: usize,
    aging: Duration,
    counters: MacCounters,
    /// Addresses that came, moved or went since somebody asked.
    changed: HashSet<(u16, MacAddr)>,
}

/// What has happened to a table since it was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MacCounters {
    /// Addresses learned.
    pub learned: u64,
    /// Addresses not seen for too long.
    pub expired: u64,
    /// Addresses that had to go for new ones.
    pub evicted: u64,
    /// Addresses that turned up at another port.
    pub moved: u64,
}

impl MacTable {
    /// An empty table of `size` addresses that are kept for `aging_s` seconds.
    pub fn new(size: usize, aging_s: u64) -> Self {
        MacTable {
            entries: HashMap::new(),
            by_use: BTreeMap::new(),
            last_order: 0,
            size,
            aging: Duration::from_secs(aging_s),
            counters: MacCounters::default(),
            changed: HashSet::new(),
        }
    }

    /// Changes size and time.
    pub fn configure(&mut self, size: usize, aging_s: u64) {
        self.size = size;
        self.aging = Duration::from_secs(aging_s);
        self.make_room(self.size);
    }

    /// Addresses, by VLAN, that came, moved or went since the last call: packets to them go
    /// elsewhere now.
    pub fn take_changed(&mut self) -> impl Iterator<Item = (u16, MacAddr)> + '_ {
        self.changed.drain()
    }

    /// Where an address was seen.
    pub fn lookup(&self, vlan: u16, mac: MacAddr) -> Option<OfPort> {
        self.entries.get(&(vlan, mac)).map(|entry| entry.port)
    }

    /// Whether seeing the address there would change anything but its age. Group addresses are
    /// never learned.
    pub fn would_learn(&self, vlan: u16, mac: MacAddr, port: OfPort) -> bool {
        !mac.is_multicast() && self.lookup(vlan, mac) != Some(port)
    }

    /// Remembers that an address was seen.
    pub fn learn(&mut self, now: Instant, vlan: u16, mac: MacAddr, port: OfPort) {
        if mac.is_multicast() || self.size == 0 {
            return;
        }
        self.last_order += 1;
        let order = self.last_order;
        if let Some(entry) = self.entries.get_mut(&(vlan, mac)) {
            // Statistics come late: what was seen elsewhere since then counts.
            if entry.port != port && now < entry.seen {
                return;
            }
            self.by_use.remove(&entry.order);
            self.by_use.insert(order, (vlan, mac));
            let moved = entry.port != port;
            *entry = MacEntry { port, seen: now.max(entry.seen), order, ..*entry };
            self.counters.moved += u64::from(moved);
            if moved {
                self.changed.insert((vlan, mac));
            }
            return;
        }
        self.make_room(self.size - 1);
        self.by_use.insert(order, (vlan, mac));
        self.entries.insert((vlan, mac), MacEntry { vlan, mac, port, seen: now, order });
        self.counters.learned += 1;
        self.changed.insert((vlan, mac));
    }

    /// Forgets what was not seen for too long.
    pub fn expire(&mut self, now: Instant) {
        while let Some((_, key)) = self.by_use.first_key_value() {
            let key = *key;
            if self.entries.get(&key).is_some_and(|entry| now - entry.seen < self.aging) {
                break;
            }
            self.forget(key);
            self.counters.expired += 1;
        }
    }

    /// Forgets everything.
    pub fn flush(&mut self) {
        self.changed.extend(self.entries.drain().map(|(key, _)| key));
        self.by_use.clear();
    }

    /// Forgets what lies behind a port.
    pub fn flush_port(&mut self, port: OfPort) {
        let gone = self.entries.values().filter(|entry| entry.port == port);
        let gone: Vec<(u16, MacAddr)> = gone.map(|entry| (entry.vlan, entry.mac)).collect();
        for key in gone {
            self.forget(key);
        }
    }

    /// Addresses, the one not seen for the longest time first.
    pub fn iter(&self) -> impl Iterator<Item = &MacEntry> {
        self.by_use.values().filter_map(|key| self.entries.get(key))
    }

    /// How many addresses there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// How many addresses there may be.
    pub fn size(&self) -> usize {
        self.size
    }

    /// What has happened so far.
    pub fn counters(&self) -> MacCounters {
        self.counters
    }

    fn make_room(&mut self, size: usize) {
        while self.entries.len() > size {
            let Some((_, &key)) = self.by_use.first_key_value() else { return };
            self.forget(key);
            self.counters.evicted += 1;
        }
    }

    fn forget(&mut self, key: (u16, MacAddr)) {
        if let Some(entry) = self.entries.remove(&key) {
            self.by_use.remove(&entry.order);
            self.changed.insert(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mac(last: u8) -> MacAddr {
        MacAddr([2, 0, 0, 0, 0, last])
    }

    #[test]
    fn addresses_age_move_and_make_room() {
        let mut table = MacTable::new(2, 10);
        let at = |s: u64| Instant::from_millis(s * 1000);
        // Learns, and tells which addresses changed by that.
        let learn = |table: &mut MacTable, s, vlan, mac, port| {
            table.learn(at(s), vlan, mac, OfPort(port));
            let mut changed: Vec<(u16, MacAddr)> = table.take_changed().collect();
            changed.sort_unstable();
            changed
        };
        assert_eq!(learn(&mut table, 0, 0, mac(1), 1), [(0, mac(1))]);
        assert_eq!(learn(&mut table, 1, 0, mac(2), 2), [(0, mac(2))]);
        assert_eq!(learn(&mut table, 2, 0, mac(1), 1), []);
        assert_eq!(learn(&mut table, 2, 0, MacAddr::BROADCAST, 1), []);
        // The second address was not seen for the longest time.
        assert_eq!(learn(&mut table, 3, 7, mac(1), 3), [(0, mac(2)), (7, mac(1))]);
        assert_eq!(table.lookup(0, mac(2)), None);
        assert_eq!(table.lookup(7, mac(1)), Some(OfPort(3)));
        assert_eq!(learn(&mut table, 4, 0, mac(1), 4), [(0, mac(1))]);
        // Somebody tells late that it was elsewhere before.
        assert_eq!(learn(&mut table, 3, 0, mac(1), 1), []);
        assert_eq!(table.lookup(0, mac(1)), Some(OfPort(4)));
        table.expire(at(12));
        assert_eq!(table.take_changed().next(), None);
        table.expire(at(13));
        assert_eq!(table.take_changed().collect::<Vec<_>>(), [(7, mac(1))]);
        assert_eq!(table.len(), 1);
        let expect = MacCounters { learned: 3, expired: 1, evicted: 1, moved: 1 };
        assert_eq!(table.counters(), expect);
        table.flush_port(OfPort(4));
        assert!(table.is_empty());
        assert_eq!(table.take_changed().collect::<Vec<_>>(), [(0, mac(1))]);
        table.learn(at(20), 0, mac(1), OfPort(1));
        table.flush();
        assert_eq!(table.take_changed().collect::<Vec<_>>(), [(0, mac(1))]);
    }
}
