//! The largest zones, for early drop.

use arrayvec::ArrayVec;
use std::cmp::Reverse;
use table::{Index, Zones};

/// Number of the largest zones that a thread remembers and tries in turn.
const LARGEST: usize = 8;
/// Indexes whose size is read for each connection that is dropped.
const INDEXES: usize = 16;

/// The largest zones that a thread knows, by index number.
#[derive(Default)]
pub(crate) struct LargeZones {
    largest: ArrayVec<u32, LARGEST>,
    /// The next index whose size is read.
    next: u32,
}

/// A zone's number of connections, and its index number.
type Size = (u32, u32);

impl LargeZones {
    /// Returns the largest zones, the largest first, and `own`. Each call reads the sizes of a few
    /// more zones, so that a growing zone is found within one round over all indexes.
    pub fn find(&mut self, zones: &Zones, own: &Index) -> ArrayVec<Size, { LARGEST + 1 }> {
        let size = |number: u32| {
            let index = zones.index(number).filter(|index| !index.is_detached())?;
            Some((index.connections(), number))
        };
        let mut sizes = ArrayVec::<Size, { LARGEST + INDEXES + 1 }>::new();
        sizes.extend(self.largest.drain(..).filter_map(size));
        sizes.push((own.connections(), own.number()));
        for _ in 0..INDEXES {
            if zones.index(self.next).is_none() {
                self.next = 1;
            }
            sizes.extend(size(self.next));
            self.next += 1;
        }
        sizes.sort_unstable_by_key(|&size| Reverse(size));
        let mut found = ArrayVec::new();
        for size in sizes {
            if found.len() < LARGEST && found.last() != Some(&size) {
                found.push(size);
            }
        }
        self.largest.extend(found.iter().map(|&(_, number)| number));
        if !self.largest.contains(&own.number()) {
            found.push((own.connections(), own.number()));
        }
        found
    }
}
