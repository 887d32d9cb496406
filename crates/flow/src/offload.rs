//! The interface between the datapath and devices with flow offload: rules, their traffic, and refusals.
//!
//! A rule covers one entry of the unified cache: one direction of a connection, from port to port. A
//! device may refuse any rule; the switch then forwards its packets.

use crate::action::Action;
use crate::connection::ConnectionRef;
use crate::headers::Headers;
use crate::tunnel::{TunnelKind, TunnelPush};
use crate::upcall::FlowId;
use base::{PortNo, WorkerId};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// A rule to offload. Its packets are those that agree with `headers` in the bits of `mask`.
#[derive(Clone, PartialEq, Debug)]
pub struct OffloadRule {
    /// The headers of one of its packets.
    pub headers: Headers,
    /// The bits of the headers that are matched, always including protocol, addresses and ports.
    pub mask: Headers,
    /// The connection of the packets.
    pub connection: ConnectionRef,
    /// Their connection in a second zone, if they are tracked in two.
    pub second: Option<ConnectionRef>,
    /// Addresses and ports after NAT, if they change.
    pub nat_rewrite: Option<NatRewrite>,
    /// Whether `mask` has ECN bits only because the outer headers in `actions` copy them from the packet
    /// (RFC 6040). A device that copies them per packet need not match them.
    pub copies_ecn: bool,
    /// The actions after connection tracking. The last one is an output, which a tunnel's outer headers may
    /// precede, or a drop. An empty list drops, too.
    pub actions: Arc<[Action]>,
    /// The tunnel through which the packets are received. `headers` and `mask` are then those of the inner
    /// packet, with the tunnel's port as its in-port.
    pub tunnel: Option<OffloadTunnel>,
    /// The mark that a device that cannot forward the packets puts on them, so that the worker finds its
    /// cache entry by it. A mark can outlive its entry, so the worker compares the headers.
    pub mark: Option<u32>,
}

/// The outer packets that a device decapsulates: those that agree with `headers` in the bits of `mask` and
/// have the tunnel header `word`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OffloadTunnel {
    /// The protocol.
    pub kind: TunnelKind,
    /// The outer headers of one packet.
    pub headers: Headers,
    /// The bits of the outer headers that are matched.
    pub mask: Headers,
    /// The first eight bytes of the tunnel header. For GRE: flags, protocol, and the key or zero.
    pub word: u64,
    /// Whether the outer UDP header has a checksum.
    pub has_checksum: bool,
    /// The number of bytes before the inner frame.
    pub header_bytes: usize,
}

/// Addresses and ports of a packet, in the form of [`FlowKey::addresses`](crate::FlowKey::addresses) and
/// [`FlowKey::ports`](crate::FlowKey::ports).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NatRewrite {
    /// Two words for the source and two for the destination. An IPv4 address is in the low half of its second
    /// word.
    pub addresses: [u64; 4],
    /// Source and destination port.
    pub ports: u32,
}

/// A rule that a worker offers, with the flows that it depends on.
#[derive(Clone, PartialEq, Debug)]
pub struct OffloadOffer {
    /// The worker.
    pub worker: WorkerId,
    /// The rule to install.
    pub rule: OffloadRule,
    /// The flows that its packets hit, whose statistics include the rule's traffic. The rule is removed when
    /// one of them changes.
    pub flows: Vec<FlowId>,
}

impl OffloadRule {
    /// Returns the port on which the packets are received: for a tunnel's packets, that of the outer packets.
    pub fn in_port(&self) -> PortNo {
        self.tunnel.as_ref().map_or(&self.headers, |tunnel| &tunnel.headers).in_port()
    }

    /// Returns the ports that the rule depends on, of devices and of tunnels.
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

    /// Returns the UDP source port that the switch selects for the outer packets of a tunnel.
    pub fn source_port(&self, to: &TunnelPush) -> u16 {
        let before = (self.headers.key_addresses(), self.headers.key_ports());
        let (addresses, ports) = self.nat_rewrite.map_or(before, |it| (it.addresses, it.ports));
        to.source_port(addresses, ports, self.headers.protocol())
    }

    /// Returns the connections.
    pub fn connections(&self) -> impl Iterator<Item = ConnectionRef> + use<> {
        std::iter::once(self.connection).chain(self.second)
    }
}

/// The number of a rule in a device. It is reused after the rule is removed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct OffloadId(pub u32);

/// The traffic that a device forwarded by a rule.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct OffloadTraffic {
    /// Packets.
    pub packets: u64,
    /// Bytes of the received frames, including the Ethernet header.
    pub bytes: u64,
}

impl OffloadTraffic {
    /// Adds further traffic.
    pub fn add(&mut self, more: OffloadTraffic) {
        self.packets += more.packets;
        self.bytes += more.bytes;
    }
}

/// The state of a rule in a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct OffloadStatus {
    /// The traffic since the last query.
    pub traffic: OffloadTraffic,
    /// Whether the device stopped forwarding because the connection ended.
    pub is_ended: bool,
    /// The windows of its connection, if the device checks them and saw packets since it was asked last.
    pub windows: Option<TcpWindows>,
}

/// The highest mark that names an entry of a worker's cache. 24 bits are what devices have; some keep the last few
/// numbers.
pub const MARK_MAX: u32 = 0xff_0000;
/// The mark of a segment whose sequence numbers a device found within the windows of its connection, which the device
/// keeps and the switch does not know until it asks.
pub const MARK_IN_WINDOW: u32 = MARK_MAX + 1;

/// The sequence numbers that one side of a TCP connection may use.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TcpWindow {
    /// The highest sequence number that it sent, plus one.
    pub sent_end: u32,
    /// The highest sequence number that it may send, plus one.
    pub allowed_end: u32,
    /// The largest window that it announced, in bytes.
    pub max_window: u32,
    /// The shift of the windows that it announces; `None` where they are not scaled.
    pub scale: Option<u8>,
}

/// The windows of a TCP connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TcpWindows {
    /// Of the side that began it.
    pub original: TcpWindow,
    /// Of the other side.
    pub reply: TcpWindow,
    /// Segments outside the windows are invalid.
    pub is_checked: bool,
}

/// Whether a device can check TCP's windows of the packets that it forwards.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum WindowCheck {
    /// It cannot for packets like these, or they have no windows.
    Never,
    /// It refused to.
    Refused(OffloadRefusal),
    /// It may, if it gets the rules of both directions together.
    Possible,
}

/// Why a device does not forward the packets of a rule.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OffloadRefusal {
    /// The reason.
    pub kind: Refusal,
    /// The message of the device, if there is one.
    pub words: Option<Arc<str>>,
}

impl From<Refusal> for OffloadRefusal {
    fn from(kind: Refusal) -> OffloadRefusal {
        OffloadRefusal { kind, words: None }
    }
}

/// A device with flow offload.
pub trait FlowOffload {
    /// Installs a rule. The device stops forwarding by it when its connection had no packets for `idle`.
    ///
    /// # Errors
    /// The reason of the refusal. The switch then forwards the rule's packets.
    fn install(&mut self, rule: &OffloadRule, idle: Duration) -> Result<OffloadId, OffloadRefusal>;

    /// Returns whether the device can check TCP's windows of a rule's packets.
    fn window_check(&self, _rule: &OffloadRule) -> WindowCheck {
        WindowCheck::Never
    }

    /// Takes over both directions of a TCP connection, the original one first, and checks its segments against
    /// windows that begin as given. Segments that are outside or change the connection are left to the switch; those
    /// within get the mark [`MARK_IN_WINDOW`].
    ///
    /// # Errors
    /// Why it does not; nothing changed.
    fn install_checked(
        &mut self,
        _rules: [&OffloadRule; 2],
        _windows: &TcpWindows,
    ) -> Result<[OffloadId; 2], OffloadRefusal> {
        Err(Refusal::Unchecked.into())
    }

    /// Changes whether segments outside the windows are invalid. Returns false if the device does not take the change.
    fn set_checked(&mut self, _id: OffloadId, _is_checked: bool) -> bool {
        false
    }

    /// Ends the rules of both directions of a connection whose windows the device checks, when one of them is about to
    /// be removed. Returns the windows at the end, if the device still knew them.
    fn end_checked(&mut self, _id: OffloadId) -> Option<TcpWindows> {
        None
    }

    /// Returns why the device only marks the packets of a rule for the switch, or `None` if it forwards them.
    fn only_marks(&self, _id: OffloadId) -> Option<OffloadRefusal> {
        None
    }

    /// Removes a rule. The device forwards no packet by it that it receives after this returns. Returns the
    /// traffic since the last query.
    fn remove(&mut self, id: OffloadId) -> OffloadTraffic;

    /// Returns the state of a rule.
    fn status(&mut self, id: OffloadId) -> OffloadStatus;

    /// Returns how many packets the device passed to the switch, by reason.
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
            /// All reasons.
            pub const ALL: &[Refusal] = &[$(Refusal::$name,)*];

            /// Returns the name of the reason in counters.
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
    /// The protocol is neither TCP nor UDP.
    Protocol = "protocol", "it is neither TCP nor UDP";
    /// The connection is not established.
    NotEstablished = "not-established", "its connection is not established";
    /// An ALG reads the packets.
    Helper = "helper", "a helper (FTP, TFTP) reads its packets";
    /// The connection ended or changed.
    Ended = "ended", "its connection ended, or changed since it was offered";
    /// A flow changed.
    FlowChanged = "flow-changed", "a flow that its packets hit changed since it was offered";
    /// The device cannot offload packets from the in-port.
    InPort = "in-port", "packets of the port that it comes in on cannot be offloaded";
    /// The device cannot send to the output port.
    OutPort = "out-port", "packets cannot be sent directly to the port that it leaves by";
    /// A flow matches a header field that the device cannot match.
    Match = "match", "its flows look at headers that the device does not (TCP flags, IPv6 flow label)";
    /// The device cannot execute the actions.
    Actions = "actions", "its flows do what the device cannot";
    /// The device cannot encapsulate for the tunnel or decapsulate its packets.
    Tunnel = "tunnel", "the device does not support its tunnel (it may support VXLAN without extensions)";
    /// Received frames can exceed the MTU of the output port.
    Mtu = "mtu", "frames of the port that it comes in on can be too large for the port that it leaves by";
    /// This direction of the connection already has a rule.
    Twice = "twice", "the same direction of its connection is offloaded by another rule";
    /// The device has no free rule.
    Full = "full", "the device has no room";
    /// The device only marks the packets; the switch forwards them.
    Marked = "marked", "the device does not forward its packets, but marks them, which spares the switch a lookup";
    /// The device forwards the packets, but does not check windows.
    Unchecked = "unchecked", "the device forwards its packets, but does not check them against TCP's windows";
    /// The device reported an error.
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
