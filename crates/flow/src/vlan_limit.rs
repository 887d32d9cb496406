//! The maximum number of VLAN headers that are parsed (`other_config:vlan-limit`).

use crate::key::{FlowKey, VLAN_PRESENT};
use std::sync::atomic::{AtomicU8, Ordering};

/// A maximum number of VLAN headers. Parsed headers become part of the key. Further ones are payload, and the
/// Ethernet type of the packet is that of the next tag.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct VlanLimit(u8);

/// The limit of the process, as in Open vSwitch (ovs: `lib/flow.c`, `flow_vlan_limit`): all parsers must
/// agree. Each frame is parsed independently, so relaxed ordering suffices.
static CURRENT: AtomicU8 = AtomicU8::new(base::limits::VLAN_LIMIT as u8);

impl VlanLimit {
    /// The number of tags that a key has room for.
    pub const MAX: VlanLimit = VlanLimit(base::limits::VLAN_HEADERS);

    /// Returns the limit of a setting: 0 and values above the maximum mean the maximum (ovs: `lib/flow.c`,
    /// `flow_limit_vlans`).
    pub fn new(setting: u32) -> VlanLimit {
        match u8::try_from(setting) {
            Ok(limit @ 1..=base::limits::VLAN_HEADERS) => VlanLimit(limit),
            _ => VlanLimit::MAX,
        }
    }

    /// Returns the limit in force.
    #[inline]
    pub fn current() -> VlanLimit {
        VlanLimit(CURRENT.load(Ordering::Relaxed))
    }

    /// Sets the limit for frames that are parsed from now on. Returns whether it changed.
    pub fn enforce(self) -> bool {
        CURRENT.swap(self.0, Ordering::Relaxed) != self.0
    }

    /// Returns the number of tags in this key: the limit for parsing a packet as it was parsed for the key.
    pub(crate) fn of(key: &FlowKey) -> VlanLimit {
        let tags = [key.vlan_tci(), key.vlan_tci1()];
        VlanLimit(tags.iter().take_while(|&tci| tci & VLAN_PRESENT != 0).count() as u8)
    }

    /// The number.
    #[inline]
    pub fn headers(self) -> u8 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_and_more_than_the_maximum_are_the_maximum() {
        for (setting, expect) in [(0, 2), (1, 1), (2, 2), (3, 2), (256, 2), (u32::MAX, 2)] {
            assert_eq!(VlanLimit::new(setting), VlanLimit(expect), "{setting}");
        }
        assert_eq!(VlanLimit::current(), VlanLimit(1), "the default");
    }
}
