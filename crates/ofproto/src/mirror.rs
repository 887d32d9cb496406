//! Mirrors: copies of a bridge's packets for monitoring (table `Mirror`).

use flow::Match;
use std::collections::BTreeSet;

/// Identifies a mirror across changes of its configuration: the number of its row.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct MirrorId(pub u128);

/// A mirror of a bridge. Ports that do not exist are ignored.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MirrorConfig {
    /// Its identifier.
    pub id: MirrorId,
    /// Whether all ports are selected, whatever the lists contain.
    pub all: bool,
    /// Ports whose packets are copied when they come in.
    pub sources: BTreeSet<String>,
    /// Ports whose packets are copied when they go out.
    pub destinations: BTreeSet<String>,
    /// The selected VLANs; an empty set selects all.
    pub vlans: BTreeSet<u16>,
    /// The packets that are copied, of those selected; `None` stands for all.
    pub filter: Option<Box<Match>>,
    /// Maximum bytes of a packet to copy; 0 copies all of it.
    pub snaplen: u16,
    /// The destination of the copies.
    pub output: MirrorOutput,
}

/// The destination of a mirror's copies.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum MirrorOutput {
    /// A port, which then sends nothing else.
    Port(String),
    /// To all ports that carry a VLAN.
    Vlan(u16),
}

impl MirrorConfig {
    /// Maximum number per bridge; further ones have no effect (ovs: `ofproto/ofproto-dpif-mirror.h`,
    /// `MAX_MIRRORS`).
    pub const MAX: usize = 32;

    /// Whether packets from this port are copied.
    pub(crate) fn watches_source(&self, port: &str) -> bool {
        self.all || self.sources.contains(port)
    }

    /// Whether packets to this port are copied.
    pub(crate) fn watches_destination(&self, port: &str) -> bool {
        self.all || self.destinations.contains(port)
    }

    /// Whether copies leave through this port.
    pub(crate) fn is_output(&self, port: &str) -> bool {
        matches!(&self.output, MirrorOutput::Port(name) if name == port)
    }
}
