//! What is kept of the outer packets of tunnels that are decapsulated before the lookup.

use base::PortNo;
use flow::{Headers, Layers};
use packet::Offload;

/// A set of ports with one bit per number modulo 64: membership may be falsely positive.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct PortSet(u64);

impl PortSet {
    /// All ports.
    pub const ALL: PortSet = PortSet(u64::MAX);

    /// The set with this port added.
    #[must_use]
    pub fn with(self, port: PortNo) -> PortSet {
        PortSet(self.0 | 1 << (port.0 & 63))
    }

    /// Whether the port may be a member.
    #[inline]
    pub fn may_have(self, port: PortNo) -> bool {
        self.0 >> (port.0 & 63) & 1 != 0
    }
}

/// The outer part of a packet that was decapsulated, to restore it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outside {
    pub headers: Headers,
    /// The number of the packet's class, used as its port in the cache.
    pub class: PortNo,
    /// The tunnel's port.
    pub port: PortNo,
    /// Bytes in front of the inner frame.
    pub header_len: usize,
    /// Bytes of the whole packet.
    pub len: usize,
    pub layers: Layers,
    pub offload: Offload,
}

impl Outside {
    pub const NONE: Outside = Outside {
        headers: Headers::none(),
        class: PortNo(0),
        port: PortNo(0),
        header_len: 0,
        len: 0,
        layers: Layers { l3: 0, l4: None },
        offload: Offload { checksum: packet::Checksum::Unverified, gso: None },
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_of_ports_has_those_that_are_equal_modulo_64() {
        let set = PortSet::default().with(PortNo(3)).with(PortNo(64));
        let members: Vec<u32> = (0..130).filter(|&port| set.may_have(PortNo(port))).collect();
        assert_eq!(members, [0, 3, 64, 67, 128]);
        assert!((0..130).all(|port| PortSet::ALL.may_have(PortNo(port))));
    }
}
