//! Reading and writing big-endian numbers; missing bytes are an OpenFlow error.

use crate::error::{ErrorCode, OfError};

/// A reader of bytes. Reading past the end is an error with the code given at construction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Input<'a> {
    bytes: &'a [u8],
    code: ErrorCode,
    what: &'static str,
}

impl<'a> Input<'a> {
    /// A reader of `bytes`, which contain `what`; `code` is the error for missing bytes.
    pub fn new(bytes: &'a [u8], code: ErrorCode, what: &'static str) -> Self {
        Input { bytes, code, what }
    }

    /// Returns the remaining bytes.
    pub fn rest(&self) -> &'a [u8] {
        self.bytes
    }

    /// Returns the number of remaining bytes.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Returns whether no bytes remain.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Returns the next `n` bytes.
    pub fn take(&mut self, n: usize) -> Result<&'a [u8], OfError> {
        if n > self.bytes.len() {
            return Err(self.short(n));
        }
        let (head, tail) = self.bytes.split_at(n);
        self.bytes = tail;
        Ok(head)
    }

    fn short(&self, n: usize) -> OfError {
        let have = self.bytes.len();
        OfError::new(
            self.code,
            format!("{} ends early: {n} more bytes needed, {have} are there", self.what),
        )
    }

    /// Skips `n` bytes.
    pub fn skip(&mut self, n: usize) -> Result<(), OfError> {
        self.take(n).map(|_| ())
    }

    /// Returns a reader of the next `n` bytes.
    pub fn part(&mut self, n: usize) -> Result<Input<'a>, OfError> {
        Ok(Input { bytes: self.take(n)?, ..*self })
    }

    /// Returns the next `N` bytes as an array.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], OfError> {
        let bytes = self.take(N)?;
        <[u8; N]>::try_from(bytes).map_err(|_| self.short(N))
    }

    /// One byte.
    pub fn u8(&mut self) -> Result<u8, OfError> {
        Ok(u8::from_be_bytes(self.array()?))
    }

    /// Two bytes.
    pub fn u16(&mut self) -> Result<u16, OfError> {
        Ok(u16::from_be_bytes(self.array()?))
    }

    /// Four bytes.
    pub fn u32(&mut self) -> Result<u32, OfError> {
        Ok(u32::from_be_bytes(self.array()?))
    }

    /// Eight bytes.
    pub fn u64(&mut self) -> Result<u64, OfError> {
        Ok(u64::from_be_bytes(self.array()?))
    }

    /// Returns `n` bytes, at most 16, as one number.
    pub fn uint(&mut self, n: usize) -> Result<u128, OfError> {
        Ok(self.take(n)?.iter().fold(0, |value, &byte| (value << 8) | u128::from(byte)))
    }

    /// Returns a text in `n` bytes, terminated by a zero byte or by their end.
    pub fn text(&mut self, n: usize) -> Result<String, OfError> {
        let bytes = self.take(n)?;
        let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(n);
        Ok(String::from_utf8_lossy(&bytes[..end]).into_owned())
    }

    /// Returns the type and value of the next property, which is padded to 8 bytes (ovs: `lib/ofp-prop.c`,
    /// `ofpprop_pull`). Reading past the end of the value is OFPBPC_BAD_LEN, too.
    pub fn property(&mut self) -> Result<(u16, Input<'a>), OfError> {
        const HEADER: usize = 4;
        let mut properties = Input { code: ErrorCode::PropertyBadLen, ..*self };
        let (kind, len) = (properties.u16()?, usize::from(properties.u16()?));
        let Some(value_len) = len.checked_sub(HEADER) else {
            let reason = format!("{}: a property of {len} bytes", self.what);
            return Err(OfError::new(ErrorCode::PropertyBadLen, reason));
        };
        let mut value = properties.part(len.next_multiple_of(8) - HEADER)?;
        self.bytes = properties.bytes;
        Ok((kind, value.part(value_len)?))
    }

    /// Returns an error unless all bytes were read.
    pub fn done(&self) -> Result<(), OfError> {
        if self.bytes.is_empty() {
            return Ok(());
        }
        let left = self.bytes.len();
        Err(OfError::new(self.code, format!("{} is followed by {left} bytes too many", self.what)))
    }
}

/// Big-endian numbers at the end of a vector.
pub(crate) trait Output {
    fn put(&mut self, bytes: &[u8]);
    fn put_u8(&mut self, value: u8) {
        self.put(&[value]);
    }
    fn put_u16(&mut self, value: u16) {
        self.put(&value.to_be_bytes());
    }
    fn put_u32(&mut self, value: u32) {
        self.put(&value.to_be_bytes());
    }
    fn put_u64(&mut self, value: u64) {
        self.put(&value.to_be_bytes());
    }
    /// Appends the low `n` bytes of a number.
    fn put_uint(&mut self, value: u128, n: usize) {
        self.put(&value.to_be_bytes()[16 - n.min(16)..]);
    }
    /// Appends `n` zero bytes.
    fn put_zeros(&mut self, n: usize);
    /// Appends a text in `n` bytes, the last of which is zero.
    fn put_text(&mut self, text: &str, n: usize) {
        let kept = &text.as_bytes()[..text.len().min(n.saturating_sub(1))];
        self.put(kept);
        self.put_zeros(n - kept.len());
    }
    /// Pads with zeros to a multiple of 8 since `start`.
    fn pad8(&mut self, start: usize);
    /// Overwrites the two bytes at `at`.
    fn set_u16(&mut self, at: usize, value: usize);
}

impl Output for Vec<u8> {
    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }

    fn put_zeros(&mut self, n: usize) {
        self.resize(self.len() + n, 0);
    }

    fn pad8(&mut self, start: usize) {
        let len = self.len() - start;
        self.put_zeros(len.next_multiple_of(8) - len);
    }

    fn set_u16(&mut self, at: usize, value: usize) {
        let value = u16::try_from(value).unwrap_or(u16::MAX);
        if let Some(place) = self.get_mut(at..at + 2) {
            place.copy_from_slice(&value.to_be_bytes());
        }
    }
}

/// Reads entries up to the end.
pub(crate) fn all<T>(
    input: &mut Input<'_>,
    mut take: impl FnMut(&mut Input<'_>) -> Result<T, OfError>,
) -> Result<Vec<T>, OfError> {
    let mut out = Vec::new();
    while !input.is_empty() {
        out.push(take(input)?);
    }
    Ok(out)
}
