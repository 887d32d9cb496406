//! Limits of the number of connections per zone.
//!
//! The default limit applies to each zone without its own limit separately, as in Open vSwitch
//! since 3.5 (before, all such zones counted together). A limit of 0 is unlimited, as its manual
//! says (ovs: `lib/dpctl.man`, `ct-set-limits`; its userspace code admits no connection at all
//! then). All connections of a zone count, also those from before the limit was set.

use base::Zone;
use std::collections::BTreeMap;

/// A zone's limit and how many connections it has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ZoneLimit {
    /// The zone.
    pub zone: Zone,
    /// The maximum number of connections; 0 is unlimited.
    pub limit: u32,
    /// The present number of connections.
    pub count: u32,
}

/// The default limit and the limits of zones.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ZoneLimits {
    /// The limit of each zone without its own; 0 is unlimited.
    pub default_limit: u32,
    /// The requested zones, by number.
    pub zones: Vec<ZoneLimit>,
}

/// The limits in force.
#[derive(Clone, Debug, Default)]
pub(crate) struct Limits {
    default: u32,
    zones: BTreeMap<u16, u32>,
}

impl Limits {
    /// Sets the limit of a zone, or the default for `None`.
    pub fn set(&mut self, zone: Option<Zone>, limit: u32) {
        let place = match zone {
            Some(zone) => self.zones.entry(zone.0).or_default(),
            None => &mut self.default,
        };
        *place = limit;
    }

    /// Removes a zone's limit. Returns whether there was one.
    pub fn remove(&mut self, zone: Zone) -> bool {
        self.zones.remove(&zone.0).is_some()
    }

    /// The maximum number of connections of a zone, if it is limited.
    #[inline]
    pub fn of(&self, zone: u16) -> Option<u32> {
        let limit = match self.zones.is_empty() {
            true => self.default,
            false => self.zones.get(&zone).copied().unwrap_or(self.default),
        };
        (limit != 0).then_some(limit)
    }

    /// The default and the limits of these zones; for an empty list, of all zones that have one.
    /// `count` returns the number of a zone's connections.
    pub fn list(&self, zones: &[Zone], count: impl Fn(u16) -> u32) -> ZoneLimits {
        let row = |zone: u16, limit: u32| ZoneLimit { zone: Zone(zone), limit, count: count(zone) };
        let rows = match zones {
            [] => self.zones.iter().map(|(&zone, &limit)| row(zone, limit)).collect(),
            zones => zones.iter().map(|zone| row(zone.0, self.of(zone.0).unwrap_or(0))).collect(),
        };
        ZoneLimits { default_limit: self.default, zones: rows }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_zones_own_limit_goes_before_the_default() {
        let mut limits = Limits::default();
        assert_eq!(limits.of(5), None);
        limits.set(None, 2);
        limits.set(Some(Zone(9)), 1);
        limits.set(Some(Zone(8)), 0);
        assert_eq!([5, 7, 8, 9].map(|zone| limits.of(zone)), [Some(2), Some(2), None, Some(1)]);
        let row = |zone: u16, limit| ZoneLimit { zone: Zone(zone), limit, count: 7 };
        assert_eq!(limits.list(&[], |_| 7).zones, [row(8, 0), row(9, 1)]);
        assert_eq!(limits.list(&[Zone(7)], |_| 7).zones, [row(7, 2)]);
        assert!(limits.remove(Zone(9)) && !limits.remove(Zone(9)));
        assert_eq!(limits.of(9), Some(2));
        limits.set(None, 0);
        assert_eq!(limits.of(5), None);
    }
}
