//! The Internet checksum (RFC 1071).

/// A running one's complement sum of numbers in native byte order. Swapping the bytes of every number swaps
/// the bytes of the sum (RFC 1071 section 2(B)).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sum(u64);

impl Sum {
    /// Adds bytes that start at an even offset.
    #[inline]
    pub fn bytes(mut self, bytes: &[u8]) -> Sum {
        // Summing 32 bits at a time is the same sum, since 2^16 is 1 in one's complement; a frame
        // of 64 KB cannot overflow 64 bits.
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            let word = u64::from_ne_bytes(*word);
            self.0 += (word & 0xffff_ffff) + (word >> 32);
        }
        let (halves, rest) = rest.as_chunks::<4>();
        for half in halves {
            self.0 += u64::from(u32::from_ne_bytes(*half));
        }
        self.0 += u64::from(match *rest {
            [a] => u32::from_ne_bytes([a, 0, 0, 0]),
            [a, b] => u32::from_ne_bytes([a, b, 0, 0]),
            [a, b, c] => u32::from_ne_bytes([a, b, c, 0]),
            _ => 0,
        });
        self
    }

    /// Adds a number.
    #[inline]
    pub fn number(mut self, number: u16) -> Sum {
        self.0 += u64::from(number.to_be());
        self
    }

    /// Returns the complement of the folded sum: the checksum, or 0 over data that includes a correct
    /// checksum.
    #[inline]
    pub fn finish(self) -> u16 {
        // Each fold halves the number of bits, plus a carry.
        let sum = (self.0 & 0xffff_ffff) + (self.0 >> 32);
        let sum = (sum & 0xffff) + (sum >> 16);
        let sum = (sum & 0xffff) + (sum >> 16);
        let sum = (sum & 0xffff) + (sum >> 16);
        u16::from_be(!(sum as u16))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn agrees_with_sixteen_bits_at_a_time(bytes in proptest::collection::vec(any::<u8>(), 0..70)) {
            let mut naive = 0u32;
            for pair in bytes.chunks(2) {
                naive += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
                naive = (naive & 0xffff) + (naive >> 16);
            }
            prop_assert_eq!(Sum::default().bytes(&bytes).finish(), !(naive as u16));
        }
    }

    #[test]
    fn header_of_rfc_1071_style_example() {
        let header = [
            0x45, 0, 0, 0x73, 0, 0, 0x40, 0, 0x40, 0x11, 0xb8, 0x61, 0xc0, 0xa8, 0, 1, 0xc0, 0xa8,
            0, 0xc7,
        ];
        assert_eq!(Sum::default().bytes(&header).finish(), 0);
    }
}
