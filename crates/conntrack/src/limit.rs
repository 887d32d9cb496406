//! How many connections a zone may have.
//!
//! A zone without a limit of its own counts towards the default limit, all such zones together, as
//! in Open vSwitch 3.1 (ovs: `lib/conntrack.c`, `zone_limit_lookup_or_default`). A limit of 0 is
//! none, as its manual says (ovs: `lib/dpctl.man`, `ct-set-limits`; its userspace code admits no
//! connection at all then).

use base::Zone;
use hashbrown::HashMap;

/// A zone's limit and how many connections count towards it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ZoneLimit {
    /// The zone.
    pub zone: Zone,
    /// How many connections it may have; 0 for any number.
    pub limit: u32,
    /// How many count: those made since the limit was first set.
    pub count: u32,
}

/// The default limit and those of zones.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ZoneLimits {
    /// The limit of all zones without one of their own; 0 for any number.
    pub default_limit: u32,
    /// The zones asked for, by number.
    pub zones: Vec<ZoneLimit>,
}

/// Which limit a connection counts towards, by the limit's serial number; 0 is none.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Admission(u32);

#[derive(Debug)]
struct Slot {
    limit: u32,
    count: u32,
    serial: u32,
}

/// Limits in force.
#[derive(Debug, Default)]
pub(crate) struct Limits {
    default: Option<Slot>,
    zones: HashMap<u16, Slot>,
    serials: u32,
}

impl Limits {
    /// Sets the limit of a zone, or without one the default's.
    pub fn set(&mut self, zone: Option<Zone>, limit: u32) {
        let existing = match zone {
            Some(zone) => self.zones.get_mut(&zone.0),
            None => self.default.as_mut(),
        };
        if let Some(slot) = existing {
            slot.limit = limit;
            return;
        }
        self.serials += 1;
        let slot = Slot { limit, count: 0, serial: self.serials };
        match zone {
            Some(zone) => drop(self.zones.insert(zone.0, slot)),
            None => self.default = Some(slot),
        }
    }

    /// Takes a zone's limit away; whether there was one.
    pub fn remove(&mut self, zone: Zone) -> bool {
        self.zones.remove(&zone.0).is_some()
    }

    /// The default and the limits of these zones, or for an empty list of all that have one.
    pub fn get(&self, zones: &[Zone]) -> ZoneLimits {
        let row = |zone: u16, slot: &Slot| ZoneLimit {
            zone: Zone(zone),
            limit: slot.limit,
            count: slot.count,
        };
        let mut rows: Vec<ZoneLimit> = match zones {
            [] => self.zones.iter().map(|(&zone, slot)| row(zone, slot)).collect(),
            zones => zones
                .iter()
                .map(|&zone| match self.zones.get(&zone.0).or(self.default.as_ref()) {
                    Some(slot) => row(zone.0, slot),
                    None => ZoneLimit { zone, limit: 0, count: 0 },
                })
                .collect(),
        };
        if zones.is_empty() {
            rows.sort_unstable_by_key(|row| row.zone.0);
        }
        let default_limit = self.default.as_ref().map_or(0, |slot| slot.limit);
        ZoneLimits { default_limit, zones: rows }
    }

    /// Whether one more connection may be in the zone.
    pub fn has_room(&self, zone: u16) -> bool {
        let slot = self.zones.get(&zone).or(self.default.as_ref());
        slot.is_none_or(|slot| slot.limit == 0 || slot.count < slot.limit)
    }

    /// Counts a new connection.
    pub fn admit(&mut self, zone: u16) -> Admission {
        match self.zones.get_mut(&zone).or(self.default.as_mut()) {
            Some(slot) => {
                slot.count += 1;
                Admission(slot.serial)
            }
            None => Admission(0),
        }
    }

    /// Counts a connection that is gone, if its limit is still there.
    pub fn release(&mut self, zone: u16, admission: Admission) {
        let slots = self.zones.get_mut(&zone).into_iter().chain(self.default.as_mut());
        for slot in slots.filter(|slot| slot.serial == admission.0) {
            slot.count = slot.count.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_set_anew_does_not_count_the_connections_of_the_old_one() {
        let mut limits = Limits::default();
        limits.set(Some(Zone(1)), 2);
        let first = limits.admit(1);
        assert!(limits.remove(Zone(1)));
        limits.set(Some(Zone(1)), 2);
        let second = limits.admit(1);
        limits.release(1, first);
        assert_eq!(limits.get(&[]).zones, [ZoneLimit { zone: Zone(1), limit: 2, count: 1 }]);
        limits.release(1, second);
        assert_eq!(limits.get(&[]).zones[0].count, 0);
    }

    #[test]
    fn zones_without_a_limit_share_the_default() {
        let mut limits = Limits::default();
        assert!(limits.has_room(5));
        limits.set(None, 2);
        limits.set(Some(Zone(9)), 1);
        limits.admit(5);
        limits.admit(6);
        assert!(!limits.has_room(5) && !limits.has_room(7) && limits.has_room(9));
        assert_eq!(limits.get(&[Zone(7)]).zones, [ZoneLimit { zone: Zone(7), limit: 2, count: 2 }]);
        limits.set(None, 0);
        assert!(limits.has_room(5));
    }
}
