//! What the datapath and a device that forwards by itself tell each other: which packets of a
//! connection it may take over, and what came of them.
//!
//! The unit is an entry of the unified flow cache: one direction of a connection, from port to port.
//! A device may refuse any, for the switch forwards whatever a device does not.

use crate::action::Action;
use crate::connection::ConnectionRef;
use crate::headers::Headers;
use crate::tunnel::{TunnelKind, TunnelPush};
use crate::upcall::FlowId;
use base::{PortNo, WorkerId};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Packets that a device may forward: those that agree with `headers` in the bits of `mask`.
#[derive(Clone, PartialEq, Debug)]
pub struct OffloadRule {
    /// Headers of one of them.
    pub headers: Headers,
    /// Which bits of headers make others like it. Protocol, addresses and ports always do.
    pub mask: Headers,
    /// The connection that they are of.
    pub connection: ConnectionRef,
    /// Of another zone, the same.
    pub second: Option<ConnectionRef>,
    /// Addresses and ports behind connection tracking, where those are others.
    pub translated: Option<Translated>,
    /// What is done with them then. Ends in an output, which a tunnel's outer headers may precede, or in a drop;
    /// none at all is a drop, too.
    pub actions: Arc<[Action]>,
    /// The tunnel that they come in through. `headers` and `mask` then are those of the inner packet, whose
    /// port is the tunnel's.
    pub tunnel: Option<OffloadTunnel>,
    /// The mark by which the worker finds its entry of the cache, if a device that does not forward the packets
    /// puts it on them. It may outlive the entry: the worker compares.
    pub mark: Option<u32>,
}

/// Outer packets that a device decapsulates: those that agree with `headers` in the bits of `mask`, and have the
/// tunnel's header `word`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OffloadTunnel {
    /// The protocol.
    pub kind: TunnelKind,
    /// The outer headers of one of them.
    pub headers: Headers,
    /// Which bits of them make others like it.
    pub mask: Headers,
    /// The tunnel's header: the first eight bytes, or of GRE flags, protocol and the key or zero.
    pub word: u64,
    /// The outer UDP header has a checksum.
    pub has_checksum: bool,
    /// Bytes in front of the inner frame.
    pub header_bytes: usize,
}

/// Addresses and ports of a packet, laid out as in a [`crate::FlowKey`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Translated {
    /// The source's two words and the destination's; an IPv4 address is the low half of a second word.
    pub addresses: [u64; 4],
    /// Source and destination port.
    pub ports: u32,
}

/// A rule that a worker offers, with what it hangs on.
#[derive(Clone, PartialEq, Debug)]
pub struct OffloadOffer {
    /// The worker.
    pub worker: WorkerId,
    /// What is to be installed.
    pub rule: OffloadRule,
    /// The flows that its packets hit, which are to be credited. When one of them changes, the rule
    /// goes.
    pub flows: Vec<FlowId>,
}

impl OffloadRule {
    /// The port that the packets come in on, within their tunnel where they have one.
    pub fn in_port(&self) -> PortNo {
        self.tunnel.as_ref().map_or(&self.headers, |tunnel| &tunnel.headers).in_port()
    }

    /// The ports that the rule hangs on: those of devices and those of tunnels.
    pub fn ports(&self) -> impl Iterator<Item = PortNo> + '_ {
        let of_action = |action: &Action| match action {
            Action::Output(port) => Some(*port),
            Action::TunnelPush(to) => Some(to.port),
            _ => None,
        };
        let tunnel = self.tunnel.as_ref().map(|tunnel| tunnel.headers.in_port());
        let came_by = std::iter::once(self.headers.in_port()).chain(tunnel);
        came_by.chain(self.actions.iter().filter_map(of_action))
    }

    /// The UDP source port of a tunnel's outer packets, as the switch chooses it.
    pub fn source_port(&self, to: &TunnelPush) -> u16 {
        let before = (self.headers.key_addresses(), self.headers.key_ports());
        let (addresses, ports) = self.translated.map_or(before, |it| (it.addresses, it.ports));
        to.source_port(addresses, ports, self.headers.protocol())
    }

    /// The connections.
    pub fn connections(&self) -> impl Iterator<Item = ConnectionRef> + use<> {
        std::iter::once(self.connection).chain(self.second)
    }
}

/// A rule in a device, by a number that is used again when the rule is gone.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct OffloadId(pub u32);

/// Packets that a device forwarded by a rule.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct OffloadTraffic {
    /// How many.
    pub packets: u64,
    /// Their bytes, from the Ethernet header on, as they came in.
    pub bytes: u64,
}

impl OffloadTraffic {
    /// Adds what else was forwarded.
    pub fn add(&mut self, more: OffloadTraffic) {
        self.packets += more.packets;
        self.bytes += more.bytes;
    }
}

/// A rule as a device sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct OffloadStatus {
    /// What it forwarded since it was asked last.
    pub traffic: OffloadTraffic,
    /// The device forwards no more by it, since it saw the connection end.
    pub is_ended: bool,
}

/// Why a device does not forward the packets of a rule.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OffloadRefusal {
    /// The reason.
    pub kind: Refusal,
    /// The device's own words, where it said anything.
    pub words: Option<Arc<str>>,
}

impl From<Refusal> for OffloadRefusal {
    fn from(kind: Refusal) -> OffloadRefusal {
        OffloadRefusal { kind, words: None }
    }
}

/// A device that forwards packets by itself.
pub trait FlowOffload {
    /// Takes a rule over. It does nothing more with packets of a connection that had none for `idle`.
    ///
    /// # Errors
    /// Why it does not; the rule's packets are forwarded by the switch, as before.
    fn install(&mut self, rule: &OffloadRule, idle: Duration) -> Result<OffloadId, OffloadRefusal>;

    /// Returns why the device does not forward packets by a rule, but only marks them for the switch. `None` where
    /// it forwards them.
    fn only_marks(&self, _id: OffloadId) -> Option<OffloadRefusal> {
        None
    }

    /// Forgets a rule: when this returns, it forwards no packet by it that comes later. Gives what it
    /// forwarded since it was asked last.
    fn remove(&mut self, id: OffloadId) -> OffloadTraffic;

    /// What came of a rule.
    fn status(&mut self, id: OffloadId) -> OffloadStatus;

    /// How often it handed a packet to the switch, by reason.
    fn passed(&self) -> Vec<(&'static str, u64)>;
}

macro_rules! refusals {
    ($($(#[$doc:meta])* $name:ident = $text:literal, $words:literal;)*) => {
        /// Why packets are not offloaded.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum Refusal {
            $($(#[$doc])* $name,)*
        }

        impl Refusal {
            /// All of them.
            pub const ALL: &[Refusal] = &[$(Refusal::$name,)*];

            /// A word for it.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Refusal::$name => $text,)*
                }
            }
        }

        impl fmt::Display for Refusal {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self {
                    $(Refusal::$name => $words,)*
                })
            }
        }
    };
}

refusals! {
    /// The packets are not tracked.
    Untracked = "untracked", "its packets are not tracked, so that nothing says when it ends";
    /// Neither TCP nor UDP.
    Protocol = "protocol", "it is neither TCP nor UDP";
    /// The connection is not established.
    NotEstablished = "not-established", "its connection is not established";
    /// A helper reads the packets.
    Helper = "helper", "a helper (FTP, TFTP) reads its packets";
    /// The connection ended or is another one now.
    Ended = "ended", "its connection ended, or changed since it was offered";
    /// A flow changed.
    FlowChanged = "flow-changed", "a flow that its packets hit changed since it was offered";
    /// Ports that the device has not.
    InPort = "in-port", "packets of the port that it comes in on cannot be offloaded";
    /// A port that the device cannot send to.
    OutPort = "out-port", "packets cannot be sent directly to the port that it leaves by";
    /// A header that the device does not look at.
    Match = "match", "its flows look at headers that the device does not (TCP flags, IPv6 flow label)";
    /// Steps that the device cannot carry out.
    Actions = "actions", "its flows do what the device cannot";
    /// A tunnel that the device cannot put packets into or take them out of.
    Tunnel = "tunnel", "the device does not support its tunnel (it may support VXLAN without extensions)";
    /// Frames that may be too large for the way out.
    Mtu = "mtu", "frames of the port that it comes in on can be too large for the port that it leaves by";
    /// The direction of the connection has a rule already.
    Twice = "twice", "the same direction of its connection is offloaded by another rule";
    /// There is no room.
    Full = "full", "the device has no room";
    /// The device marks the packets and leaves them to the switch.
    Marked = "marked", "the device does not forward its packets, but marks them, which spares the switch a lookup";
    /// The device failed.
    Device = "device", "the device refused it";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_refusal_has_a_name_of_its_own() {
        let mut names: Vec<_> = Refusal::ALL.iter().map(|it| it.name()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Refusal::ALL.len());
    }
}
