//! The actions of the datapath.

use crate::ct::CtAction;
use crate::drop::DropReason;
use crate::field::Field;
use crate::hash::HashAlgorithm;
use crate::meter::MeterRef;
use crate::protocol::ToProtocol;
use crate::tunnel::{SetTunnel, TunnelEnd, TunnelPush};
use base::{MacAddr, PortNo, RecircId};
use std::sync::Arc;
use wire::LabelEntry;

/// One action of the datapath. The actions of a flow are executed in order. A packet that no action sends
/// anywhere is dropped, for [`DropReason::NoAction`].
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Action {
    /// Send the packet in its present form out of a port.
    Output(PortNo),
    /// Send a copy of the first bytes of the packet out of a port. A pending checksum offload is discarded.
    OutputCut {
        /// The port.
        port: PortNo,
        /// The maximum length in bytes.
        max_len: u32,
    },
    /// Execute these actions on a copy of the first bytes of the packet, as with [`Self::OutputCut`].
    CloneCut {
        /// The maximum length in bytes.
        max_len: u32,
        /// The actions.
        actions: Arc<[Action]>,
    },
    /// Execute one of two lists of actions, depending on the packet's length. If more actions follow, the
    /// list applies to a copy.
    CheckLen(Arc<CheckLen>),
    /// Let the packet through as far as the rate allows; drop it otherwise.
    Meter(MeterRef),
    /// Set the tunnel fields of the packet, for a device that adds the outer headers itself.
    SetTunnel(Arc<SetTunnel>),
    /// Send a copy to the control side, for an OpenFlow controller.
    Controller(ControllerAction),
    /// Send a copy to the state machine of a protocol.
    Protocol(ToProtocol),
    /// Rewrite a field of the packet and of its key.
    Set(SetField),
    /// Add an outer VLAN tag.
    PushVlan {
        /// Ethernet type, 0x8100 or 0x88a8.
        tpid: u16,
        /// Tag with [`crate::VLAN_PRESENT`] set.
        tci: u16,
    },
    /// Remove the outer VLAN tag.
    PopVlan,
    /// Add an Ethernet header with these addresses to a packet that has none.
    PushEth {
        /// The source.
        source: MacAddr,
        /// The destination.
        destination: MacAddr,
    },
    /// Remove the Ethernet header. In the buffer it stays, with zero addresses.
    PopEth,
    /// Put an MPLS label stack entry behind the Ethernet header and its tags, and give the packet this
    /// Ethernet type.
    PushMpls {
        /// Ethernet type of MPLS.
        ethertype: u16,
        /// The entry.
        entry: LabelEntry,
    },
    /// Take the outermost label stack entry away, and give the packet this Ethernet type. Behind the last entry
    /// of a packet without an Ethernet header, the type 0x6558 stands for a whole frame.
    PopMpls {
        /// Ethernet type of what is behind the entry.
        ethertype: u16,
    },
    /// Put an MPLS label stack entry in front of the packet, an Ethernet header included: it becomes a packet
    /// of this type without an Ethernet header.
    AddMpls {
        /// Ethernet type of MPLS.
        ethertype: u16,
        /// The entry.
        entry: LabelEntry,
    },
    /// Put an NSH header in front of the packet, an Ethernet header included. Its next protocol is that of the
    /// packet.
    PushNsh(Arc<[u8]>),
    /// Take the NSH header away.
    PopNsh,
    /// Send the packet through connection tracking, which writes the key's `ct_*` fields.
    Ct(Box<CtAction>),
    /// Clear the key's `ct_*` fields.
    CtClear,
    /// Compute the packet's hash and store it in the key's `dp_hash`.
    Hash {
        /// The fields that are hashed.
        algorithm: HashAlgorithm,
        /// The initial value of the hash.
        basis: u32,
    },
    /// Look the packet up again with this recirculation id. If more actions follow, a copy is looked up.
    Recirc(RecircId),
    /// Add a tunnel's outer headers.
    TunnelPush(Arc<TunnelPush>),
    /// Remove a tunnel's outer headers and look the inner packet up with the tunnel's port as its in-port. If
    /// more actions follow, this applies to a copy.
    TunnelPop {
        /// The tunnel's port.
        port: PortNo,
        /// The packets that it receives.
        end: TunnelEnd,
    },
    /// Execute these actions on a copy of the packet. Their changes do not affect the actions that follow.
    Clone(Arc<[Action]>),
    /// Drop the packet for this reason. This is the last action of its list.
    Drop(DropReason),
}

/// Two lists of actions, for long packets and for short ones.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct CheckLen {
    /// A packet is long if it has more bytes than this, without the frame check sequence.
    pub bytes: u16,
    /// The actions for long packets.
    pub greater: Box<[Action]>,
    /// The actions for all other packets.
    pub less_equal: Box<[Action]>,
}

/// Rewrites bits of one field.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct SetField {
    /// The field: a header field or `pkt_mark`.
    pub field: Field,
    /// The new bits.
    pub value: u128,
    /// The bits of the field that are rewritten.
    pub mask: u128,
}

/// A copy of the packet for a controller, with the other contents of the packet-in message.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ControllerAction {
    /// The reason, as OpenFlow 1.3 numbers it: 0 no match, 1 action, 2 invalid TTL.
    pub reason: u8,
    /// The frozen translation state (registers, table, cookie) that the control side stores under this
    /// number.
    pub recirc_id: RecircId,
    /// The cookie of the flow that sends the packet.
    pub rule_cookie: u64,
    /// The identifier of the controller connection.
    pub controller_id: u16,
    /// The maximum number of bytes of the packet in the message.
    pub max_len: u16,
    /// The message carries the remaining actions as a continuation, which the controller can resume.
    pub pauses: bool,
}
