//! The memory of frames, shared with the kernel (UMEM).

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use std::io;
use std::ptr::NonNull;

/// Room that the kernel reserves before a received frame (Linux: `XDP_PACKET_HEADROOM`).
const HEADROOM_BYTES: u32 = 256;

/// The size of a frame's buffer: smaller ones need less of the processor's caches and of the memory that may
/// be locked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Chunk {
    /// 2,048 bytes, for frames up to the usual Internet MTU.
    Small,
    /// 4,096 bytes: a page, the kernel's maximum.
    Large,
}

impl Chunk {
    /// Returns the buffer size for frames of up to `bytes`; `None` if they are too long.
    pub(crate) fn for_frames(bytes: u32) -> Option<Chunk> {
        [Chunk::Small, Chunk::Large].into_iter().find(|chunk| bytes <= chunk.frame_bytes_max())
    }

    /// Returns its size in bytes.
    pub(crate) fn bytes(self) -> u32 {
        match self {
            Chunk::Small => 2048,
            Chunk::Large => 4096,
        }
    }

    /// Returns the longest frame that can be received into it.
    pub(crate) fn frame_bytes_max(self) -> u32 {
        self.bytes() - HEADROOM_BYTES
    }
}

/// Buffers for frames, by their offset from the start. Each belongs to the kernel, or to the receiving or
/// sending half of a queue; the rings transfer ownership.
#[derive(Debug)]
pub(crate) struct Umem {
    start: NonNull<u8>,
    bytes: usize,
    chunk: Chunk,
}

// SAFETY: the memory belongs to the process and not to a thread; the callers ensure which thread accesses
// which frame, as stated at each method, by the rings that they own.
unsafe impl Send for Umem {}
// SAFETY: as above; two threads never hold the same frame.
unsafe impl Sync for Umem {}

impl Umem {
    /// Maps zeroed memory for this number of frames.
    pub(crate) fn new(frames: u32, chunk: Chunk) -> io::Result<Umem> {
        let bytes = frames as usize * chunk.bytes() as usize;
        // SAFETY: a new mapping at an address that the kernel chooses replaces no other.
        let start = unsafe {
            mmap_anonymous(
                std::ptr::null_mut(),
                bytes,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE | MapFlags::POPULATE,
            )?
        };
        let start =
            NonNull::new(start.cast()).ok_or_else(|| io::Error::from_raw_os_error(libc::ENOMEM))?;
        Ok(Umem { start, bytes, chunk })
    }

    /// Returns its address, for the kernel.
    pub(crate) fn address(&self) -> u64 {
        self.start.as_ptr() as u64
    }

    /// Returns its size.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes as u64
    }

    /// Returns the size of a frame's buffer.
    pub(crate) fn chunk_bytes(&self) -> u32 {
        self.chunk.bytes()
    }

    /// Copies a received frame. Returns the number of bytes, which is zero if the descriptor points outside
    /// of the memory.
    ///
    /// # Safety
    /// The caller owns the frame: its descriptor was taken from the receive ring, and it has not been
    /// returned to the fill ring.
    pub(crate) unsafe fn read(&self, address: u64, len: u32, into: &mut [u8]) -> usize {
        let len = (len as usize).min(into.len());
        if !self.contains(address, len) {
            return 0;
        }
        // SAFETY: the source is within the mapping, as was just checked, and the caller guarantees that no
        // thread writes it; the destination is a slice of at least `len` bytes, and no safe reference into
        // the mapping exists that it could overlap.
        unsafe {
            let from = self.start.as_ptr().add(address as usize);
            std::ptr::copy_nonoverlapping(from, into.as_mut_ptr(), len);
        }
        len
    }

    /// Copies a frame into its buffer. Returns whether it fits.
    ///
    /// # Safety
    /// The caller owns the frame: it was never sent, or was returned through the completion ring.
    pub(crate) unsafe fn write(&self, address: u64, from: &[u8]) -> bool {
        if from.len() > self.chunk_bytes() as usize || !self.contains(address, from.len()) {
            return false;
        }
        // SAFETY: the destination is within the mapping, as was just checked, and the caller guarantees that
        // no other thread accesses it; the source is a slice.
        unsafe {
            let to = self.start.as_ptr().add(address as usize);
            std::ptr::copy_nonoverlapping(from.as_ptr(), to, from.len());
        }
        true
    }

    fn contains(&self, address: u64, len: usize) -> bool {
        usize::try_from(address)
            .ok()
            .and_then(|start| start.checked_add(len))
            .is_some_and(|end| end <= self.bytes)
    }
}

impl Drop for Umem {
    fn drop(&mut self) {
        // SAFETY: this value owns the mapping, and nothing refers to it any more: the kernel keeps the pages
        // themselves while a socket uses them.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_have_places_up_to_a_page() {
        for (bytes, expect) in [
            (60, Some(Chunk::Small)),
            (1792, Some(Chunk::Small)),
            (1793, Some(Chunk::Large)),
            (3840, Some(Chunk::Large)),
            (3841, None),
        ] {
            assert_eq!(Chunk::for_frames(bytes), expect, "{bytes} bytes");
        }
    }

    #[test]
    fn what_points_outside_is_not_touched() {
        let umem = Umem::new(2, Chunk::Small).unwrap();
        let end = u64::from(umem.chunk_bytes()) * 2;
        for (address, len, fits) in [
            (0, 10, true),
            (end - 10, 10, true),
            (end - 9, 10, false),
            (end, 1, false),
            (u64::MAX, 1, false),
            (0, umem.chunk_bytes() as usize + 1, false),
        ] {
            let bytes = vec![7; len];
            // SAFETY: this memory is not shared with the kernel.
            assert_eq!(unsafe { umem.write(address, &bytes) }, fits, "{address} + {len}");
            let mut back = vec![0; len];
            if fits {
                // SAFETY: as above.
                assert_eq!(unsafe { umem.read(address, len as u32, &mut back) }, len);
                assert_eq!(back, bytes);
            }
        }
        let mut back = [1; 4];
        // SAFETY: as above.
        assert_eq!(unsafe { umem.read(end - 3, 4, &mut back) }, 0);
        // SAFETY: as above. A frame longer than the room is truncated.
        assert_eq!(unsafe { umem.read(0, 4096, &mut back) }, 4);
    }
}
