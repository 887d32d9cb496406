//! One frame's bytes.

use crate::head::{HEAD_BYTES, Head, Lender, Metadata, NO_HEAD};
use crate::offload::Offload;
use std::fmt;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// The number of free bytes before a received frame, for a VLAN tag or a tunnel header.
pub const HEADROOM: usize = 128;

/// The offset of the first byte of a received frame from its head.
const FIRST_BYTE: usize = HEAD_BYTES + HEADROOM;

/// An Ethernet frame in a buffer of its own: a pointer to its [`Head`], or none.
///
/// It dereferences to its [`Metadata`], which two packets may exchange:
///
/// ```
/// use packet::{Checksum, Packet};
/// let (mut a, mut b) = (Packet::from_bytes(&[1]), Packet::with_capacity(9));
/// a.offload.checksum = Checksum::Good;
/// std::mem::swap(&mut *a, &mut *b);
/// assert_eq!((a.data(), b.room(), b.offload.checksum), (&[1][..], 9, Checksum::Good));
/// ```
///
/// The head's other fields describe the memory, so safe code gets no reference to a head:
///
/// ```compile_fail,E0308
/// let (mut a, mut b) = (packet::Packet::from_bytes(&[1]), packet::Packet::with_capacity(9));
/// let (a, b): (&mut packet::Head, &mut packet::Head) = (&mut *a, &mut *b);
/// std::mem::swap(a, b);
/// ```
#[repr(transparent)]
pub struct Packet {
    head: Option<NonNull<Head>>,
}

// SAFETY: head and bytes belong to this value alone. Memory that the switch allocated may be used and freed
// on any thread; for lent memory, `Lender::new` and `Packet::from_head` require this.
unsafe impl Send for Packet {}
// SAFETY: a shared reference only allows reading of head and bytes.
unsafe impl Sync for Packet {}

impl Packet {
    /// An empty packet with room for `capacity` bytes after [`HEADROOM`].
    pub fn with_capacity(capacity: usize) -> Self {
        let mut packet = Packet { head: Some(Head::allocate(HEADROOM + capacity)) };
        packet.set_place(FIRST_BYTE, 0);
        packet
    }

    /// No packet: a value without bytes, room or memory, which replaces a packet that was taken.
    #[inline]
    pub const fn none() -> Self {
        Packet { head: None }
    }

    /// Takes the packet and leaves [`Packet::none`].
    #[inline]
    #[must_use]
    pub fn take(&mut self) -> Packet {
        Packet { head: self.head.take() }
    }

    /// A packet with these bytes and `HEADROOM`.
    pub fn from_bytes(frame: &[u8]) -> Self {
        let mut packet = Packet::with_capacity(frame.len());
        packet.receive_copy(frame);
        packet
    }

    /// A packet in a buffer that a driver lends.
    ///
    /// # Safety
    /// `head` points to a head that [`Head::lent`] made, followed by as many initialised bytes as were passed
    /// to it. The values that a driver wrote into the head since lie within these bytes. Nothing else
    /// accesses head or bytes until the lender takes them back, and any thread may use them.
    #[inline]
    pub unsafe fn from_head(head: NonNull<Head>) -> Self {
        Packet { head: Some(head) }
    }

    /// Returns whether the packet is in a buffer of this lender.
    #[inline]
    pub fn is_lent_by(&self, lender: &'static Lender) -> bool {
        self.head().lender.is_some_and(|has| std::ptr::eq(has, lender))
    }

    /// Returns the head of a buffer that `lender` lent, or any other packet as the error. The
    /// caller must return the buffer to the lender.
    #[inline]
    pub fn into_head(self, lender: &'static Lender) -> Result<NonNull<Head>, Packet> {
        match self.head.filter(|_| self.is_lent_by(lender)) {
            Some(head) => {
                let _ = ManuallyDrop::new(self);
                Ok(head)
            }
            None => Err(self),
        }
    }

    /// The frame.
    #[inline]
    pub fn data(&self) -> &[u8] {
        let Some(head) = self.head else { return &[] };
        let (start, len) = (self.start(), self.len());
        // SAFETY: these bytes are initialised and belong to this packet alone: `set_place` ensures it for
        // allocated memory, and `from_head` requires it for lent memory.
        unsafe { std::slice::from_raw_parts(head.cast::<u8>().byte_add(start).as_ptr(), len) }
    }

    /// The frame, to be changed in place.
    #[inline]
    pub fn data_mut(&mut self) -> &mut [u8] {
        let Some(head) = self.head else { return &mut [] };
        let (start, len) = (self.start(), self.len());
        // SAFETY: as in `data`, and the packet is borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(head.cast::<u8>().byte_add(start).as_ptr(), len) }
    }

    /// The frame's length in bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.head().len as usize
    }

    /// Returns whether the frame has no bytes.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the room after the headroom, for a receive call to write into. Call [`Packet::set_received`]
    /// afterwards.
    pub fn receive_area(&mut self) -> &mut [u8] {
        let room = self.room();
        self.range_mut(FIRST_BYTE, room)
    }

    /// Sets the frame to the `len` bytes that a receive call wrote at the start of
    /// [`Packet::receive_area`], limited to the room.
    #[inline]
    pub fn set_received(&mut self, len: usize, offload: Offload) {
        let room = self.room();
        if let Some(head) = self.head_mut() {
            (head.start, head.len) = ((FIRST_BYTE as u32).min(head.end), len.min(room) as u32);
            head.metadata.offload = offload;
        }
    }

    /// Receives a copy of a frame. Returns the number of bytes copied, which the room limits.
    #[inline]
    pub fn receive_copy(&mut self, frame: &[u8]) -> usize {
        let Some(head) = self.head_mut() else { return 0 };
        let start = (FIRST_BYTE as u32).min(head.end);
        let len = frame.len().min((head.end - start) as usize);
        (head.start, head.len) = (start, len as u32);
        head.metadata.offload = Offload::default();
        self.data_mut().copy_from_slice(&frame[..len]);
        len
    }

    /// Clears the offload state: checksum unverified, no segmentation.
    #[inline]
    pub fn forget_offload(&mut self) {
        if let Some(head) = self.head_mut() {
            head.metadata.offload = Offload::default();
        }
    }

    /// Returns the number of bytes after the headroom.
    #[inline]
    pub fn room(&self) -> usize {
        (self.head().end as usize).saturating_sub(FIRST_BYTE)
    }

    /// Replaces the contents. Returns false, with the packet empty, if they do not fit.
    pub fn copy_from(&mut self, other: &Packet) -> bool {
        let fits = other.len() <= self.room();
        let copied = self.receive_copy(if fits { other.data() } else { &[] });
        if copied > 0 {
            self.offload = other.offload;
        }
        fits
    }

    /// Returns a copy in a buffer of the frame's size, for packets that are queued.
    pub fn compact_copy(&self) -> Packet {
        let mut copy = Packet::from_bytes(self.data());
        copy.offload = self.offload;
        copy
    }

    /// Inserts `bytes` zero bytes at `at` by moving the bytes before it into the headroom. Returns
    /// false, with nothing changed, if the headroom is too small or `at` is outside the frame.
    #[must_use]
    pub fn insert(&mut self, at: usize, bytes: usize) -> bool {
        let (start, len) = (self.start(), self.len());
        if at > len || bytes > start.saturating_sub(HEAD_BYTES) {
            return false;
        }
        let moved = self.range_mut(start - bytes, bytes + at);
        moved.copy_within(bytes.., 0);
        moved[at..].fill(0);
        self.set_place(start - bytes, len + bytes);
        true
    }

    /// Puts bytes in front of the frame. Returns false, with nothing changed, if the headroom is
    /// too small.
    #[must_use]
    #[inline]
    pub fn prepend(&mut self, bytes: &[u8]) -> bool {
        let (start, len) = (self.start(), self.len());
        if bytes.len() > start.saturating_sub(HEAD_BYTES) {
            return false;
        }
        let start = start - bytes.len();
        self.range_mut(start, bytes.len()).copy_from_slice(bytes);
        self.set_place(start, len + bytes.len());
        true
    }

    /// Restores a frame of `len` bytes, with its offload state, after `front` bytes were removed at
    /// the start and some at the end. The removed bytes must not have been overwritten.
    pub fn uncut(&mut self, front: usize, len: usize, offload: Offload) {
        self.set_place(self.start().saturating_sub(front), len);
        self.offload = offload;
    }

    /// Removes `bytes` bytes at `at` by moving the bytes before them back. Returns false, with
    /// nothing changed, if the frame ends before.
    #[must_use]
    pub fn remove(&mut self, at: usize, bytes: usize) -> bool {
        let (start, len) = (self.start(), self.len());
        if at + bytes > len {
            return false;
        }
        if at > 0 {
            self.data_mut().copy_within(..at, bytes);
        }
        self.set_place(start + bytes, len - bytes);
        true
    }

    /// Cuts the frame to at most `len` bytes.
    pub fn truncate(&mut self, len: usize) {
        if len < self.len() {
            self.set_place(self.start(), len);
        }
    }

    /// Returns the offset of the first byte from the head, in bytes.
    #[inline]
    fn start(&self) -> usize {
        self.head().start as usize
    }

    #[inline]
    fn head(&self) -> &Head {
        // SAFETY: the head belongs to this packet alone and lives as long as the packet.
        self.head.map_or(&NO_HEAD, |head| unsafe { head.as_ref() })
    }

    #[inline]
    fn head_mut(&mut self) -> Option<&mut Head> {
        // SAFETY: as above, and the packet is borrowed exclusively.
        self.head.map(|mut head| unsafe { head.as_mut() })
    }

    /// Sets the frame's position, limited to the room.
    fn set_place(&mut self, start: usize, len: usize) {
        if let Some(head) = self.head_mut() {
            let start = start.clamp(HEAD_BYTES, head.end as usize);
            (head.start, head.len) = (start as u32, len.min(head.end as usize - start) as u32);
        }
    }

    /// Bytes of the room, limited to what exists.
    #[inline]
    fn range_mut(&mut self, start: usize, len: usize) -> &mut [u8] {
        let Some(head) = self.head else { return &mut [] };
        let start = start.max(HEAD_BYTES);
        let len = len.min((self.head().end as usize).saturating_sub(start));
        // SAFETY: the bytes between the head and the end of the room are initialised and belong to this
        // packet alone, which is borrowed exclusively. If the start is after the end, the slice is empty.
        unsafe {
            std::slice::from_raw_parts_mut(head.cast::<u8>().as_ptr().wrapping_add(start), len)
        }
    }
}

impl Deref for Packet {
    type Target = Metadata;

    #[inline]
    fn deref(&self) -> &Metadata {
        &self.head().metadata
    }
}

impl DerefMut for Packet {
    /// Replaces [`Packet::none`] by an empty packet without room.
    #[inline]
    fn deref_mut(&mut self) -> &mut Metadata {
        let mut head = *self.head.get_or_insert_with(|| Head::allocate(0));
        // SAFETY: needed since the head is behind a raw pointer; it lives as long as the packet, which is borrowed
        // exclusively.
        unsafe { &mut head.as_mut().metadata }
    }
}

impl Drop for Packet {
    #[inline]
    fn drop(&mut self) {
        if let Some(head) = self.head {
            // SAFETY: the packet is not used after this.
            unsafe { Head::release(head) }
        }
    }
}

impl fmt::Debug for Packet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Packet({} bytes, {:?})", self.len(), self.offload)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::offload::{Checksum, Gso, GsoKind};

    #[test]
    fn insert_and_remove_are_inverse_and_keep_the_offload() {
        let mut packet = Packet::from_bytes(&(0u8..60).collect::<Vec<_>>());
        let gso = Some(Gso { kind: GsoKind::TcpV4, segment_bytes: 1448, ecn: false });
        packet.offload = Offload { checksum: Checksum::Partial, gso };
        assert!(packet.insert(12, 4));
        assert_eq!(packet.len(), 64);
        assert_eq!(&packet.data()[10..18], &[10, 11, 0, 0, 0, 0, 12, 13]);
        assert!(packet.remove(12, 4));
        assert_eq!(packet.data(), (0u8..60).collect::<Vec<_>>());
        assert_eq!(packet.offload, Offload { checksum: Checksum::Partial, gso });
    }

    /// Miri checks that each buffer is still freed with its own layout.
    #[test]
    fn packets_exchange_their_metadata_and_keep_their_memory() {
        let (mut small, mut large) = (Packet::from_bytes(&[1, 2]), Packet::with_capacity(900));
        large.receive_copy(&[7; 900]);
        (small.offload.checksum, large.mark) = (Checksum::Good, 9);
        std::mem::swap(&mut *small, &mut *large);
        assert_eq!((small.mark, large.offload.checksum), (9, Checksum::Good));
        assert_eq!((small.data(), large.data()), (&[1, 2][..], &[7; 900][..]));
        assert!(small.insert(2, 1) && large.remove(0, 450) && large.insert(450, HEADROOM));
        assert_eq!((small.data(), large.len()), (&[1, 2, 0][..], 450 + HEADROOM));
        let mut none = Packet::none();
        std::mem::swap(&mut *none, &mut *small);
        assert!(none.is_empty() && none.mark == 9 && !none.insert(0, 1) && none.insert(0, 0));
    }

    #[test]
    fn what_was_cut_off_comes_back() {
        let mut packet = Packet::from_bytes(&(0u8..60).collect::<Vec<_>>());
        packet.offload.checksum = Checksum::Good;
        let offload = packet.offload;
        packet.truncate(50);
        assert!(packet.remove(0, 20));
        packet.offload.checksum = Checksum::Unverified;
        assert_eq!(packet.data(), (20u8..50).collect::<Vec<_>>());
        packet.uncut(20, 60, offload);
        assert_eq!(packet.data(), (0u8..60).collect::<Vec<_>>());
        assert_eq!(packet.offload, offload);
        let mut none = Packet::none();
        none.uncut(20, 60, Offload::default());
        assert!(none.is_empty());
    }

    #[test]
    fn bytes_are_put_in_front_as_far_as_there_is_room() {
        let mut packet = Packet::from_bytes(&[7, 8]);
        assert!(packet.prepend(&[1, 2, 3]) && packet.prepend(&[]));
        assert_eq!(packet.data(), [1, 2, 3, 7, 8]);
        assert!(!packet.prepend(&[0; HEADROOM - 2]));
        assert!(packet.prepend(&[0; HEADROOM - 3]) && !packet.prepend(&[0]));
        assert!(!Packet::none().prepend(&[0]) && Packet::none().prepend(&[]));
    }

    /// A buffer in the form of a driver's.
    #[repr(C, align(64))]
    struct Lent {
        head: Head,
        bytes: [u8; 256],
    }

    #[test]
    fn lent_buffers_are_taken_back_once() {
        static TAKEN: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        // SAFETY: it is called once for each buffer that the test lends.
        unsafe fn take_back(head: NonNull<Head>) {
            TAKEN.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            // SAFETY: the test lends boxes of this type.
            drop(unsafe { Box::from_raw(head.cast::<Lent>().as_ptr()) });
        }
        // SAFETY: it frees the test's boxes, and no other buffers have this lender.
        static LENDER: Lender = unsafe { Lender::new(take_back) };
        // SAFETY: as above; no buffer has this lender.
        static OTHER: Lender = unsafe { Lender::new(take_back) };
        let lend = || {
            let mut lent = Lent { head: Head::lent(256, &LENDER), bytes: [0; 256] };
            lent.bytes[128..131].copy_from_slice(&[1, 2, 3]);
            (lent.head.start, lent.head.len) = (HEAD_BYTES as u32 + 128, 3);
            let lent = NonNull::from(Box::leak(Box::new(lent)));
            // SAFETY: a head with 256 bytes after it, to which no other reference remains.
            unsafe { Packet::from_head(lent.cast()) }
        };
        let taken = || TAKEN.load(std::sync::atomic::Ordering::Relaxed);
        let mut packet = lend();
        assert_eq!((packet.data(), packet.room()), (&[1, 2, 3][..], 128));
        assert!(packet.insert(1, 2));
        assert_eq!(packet.data(), [1, 0, 0, 2, 3]);
        let moved = packet.take();
        drop(packet);
        assert_eq!((moved.len(), taken()), (5, 0));
        assert!(moved.is_lent_by(&LENDER) && !moved.is_lent_by(&OTHER));
        let moved = moved.into_head(&OTHER).unwrap_err();
        crate::Pool::new(4).give(moved);
        assert_eq!(taken(), 1);
        let head = lend().into_head(&LENDER).unwrap();
        assert_eq!(taken(), 1);
        // SAFETY: the head is that of a buffer of the test.
        unsafe { take_back(head) };
        assert_eq!(taken(), 2);
        assert!(Packet::from_bytes(&[1]).into_head(&LENDER).is_err());
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
        assert!(none.remove(0, 0) && !none.remove(0, 1) && !none.insert(0, 1));
        none.truncate(0);
        none.set_received(5, Offload::default());
        assert!(none.data().is_empty() && none.receive_area().is_empty());
        let big = Packet::from_bytes(&[0; 10]);
        assert!(!none.copy_from(&big));
        assert!(!packet.copy_from(&big));
        assert!(packet.is_empty());
    }
}
