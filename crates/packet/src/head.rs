//! The memory of one packet: a head of one cache line, and room for the bytes after it.

use crate::offload::Offload;
use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::mem::offset_of;
use std::ptr::NonNull;

/// A driver that lends its buffers to packets, so that received frames need not be copied. Each
/// driver has one, identified by its address.
#[derive(Debug)]
pub struct Lender {
    take_back: unsafe fn(NonNull<Head>),
}

impl Lender {
    /// A lender whose buffers `take_back` returns, on any thread.
    ///
    /// # Safety
    /// It must be sound to call `take_back` once for every buffer of this lender.
    pub const unsafe fn new(take_back: unsafe fn(NonNull<Head>)) -> Self {
        Lender { take_back }
    }
}

/// The structure in front of a packet's bytes, which makes a packet a single pointer. Drivers
/// written in C set the frame's start, in bytes from the head's own address, its length and its mark, so
/// their positions are fixed.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Head {
    pub(crate) start: u32,
    pub(crate) len: u32,
    pub(crate) metadata: Metadata,
    pub(crate) end: u32,
    /// Bytes of the switch's own allocation before the head.
    before: u32,
    /// `None` if the switch allocated the memory.
    pub(crate) lender: Option<&'static Lender>,
}

/// What is known about a packet besides its bytes. A packet dereferences to it and to nothing else of its head: what
/// describes the memory must not be exchanged between packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct Metadata {
    /// The mark that a device put on the received packet, by a rule; 0 for none. Drivers written in C set it.
    pub mark: u32,
    /// The packet's offload state.
    pub offload: Offload,
}

/// The size of a head in bytes.
pub(crate) const HEAD_BYTES: usize = 64;
/// The alignment that the system's allocator always has.
const ALIGNMENT: usize = 16;

const _: () = assert!(size_of::<Head>() == HEAD_BYTES);
const _: () = assert!(offset_of!(Head, start) == 0 && offset_of!(Head, len) == 4);
const _: () = assert!(offset_of!(Head, metadata) == 8 && offset_of!(Metadata, mark) == 0);

/// The head of [`Packet::none`](crate::Packet::none).
pub(crate) static NO_HEAD: Head = Head::new(HEAD_BYTES as u32, 0, None);

impl Head {
    const fn new(end: u32, before: u32, lender: Option<&'static Lender>) -> Head {
        let offload = Offload { checksum: crate::Checksum::Unverified, gso: None };
        let metadata = Metadata { mark: 0, offload };
        Head { start: HEAD_BYTES as u32, len: 0, metadata, end, before, lender }
    }

    /// Returns the head of a buffer of `lender`. The driver writes it before `room` bytes.
    pub const fn lent(room: u32, lender: &'static Lender) -> Head {
        Head::new(room.saturating_add(HEAD_BYTES as u32), 0, Some(lender))
    }

    /// Allocates a head with this many zero bytes after it, at most the number that its fields can represent.
    pub(crate) fn allocate(room: usize) -> NonNull<Head> {
        let room = room.min(u32::MAX as usize - 2 * HEAD_BYTES);
        let layout = layout(HEAD_BYTES + room);
        // SAFETY: the size is not zero.
        let Some(memory) = NonNull::new(unsafe { alloc_zeroed(layout) }) else {
            handle_alloc_error(layout)
        };
        let before = memory.align_offset(HEAD_BYTES).min(HEAD_BYTES - ALIGNMENT);
        // SAFETY: `layout` has at least `before` bytes more than head and room.
        let head = unsafe { memory.byte_add(before) }.cast::<Head>();
        // SAFETY: it is aligned and within the allocation, to which there is no other pointer.
        unsafe { head.write(Head::new((HEAD_BYTES + room) as u32, before as u32, None)) };
        head
    }

    /// Returns the memory to its lender or the allocator.
    ///
    /// # Safety
    /// `head` belongs to a packet that is no longer used.
    #[inline(never)]
    pub(crate) unsafe fn release(head: NonNull<Head>) {
        // SAFETY: the head is valid until it is released below.
        let (lender, end, before) = unsafe {
            let head = head.as_ref();
            (head.lender, head.end as usize, head.before as usize)
        };
        match lender {
            // SAFETY: the contract of `Lender::new` allows one call per buffer, and no reference to the
            // buffer remains.
            Some(lender) => unsafe { (lender.take_back)(head) },
            // SAFETY: `allocate` allocated it with this layout.
            None => unsafe { dealloc(head.cast::<u8>().byte_sub(before).as_ptr(), layout(end)) },
        }
    }
}

/// Returns the layout of head and room. The callers limit `bytes` so that it is valid.
fn layout(bytes: usize) -> Layout {
    // With a larger alignment, the allocator would also clear pages that are not used yet.
    let with_gap = bytes + HEAD_BYTES - ALIGNMENT;
    Layout::from_size_align(with_gap, ALIGNMENT).unwrap_or(Layout::new::<Head>())
}
