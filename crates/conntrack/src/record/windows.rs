//! Applies the windows of a device to a record.

use super::{PEERS, Record, SEQ};
use crate::protocols::tcp::TcpPeers;
use std::sync::atomic::Ordering::{AcqRel, Relaxed};

impl Record<'_> {
    /// Changes both ends of a TCP connection while packets may change them too. `change` must not move any
    /// value backwards. No segment's change is lost, but a thread that read the words earlier may still store
    /// its result over this one, so the change must be repeated after a while.
    pub fn change_tcp(&self, change: impl Fn(&TcpPeers) -> TcpPeers) {
        loop {
            let before = self.tcp_words();
            let after = change(&TcpPeers::from_words(before)).words();
            let swap = |(nth, at): (usize, usize)| {
                let word = &self.common[at];
                before[nth] == after[nth]
                    || word.compare_exchange(before[nth], after[nth], AcqRel, Relaxed).is_ok()
            };
            let places = [PEERS, SEQ[0], SEQ[1]];
            if places.into_iter().enumerate().all(swap) {
                return;
            }
        }
    }
}
