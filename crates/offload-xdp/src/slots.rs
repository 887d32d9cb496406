//! The connections' slots, which the program and this process share: a map of the kernel's, mapped into
//! memory, so that counters are read and rules are ended without a system call.

use crate::layout::{ENDED, GENERATION, LARGE_NS, PACKETS_BITS, SLOT_WORDS, TRAFFIC, USED_NS};
use flow::OffloadTraffic;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::io;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// All slots.
#[derive(Debug)]
pub(crate) struct Slots {
    start: NonNull<AtomicU64>,
    count: usize,
}

// SAFETY: the memory is shared with the kernel's program in any case, and consists of atomic words.
unsafe impl Send for Slots {}

impl Slots {
    /// Maps those of an array map that may be mapped, of so many slots.
    pub fn map(array: BorrowedFd<'_>, count: usize) -> io::Result<Slots> {
        let bytes = count * SLOT_WORDS * 8;
        // SAFETY: a new mapping at a place of the kernel's choice; it has `bytes` bytes, for the map has
        // `count` values of eight words. Both the program and this process only use atomic or single
        // aligned accesses of whole words, so that they may be atomics here.
        let start = unsafe {
            mmap(
                std::ptr::null_mut(),
                bytes,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED,
                array,
                0,
            )?
        };
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Slots { start, count })
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.count
    }

    fn word(&self, slot: u32, word: usize) -> &AtomicU64 {
        let at = slot as usize * SLOT_WORDS + word;
        assert!(at < self.count * SLOT_WORDS, "slot {slot} of {}", self.count);
        // SAFETY: within the mapping, which lives as long as `self`.
        unsafe { self.start.add(at).as_ref() }
    }

    /// Begins a connection whose rules have this generation, which is not 0.
    pub fn begin(&self, slot: u32, generation: u64) {
        self.word(slot, ENDED).store(0, Relaxed);
        self.word(slot, USED_NS).store(0, Relaxed);
        for direction in 0..2 {
            self.word(slot, LARGE_NS + direction).store(0, Relaxed);
        }
        self.word(slot, GENERATION).store(generation, Release);
    }

    /// From now on no packet is forwarded by the slot's rules.
    pub fn end(&self, slot: u32) {
        self.word(slot, GENERATION).store(0, Release);
    }

    /// Whether the program saw the connection of this generation end.
    pub fn is_ended(&self, slot: u32, generation: u64) -> bool {
        self.word(slot, ENDED).load(Acquire) == generation
    }

    /// The word of traffic in a direction.
    pub fn traffic(&self, slot: u32, direction: usize) -> u64 {
        self.word(slot, TRAFFIC + (direction & 1)).load(Relaxed)
    }
}

impl Drop for Slots {
    fn drop(&mut self) {
        // SAFETY: what was mapped, and no reference into it outlives `self`. It cannot fail for a mapping
        // that is there.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.count * SLOT_WORDS * 8) };
    }
}

/// What passed between two readings of a word of traffic.
pub(crate) fn between(before: u64, after: u64) -> OffloadTraffic {
    // The word is bytes * 2^24 + packets; no more than 2^24 packets come between two readings.
    let difference = after.wrapping_sub(before);
    let packets = difference & ((1 << PACKETS_BITS) - 1);
    OffloadTraffic { packets, bytes: difference >> PACKETS_BITS }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traffic_between_readings_is_right_where_parts_overflow() {
        let cases = [
            (0, 1, 60),
            (0xff_fffe, 5, 9000),
            (u64::MAX - 3, 1000, 64),
            (u64::MAX << 24, 3, 1 << 30),
        ];
        for (before, packets, frame_bytes) in cases {
            let after = (0..packets)
                .fold(before, |word: u64, _| word.wrapping_add(frame_bytes << PACKETS_BITS | 1));
            let expect = OffloadTraffic { packets, bytes: packets * frame_bytes };
            assert_eq!(between(before, after), expect, "from {before:#x}");
        }
    }
}
