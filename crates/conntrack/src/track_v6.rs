//! What happens to packets over IPv6 that come together, as `track.rs` has it for those over IPv4: all
//! are read and hashed, then all are found, then each acts on its connection or begins it.

use crate::begin::Begun;
use crate::connections::{Connections, Found, reversed_v6};
use crate::fast_parse_v6::WholeV6;
use crate::key::Family;
use crate::record::Record;
use crate::track::{Followed, Pass};
use base::limits::BATCH_SIZE;
use flow::Frame;
use table::{Id, Spot};

/// A whole TCP or UDP packet, and the connection that may be its.
struct Candidate<'a> {
    whole: WholeV6,
    hash: u32,
    /// Where its connection's entry is in the index, if the zone has one.
    spot: Option<Spot<'a>>,
    /// A connection of the same hash; 0 without one.
    id: Id,
}

/// The fast parse of each frame, where there is one.
type Candidates<'a> = arrayvec::ArrayVec<Option<Candidate<'a>>, BATCH_SIZE>;

impl<'a> Pass<'a> {
    /// Tracks packets over IPv6, a batch at most.
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

    /// Lets a packet act on the connection that was found for it.
    fn follow_candidate(&mut self, frame: &mut Frame, candidate: &Candidate<'_>) -> Followed {
        let Candidate { whole, id, .. } = candidate;
        // What has the same hash by chance may be of the other family.
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

    /// Says of a packet for which no connection was found that it is new, and begins one if the action
    /// commits, where that is all there is to do.
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
