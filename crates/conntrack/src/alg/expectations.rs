//! Expected connections: the data connections that FTP and TFTP announce.
//!
//! An expectation is narrow: one connection, between the two hosts of its parent, to one port, for
//! a limited time. A port that an FTP client announces is held at once; the connection is expected
//! when the server has accepted the port. Open vSwitch 3.1 keeps an expectation until the parent
//! ends (ovs: `lib/conntrack.c`, `expectation_create`).

mod dump;

pub use dump::{ExpectedConnection, ExpectedCursor, ExpectedPage};

use crate::key::{Address, Family, Key};
use base::{Instant, Zone};
use flow::{NatKind, NatRange, PortSelection};
use std::collections::BTreeMap;
use std::time::Duration;
use table::Id;

/// The time for which a connection is expected.
const LIFETIME: Duration = Duration::from_secs(300);
/// The number of ports that are tried for a free one.
const PORTS_TRIED: u16 = 64;

/// An announced connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Expectation {
    /// The key of its first packet, with any source port.
    pub key: Key,
    /// The original direction of the connection that announced it.
    pub parent: Key,
    pub parent_id: Id,
    /// The parent's mark and label, which the new connection inherits.
    pub mark: u32,
    pub label: u128,
    /// The side that NAT rewrites, and its new value.
    pub kind: NatKind,
    pub address: Address,
    /// The destination port after NAT.
    pub port: u16,
    /// The server has named or accepted the port. Before that, a refusal of it ends the expectation.
    pub is_agreed: bool,
    deadline: Instant,
    /// Its number among all expectations ever added.
    serial: u64,
}

/// The claim on an expectation while its connection is created: the source port, and the number of
/// threads that create it at once, each for its own packet.
#[derive(Clone, Copy, Debug)]
struct Claim {
    port: u16,
    threads: u32,
}

#[derive(Debug)]
struct Expected {
    expectation: Expectation,
    claim: Option<Claim>,
}

/// The lookup key of an expectation: the first packet's key without the source port.
type Place = (u16, u8, u8, u128, u128, u16);

/// All expectations. Each connection has at most one, so that there are never more than connections
/// with a helper.
#[derive(Debug)]
pub(crate) struct Expectations {
    by_place: BTreeMap<Place, Expected>,
    by_parent: BTreeMap<Id, Place>,
    /// Ordered by deadline, then by serial number.
    by_deadline: BTreeMap<(Instant, u64), Place>,
    /// The number of expectations for each [bit](zone_bit).
    by_zone: [u32; 64],
    serials: u64,
}

impl Expectation {
    pub fn new((parent_id, parent): (Id, Key), key: Key, now: Instant) -> Expectation {
        let (kind, address, port) = (NatKind::Src, key.src, key.l4[1]);
        let deadline = now + LIFETIME;
        Expectation {
            key,
            parent,
            parent_id,
            mark: 0,
            label: 0,
            kind,
            address,
            port,
            is_agreed: true,
            deadline,
            serial: 0,
        }
    }

    /// The NAT of the new connection, if its `ct` action has NAT.
    pub fn nat_range(&self) -> NatRange {
        let address = self.address.ip(self.key.family);
        NatRange {
            kind: self.kind,
            addresses: Some((address, address)),
            ports: (self.kind == NatKind::Dst).then_some((self.port, self.port)),
            selection: PortSelection::Default,
            persistent: false,
        }
    }
}

impl Default for Expectations {
    fn default() -> Self {
        Expectations {
            by_place: BTreeMap::new(),
            by_parent: BTreeMap::new(),
            by_deadline: BTreeMap::new(),
            by_zone: [0; 64],
            serials: 0,
        }
    }
}

impl Expectations {
    /// Adds an expectation. It replaces the previous one of its parent and one with the same place.
    pub fn add(&mut self, expectation: Expectation) {
        self.forget(expectation.parent_id);
        self.serials += 1;
        let expectation = Expectation { serial: self.serials, ..expectation };
        let place = place(&expectation.key);
        self.take_out(&place);
        self.by_zone[bit_number(place.0)] += 1;
        self.by_deadline.insert((expectation.deadline, expectation.serial), place);
        self.by_parent.insert(expectation.parent_id, place);
        self.by_place.insert(place, Expected { expectation, claim: None });
    }

    fn take_out(&mut self, place: &Place) {
        if let Some(Expected { expectation: it, .. }) = self.by_place.remove(place) {
            self.by_zone[bit_number(place.0)] -= 1;
            self.by_deadline.remove(&(it.deadline, it.serial));
            self.by_parent.remove(&it.parent_id);
        }
    }

    /// Removes expectations whose deadline has come.
    pub fn expire(&mut self, now: Instant) {
        while let Some((&(deadline, _), &place)) = self.by_deadline.first_key_value()
            && deadline <= now
        {
            self.take_out(&place);
        }
    }

    /// The earliest deadline.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.by_deadline.first_key_value().map(|((deadline, _), _)| *deadline)
    }

    /// The [bits](zone_bit) of zones with expectations.
    pub fn zone_bits(&self) -> u64 {
        let bits = self.by_zone.iter().enumerate().map(|(at, &count)| u64::from(count > 0) << at);
        bits.sum()
    }

    /// Returns the expectation that a first packet with this key fulfils, unless another connection
    /// is being created from it.
    pub fn find(&self, key: &Key, now: Instant) -> Option<Expectation> {
        let Expected { expectation, claim } = self.by_place.get(&place(key))?;
        let is_open = claim.is_none_or(|claim| claim.port == key.l4[0]);
        (now < expectation.deadline && is_open).then_some(*expectation)
    }

    /// The server accepts the port that `parent` announced.
    pub fn accept(&mut self, parent: Id) {
        let place = self.by_parent.get(&parent);
        if let Some(expected) = place.and_then(|place| self.by_place.get_mut(place)) {
            expected.expectation.is_agreed = true;
        }
    }

    /// The server refuses the port that `parent` announced, if it has not accepted it.
    pub fn refuse(&mut self, parent: Id) {
        let expected = self.by_parent.get(&parent).and_then(|place| self.by_place.get(place));
        if expected.is_some_and(|it| !it.expectation.is_agreed) {
            self.forget(parent);
        }
    }

    /// [`Self::find`] for a thread that creates the connection and then [releases](Self::release)
    /// or [fulfils](Self::fulfil) the expectation. Until then only threads with the same key can
    /// claim it.
    #[must_use]
    pub fn claim(&mut self, key: &Key, now: Instant) -> Option<Expectation> {
        let found = self.find(key, now)?;
        let claim = &mut self.by_place.get_mut(&place(key))?.claim;
        claim.get_or_insert(Claim { port: key.l4[0], threads: 0 }).threads += 1;
        Some(found)
    }

    /// Gives up a claim whose connection was not created.
    pub fn release(&mut self, claimed: &Expectation) {
        let expected = self.by_place.get_mut(&place(&claimed.key));
        let Some(Expected { expectation, claim }) = expected else { return };
        if expectation.serial == claimed.serial {
            *claim = claim
                .map(|claim| Claim { threads: claim.threads.saturating_sub(1), ..claim })
                .filter(|claim| claim.threads > 0);
        }
    }

    /// Removes a fulfilled expectation, but not a later one of the same parent.
    pub fn fulfil(&mut self, claimed: &Expectation) {
        let place = place(&claimed.key);
        let there = self.by_place.get(&place);
        if there.is_some_and(|it| it.expectation.serial == claimed.serial) {
            self.forget(claimed.parent_id);
        }
    }

    /// Sets the mark and label that the expected connection of `parent` inherits.
    pub fn set_inheritance(&mut self, parent: Id, mark: u32, label: u128) {
        let place = self.by_parent.get(&parent);
        if let Some(expected) = place.and_then(|place| self.by_place.get_mut(place)) {
            (expected.expectation.mark, expected.expectation.label) = (mark, label);
        }
    }

    /// Removes the expectation of `parent`.
    pub fn forget(&mut self, parent: Id) {
        if let Some(place) = self.by_parent.get(&parent).copied() {
            self.take_out(&place);
        }
    }

    /// Removes the expectations of a zone, or all.
    pub fn forget_zone(&mut self, zone: Option<Zone>) {
        let is_gone = |place: &&Place| zone.is_none_or(|zone| zone.0 == place.0);
        let gone: Vec<Place> = self.by_place.keys().filter(is_gone).copied().collect();
        gone.iter().for_each(|place| self.take_out(place));
    }

    /// The number of expectations, including expired ones.
    #[cfg(all(test, not(loom)))]
    pub fn len(&self) -> usize {
        self.by_place.len()
    }

    /// Returns a destination port for `key`, its own if possible, that no other parent's
    /// expectation has.
    pub fn free_port(&self, key: &Key, parent: Id, now: Instant) -> Option<u16> {
        let ports = (key.l4[1]..=u16::MAX).take(PORTS_TRIED.into());
        ports.into_iter().find(|&port| {
            let at = Key { l4: [key.l4[0], port], ..*key };
            let holder = self.by_place.get(&place(&at)).map(|it| &it.expectation);
            holder.is_none_or(|it| it.parent_id == parent || it.deadline <= now)
        })
    }
}

/// The bit of a zone, shared by zones whose numbers are equal modulo 64.
pub(crate) fn zone_bit(zone: u16) -> u64 {
    1 << bit_number(zone)
}

fn bit_number(zone: u16) -> usize {
    usize::from(zone % 64)
}

fn place(key: &Key) -> Place {
    let (src, dst) = (key.src.bits(), key.dst.bits());
    (key.zone, key.protocol, family(key), src, dst, key.l4[1])
}

fn family(key: &Key) -> u8 {
    match key.family {
        Family::V4 => 4,
        Family::V6 => 6,
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    fn key(src: u8, ports: [u16; 2]) -> Key {
        Key {
            src: Ipv4Addr::new(10, 0, 0, src).into(),
            dst: Ipv4Addr::new(10, 0, 0, 9).into(),
            l4: ports,
            zone: 1,
            protocol: 6,
            family: Family::V4,
        }
    }

    #[test]
    fn a_connection_is_expected_from_any_port_for_five_minutes() {
        let mut expectations = Expectations::default();
        let begin = Instant::from_millis(1000);
        expectations.add(Expectation::new((7, key(1, [5, 21])), key(1, [0, 5000]), begin));
        let found = |key: &Key, at_s: u64| {
            expectations.find(key, Instant::from_millis(at_s * 1000)).is_some()
        };
        assert!(found(&key(1, [7, 5000]), 1) && found(&key(1, [8, 5000]), 300));
        assert!(!found(&key(1, [7, 5000]), 301));
        assert!(!found(&key(2, [7, 5000]), 1) && !found(&key(1, [7, 5001]), 1));
        assert!(!found(&Key { zone: 2, ..key(1, [7, 5000]) }, 1));
        assert!(!found(&Key { protocol: 17, ..key(1, [7, 5000]) }, 1));
    }

    #[test]
    fn a_parent_has_one_and_takes_it_along() {
        let mut expectations = Expectations::default();
        let (now, parent) = (Instant::ZERO, key(1, [5, 21]));
        for port in [5000, 5001] {
            expectations.add(Expectation::new((1, parent), key(1, [0, port]), now));
        }
        assert!(expectations.find(&key(1, [7, 5000]), now).is_none());
        // Another connection announces the same endpoint: the later announcement replaces the earlier.
        let other = key(3, [5, 21]);
        expectations.add(Expectation::new((2, other), key(1, [0, 5001]), now));
        assert_eq!(expectations.find(&key(1, [7, 5001]), now).unwrap().parent, other);
        assert_eq!(expectations.free_port(&key(1, [0, 5001]), 1, now), Some(5002));
        assert_eq!(expectations.free_port(&key(1, [0, 5001]), 2, now), Some(5001));
        expectations.forget(1);
        assert!(expectations.find(&key(1, [7, 5001]), now).is_some());
        expectations.forget(2);
        assert!(expectations.by_place.is_empty() && expectations.by_parent.is_empty());
    }

    #[test]
    fn what_expired_is_forgotten() {
        let mut expectations = Expectations::default();
        for (parent, second) in [(1, 0), (2, 0), (3, 100)] {
            let zone = parent as u16;
            let key = Key { zone, ..key(1, [0, 5000]) };
            expectations.add(Expectation::new(
                (parent, key),
                key,
                Instant::from_millis(second * 1000),
            ));
        }
        let mut after_s = |seconds: u64| {
            expectations.expire(Instant::from_millis(seconds * 1000));
            let next = expectations.next_deadline().map(|it| it.as_millis() / 1000);
            (expectations.len(), expectations.by_parent.len(), expectations.zone_bits(), next)
        };
        assert_eq!(after_s(299), (3, 3, 0b1110, Some(300)));
        assert_eq!(after_s(300), (1, 1, 0b1000, Some(400)));
        assert_eq!(after_s(400), (0, 0, 0, None));
    }

    #[test]
    fn what_is_claimed_is_one_connections_alone() {
        let mut expectations = Expectations::default();
        let (now, parent) = (Instant::ZERO, (1, key(1, [5, 21])));
        let [first, second] = [7, 8].map(|port| key(1, [port, 5000]));
        expectations.add(Expectation::new(parent, key(1, [0, 5000]), now));
        let [one, same] = [(); 2].map(|()| expectations.claim(&first, now).unwrap());
        assert!(expectations.claim(&second, now).is_none());
        // Neither thread created it: others may, once the last claim is released.
        expectations.release(&one);
        assert!(expectations.claim(&second, now).is_none());
        expectations.release(&same);
        let other = expectations.claim(&second, now).unwrap();
        assert!(expectations.find(&first, now).is_none());
        // A later announcement stays.
        expectations.add(Expectation::new(parent, key(1, [0, 5000]), now));
        expectations.fulfil(&other);
        let next = expectations.claim(&first, now).unwrap();
        expectations.release(&other);
        assert!(expectations.claim(&second, now).is_none());
        expectations.fulfil(&next);
        assert!(expectations.by_place.is_empty() && expectations.by_parent.is_empty());
    }

    #[test]
    fn a_flushed_zone_expects_nothing() {
        let mut expectations = Expectations::default();
        for zone in [1, 2] {
            let at = |ports| Key { zone, ..key(1, ports) };
            let parent = (Id::from(zone), at([5, 21]));
            expectations.add(Expectation::new(parent, at([0, 5000]), Instant::ZERO));
        }
        let is_expected = |expectations: &Expectations, zone| {
            let first = Key { zone, ..key(1, [7, 5000]) };
            expectations.find(&first, Instant::ZERO).is_some()
        };
        expectations.forget_zone(Some(Zone(1)));
        assert!(!is_expected(&expectations, 1) && is_expected(&expectations, 2));
        expectations.forget_zone(None);
        assert!(expectations.by_place.is_empty() && expectations.by_parent.is_empty());
    }
}
