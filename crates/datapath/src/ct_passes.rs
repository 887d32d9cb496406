//! A packet's passes through connection tracking.

use crate::nat_rewrite::Tuple;
use base::Zone;
use flow::{ConnectionRef, CtState, Frame};

/// The results of all passes of a packet through connection tracking.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Tracking {
    /// There was none.
    Untracked,
    /// Each pass found the same connection, or one in each of two zones.
    Same(CtPasses),
    /// They cannot be cached.
    Uncacheable,
}

/// The connections that a packet belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct CtPasses {
    pub first: CtPass,
    pub second: Option<CtPass>,
    /// The zone of the last pass, unless `ct_clear` came after it.
    last: Option<Zone>,
    /// The last pass found the connection new.
    is_new: bool,
    /// Any pass did.
    pub was_new: bool,
    /// The packet's addresses and ports at its first pass in the second zone. Entries are keyed by those of
    /// its arrival.
    between: Option<Tuple>,
}

/// A connection that a packet belongs to in one zone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct CtPass {
    pub connection: ConnectionRef,
    pub zone: Zone,
    /// Number of passes that acted on the connection. A packet of an established connection acts once,
    /// unless another zone or `ct_clear` came in between; one of a new connection acts in each pass.
    pub acting: u8,
}

impl Tracking {
    /// Adds a pass; `came_with` are the addresses and ports before it.
    pub fn and(self, frame: &Frame, came_with: Tuple) -> Tracking {
        let Some(connection) = frame.connection else { return Tracking::Uncacheable };
        let is_new = frame.key.ct_state().contains(CtState::NEW);
        let ct_pass = CtPass { connection, zone: frame.key.ct_zone(), acting: 1 };
        let ct_passes = match self {
            Tracking::Untracked => Some(CtPasses {
                first: ct_pass,
                second: None,
                last: Some(ct_pass.zone),
                is_new,
                was_new: is_new,
                between: None,
            }),
            Tracking::Same(ct_passes) => ct_passes.and(ct_pass, is_new, came_with),
            Tracking::Uncacheable => None,
        };
        ct_passes.map_or(Tracking::Uncacheable, Tracking::Same)
    }
}

impl CtPasses {
    fn and(mut self, ct_pass: CtPass, is_new: bool, came_with: Tuple) -> Option<CtPasses> {
        if self.between.is_some_and(|between| between != came_with) {
            return None;
        }
        let acts = self.last != Some(ct_pass.zone) || self.is_new;
        let place = match &mut self.second {
            _ if self.first.zone == ct_pass.zone => &mut self.first,
            Some(second) => second,
            second => {
                self.between = Some(came_with);
                second.insert(CtPass { acting: 0, ..ct_pass })
            }
        };
        if (place.zone, place.connection) != (ct_pass.zone, ct_pass.connection) {
            return None;
        }
        place.acting = place.acting.saturating_add(u8::from(acts));
        (self.last, self.is_new) = (Some(ct_pass.zone), is_new);
        self.was_new |= is_new;
        Some(self)
    }

    /// Notes a `ct_clear`.
    pub fn clear(&mut self) {
        self.last = None;
    }

    /// Whether the packet had these addresses and ports in both zones, if there are two.
    pub fn are_seen_with(&self, came_in_with: &Tuple) -> bool {
        self.between.is_none_or(|between| between == *came_in_with)
    }

    /// The connections.
    pub fn connections(&self) -> impl Iterator<Item = &CtPass> {
        std::iter::once(&self.first).chain(&self.second)
    }
}
