//! Where a bridge's addresses are, as translation reads it: a part of snapshots.

use crate::mac_table::MacEntry;
use base::{MacAddr, OfPort};
use table::HashTrie;

/// Ports by VLAN and address.
#[derive(Clone, Debug, Default)]
pub(crate) struct Addresses {
    known: HashTrie<Known>,
}

#[derive(Clone, Copy, Debug)]
struct Known {
    key: (u16, MacAddr),
    port: OfPort,
    is_static: bool,
}

/// One hash for each key: no sender can make addresses collide.
fn hash((vlan, mac): (u16, MacAddr)) -> u64 {
    (u64::from(vlan) << 48 | mac.to_u64()).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

impl Addresses {
    /// Puts an address where its entry says, or forgets it.
    pub fn set(&mut self, key: (u16, MacAddr), entry: Option<&MacEntry>) {
        self.known.remove(hash(key), |it| it.key == key);
        if let Some(&MacEntry { port, is_static, .. }) = entry {
            self.known.insert(hash(key), Known { key, port, is_static });
        }
    }

    /// The port behind which an address is.
    pub fn port_of(&self, vlan: u16, mac: MacAddr) -> Option<OfPort> {
        self.find((vlan, mac)).map(|known| known.port)
    }

    /// Whether a packet from the address that comes in there changes anything but its age.
    pub fn would_learn(&self, vlan: u16, mac: MacAddr, port: OfPort) -> bool {
        let known = self.find((vlan, mac));
        known.is_none_or(|known| known.port != port && !known.is_static)
    }

    fn find(&self, key: (u16, MacAddr)) -> Option<&Known> {
        self.known.find(hash(key), |it| it.key == key)
    }
}
