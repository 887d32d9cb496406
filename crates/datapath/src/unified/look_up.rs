//! Lookup of a batch's entries: all hashes are computed and prefetched, then all entries are compared, so
//! that memory latencies overlap.

use super::entry::{Entry, NAT_REWRITTEN, Rest, USED};
use super::mask::MaskInUse;
use super::memory::CacheMemory;
use super::probe::Probe;
use super::{CONTROL, Found, KINDS, NOT_FOUND, UnifiedCache};
use base::PortNo;
use flow::{ConnectionRef, Headers, MARK_MAX};

impl UnifiedCache {
    /// Finds entries for packets. A packet that equals the previous one in all bits that entries match needs
    /// no probe of its own. `mark` is the mark of each packet, see [`mark_of`], or 0: the entry that it names
    /// is compared first, without a probe. `fetch` is called for each connection found, to prefetch it.
    /// Returns whether any entry has a NAT rewrite.
    pub fn look_up(
        &mut self,
        headers: &[Headers],
        mark: impl Fn(usize) -> u32,
        found: &mut Found,
        mut fetch: impl FnMut(ConnectionRef),
    ) -> bool {
        if self.masks.is_empty() || self.room.entries.is_empty() {
            *found = [NOT_FOUND; _];
            return false;
        }
        let (probes, marked) = self.probe_all(headers, mark, found, &mut fetch);
        let (away, mut flags) = self.compare_all(probes, headers, found, &mut fetch);
        flags |= marked;
        if away != 0 {
            flags |= self.find_all_away(away, headers, found, &mut fetch);
        }
        flags & NAT_REWRITTEN != 0
    }

    /// Computes the probes of packets, one per run of equal ones. Returns their number, and the flags of
    /// entries found by marks. Tracked packets that change their connections have no entries.
    #[inline(never)]
    fn probe_all(
        &mut self,
        headers: &[Headers],
        mark: impl Fn(usize) -> u32,
        found: &mut Found,
        fetch: &mut impl FnMut(ConnectionRef),
    ) -> (usize, u16) {
        let UnifiedCache { masks, first_mask, room, secrets, probes, .. } = self;
        let CacheMemory { entries, rest, tags, .. } = room;
        let last = entries.len() - 1;
        let has_untracked = masks.iter().any(|mask| mask.has_untracked);
        let in_port = headers.first().map_or(PortNo(0), Headers::in_port);
        let (mut count, mut first, mut flags) = (0, 0, 0);
        while let Some(one) = headers.get(first)
            && let Some(probe) = probes.get_mut(count)
        {
            if !has_untracked && one.tcp_flags() & CONTROL != 0 {
                found[first] = NOT_FOUND;
                first += 1;
                continue;
            }
            let place = mark(first);
            if place != 0
                && let Some((at, entry_flags)) = marked(masks, entries, rest, one, place)
            {
                flags |= entry_flags;
                if let Some(connection) = entries[at as usize].connection() {
                    fetch(connection);
                }
                found[first] = at;
                first += 1;
                continue;
            }
            let mask = first_mask[kind_on(in_port, one)];
            let in_use = &masks[usize::from(mask)];
            let packets = alike(&headers[first..], &in_use.mask);
            let hash = in_use.hash(one, secrets);
            *probe = Probe { hash, mask, first: first as u8, packets, is_away: false };
            let home = probe.home(last);
            if self.expects_few && tags.at(home) != probe.tag() {
                probe.is_away = true;
            } else {
                entries.prefetch(home);
                if one.is_ipv6() {
                    rest.prefetch(home);
                }
            }
            (count, first) = (count + 1, first + usize::from(packets));
        }
        (count, flags)
    }

    /// Compares the entries at the first places. Returns a bit for each probe whose entry does not match, and
    /// the flags of those that match.
    #[inline(never)]
    fn compare_all(
        &mut self,
        count: usize,
        headers: &[Headers],
        found: &mut Found,
        fetch: &mut impl FnMut(ConnectionRef),
    ) -> (u32, u16) {
        let UnifiedCache { masks, room, probes, .. } = self;
        let CacheMemory { entries, rest, tags, .. } = room;
        let last = entries.len() - 1;
        let (mut away, mut flags) = (0, 0);
        for (number, probe) in probes[..count].iter().enumerate() {
            let (first, home) = (usize::from(probe.first), probe.home(last));
            let (one, entry) = (&headers[first], &mut entries[home]);
            let in_use = &mut masks[usize::from(probe.mask)];
            if probe.is_away
                || !entry.is_for(one, in_use)
                || one.is_ipv6() && !rest[home].is_for(one, &in_use.mask)
            {
                away |= 1 << number;
                tags.prefetch(probe, last);
                continue;
            }
            in_use.is_used = true;
            flags |= entry.flags;
            if entry.flags & USED == 0 {
                entry.flags |= USED;
            }
            if let Some(connection) = entry.connection() {
                fetch(connection);
                if entry.flags & NAT_REWRITTEN != 0 {
                    rest.prefetch(home);
                }
            }
            found[first] = home as u32;
            if probe.packets > 1 {
                let end = found.len().min(first + usize::from(probe.packets));
                found[first + 1..end].fill(home as u32);
            }
        }
        (away, flags)
    }

    /// Looks up the remaining probes in the other places and under other masks. Returns the flags of the
    /// entries found.
    #[inline(never)]
    fn find_all_away(
        &mut self,
        away: u32,
        headers: &[Headers],
        found: &mut Found,
        fetch: &mut impl FnMut(ConnectionRef),
    ) -> u16 {
        let mut flags = 0;
        let last = self.room.entries.len() - 1;
        for number in bits(away) {
            let probe = &self.probes[number];
            if self.room.tags.may_have(probe, last) {
                let places = probe.places(last).filter(|&at| self.room.tags.at(at) == probe.tag());
                places.for_each(|at| self.room.entries.prefetch(at));
            }
        }
        for number in bits(away) {
            let probe = self.probes[number];
            let first = usize::from(probe.first);
            let end = headers.len().min(first + usize::from(probe.packets));
            for (one, found) in headers[first..end].iter().zip(&mut found[first..end]) {
                *found = self.find_away(one, &probe);
                let Some(entry) = self.room.entries.get_mut(*found as usize) else { continue };
                entry.flags |= USED;
                flags |= entry.flags;
                if let Some(connection) = entry.connection() {
                    fetch(connection);
                }
            }
        }
        flags
    }

    fn find_away(&mut self, headers: &Headers, probe: &Probe) -> u32 {
        if headers.is_none() {
            return NOT_FOUND;
        }
        let tried = usize::from(probe.mask);
        let mut at = self.find(headers, probe);
        let is_control = headers.tcp_flags() & CONTROL != 0;
        for mask in (0..self.masks.len()).filter(|&mask| mask != tried) {
            if at != NOT_FOUND {
                break;
            }
            if is_control && !self.masks[mask].has_untracked {
                continue;
            }
            at = self.find(headers, &self.probe(headers, mask));
            if at != NOT_FOUND {
                self.first_mask[kind(headers)] = mask as u8;
            }
        }
        at
    }

    fn find(&mut self, headers: &Headers, probe: &Probe) -> u32 {
        let last = self.room.entries.len() - 1;
        if !self.room.tags.may_have(probe, last) {
            return NOT_FOUND;
        }
        let in_use = &self.masks[usize::from(probe.mask)];
        let is_it =
            |&at: &usize| self.room.tags.at(at) == probe.tag() && self.is_for(at, headers, in_use);
        let Some(at) = probe.places(last).find(is_it) else { return NOT_FOUND };
        self.masks[usize::from(probe.mask)].is_used = true;
        at as u32
    }

    /// The probe for packets with these headers under a mask.
    pub(super) fn probe(&self, headers: &Headers, mask: usize) -> Probe {
        Probe::of(self.masks[mask].hash(headers, &self.secrets), mask)
    }

    /// Whether the entry at a place matches these headers.
    pub(super) fn is_for(&self, at: usize, headers: &Headers, in_use: &MaskInUse) -> bool {
        self.room.entries[at].is_for(headers, in_use)
            && (!headers.is_ipv6() || self.room.rest[at].is_for(headers, &in_use.mask))
    }
}

/// The entry that a mark names, and its flags, if it matches. Marks may outlive their entries.
#[inline(never)]
fn marked(
    masks: &mut [MaskInUse],
    entries: &mut [Entry],
    rest: &[Rest],
    headers: &Headers,
    mark: u32,
) -> Option<(u32, u16)> {
    let at = mark.checked_sub(1)?;
    let entry = entries.get_mut(at as usize)?;
    let in_use = masks.iter_mut().find(|mask| mask.serial == entry.mask)?;
    let is_it = headers.tcp_flags() & CONTROL == 0
        && entry.is_for(headers, in_use)
        && (!headers.is_ipv6() || rest.get(at as usize)?.is_for(headers, &in_use.mask));
    if !is_it {
        return None;
    }
    in_use.is_used = true;
    entry.flags |= USED;
    Some((at, entry.flags))
}

/// The mark by which a device identifies an entry.
pub(crate) fn mark_of(place: u32) -> Option<u32> {
    Some(place + 1).filter(|mark| *mark <= MARK_MAX)
}

/// The indices of the set bits.
fn bits(mut word: u32) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let lowest = (word != 0).then(|| word.trailing_zeros() as usize);
        word &= word.wrapping_sub(1);
        lowest
    })
}

/// The kind of a packet: port, Ethernet type and protocol, since these mostly determine the mask.
pub(super) fn kind(headers: &Headers) -> usize {
    kind_on(headers.in_port(), headers)
}

/// The kind of a packet from a port, which is fixed for a batch.
#[inline(always)]
fn kind_on(in_port: PortNo, headers: &Headers) -> usize {
    let of_packet = u32::from(headers.eth_type()) ^ u32::from(headers.protocol());
    (in_port.0 ^ of_packet) as usize % KINDS
}

/// How many packets from the first on agree with it in the bits of a mask. IPv6 is not compared: its
/// addresses take more words.
#[inline(always)]
fn alike(headers: &[Headers], mask: &Headers) -> u8 {
    match headers {
        [one, next, ..] if !one.is_ipv6() && one.is_like(next, mask) => count_alike(headers, mask),
        _ => 1,
    }
}

#[inline(never)]
fn count_alike(headers: &[Headers], mask: &Headers) -> u8 {
    let Some((first, others)) = headers.split_first() else { return 0 };
    1 + others.iter().take_while(|other| first.is_like(other, mask)).count() as u8
}
