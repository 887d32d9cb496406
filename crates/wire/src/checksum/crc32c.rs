//! CRC32c, the checksum of SCTP (RFC 9260 appendix A): computation and incremental updates.

/// The polynomial 0x1edc6f41, bit-reversed, since the CRC processes the least significant bit of a byte
/// first.
const POLYNOMIAL: u32 = 0x82f6_3b78;

/// The remainder of each byte value.
const TABLE: [u32; 256] = table();

const fn table() -> [u32; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut remainder = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            let carry = remainder & 1;
            remainder >>= 1;
            if carry == 1 {
                remainder ^= POLYNOMIAL;
            }
            bit += 1;
        }
        table[byte] = remainder;
        byte += 1;
    }
    table
}

/// The CRC32c of `bytes`.
pub fn crc32c(bytes: &[u8]) -> u32 {
    !divide(u32::MAX, bytes.iter().copied())
}

/// Returns the CRC32c of an SCTP packet, with its checksum field regarded as zero (RFC 9260 section 6.8).
pub fn sctp_crc(packet: &[u8]) -> u32 {
    let field = crate::sctp::field::CHECKSUM..crate::sctp::field::CHECKSUM + 4;
    let bytes = packet.iter().enumerate();
    !divide(u32::MAX, bytes.map(|(at, byte)| if field.contains(&at) { 0 } else { *byte }))
}

/// Returns the difference of the CRC32c of a message when a 16-bit word with `behind` bytes after it changes
/// from `old` to `new`. The new CRC is the old one XOR this value.
///
/// The division is linear, so the CRCs of two messages of equal length differ by the remainder of their
/// difference, which is zero except for the word. A CRC that was wrong stays wrong by the same bits.
#[must_use]
pub fn crc32c_change(old: u16, new: u16, behind: usize) -> u32 {
    let difference = (old ^ new).to_be_bytes();
    divide(0, difference.into_iter().chain(std::iter::repeat_n(0, behind)))
}

/// Returns the remainder after `bytes` are appended.
fn divide(remainder: u32, bytes: impl Iterator<Item = u8>) -> u32 {
    bytes.fold(remainder, |remainder, byte| {
        let index = (remainder as u8) ^ byte;
        TABLE[usize::from(index)] ^ (remainder >> 8)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn known_values() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        assert_eq!(crc32c(b""), 0);
        // RFC 3720 section B.4, its bytes in the order of the wire: aa 36 91 8a, 43 ab a8 62.
        assert_eq!(crc32c(&[0; 32]).to_le_bytes(), [0xaa, 0x36, 0x91, 0x8a]);
        assert_eq!(crc32c(&[0xff; 32]).to_le_bytes(), [0x43, 0xab, 0xa8, 0x62]);
    }

    proptest! {
        #[test]
        fn sctp_takes_its_field_for_zero(packet in prop::collection::vec(any::<u8>(), 0..60)) {
            let mut zeroed = packet.clone();
            zeroed.iter_mut().skip(8).take(4).for_each(|byte| *byte = 0);
            prop_assert_eq!(sctp_crc(&packet), crc32c(&zeroed));
        }

        #[test]
        fn change_is_full(
            bytes in prop::collection::vec(any::<u8>(), 2..80), at in 0usize..78, new: u16,
        ) {
            let at = at.min(bytes.len() - 2);
            let old = u16::from_be_bytes([bytes[at], bytes[at + 1]]);
            let mut after = bytes.clone();
            after[at..at + 2].copy_from_slice(&new.to_be_bytes());
            let change = crc32c_change(old, new, bytes.len() - at - 2);
            prop_assert_eq!(crc32c(&bytes) ^ change, crc32c(&after));
        }
    }
}
