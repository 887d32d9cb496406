//! Descriptor chains: from descriptors, each read once, to checked parts of the guest's memory.

use crate::fault::RingFault;
use crate::memory::{GuestMemory, Segment};
use vm_memory::VolatileSlice;

/// Maximum number of descriptors of a chain. A packet of 64 KiB in pages of 4 KiB needs 18; the limit is that of
/// Linux's own back-end (`UIO_MAXIOV`).
pub const DESCRIPTORS_MAX: usize = 1024;
/// Maximum number of segments of one packet's chains.
const SEGMENTS_MAX: usize = 2 * DESCRIPTORS_MAX;
/// Bytes of a descriptor, in both kinds of rings.
pub const DESCRIPTOR_BYTES: usize = 16;

/// Flags of descriptors (VIRTIO 1.2 sections 2.7.5 and 2.8.13).
pub const NEXT: u16 = 1;
pub const WRITE: u16 = 2;
pub const INDIRECT: u16 = 4;

/// Who reads the buffers of a ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// The switch: the guest sends.
    Read,
    /// The guest: the switch sends.
    Write,
}

/// A chain that was taken from a ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Taken {
    /// By which the guest recognises it: the number of its first descriptor, or its buffer id.
    pub id: u16,
    /// Entries of a packed ring that it occupies.
    pub entries: u16,
    /// Descriptors that were read, those of an indirect table included.
    pub descriptors: u16,
    /// Bytes in its buffers.
    pub bytes: u64,
}

/// The parts of memory of one packet's chains, in order. Its own memory is bounded.
#[derive(Debug, Default)]
pub struct Segments(Vec<Segment>);

impl Segments {
    /// Removes all.
    #[inline]
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Returns whether no further chain should be added.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.0.len() >= DESCRIPTORS_MAX
    }

    /// Adds a descriptor's memory, which may cross the borders of adjacent regions.
    #[inline]
    fn add(&mut self, memory: &GuestMemory, address: u64, length: u32) -> Result<(), RingFault> {
        let (mut address, mut left) = (address, length);
        while left > 0 {
            let part = memory.find(address, left).ok_or(RingFault::Address(address))?;
            if self.0.len() >= SEGMENTS_MAX {
                return Err(RingFault::Long);
            }
            self.0.push(part);
            left -= part.len() as u32;
            address = address.wrapping_add(part.len() as u64);
        }
        Ok(())
    }
}

/// A descriptor, copied from the guest's memory. The fields of a packed ring have another order.
#[derive(Clone, Copy)]
pub struct Descriptor {
    pub address: u64,
    pub length: u32,
    pub flags: u16,
    /// The next descriptor's number; of a packed ring, the buffer id.
    pub link: u16,
}

impl Descriptor {
    /// Reads entry `at` of a table that has it.
    #[inline]
    pub fn read(table: &VolatileSlice<'_>, at: usize, is_packed: bool) -> Option<Descriptor> {
        let mut bytes = [0; DESCRIPTOR_BYTES];
        let place = table.subslice(at * DESCRIPTOR_BYTES, DESCRIPTOR_BYTES).ok()?;
        place.copy_to(&mut bytes);
        let [a0, a1, a2, a3, a4, a5, a6, a7, l0, l1, l2, l3, x0, x1, y0, y1] = bytes;
        let (x, y) = (u16::from_le_bytes([x0, x1]), u16::from_le_bytes([y0, y1]));
        let (flags, link) = if is_packed { (y, x) } else { (x, y) };
        Some(Descriptor {
            address: u64::from_le_bytes([a0, a1, a2, a3, a4, a5, a6, a7]),
            length: u32::from_le_bytes([l0, l1, l2, l3]),
            flags,
            link,
        })
    }
}

/// A chain while it is walked.
pub struct Walk<'a> {
    pub memory: &'a GuestMemory,
    pub segments: &'a mut Segments,
    pub access: Access,
    /// Whether indirect tables were negotiated.
    pub may_be_indirect: bool,
    pub bytes: u64,
    pub descriptors: usize,
}

impl<'a> Walk<'a> {
    /// Adds a descriptor that has a buffer.
    #[inline]
    pub fn add(&mut self, descriptor: &Descriptor) -> Result<(), RingFault> {
        self.count()?;
        if (descriptor.flags & WRITE != 0) != (self.access == Access::Write) {
            return Err(RingFault::Direction);
        }
        self.bytes += u64::from(descriptor.length);
        self.segments.add(self.memory, descriptor.address, descriptor.length)
    }

    #[inline]
    fn count(&mut self) -> Result<(), RingFault> {
        self.descriptors += 1;
        if self.descriptors > DESCRIPTORS_MAX { Err(RingFault::Long) } else { Ok(()) }
    }

    /// Returns the table of a descriptor with [`INDIRECT`], and its number of entries.
    pub fn table(
        &mut self,
        descriptor: &Descriptor,
    ) -> Result<(VolatileSlice<'a>, u32), RingFault> {
        self.count()?;
        let (memory, length) = (self.memory, descriptor.length);
        let is_valid = self.may_be_indirect
            && descriptor.flags & NEXT == 0
            && length > 0
            && length.is_multiple_of(DESCRIPTOR_BYTES as u32);
        let table = memory.find(descriptor.address, length).filter(|_| is_valid);
        let table = table.filter(|table| table.len() == length as usize);
        let table = table.and_then(|table| memory.slice(table)).ok_or(RingFault::Indirect)?;
        Ok((table, length / DESCRIPTOR_BYTES as u32))
    }
}

/// A place in segments, from which bytes are copied, or to which.
pub struct Cursor<'a> {
    memory: &'a GuestMemory,
    segments: &'a [Segment],
    /// Bytes of the first segment that are done.
    done: usize,
}

impl<'a> Cursor<'a> {
    /// The first byte.
    #[inline]
    pub fn new(memory: &'a GuestMemory, segments: &'a Segments) -> Cursor<'a> {
        Cursor { memory, segments: &segments.0, done: 0 }
    }

    /// Copies the next bytes. Returns false if there are too few.
    #[inline]
    pub fn read(&mut self, mut out: &mut [u8]) -> bool {
        while !out.is_empty() {
            let Some((part, _, _)) = self.part(out.len()) else { return false };
            let (now, later) = out.split_at_mut(part.len());
            part.copy_to(now);
            out = later;
        }
        true
    }

    /// Copies bytes to the next ones. Returns false if there are too few.
    #[inline]
    pub fn write(&mut self, mut bytes: &[u8]) -> bool {
        while !bytes.is_empty() {
            let Some((part, segment, offset)) = self.part(bytes.len()) else { return false };
            let (now, later) = bytes.split_at(part.len());
            part.copy_from(now);
            self.memory.log_write(segment, offset, now.len());
            bytes = later;
        }
        true
    }

    /// The next part, of at most `most` bytes; with its segment and its offset there.
    #[inline]
    fn part(&mut self, most: usize) -> Option<(VolatileSlice<'a>, Segment, usize)> {
        loop {
            let (segment, rest) = self.segments.split_first()?;
            let (from, left) = (self.done, segment.len().saturating_sub(self.done));
            if left == 0 {
                (self.segments, self.done) = (rest, 0);
                continue;
            }
            let length = left.min(most);
            self.done += length;
            let part = self.memory.slice(*segment)?.subslice(from, length).ok()?;
            return Some((part, *segment, from));
        }
    }
}
