//! One frame's bytes.

use crate::buffer::{Buffer, Lender};
use crate::offload::{Checksum, Offload};
use std::fmt;
use std::ptr::NonNull;

/// Bytes kept free in front of a received frame, for a VLAN tag or a tunnel header.
pub const HEADROOM: usize = 128;

/// An Ethernet frame in a buffer of its own.
pub struct Packet {
    buffer: Buffer,
    start: u32,
    len: u32,
    /// What is still to be done to the packet.
    pub offload: Offload,
}

impl Packet {
    /// An empty packet that can take up to `capacity` bytes behind [`HEADROOM`].
    pub fn with_capacity(capacity: usize) -> Self {
        Packet {
            buffer: Buffer::zeroed(HEADROOM + capacity),
            start: HEADROOM as u32,
            len: 0,
            offload: Offload::default(),
        }
    }

    /// No packet: has no bytes, no room, and takes no memory. Stands where a packet was taken away.
    pub fn none() -> Self {
        Packet { buffer: Buffer::none(), start: 0, len: 0, offload: Offload::default() }
    }

    /// Takes the packet away and leaves [`Packet::none`].
    #[must_use]
    pub fn take(&mut self) -> Packet {
        std::mem::replace(self, Packet::none())
    }

    /// A packet with these bytes and room for `HEADROOM` in front.
    pub fn from_bytes(frame: &[u8]) -> Self {
        let mut packet = Packet::with_capacity(frame.len());
        packet.buffer[HEADROOM..].copy_from_slice(frame);
        packet.len = frame.len() as u32;
        packet
    }

    /// A packet in a buffer that a driver lends: `len` bytes of frame from `start` on.
    ///
    /// # Safety
    /// There are `room` initialised bytes at `bytes`, which nobody else reads or writes until
    /// `lender` has taken them back, and any thread may use them.
    pub unsafe fn lent(
        bytes: NonNull<u8>,
        room: u16,
        start: u16,
        len: u16,
        lender: &'static Lender,
    ) -> Self {
        // SAFETY: the same is asked of the caller.
        let buffer = unsafe { Buffer::lent(bytes, room.into(), lender) };
        let start = u32::from(start.min(room));
        let len = u32::from(len).min(u32::from(room) - start);
        Packet { buffer, start, len, offload: Offload::default() }
    }

    /// Gives a lent buffer back into the driver's own hands, with where the frame begins in it and
    /// its length; any other packet is handed back as it was. What is not given to
    /// the lender then is lost.
    pub fn into_lent(self, lender: &'static Lender) -> Result<(NonNull<u8>, u16, u16), Packet> {
        let is_its = self.buffer.lender().is_some_and(|has| std::ptr::eq(has, lender));
        if !is_its {
            return Err(self);
        }
        // A lent buffer is no longer than these numbers can say.
        let (start, len) = (self.start as u16, self.len as u16);
        Ok((self.buffer.into_bytes(), start, len))
    }

    /// The frame.
    pub fn data(&self) -> &[u8] {
        &self.buffer[self.start as usize..(self.start + self.len) as usize]
    }

    /// The frame, to be changed in place.
    pub fn data_mut(&mut self) -> &mut [u8] {
        &mut self.buffer[self.start as usize..(self.start + self.len) as usize]
    }

    /// Bytes in the frame.
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// Whether the frame has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// All the room behind the headroom, for a receive call to write into; follow it by
    /// [`Packet::set_received`].
    pub fn receive_area(&mut self) -> &mut [u8] {
        self.buffer.get_mut(HEADROOM..).unwrap_or_default()
    }

    /// Says that a receive call wrote `len` bytes at the start of [`Packet::receive_area`];
    /// more than there is room for counts as the room.
    pub fn set_received(&mut self, len: usize, offload: Offload) {
        let room = self.buffer.len().saturating_sub(HEADROOM);
        self.start = HEADROOM.min(self.buffer.len()) as u32;
        self.len = len.min(room) as u32;
        self.offload = offload;
    }

    /// Replaces the contents; returns false, with the packet emptied, where it is too long.
    pub fn copy_from(&mut self, other: &Packet) -> bool {
        let fits = other.len() <= self.buffer.len().saturating_sub(HEADROOM);
        self.start = HEADROOM.min(self.buffer.len()) as u32;
        self.len = if fits { other.len } else { 0 };
        self.offload = other.offload;
        if fits {
            self.data_mut().copy_from_slice(other.data());
        }
        fits
    }

    /// A copy in a buffer no larger than it needs, for packets that wait.
    pub fn compact_copy(&self) -> Packet {
        let mut copy = Packet::from_bytes(self.data());
        copy.offload = self.offload;
        copy
    }

    /// Opens a gap of `bytes` zero bytes at `at` by moving what stands before it forward into the
    /// headroom. Returns false, changing nothing, where there is no room or `at` is outside.
    #[must_use]
    pub fn insert(&mut self, at: usize, bytes: usize) -> bool {
        if at > self.len() || bytes > self.start as usize {
            return false;
        }
        let start = self.start as usize;
        self.buffer.copy_within(start..start + at, start - bytes);
        self.buffer[start - bytes + at..start + at].fill(0);
        self.start -= bytes as u32;
        self.len += bytes as u32;
        self.move_checksum(at, bytes as i32);
        true
    }

    /// Removes `bytes` bytes at `at` by moving what stands before them back. Returns false,
    /// changing nothing, where they are not all there.
    #[must_use]
    pub fn remove(&mut self, at: usize, bytes: usize) -> bool {
        if at + bytes > self.len() {
            return false;
        }
        let start = self.start as usize;
        self.buffer.copy_within(start..start + at, start + bytes);
        self.start += bytes as u32;
        self.len -= bytes as u32;
        self.move_checksum(at, -(bytes as i32));
        true
    }

    /// Cuts the frame to `len` bytes; a shorter one stays.
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len as u32);
    }

    /// The headers' end moved by `by`, so the checksum's start and the repeated headers do too.
    fn move_checksum(&mut self, at: usize, by: i32) {
        if let Checksum::Partial { start, .. } = &mut self.offload.checksum
            && usize::from(*start) >= at
        {
            *start = (i32::from(*start) + by).clamp(0, i32::from(u16::MAX)) as u16;
        }
        if let Some(gso) = &mut self.offload.gso {
            gso.header_bytes =
                (i32::from(gso.header_bytes) + by).clamp(0, i32::from(u16::MAX)) as u16;
        }
    }
}

impl fmt::Debug for Packet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Packet({} bytes, {:?})", self.len, self.offload)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::offload::{Gso, GsoKind};

    #[test]
    fn insert_and_remove_are_inverse_and_move_the_checksum() {
        let mut packet = Packet::from_bytes(&(0u8..60).collect::<Vec<_>>());
        packet.offload.checksum = Checksum::Partial { start: 34, offset: 16 };
        packet.offload.gso =
            Some(Gso { kind: GsoKind::TcpV4, segment_bytes: 1448, header_bytes: 54, ecn: false });
        assert!(packet.insert(12, 4));
        assert_eq!(packet.len(), 64);
        assert_eq!(&packet.data()[10..18], &[10, 11, 0, 0, 0, 0, 12, 13]);
        assert_eq!(packet.offload.checksum, Checksum::Partial { start: 38, offset: 16 });
        assert_eq!(packet.offload.gso.unwrap().header_bytes, 58);
        assert!(packet.remove(12, 4));
        assert_eq!(packet.data(), (0u8..60).collect::<Vec<_>>());
        assert_eq!(packet.offload.checksum, Checksum::Partial { start: 34, offset: 16 });
    }

    #[test]
    fn lent_buffers_are_taken_back_once() {
        static TAKEN: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        // SAFETY: it is called with what the test lends, once for each.
        unsafe fn take_back(bytes: NonNull<u8>) {
            TAKEN.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            // SAFETY: the test lends boxes of 256 bytes.
            drop(unsafe { Box::from_raw(bytes.cast::<[u8; 256]>().as_ptr()) });
        }
        // SAFETY: it frees what the test lends, and nothing else is lent in its name.
        static LENDER: Lender = unsafe { Lender::new(take_back) };
        // SAFETY: as above, for nothing at all.
        static OTHER: Lender = unsafe { Lender::new(take_back) };
        let lend = || {
            let mut bytes = Box::new([0u8; 256]);
            bytes[128..131].copy_from_slice(&[1, 2, 3]);
            // SAFETY: a box of 256 bytes, given away.
            unsafe { Packet::lent(NonNull::from(Box::leak(bytes)).cast(), 256, 128, 3, &LENDER) }
        };
        let taken = || TAKEN.load(std::sync::atomic::Ordering::Relaxed);
        let mut packet = lend();
        assert_eq!(packet.data(), [1, 2, 3]);
        assert_eq!(packet.receive_area().len(), 128);
        assert!(packet.insert(1, 4) && packet.remove(0, 2));
        assert_eq!(packet.data(), [0, 0, 0, 2, 3]);
        let moved = packet.take();
        drop(packet);
        assert_eq!((moved.len(), taken()), (5, 0));
        let moved = moved.into_lent(&OTHER).unwrap_err();
        crate::Pool::new(4).give(moved);
        assert_eq!(taken(), 1);
        let (bytes, start, len) = lend().into_lent(&LENDER).unwrap();
        assert_eq!((start, len, taken()), (128, 3, 1));
        // SAFETY: it was lent so.
        unsafe { take_back(bytes) };
        assert_eq!(taken(), 2);
        assert!(Packet::from_bytes(&[1]).into_lent(&LENDER).is_err());
    }

    #[test]
    fn what_does_not_fit_changes_nothing() {
        let mut packet = Packet::from_bytes(&[1, 2, 3]);
        assert!(!packet.insert(4, 1));
        assert!(!packet.insert(0, HEADROOM + 1));
        assert!(!packet.remove(2, 2));
        assert_eq!(packet.data(), [1, 2, 3]);
        let mut none = packet.take();
        std::mem::swap(&mut none, &mut packet);
        none.set_received(5, Offload::default());
        assert!(none.data().is_empty() && none.receive_area().is_empty());
        let big = Packet::from_bytes(&[0; 10]);
        assert!(!none.copy_from(&big));
        assert!(!packet.copy_from(&big));
        assert!(packet.is_empty());
    }
}
