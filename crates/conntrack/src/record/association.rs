//! How an SCTP association changes while others look at it.

use super::{PEERS, Record, SEQ};
use crate::sctp::Association;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

/// The lowest bit of an association's version, above its state: a thread writes.
pub(super) const SCTP_BUSY: u64 = 1 << 8;
/// How often a reader looks whether the writer is done.
const SCTP_TRIES: u32 = 1000;

impl Record<'_> {
    /// How far an SCTP association is.
    pub fn sctp(&self) -> Association {
        self.sctp_seen().0
    }

    /// The same, with what [`Record::set_sctp`] has to know.
    ///
    /// An association is three words and so changes under a version, which is odd while a thread
    /// writes the other two. That is rare, and short. A thread that waited long enough for it reads what is
    /// there, and [`Record::set_sctp`] has them look again.
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

    /// Stores what a packet changed of the association that was `seen`; false if another packet
    /// changed it meanwhile, and nothing was stored.
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
