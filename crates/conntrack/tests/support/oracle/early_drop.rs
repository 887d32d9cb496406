//! Early drop: which connection is dropped in a full table.

use super::{Known, Oracle, Progress, tcp};
use conntrack::{Event, TcpState};
use std::collections::BTreeSet;

/// The order of the classes.
pub const CLOSED: u8 = 0;
const UNANSWERED: u8 = 1;
pub const ANSWERED: u8 = 2;

impl Known {
    pub fn is_over(&self) -> bool {
        match &self.progress {
            Progress::Tcp(sides) => tcp::is_over(sides),
            Progress::Sctp(association) => association.is_over(),
            _ => false,
        }
    }

    /// The position of its class, and the counter of its end; `None` if it is never dropped.
    fn class(&self) -> Option<(u8, Event)> {
        let is_established = match &self.progress {
            Progress::Tcp(sides) => sides.iter().all(|side| side.state >= TcpState::Established),
            Progress::Sctp(association) => association.is_established(),
            _ => false,
        };
        let is_answered = match self.progress {
            Progress::Echo { answered } | Progress::Other { answered, .. } => answered,
            _ => false,
        };
        match () {
            () if self.is_over() => Some((CLOSED, Event::EvictedClosed)),
            () if is_established => None,
            () if is_answered => Some((ANSWERED, Event::EvictedAnswered)),
            () => Some((UNANSWERED, Event::EvictedUnanswered)),
        }
    }
}

impl Oracle {
    /// The number of a zone's connections.
    pub fn size(&self, zone: u16) -> usize {
        self.known.iter().filter(|it| it.zone == zone).count()
    }

    /// The zones that have connections.
    pub fn zones(&self) -> impl Iterator<Item = u16> {
        let zones: BTreeSet<u16> = self.known.iter().map(|it| it.zone).collect();
        zones.into_iter()
    }

    /// Drops a connection of these zones, of a class up to `last`: from the zone with the most droppable
    /// connections, of the first class, with the earliest deadline. If several are equal, it drops the one
    /// that the tracker dropped, if that is among them.
    pub fn drop_early(&mut self, zones: &[u16], last: u8) -> bool {
        let class = |it: &Known| it.class().filter(|&(class, _)| class <= last);
        let droppable = |zone: u16| {
            self.known.iter().filter(|it| it.zone == zone && class(it).is_some()).count()
        };
        let most = zones.iter().map(|&zone| droppable(zone)).max().unwrap_or(0);
        let order = |it: &Known| class(it).map(|(class, _)| (class, it.deadline_ms));
        let mut best: Vec<&Known> = Vec::new();
        for &zone in zones.iter().filter(|&&zone| droppable(zone) == most) {
            let of_zone = || self.known.iter().filter(|it| it.zone == zone);
            let first = of_zone().filter_map(order).min();
            best.extend(of_zone().filter(|it| first.is_some() && order(it) == first));
        }
        let is_dropped = |it: &&&Known| self.dropped.contains(&(it.zone, it.original));
        let chosen = best.iter().find(is_dropped).or(best.first()).copied();
        let Some(chosen) = chosen.filter(|_| self.early_drop) else { return false };
        let (id, class) = (chosen.id, chosen.class());
        class.is_some_and(|(_, event)| self.remove(event, |it| it.id == id) > 0)
    }
}
