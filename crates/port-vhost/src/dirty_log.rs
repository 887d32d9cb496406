//! The log of a migration: one bit for each page of 4 KiB that the switch wrote.

use crate::fault::Fault;
use crate::mapping::Mapping;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use vm_memory::VolatileMemory;

/// Bytes of guest memory for each bit (vhost-user, "Migration").
const PAGE_BYTES: u64 = 4096;

/// A log that the front-end reads and clears.
#[derive(Debug)]
pub struct DirtyLog {
    mapping: Mapping,
    /// Its length in words of 64 bits.
    words: usize,
}

impl DirtyLog {
    /// Maps `size` bytes at `offset` of a file.
    ///
    /// # Errors
    /// The place is not one of whole words, or the file cannot be mapped there.
    pub fn map(file: OwnedFd, offset: u64, size: u64) -> Result<DirtyLog, Fault> {
        if size < 8 || !offset.is_multiple_of(8) {
            return Err(Fault::protocol(format!("the log has {size} bytes at {offset}")));
        }
        let mapping = Mapping::new("the log", file, offset, size)?;
        Ok(DirtyLog { mapping, words: (size / 8) as usize })
    }

    /// Marks the pages of some bytes of guest memory. Pages beyond the log are not marked.
    pub fn mark(&self, guest: u64, length: u64) {
        let last = guest.saturating_add(length.saturating_sub(1)) / PAGE_BYTES;
        for page in guest / PAGE_BYTES..=last {
            let Some(word) = usize::try_from(page / 64).ok().filter(|word| *word < self.words)
            else {
                return;
            };
            let Some(place) = self.mapping.slice(word * 8, 8) else { return };
            if let Ok(bits) = place.get_atomic_ref::<AtomicU64>(0) {
                bits.fetch_or(1 << (page % 64), Ordering::Relaxed);
            }
        }
    }

    /// Whether its file became shorter.
    pub fn is_torn(&self) -> bool {
        self.mapping.is_torn()
    }
}
