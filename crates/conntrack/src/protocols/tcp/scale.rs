//! The window scale of a side (RFC 7323 section 2).

/// The largest shift (RFC 7323 section 2.3).
pub(super) const SCALE_MAX: u8 = 14;

/// A side's window scaling, in one byte.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Scale(pub(super) u8);

impl Scale {
    /// Its SYN had no window scale option, or was not seen.
    pub const NONE: Scale = Scale(0);
    /// The connection was picked up without its SYNs, so it may scale by any shift.
    pub const UNKNOWN: Scale = Scale(0x40);
    const KNOWN: u8 = 0x80;

    pub(super) fn known(shift: u8) -> Scale {
        Scale(Self::KNOWN | shift.min(SCALE_MAX))
    }

    pub fn is_known(self) -> bool {
        self.0 & Self::KNOWN != 0
    }

    /// The shift; 0 without scaling.
    pub fn shift(self) -> u8 {
        self.0 & 0xf
    }
}
