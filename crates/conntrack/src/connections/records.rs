//! Visits all records in the order of memory, regardless of their zone.
//!
//! A visit by way of the indexes misses the cache for each record; in memory order the next records
//! are prefetched. A record may be free, not yet inserted, or of a flushed zone. So a match must be
//! [indexed](Connections::is_indexed) and be checked again after that.

use super::{Connections, V6};
use crate::key::Family;
use crate::record::Record;
use std::sync::atomic::Ordering::Relaxed;
use table::{Guard, Id};

/// Records per part.
const PART: u32 = 1024;
/// Distance in records of the prefetch.
const AHEAD: u32 = 16;

/// The position of a visit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    family: Family,
    number: u32,
}

impl Place {
    pub const START: Place = Place { family: Family::V4, number: 1 };
}

impl Connections {
    /// Visits records that seem to live, and returns where the next part begins.
    pub fn part_of_records(
        &self,
        _guard: &Guard<'_>,
        from: Place,
        mut show: impl FnMut(Id, &Record<'_>),
    ) -> Option<Place> {
        let highest = self.highest(from.family);
        let end = highest.min(from.number.saturating_add(PART - 1));
        let flag = if from.family == Family::V4 { 0 } else { V6 };
        for number in from.number..=end {
            // A record beyond the highest id may not be allocated.
            if number + AHEAD <= highest {
                self.fetch((number + AHEAD) | flag);
            }
            let record = self.record(number | flag);
            if !record.life().is_dead() {
                show(number | flag, &record);
            }
        }
        match from.family {
            _ if end < highest => Some(Place { number: end + 1, ..from }),
            Family::V4 => Some(Place { family: Family::V6, number: 1 }),
            Family::V6 => None,
        }
    }

    /// The largest record number that was ever taken.
    pub fn highest(&self, family: Family) -> u32 {
        let at = usize::from(family == Family::V6);
        let highest = self.used_shards().iter().map(|shard| shard.highest[at].load(Relaxed));
        highest.max().unwrap_or_default()
    }
}
