//! MPLS label stack entries (RFC 3032).

/// Bytes of an entry.
pub const ENTRY_LEN: usize = 4;
/// The largest label.
pub const LABEL_MAX: u32 = 0xf_ffff;
/// The label of an IPv6 packet without another one (RFC 3032 section 2.1).
pub const IPV6_EXPLICIT_NULL: u32 = 2;

const LABEL_SHIFT: u32 = 12;
const TC_SHIFT: u32 = 9;
const BOTTOM: u32 = 1 << 8;

/// An entry as it is on the wire: label (20 bits), traffic class (3), bottom of stack (1), TTL (8).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct LabelEntry(pub u32);

impl LabelEntry {
    /// The entry of these parts; bits beyond their widths are ignored.
    pub const fn new(label: u32, tc: u8, is_bottom: bool, ttl: u8) -> Self {
        let bottom = if is_bottom { BOTTOM } else { 0 };
        let tc = (tc as u32 & 7) << TC_SHIFT;
        LabelEntry((label & LABEL_MAX) << LABEL_SHIFT | tc | bottom | ttl as u32)
    }

    /// The label.
    pub const fn label(self) -> u32 {
        self.0 >> LABEL_SHIFT
    }

    /// The traffic class (RFC 5462).
    pub const fn tc(self) -> u8 {
        (self.0 >> TC_SHIFT) as u8 & 7
    }

    /// Whether this is the last entry of the stack.
    pub const fn is_bottom(self) -> bool {
        self.0 & BOTTOM != 0
    }

    /// The time to live.
    pub const fn ttl(self) -> u8 {
        self.0 as u8
    }

    /// The same entry as another one than the last.
    #[must_use]
    pub const fn without_bottom(self) -> Self {
        LabelEntry(self.0 & !BOTTOM)
    }
}

/// The entries at the start of `bytes`, up to the bottom of the stack.
pub fn read_stack(bytes: &[u8]) -> impl Iterator<Item = LabelEntry> + '_ {
    let (entries, _) = bytes.as_chunks::<ENTRY_LEN>();
    let mut is_over = false;
    entries.iter().map(|entry| LabelEntry(u32::from_be_bytes(*entry))).take_while(move |entry| {
        let was_over = is_over;
        is_over |= entry.is_bottom();
        !was_over
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_have_their_parts_where_rfc_3032_has_them() {
        let entry = LabelEntry(0x0001_4720);
        assert_eq!((entry.label(), entry.tc(), entry.is_bottom(), entry.ttl()), (20, 3, true, 32));
        assert_eq!(LabelEntry::new(20, 3, true, 32), entry);
        assert_eq!(entry.without_bottom(), LabelEntry::new(20, 3, false, 32));
        assert_eq!(LabelEntry::new(u32::MAX, 0xff, true, 0xff), LabelEntry(u32::MAX));
    }

    #[test]
    fn a_stack_ends_at_its_bottom_or_with_the_bytes() {
        let labels = |bytes: &[u8]| read_stack(bytes).map(LabelEntry::label).collect::<Vec<_>>();
        let outer = [0, 0, 0x10, 64];
        let bottom = [0, 0, 0x21, 64];
        assert_eq!(labels(&[outer, bottom, outer].concat()), [1, 2]);
        assert_eq!(labels(&[outer, outer].concat()), [1, 1]);
        assert_eq!(labels(&[&outer[..], &[0, 0, 0x11]].concat()), [1]);
        assert_eq!(labels(&[0; 3]), [0; 0]);
    }
}
