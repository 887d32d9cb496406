//! The Internet checksum (RFC 1071).

/// A running one's complement sum.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sum(u64);

impl Sum {
    /// Adds bytes that start at an even offset.
    pub fn bytes(mut self, bytes: &[u8]) -> Sum {
        // Summing 32 bits at a time is the same sum, since 2^16 is 1 in one's complement; a frame
        // of 64 KB cannot overflow 64 bits.
        let (words, rest) = bytes.as_chunks::<4>();
        for word in words {
            self.0 += u64::from(u32::from_be_bytes(*word));
        }
        let mut last = [0; 4];
        for (to, from) in last.iter_mut().zip(rest) {
            *to = *from;
        }
        self.0 += u64::from(u32::from_be_bytes(last));
        self
    }

    /// Adds a number.
    pub fn number(mut self, number: u16) -> Sum {
        self.0 += u64::from(number);
        self
    }

    /// The checksum: the complement of the folded sum. 0 where a covered checksum was right.
    pub fn finish(self) -> u16 {
        let mut sum = self.0;
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        !(sum as u16)
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
