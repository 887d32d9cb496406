//! Going through all connections, part by part.

use super::Connections;
use crate::cursor::Cursor;
use crate::record::Record;
use base::Zone;
use table::{Guard, Id, Index};

/// Buckets of an index that one part of a dump or flush looks at.
const PAGE_BUCKETS: usize = 128;
/// Zones in whose index one part finds that there is nothing to look for.
const PAGE_ZONES: usize = 128;

impl Connections {
    /// Shows what stands in some buckets of one zone's index, or of all zones one after the other,
    /// and says where to go on. Where a zone begins, `may_hold` says whether there can be anything to
    /// look for. Nothing is locked; what is shown may be dead.
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
            // A translated connection stands there twice.
            if Connections::is_original_entry(entry) {
                self.fetch(entry);
                ids.push(entry);
            }
        });
        // Records lie all over the memory: by now the first ones have come.
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
