//! What is kept of the outer packets of tunnels that are decapsulated before the lookup.

use base::PortNo;
use flow::{Headers, Layers};
use packet::Offload;

/// A set of ports with one bit for every 64th of them: it may say that it has a port that it has not.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct PortSet(u64);

impl PortSet {
    /// All ports.
    pub const ALL: PortSet = PortSet(u64::MAX);

    /// Those and this one.
    #[must_use]
    pub fn with(self, port: PortNo) -> PortSet {
        PortSet(self.0 | 1 << (port.0 & 63))
    }

    /// Whether the port may be among them.
    #[inline]
    pub fn may_have(self, port: PortNo) -> bool {
        self.0 >> (port.0 & 63) & 1 != 0
    }
}

/// The outer part of a packet that was decapsulated, to restore it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outside {
    pub headers: Headers,
    /// The number of the packet's class, which the cache has in the place of a port.
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
