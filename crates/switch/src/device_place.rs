//! Where a port's device is: other programs rename, move and remove devices while the switch runs.

/// Where a port's device is, seen from the switch's network namespace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// Here, under the port's name. Ports without a device of the system are always so.
    Named,
    /// Here, under another name. Its queues work on.
    Renamed,
    /// In another network namespace. Its queues work on: it is a TAP device.
    Elsewhere,
    /// Removed, or moved to another network namespace, where its queues do not work.
    Gone,
}
