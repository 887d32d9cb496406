//! How long installed flows may be those of rules that were replaced.

use std::collections::VecDeque;

/// Flows that a slice of revalidation translates again (`ofproto`, `FLOWS_AT_ONCE`).
const FLOWS_PER_SLICE: usize = 256;

/// Since when versions of the rules are replaced, in slices of revalidation.
#[derive(Debug, Default)]
pub struct Staleness {
    /// The slices so far.
    pub slices: usize,
    /// The versions whose predecessors may still be installed, in order, each with the slice after which no flow
    /// of a predecessor was installed.
    since: VecDeque<(usize, usize)>,
}

impl Staleness {
    /// Returns the number of slices after which flows of replaced rules are gone, where so many are installed:
    /// those that translate all flows, and one, since flows that a handler or a revalidator holds meanwhile come
    /// after it.
    fn bound(flows: usize) -> usize {
        1 + flows.div_ceil(FLOWS_PER_SLICE)
    }

    /// This version replaces the last one.
    pub fn replaced(&mut self, version: usize) {
        self.since.push_back((version, self.slices));
    }

    /// Flows of this version were installed, which may be replaced already.
    pub fn installed(&mut self, version: usize) {
        for (_, since) in self.since.iter_mut().filter(|(newer, _)| *newer > version) {
            *since = self.slices;
        }
    }

    /// Returns the newest version whose predecessors were replaced so long ago that none of their flows is
    /// installed.
    pub fn over(&self, flows: usize) -> Option<usize> {
        let is_over = |(_, since): &&(usize, usize)| self.slices >= since + Staleness::bound(flows);
        self.since.iter().take_while(is_over).last().map(|(version, _)| *version)
    }

    /// No flow is installed that is older than this version.
    pub fn forget(&mut self, version: usize) {
        self.since.retain(|(replaced, _)| *replaced > version);
    }
}
