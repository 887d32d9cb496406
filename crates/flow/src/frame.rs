//! A packet together with the key that was read from it.

use crate::drop::DropReason;
use crate::extract;
use crate::key::FlowKey;
use base::PortNo;
use packet::Packet;

/// Where the headers of a frame begin, in bytes from its start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Layers {
    /// The network header, behind all VLAN tags.
    pub l3: u16,
    /// The transport header, or `None` where there is none to be read: not IP, truncated, or a
    /// fragment other than the first.
    pub l4: Option<u16>,
}

/// A connection that a packet was found to belong to; good as long as nothing that flows can see
/// of it changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ConnectionRef {
    /// Which one.
    pub id: u32,
    /// Which state of it: anything that flows can see of the connection changes this too.
    pub generation: u32,
    /// The packet runs against the connection's original direction.
    pub is_reply: bool,
}

/// A parsed packet: its bytes, the key read from them, and where the headers lie. The key and the
/// bytes always agree: whoever rewrites one rewrites the other.
#[derive(Debug)]
pub struct Frame {
    /// The bytes.
    pub packet: Packet,
    /// What can be matched.
    pub key: FlowKey,
    /// Where the headers lie.
    pub layers: Layers,
    /// The connection that connection tracking last found it to belong to, if that lives.
    pub connection: Option<ConnectionRef>,
}

/// Up to 32 frames that travel together.
pub type FrameBatch = arrayvec::ArrayVec<Frame, { base::limits::BATCH_SIZE }>;

impl Frame {
    /// Reads the headers of a packet from `in_port`. Headers that are cut short or lie about their
    /// length leave their fields zero, as in Open vSwitch (ovs: `lib/flow.c`, `miniflow_extract`);
    /// only a frame without a whole Ethernet header is refused.
    pub fn parse(packet: Packet, in_port: PortNo) -> Result<Frame, (Packet, DropReason)> {
        let mut key = FlowKey::new();
        match extract::extract(packet.data(), &mut key) {
            Some(layers) => {
                key.set_in_port_raw(in_port.0);
                Ok(Frame { packet, key, layers, connection: None })
            }
            None => Err((packet, DropReason::Malformed)),
        }
    }

    /// Puts a packet and a key that was read from it earlier together again, reading the headers'
    /// places anew. The key's metadata (port, recirculation, connection) is kept.
    pub fn resume(packet: Packet, key: FlowKey) -> Result<Frame, (Packet, DropReason)> {
        let mut scratch = FlowKey::new();
        match extract::extract(packet.data(), &mut scratch) {
            Some(layers) => Ok(Frame { packet, key, layers, connection: None }),
            None => Err((packet, DropReason::Malformed)),
        }
    }

    /// Forgets all that connection tracking said of the packet (`ct_clear`).
    pub fn clear_ct(&mut self) {
        self.key.clear_ct();
        self.connection = None;
    }

    /// The bytes from the network header on.
    pub fn l3(&self) -> &[u8] {
        self.packet.data().get(usize::from(self.layers.l3)..).unwrap_or_default()
    }

    /// The bytes from the network header on, to be changed in place.
    pub fn l3_mut(&mut self) -> &mut [u8] {
        self.packet.data_mut().get_mut(usize::from(self.layers.l3)..).unwrap_or_default()
    }

    /// The bytes from the transport header on, where there is one. IP's own length says where they
    /// end; Ethernet padding is not part of them.
    pub fn l4(&self) -> Option<&[u8]> {
        let start = usize::from(self.layers.l4?);
        let data = self.packet.data();
        let end = extract::ip_end(data, usize::from(self.layers.l3), self.key.eth_type())?;
        data.get(start..end.min(data.len()))
    }
}
