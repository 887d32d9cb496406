//! Tracks a batch of IPv6 packets, as `track.rs` does for IPv4: parse and hash all, look up all,
//! then follow each or begin its connection.

use crate::connections::{Connections, Found, reversed_v6};
use crate::fast_path::track::Followed;
use crate::headers::fast_parse_v6::WholeV6;
use crate::key::Family;
use crate::pass::Pass;
use crate::record::Record;
use crate::slow_path::begin::Begun;
use base::limits::BATCH_SIZE;
use flow::Frame;
use table::{Id, Spot};

/// A whole TCP or UDP packet and its candidate connection.
struct Candidate<'a> {
    whole: WholeV6,
    hash: u32,
    /// The bucket of its hash, if the zone has an index.
    spot: Option<Spot<'a>>,
    /// A connection with the same hash, or 0.
    id: Id,
}

/// The parsed frames of a batch; `None` where the fast parse does not apply.
type Candidates<'a> = arrayvec::ArrayVec<Option<Candidate<'a>>, BATCH_SIZE>;

impl<'a> Pass<'a> {
    /// Tracks up to a batch of IPv6 packets.
    #[inline(never)]
    pub fn track_v6(&mut self, frames: &mut [Frame]) {
        let mut candidates = Candidates::new();
        let lookup = self.index.map(table::Index::lookup);
        for frame in frames.iter() {
            candidates.push(WholeV6::of(frame, self.action.zone.0).map(|whole| {
                let hash = whole.hashed(&self.connections.secrets);
                let spot = lookup.map(|lookup| lookup.spot(hash));
                Candidate { whole, hash, spot, id: 0 }
            }));
        }
        if let Some(lookup) = lookup {
            for candidate in candidates.iter_mut().flatten() {
                let Some(spot) = candidate.spot else { continue };
                if let Some(id) = lookup.find_at(spot, candidate.hash) {
                    candidate.id = Connections::plain(id);
                    self.connections.fetch(id);
                }
            }
        }
        for (frame, candidate) in frames.iter_mut().zip(&candidates) {
            match candidate {
                Some(candidate) => self.track_candidate(frame, candidate),
                None => self.slow_path_unparsed(frame),
            }
        }
    }

    fn track_candidate(&mut self, frame: &mut Frame, candidate: &Candidate<'_>) {
        if self.follow_candidate(frame, candidate) == Followed::Not
            && !self.begin_candidate(frame, candidate)
        {
            self.slow_path(frame, candidate.whole.extracted(), candidate.hash);
        }
    }

    /// Follows a packet on its candidate.
    fn follow_candidate(&mut self, frame: &mut Frame, candidate: &Candidate<'_>) -> Followed {
        let Candidate { whole, id, .. } = candidate;
        // A hash collision may be with a connection of the other IP version.
        if *id == 0 || Connections::is_v4(*id) {
            return Followed::Not;
        }
        let words = self.connections.words_v6(*id);
        let record = Record::v6(words);
        let Some(is_reply) = record.direction_v6(&whole.addresses, whole.rest) else {
            return Followed::Not;
        };
        let found = Found { id: *id, is_reply };
        self.follow_found(frame, words, found, || whole.segment.as_ref())
    }

    /// Marks a packet without a connection as new, and begins its connection if the action commits.
    /// Returns false, with nothing changed, where the slow path is needed.
    fn begin_candidate(&mut self, frame: &mut Frame, candidate: &Candidate<'_>) -> bool {
        let WholeV6 { addresses, rest, segment } = &candidate.whole;
        let [a, b, c, d] = *addresses;
        let begun = Begun {
            family: Family::V6,
            hash: candidate.hash,
            keys: [[a, b, c, d, *rest], reversed_v6(*addresses, *rest)],
            addresses: *addresses,
            segment: segment.as_ref(),
        };
        candidate.id == 0 && self.begin_plain(frame, &begun, Connections::words_v6)
    }
}
