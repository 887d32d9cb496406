//! Going through all records as they lie in memory, whatever zone they belong to.
//!
//! Who goes by the indexes waits for a record here and a record there; in their own order the next ones
//! have come before they are asked for. What lies there may be anybody's: free, about to be begun, or
//! of a flushed zone. So what seems to fit must be [indexed](Connections::is_indexed), and be looked at
//! again after that.

use super::{Connections, V6};
use crate::key::Family;
use crate::record::Record;
use std::sync::atomic::Ordering::Relaxed;
use table::{Guard, Id};

/// Records that one part looks at.
const PART: u32 = 1024;
/// How many records before its turn one is fetched.
const AHEAD: u32 = 16;

/// Where to go on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    family: Family,
    number: u32,
}

impl Place {
    pub const START: Place = Place { family: Family::V4, number: 1 };
}

impl Connections {
    /// Shows the ids of records that live, or seem to, and says where to go on.
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
            // One behind the last that was handed out may never have been made.
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

    /// The largest number of a record that was ever handed out.
    pub fn highest(&self, family: Family) -> u32 {
        let at = usize::from(family == Family::V6);
        let highest = self.used_shards().iter().map(|shard| shard.highest[at].load(Relaxed));
        highest.max().unwrap_or_default()
    }
}
