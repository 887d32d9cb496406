//! Part of a file that a front-end shares, mapped into the switch.

use crate::fault::Fault;
use crate::guard::Watch;
use rustix::fs::{FileType, fstat, fstatfs};
use std::fs::File;
use std::os::fd::OwnedFd;
use vm_memory::{FileOffset, MmapRegion, VolatileMemory, VolatileSlice};

/// File systems whose pages another process cannot withhold, by their numbers in `linux/magic.h`: shared memory,
/// huge pages and local disks. A FUSE file system, for example, could make a worker wait for ever.
const FILE_SYSTEMS: [u64; 8] = [
    0x0102_1994, // tmpfs
    0x9584_58f6, // hugetlbfs
    0x8584_58f6, // ramfs
    0xef53,      // ext2 to ext4
    0x5846_5342, // XFS
    0x9123_683e, // Btrfs
    0x794c_7630, // overlayfs
    0x2fc1_2fc1, // ZFS
];

/// Mapped bytes of a file.
#[derive(Debug)]
pub struct Mapping {
    /// Dropped before the memory, since it must not outlive it.
    watch: Option<Watch>,
    memory: MmapRegion,
    /// Where the bytes start in the memory.
    start: usize,
}

impl Mapping {
    /// Maps `length` bytes at `offset` of a file. `what` names them in errors.
    ///
    /// # Errors
    /// The range wraps or is empty; the file is shorter, on another kind of file system, or cannot be mapped.
    pub fn new(what: &str, file: OwnedFd, offset: u64, length: u64) -> Result<Mapping, Fault> {
        let end = offset.checked_add(length).and_then(|end| usize::try_from(end).ok());
        let Some(end) = end.map(|end| end as u64).filter(|_| length > 0) else {
            return Err(Fault::protocol(format!("{what} is empty or wraps")));
        };
        let (file_bytes, page) = check_file(what, &file)?;
        if file_bytes < end {
            return Err(Fault::Memory(format!(
                "the file of {what} has {file_bytes} bytes, not {end}"
            )));
        }
        // From a whole page on; up to a whole huge page, as munmap(2) demands.
        let from = offset - offset % page;
        let whole = (end - from).next_multiple_of(page);
        let size = if from + whole <= file_bytes { whole } else { end - from };
        let file = FileOffset::new(File::from(file), from);
        let failed =
            |error: &dyn std::fmt::Display| Fault::protocol(format!("cannot map {what}: {error}"));
        let memory = MmapRegion::from_file(file, size as usize).map_err(|error| failed(&error))?;
        let watch = Watch::new(memory.as_ptr() as usize, memory.size());
        let watch = Some(watch.map_err(|error| failed(&error))?);
        Ok(Mapping { watch, memory, start: (offset - from) as usize })
    }

    /// Memory without a file, for tests.
    #[cfg(any(test, feature = "fuzzing"))]
    pub fn anonymous(length: usize) -> Mapping {
        let memory = MmapRegion::new(length).expect("memory for a test");
        Mapping { watch: None, memory, start: 0 }
    }

    /// Access to `length` bytes at `offset`, if all are mapped.
    #[inline]
    pub fn slice(&self, offset: usize, length: usize) -> Option<VolatileSlice<'_>> {
        self.memory.get_slice(self.start.checked_add(offset)?, length).ok()
    }

    /// Whether the byte at `offset` has an address with this alignment.
    pub fn is_aligned(&self, offset: usize, alignment: usize) -> bool {
        (self.start + offset).is_multiple_of(alignment)
    }

    /// Whether the file became shorter.
    #[inline]
    pub fn is_torn(&self) -> bool {
        self.watch.as_ref().is_some_and(Watch::is_torn)
    }
}

/// Returns the file's length and the size of its pages, in bytes.
fn check_file(what: &str, file: &OwnedFd) -> Result<(u64, u64), Fault> {
    let failed = |error: rustix::io::Errno| {
        Fault::protocol(format!("cannot examine the file of {what}: {error}"))
    };
    let stat = fstat(file).map_err(failed)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(Fault::protocol(format!(
            "the file of {what} cannot be mapped: it is not a regular file"
        )));
    }
    let system = fstatfs(file).map_err(failed)?.f_type as u64;
    if !FILE_SYSTEMS.contains(&(system & 0xffff_ffff)) {
        return Err(Fault::protocol(format!(
            "the file of {what} is on a file system of type {system:#x}; use shared memory, huge pages or a \
             local disk"
        )));
    }
    let page = u64::try_from(stat.st_blksize).unwrap_or(0);
    // Only that of huge pages matters.
    let page = if page.is_power_of_two() { page.max(4096) } else { 4096 };
    Ok((u64::try_from(stat.st_size).unwrap_or(0), page))
}
