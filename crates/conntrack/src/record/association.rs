//! SCTP associations in a record: a version number makes the three words consistent.

use super::{PEERS, Record, SEQ};
use crate::protocols::sctp::Association;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

/// The lowest bit of the version, above the state: set while a thread writes.
pub(super) const SCTP_BUSY: u64 = 1 << 8;
/// How often a reader retries while a thread writes.
const SCTP_TRIES: u32 = 1000;

impl Record<'_> {
    /// The association's present state.
    pub fn sctp(&self) -> Association {
        self.sctp_seen().0
    }

    /// The association's present state, with the version for [`Record::set_sctp`].
    ///
    /// An association is three words, so a version guards it, which is odd while a thread writes
    /// the other two. Writes are rare and short. A reader that has retried long enough returns what
    /// it finds, and [`Record::set_sctp`] then refuses its change.
    pub fn sctp_seen(&self) -> (Association, u64) {
        let mut tries = SCTP_TRIES;
        loop {
            let first = self.common[PEERS].load(Acquire);
            let tags = SEQ.map(|at| self.common[at].load(Acquire));
            let is_whole = first & SCTP_BUSY == 0 && self.common[PEERS].load(Relaxed) == first;
            if is_whole || tries == 0 {
                let seen = if is_whole { first } else { first | SCTP_BUSY };
                return (Association::from_words([first, tags[0], tags[1]]), seen);
            }
            tries -= 1;
            std::hint::spin_loop();
        }
    }

    /// Stores a packet's change of the association that was `seen`. Returns false, with nothing
    /// stored, if another packet changed it meanwhile.
    pub fn set_sctp(&self, seen: (Association, u64), after: &Association) -> bool {
        let (before, first) = seen;
        if first & SCTP_BUSY != 0 {
            return false;
        }
        if before == *after {
            return true;
        }
        let peers = &self.common[PEERS];
        let busy = first.wrapping_add(SCTP_BUSY);
        if peers.compare_exchange(first, busy, AcqRel, Relaxed).is_err() {
            return false;
        }
        let words = after.words();
        SEQ.into_iter()
            .zip(&words[1..])
            .for_each(|(at, word)| self.common[at].store(*word, Release));
        let version = busy.wrapping_add(SCTP_BUSY) & !(SCTP_BUSY - 1);
        peers.store(version | words[0], Release);
        true
    }
}
