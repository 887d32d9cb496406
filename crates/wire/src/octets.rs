//! Big-endian reads and writes that do not panic.
//!
//! The views check lengths once, in `new_checked`. If bytes are missing nevertheless, since a setter made a
//! length field invalid or a `T: AsRef<[u8]>` returns different bytes at each call, these functions return
//! zero or write nothing.

/// The `N` bytes at `at`, or zeros.
#[inline]
pub(crate) fn array_at<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes.get(at..).and_then(|tail| tail.first_chunk::<N>()).copied().unwrap_or([0; N])
}

/// The byte at `at`, or zero.
#[inline]
pub(crate) fn u8_at(bytes: &[u8], at: usize) -> u8 {
    bytes.get(at).copied().unwrap_or(0)
}

/// The big-endian 16-bit number at `at`, or zero.
#[inline]
pub(crate) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes(array_at(bytes, at))
}

/// The big-endian 32-bit number at `at`, or zero.
#[inline]
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(array_at(bytes, at))
}

/// The bytes from `from` up to `to`, or an empty slice.
#[inline]
pub(crate) fn range(bytes: &[u8], from: usize, to: usize) -> &[u8] {
    bytes.get(from..to).unwrap_or(&[])
}

/// The bytes from `from` up to `to` for writing, or an empty slice.
#[inline]
pub(crate) fn range_mut(bytes: &mut [u8], from: usize, to: usize) -> &mut [u8] {
    bytes.get_mut(from..to).unwrap_or(&mut [])
}

/// Writes `value` at `at`. Returns false and writes nothing if it does not fit.
#[inline]
pub(crate) fn put<const N: usize>(bytes: &mut [u8], at: usize, value: [u8; N]) -> bool {
    match bytes.get_mut(at..).and_then(|tail| tail.first_chunk_mut::<N>()) {
        Some(place) => {
            *place = value;
            true
        }
        None => false,
    }
}

/// Writes `value` at `at` in big-endian order; see [`put`].
#[inline]
pub(crate) fn put_u16(bytes: &mut [u8], at: usize, value: u16) -> bool {
    put(bytes, at, value.to_be_bytes())
}

/// Writes `value` at `at` in big-endian order; see [`put`].
#[inline]
pub(crate) fn put_u32(bytes: &mut [u8], at: usize, value: u32) -> bool {
    put(bytes, at, value.to_be_bytes())
}
