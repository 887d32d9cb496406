//! Mirrors: copies of a bridge's packets for monitoring (table `Mirror`).

use std::collections::BTreeSet;

/// A mirror of a bridge; ports are there or not.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MirrorConfig {
    /// Whether all ports are watched, whatever the lists say.
    pub all: bool,
    /// Ports whose packets are copied when they come in.
    pub sources: BTreeSet<String>,
    /// Ports whose packets are copied when they go out.
    pub destinations: BTreeSet<String>,
    /// The VLANs that are watched; none are all.
    pub vlans: BTreeSet<u16>,
    /// How many bytes of a packet are copied; 0 is all of them.
    pub snaplen: u16,
    /// Where copies go.
    pub output: MirrorOutput,
}

/// Where a mirror's copies go.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum MirrorOutput {
    /// Out of a port, which has nothing else then.
    Port(String),
    /// To all ports that carry a VLAN.
    Vlan(u16),
}

impl MirrorConfig {
    /// The most of a bridge; what goes beyond is not carried out (ovs:
    /// `ofproto/ofproto-dpif-mirror.h`, `MAX_MIRRORS`).
    pub const MAX: usize = 32;

    /// Whether packets from this port are watched.
    pub(crate) fn watches_source(&self, port: &str) -> bool {
        self.all || self.sources.contains(port)
    }

    /// Whether packets to this port are watched.
    pub(crate) fn watches_destination(&self, port: &str) -> bool {
        self.all || self.destinations.contains(port)
    }

    /// Whether copies go out of this port.
    pub(crate) fn is_output(&self, port: &str) -> bool {
        matches!(&self.output, MirrorOutput::Port(name) if name == port)
    }
}
