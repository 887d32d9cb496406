//! The memory of one packet: the switch's own, or lent by a driver.

use std::mem::ManuallyDrop;
use std::ptr::NonNull;

/// A driver that lends its buffers to packets, so that what it received need not be copied. There
/// is one of each driver, known by its address.
#[derive(Debug)]
pub struct Lender {
    take_back: unsafe fn(NonNull<u8>),
}

impl Lender {
    /// A lender whose buffers are given back by `take_back`, on any thread.
    ///
    /// # Safety
    /// `take_back` must be sound for every buffer that was lent in this lender's name, once.
    pub const unsafe fn new(take_back: unsafe fn(NonNull<u8>)) -> Self {
        Lender { take_back }
    }
}

/// Bytes that belong to one packet.
pub(crate) struct Buffer {
    bytes: NonNull<u8>,
    len: u32,
    /// None where they are a box of the switch's own.
    lender: Option<&'static Lender>,
}

// SAFETY: the bytes belong to this value alone; an own box may be dropped on any thread, and so
// may what is lent, as `Lender::new` and `Buffer::lent` ask.
unsafe impl Send for Buffer {}
// SAFETY: shared, it only gives bytes to be read.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// No bytes, which take no memory.
    pub const fn none() -> Self {
        Buffer { bytes: NonNull::dangling(), len: 0, lender: None }
    }

    /// Zero bytes of the switch's own; at most as many as the length can say.
    pub fn zeroed(len: usize) -> Self {
        // The cast takes any type: what is leaked must be bytes, as what is dropped is.
        let bytes: &mut [u8] = Box::leak(vec![0; len.min(u32::MAX as usize)].into_boxed_slice());
        Buffer { len: bytes.len() as u32, bytes: NonNull::from(bytes).cast(), lender: None }
    }

    /// Bytes that a driver lends.
    ///
    /// # Safety
    /// There are `len` initialised bytes at `bytes`, which nobody else reads or writes until
    /// `lender` has taken them back, and any thread may use them.
    pub unsafe fn lent(bytes: NonNull<u8>, len: u32, lender: &'static Lender) -> Self {
        Buffer { bytes, len, lender: Some(lender) }
    }

    /// Who lent them, if they are not the switch's own.
    pub fn lender(&self) -> Option<&'static Lender> {
        self.lender
    }

    /// Gives the bytes out of the value's care: whoever gets them has to give them back.
    pub fn into_bytes(self) -> NonNull<u8> {
        ManuallyDrop::new(self).bytes
    }
}

impl std::ops::Deref for Buffer {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: so many bytes are there for as long as this value is, or none at a dangling
        // pointer, which is aligned; only it hands them out, and only to be read while borrowed.
        unsafe { std::slice::from_raw_parts(self.bytes.as_ptr(), self.len as usize) }
    }
}

impl std::ops::DerefMut for Buffer {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and this value is borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.bytes.as_ptr(), self.len as usize) }
    }
}

impl Drop for Buffer {
    #[inline]
    fn drop(&mut self) {
        match self.lender {
            // SAFETY: whoever lent the bytes promised that this is right, and they are in this
            // value's care for the last time.
            Some(lender) => unsafe { (lender.take_back)(self.bytes) },
            None if self.len == 0 => {}
            None => {
                let bytes =
                    std::ptr::slice_from_raw_parts_mut(self.bytes.as_ptr(), self.len as usize);
                // SAFETY: they were made by leaking a box of that length, in `zeroed`.
                drop(unsafe { Box::from_raw(bytes) });
            }
        }
    }
}
