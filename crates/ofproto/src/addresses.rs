//! The learned addresses of a bridge, as translation reads them: part of a snapshot.

use crate::mac_table::MacEntry;
use base::{MacAddr, OfPort};
use table::{HashTrie, Remains};

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

/// A bijection: different keys have different hashes, so that no sender can provoke collisions.
fn hash((vlan, mac): (u16, MacAddr)) -> u64 {
    (u64::from(vlan) << 48 | mac.to_u64()).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

impl Addresses {
    /// Sets the port of an address from its table entry, or removes the address.
    pub fn set(&mut self, key: (u16, MacAddr), entry: Option<&MacEntry>) {
        self.known.remove(hash(key), |it| it.key == key);
        if let Some(&MacEntry { port, is_static, .. }) = entry {
            self.known.insert(hash(key), Known { key, port, is_static });
        }
    }

    /// The port behind which an address was learned.
    pub fn port_of(&self, vlan: u16, mac: MacAddr) -> Option<OfPort> {
        self.find((vlan, mac)).map(|known| known.port)
    }

    /// Whether a packet from the address on that port changes anything but the entry's age.
    pub fn would_learn(&self, vlan: u16, mac: MacAddr, port: OfPort) -> bool {
        let known = self.find((vlan, mac));
        known.is_none_or(|known| known.port != port && !known.is_static)
    }

    /// Frees them a part at a time.
    pub fn hand_over(self, remains: &mut Remains) {
        self.known.hand_over(remains);
    }

    fn find(&self, key: (u16, MacAddr)) -> Option<&Known> {
        self.known.find(hash(key), |it| it.key == key)
    }
}
