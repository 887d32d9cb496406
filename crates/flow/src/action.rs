//! What the datapath does with a packet.

use crate::ct::CtAction;
use crate::drop::DropReason;
use crate::field::Field;
use crate::hash::HashAlgorithm;
use crate::meter::MeterRef;
use crate::option::OptionMapping;
use crate::tunnel::{SetTunnel, TunnelKind, TunnelPush};
use base::{MacAddr, PortNo, RecircId};
use std::sync::Arc;

/// One step of the datapath. A flow's steps are carried out in order; a packet that no step sent
/// anywhere is dropped, with no step as the reason that says so.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Action {
    /// Send the packet, as it is now, out of a port.
    Output(PortNo),
    /// Send a copy of what comes first of the packet out of a port. A checksum that was left to be
    /// done is not.
    OutputCut {
        /// The port.
        port: PortNo,
        /// At most so many bytes.
        max_len: u32,
    },
    /// Carry these steps out on a copy of what comes first of the packet, as with [`Self::OutputCut`].
    CloneCut {
        /// At most so many bytes.
        max_len: u32,
        /// The steps.
        actions: Arc<[Action]>,
    },
    /// Carry out one list of steps or another, as long as the packet is; on a copy, where steps follow.
    CheckLen(Arc<CheckLen>),
    /// Let the packet through as far as the rate allows; drop it otherwise.
    Meter(MeterRef),
    /// Say which tunnel the packet shall leave by, for a device that puts the outer headers on itself.
    SetTunnel(Arc<SetTunnel>),
    /// Send a copy to the control side for an OpenFlow controller.
    Controller(ControllerAction),
    /// Rewrite a field of the packet, and of the key with it.
    Set(SetField),
    /// Put a VLAN tag in front of the others.
    PushVlan {
        /// Ethernet type, 0x8100 or 0x88a8.
        tpid: u16,
        /// Tag with [`crate::VLAN_PRESENT`] set.
        tci: u16,
    },
    /// Take the outer VLAN tag away.
    PopVlan,
    /// Give the packet, which had no Ethernet header, these addresses.
    PushEth {
        /// The source.
        source: MacAddr,
        /// The destination.
        destination: MacAddr,
    },
    /// The packet has no Ethernet header any more: its addresses are zero.
    PopEth,
    /// Send the packet through connection tracking, which writes the key's `ct_*` fields.
    Ct(Box<CtAction>),
    /// Forget the key's `ct_*` fields.
    CtClear,
    /// Work out the packet's hash for the key's `dp_hash`.
    Hash {
        /// Of what.
        algorithm: HashAlgorithm,
        /// Which of many hashes of the same.
        basis: u32,
    },
    /// Look the packet up once more with this recirculation id; a copy of it, where steps follow.
    Recirc(RecircId),
    /// Put a tunnel's outer headers in front.
    TunnelPush(Arc<TunnelPush>),
    /// Take a tunnel's outer headers away, and look up what was behind them as a packet from the
    /// tunnel's port; a copy of it, where steps follow.
    TunnelPop {
        /// The tunnel's port.
        port: PortNo,
        /// The protocol.
        kind: TunnelKind,
        /// The options that the key has fields for.
        options: Arc<[OptionMapping]>,
    },
    /// Carry these steps out on a copy; what they change is forgotten after them.
    Clone(Arc<[Action]>),
    /// Drop the packet, for this reason. Ends the list.
    Drop(DropReason),
}

/// Two lists of steps, for long packets and short ones.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct CheckLen {
    /// A long packet has more bytes, without the frame's checksum.
    pub bytes: u16,
    /// For long packets.
    pub greater: Box<[Action]>,
    /// For the others.
    pub less_equal: Box<[Action]>,
}

/// Rewrites bits of one field.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct SetField {
    /// The field, one that a packet carries (or `pkt_mark`).
    pub field: Field,
    /// The new bits.
    pub value: u128,
    /// Which bits of the field are rewritten.
    pub mask: u128,
}

/// A copy for a controller, with what the packet-in message says besides the packet.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ControllerAction {
    /// OpenFlow's reason: 0 no match, 1 action, 2 invalid TTL (OpenFlow 1.3's numbers).
    pub reason: u8,
    /// The state (registers, table, cookie) that the control side froze under this number.
    pub recirc_id: RecircId,
    /// Cookie of the flow that sends.
    pub rule_cookie: u64,
    /// The controller's id.
    pub controller_id: u16,
    /// At most so many bytes of the packet go into the message.
    pub max_len: u16,
    /// The message carries what is left to do, for the controller to resume.
    pub pauses: bool,
}
