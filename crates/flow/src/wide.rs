//! Numbers of more than 128 bits: the values of tunnel options, also on the stack of `push` and `pop`.

use std::fmt;
use std::ops::{BitAnd, BitOr, Not};

/// The number of limbs.
const LIMBS: usize = 8;
/// The number of bits in a limb.
const LIMB: u32 = u128::BITS;

/// A number of 1,024 bits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Wide {
    /// The most significant limb first, so that the derived ordering is that of the numbers.
    limbs: [u128; LIMBS],
}

impl Wide {
    /// Zero.
    pub const ZERO: Wide = Wide { limbs: [0; LIMBS] };
    /// All bits set.
    pub const ONES: Wide = Wide { limbs: [u128::MAX; LIMBS] };

    /// Returns a number with the lowest `bits` bits set.
    pub fn low_ones(bits: u32) -> Wide {
        !Wide::ONES.shift_left(bits)
    }

    /// Returns the number that these bytes are in network byte order. Only the last 128 bytes count.
    pub fn from_bytes(bytes: &[u8]) -> Wide {
        let mut out = Wide::ZERO;
        for (limb, bytes) in out.limbs.iter_mut().rev().zip(bytes.rchunks(16)) {
            *limb = bytes.iter().fold(0, |value, &byte| value << 8 | u128::from(byte));
        }
        out
    }

    /// Returns the low `len` bytes, at most 128, in network byte order.
    pub fn to_bytes(self, len: usize) -> Vec<u8> {
        let all: Vec<u8> = self.limbs.iter().flat_map(|limb| limb.to_be_bytes()).collect();
        all[all.len().saturating_sub(len)..].to_vec()
    }

    /// Parses a hexadecimal number without a prefix. Returns `None` for any other text or a number that is
    /// too large.
    pub fn from_hex(digits: &str) -> Option<Wide> {
        let digits = digits.trim_start_matches('0');
        if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return None;
        }
        let mut out = Wide::ZERO;
        let mut rest = digits;
        for limb in out.limbs.iter_mut().rev() {
            let (before, last) = rest.split_at(rest.len().saturating_sub(LIMB as usize / 4));
            if !last.is_empty() {
                *limb = u128::from_str_radix(last, 16).ok()?;
            }
            rest = before;
        }
        rest.is_empty().then_some(out)
    }

    /// Returns the low 128 bits.
    pub fn low(self) -> u128 {
        self.limbs[LIMBS - 1]
    }

    /// Returns whether the number is zero.
    pub fn is_zero(self) -> bool {
        self == Wide::ZERO
    }

    /// Returns the minimum number of bytes that contain the number, 0 for zero.
    pub fn byte_len(self) -> usize {
        let zeros = self.limbs.iter().position(|&limb| limb != 0).map_or(LIMBS, |at| at);
        let of_limb =
            self.limbs.get(zeros).map_or(0, |limb| (LIMB - limb.leading_zeros()).div_ceil(8));
        (LIMBS - zeros).saturating_sub(1) * 16 + of_limb as usize
    }

    /// Returns the number shifted left. Bits beyond the width are lost.
    #[must_use]
    pub fn shift_left(self, bits: u32) -> Wide {
        let (limbs, bits) = ((bits / LIMB) as usize, bits % LIMB);
        let limb = |at: usize| self.limbs.get(at).copied().unwrap_or(0);
        let shifted = |at: usize| {
            let carried = limb(at + limbs + 1).checked_shr(LIMB - bits).unwrap_or(0);
            limb(at + limbs) << bits | carried
        };
        Wide { limbs: std::array::from_fn(shifted) }
    }

    /// Returns the number shifted right.
    #[must_use]
    pub fn shift_right(self, bits: u32) -> Wide {
        let (limbs, bits) = ((bits / LIMB) as usize, bits % LIMB);
        let limb = |at: Option<usize>| at.map_or(0, |at| self.limbs[at]);
        let shifted = |at: usize| {
            let carried = limb(at.checked_sub(limbs + 1)).checked_shl(LIMB - bits).unwrap_or(0);
            limb(at.checked_sub(limbs)) >> bits | carried
        };
        Wide { limbs: std::array::from_fn(shifted) }
    }
}

impl From<u128> for Wide {
    fn from(value: u128) -> Wide {
        let mut out = Wide::ZERO;
        out.limbs[LIMBS - 1] = value;
        out
    }
}

impl BitAnd for Wide {
    type Output = Wide;

    fn bitand(self, other: Wide) -> Wide {
        Wide { limbs: std::array::from_fn(|at| self.limbs[at] & other.limbs[at]) }
    }
}

impl BitOr for Wide {
    type Output = Wide;

    fn bitor(self, other: Wide) -> Wide {
        Wide { limbs: std::array::from_fn(|at| self.limbs[at] | other.limbs[at]) }
    }
}

impl Not for Wide {
    type Output = Wide;

    fn not(self) -> Wide {
        Wide { limbs: self.limbs.map(|limb| !limb) }
    }
}

impl fmt::LowerHex for Wide {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all: String = self.limbs.iter().map(|limb| format!("{limb:032x}")).collect();
        let digits = all.trim_start_matches('0');
        f.pad_integral(true, "0x", if digits.is_empty() { "0" } else { digits })
    }
}

impl fmt::Debug for Wide {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:#x}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_written_and_shifted() {
        let digits = "123456789abcdef0".repeat(15) + "0";
        let value = Wide::from_hex(&digits).unwrap();
        assert_eq!(format!("{value:x}"), digits);
        assert_eq!(value.byte_len(), 121);
        assert_eq!(Wide::from_bytes(&value.to_bytes(124)), value);
        assert_eq!(value.to_bytes(2), [0xef, 0x00]);
        for bits in [0, 1, 4, 127, 128, 129, 256, 963, 1023, 1024] {
            let kept = value & Wide::ONES.shift_right(bits);
            assert_eq!(value.shift_left(bits).shift_right(bits), kept, "{bits}");
            assert_eq!(
                value & !Wide::low_ones(bits),
                value.shift_right(bits).shift_left(bits),
                "{bits}"
            );
        }
        assert_eq!(value.shift_right(4).low(), 0x1234_5678_9abc_def0_1234_5678_9abc_def0);
        assert_eq!(Wide::from(5).shift_left(200).shift_right(199), Wide::from(10));
        assert_eq!((Wide::ZERO.byte_len(), Wide::from(0x100).byte_len()), (0, 2));
        assert_eq!(format!("{:#x} {:#x}", Wide::ZERO, Wide::from(0xa)), "0x0 0xa");
        assert_eq!(Wide::from_hex("xy"), None);
        assert_eq!(Wide::from_hex(&"f".repeat(256)), Some(Wide::ONES));
        assert_eq!(Wide::from_hex(&"1".repeat(257)), None);
        assert!(Wide::from(7) < Wide::from(1).shift_left(128));
    }
}
