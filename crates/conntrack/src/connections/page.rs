//! Visits all connections, part by part.

use super::Connections;
use crate::management::cursor::Cursor;
use crate::record::Record;
use base::Zone;
use table::{Guard, Id, Index};

/// Buckets that one part of a dump or flush visits.
const PAGE_BUCKETS: usize = 128;
/// Zones without a possible match that one part skips, at most.
const PAGE_ZONES: usize = 128;

impl Connections {
    /// Visits the connections in some buckets of one zone's index, or of all zones in turn, and
    /// returns where the next part begins. At the start of a zone, `may_hold` tells whether it can
    /// have matches. Takes no lock; a visited record may be dead.
    pub fn page(
        &self,
        guard: &Guard<'_>,
        zone: Option<Zone>,
        cursor: Cursor,
        may_hold: impl Fn(&Index) -> bool,
        mut show: impl FnMut(Id, &Record<'_>),
    ) -> Option<Cursor> {
        let (mut at, mut passed_over) = (cursor.zone, 0);
        let index = loop {
            at = match zone {
                Some(zone) => zone.0,
                None => (at..=u16::MAX).find(|&zone| self.zones.number(zone) != 0)?,
            };
            let is_amid = at == cursor.zone && cursor.bucket != 0;
            match self.zones.get(guard, at) {
                Some(index) if is_amid || may_hold(index) => break index,
                _ if zone.is_some() => return None,
                _ => at = at.checked_add(1)?,
            }
            passed_over += 1;
            if passed_over == PAGE_ZONES {
                return Some(Cursor { zone: at, bucket: 0 });
            }
        };
        let bucket = if at == cursor.zone || zone.is_some() { cursor.bucket } else { 0 };
        let mut ids = Vec::new();
        let next = index.walk(bucket, PAGE_BUCKETS, |entry| {
            // A connection with NAT has two entries.
            if Connections::is_original_entry(entry) {
                self.fetch(entry);
                ids.push(entry);
            }
        });
        // Records are scattered in memory; the first prefetches are complete by now.
        for id in ids {
            show(id, &self.record(id));
        }
        match (next, zone) {
            (Some(bucket), _) => Some(Cursor { zone: at, bucket }),
            (None, Some(_)) => None,
            (None, None) => Some(Cursor { zone: at.checked_add(1)?, bucket: 0 }),
        }
    }
}
