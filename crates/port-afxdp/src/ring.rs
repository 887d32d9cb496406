//! Rings shared with the kernel: one side adds descriptors, the other removes them (Linux:
//! `Documentation/networking/af_xdp.rst`, `net/xdp/xsk_queue.h`).
//!
//! Positions count up and wrap at 2³²; their difference is the number of descriptors in the ring.

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use rustix::net::xdp::{XdpRingFlags, XdpRingOffset};
use std::io;
use std::marker::PhantomData;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

/// A ring that this process fills and the kernel empties.
#[derive(Debug)]
pub(crate) struct Producer<T> {
    ring: Ring<T>,
    /// Position of the next descriptor; the kernel sees it after `submit`.
    next: u32,
    /// The kernel's position when it was last read.
    seen: u32,
}

/// A ring that the kernel fills and this process empties.
#[derive(Debug)]
pub(crate) struct Consumer<T> {
    ring: Ring<T>,
    /// Position of the next descriptor to take; the kernel may reuse its entry after `release`.
    next: u32,
    /// The kernel's position when it was last read.
    seen: u32,
}

impl<T: Copy> Producer<T> {
    /// Maps a socket's ring of `entries`, a power of two, at `offset`.
    ///
    /// # Safety
    /// `at` and `offset` are the kernel's for this ring of `socket`, which has `entries` descriptors of type
    /// `T`; no other value maps it.
    pub(crate) unsafe fn map(
        socket: BorrowedFd<'_>,
        offset: u64,
        at: &XdpRingOffset,
        entries: u32,
    ) -> io::Result<Self> {
        // SAFETY: the caller guarantees what `Ring::map` requires.
        let ring = unsafe { Ring::map(socket, offset, at, entries)? };
        let (next, seen) = (ring.producer().load(Ordering::Relaxed), ring.consumer_seen());
        Ok(Producer { ring, next, seen })
    }

    /// Adds a descriptor. Returns false if the ring is full.
    #[must_use]
    pub(crate) fn push(&mut self, descriptor: T) -> bool {
        if self.next.wrapping_sub(self.seen) >= self.ring.entries {
            self.seen = self.ring.consumer_seen();
            if self.next.wrapping_sub(self.seen) >= self.ring.entries {
                return false;
            }
        }
        // SAFETY: the entry is within the ring, and the kernel does not read it before `submit`: it has read
        // all up to `seen`, and the distance is less than a whole ring.
        unsafe { self.ring.place(self.next).write_volatile(descriptor) };
        self.next = self.next.wrapping_add(1);
        true
    }

    /// Makes added descriptors visible to the kernel.
    pub(crate) fn submit(&mut self) {
        self.ring.producer().store(self.next, Ordering::Release);
    }

    /// Returns the number of descriptors that the kernel has not taken yet.
    pub(crate) fn waiting(&mut self) -> u32 {
        self.seen = self.ring.consumer_seen();
        self.next.wrapping_sub(self.seen)
    }

    /// Returns whether the kernel must be called to process the ring.
    pub(crate) fn needs_wakeup(&self) -> bool {
        self.ring.flags().is_some_and(|flags| {
            flags.load(Ordering::Relaxed) & XdpRingFlags::XDP_RING_NEED_WAKEUP.bits() != 0
        })
    }
}

impl<T: Copy> Consumer<T> {
    /// As [`Producer::map`].
    ///
    /// # Safety
    /// As [`Producer::map`].
    pub(crate) unsafe fn map(
        socket: BorrowedFd<'_>,
        offset: u64,
        at: &XdpRingOffset,
        entries: u32,
    ) -> io::Result<Self> {
        // SAFETY: the caller guarantees what `Ring::map` requires.
        let ring = unsafe { Ring::map(socket, offset, at, entries)? };
        let next = ring.consumer().load(Ordering::Relaxed);
        Ok(Consumer { ring, next, seen: next })
    }

    /// Takes the oldest descriptor.
    pub(crate) fn pop(&mut self) -> Option<T> {
        if self.next == self.seen {
            self.seen = self.ring.producer().load(Ordering::Acquire);
            if self.next == self.seen {
                return None;
            }
        }
        // SAFETY: the entry is within the ring, and the kernel has written it: `seen` was read with acquire
        // order. The kernel writes it again only after `release`.
        let descriptor = unsafe { self.ring.place(self.next).read_volatile() };
        self.next = self.next.wrapping_add(1);
        Some(descriptor)
    }

    /// Returns the entries of taken descriptors to the kernel.
    pub(crate) fn release(&mut self) {
        self.ring.consumer().store(self.next, Ordering::Release);
    }
}

/// A mapped ring.
#[derive(Debug)]
struct Ring<T> {
    start: NonNull<u8>,
    bytes: usize,
    producer_at: usize,
    consumer_at: usize,
    flags_at: Option<usize>,
    descriptors_at: usize,
    entries: u32,
    _descriptors: PhantomData<T>,
}

// SAFETY: the memory belongs to the process and not to a thread, and one value owns one side of the ring.
unsafe impl<T: Send> Send for Ring<T> {}

impl<T: Copy> Ring<T> {
    /// # Safety
    /// As [`Producer::map`].
    unsafe fn map(
        socket: BorrowedFd<'_>,
        offset: u64,
        at: &XdpRingOffset,
        entries: u32,
    ) -> io::Result<Self> {
        let bytes = at.desc as usize + entries as usize * size_of::<T>();
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::SHARED | MapFlags::POPULATE;
        // SAFETY: a new mapping at an address that the kernel chooses replaces no other.
        let start =
            unsafe { mmap(std::ptr::null_mut(), bytes, protection, flags, socket, offset)? };
        let start =
            NonNull::new(start.cast()).ok_or_else(|| io::Error::from_raw_os_error(libc::ENOMEM))?;
        Ok(Ring {
            start,
            bytes,
            producer_at: at.producer as usize,
            consumer_at: at.consumer as usize,
            flags_at: at.flags.map(|at| at as usize),
            descriptors_at: at.desc as usize,
            entries,
            _descriptors: PhantomData,
        })
    }

    fn producer(&self) -> &AtomicU32 {
        // SAFETY: the kernel placed an aligned counter there, within the mapping, which lives as long as
        // `self`; both sides access it only as an atomic.
        unsafe { AtomicU32::from_ptr(self.start.as_ptr().add(self.producer_at).cast()) }
    }

    fn consumer(&self) -> &AtomicU32 {
        // SAFETY: as for `producer`.
        unsafe { AtomicU32::from_ptr(self.start.as_ptr().add(self.consumer_at).cast()) }
    }

    fn flags(&self) -> Option<&AtomicU32> {
        // SAFETY: as for `producer`.
        Some(unsafe { AtomicU32::from_ptr(self.start.as_ptr().add(self.flags_at?).cast()) })
    }

    fn consumer_seen(&self) -> u32 {
        self.consumer().load(Ordering::Acquire)
    }

    /// Returns the address of a position's descriptor, which is always within the mapping.
    fn place(&self, position: u32) -> *mut T {
        let index = (position & (self.entries - 1)) as usize;
        let at = self.descriptors_at + index * size_of::<T>();
        // SAFETY: the mapping was made for `entries` descriptors from `descriptors_at`.
        unsafe { self.start.as_ptr().add(at).cast() }
    }
}

impl<T> Drop for Ring<T> {
    fn drop(&mut self) {
        // SAFETY: this value owns the mapping, and no reference into it outlives the value.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
    use std::os::fd::AsFd;

    /// Returns both sides of a ring in memory that is not shared with the kernel.
    fn pair(entries: u32, start: u32) -> (Producer<u64>, Consumer<u64>) {
        let file = memfd_create("ring", MemfdFlags::CLOEXEC).unwrap();
        ftruncate(&file, 65_536).unwrap();
        let positions = [start.to_ne_bytes(), start.to_ne_bytes()].concat();
        rustix::io::pwrite(&file, &positions, 0).unwrap();
        let at = XdpRingOffset { producer: 0, consumer: 4, desc: 64, flags: Some(8) };
        // SAFETY: the test defines the layout, and the file is large enough for it; each side maps it once.
        unsafe {
            let producer = Producer::map(file.as_fd(), 0, &at, entries).unwrap();
            (producer, Consumer::map(file.as_fd(), 0, &at, entries).unwrap())
        }
    }

    #[test]
    fn descriptors_go_round_in_order_also_where_positions_wrap() {
        for start in [0, u32::MAX - 5] {
            let (mut producer, mut consumer) = pair(8, start);
            let (mut sent, mut received) = (0, 0);
            for round in 0..100 {
                while producer.push(sent) {
                    sent += 1;
                }
                assert_eq!(consumer.pop(), None, "nothing was submitted");
                producer.submit();
                assert_eq!(producer.waiting(), 8, "round {round} from {start}");
                for _ in 0..=round % 8 {
                    assert_eq!(consumer.pop(), Some(received));
                    received += 1;
                }
                assert!(!producer.push(sent), "nothing was released");
                consumer.release();
                // The rest is taken too, so that every round starts with an empty ring.
                while let Some(descriptor) = consumer.pop() {
                    assert_eq!(descriptor, received);
                    received += 1;
                }
                consumer.release();
                assert_eq!(sent, received);
            }
        }
    }

    #[test]
    fn the_kernel_says_when_it_wants_to_be_called() {
        let (producer, _consumer) = pair(8, 0);
        assert!(!producer.needs_wakeup());
        producer.ring.flags().unwrap().store(1, Ordering::Relaxed);
        assert!(producer.needs_wakeup());
    }
}
