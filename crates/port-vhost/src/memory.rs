//! The memory of a guest, as its front-end shares it: regions of files, each at a place in the guest's physical
//! address space and at one in the front-end's own.
//!
//! The guest changes this memory at any time. Each access is checked and copies: no reference into it exists.

use crate::dirty_log::DirtyLog;
use crate::fault::Fault;
use crate::mapping::Mapping;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use vm_memory::VolatileSlice;

/// Maximum number of regions (vhost-user, `VHOST_USER_GET_MAX_MEM_SLOTS`): as QEMU may use for hot-plugged
/// memory.
pub const REGIONS_MAX: usize = 509;
/// Where a region is, as the front-end describes it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RegionPlace {
    /// Its first guest physical address.
    pub guest: u64,
    /// Its length in bytes.
    pub length: u64,
    /// Its first address in the front-end.
    pub user: u64,
    /// Its offset in the file, in bytes.
    pub offset: u64,
}

/// A mapped region.
#[derive(Debug)]
pub struct Region {
    place: RegionPlace,
    mapping: Mapping,
}

/// Part of a region: within it by construction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Segment {
    region: u32,
    length: u32,
    offset: usize,
}

/// All of a guest's memory, in the order of its addresses. It does not change; a new table replaces it.
#[derive(Clone, Debug, Default)]
pub struct GuestMemory {
    regions: Vec<Arc<Region>>,
    log: Option<Arc<DirtyLog>>,
}

impl Region {
    /// Maps a region.
    ///
    /// # Errors
    /// The place wraps, or the file cannot be mapped there.
    pub fn map(place: RegionPlace, file: OwnedFd) -> Result<Region, Fault> {
        let fits = place.guest.checked_add(place.length).is_some()
            && place.user.checked_add(place.length).is_some();
        if !fits {
            return Err(Fault::protocol("a region's addresses wrap"));
        }
        let mapping = Mapping::new("a region", file, place.offset, place.length)?;
        Ok(Region { place, mapping })
    }

    /// A region without a file, for tests.
    #[cfg(any(test, feature = "fuzzing"))]
    pub fn anonymous(place: RegionPlace) -> Region {
        Region { place, mapping: Mapping::anonymous(place.length as usize) }
    }

    /// Where it is.
    pub fn place(&self) -> RegionPlace {
        self.place
    }
}

impl GuestMemory {
    /// Memory of these regions.
    ///
    /// # Errors
    /// Two of them overlap, or they are too many.
    pub fn new(mut regions: Vec<Arc<Region>>) -> Result<GuestMemory, Fault> {
        if regions.len() > REGIONS_MAX {
            return Err(Fault::protocol(format!("more than {REGIONS_MAX} regions")));
        }
        regions.sort_by_key(|region| region.place.guest);
        let overlap =
            |pair: &[Arc<Region>]| pair[1].place.guest - pair[0].place.guest < pair[0].place.length;
        if regions.windows(2).any(overlap) {
            return Err(Fault::protocol("two regions overlap"));
        }
        Ok(GuestMemory { regions, log: None })
    }

    /// Its regions.
    pub fn regions(&self) -> &[Arc<Region>] {
        &self.regions
    }

    /// The same memory, with writes logged or not.
    #[must_use]
    pub fn with_log(&self, log: Option<Arc<DirtyLog>>) -> GuestMemory {
        GuestMemory { regions: self.regions.clone(), log }
    }

    /// Whether a file became shorter.
    #[inline]
    pub fn is_torn(&self) -> bool {
        self.regions.iter().any(|region| region.mapping.is_torn())
            || self.log.as_ref().is_some_and(|log| log.is_torn())
    }

    /// Returns the first part of `length` bytes at a guest physical address: up to its region's end.
    #[inline]
    pub fn find(&self, guest: u64, length: u32) -> Option<Segment> {
        let after = self.regions.partition_point(|region| region.place.guest <= guest);
        let number = after.checked_sub(1)?;
        let place = &self.regions.get(number)?.place;
        let offset = guest - place.guest;
        (offset < place.length).then(|| Segment {
            region: number as u32,
            length: u64::from(length).min(place.length - offset) as u32,
            offset: offset as usize,
        })
    }

    /// Returns all of `length` bytes at an address of the front-end, if they are in one region and aligned.
    pub fn find_user(&self, user: u64, length: u32, alignment: usize) -> Option<Segment> {
        self.regions.iter().enumerate().find_map(|(number, region)| {
            let offset = user.wrapping_sub(region.place.user);
            let is_inside =
                offset < region.place.length && u64::from(length) <= region.place.length - offset;
            let offset = is_inside.then_some(offset as usize)?;
            let is_aligned = region.mapping.is_aligned(offset, alignment);
            is_aligned.then_some(Segment { region: number as u32, length, offset })
        })
    }

    /// Access to a part.
    #[inline]
    pub fn slice(&self, segment: Segment) -> Option<VolatileSlice<'_>> {
        let region = self.regions.get(segment.region as usize)?;
        region.mapping.slice(segment.offset, segment.length as usize)
    }

    /// Logs a write of `length` bytes at `offset` of a part, if writes are logged.
    #[inline]
    pub fn log_write(&self, segment: Segment, offset: usize, length: usize) {
        if let Some(log) = &self.log {
            self.log_in(log, segment, offset, length);
        }
    }

    #[cold]
    fn log_in(&self, log: &DirtyLog, segment: Segment, offset: usize, length: usize) {
        if let Some(region) = self.regions.get(segment.region as usize) {
            log.mark(region.place.guest + (segment.offset + offset) as u64, length as u64);
        }
    }
}

impl Segment {
    /// Its length in bytes.
    #[inline]
    pub fn len(self) -> usize {
        self.length as usize
    }
}
