//! How many VLAN headers are parsed (`other_config:vlan-limit`).

use crate::key::{FlowKey, VLAN_PRESENT};
use std::sync::atomic::{AtomicU8, Ordering};

/// A number of VLAN headers. Those that are parsed become part of the key; what stands behind them is
/// payload, and the Ethernet type of the next tag is the packet's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct VlanLimit(u8);

/// One for the whole process, as in Open vSwitch (ovs: `lib/flow.c`, `flow_vlan_limit`): all that parses
/// has to agree. Each frame is parsed on its own, so no order with other memory is needed.
static CURRENT: AtomicU8 = AtomicU8::new(base::limits::VLAN_LIMIT as u8);

impl VlanLimit {
    /// As many as a key has room for.
    pub const MAX: VlanLimit = VlanLimit(base::limits::VLAN_HEADERS);

    /// What the setting means: 0 and what is larger than the maximum are the maximum (ovs: `lib/flow.c`,
    /// `flow_limit_vlans`).
    pub fn new(setting: u32) -> VlanLimit {
        match u8::try_from(setting) {
            Ok(limit @ 1..=base::limits::VLAN_HEADERS) => VlanLimit(limit),
            _ => VlanLimit::MAX,
        }
    }

    /// The limit that is in force.
    #[inline]
    pub fn current() -> VlanLimit {
        VlanLimit(CURRENT.load(Ordering::Relaxed))
    }

    /// Puts this limit in force for every frame that is parsed from now on; says whether it is another
    /// one than before.
    pub fn enforce(self) -> bool {
        CURRENT.swap(self.0, Ordering::Relaxed) != self.0
    }

    /// How many tags this key has: what to parse where a packet is to be read as it was for the key.
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
