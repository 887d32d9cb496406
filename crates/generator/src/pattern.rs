//! The payload of a stream, known at every offset: senders keep no buffers, and receivers detect every byte
//! that is missing, duplicated, swapped or changed.

/// A prime, so that a stream shifted by whole segments looks different.
const PERIOD: usize = 4093;
const TABLE_BYTES: usize = PERIOD + 4096;

static TABLE: [u8; TABLE_BYTES] = table();

const fn table() -> [u8; TABLE_BYTES] {
    let mut bytes = [0; TABLE_BYTES];
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut i = 0;
    while i < TABLE_BYTES {
        if i < PERIOD {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            bytes[i] = (state >> 32) as u8;
        } else {
            bytes[i] = bytes[i - PERIOD];
        }
        i += 1;
    }
    bytes
}

/// Returns the longest piece of the table from `offset` on, at most `length` bytes.
fn piece(offset: u32, length: usize) -> &'static [u8] {
    let at = offset as usize % PERIOD;
    TABLE.get(at..TABLE_BYTES.min(at + length)).unwrap_or_default()
}

/// Writes the stream from `offset` on.
pub(crate) fn fill(mut offset: u32, mut area: &mut [u8]) {
    while !area.is_empty() {
        let from = piece(offset, area.len());
        let (now, later) = area.split_at_mut(from.len());
        now.copy_from_slice(from);
        offset = offset.wrapping_add(from.len() as u32);
        area = later;
    }
}

/// Writes a text, which is not empty and repeats, from `offset` on.
pub(crate) fn repeat(text: &[u8], offset: u32, area: &mut [u8]) {
    let from = offset as usize % text.len().max(1);
    for (to, byte) in area.iter_mut().zip(text.iter().cycle().skip(from)) {
        *to = *byte;
    }
}

/// Returns whether these bytes are the stream from `offset` on.
pub(crate) fn matches(mut offset: u32, mut bytes: &[u8]) -> bool {
    while !bytes.is_empty() {
        let expected = piece(offset, bytes.len());
        let (now, later) = bytes.split_at(expected.len());
        if now != expected {
            return false;
        }
        offset = offset.wrapping_add(expected.len() as u32);
        bytes = later;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_comes_over_and_over() {
        let mut area = [0; 8];
        repeat(b"abc", 4, &mut area);
        assert_eq!(&area, b"bcabcabc");
    }

    #[test]
    fn what_is_filled_matches_at_its_offset_only() {
        for (offset, length) in [(0, 1), (4092, 20), (7, 9000), (123_456, 1460)] {
            let mut bytes = vec![0; length];
            fill(offset, &mut bytes);
            assert!(matches(offset, &bytes));
            assert!(length == 1 || !matches(offset + 1460, &bytes));
            bytes[length - 1] ^= 1;
            assert!(!matches(offset, &bytes));
        }
    }
}
