//! The MAC table of a bridge.

use base::{Instant, MacAddr, OfPort};
use hashbrown::{HashMap, HashSet};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// A learned or static address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MacEntry {
    /// Its VLAN, 0 for none.
    pub vlan: u16,
    /// The address.
    pub mac: MacAddr,
    /// The port behind it.
    pub port: OfPort,
    /// When it was last seen.
    pub seen: Instant,
    /// A user added it (`fdb/add`); it stays until a user removes it.
    pub is_static: bool,
    /// Its position in the order of use.
    order: u64,
}

/// Addresses by VLAN. When the table is full, a new address evicts the least recently seen one of the port
/// with the most addresses: a port that floods the table displaces its own entries (ovs:
/// `lib/mac-learning.c`, `evict_mac_entry_fairly`).
#[derive(Debug)]
pub struct MacTable {
    entries: HashMap<(u16, MacAddr), MacEntry>,
    /// Learned ones, the least recently seen first.
    by_use: BTreeMap<u64, (u16, MacAddr)>,
    /// The same by port.
    by_port: BTreeMap<OfPort, BTreeSet<u64>>,
    /// Static ones, in order of their addition.
    fixed: BTreeMap<u64, (u16, MacAddr)>,
    last_order: u64,
    size: usize,
    aging: Duration,
    /// VLANs without learning and lookups.
    flood_vlans: BTreeSet<u16>,
    counters: MacCounters,
    /// Addresses that were added, moved or removed since they were last taken.
    changed: HashSet<(u16, MacAddr)>,
}

/// Counters of a table since its creation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MacCounters {
    /// Addresses learned.
    pub learned: u64,
    /// Addresses removed by age.
    pub expired: u64,
    /// Addresses evicted for new ones.
    pub evicted: u64,
    /// Addresses that moved to another port.
    pub moved: u64,
    /// Packets with a static address from another port than its own.
    pub static_none_move: u64,
}

impl MacTable {
    /// An empty table for `size` addresses, which expire after `aging_s` seconds.
    pub fn new(size: usize, aging_s: u64) -> Self {
        MacTable {
            entries: HashMap::new(),
            by_use: BTreeMap::new(),
            by_port: BTreeMap::new(),
            fixed: BTreeMap::new(),
            last_order: 0,
            size,
            aging: Duration::from_secs(aging_s),
            flood_vlans: BTreeSet::new(),
            counters: MacCounters::default(),
            changed: HashSet::new(),
        }
    }

    /// Sets the flooded VLANs. Addresses learned in them age out.
    pub fn set_flood_vlans(&mut self, vlans: BTreeSet<u16>) {
        self.flood_vlans = vlans;
    }

    /// Changes size and ageing time.
    pub fn configure(&mut self, size: usize, aging_s: u64) {
        self.size = size;
        self.aging = Duration::from_secs(aging_s);
        self.make_room(self.size);
    }

    /// Addresses, by VLAN, that were added, moved or removed since the last call: packets to them are now
    /// forwarded differently.
    pub fn take_changed(&mut self) -> impl Iterator<Item = (u16, MacAddr)> + use<> {
        // Its memory goes with a flood's addresses.
        std::mem::take(&mut self.changed).into_iter()
    }

    /// The entry of an address.
    pub fn get(&self, vlan: u16, mac: MacAddr) -> Option<&MacEntry> {
        self.entries.get(&(vlan, mac))
    }

    /// Whether [`Self::take_changed`] would return addresses.
    pub fn has_changed(&self) -> bool {
        !self.changed.is_empty()
    }

    /// Records that an address was seen.
    pub fn learn(&mut self, now: Instant, vlan: u16, mac: MacAddr, port: OfPort) {
        if mac.is_multicast() || self.size == 0 || self.flood_vlans.contains(&vlan) {
            return;
        }
        self.last_order += 1;
        let order = self.last_order;
        if let Some(entry) = self.entries.get_mut(&(vlan, mac)) {
            // Statistics arrive late: a later observation at another port takes precedence.
            self.counters.static_none_move += u64::from(entry.is_static && entry.port != port);
            if entry.is_static || entry.port != port && now < entry.seen {
                return;
            }
            let before = *entry;
            let moved = before.port != port;
            *entry = MacEntry { port, seen: now.max(before.seen), order, ..before };
            self.displace(&before);
            self.place(order, port, (vlan, mac));
            self.counters.moved += u64::from(moved);
            if moved {
                self.changed.insert((vlan, mac));
            }
            return;
        }
        self.make_room(self.size - 1);
        if self.entries.len() >= self.size {
            return;
        }
        self.place(order, port, (vlan, mac));
        let entry = MacEntry { vlan, mac, port, seen: now, is_static: false, order };
        self.entries.insert((vlan, mac), entry);
        self.counters.learned += 1;
        self.changed.insert((vlan, mac));
    }

    /// Adds a static address, and returns the entry that it replaces. Group addresses are permitted, too.
    pub fn set_static(
        &mut self,
        now: Instant,
        vlan: u16,
        mac: MacAddr,
        port: OfPort,
    ) -> Option<MacEntry> {
        let before = self.entries.get(&(vlan, mac)).copied();
        self.forget((vlan, mac));
        self.make_room(self.size.saturating_sub(1));
        self.last_order += 1;
        let entry =
            MacEntry { vlan, mac, port, seen: now, is_static: true, order: self.last_order };
        self.fixed.insert(entry.order, (vlan, mac));
        self.entries.insert((vlan, mac), entry);
        self.changed.insert((vlan, mac));
        before
    }

    /// Removes a static address. Returns whether there was one.
    pub fn remove_static(&mut self, vlan: u16, mac: MacAddr) -> bool {
        let is_static = self.entries.get(&(vlan, mac)).is_some_and(|entry| entry.is_static);
        if is_static {
            self.forget((vlan, mac));
        }
        is_static
    }

    /// Removes addresses that were not seen for too long.
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

    /// Removes all learned addresses.
    pub fn flush(&mut self) {
        let learned = self.entries.extract_if(|_, entry| !entry.is_static);
        self.changed.extend(learned.map(|(key, _)| key));
        self.by_use.clear();
        self.by_port.clear();
    }

    /// Removes the addresses behind a port.
    pub fn flush_port(&mut self, port: OfPort) {
        let gone = self.entries.values().filter(|entry| entry.port == port);
        let gone: Vec<(u16, MacAddr)> = gone.map(|entry| (entry.vlan, entry.mac)).collect();
        for key in gone {
            self.forget(key);
        }
    }

    /// Removes an address if it was learned.
    pub fn forget_learned(&mut self, key: (u16, MacAddr)) {
        if self.entries.get(&key).is_some_and(|entry| !entry.is_static) {
            self.forget(key);
        }
    }

    /// All entries, the least recently seen first.
    pub fn iter(&self) -> impl Iterator<Item = &MacEntry> {
        let mut entries: Vec<&MacEntry> = self.entries.values().collect();
        entries.sort_unstable_by_key(|entry| entry.order);
        entries.into_iter()
    }

    /// How many addresses there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// How many are static.
    pub fn static_len(&self) -> usize {
        self.fixed.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The maximum number of addresses.
    pub fn size(&self) -> usize {
        self.size
    }

    /// What has happened so far.
    pub fn counters(&self) -> MacCounters {
        self.counters
    }

    /// Resets the counters.
    pub fn clear_counters(&mut self) {
        self.counters = MacCounters::default();
    }

    /// The address to evict: the least recently seen one of the port with the most addresses.
    fn least_missed(&self) -> Option<(u16, MacAddr)> {
        let ports = self.by_port.values().filter_map(|used| Some((used.len(), *used.first()?)));
        let (_, order) =
            ports.max_by_key(|(count, oldest)| (*count, std::cmp::Reverse(*oldest)))?;
        self.by_use.get(&order).copied()
    }

    fn place(&mut self, order: u64, port: OfPort, key: (u16, MacAddr)) {
        self.by_use.insert(order, key);
        self.by_port.entry(port).or_default().insert(order);
    }

    fn displace(&mut self, entry: &MacEntry) {
        self.by_use.remove(&entry.order);
        if let Some(used) = self.by_port.get_mut(&entry.port) {
            used.remove(&entry.order);
            if used.is_empty() {
                self.by_port.remove(&entry.port);
            }
        }
    }

    fn make_room(&mut self, size: usize) {
        while self.entries.len() > size {
            let Some(key) = self.least_missed() else { return };
            self.forget(key);
            self.counters.evicted += 1;
        }
    }

    fn forget(&mut self, key: (u16, MacAddr)) {
        if let Some(entry) = self.entries.remove(&key) {
            if self.entries.capacity() > 64 && self.entries.len() < self.entries.capacity() / 8 {
                self.entries.shrink_to(self.entries.len() * 2);
            }
            self.displace(&entry);
            self.fixed.remove(&entry.order);
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

    fn port(table: &MacTable, vlan: u16, mac: MacAddr) -> Option<OfPort> {
        table.get(vlan, mac).map(|entry| entry.port)
    }

    #[test]
    fn addresses_age_move_and_make_room() {
        let mut table = MacTable::new(2, 10);
        let at = |s: u64| Instant::from_millis(s * 1000);
        // Learns an address, and returns which addresses changed.
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
        assert_eq!(port(&table, 0, mac(2)), None);
        assert_eq!(port(&table, 7, mac(1)), Some(OfPort(3)));
        assert_eq!(learn(&mut table, 4, 0, mac(1), 4), [(0, mac(1))]);
        // A late packet reports an earlier place.
        assert_eq!(learn(&mut table, 3, 0, mac(1), 1), []);
        assert_eq!(port(&table, 0, mac(1)), Some(OfPort(4)));
        table.expire(at(12));
        assert_eq!(table.take_changed().next(), None);
        table.expire(at(13));
        assert_eq!(table.take_changed().collect::<Vec<_>>(), [(7, mac(1))]);
        assert_eq!(table.len(), 1);
        let expect =
            MacCounters { learned: 3, expired: 1, evicted: 1, moved: 1, static_none_move: 0 };
        assert_eq!(table.counters(), expect);
        table.flush_port(OfPort(4));
        assert!(table.is_empty());
        assert_eq!(table.take_changed().collect::<Vec<_>>(), [(0, mac(1))]);
        table.learn(at(20), 0, mac(1), OfPort(1));
        table.flush();
        assert_eq!(table.take_changed().collect::<Vec<_>>(), [(0, mac(1))]);
    }

    #[test]
    fn a_port_that_floods_the_table_takes_room_from_itself() {
        let mut table = MacTable::new(4, 10);
        let at = |s: u64| Instant::from_millis(s * 1000);
        let seen = |table: &MacTable| table.iter().map(|it| it.mac.0[5]).collect::<Vec<_>>();
        table.learn(at(0), 0, mac(1), OfPort(1));
        table.learn(at(0), 0, mac(2), OfPort(2));
        (10..40).for_each(|n| table.learn(at(1), 0, mac(n), OfPort(3)));
        assert_eq!(seen(&table), [1, 2, 38, 39]);
        // A moved address counts for its new port.
        table.learn(at(2), 0, mac(38), OfPort(1));
        table.learn(at(2), 0, mac(39), OfPort(1));
        table.learn(at(2), 0, mac(50), OfPort(3));
        assert_eq!(seen(&table), [2, 38, 39, 50]);
        table.flush_port(OfPort(1));
        assert_eq!((seen(&table), table.by_port.len()), (vec![2, 50], 2));
        table.expire(at(99));
        assert!(table.is_empty() && table.by_port.is_empty() && table.by_use.is_empty());
    }

    #[test]
    fn what_somebody_put_there_stays() {
        let mut table = MacTable::new(2, 10);
        let at = |s: u64| Instant::from_millis(s * 1000);
        let shown = |table: &MacTable| {
            let entry = |e: &MacEntry| (e.mac.0[5], e.port.0, e.is_static);
            table.iter().map(entry).collect::<Vec<_>>()
        };
        table.learn(at(0), 0, mac(1), OfPort(1));
        let before = table.set_static(at(1), 0, mac(1), OfPort(2)).unwrap();
        assert_eq!((before.port, before.is_static), (OfPort(1), false));
        // It does not move, age out, or get flushed or evicted.
        table.learn(at(2), 0, mac(1), OfPort(3));
        table.learn(at(2), 0, mac(2), OfPort(4));
        table.learn(at(3), 0, mac(3), OfPort(5));
        assert_eq!(shown(&table), [(1, 2, true), (3, 5, false)]);
        table.expire(at(99));
        table.flush();
        assert_eq!((shown(&table), table.static_len()), (vec![(1, 2, true)], 1));
        // If all are static, no address is learned.
        assert!(table.set_static(at(99), 7, MacAddr::BROADCAST, OfPort(1)).is_none());
        table.learn(at(99), 0, mac(4), OfPort(4));
        assert_eq!(table.len(), 2);
        let _ = table.take_changed().count();
        assert!(table.remove_static(0, mac(1)) && !table.remove_static(0, mac(1)));
        assert_eq!(table.take_changed().collect::<Vec<_>>(), [(0, mac(1))]);
        table.learn(at(99), 0, mac(4), OfPort(4));
        assert!(!table.remove_static(0, mac(4)), "learned");
        table.flush_port(OfPort(1));
        assert_eq!((table.len(), table.static_len()), (1, 0));
        table.clear_counters();
        assert_eq!(table.counters(), MacCounters::default());
    }

    #[test]
    fn nothing_is_learned_in_a_vlan_that_is_flooded() {
        let mut table = MacTable::new(9, 10);
        let now = Instant::from_millis(1000);
        table.learn(now, 5, mac(1), OfPort(3));
        table.set_flood_vlans(BTreeSet::from([5]));
        table.learn(now, 5, mac(2), OfPort(3));
        table.set_flood_vlans(BTreeSet::new());
        assert_eq!([1, 2].map(|n| port(&table, 5, mac(n))), [Some(OfPort(3)), None]);
    }
}
