//! A packet's visits to connection tracking.

use crate::translate::Tuple;
use base::Zone;
use flow::{ConnectionRef, CtState, Frame};

/// What connection tracking said of a packet each time that it was there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Tracking {
    /// It was not there.
    Untracked,
    /// Each time that it was of the same connection, or in two zones of one in each.
    Same(Visits),
    /// Nothing that can be remembered.
    Unsteady,
}

/// The connections that a packet was found to be of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Visits {
    pub first: Visited,
    pub second: Option<Visited>,
    /// Where the packet was last, unless it forgot.
    last: Option<Zone>,
    /// The last visit said that the connection is new.
    is_new: bool,
    /// A visit said so.
    pub was_new: bool,
    /// There was more than one.
    pub are_several: bool,
    /// The packet's addresses and ports when it first came to the second connection. Code that
    /// remembers it has only those that it came in with.
    between: Option<Tuple>,
}

/// A connection that a packet is of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Visited {
    pub connection: ConnectionRef,
    pub zone: Zone,
    /// How many visits acted on the connection. A packet of an established connection acts once
    /// however often it comes by, unless it was somewhere else meanwhile or forgot about it; one of a
    /// new connection each time.
    pub acting: u8,
}

impl Tracking {
    /// With one visit more, to which the packet came with these addresses and ports.
    pub fn and(self, frame: &Frame, came_with: Tuple) -> Tracking {
        let Some(connection) = frame.connection else { return Tracking::Unsteady };
        let is_new = frame.key.ct_state().contains(CtState::NEW);
        let visited = Visited { connection, zone: frame.key.ct_zone(), acting: 1 };
        let visits = match self {
            Tracking::Untracked => Some(Visits {
                first: visited,
                second: None,
                last: Some(visited.zone),
                is_new,
                was_new: is_new,
                are_several: false,
                between: None,
            }),
            Tracking::Same(visits) => visits.and(visited, is_new, came_with),
            Tracking::Unsteady => None,
        };
        visits.map_or(Tracking::Unsteady, Tracking::Same)
    }
}

impl Visits {
    fn and(mut self, visited: Visited, is_new: bool, came_with: Tuple) -> Option<Visits> {
        if self.between.is_some_and(|between| between != came_with) {
            return None;
        }
        let acts = self.last != Some(visited.zone) || self.is_new;
        let place = match &mut self.second {
            _ if self.first.zone == visited.zone => &mut self.first,
            Some(second) => second,
            second => {
                self.between = Some(came_with);
                second.insert(Visited { acting: 0, ..visited })
            }
        };
        if (place.zone, place.connection) != (visited.zone, visited.connection) {
            return None;
        }
        place.acting = place.acting.saturating_add(u8::from(acts));
        (self.last, self.is_new) = (Some(visited.zone), is_new);
        (self.was_new, self.are_several) = (self.was_new | is_new, true);
        Some(self)
    }

    /// The packet forgot what was said of it.
    pub fn clear(&mut self) {
        self.last = None;
    }

    /// Whether packets that come in with these addresses and ports are of both connections, if there
    /// are two.
    pub fn are_seen_with(&self, came_in_with: &Tuple) -> bool {
        self.between.is_none_or(|between| between == *came_in_with)
    }

    /// The connections.
    pub fn connections(&self) -> impl Iterator<Item = &Visited> {
        std::iter::once(&self.first).chain(&self.second)
    }
}
