//! Neighbours: the Ethernet addresses of next hops, by bridge (ovs: `lib/tnl-neigh-cache.c`).

use base::{Instant, MacAddr};
use hashbrown::HashMap;
use std::fmt::Write;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The maximum number of neighbours. A host of the underlay may announce any number of addresses, so a further one
/// displaces the neighbour that would expire first.
pub const NEIGHBOURS_MAX: usize = 8192;
/// The default time until an unused entry expires (ovs: `NEIGH_ENTRY_DEFAULT_IDLE_TIME_MS`).
const AGING_S: u32 = 900;
/// The maximum of that time (ovs: `NEIGH_ENTRY_MAX_AGING_TIME_S`).
const AGING_MAX_S: u32 = 3600;
/// The width of the address column (`INET6_ADDRSTRLEN`).
const ADDRESS_WIDTH: usize = 46;

/// A neighbour of a bridge.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Neighbour {
    /// The bridge's name.
    pub bridge: String,
    /// The neighbour's IP address.
    pub ip: IpAddr,
}

#[derive(Clone, Debug)]
struct Entry {
    mac: MacAddr,
    /// Snapshots of the table share them.
    times: Arc<Times>,
}

/// Times in nanoseconds.
#[derive(Debug)]
struct Times {
    /// When the last packet arrived that announced the address.
    announced_ns: AtomicU64,
    expires_ns: AtomicU64,
}

impl Entry {
    fn new(mac: MacAddr, announced: Instant, expires: Instant) -> Self {
        let ns = |time: Instant| AtomicU64::new(time.as_nanos());
        let times = Times { announced_ns: ns(announced), expires_ns: ns(expires) };
        Entry { mac, times: Arc::new(times) }
    }

    fn announced(&self) -> Instant {
        Instant::from_nanos(self.times.announced_ns.load(Ordering::Relaxed))
    }

    fn announced_at(&self, announced: Instant) {
        self.times.announced_ns.fetch_max(announced.as_nanos(), Ordering::Relaxed);
    }

    fn expires(&self) -> Instant {
        Instant::from_nanos(self.times.expires_ns.load(Ordering::Relaxed))
    }

    fn expire_at(&self, expires: Instant) {
        self.times.expires_ns.store(expires.as_nanos(), Ordering::Relaxed);
    }
}

/// All neighbours.
#[derive(Clone, Debug)]
pub struct Neighbours {
    table: HashMap<Neighbour, Entry>,
    aging_s: u32,
}

impl Default for Neighbours {
    fn default() -> Self {
        Neighbours { table: HashMap::new(), aging_s: AGING_S }
    }
}

impl Neighbours {
    /// Returns the Ethernet address of a neighbour, unless its entry is unknown or expired.
    pub fn lookup(&self, now: Instant, bridge: &str, ip: IpAddr) -> Option<MacAddr> {
        let entry = self.table.get(&Neighbour { bridge: bridge.to_owned(), ip })?;
        (entry.expires() > now).then_some(entry.mac)
    }

    /// Restarts the aging time of a neighbour that packets were sent to.
    pub fn used(&self, now: Instant, bridge: &str, ip: IpAddr) {
        if let Some(entry) = self.table.get(&Neighbour { bridge: bridge.to_owned(), ip })
            && entry.expires() > now
        {
            entry.expire_at(now + self.aging());
        }
    }

    /// Restarts the aging time of a neighbour that announces its known Ethernet address. Returns false if the
    /// neighbour is unknown or has another address; [`Self::learn`] then stores it.
    pub fn refresh(&self, now: Instant, bridge: &str, ip: IpAddr, mac: MacAddr) -> bool {
        let entry = self.table.get(&Neighbour { bridge: bridge.to_owned(), ip });
        let known = entry.filter(|entry| entry.mac == mac && entry.expires() > now);
        let Some(entry) = known else { return false };
        entry.announced_at(now);
        entry.expire_at(now + self.aging());
        true
    }

    /// Stores the Ethernet address that a neighbour announced in a packet of this time, unless a later packet
    /// announced another one. Returns the neighbours whose address changed: this one if it is new, and one that
    /// was displaced.
    pub fn learn(
        &mut self,
        now: Instant,
        bridge: &str,
        ip: IpAddr,
        mac: MacAddr,
    ) -> Vec<Neighbour> {
        let new = Entry::new(mac, now, now + self.aging());
        let neighbour = Neighbour { bridge: bridge.to_owned(), ip };
        if let Some(entry) = self.table.get_mut(&neighbour) {
            if entry.mac != mac && now < entry.announced() {
                return Vec::new();
            }
            let is_news = entry.mac != mac || entry.expires() <= now;
            *entry = new;
            return if is_news { vec![neighbour] } else { Vec::new() };
        }
        let displaced = (self.table.len() >= NEIGHBOURS_MAX).then(|| self.displace()).flatten();
        self.table.insert(neighbour.clone(), new);
        displaced.into_iter().chain([neighbour]).collect()
    }

    /// Removes the neighbour that would expire first.
    fn displace(&mut self) -> Option<Neighbour> {
        let first = self.table.iter().min_by_key(|(_, entry)| entry.expires())?.0.clone();
        self.table.remove(&first);
        Some(first)
    }

    /// Removes and returns the neighbours that were neither seen nor used within the aging time.
    pub fn expire(&mut self, now: Instant) -> Vec<Neighbour> {
        self.take(|_, entry| entry.expires() <= now)
    }

    /// Returns whether [`Self::expire`] would remove any.
    pub fn has_expired(&self, now: Instant) -> bool {
        self.table.values().any(|entry| entry.expires() <= now)
    }

    /// Removes and returns all neighbours, or those of a bridge.
    pub fn flush(&mut self, bridge: Option<&str>) -> Vec<Neighbour> {
        self.take(|neighbour, _| bridge.is_none_or(|bridge| neighbour.bridge == bridge))
    }

    fn take(&mut self, is_gone: impl Fn(&Neighbour, &Entry) -> bool) -> Vec<Neighbour> {
        let gone = self.table.extract_if(|neighbour, entry| is_gone(neighbour, entry));
        gone.map(|(neighbour, _)| neighbour).collect()
    }

    /// Returns the time in seconds until an unused entry expires.
    pub fn aging_s(&self) -> u32 {
        self.aging_s
    }

    /// Sets [`Self::aging_s`]. Returns false if the value is not in 1 to 3600. Entries with more time left
    /// are shortened to the new value.
    pub fn set_aging_s(&mut self, now: Instant, aging_s: u32) -> bool {
        if !(1..=AGING_MAX_S).contains(&aging_s) {
            return false;
        }
        self.aging_s = aging_s;
        let expires = now + self.aging();
        for entry in self.table.values() {
            entry.expire_at(entry.expires().min(expires));
        }
        true
    }

    /// Returns the table as `tnl/neigh/show` prints it.
    pub fn show(&self, now: Instant) -> String {
        let title = "IP                                            MAC                 Bridge\n";
        let mut text = format!("{title}{}\n", "=".repeat(title.len() - 1));
        let mut all: Vec<_> = self.table.iter().collect();
        all.sort_by_key(|(neighbour, _)| *neighbour);
        for (Neighbour { bridge, ip }, entry) in all {
            let (ip, mac) = (ip.to_string(), entry.mac);
            let stale = if entry.expires() <= now { " STALE" } else { "" };
            // Writing to a string does not fail.
            let _ = writeln!(text, "{ip:ADDRESS_WIDTH$}{mac}   {bridge}{stale}");
        }
        text
    }

    fn aging(&self) -> Duration {
        Duration::from_secs(self.aging_s.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(s: u64) -> Instant {
        Instant::from_millis(s * 1000)
    }

    #[test]
    fn neighbours_go_unless_they_are_used() {
        let mut all = Neighbours::default();
        let (ip, mac) = (IpAddr::from([10, 0, 0, 1]), MacAddr([2, 0, 0, 0, 0, 1]));
        assert_eq!(all.learn(at(1), "br0", ip, mac).len(), 1);
        assert_eq!(all.learn(at(2), "br0", ip, mac), []);
        assert_eq!(all.lookup(at(2), "br0", ip), Some(mac));
        assert_eq!(all.lookup(at(2), "br1", ip), None);
        assert!(!all.set_aging_s(at(2), 0) && !all.set_aging_s(at(2), 3601));
        assert!(all.set_aging_s(at(2), 5));
        all.used(at(6), "br0", ip);
        assert_eq!(all.lookup(at(10), "br0", ip), Some(mac));
        assert_eq!(all.lookup(at(11), "br0", ip), None);
        let shown = all.show(at(11));
        let line = "10.0.0.1                                      02:00:00:00:00:01   br0 STALE";
        assert_eq!(shown.lines().nth(2), Some(line));
        assert_eq!(all.expire(at(11)).len(), 1);
        assert_eq!(all.show(at(11)).lines().count(), 2);
    }

    #[test]
    fn a_new_address_is_news_and_their_number_is_bounded() {
        let mut all = Neighbours::default();
        let ip = |n: usize| IpAddr::from((n as u32).to_be_bytes());
        let neighbour = |n| Neighbour { bridge: "br0".to_owned(), ip: ip(n) };
        for n in 0..NEIGHBOURS_MAX {
            assert_eq!(all.learn(at(2), "br0", ip(n), MacAddr::ZERO), [neighbour(n)]);
        }
        assert_eq!(all.learn(at(3), "br0", ip(0), MacAddr::BROADCAST), [neighbour(0)]);
        all.used(at(4), "br0", ip(1));
        (2..NEIGHBOURS_MAX - 1).for_each(|n| all.used(at(3), "br0", ip(n)));
        let (last, new) = (neighbour(NEIGHBOURS_MAX - 1), neighbour(NEIGHBOURS_MAX));
        assert_eq!(all.learn(at(4), "br0", new.ip, MacAddr::ZERO), [last, new]);
        assert_eq!(all.lookup(at(4), "br0", ip(1)), Some(MacAddr::ZERO));
        assert_eq!(all.flush(Some("br1")).len(), 0);
        assert_eq!(all.flush(None).len(), NEIGHBOURS_MAX);
    }

    #[test]
    fn of_two_addresses_the_later_one_is_kept() {
        let mut all = Neighbours::default();
        let (ip, mac) = (IpAddr::from([10, 0, 0, 1]), |n| MacAddr([2, 0, 0, 0, 0, n]));
        assert_eq!(all.learn(at(5), "br0", ip, mac(1)).len(), 1);
        assert_eq!(all.learn(at(4), "br0", ip, mac(2)), []);
        assert_eq!(all.lookup(at(5), "br0", ip), Some(mac(1)));
        assert!(all.refresh(at(8), "br0", ip, mac(1)));
        assert_eq!(all.learn(at(7), "br0", ip, mac(2)), []);
        assert_eq!(all.learn(at(8), "br0", ip, mac(2)).len(), 1);
        assert_eq!(all.lookup(at(5), "br0", ip), Some(mac(2)));
    }
}
