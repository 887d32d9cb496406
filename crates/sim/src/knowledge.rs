//! Derives the possible states of connections from observed packets.
//!
//! The time at which a packet is tracked is unknown. It lies between the steps in which the packet is
//! received and sent, and the derived states hold at any time in that interval.

use crate::header::Header;
use crate::oracle::Path;
use crate::rule::Conn;
use std::collections::{BTreeMap, BTreeSet};

/// A zone and the endpoints of a connection, the smaller one first.
type Place = (u16, (u8, u16), (u8, u16));

/// Facts about a connection that are certain.
#[derive(Clone, Copy, Debug)]
struct Sure {
    /// The step since which it is established.
    established: usize,
    /// The source of its replies, if known.
    reply: Option<(u8, u16)>,
}

#[derive(Debug, Default)]
pub struct Knowledge {
    /// Sources and destinations of received packets.
    seen: BTreeSet<((u8, u16), (u8, u16))>,
    sure: BTreeMap<Place, Sure>,
    /// Some rule rewrites addresses and ports (NAT). Which packets belong to a connection is unknown then, and
    /// nothing is sure.
    pub has_nat: bool,
    /// The step in which each zone was last flushed.
    flushed: BTreeMap<u16, usize>,
}

fn place(zone: u16, packet: &Header) -> Place {
    let (a, b) = ends(packet);
    (zone, a.min(b), a.max(b))
}

fn ends(packet: &Header) -> ((u8, u16), (u8, u16)) {
    ((packet.src, packet.sport), (packet.dst, packet.dport))
}

impl Knowledge {
    /// Records a received packet.
    pub fn came(&mut self, packet: &Header) {
        self.seen.insert(ends(packet));
    }

    /// Returns the possible states of a packet in a zone. The packet was received in this step.
    pub fn states(&self, zone: u16, packet: &Header, step: usize) -> Vec<Conn> {
        if self.has_nat {
            return vec![Conn::New, Conn::Original, Conn::Reply];
        }
        let (source, destination) = ends(packet);
        // Without a packet of the other direction there is no reply, and nothing is established.
        if !self.seen.contains(&(destination, source)) {
            return vec![Conn::New];
        }
        match self.sure.get(&place(zone, packet)) {
            Some(sure) if sure.established < step => match sure.reply {
                Some(reply) if reply == source => vec![Conn::Reply],
                Some(_) => vec![Conn::Original],
                None => vec![Conn::Original, Conn::Reply],
            },
            _ => vec![Conn::New, Conn::Original, Conn::Reply],
        }
    }

    /// Records that a packet, received in step `came`, left the switch by step `gone` on one of these paths.
    pub fn gone(&mut self, packet: &Header, came: usize, gone: usize, paths: &[&Path]) {
        let Some((first, rest)) = paths.split_first() else { return };
        let Some(&(zone, conn)) = first.tracked.first() else { return };
        let same = rest.iter().all(|path| path.tracked == first.tracked);
        let flushed = self.flushed.get(&zone).is_some_and(|&step| step >= came);
        if !same || flushed || conn == Conn::New || self.has_nat {
            return;
        }
        let (source, destination) = ends(packet);
        let reply = if conn == Conn::Reply { source } else { destination };
        let sure = Sure { established: gone, reply: Some(reply) };
        self.sure.entry(place(zone, packet)).or_insert(sure);
    }

    /// Records that a zone was flushed.
    pub fn flushed(&mut self, zone: u16, step: usize) {
        self.flushed.insert(zone, step);
        self.sure.retain(|(of, ..), _| *of != zone);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sure_holds_until_the_zone_is_flushed() {
        let there = Header { port: 1, src: 1, dst: 2, sport: 1000, dport: 80, tos: 0 };
        let back = there.reply(2);
        let mut known = Knowledge::default();
        known.came(&there);
        assert_eq!(known.states(1, &there, 1), [Conn::New]);
        known.came(&back);
        assert_eq!(known.states(1, &back, 2).len(), 3);
        let path = Path { tracked: vec![(1, Conn::Reply)], ..Path::default() };
        known.gone(&back, 2, 3, &[&path]);
        assert_eq!(known.states(1, &there, 3).len(), 3, "it came before that was sure");
        assert_eq!(known.states(1, &there, 4), [Conn::Original]);
        assert_eq!(known.states(1, &back, 4), [Conn::Reply]);
        assert_eq!(known.states(2, &back, 4).len(), 3, "another zone");
        known.flushed(1, 5);
        assert_eq!(known.states(1, &back, 6).len(), 3);
        known.gone(&back, 4, 6, &[&path]);
        assert_eq!(known.states(1, &back, 7).len(), 3, "it may have been tracked before");
    }
}
