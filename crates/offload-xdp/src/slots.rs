//! The slots of connections, which the program and this process share: a map of the kernel that is mapped
//! into memory, so that reading counters and ending rules needs no system call.

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

// SAFETY: the memory consists of atomic words, which the program in the kernel also accesses concurrently.
unsafe impl Send for Slots {}

impl Slots {
    /// Maps the slots of an array map with `count` entries, which must allow mapping.
    pub fn map(array: BorrowedFd<'_>, count: usize) -> io::Result<Slots> {
        let bytes = count * SLOT_WORDS * 8;
        // SAFETY: the kernel chooses the address of the new mapping. It has `bytes` bytes, since the map has
        // `count` values of eight words. The program and this process only use atomic or single aligned
        // accesses of whole words, so the words may be atomics here.
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

    /// Returns the number of slots.
    pub fn len(&self) -> usize {
        self.count
    }

    fn word(&self, slot: u32, word: usize) -> &AtomicU64 {
        let at = slot as usize * SLOT_WORDS + word;
        assert!(at < self.count * SLOT_WORDS, "slot {slot} of {}", self.count);
        // SAFETY: the word is within the mapping, which lives as long as `self`.
        unsafe { self.start.add(at).as_ref() }
    }

    /// Assigns a slot to a connection whose rules have this generation, which must not be 0.
    pub fn begin(&self, slot: u32, generation: u64) {
        self.word(slot, ENDED).store(0, Relaxed);
        self.word(slot, USED_NS).store(0, Relaxed);
        for direction in 0..2 {
            self.word(slot, LARGE_NS + direction).store(0, Relaxed);
        }
        self.word(slot, GENERATION).store(generation, Release);
    }

    /// Ends the rules of a slot: the program forwards no further packet by them.
    pub fn end(&self, slot: u32) {
        self.word(slot, GENERATION).store(0, Release);
    }

    /// Returns whether the program saw the end of the connection with this generation.
    pub fn is_ended(&self, slot: u32, generation: u64) -> bool {
        self.word(slot, ENDED).load(Acquire) == generation
    }

    /// Returns the word of traffic of a direction.
    pub fn traffic(&self, slot: u32, direction: usize) -> u64 {
        self.word(slot, TRAFFIC + (direction & 1)).load(Relaxed)
    }
}

impl Drop for Slots {
    fn drop(&mut self) {
        // SAFETY: this unmaps the mapping of `map`, and no reference into it outlives `self`. It does not
        // fail for an existing mapping.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.count * SLOT_WORDS * 8) };
    }
}

/// Returns the traffic between two readings of a word of traffic.
pub(crate) fn between(before: u64, after: u64) -> OffloadTraffic {
    // The word is bytes * 2^24 + packets. Fewer than 2^24 packets are forwarded between two readings.
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
