//! The versions of OpenFlow.

/// The OpenFlow version of a connection.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum Version {
    /// OpenFlow 1.0
    V10 = 1,
    /// OpenFlow 1.1
    V11 = 2,
    /// OpenFlow 1.2
    V12 = 3,
    /// OpenFlow 1.3
    V13 = 4,
    /// OpenFlow 1.4
    V14 = 5,
    /// OpenFlow 1.5
    V15 = 6,
}

impl Version {
    /// All supported versions, in ascending order.
    pub const ALL: [Version; 6] =
        [Version::V10, Version::V11, Version::V12, Version::V13, Version::V14, Version::V15];
}
