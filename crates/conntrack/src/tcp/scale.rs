//! How far a side's windows are shifted (RFC 7323 section 2).

/// RFC 7323 section 2.3 caps the shift.
pub(super) const SCALE_MAX: u8 = 14;

/// What is known of a side's window scaling, in one byte.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Scale(pub(super) u8);

impl Scale {
    /// Its SYN said nothing of scaling, or was not seen.
    pub const NONE: Scale = Scale(0);
    /// The connection was picked up on its way, and it may scale.
    pub const UNKNOWN: Scale = Scale(0x40);
    const KNOWN: u8 = 0x80;

    pub(super) fn known(shift: u8) -> Scale {
        Scale(Self::KNOWN | shift.min(SCALE_MAX))
    }

    pub fn is_known(self) -> bool {
        self.0 & Self::KNOWN != 0
    }

    /// The shift, 0 where there is none.
    pub fn shift(self) -> u8 {
        self.0 & 0xf
    }
}
