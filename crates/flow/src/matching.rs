//! A match: a key and the mask that says which of its bits count.

use crate::field::{Field, HEADER_FIELDS};
use crate::key::{FlowKey, Mask};
use std::fmt;

/// Which packets a flow applies to. The key's bits outside the mask are always zero, so that equal
/// matches compare and hash equal.
#[derive(Clone, PartialEq, Eq, Hash, Default)]
pub struct Match {
    key: FlowKey,
    mask: Mask,
}

impl Match {
    /// Matches every packet.
    pub fn any() -> Self {
        Match::default()
    }

    /// Matches packets that agree with `key` in the bits of `mask`.
    pub fn new(key: &FlowKey, mask: &Mask) -> Self {
        Match { key: key.masked(mask), mask: mask.clone() }
    }

    /// Narrowed to packets whose `field` is `value`.
    #[must_use]
    pub fn with(self, field: Field, value: u128) -> Self {
        self.with_masked(field, value, u128::MAX)
    }

    /// Narrowed to packets whose `field` agrees with `value` in the bits of `mask`.
    #[must_use]
    pub fn with_masked(mut self, field: Field, value: u128, mask: u128) -> Self {
        self.set_masked(field, value, mask);
        self
    }

    /// Narrows to packets whose `field` agrees with `value` in the bits of `mask`; what was said
    /// of other bits of the field stays.
    pub fn set_masked(&mut self, field: Field, value: u128, mask: u128) {
        let mask = mask & field.all_ones();
        self.key.set(field, (self.key.get(field) & !mask) | (value & mask));
        self.mask.add_bits(field, mask);
    }

    /// No longer looks at `field`.
    pub fn wildcard(&mut self, field: Field) {
        self.key.set(field, 0);
        self.mask.set(field, 0);
    }

    /// The values.
    pub fn key(&self) -> &FlowKey {
        &self.key
    }

    /// The bits that count.
    pub fn mask(&self) -> &Mask {
        &self.mask
    }

    /// Whether it speaks of headers without saying `packet_type`, which means those of frames
    /// (ovs: `lib/match.c`, `match_add_ethernet_prereq`).
    pub fn implies_frames(&self) -> bool {
        let words = &self.mask.words()[HEADER_FIELDS];
        !self.mask.has(Field::PacketType) && words.iter().any(|&word| word != 0)
    }

    /// Whether the packet with this key matches.
    pub fn matches(&self, key: &FlowKey) -> bool {
        let words = self.key.words().iter().zip(self.mask.words()).zip(key.words());
        words.fold(0, |diff, ((want, mask), have)| diff | ((want ^ have) & mask)) == 0
    }

    /// Whether some packet could match both.
    pub fn overlaps(&self, other: &Match) -> bool {
        let both = self.mask.words().iter().zip(other.mask.words());
        let keys = self.key.words().iter().zip(other.key.words());
        both.zip(keys).all(|((m1, m2), (k1, k2))| (k1 ^ k2) & m1 & m2 == 0)
    }

    /// Whether every packet that matches this matches `other` too (as OpenFlow's loose modify and
    /// delete choose flows).
    pub fn is_within(&self, other: &Match) -> bool {
        other.mask.is_within(&self.mask) && other.matches(&self.key)
    }
}

impl fmt::Debug for Match {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Match{")?;
        for &field in Field::BASIC {
            let mask = self.mask.get(field);
            if mask == field.all_ones() {
                write!(f, " {}={:#x}", field.name(), self.key.get(field))?;
            } else if mask != 0 {
                write!(f, " {}={:#x}/{mask:#x}", field.name(), self.key.get(field))?;
            }
        }
        f.write_str(" }")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn narrowing_widening_and_overlap() {
        let ip = Match::any().with(Field::EthType, 0x800);
        let low = ip.clone().with_masked(Field::TpDst, 0x8000, 0x8000);
        let port = ip.clone().with(Field::TpDst, 80);
        assert!(low.is_within(&ip) && !ip.is_within(&low));
        assert!(low.overlaps(&ip) && !low.overlaps(&port));
        let mut key = FlowKey::new();
        key.set_eth_type(0x800);
        key.set_tp_dst(33000);
        assert!(low.matches(&key) && !port.matches(&key));
        let mut wide = port.clone();
        wide.wildcard(Field::TpDst);
        assert_eq!(wide, ip);
    }
}
