//! NAT: chooses the addresses and ports of a new connection.
//!
//! A hash picks the address from its range. Ports are then tried until no other connection has the
//! reply tuple (ovs: `lib/conntrack.c`, `nat_get_unique_tuple`).

pub(crate) mod rewrite;

use crate::key::{Address, Family, Key};
use flow::{CtState, NatKind, NatRange, PortSelection};
use rapidhash::v3::{RapidSecrets, rapidhash_v3_seeded};
use std::net::IpAddr;

/// Ports tried in the first run. If all are taken, another run of half the length begins at a
/// random port, so that an almost full range costs little.
const STRETCH_MAX: u32 = 128;
const STRETCH_MIN: u32 = 16;
/// The largest number of addresses that are used of a range.
const ADDRESSES_MAX: u128 = 0xffff_ffff;
/// The seed of `persistent` hashes, the same in every process.
const PERSISTENT_SEED: u64 = 0x7469_6465_6761_7465;

/// Returns the reply key of a new connection, or `None` if `is_taken` is true for every choice.
/// `secrets` key the hash of the choice.
pub(crate) fn reply_key(
    original: &Key,
    range: &NatRange,
    secrets: &RapidSecrets,
    random: &mut fastrand::Rng,
    mut is_taken: impl FnMut(&Key) -> bool,
) -> Option<Key> {
    let hash = choice_hash(secrets, original, range, random);
    let mut reply = original.reversed();
    if let Some(address) = pick_address(original, range, hash)? {
        match range.kind {
            NatKind::Src => reply.dst = address,
            NatKind::Dst => reply.src = address,
        }
    }
    if original.is_icmp() {
        // ICMP queries differ by identifier only, so the identifier is chosen like a port.
        let ids = Ports { start: original.l4[0], first: 0, last: u16::MAX };
        let with_id = |id| Key { l4: [id, reply.l4[1]], ..reply };
        return ids.find(random, |id| !is_taken(&with_id(id))).map(with_id);
    }
    if !original.has_nat_ports() {
        return (!is_taken(&reply)).then_some(reply);
    }
    let [source, destination] = original.l4;
    let (source_ports, destination_ports) = match (range.kind, range.ports) {
        (NatKind::Src, Some(ports)) => (Ports::within(ports, hash), None),
        (NatKind::Src, None) => (Ports::like(source), None),
        (NatKind::Dst, ports) => {
            (Ports::like(source), ports.map(|ports| Ports::within(ports, hash)))
        }
    };
    // Replies come from the connection's destination port and go to its source port.
    let from = destination_ports.map_or(destination, |ports| ports.start);
    reply.l4 = [from, source_ports.start];
    let mut free = |reply: &Key| !is_taken(reply);
    if let Some(ports) = destination_ports {
        let found = ports.find(random, |port| free(&Key { l4: [port, reply.l4[1]], ..reply }));
        if let Some(port) = found {
            return Some(Key { l4: [port, reply.l4[1]], ..reply });
        }
    }
    let port = source_ports.find(random, |port| free(&Key { l4: [from, port], ..reply }))?;
    Some(Key { l4: [from, port], ..reply })
}

/// The state bit of a packet whose source or destination is rewritten.
pub(crate) fn state_bit(kind: NatKind) -> CtState {
    match kind {
        NatKind::Src => CtState::SNAT,
        NatKind::Dst => CtState::DNAT,
    }
}

fn choice_hash(
    secrets: &RapidSecrets,
    original: &Key,
    range: &NatRange,
    random: &mut fastrand::Rng,
) -> u64 {
    if range.selection == PortSelection::Random {
        return random.u64(..);
    }
    let persistent = RapidSecrets::seed(PERSISTENT_SEED);
    let secrets = if range.persistent { &persistent } else { secrets };
    let mut bytes = [0; 80];
    let (low, high) = match range.addresses {
        Some((low, high)) => (Address::from(low).bits(), Address::from(high).bits()),
        None => (0, 0),
    };
    let (first, last) = range.ports.unwrap_or((0, 0));
    let small = [original.l4[0], original.l4[1], original.zone, original.protocol.into()];
    let parts = [low, high, original.src.bits(), original.dst.bits()];
    for (chunk, part) in bytes.chunks_exact_mut(16).zip(parts) {
        chunk.copy_from_slice(&part.to_le_bytes());
    }
    let words = small.into_iter().chain([first, last]);
    for (chunk, word) in bytes[64..].chunks_exact_mut(2).zip(words) {
        chunk.copy_from_slice(&word.to_le_bytes());
    }
    rapidhash_v3_seeded(&bytes, secrets)
}

/// Returns the address for the rewritten side: `Some(None)` keeps it, `None` means that the range
/// is of the other IP version.
fn pick_address(original: &Key, range: &NatRange, hash: u64) -> Option<Option<Address>> {
    let Some((low, high)) = range.addresses.filter(|(low, _)| !low.is_unspecified()) else {
        return Some(None);
    };
    let of_family = |ip: IpAddr| ip.is_ipv4() == (original.family == Family::V4);
    if !of_family(low) || !of_family(high) {
        return None;
    }
    let low = Address::from(low).bits();
    let span = Address::from(high).bits().saturating_sub(low).saturating_add(1);
    let offset = u128::from(hash) % span.min(ADDRESSES_MAX);
    Some(Some(Address::from_bits(low + offset)))
}

/// The ports to try, as a ring from `start`, which may lie outside it.
#[derive(Clone, Copy, Debug)]
struct Ports {
    start: u16,
    first: u16,
    last: u16,
}

impl Ports {
    /// These ports, from one that the hash chooses.
    fn within((first, last): (u16, u16), hash: u64) -> Ports {
        let last = last.max(first);
        let count = u64::from(last - first) + 1;
        // The address used the low bits of the hash.
        Ports { start: first + ((hash >> 32) % count) as u16, first, last }
    }

    /// `port` first, then the other privileged ports, or the other unprivileged ones.
    fn like(port: u16) -> Ports {
        let (first, last) = match port {
            ..512 => (1, 511),
            512..1024 => (600, 1023),
            1024.. => (1024, u16::MAX),
        };
        Ports { start: port, first, last }
    }

    fn find(self, random: &mut fastrand::Rng, mut free: impl FnMut(u16) -> bool) -> Option<u16> {
        let inside = (self.first..=self.last).contains(&self.start);
        let count = u32::from(self.last - self.first) + 1;
        let mut tries = count.min(STRETCH_MAX);
        let mut port = self.start;
        let mut extra = u32::from(!inside);
        loop {
            for _ in 0..tries + extra {
                if free(port) {
                    return Some(port);
                }
                let is_end = port == self.last || !(self.first..=self.last).contains(&port);
                port = if is_end { self.first } else { port + 1 };
            }
            if tries >= count || tries < STRETCH_MIN {
                return None;
            }
            extra = 0;
            tries /= 2;
            port = self.first + random.u32(0..count) as u16;
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_small_range_is_searched_whole(
            start: u16, first in 1..60_000u16, more in 0..127u16, free_at in 0..127u16,
        ) {
            let last = first + more;
            let free_port = first + free_at.min(more);
            let ports = Ports { start, first, last };
            let mut random = fastrand::Rng::with_seed(1);
            let found = ports.find(&mut random, |port| port == free_port);
            prop_assert_eq!(found, Some(free_port));
            let mut tried = 0;
            prop_assert_eq!(ports.find(&mut random, |_| { tried += 1; false }), None);
            prop_assert!(tried <= u32::from(more) + 2);
        }

        #[test]
        fn ports_found_are_the_one_that_was_or_in_the_range(port: u16, busy in 0..200u32) {
            let ports = Ports::like(port);
            let mut left = busy;
            let mut random = fastrand::Rng::with_seed(u64::from(busy));
            let mut free = |_| { left = left.saturating_sub(1); left == 0 };
            if let Some(found) = ports.find(&mut random, &mut free) {
                prop_assert!(found == port || (ports.first..=ports.last).contains(&found));
            }
        }
    }
}
